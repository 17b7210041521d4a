//! Restrictions that the inner service sends itself.

use std::{collections::BTreeMap, error::Error, fmt};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    action::{Action, Projection},
    predicate::Connective,
    wire::{ActionConflict, Member, ReadRestrictions, Wire},
};

/// The `read-restrictions` member of an inner load result, when it restricts anything.
#[derive(Clone, Debug)]
pub struct UpstreamMember<'a> {
    row_filter: Option<&'a RawValue>,
    projections: BTreeMap<i32, Action>,
}

/// The members of the object; any other makes it one that cannot be combined.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Parts<'a> {
    required_column_projections: Option<Vec<ProjectionParts<'a>>>,
    #[serde(borrow)]
    required_row_filter: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ProjectionParts<'a> {
    #[serde(borrow)]
    action: std::borrow::Cow<'a, str>,
    field_id: i32,
}

impl<'a> UpstreamMember<'a> {
    /// Reads the text of the member's value. `null`, an empty object, and one of which every part is empty
    /// or restricts nothing (no projections, a constant true filter) are none.
    ///
    /// # Errors
    ///
    /// When the object is not one of the specification, or has two actions for one field.
    pub fn parse(text: &'a str) -> Result<Option<Self>, UpstreamError> {
        let parts: Option<Parts<'a>> = serde_json::from_str(text).map_err(malformed)?;
        let Some(parts) = parts else { return Ok(None) };
        let row_filter = match parts.required_row_filter {
            Some(filter) if !is_true(filter)? => Some(filter),
            _ => None,
        };
        let projections = projections(parts.required_column_projections.unwrap_or_default())?;
        if row_filter.is_none() && projections.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { row_filter, projections }))
    }

    /// The projections, sorted by field id.
    pub fn projections(&self) -> impl Iterator<Item = Projection> + '_ {
        self.projections.iter().map(|(&field_id, &action)| Projection { field_id, action })
    }

    /// Whether the inner service asks for exactly ours. The order of members and projections does not count,
    /// the shape of the filter does.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Differs`] when it does not.
    pub fn must_equal(&self, ours: &ReadRestrictions) -> Result<(), UpstreamError> {
        let theirs: Option<Value> = self.row_filter.map(json).transpose()?;
        let our_filter = ours.row_filter().map(|filter| Wire(filter).to_string());
        let our_filter = our_filter.map(|text| serde_json::from_str::<Value>(&text)).transpose();
        let equal = our_filter.map_err(malformed)? == theirs
            && self.projections().eq(ours.projections().iter().copied());
        if equal { Ok(()) } else { Err(UpstreamError::Differs) }
    }

    /// Both at once: the filters joined with `and`, the inner service's own in its own words, and the actions
    /// united.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Conflict`] when one field would have two actions.
    pub fn conjoin(&self, ours: &ReadRestrictions) -> Result<String, UpstreamError> {
        let mut united = self.projections.clone();
        for &Projection { field_id, action } in ours.projections() {
            insert(&mut united, field_id, action)?;
        }
        let projections: Vec<_> =
            united.into_iter().map(|(field_id, action)| Projection { field_id, action }).collect();
        let theirs = self.row_filter.map(|filter| filter.get().to_owned());
        let ours = ours.row_filter().map(|filter| Wire(filter).to_string());
        let row_filter = match (theirs, ours) {
            (Some(theirs), Some(ours)) => {
                let and = Connective::And.name();
                Some(format!(r#"{{"type":"{and}","left":{theirs},"right":{ours}}}"#))
            }
            (theirs, ours) => theirs.or(ours),
        };
        Ok(Member { projections: &projections, row_filter }.to_string())
    }
}

/// Whether a filter is constantly true, in the present or the deprecated spelling.
///
/// # Errors
///
/// When it is neither a Boolean nor an object, so no predicate.
fn is_true(filter: &RawValue) -> Result<bool, UpstreamError> {
    match json(filter)? {
        Value::Bool(value) => Ok(value),
        Value::Object(members) => Ok(members.len() == 1 && members.get("type") == Some(&"true".into())),
        _ => Err(UpstreamError::Malformed("the row filter is not a predicate".to_owned())),
    }
}

fn json(text: &RawValue) -> Result<Value, UpstreamError> {
    serde_json::from_str(text.get()).map_err(malformed)
}

fn projections(parts: Vec<ProjectionParts<'_>>) -> Result<BTreeMap<i32, Action>, UpstreamError> {
    let mut projections = BTreeMap::new();
    for ProjectionParts { action, field_id } in parts {
        let action = action
            .parse()
            .map_err(|error| UpstreamError::Malformed(format!("field id {field_id}: {error}")))?;
        if projections.insert(field_id, action).is_some() {
            return Err(UpstreamError::Malformed(format!("field id {field_id} is projected twice")));
        }
    }
    Ok(projections)
}

fn insert(
    projections: &mut BTreeMap<i32, Action>,
    field_id: i32,
    action: Action,
) -> Result<(), UpstreamError> {
    match projections.insert(field_id, action) {
        Some(other) if other != action => {
            Err(UpstreamError::Conflict(ActionConflict { field_id, actions: [other, action] }))
        }
        _ => Ok(()),
    }
}

fn malformed(error: serde_json::Error) -> UpstreamError {
    UpstreamError::Malformed(error.to_string())
}

/// Why restrictions of the inner service cannot stand beside ours.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpstreamError {
    /// They are not an object of the specification.
    Malformed(String),
    /// They are not equal to ours, and nothing says that both are to be combined.
    Differs,
    /// One field would have two actions.
    Conflict(ActionConflict),
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(message) => {
                write!(f, "the inner service's read-restrictions cannot be combined: {message}")
            }
            Self::Differs => f.write_str("the inner service sends read-restrictions that differ from ours"),
            Self::Conflict(conflict) => write!(f, "with the inner service's read-restrictions, {conflict}"),
        }
    }
}

