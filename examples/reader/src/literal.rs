//! Literals of a row filter, typed by the column that they are compared with.

use iceberg::spec::PrimitiveType;
use jiff::{
    Span,
    civil::{Date, Time},
};
use serde_json::Value;

use crate::Refusal;

/// A literal as Arrow stores a value of the column's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `boolean`
    Boolean(bool),
    /// `int`, and `date` in days since 1970-01-01
    Int(i32),
    /// `long`, `time` in microseconds since midnight, and timestamps in micro- or nanoseconds since 1970
    Long(i64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `decimal`, unscaled
    Decimal(i128),
    /// `string`
    String(String),
}

impl Literal {
    /// Reads the single-value JSON of the table specification, exactly: no conversion between types, no rounding but
    /// that of a decimal text to the nearest float.
    ///
    /// # Errors
    ///
    /// When the value is not one of the type, or the type has no literals here.
    pub fn parse(value: &Value, data_type: &PrimitiveType) -> Result<Self, Refusal> {
        let literal = match data_type {
            PrimitiveType::Boolean => value.as_bool().map(Self::Boolean),
            PrimitiveType::Int => integer(value).map(Self::Int),
            PrimitiveType::Long => integer(value).map(Self::Long),
            // The shortest text of a float names it among the doubles as well: the detour rounds to the same float.
            PrimitiveType::Float => {
                value.as_f64().map(|double| double as f32).filter(|float| float.is_finite()).map(Self::Float)
            }
            PrimitiveType::Double => value.as_f64().map(Self::Double),
            PrimitiveType::Decimal { precision, scale } => {
                value.as_str().and_then(|text| decimal(text, *precision, *scale)).map(Self::Decimal)
            }
            PrimitiveType::Date => value.as_str().and_then(date).map(Self::Int),
            PrimitiveType::Time => value.as_str().and_then(|text| time(text, 6)).map(Self::Long),
            PrimitiveType::Timestamp => timestamp(value, 6, ""),
            PrimitiveType::Timestamptz => timestamp(value, 6, "+00:00"),
            PrimitiveType::TimestampNs => timestamp(value, 9, ""),
            PrimitiveType::TimestamptzNs => timestamp(value, 9, "+00:00"),
            PrimitiveType::String => value.as_str().map(|text| Self::String(text.to_owned())),
            PrimitiveType::Uuid | PrimitiveType::Fixed(_) | PrimitiveType::Binary => {
                return Err(Refusal::new(format!("this reader compares no values of the type {data_type}")));
            }
        };
        literal.ok_or_else(|| Refusal::new(format!("{value} is no value of the type {data_type}")))
    }
}

/// A JSON integer in range; `1.0` and `true` are none.
fn integer<T: TryFrom<i64>>(value: &Value) -> Option<T> {
    value.as_i64().and_then(|number| T::try_from(number).ok())
}

/// A decimal with exactly `scale` fraction digits and at most `precision` digits in all.
fn decimal(text: &str, precision: u32, scale: u32) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = if scale == 0 { (digits, "") } else { digits.split_once('.')? };
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) || fraction.len() != scale as usize {
        return None;
    }
    let unscaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    let limit = 10_i128.checked_pow(precision)?;
    (unscaled < limit).then_some(if text.starts_with('-') { -unscaled } else { unscaled })
}

/// Days since 1970-01-01 of `YYYY-MM-DD`.
pub(crate) fn date(text: &str) -> Option<i32> {
    if !has_shape(text, "0000-00-00") {
        return None;
    }
    let (year, month, day) = (text[..4].parse().ok()?, text[5..7].parse().ok()?, text[8..].parse().ok()?);
    let date = Date::new(year, month, day).ok()?;
    Some(days_since_epoch(date))
}

pub(crate) fn days_since_epoch(date: Date) -> i32 {
    // Years of four digits: a few million days.
    (date.duration_since(EPOCH).as_secs() / 86_400) as i32
}

/// The first day that dates are counted from.
pub(crate) const EPOCH: Date = Date::constant(1970, 1, 1);

/// The time of day of `HH:MM:SS.ffffff` in units of the last fraction digit.
pub(crate) fn time(text: &str, fraction_digits: usize) -> Option<i64> {
    if !has_shape(text, &format!("00:00:00.{}", "0".repeat(fraction_digits))) {
        return None;
    }
    let (hour, minute, second) =
        (text[..2].parse().ok()?, text[3..5].parse().ok()?, text[6..8].parse().ok()?);
    let time = Time::new(hour, minute, second, 0).ok()?;
    let fraction: i64 = text[9..].parse().ok()?;
    let seconds = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    Some(seconds * 10_i64.pow(fraction_digits as u32) + fraction)
}

fn timestamp(value: &Value, fraction_digits: usize, zone: &str) -> Option<Literal> {
    instant(value.as_str()?, fraction_digits, zone).map(Literal::Long)
}

/// The time since 1970 of `YYYY-MM-DDTHH:MM:SS.ffffff` and the zone, in units of the last fraction digit.
pub(crate) fn instant(text: &str, fraction_digits: usize, zone: &str) -> Option<i64> {
    let (day, clock) = text.strip_suffix(zone)?.split_once('T')?;
    let units_a_day = 86_400 * 10_i64.pow(fraction_digits as u32);
    // The first moments that 64 bits can hold lie inside a day whose beginning they cannot.
    let whole = i128::from(date(day)?) * i128::from(units_a_day) + i128::from(time(clock, fraction_digits)?);
    whole.try_into().ok()
}

/// Whether `text` has digits where `shape` has, and the same characters elsewhere.
fn has_shape(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text
            .bytes()
            .zip(shape.bytes())
            .all(|(byte, expected)| if expected == b'0' { byte.is_ascii_digit() } else { byte == expected })
}

/// The date a number of days after 1970-01-01, if its year has at most four digits.
pub(crate) fn date_from_days(days: i64) -> Option<Date> {
    EPOCH.checked_add(Span::new().try_days(days).ok()?).ok()
}
