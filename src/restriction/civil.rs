//! Dates and times in the exact shapes of the table specification's single-value JSON, and nothing looser.

use jiff::{SignedDuration, civil::Date};

/// Microseconds of one day.
pub(super) const MICROS_PER_DAY: i64 = 86_400_000_000;

const EPOCH: Date = Date::constant(1970, 1, 1);
const SECONDS_PER_DAY: i64 = 86_400;

/// `YYYY-MM-DD`, years 0001 to 9999: days since 1970-01-01.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else { return None };
    let (year, month, day) = (number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?);
    let in_range = (1..=9999).contains(&year);
    let date = Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    date.ok().filter(|_| in_range).and_then(days_since_epoch)
}

/// `HH:MM:SS[.f{1,6}]`, 00:00:00 to 23:59:59.999999: microseconds since midnight.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let &[h1, h2, b':', m1, m2, b':', s1, s2, ref fraction @ ..] = text.as_bytes() else { return None };
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    let micros = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) => {
            number(digits)? * 10_i64.pow(6 - digits.len() as u32)
        }
        _ => return None,
    };
    (hour < 24 && minute < 60 && second < 60)
        .then_some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

/// A date and a time with `T` between them, no zone: microseconds since 1970-01-01T00:00:00.
pub(super) fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    Some(i64::from(parse_date(date)?) * MICROS_PER_DAY + parse_time(time)?)
}

/// Days since 1970-01-01 as `YYYY-MM-DD`.
pub(super) fn format_date(days: i32) -> String {
    // Saturates outside the years -9999 to 9999; a literal is never there.
    EPOCH.saturating_add(SignedDuration::from_secs(i64::from(days) * SECONDS_PER_DAY)).to_string()
}

/// Microseconds since midnight as `HH:MM:SS.ffffff`.
pub(super) fn format_time(micros: i64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    format!("{:02}:{:02}:{:02}.{micros:06}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Microseconds since 1970-01-01T00:00:00 as `YYYY-MM-DDTHH:MM:SS.ffffff`.
pub(super) fn format_timestamp(micros: i64) -> String {
    // No 64-bit count of microseconds has more days than an i32 holds.
    let days = micros.div_euclid(MICROS_PER_DAY) as i32;
    format!("{}T{}", format_date(days), format_time(micros.rem_euclid(MICROS_PER_DAY)))
}

/// The civil date of a count of days; `None` outside the years -9999 to 9999.
pub(super) fn date_of_days(days: i64) -> Option<Date> {
    EPOCH.checked_add(SignedDuration::from_secs(days.checked_mul(SECONDS_PER_DAY)?)).ok()
}

/// Days since 1970-01-01.
pub(super) fn days_since_epoch(date: Date) -> Option<i32> {
    i32::try_from(date.duration_since(EPOCH).as_secs() / SECONDS_PER_DAY).ok()
}

/// The value of one to eighteen ASCII digits.
fn number(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_real_days_of_the_proleptic_calendar_in_one_exact_shape() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2024-02-29", 19_782),
            ("2000-02-29", 11_016),
            ("0001-01-01", -719_162),
            ("9999-12-31", 2_932_896),
        ] {
            assert_eq!(parse_date(text), Some(days), "{text}");
            assert_eq!(format_date(days), text);
        }
        for text in [
            "0000-01-01",
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-04-31",
            "2024-1-1",
            "24-01-01",
            "2024/01/01",
            " 2024-01-01",
            "2024-01-01 ",
            "+2024-01-01",
            "-2024-01-01",
            "10000-01-01",
            "２０２４-01-01",
            "2024-01-01T00:00:00",
            "2024-W01-1",
            "20240101",
            "",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_whole_seconds_and_up_to_six_digits_of_fraction() {
        for (text, micros, shown) in [
            ("00:00:00", 0, "00:00:00.000000"),
            ("23:59:59.999999", MICROS_PER_DAY - 1, "23:59:59.999999"),
            ("12:34:56.5", 45_296_500_000, "12:34:56.500000"),
            ("12:34:56.000001", 45_296_000_001, "12:34:56.000001"),
        ] {
            assert_eq!(parse_time(text), Some(micros), "{text}");
            assert_eq!(format_time(micros), shown);
        }
        for text in [
            "24:00:00",
            "23:60:00",
            "23:59:60",
            "12:34",
            "1:02:03",
            "12:34:56.",
            "12:34:56.1234567",
            "12:34:56,5",
            "12:34:56Z",
            "12:34:56+00:00",
            "12:34:56.5Z",
            "T12:34:56",
            "12:34:56 ",
            "",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn timestamps_have_a_t_and_no_zone() {
        for (text, micros, shown) in [
            ("1970-01-01T00:00:00", 0, "1970-01-01T00:00:00.000000"),
            ("1969-12-31T23:59:59.999999", -1, "1969-12-31T23:59:59.999999"),
            ("2024-07-15T12:34:56.5", 1_721_046_896_500_000, "2024-07-15T12:34:56.500000"),
        ] {
            assert_eq!(parse_timestamp(text), Some(micros), "{text}");
            assert_eq!(format_timestamp(micros), shown);
        }
        for text in [
            "2024-07-15 12:34:56",
            "2024-07-15t12:34:56",
            "2024-07-15T12:34:56Z",
            "2024-07-15T12:34:56+00:00",
            "2024-07-15T24:00:00",
            "2016-12-31T23:59:60",
            "2024-07-15",
            "2024-07-15T",
            "2024-07-15T12:34",
            "2024-07-15TT12:34:56",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
