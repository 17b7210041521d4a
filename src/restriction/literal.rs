use std::{cmp::Ordering, fmt, str::FromStr};

use super::civil;
use crate::table::PrimitiveType;

/// A literal of the type of the field that it is compared with.
///
/// Only [`from_boolean`](Self::from_boolean), [`from_number`](Self::from_number) and
/// [`from_string`](Self::from_string) make one, once, from the type of the column, with no loss and no
/// conversion between kinds:
///
/// | type | literal that fits |
/// |---|---|
/// | `boolean` | `true`, `false` |
/// | `int`, `long` | a number that is a mathematical integer in range: `1.0` fits, `1.5` does not |
/// | `float`, `double` | a number whose nearest value is finite and has the number as its shortest decimal form: `0.10` fits a `double`, `16777217` does not fit a `float` |
/// | `decimal(p, s)` | a number with at most `s` fraction digits and `p` digits in all, trailing zeros aside |
/// | `date` | a string `YYYY-MM-DD`, a real date of the years 0001 to 9999 |
/// | `time` | a string `HH:MM:SS[.f{1,6}]` |
/// | `timestamp` | a string `YYYY-MM-DDTHH:MM:SS[.f{1,6}]` without a zone |
/// | `string` | any string |
///
/// Nothing fits any other type. `-0` becomes `0`.
#[derive(Clone, Debug)]
pub enum Literal {
    /// `boolean`
    #[non_exhaustive]
    Boolean(bool),
    /// `int`
    #[non_exhaustive]
    Int(i32),
    /// `long`
    #[non_exhaustive]
    Long(i64),
    /// `float`: finite, never `-0.0`
    #[non_exhaustive]
    Float(f32),
    /// `double`: finite, never `-0.0`
    #[non_exhaustive]
    Double(f64),
    /// `decimal(precision, scale)`
    #[non_exhaustive]
    Decimal {
        /// The value times ten to the power of `scale`.
        unscaled: i128,
        /// Digits in all.
        precision: u8,
        /// Digits of the fraction.
        scale: u8,
    },
    /// `date`: days since 1970-01-01
    #[non_exhaustive]
    Date(i32),
    /// `time`: microseconds since midnight
    #[non_exhaustive]
    Time(i64),
    /// `timestamp`: microseconds since 1970-01-01T00:00:00
    #[non_exhaustive]
    Timestamp(i64),
    /// `string`
    #[non_exhaustive]
    String(Box<str>),
}

impl Literal {
    /// `true` or `false` for a column of this type.
    ///
    /// # Errors
    ///
    /// When the type is not `boolean`.
    pub fn from_boolean(value: bool, data_type: &PrimitiveType) -> Result<Self, LiteralError> {
        match data_type {
            PrimitiveType::Boolean => Ok(Self::Boolean(value)),
            _ => Err(LiteralError::kind(value, data_type)),
        }
    }

    /// A number in its source spelling (`-`, digits, fraction; no exponent) for a column of this type.
    ///
    /// # Errors
    ///
    /// When the type is not numeric, or cannot hold exactly this number.
    pub fn from_number(text: &str, data_type: &PrimitiveType) -> Result<Self, LiteralError> {
        let misfit = |reason| LiteralError::new(text, data_type, reason);
        let number = Number::parse(text).ok_or_else(|| misfit("it is not a plain decimal number".into()))?;
        match *data_type {
            PrimitiveType::Int => number.to_integer().map(Self::Int).map_err(misfit),
            PrimitiveType::Long => number.to_integer().map(Self::Long).map_err(misfit),
            // Adding zero turns -0.0 into 0.0 and nothing else into anything else.
            PrimitiveType::Float => {
                number.to_float::<f32>(text).map(|value| Self::Float(value + 0.0)).map_err(misfit)
            }
            PrimitiveType::Double => {
                number.to_float::<f64>(text).map(|value| Self::Double(value + 0.0)).map_err(misfit)
            }
            PrimitiveType::Decimal { precision, scale } => number
                .to_unscaled(precision, scale)
                .map(|unscaled| Self::Decimal { unscaled, precision, scale })
                .map_err(misfit),
            _ => Err(LiteralError::kind(text, data_type)),
        }
    }

