//! The canonical record and its digest. The record never leaves the crate: the wire form is another.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{
    action::Projection,
    literal::Literal,
    predicate::{Connective, Predicate},
    syntax,
};

const PROFILE: &str = "iceberg-read-restrictions-v1";

/// A SHA-256 over the canonical record of a row filter or a column mask: equal for restrictions that are the
/// same in canonical form, on every replica and in every release with this profile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature([u8; 32]);

impl Signature {
    /// The digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn of(record: impl fmt::Display) -> Self {
        let mut digest = Digester(Sha256::new());
        // A digest takes whatever it is given.
        fmt::write(&mut digest, format_args!("{record}")).expect("records can be written");
        Self(digest.0.finalize().into())
    }
}

/// Digests a text as it is written.
struct Digester(Sha256);

impl fmt::Write for Digester {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

/// `sha256:` and 64 lower-case hexadecimal digits.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Predicate {
    /// The signature of this row filter, which must be in [canonical form](Self::canonical): other forms of
    /// the same filter have other signatures.
    pub fn signature(&self) -> Signature {
        Signature::of(format_args!(r#"{{"profile":"{PROFILE}","predicate":{}}}"#, Record(self)))
    }
}

impl Projection {
    /// The signature of this column mask.
    pub fn signature(&self) -> Signature {
        let Self { field_id, action } = self;
        Signature::of(format_args!(r#"{{"profile":"{PROFILE}","field-id":{field_id},"action":"{action}"}}"#))
    }
}

/// The canonical record of a predicate, whose bytes also sort the children of a chain.
pub(super) struct Record<'a>(pub(super) &'a Predicate);

impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain = |connective, children| syntax::Chain { connective, children, written: Record };
        match self.0 {
            Predicate::Constant(value) => value.fmt(f),
            Predicate::And(children) => chain(Connective::And, children).fmt(f),
            Predicate::Or(children) => chain(Connective::Or, children).fmt(f),
            Predicate::Unary { operator, reference } => syntax::unary(f, *operator, *reference),
            Predicate::Comparison { operator, reference, literal } => {
                syntax::comparison(f, *operator, *reference, literal, literal.record_value())
            }
            Predicate::Set { operator, reference, literals } => match literals.first() {
                Some(first) => {
                    let values = literals.iter().map(Literal::record_value);
                    syntax::set(f, *operator, *reference, first, values)
                }
                None => operator.of_nothing().fmt(f),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        restriction::{Action, ComparisonOperator, Reference, SetOperator, UnaryOperator},
        table::PrimitiveType,
    };

    const DECIMAL: PrimitiveType = PrimitiveType::Decimal { precision: 9, scale: 2 };

    fn field(id: i32) -> Reference {
        Reference { id, required: false }
    }

    fn comparison(operator: ComparisonOperator, id: i32, literal: Literal) -> Predicate {
        Predicate::Comparison { operator, reference: field(id), literal }
    }

    fn recorded(predicate: &Predicate) -> String {
        Record(predicate).to_string()
    }

    fn string(text: &str) -> Literal {
        Literal::from_string(text, &PrimitiveType::String).unwrap()
    }

    #[test]
    fn a_comparison_is_recorded_with_its_keys_in_order() {
        let predicate = comparison(ComparisonOperator::Eq, 14, string("U\"S\u{e9}\n"));
        assert_eq!(
            recorded(&predicate),
            "{\"type\":\"eq\",\"left\":{\"type\":\"reference\",\"id\":14},\"right\":{\"type\":\"literal\",\
             \"value\":\"U\\\"Sé\\n\",\"data-type\":\"string\"}}"
        );
    }

    #[test]
    fn a_set_is_recorded_with_its_keys_in_order() {
        let literals =
            ["1.5", "2"].map(|text| Literal::from_number(text, &DECIMAL).unwrap()).into_iter().collect();
        let predicate = Predicate::Set { operator: SetOperator::NotIn, reference: field(2), literals };
        assert_eq!(
            recorded(&predicate),
            r#"{"type":"not-in","child":{"type":"reference","id":2},"values":{"type":"literals","values":["1.50","2.00"],"data-type":"decimal(9, 2)"}}"#
        );
    }

    #[test]
    fn floats_are_recorded_as_bits_and_times_with_six_digits() {
        for (literal, value) in [
            (Literal::from_number("0.1", &PrimitiveType::Float), r#""3dcccccd","data-type":"float""#),
            (
                Literal::from_number("0.1", &PrimitiveType::Double),
                r#""3fb999999999999a","data-type":"double""#,
            ),
            (
                Literal::from_string("01:02:03.5", &PrimitiveType::Time),
                r#""01:02:03.500000","data-type":"time""#,
            ),
            (
                Literal::from_string("2024-07-15T01:02:03", &PrimitiveType::Timestamp),
                r#""2024-07-15T01:02:03.000000","data-type":"timestamp""#,
            ),
        ] {
            let predicate = comparison(ComparisonOperator::Lt, 1, literal.unwrap());
            assert!(
                recorded(&predicate).contains(&format!("\"value\":{value}}}")),
                "{}",
                recorded(&predicate)
            );
        }
    }

    #[test]
    fn a_chain_is_recorded_as_a_tree_that_splits_after_the_floor_of_the_half() {
        let leaf = |id| Predicate::Unary { operator: UnaryOperator::NotNull, reference: field(id) };
        let text = |id: i32| format!(r#"{{"type":"not-null","child":{{"type":"reference","id":{id}}}}}"#);
        let and = |left: String, right: String| format!(r#"{{"type":"and","left":{left},"right":{right}}}"#);
        let five = Predicate::And((1..=5).map(leaf).collect());
        let right = and(text(3), and(text(4), text(5)));
        assert_eq!(recorded(&five), and(and(text(1), text(2)), right));
    }

    #[test]
    fn signatures_are_digests_of_the_whole_record() {
        // printf '%s' '{"profile":"iceberg-read-restrictions-v1","predicate":false}' | sha256sum
        assert_eq!(
            Predicate::Constant(false).signature().to_string(),
            "sha256:11c1b351022873f9987e2d36222ca9d444323b1f338ca6ae7534813a07380167"
        );
        // printf '%s' '{"profile":"iceberg-read-restrictions-v1","field-id":4,"action":"show-last-4"}' | sha256sum
        assert_eq!(
            Projection { field_id: 4, action: Action::ShowLast4 }.signature().to_string(),
            "sha256:5c8c1fc515c022eb5a09fafada2d4165752298f3d63d94483abcbd6e73084701"
        );
    }
}