impl Error for UpstreamError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restriction::{ComparisonOperator, Literal, Predicate, Reference};

    const US: &str = r#"{"type":"eq","left":{"type":"reference","id":1},"right":{"type":"literal","value":"US","data-type":"string"}}"#;

    fn ours() -> ReadRestrictions {
        let filter = Predicate::Comparison {
            operator: ComparisonOperator::Eq,
            reference: Reference { id: 1, required: false },
            literal: Literal::String("US".into()),
        };
        ReadRestrictions::new(Some(filter), [Projection { field_id: 4, action: Action::ShowLast4 }]).unwrap()
    }

    fn parse(text: &str) -> UpstreamMember<'_> {
        UpstreamMember::parse(text).expect("well-formed").expect("real restrictions")
    }

    #[test]
    fn empty_parts_restrict_nothing() {
        for text in [
            "null",
            "{}",
            " { } ",
            r#"{"required-column-projections":[]}"#,
            r#"{"required-column-projections":null,"required-row-filter":null}"#,
            r#"{"required-row-filter":true}"#,
            r#"{"required-row-filter":{"type":"true"}}"#,
            r#"{"required\u002drow-filter":true}"#,
        ] {
            assert!(matches!(UpstreamMember::parse(text), Ok(None)), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error_not_none() {
        for text in [
            "[]",
            "7",
            r#""x""#,
            r#"{"other":1}"#,
            r#"{"required-row-filter":"x"}"#,
            r#"{"required-row-filter":null,"required-row-filter":false}"#,
            r#"{"required-column-projections":[{"action":"mask-alphanum"}]}"#,
            r#"{"required-column-projections":[{"action":"redact","field-id":1}]}"#,
            r#"{"required-column-projections":[{"action":"mask-alphanum","field-id":1,"x":1}]}"#,
            r#"{"required-column-projections":[{"action":"mask-alphanum","field-id":1},{"action":"mask-alphanum","field-id":1}]}"#,
        ] {
            assert!(matches!(UpstreamMember::parse(text), Err(UpstreamError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn equality_ignores_the_order_of_members() {
        let text = r#"{"required-row-filter":{"right":{"data-type":"string","value":"US","type":"literal"},
            "left":{"id":1,"type":"reference"},"type":"eq"},
            "required-column-projections":[{"field-id":4,"action":"show-last-4"}]}"#;
        assert_eq!(parse(text).must_equal(&ours()), Ok(()));
        for other in [
            r#"{"required-row-filter":false}"#.to_owned(),
            format!(r#"{{"required-row-filter":{US}}}"#),
            r#"{"required-column-projections":[{"field-id":4,"action":"show-last-4"}]}"#.to_owned(),
        ] {
            assert_eq!(parse(&other).must_equal(&ours()), Err(UpstreamError::Differs), "{other}");
        }
    }

    #[test]
    fn conjoining_keeps_the_inner_filter_in_its_own_words() {
        let text = r#"{"required-row-filter": {"type" : "is-null", "child":{"type":"reference","id":9} },
            "required-column-projections":[{"field-id":2,"action":"mask-alphanum"}]}"#;
        let expected = format!(
            r#"{{"required-column-projections":[{{"action":"mask-alphanum","field-id":2}},{{"action":"show-last-4","field-id":4}}],"required-row-filter":{{"type":"and","left":{},"right":{US}}}}}"#,
            r#"{"type" : "is-null", "child":{"type":"reference","id":9} }"#
        );
        assert_eq!(parse(text).conjoin(&ours()), Ok(expected));
    }

    #[test]
    fn one_field_with_two_actions_is_a_conflict() {
        let text = r#"{"required-column-projections":[{"field-id":4,"action":"mask-alphanum"}]}"#;
        let conflict = ActionConflict { field_id: 4, actions: [Action::MaskAlphanum, Action::ShowLast4] };
        assert_eq!(parse(text).conjoin(&ours()), Err(UpstreamError::Conflict(conflict)));
        let same = r#"{"required-column-projections":[{"field-id":4,"action":"show-last-4"}]}"#;
        assert_eq!(parse(same).conjoin(&ours()).as_deref(), Ok(&*ours().to_json()));
    }
}