    /// A decoded string for a column of this type.
    ///
    /// # Errors
    ///
    /// When the type is not written as a string, or the string is not an exact value of it.
    pub fn from_string(text: &str, data_type: &PrimitiveType) -> Result<Self, LiteralError> {
        let parsed = match data_type {
            PrimitiveType::String => return Ok(Self::String(text.into())),
            PrimitiveType::Date => civil::parse_date(text).map(Self::Date),
            PrimitiveType::Time => civil::parse_time(text).map(Self::Time),
            PrimitiveType::Timestamp => civil::parse_timestamp(text).map(Self::Timestamp),
            _ => return Err(LiteralError::kind(quoted(text), data_type)),
        };
        parsed.ok_or_else(|| {
            LiteralError::new(quoted(text), data_type, format!("it wants {}", wanted(data_type)))
        })
    }

    /// The type that the literal was made for.
    pub fn data_type(&self) -> PrimitiveType {
        match *self {
            Self::Boolean(_) => PrimitiveType::Boolean,
            Self::Int(_) => PrimitiveType::Int,
            Self::Long(_) => PrimitiveType::Long,
            Self::Float(_) => PrimitiveType::Float,
            Self::Double(_) => PrimitiveType::Double,
            Self::Decimal { precision, scale, .. } => PrimitiveType::Decimal { precision, scale },
            Self::Date(_) => PrimitiveType::Date,
            Self::Time(_) => PrimitiveType::Time,
            Self::Timestamp(_) => PrimitiveType::Timestamp,
            Self::String(_) => PrimitiveType::String,
        }
    }

    /// Whether this is a `float` or a `double`, whose columns can hold NaN.
    pub(super) fn is_floating(&self) -> bool {
        matches!(self, Self::Float(_) | Self::Double(_))
    }

    /// Whether this is the zero of a `float` or a `double`, which columns hold in two forms.
    pub(super) fn is_floating_zero(&self) -> bool {
        matches!(self, Self::Float(0.0) | Self::Double(0.0))
    }

    /// The value as JSON text, as the table specification writes single values.
    pub(super) fn wire_value(&self) -> WireValue<'_> {
        WireValue(self)
    }

    /// The value as JSON text in the canonical record.
    pub(super) fn record_value(&self) -> RecordValue<'_> {
        RecordValue(self)
    }
}

/// [`Literal::wire_value`]
pub(super) struct WireValue<'a>(&'a Literal);

impl fmt::Display for WireValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Literal::Boolean(value) => value.fmt(f),
            Literal::Int(value) => value.fmt(f),
            Literal::Long(value) => value.fmt(f),
            // The shortest form that reads back as the same value, always with a fraction or an exponent.
            Literal::Float(value) => fmt::Debug::fmt(value, f),
            Literal::Double(value) => fmt::Debug::fmt(value, f),
            Literal::Decimal { unscaled, scale, .. } => {
                write!(f, "\"{}\"", format_decimal(*unscaled, *scale))
            }
            Literal::Date(days) => write!(f, "\"{}\"", civil::format_date(*days)),
            Literal::Time(micros) => write!(f, "\"{}\"", civil::format_time(*micros)),
            Literal::Timestamp(micros) => write!(f, "\"{}\"", civil::format_timestamp(*micros)),
            Literal::String(text) => f.write_str(&quoted(text)),
        }
    }
}

/// [`Literal::record_value`]: the wire's, but floats as their bits.
pub(super) struct RecordValue<'a>(&'a Literal);

impl fmt::Display for RecordValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Literal::Float(value) => write!(f, "\"{:08x}\"", value.to_bits()),
            Literal::Double(value) => write!(f, "\"{:016x}\"", value.to_bits()),
            literal => literal.wire_value().fmt(f),
        }
    }
}

