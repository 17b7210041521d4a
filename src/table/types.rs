//! Iceberg types, as far as policies and masks tell them apart.

use std::{fmt, sync::Arc};

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A type without fields inside.
    Primitive(PrimitiveType),
    /// A struct with its fields in order.
    Struct(Arc<[NestedField]>),
    /// A list with its element.
    List(Arc<NestedField>),
    /// A map with its key and its value.
    Map(Arc<NestedField>, Arc<NestedField>),
}

/// A field inside a struct, the element of a list (`element`), or the `key` or `value` of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct NestedField {
    /// The field id.
    pub id: i32,
    /// The name; `element`, `key` or `value` for those without one of their own.
    pub name: Arc<str>,
    /// The type.
    pub r#type: Type,
    /// Whether a value must be there.
    pub required: bool,
}

/// A type without fields inside, by its spelling in the table specification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PrimitiveType {
    /// `boolean`
    Boolean,
    /// `int`, 32 bits
    Int,
    /// `long`, 64 bits
    Long,
    /// `float`, IEEE-754 binary32
    Float,
    /// `double`, IEEE-754 binary64
    Double,
    /// `decimal(precision, scale)`
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits of the fraction, 0 to `precision`.
        scale: u8,
    },
    /// `date`
    Date,
    /// `time`, microseconds
    Time,
    /// `timestamp`, microseconds, no zone
    Timestamp,
    /// `timestamptz`, microseconds, UTC
    Timestamptz,
    /// `timestamp_ns`, nanoseconds, no zone
    TimestampNs,
    /// `timestamptz_ns`, nanoseconds, UTC
    TimestamptzNs,
    /// `string`
    String,
    /// `uuid`
    Uuid,
    /// `fixed[length]`, bytes
    Fixed(u64),
    /// `binary`
    Binary,
    /// `variant`
    Variant,
    /// `unknown`
    Unknown,
    /// `geometry`, with or without parameters
    Geometry,
    /// `geography`, with or without parameters
    Geography,
    /// A type that this version of the crate has not heard of, by its spelling. Only null tests and
    /// `replace-with-null` fit it.
    Unrecognized(Arc<str>),
}

impl PrimitiveType {
    /// Reads the spelling of the table specification. White space inside the brackets of `decimal` and
    /// `fixed` is allowed, as Iceberg's own readers do.
    pub fn parse(text: &str) -> Self {
        let parsed = match text {
            "boolean" => Some(Self::Boolean),
            "int" => Some(Self::Int),
            "long" => Some(Self::Long),
            "float" => Some(Self::Float),
            "double" => Some(Self::Double),
            "date" => Some(Self::Date),
            "time" => Some(Self::Time),
            "timestamp" => Some(Self::Timestamp),
            "timestamptz" => Some(Self::Timestamptz),
            "timestamp_ns" => Some(Self::TimestampNs),
            "timestamptz_ns" => Some(Self::TimestamptzNs),
            "string" => Some(Self::String),
            "uuid" => Some(Self::Uuid),
            "binary" => Some(Self::Binary),
            "variant" => Some(Self::Variant),
            "unknown" => Some(Self::Unknown),
            "geometry" => Some(Self::Geometry),
            "geography" => Some(Self::Geography),
            _ => Self::parse_parameterized(text),
        };
        parsed.unwrap_or_else(|| Self::Unrecognized(text.into()))
    }

    fn parse_parameterized(text: &str) -> Option<Self> {
        let parameters = |open: &str, close: char| text.strip_prefix(open)?.strip_suffix(close);
        if let Some(inside) = parameters("decimal(", ')') {
            let (precision, scale) = inside.split_once(',')?;
            let (precision, scale) = (parse_size(precision)?, parse_size(scale)?);
            return (1..=38)
                .contains(&precision)
                .then_some(())
                .filter(|()| scale <= precision)
                .map(|()| Self::Decimal { precision: precision as u8, scale: scale as u8 });
        }
        if let Some(inside) = parameters("fixed[", ']') {
            return parse_size(inside).map(Self::Fixed);
        }
        if parameters("geometry(", ')').is_some() {
            return Some(Self::Geometry);
        }
        parameters("geography(", ')').map(|_| Self::Geography)
    }
}

/// A size in decimal digits with blanks around it; no sign.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_matches(' ');
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl fmt::Display for PrimitiveType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal { precision, scale } => {
                return write!(f, "decimal({precision}, {scale})");
            }
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Timestamptz => "timestamptz",
            Self::TimestampNs => "timestamp_ns",
            Self::TimestamptzNs => "timestamptz_ns",
            Self::String => "string",
            Self::Uuid => "uuid",
            Self::Fixed(length) => return write!(f, "fixed[{length}]"),
            Self::Binary => "binary",
            Self::Variant => "variant",
            Self::Unknown => "unknown",
            Self::Geometry => "geometry",
            Self::Geography => "geography",
            Self::Unrecognized(text) => text,
        };
        f.write_str(name)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primitive(primitive) => primitive.fmt(f),
            Self::Struct(_) => f.write_str("struct"),
            Self::List(_) => f.write_str("list"),
            Self::Map(..) => f.write_str("map"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameterized_types_are_read_with_and_without_blanks() {
        for (text, parsed, canonical) in [
            ("decimal(9,2)", PrimitiveType::Decimal { precision: 9, scale: 2 }, "decimal(9, 2)"),
            ("decimal( 38 , 38 )", PrimitiveType::Decimal { precision: 38, scale: 38 }, "decimal(38, 38)"),
            ("fixed[16]", PrimitiveType::Fixed(16), "fixed[16]"),
            ("geometry(srid:4326)", PrimitiveType::Geometry, "geometry"),
            ("geography(srid:4326, spherical)", PrimitiveType::Geography, "geography"),
        ] {
            assert_eq!(PrimitiveType::parse(text), parsed, "{text}");
            assert_eq!(parsed.to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn what_is_no_type_of_the_specification_is_kept_as_unrecognized() {
        for text in
            ["decimal(39,2)", "decimal(2,3)", "decimal(9)", "fixed[-1]", "decimal(,)", "fixed[]", "Int", ""]
        {
            assert_eq!(PrimitiveType::parse(text), PrimitiveType::Unrecognized(text.into()), "{text}");
        }
    }
}
