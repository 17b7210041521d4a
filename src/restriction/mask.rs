//! The reference meaning of actions, as the Iceberg REST schema words them.

use std::fmt;

use jiff::civil::Date;
use sha2::{Digest, Sha256};

use super::{
    action::{Action, ActionError},
    civil,
    value::Value,
};
use crate::table::{Field, PrimitiveType, Type};

/// The fewest bytes of salt that a reader may use for one query.
const MIN_SALT: usize = 16;

const NANOS_PER_DAY: i64 = civil::MICROS_PER_DAY * 1000;

/// What a reader returns in place of `value`, a value of a field of type `type`.
///
/// Null stays null, except under `mask-to-fixed-value`. `salt` is what the reader made at random for the
/// query, at least 16 bytes; only `sha-256-query-local` reads it. Whether the field is optional, which
/// `replace-with-null` asks for, is not known here: see [`Action::check`].
///
/// ```
/// use iceberg_read_restrictions::restriction::{Action, Value, mask};
/// use iceberg_read_restrictions::table::{PrimitiveType, Type};
///
/// let phone = Value::String("4111-1111-1111-4444".into());
/// let shown = mask(Action::ShowLast4, &phone, &Type::Primitive(PrimitiveType::String), &[])?;
/// assert_eq!(shown, Value::String("nnnn-nnnn-nnnn-4444".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When the action does not fit the type, the value is not of the type, the salt is too short, or the result
/// cannot be represented: a truncation that leaves the years -9999 to 9999 or the range of the type.
pub fn mask(action: Action, value: &Value, r#type: &Type, salt: &[u8]) -> Result<Value, MaskError> {
    action.check(Field { id: 0, name: "", r#type, required: false }).map_err(MaskError::Action)?;
    if !value.is_of(r#type) {
        return Err(MaskError::WrongType { expected: r#type.to_string() });
    }
    match action {
        Action::MaskToFixedValue => fixed_value(r#type),
        Action::ReplaceWithNull => Ok(Value::Null),
        _ if *value == Value::Null => Ok(Value::Null),
        Action::MaskAlphanum => shown(value, |_, _| false),
        Action::ShowFirst4 => shown(value, |index, _| index < 4),
        Action::ShowLast4 => shown(value, |index, count| index + 4 >= count),
        Action::TruncateToYear => truncated(value, Date::first_of_year),
        Action::TruncateToMonth => truncated(value, Date::first_of_month),
        Action::Sha256Global => hashed(value, &[]),
        Action::Sha256QueryLocal if salt.len() < MIN_SALT => Err(MaskError::ShortSalt),
        Action::Sha256QueryLocal => hashed(value, salt),
    }
}

/// The string with every code point redacted but those to keep, by their index and the count of all.
fn shown(value: &Value, kept: impl Fn(usize, usize) -> bool) -> Result<Value, MaskError> {
    let Value::String(text) = value else { return Err(MaskError::WrongType { expected: "string".into() }) };
    let count = text.chars().count();
    let redacted = text
        .chars()
        .enumerate()
        .map(|(index, character)| if kept(index, count) { character } else { redact(character) });
    Ok(Value::String(redacted.collect()))
}

fn redact(character: char) -> char {
    match character {
        '0'..='9' => 'n',
        '(' | ')' | ',' | '.' | '-' | '@' => character,
        _ => 'x',
    }
}

/// The value of `mask-to-fixed-value`.
fn fixed_value(r#type: &Type) -> Result<Value, MaskError> {
    use PrimitiveType as P;

    Ok(match r#type {
        Type::Struct(fields) => {
            let values: Result<_, _> = fields.iter().map(|field| fixed_value(&field.r#type)).collect();
            Value::Struct(values?)
        }
        Type::List(_) => Value::List(Vec::new()),
        Type::Map(..) => Value::Map(Vec::new()),
        Type::Primitive(primitive) => match primitive {
            P::Boolean => Value::Boolean(false),
            P::Int => Value::Int(0),
            P::Long => Value::Long(0),
            P::Float => Value::Float(0.0),
            P::Double => Value::Double(0.0),
            &P::Decimal { precision, scale } => Value::Decimal { unscaled: 0, precision, scale },
            P::Date => Value::Date(0),
            P::Time => Value::Time(0),
            P::Timestamp => Value::Timestamp(0),
            P::Timestamptz => Value::Timestamptz(0),
            P::TimestampNs => Value::TimestampNs(0),
            P::TimestamptzNs => Value::TimestamptzNs(0),
            P::String => Value::String("XXXXXXXX".into()),
            P::Uuid => Value::Uuid([0; 16]),
            P::Fixed(length) => Value::Fixed(zero_bytes(*length)?),
            P::Binary => Value::Binary(Vec::new()),
            P::Variant => {
                Value::Variant { metadata: EMPTY_VARIANT_METADATA.into(), value: EMPTY_VARIANT_OBJECT.into() }
            }
            P::Unknown | P::Geometry | P::Geography | P::Unrecognized(_) => {
                let action = Action::MaskToFixedValue;
                return Err(MaskError::Action(ActionError::Type { action, found: primitive.to_string() }));
            }
        },
    })
}

/// Version 1, an empty dictionary, its end at offset 0.
const EMPTY_VARIANT_METADATA: [u8; 3] = [0x01, 0x00, 0x00];

/// An object with no fields, its end at offset 0.
const EMPTY_VARIANT_OBJECT: [u8; 3] = [0x02, 0x00, 0x00];

/// Zero bytes for a `fixed` whose length a schema may claim to be anything.
fn zero_bytes(length: u64) -> Result<Vec<u8>, MaskError> {
    let length = usize::try_from(length).map_err(|_| MaskError::OutOfRange)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| MaskError::OutOfRange)?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// The start of the period that `start` finds for a date, at midnight for timestamps.
fn truncated(value: &Value, start: fn(Date) -> Date) -> Result<Value, MaskError> {
    let days = |days: i64| civil::date_of_days(days).map(start).and_then(civil::days_since_epoch);
    let instant = |ticks: i64, per_day: i64| {
        days(ticks.div_euclid(per_day)).and_then(|days| i64::from(days).checked_mul(per_day))
    };
    let truncated = match *value {
        Value::Date(date) => days(date.into()).map(Value::Date),
        Value::Timestamp(micros) => instant(micros, civil::MICROS_PER_DAY).map(Value::Timestamp),
        Value::Timestamptz(micros) => instant(micros, civil::MICROS_PER_DAY).map(Value::Timestamptz),
        Value::TimestampNs(nanos) => instant(nanos, NANOS_PER_DAY).map(Value::TimestampNs),
        Value::TimestamptzNs(nanos) => instant(nanos, NANOS_PER_DAY).map(Value::TimestamptzNs),
        _ => return Err(MaskError::WrongType { expected: "date or timestamp".into() }),
    };
    truncated.ok_or(MaskError::OutOfRange)
}

/// SHA-256 over the salt and the value, in the value's own type.
fn hashed(value: &Value, salt: &[u8]) -> Result<Value, MaskError> {
    let digest =
        |bytes: &[u8]| -> [u8; 32] { Sha256::new().chain_update(salt).chain_update(bytes).finalize().into() };
    Ok(match value {
        Value::String(text) => {
            Value::String(digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
        }
        Value::Int(number) => {
            let [a, b, c, d, ..] = digest(&number.to_le_bytes());
            Value::Int(i32::from_le_bytes([a, b, c, d]))
        }
        Value::Long(number) => {
            let [a, b, c, d, e, f, g, h, ..] = digest(&number.to_le_bytes());
            Value::Long(i64::from_le_bytes([a, b, c, d, e, f, g, h]))
        }
        Value::Binary(bytes) => Value::Binary(digest(bytes).into()),
        _ => return Err(MaskError::WrongType { expected: "string, int, long or binary".into() }),
    })
}

/// Why a value cannot be masked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MaskError {
    /// The action does not fit the type.
    Action(ActionError),
    /// The value is not of the type.
    WrongType {
        /// The type.
        expected: String,
    },
    /// The salt has less than 16 bytes.
    ShortSalt,
    /// The result cannot be represented.
    OutOfRange,
}

impl fmt::Display for MaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(error) => error.fmt(f),
            Self::WrongType { expected } => write!(f, "the value is not of type {expected}"),
            Self::ShortSalt => write!(f, "the salt has less than {MIN_SALT} bytes"),
            Self::OutOfRange => f.write_str("the masked value cannot be represented"),
        }
    }
}

impl std::error::Error for MaskError {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::table::NestedField;

    const SALT: [u8; 16] = *b"0123456789abcdef";

    fn primitive(text: &str) -> Type {
        Type::Primitive(PrimitiveType::parse(text))
    }

    fn masked(action: Action, value: Value, r#type: &str) -> Value {
        mask(action, &value, &primitive(r#type), &SALT).unwrap()
    }

    fn string(text: &str) -> Value {
        Value::String(text.into())
    }

    /// Days since 1970-01-01.
    fn days(text: &str) -> i64 {
        civil::parse_date(text).unwrap().into()
    }

    #[test]
    fn mask_alphanum_redacts_digits_to_n_and_all_but_six_marks_to_x() {
        for (input, output) in [
            ("iceberg16112018@apache.org", "xxxxxxxnnnnnnnn@xxxxxx.xxx"),
            ("(555) 123-4567", "(nnn)xnnn-nnnn"),
            ("a.b,c", "x.x,x"),
            ("٣٤٥", "xxx"),
            ("e\u{301}𝄞\n", "xxxx"),
            ("", ""),
        ] {
            assert_eq!(masked(Action::MaskAlphanum, string(input), "string"), string(output), "{input}");
        }
    }

    #[test]
    fn show_first_4_keeps_four_code_points() {
        for (input, output) in [
            ("iceberg16112018@apache.org", "icebxxxnnnnnnnn@xxxxxx.xxx"),
            ("äöü𝄞ß1", "äöü𝄞xn"),
            ("1234", "1234"),
            ("ab", "ab"),
            ("", ""),
        ] {
            assert_eq!(masked(Action::ShowFirst4, string(input), "string"), string(output), "{input}");
        }
    }

    #[test]
    fn show_last_4_keeps_four_code_points() {
        for (input, output) in [
            ("4111-1111-1111-4444", "nnnn-nnnn-nnnn-4444"),
            ("1ßäöü𝄞", "nxäöü𝄞"),
            ("1234", "1234"),
            ("ab", "ab"),
        ] {
            assert_eq!(masked(Action::ShowLast4, string(input), "string"), string(output), "{input}");
        }
    }

    #[test]
    fn every_type_has_its_fixed_value_which_replaces_null_too() {
        for (r#type, input, fixed) in [
            ("boolean", Value::Boolean(true), Value::Boolean(false)),
            ("int", Value::Int(7), Value::Int(0)),
            ("long", Value::Long(7), Value::Long(0)),
            ("float", Value::Float(f32::NAN), Value::Float(0.0)),
            ("double", Value::Double(7.0), Value::Double(0.0)),
            (
                "decimal(9, 2)",
                Value::Decimal { unscaled: 7, precision: 9, scale: 2 },
                Value::Decimal { unscaled: 0, precision: 9, scale: 2 },
            ),
            ("date", Value::Date(7), Value::Date(0)),
            ("time", Value::Time(7), Value::Time(0)),
            ("timestamp", Value::Timestamp(7), Value::Timestamp(0)),
            ("timestamptz", Value::Timestamptz(7), Value::Timestamptz(0)),
            ("timestamp_ns", Value::TimestampNs(7), Value::TimestampNs(0)),
            ("timestamptz_ns", Value::TimestamptzNs(7), Value::TimestamptzNs(0)),
            ("string", string("secret"), string("XXXXXXXX")),
            ("uuid", Value::Uuid([7; 16]), Value::Uuid([0; 16])),
            ("fixed[3]", Value::Fixed(vec![7; 3]), Value::Fixed(vec![0; 3])),
            ("binary", Value::Binary(vec![7]), Value::Binary(vec![])),
            (
                "variant",
                Value::Variant { metadata: vec![1, 0, 0], value: vec![0x0c, 7] },
                Value::Variant { metadata: vec![1, 0, 0], value: vec![2, 0, 0] },
            ),
        ] {
            assert_eq!(masked(Action::MaskToFixedValue, input, r#type), fixed, "{type}");
            assert_eq!(masked(Action::MaskToFixedValue, Value::Null, r#type), fixed, "null {type}");
        }
    }

    #[test]
    fn a_struct_gets_the_fixed_value_of_each_field_and_collections_are_emptied() {
        let field = |r#type| NestedField { id: 2, name: "y".into(), r#type, required: false };
        let list = Type::List(Arc::new(field(primitive("geometry"))));
        let map = Type::Map(Arc::new(field(primitive("string"))), Arc::new(field(primitive("int"))));
        let inner = Type::Struct([field(primitive("string")), field(list.clone())].into());
        let outer = Type::Struct([field(primitive("int")), field(inner), field(map.clone())].into());
        let fixed = |value: &Value, r#type: &Type| mask(Action::MaskToFixedValue, value, r#type, &[]);
        let inner = Value::Struct(vec![string("XXXXXXXX"), Value::List(vec![])]);
        assert_eq!(
            fixed(&Value::Null, &outer),
            Ok(Value::Struct(vec![Value::Int(0), inner, Value::Map(vec![])]))
        );
        assert_eq!(fixed(&Value::Map(vec![(string("a"), Value::Int(1))]), &map), Ok(Value::Map(vec![])));
        assert_eq!(fixed(&Value::List(vec![Value::Null]), &list), Ok(Value::List(vec![])));
    }

    #[test]
    fn replace_with_null_replaces_every_value() {
        assert_eq!(masked(Action::ReplaceWithNull, string("secret"), "string"), Value::Null);
        assert_eq!(masked(Action::ReplaceWithNull, Value::Null, "geometry"), Value::Null);
    }

    #[test]
    fn null_stays_null_under_every_action_but_the_fixed_value() {
        for (action, r#type) in [
            (Action::MaskAlphanum, "string"),
            (Action::ShowFirst4, "string"),
            (Action::ShowLast4, "string"),
            (Action::TruncateToYear, "date"),
            (Action::TruncateToMonth, "timestamptz_ns"),
            (Action::Sha256Global, "int"),
            (Action::Sha256QueryLocal, "binary"),
        ] {
            assert_eq!(masked(action, Value::Null, r#type), Value::Null, "{action}");
        }
    }

    #[test]
    fn dates_go_to_the_first_day_before_and_after_1970() {
        for (input, year, month) in [
            ("2024-07-15", "2024-01-01", "2024-07-01"),
            ("1969-07-15", "1969-01-01", "1969-07-01"),
            ("1970-01-01", "1970-01-01", "1970-01-01"),
            ("0001-12-31", "0001-01-01", "0001-12-01"),
        ] {
            let date = |text| Value::Date(days(text) as i32);
            assert_eq!(masked(Action::TruncateToYear, date(input), "date"), date(year));
            assert_eq!(masked(Action::TruncateToMonth, date(input), "date"), date(month));
        }
    }

    #[test]
    fn timestamps_go_to_midnight_of_the_first_day() {
        let micros = |text: &str, time: i64| days(text) * civil::MICROS_PER_DAY + time;
        let nanos = |text: &str, time: i64| days(text) * NANOS_PER_DAY + time;
        for (r#type, input, output) in [
            (
                "timestamp",
                Value::Timestamp(micros("2024-07-15", 1)),
                Value::Timestamp(micros("2024-07-01", 0)),
            ),
            (
                "timestamptz",
                Value::Timestamptz(micros("1969-12-31", 86_399_999_999)),
                Value::Timestamptz(micros("1969-12-01", 0)),
            ),
            ("timestamp_ns", Value::TimestampNs(-1), Value::TimestampNs(nanos("1969-12-01", 0))),
            (
                "timestamptz_ns",
                Value::TimestamptzNs(nanos("2024-02-29", 1)),
                Value::TimestamptzNs(nanos("2024-02-01", 0)),
            ),
        ] {
            assert_eq!(masked(Action::TruncateToMonth, input, r#type), output);
        }
    }

    #[test]
    fn a_truncation_out_of_range_is_an_error() {
        let truncate = |action, value, r#type| mask(action, &value, &primitive(r#type), &[]);
        // The first representable nanosecond is in September 1677.
        assert_eq!(
            truncate(Action::TruncateToYear, Value::TimestampNs(i64::MIN), "timestamp_ns"),
            Err(MaskError::OutOfRange)
        );
        let last = truncate(Action::TruncateToYear, Value::TimestampNs(i64::MAX), "timestamp_ns");
        assert_eq!(last, Ok(Value::TimestampNs(days("2262-01-01") * NANOS_PER_DAY)));
        assert_eq!(
            truncate(Action::TruncateToYear, Value::Date(i32::MAX), "date"),
            Err(MaskError::OutOfRange)
        );
        assert_eq!(
            truncate(Action::TruncateToMonth, Value::Timestamp(i64::MIN), "timestamp"),
            Err(MaskError::OutOfRange)
        );
    }

    #[test]
    fn sha_256_keeps_the_type() {
        assert_eq!(
            masked(Action::Sha256Global, string("hello"), "string"),
            string("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
        );
        for (input, output) in [(42, -290_282_264), (0, -1_738_457_121), (-1, 454_268_333)] {
            assert_eq!(masked(Action::Sha256Global, Value::Int(input), "int"), Value::Int(output));
        }
        for (input, output) in [
            (42, -4_111_196_313_959_201_555),
            (0, 8_794_265_229_978_523_055),
            (-1, 6_759_447_113_877_070_610),
        ] {
            assert_eq!(masked(Action::Sha256Global, Value::Long(input), "long"), Value::Long(output));
        }
        let Value::Binary(digest) = masked(Action::Sha256Global, Value::Binary(b"hello".into()), "binary")
        else {
            panic!("binary stays binary");
        };
        assert_eq!((digest.len(), &digest[..4]), (32, &[0x2c, 0xf2, 0x4d, 0xba][..]));
    }

    #[test]
    fn sha_256_query_local_hashes_the_salt_in_front_of_the_value() {
        // printf '%s' 0123456789abcdefhello | sha256sum
        assert_eq!(
            masked(Action::Sha256QueryLocal, string("hello"), "string"),
            string("5be4ea4bf778800563dd08f63dadc4e3d7e31737bb332d38952ebd664fd8ef33")
        );
        let with = |salt: &[u8]| mask(Action::Sha256QueryLocal, &Value::Int(42), &primitive("int"), salt);
        assert_eq!(with(&SALT), with(&SALT));
        assert_ne!(with(&SALT), with(b"another salt, which is longer"));
        assert_eq!(with(&SALT[..15]), Err(MaskError::ShortSalt));
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_never_a_guess() {
        for (action, value, r#type) in [
            (Action::MaskAlphanum, Value::Int(1), "string"),
            (Action::MaskAlphanum, Value::Int(1), "int"),
            (Action::TruncateToYear, Value::Timestamp(1), "timestamptz"),
            (Action::Sha256Global, Value::Int(1), "long"),
            (Action::Sha256Global, Value::Fixed(vec![1]), "fixed[1]"),
            (Action::MaskToFixedValue, Value::Null, "geography"),
            (Action::MaskToFixedValue, string("x"), "int"),
            (Action::MaskToFixedValue, Value::Null, "fixed[18446744073709551615]"),
            (Action::MaskAlphanum, Value::Null, "int"),
        ] {
            assert!(mask(action, &value, &primitive(r#type), &SALT).is_err(), "{action} {value:?} {type}");
        }
    }
}