/// The order of the type; strings by Unicode code points. Literals of different types come in the order of
/// the variants.
impl Ord for Literal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Long(a), Self::Long(b)) => a.cmp(b),
            // Total as it stands: there is neither NaN nor -0.0.
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Double(a), Self::Double(b)) => a.total_cmp(b),
            (
                Self::Decimal { unscaled: a, precision: ap, scale: a_s },
                Self::Decimal { unscaled: b, precision: bp, scale: bs },
            ) => (a_s, ap, a).cmp(&(bs, bp, b)),
            (Self::Date(a), Self::Date(b)) => a.cmp(b),
            (Self::Time(a), Self::Time(b)) | (Self::Timestamp(a), Self::Timestamp(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl Literal {
    fn rank(&self) -> u8 {
        match self {
            Self::Boolean(_) => 0,
            Self::Int(_) => 1,
            Self::Long(_) => 2,
            Self::Float(_) => 3,
            Self::Double(_) => 4,
            Self::Decimal { .. } => 5,
            Self::Date(_) => 6,
            Self::Time(_) => 7,
            Self::Timestamp(_) => 8,
            Self::String(_) => 9,
        }
    }
}

impl PartialOrd for Literal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Literal {}

/// As SQL would write it: strings, dates and times in single quotes, which are doubled inside.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Self::Date(days) => write!(f, "'{}'", civil::format_date(*days)),
            Self::Time(micros) => write!(f, "'{}'", civil::format_time(*micros)),
            Self::Timestamp(micros) => write!(f, "'{}'", civil::format_timestamp(*micros)),
            Self::Decimal { unscaled, scale, .. } => f.write_str(&format_decimal(*unscaled, *scale)),
            Self::Boolean(_) | Self::Int(_) | Self::Long(_) | Self::Float(_) | Self::Double(_) => {
                self.wire_value().fmt(f)
            }
        }
    }
}

/// Why a literal does not fit a column. Its message is for an administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiteralError {
    literal: String,
    data_type: PrimitiveType,
    reason: String,
}

impl LiteralError {
    /// The type of the column.
    pub fn data_type(&self) -> &PrimitiveType {
        &self.data_type
    }

    fn new(literal: impl fmt::Display, data_type: &PrimitiveType, reason: String) -> Self {
        Self { literal: literal.to_string(), data_type: data_type.clone(), reason }
    }

    fn kind(literal: impl fmt::Display, data_type: &PrimitiveType) -> Self {
        Self::new(literal, data_type, format!("it wants {}", wanted(data_type)))
    }
}

impl fmt::Display for LiteralError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough to find the literal by; it may have 4 KiB.
        const SHOWN: usize = 60;
        match self.literal.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{}…", &self.literal[..end])?,
            None => f.write_str(&self.literal)?,
        }
        write!(f, " does not fit a column of type {}: {}", self.data_type, self.reason)
    }
}

impl std::error::Error for LiteralError {}

/// What a column of this type can be compared with, for messages.
fn wanted(data_type: &PrimitiveType) -> &'static str {
    match data_type {
        PrimitiveType::Boolean => "true or false",
        PrimitiveType::Int
        | PrimitiveType::Long
        | PrimitiveType::Float
        | PrimitiveType::Double
        | PrimitiveType::Decimal { .. } => "a number",
        PrimitiveType::Date => "a string YYYY-MM-DD, a real date of the years 0001 to 9999",
        PrimitiveType::Time => "a string HH:MM:SS with at most six digits of fraction",
        PrimitiveType::Timestamp => {
            "a string YYYY-MM-DDTHH:MM:SS with at most six digits of fraction and no zone"
        }
        PrimitiveType::String => "a string",
        _ => "no literal, only comparison with null",
    }
}

/// A plain decimal number in normal form, so that equal numbers are equal here.
#[derive(Clone, Copy, PartialEq)]
struct Number<'a> {
    /// False for zero.
    negative: bool,
    /// Digits without leading zeros; `0` when there are none.
    integer: &'a str,
    /// Digits without trailing zeros.
    fraction: &'a str,
}

impl<'a> Number<'a> {
    /// `"-"? ("0" | [1-9][0-9]*) ("." [0-9]+)?`
    fn parse(text: &'a str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (integer, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let leading_zero = integer.len() > 1 && integer.starts_with('0');
        if !digits(integer) || !digits(fraction) || leading_zero {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let zero = integer == "0" && fraction.is_empty();
        Some(Self { negative: negative && !zero, integer, fraction })
    }

    fn sign(&self) -> &'static str {
        if self.negative { "-" } else { "" }
    }

    fn to_integer<T: FromStr>(self) -> Result<T, String> {
        if !self.fraction.is_empty() {
            return Err("it is not an integer".into());
        }
        format!("{}{}", self.sign(), self.integer).parse().map_err(|_| "it is out of range".into())
    }

    /// `text` is what the number was parsed from.
    fn to_float<T: FromStr + fmt::Display>(self, text: &str) -> Result<T, String> {
        // `parse` takes the nearest value; `Display` writes the shortest decimal form that reads back as the
        // same value, without an exponent.
        let nearest: T = text.parse().map_err(|_| "it is not a plain decimal number".to_owned())?;
        let shortest = nearest.to_string();
        match Number::parse(&shortest) {
            Some(number) if number == self => Ok(nearest),
            Some(_) => Err(format!("it cannot be held exactly; the nearest value is {shortest}")),
            None => Err("it is out of range".into()),
        }
    }

