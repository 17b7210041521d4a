use std::{fmt, str::FromStr};

use crate::table::{Field, PrimitiveType, Type};

/// What a reader must do to the values of a column.
///
/// What each does to a value is [`mask`](super::mask())'s to say. Two things to know before choosing one: the
/// `show-…` actions pass values of four code points or fewer in clear, and hashes of a small domain (a
/// country, a birthday) can be reversed by hashing the whole domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// `mask-alphanum`
    MaskAlphanum,
    /// `mask-to-fixed-value`
    MaskToFixedValue,
    /// `replace-with-null`
    ReplaceWithNull,
    /// `show-first-4`
    ShowFirst4,
    /// `show-last-4`
    ShowLast4,
    /// `truncate-to-year`
    TruncateToYear,
    /// `truncate-to-month`
    TruncateToMonth,
    /// `sha-256-global`
    Sha256Global,
    /// `sha-256-query-local`
    Sha256QueryLocal,
}

/// An action on a top-level field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Projection {
    /// The field id.
    pub field_id: i32,
    /// The action.
    pub action: Action,
}

impl Action {
    /// All nine.
    pub const ALL: [Self; 9] = [
        Self::MaskAlphanum,
        Self::MaskToFixedValue,
        Self::ReplaceWithNull,
        Self::ShowFirst4,
        Self::ShowLast4,
        Self::TruncateToYear,
        Self::TruncateToMonth,
        Self::Sha256Global,
        Self::Sha256QueryLocal,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaskAlphanum => "mask-alphanum",
            Self::MaskToFixedValue => "mask-to-fixed-value",
            Self::ReplaceWithNull => "replace-with-null",
            Self::ShowFirst4 => "show-first-4",
            Self::ShowLast4 => "show-last-4",
            Self::TruncateToYear => "truncate-to-year",
            Self::TruncateToMonth => "truncate-to-month",
            Self::Sha256Global => "sha-256-global",
            Self::Sha256QueryLocal => "sha-256-query-local",
        }
    }

    /// Whether readers may be told to do this to this field.
    ///
    /// # Errors
    ///
    /// When the action does not fit the field's type, or is `replace-with-null` and the field is required.
    pub fn check(self, field: Field<'_>) -> Result<(), ActionError> {
        use PrimitiveType as P;

        let fits = match self {
            Self::ReplaceWithNull if field.required => return Err(ActionError::Required),
            Self::ReplaceWithNull => true,
            Self::MaskToFixedValue => has_fixed_value(field.r#type),
            Self::MaskAlphanum | Self::ShowFirst4 | Self::ShowLast4 => {
                matches!(field.r#type, Type::Primitive(P::String))
            }
            Self::TruncateToYear | Self::TruncateToMonth => matches!(
                field.r#type,
                Type::Primitive(P::Date | P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs)
            ),
            Self::Sha256Global | Self::Sha256QueryLocal => {
                matches!(field.r#type, Type::Primitive(P::String | P::Int | P::Long | P::Binary))
            }
        };
        if fits { Ok(()) } else { Err(ActionError::Type { action: self, found: field.r#type.to_string() }) }
    }

    /// The types that the action fits, for messages.
    fn applies_to(self) -> &'static str {
        match self {
            Self::MaskAlphanum | Self::ShowFirst4 | Self::ShowLast4 => "string",
            Self::MaskToFixedValue => {
                "every type but geometry, geography and unknown, and structs without a field of those"
            }
            Self::ReplaceWithNull => "every optional column",
            Self::TruncateToYear | Self::TruncateToMonth => {
                "date, timestamp, timestamptz, timestamp_ns and timestamptz_ns"
            }
            Self::Sha256Global | Self::Sha256QueryLocal => "string, int, long and binary",
        }
    }
}

/// Whether `mask-to-fixed-value` has a value for the type. That of a list or a map is an empty one, whatever
/// its elements; that of a struct has one for each of its fields.
fn has_fixed_value(r#type: &Type) -> bool {
    match r#type {
        Type::Primitive(primitive) => match primitive {
            PrimitiveType::Geometry
            | PrimitiveType::Geography
            | PrimitiveType::Unknown
            | PrimitiveType::Unrecognized(_) => false,
            PrimitiveType::Boolean
            | PrimitiveType::Int
            | PrimitiveType::Long
            | PrimitiveType::Float
            | PrimitiveType::Double
            | PrimitiveType::Decimal { .. }
            | PrimitiveType::Date
            | PrimitiveType::Time
            | PrimitiveType::Timestamp
            | PrimitiveType::Timestamptz
            | PrimitiveType::TimestampNs
            | PrimitiveType::TimestamptzNs
            | PrimitiveType::String
            | PrimitiveType::Uuid
            | PrimitiveType::Fixed(_)
            | PrimitiveType::Binary
            | PrimitiveType::Variant => true,
        },
        Type::Struct(fields) => fields.iter().all(|field| has_fixed_value(&field.r#type)),
        Type::List(_) | Type::Map(..) => true,
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Action {
    type Err = UnknownAction;

    /// Reads the name on the wire, case-sensitive.
    fn from_str(name: &str) -> Result<Self, UnknownAction> {
        Self::ALL.into_iter().find(|action| action.name() == name).ok_or_else(|| UnknownAction(name.into()))
    }
}

/// A name that is no action's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAction(Box<str>);

impl fmt::Display for UnknownAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Action::ALL.map(Action::name).join(", ");
        write!(f, "there is no action {:?}; the actions are {names}", self.0)
    }
}

impl std::error::Error for UnknownAction {}

/// Why an action does not fit a field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActionError {
    /// The action is not for this type.
    Type {
        /// The action.
        action: Action,
        /// The type of the field.
        found: String,
    },
    /// `replace-with-null` on a field that must have a value.
    Required,
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { action, found } => {
                write!(f, "{action} does not fit a column of type {found}: it is for {}", action.applies_to())
            }
            Self::Required => write!(f, "replace-with-null does not fit a required column"),
        }
    }
}

impl std::error::Error for ActionError {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::table::NestedField;

    fn primitives() -> Vec<PrimitiveType> {
        [
            "boolean",
            "int",
            "long",
            "float",
            "double",
            "decimal(9, 2)",
            "date",
            "time",
            "timestamp",
            "timestamptz",
            "timestamp_ns",
            "timestamptz_ns",
            "string",
            "uuid",
            "fixed[16]",
            "binary",
            "variant",
            "unknown",
            "geometry",
            "geography",
            "vector",
        ]
        .map(PrimitiveType::parse)
        .into()
    }

    fn check(action: Action, r#type: &Type, required: bool) -> Result<(), ActionError> {
        action.check(Field { id: 1, name: "x", r#type, required })
    }

    fn nested(r#type: Type) -> NestedField {
        NestedField { id: 2, name: "y".into(), r#type, required: true }
    }

    #[track_caller]
    fn fits_only(actions: &[Action], types: &[&str]) {
        for action in actions {
            for primitive in primitives() {
                let expected = types.contains(&primitive.to_string().as_str());
                let fits = check(*action, &Type::Primitive(primitive.clone()), true).is_ok();
                assert_eq!(fits, expected, "{action} on {primitive}");
            }
            for r#type in [
                Type::Struct([nested(Type::Primitive(PrimitiveType::String))].into()),
                Type::List(Arc::new(nested(Type::Primitive(PrimitiveType::String)))),
            ] {
                assert!(check(*action, &r#type, true).is_err(), "{action} on {type}");
            }
        }
    }

    #[test]
    fn the_character_masks_are_for_strings() {
        fits_only(&[Action::MaskAlphanum, Action::ShowFirst4, Action::ShowLast4], &["string"]);
    }

    #[test]
    fn the_truncations_are_for_dates_and_timestamps() {
        fits_only(
            &[Action::TruncateToYear, Action::TruncateToMonth],
            &["date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"],
        );
    }

    #[test]
    fn the_hashes_are_for_strings_integers_and_binary() {
        fits_only(&[Action::Sha256Global, Action::Sha256QueryLocal], &["string", "int", "long", "binary"]);
    }

    #[test]
    fn every_primitive_type_but_four_has_a_fixed_value() {
        for primitive in primitives() {
            let expected = !["unknown", "geometry", "geography", "vector"].contains(&&*primitive.to_string());
            let r#type = Type::Primitive(primitive);
            assert_eq!(check(Action::MaskToFixedValue, &r#type, true).is_ok(), expected, "{type}");
        }
    }

    #[test]
    fn a_struct_has_a_fixed_value_when_all_its_fields_have_one() {
        let of = |primitive| Type::Primitive(primitive);
        let structure = |inner| Type::Struct([nested(of(PrimitiveType::Int)), nested(inner)].into());
        let list = |inner| Type::List(Arc::new(nested(inner)));
        let map = |inner| Type::Map(Arc::new(nested(of(PrimitiveType::String))), Arc::new(nested(inner)));
        let fits = |r#type: Type| check(Action::MaskToFixedValue, &r#type, true).is_ok();
        assert!(fits(structure(of(PrimitiveType::String))));
        assert!(fits(Type::Struct([].into())));
        for primitive in [PrimitiveType::Geometry, PrimitiveType::Geography, PrimitiveType::Unknown] {
            assert!(!fits(structure(of(primitive.clone()))));
            assert!(!fits(structure(structure(of(primitive.clone())))));
            assert!(fits(list(of(primitive.clone()))), "the fixed value of a list is []");
            assert!(fits(map(of(primitive.clone()))), "the fixed value of a map is {{}}");
            assert!(fits(structure(list(of(primitive)))));
        }
    }

    #[test]
    fn replace_with_null_is_for_every_optional_field_and_no_required_one() {
        let structure = Type::Struct([nested(Type::Primitive(PrimitiveType::Geometry))].into());
        for r#type in primitives().into_iter().map(Type::Primitive).chain([structure]) {
            assert_eq!(check(Action::ReplaceWithNull, &r#type, false), Ok(()));
            assert_eq!(check(Action::ReplaceWithNull, &r#type, true), Err(ActionError::Required));
        }
    }

    #[test]
    fn names_read_back_and_nothing_else_does() {
        for action in Action::ALL {
            assert_eq!(action.to_string().parse(), Ok(action));
        }
        for name in ["", "Mask-Alphanum", "mask-alphanum ", "apply-expression", "show-first-5", "sha-256"] {
            assert!(name.parse::<Action>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn messages_say_what_would_fit() {
        let error = check(Action::ShowLast4, &Type::Primitive(PrimitiveType::Int), true).unwrap_err();
        assert_eq!(error.to_string(), "show-last-4 does not fit a column of type int: it is for string");
        let unknown = "redact".parse::<Action>().unwrap_err().to_string();
        assert!(
            unknown.starts_with("there is no action \"redact\"; the actions are mask-alphanum, "),
            "{unknown}"
        );
    }
}
