use super::literal::Literal;
use crate::table::{PrimitiveType, Type};

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value, in a field of any type.
    Null,
    /// `boolean`
    Boolean(bool),
    /// `int`
    Int(i32),
    /// `long`
    Long(i64),
    /// `float`, NaN and both zeros included
    Float(f32),
    /// `double`, NaN and both zeros included
    Double(f64),
    /// `decimal(precision, scale)`
    Decimal {
        /// The value times ten to the power of `scale`.
        unscaled: i128,
        /// Digits in all.
        precision: u8,
        /// Digits of the fraction.
        scale: u8,
    },
    /// `date`: days since 1970-01-01
    Date(i32),
    /// `time`: microseconds since midnight
    Time(i64),
    /// `timestamp`: microseconds since 1970-01-01T00:00:00
    Timestamp(i64),
    /// `timestamptz`: microseconds since 1970-01-01T00:00:00 UTC
    Timestamptz(i64),
    /// `timestamp_ns`: nanoseconds since 1970-01-01T00:00:00
    TimestampNs(i64),
    /// `timestamptz_ns`: nanoseconds since 1970-01-01T00:00:00 UTC
    TimestamptzNs(i64),
    /// `string`
    String(String),
    /// `uuid`
    Uuid([u8; 16]),
    /// `fixed[length]`
    Fixed(Vec<u8>),
    /// `binary`
    Binary(Vec<u8>),
    /// `variant`, in the Parquet variant encoding
    Variant {
        /// The dictionary of field names.
        metadata: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// A struct: the values of its fields in order.
    Struct(Vec<Value>),
    /// A list: its elements.
    List(Vec<Value>),
    /// A map: its entries.
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// Whether a field of this type can hold the value; null fits every type.
    pub fn is_of(&self, r#type: &Type) -> bool {
        match (self, r#type) {
            (Self::Null, _) => true,
            (Self::Struct(values), Type::Struct(fields)) => {
                values.len() == fields.len()
                    && values.iter().zip(fields.iter()).all(|(value, field)| value.is_of(&field.r#type))
            }
            (Self::List(elements), Type::List(element)) => {
                elements.iter().all(|value| value.is_of(&element.r#type))
            }
            (Self::Map(entries), Type::Map(key, value)) => {
                entries.iter().all(|entry| entry.0.is_of(&key.r#type) && entry.1.is_of(&value.r#type))
            }
            (value, Type::Primitive(primitive)) => value.is_of_primitive(primitive),
            _ => false,
        }
    }

    fn is_of_primitive(&self, primitive: &PrimitiveType) -> bool {
        use PrimitiveType as P;

        match (self, primitive) {
            (
                Self::Decimal { unscaled, precision, scale },
                P::Decimal { precision: type_precision, scale: type_scale },
            ) => {
                let limit = 10_u128.checked_pow((*precision).into());
                (precision, scale) == (type_precision, type_scale)
                    && limit.is_none_or(|limit| unscaled.unsigned_abs() < limit)
            }
            (Self::Fixed(bytes), P::Fixed(length)) => u64::try_from(bytes.len()) == Ok(*length),
            (Self::Boolean(_), P::Boolean)
            | (Self::Int(_), P::Int)
            | (Self::Long(_), P::Long)
            | (Self::Float(_), P::Float)
            | (Self::Double(_), P::Double)
            | (Self::Date(_), P::Date)
            | (Self::Time(_), P::Time)
            | (Self::Timestamp(_), P::Timestamp)
            | (Self::Timestamptz(_), P::Timestamptz)
            | (Self::TimestampNs(_), P::TimestampNs)
            | (Self::TimestamptzNs(_), P::TimestamptzNs)
            | (Self::String(_), P::String)
            | (Self::Uuid(_), P::Uuid)
            | (Self::Binary(_), P::Binary)
            | (Self::Variant { .. }, P::Variant) => true,
            _ => false,
        }
    }
}

/// The value that a literal stands for.
impl From<&Literal> for Value {
    fn from(literal: &Literal) -> Self {
        match *literal {
            Literal::Boolean(value) => Self::Boolean(value),
            Literal::Int(value) => Self::Int(value),
            Literal::Long(value) => Self::Long(value),
            Literal::Float(value) => Self::Float(value),
            Literal::Double(value) => Self::Double(value),
            Literal::Decimal { unscaled, precision, scale } => Self::Decimal { unscaled, precision, scale },
            Literal::Date(days) => Self::Date(days),
            Literal::Time(micros) => Self::Time(micros),
            Literal::Timestamp(micros) => Self::Timestamp(micros),
            Literal::String(ref text) => Self::String(text.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::table::NestedField;

    fn primitive(text: &str) -> Type {
        Type::Primitive(PrimitiveType::parse(text))
    }

    #[test]
    fn numbers_of_another_width_precision_or_scale_are_of_another_type() {
        let decimal = |unscaled| Value::Decimal { unscaled, precision: 4, scale: 2 };
        assert!(Value::Int(1).is_of(&primitive("int")) && !Value::Int(1).is_of(&primitive("long")));
        assert!(decimal(9999).is_of(&primitive("decimal(4, 2)")));
        assert!(!decimal(10_000).is_of(&primitive("decimal(4, 2)")), "more digits than the precision");
        assert!(!decimal(1).is_of(&primitive("decimal(4, 1)")));
        assert!(!decimal(1).is_of(&primitive("decimal(5, 2)")));
        assert!(Value::Fixed(vec![0; 3]).is_of(&primitive("fixed[3]")));
        assert!(!Value::Fixed(vec![0; 3]).is_of(&primitive("fixed[4]")));
        assert!(!Value::Timestamp(0).is_of(&primitive("timestamptz")));
        assert!(!Value::Timestamp(0).is_of(&primitive("timestamp_ns")));
    }

    #[test]
    fn nested_values_are_checked_all_the_way_down() {
        let field = |r#type| NestedField { id: 2, name: "y".into(), r#type, required: false };
        let structure = Type::Struct([field(primitive("int")), field(primitive("string"))].into());
        let list = Type::List(Arc::new(field(structure.clone())));
        let row = |second| Value::Struct(vec![Value::Int(1), second]);
        assert!(Value::List(vec![row(Value::String("a".into())), row(Value::Null)]).is_of(&list));
        assert!(!Value::List(vec![row(Value::Int(2))]).is_of(&list));
        assert!(!Value::Struct(vec![Value::Int(1)]).is_of(&structure), "a field is missing");
        assert!(!row(Value::Null).is_of(&list));
        let map = Type::Map(Arc::new(field(primitive("string"))), Arc::new(field(primitive("int"))));
        assert!(Value::Map(vec![(Value::String("a".into()), Value::Int(1))]).is_of(&map));
        assert!(!Value::Map(vec![(Value::Int(1), Value::Int(1))]).is_of(&map));
    }
}