    fn to_unscaled(self, precision: u8, scale: u8) -> Result<i128, String> {
        let width = usize::from(scale);
        if self.fraction.len() > width {
            return Err(format!("it has more than {scale} fraction digits"));
        }
        let digits = format!("{}{:0<width$}", self.integer, self.fraction);
        let digits = digits.trim_start_matches('0');
        if digits.len() > usize::from(precision) {
            return Err(format!(
                "it needs more than {precision} digits with {scale} of them in the fraction"
            ));
        }
        format!("{}0{digits}", self.sign()).parse().map_err(|_| "it is out of range".into())
    }
}

/// With exactly `scale` fraction digits.
fn format_decimal(unscaled: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    match digits.split_at(digits.len() - scale) {
        (integer, "") => format!("{sign}{integer}"),
        (integer, fraction) => format!("{sign}{integer}.{fraction}"),
    }
}

/// As a JSON string.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("any text is a JSON string")
}

#[cfg(test)]
mod tests {
    use PrimitiveType as T;

    use super::*;

    const DECIMAL_9_2: T = T::Decimal { precision: 9, scale: 2 };

    fn number(text: &str, data_type: &T) -> Option<String> {
        Literal::from_number(text, data_type).ok().map(|literal| literal.wire_value().to_string())
    }

    #[track_caller]
    fn fits(data_type: &T, cases: &[(&str, &str)]) {
        for (text, wire) in cases {
            assert_eq!(number(text, data_type).as_deref(), Some(*wire), "{text} as {data_type}");
        }
    }

    #[track_caller]
    fn misfits(data_type: &T, cases: &[&str]) {
        for text in cases {
            assert_eq!(number(text, data_type), None, "{text} as {data_type}");
        }
    }

    #[test]
    fn a_boolean_fits_only_a_boolean_column() {
        assert_eq!(Literal::from_boolean(true, &T::Boolean), Ok(Literal::Boolean(true)));
        for data_type in [T::Int, T::String, T::Variant, T::Binary] {
            assert!(Literal::from_boolean(true, &data_type).is_err(), "{data_type}");
        }
        assert!(Literal::from_string("true", &T::Boolean).is_err());
        assert!(Literal::from_number("1", &T::Boolean).is_err());
    }

    #[test]
    fn int_takes_mathematical_integers_in_range() {
        fits(
            &T::Int,
            &[
                ("0", "0"),
                ("-0", "0"),
                ("-0.00", "0"),
                ("1.0", "1"),
                ("2147483647", "2147483647"),
                ("-2147483648.000", "-2147483648"),
            ],
        );
        misfits(&T::Int, &["1.5", "2147483648", "-2147483649", "0.0000001"]);
        fits(&T::Int, &[(&format!("1.{}", "0".repeat(254)), "1")]);
    }

    #[test]
    fn long_takes_mathematical_integers_in_range() {
        fits(
            &T::Long,
            &[
                ("2147483648", "2147483648"),
                ("9223372036854775807", "9223372036854775807"),
                ("-9223372036854775808", "-9223372036854775808"),
                ("9007199254740993.0", "9007199254740993"),
            ],
        );
        misfits(&T::Long, &["9223372036854775808", "-9223372036854775809", "0.5", &"9".repeat(256)]);
    }

    #[test]
    fn float_takes_numbers_that_are_their_own_shortest_form() {
        fits(
            &T::Float,
            &[
                ("0.1", "0.1"),
                ("0.10", "0.1"),
                ("1", "1.0"),
                ("16777216", "16777216.0"),
                ("-0", "0.0"),
                ("-0.0", "0.0"),
                ("340282350000000000000000000000000000000", "3.4028235e38"),
            ],
        );
        misfits(
            &T::Float,
            &[
                "16777217",
                "0.1000000014901161193847656",
                "3.14159265358979",
                "340282360000000000000000000000000000000",
                &format!("0.{}1", "0".repeat(60)),
            ],
        );
    }

    #[test]
    fn double_takes_numbers_that_are_their_own_shortest_form() {
        fits(
            &T::Double,
            &[
                ("0.1", "0.1"),
                ("0.10", "0.1"),
                ("16777217", "16777217.0"),
                ("3.14159265358979", "3.14159265358979"),
                ("-0.0", "0.0"),
                ("-1.5", "-1.5"),
            ],
        );
        misfits(
            &T::Double,
            &[
                "9007199254740993",
                "0.1000000000000000055511151231257827",
                "3.141592653589793238",
                &"9".repeat(256),
                &format!("-0.{}1", "0".repeat(400)),
            ],
        );
        assert!(Literal::from_number(&format!("1{}", "0".repeat(200)), &T::Double).is_ok());
        assert!(Literal::from_number(&format!("1{}", "0".repeat(255)), &T::Double).is_ok());
    }

    #[test]
    fn out_of_range_is_said_when_the_nearest_float_is_infinite() {
        let error = Literal::from_number(&"9".repeat(60), &T::Float).unwrap_err();
        assert!(
            error.to_string().ends_with("does not fit a column of type float: it is out of range"),
            "{error}"
        );
    }

    #[test]
    fn decimal_takes_numbers_within_precision_and_scale() {
        fits(
            &DECIMAL_9_2,
            &[
                ("1.5", "\"1.50\""),
                ("1.50", "\"1.50\""),
                ("1.500000", "\"1.50\""),
                ("-0.05", "\"-0.05\""),
                ("-0.00", "\"0.00\""),
                ("9999999.99", "\"9999999.99\""),
                ("-9999999.99", "\"-9999999.99\""),
                ("7", "\"7.00\""),
            ],
        );
        misfits(&DECIMAL_9_2, &["1.505", "10000000", "10000000.00", "-10000000.00", "0.001"]);
        fits(
            &T::Decimal { precision: 38, scale: 0 },
            &[(&"9".repeat(38), &format!("\"{}\"", "9".repeat(38))), ("-1", "\"-1\"")],
        );
        misfits(&T::Decimal { precision: 38, scale: 0 }, &[&"9".repeat(39), "0.5"]);
        fits(
            &T::Decimal { precision: 38, scale: 38 },
            &[(&format!("-0.{}", "9".repeat(38)), &format!("\"-0.{}\"", "9".repeat(38)))],
        );
        misfits(&T::Decimal { precision: 38, scale: 38 }, &["1"]);
        misfits(&T::Decimal { precision: 255, scale: 0 }, &[&"9".repeat(200)]);
    }

    #[test]
    fn one_and_a_half_is_one_value_in_both_spellings() {
        assert_eq!(Literal::from_number("1.5", &DECIMAL_9_2), Literal::from_number("1.50", &DECIMAL_9_2));
    }

    #[test]
    fn numbers_outside_the_grammar_fit_nothing() {
        for text in
            ["", "-", "+1", "01", "1.", ".5", "1e5", "1_000", "NaN", "inf", "-inf", "0x1", " 1", "--1", "١"]
        {
            for data_type in [T::Int, T::Long, T::Float, T::Double, DECIMAL_9_2] {
                assert!(Literal::from_number(text, &data_type).is_err(), "{text:?} as {data_type}");
            }
        }
    }

    #[test]
    fn dates_times_and_timestamps_come_from_strings_of_exact_shape() {
        for (text, data_type, wire) in [
            ("2024-07-15", T::Date, "\"2024-07-15\""),
            ("0001-01-01", T::Date, "\"0001-01-01\""),
            ("12:34:56", T::Time, "\"12:34:56.000000\""),
            ("12:34:56.7", T::Time, "\"12:34:56.700000\""),
            ("2024-07-15T12:34:56", T::Timestamp, "\"2024-07-15T12:34:56.000000\""),
            ("0001-01-01T00:00:00.000001", T::Timestamp, "\"0001-01-01T00:00:00.000001\""),
            ("9999-12-31T23:59:59.999999", T::Timestamp, "\"9999-12-31T23:59:59.999999\""),
        ] {
            let literal = Literal::from_string(text, &data_type).unwrap();
            assert_eq!(literal.wire_value().to_string(), wire);
            assert_eq!(literal.data_type(), data_type);
        }
        for (text, data_type) in
            [("2024-02-30", T::Date), ("24:00:00", T::Time), ("2024-07-15T12:34:56Z", T::Timestamp)]
        {
            assert!(Literal::from_string(text, &data_type).is_err(), "{text}");
        }
    }

    #[test]
    fn any_string_fits_a_string_column_exactly_as_it_is() {
        for text in ["", " ", "US", "1", "null", "e\u{301}", "\u{e9}", "𝄞", "\u{1}\"\\"] {
            assert_eq!(Literal::from_string(text, &T::String), Ok(Literal::String(text.into())));
        }
        assert!(Literal::from_number("1", &T::String).is_err());
    }

    #[test]
    fn strings_never_fit_numbers() {
        for data_type in [T::Int, T::Long, T::Float, T::Double, DECIMAL_9_2] {
            assert!(Literal::from_string("1", &data_type).is_err(), "{data_type}");
        }
    }

    #[test]
    fn types_outside_the_table_take_null_tests_only() {
        for data_type in [
            T::Timestamptz,
            T::TimestampNs,
            T::TimestamptzNs,
            T::Uuid,
            T::Fixed(16),
            T::Binary,
            T::Variant,
            T::Unknown,
            T::Geometry,
            T::Geography,
            T::Unrecognized("blob".into()),
        ] {
            let errors = [
                Literal::from_boolean(true, &data_type),
                Literal::from_number("1", &data_type),
                Literal::from_string("2024-07-15T12:34:56", &data_type),
            ]
            .map(Result::unwrap_err);
            for error in errors {
                assert!(
                    error.to_string().ends_with("it wants no literal, only comparison with null"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn messages_name_literal_type_and_reason() {
        for (error, message) in [
            (
                Literal::from_number("1.5", &T::Int),
                "1.5 does not fit a column of type int: it is not an integer",
            ),
            (
                Literal::from_number("16777217", &T::Float),
                "16777217 does not fit a column of type float: it cannot be held exactly; the nearest value is \
                 16777216",
            ),
            (
                Literal::from_number("1.505", &DECIMAL_9_2),
                "1.505 does not fit a column of type decimal(9, 2): it has more than 2 fraction digits",
            ),
            (
                Literal::from_string("US", &T::Long),
                "\"US\" does not fit a column of type long: it wants a number",
            ),
            (
                Literal::from_boolean(false, &T::String),
                "false does not fit a column of type string: it wants a string",
            ),
        ] {
            assert_eq!(error.unwrap_err().to_string(), message);
        }
        let long = Literal::from_string(&"é".repeat(2000), &T::Date).unwrap_err().to_string();
        assert!(long.starts_with("\"ééé") && long.contains("é… does not fit") && long.len() < 300, "{long}");
    }

    #[test]
    fn the_order_is_the_one_of_the_type() {
        let sorted = |data_type: &T, texts: &[&str]| {
            let mut literals: Vec<_> =
                texts.iter().map(|text| Literal::from_number(text, data_type).unwrap()).collect();
            literals.sort();
            literals.iter().map(Literal::to_string).collect::<Vec<_>>()
        };
        assert_eq!(sorted(&T::Int, &["10", "9", "-1"]), ["-1", "9", "10"]);
        assert_eq!(sorted(&T::Double, &["10", "9.5", "-1"]), ["-1.0", "9.5", "10.0"]);
        assert_eq!(sorted(&DECIMAL_9_2, &["10", "9.5", "-1"]), ["-1.00", "9.50", "10.00"]);
        // U+FFFF comes before U+10000 by code points, after it by UTF-16 units.
        let string = |text| Literal::from_string(text, &T::String).unwrap();
        assert!(string("\u{ffff}") < string("\u{10000}"));
        assert!(string("Z") < string("a"));
    }

    #[test]
    fn the_record_has_float_bits_in_full_width() {
        for (text, data_type, record) in [
            ("0", T::Float, "\"00000000\""),
            ("1", T::Float, "\"3f800000\""),
            ("-1.5", T::Double, "\"bff8000000000000\""),
            ("0", T::Double, "\"0000000000000000\""),
            ("1.5", DECIMAL_9_2, "\"1.50\""),
            ("1", T::Int, "1"),
        ] {
            assert_eq!(Literal::from_number(text, &data_type).unwrap().record_value().to_string(), record);
        }
    }

    #[test]
    fn the_readable_form_doubles_single_quotes() {
        assert_eq!(Literal::String("O'Neill".into()).to_string(), "'O''Neill'");
        assert_eq!(Literal::from_string("2024-07-15", &T::Date).unwrap().to_string(), "'2024-07-15'");
        assert_eq!(Literal::from_number("1.5", &DECIMAL_9_2).unwrap().to_string(), "1.50");
    }
}
