//! The `read-restrictions` member that the inner catalog sent, if it sent one.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    action::{Action, Projection},
    predicate::{Connective, Predicate},
    syntax,
    wire::{ActionConflict, Member, ReadRestrictions, Wire},
};

/// The `read-restrictions` member of an inner load result, when it restricts anything.
#[derive(Debug)]
pub struct UpstreamMember<'a> {
    /// Sorted by field id, one per field id.
    projections: Vec<Projection>,
    filter: Option<Filter<'a>>,
}

#[derive(Debug)]
struct Filter<'a> {
    text: &'a str,
    predicate: Json,
}

impl<'a> UpstreamMember<'a> {
    /// Reads the JSON text of the member's value.
    ///
    /// `None` when it restricts nothing: `null`, `{}`, and an object whose parts are null or empty, or whose
    /// filter is `true` or `{"type":"true"}`.
    ///
    /// # Errors
    ///
    /// When it is not what the REST schema allows. Such a member counts as a restriction, though not as one
    /// that can stand beside ours.
    pub fn parse(text: &'a str) -> Result<Option<Self>, UpstreamError> {
        Self::read(text)
            .map(|member| member.filter(|member| !member.projections.is_empty() || member.filter.is_some()))
            .map_err(UpstreamError::Malformed)
    }

    /// The projections, sorted by field id.
    pub fn projections(&self) -> impl Iterator<Item = Projection> {
        self.projections.iter().copied()
    }

    /// Whether the inner catalog asks for exactly ours: the same actions on the same fields, and a filter
    /// that is the same JSON value, whatever the order of members, white space and the spelling of numbers.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Differs`] when it does not.
    pub fn must_equal(&self, ours: &ReadRestrictions) -> Result<(), UpstreamError> {
        let filters_agree = match (&self.filter, ours.row_filter()) {
            (None, None) => true,
            (Some(theirs), Some(ours)) => theirs.is(ours),
            _ => false,
        };
        let equal = filters_agree && self.projections == ours.projections();
        if equal { Ok(()) } else { Err(UpstreamError::Differs) }
    }

    /// A member that enforces both: the filters joined with `and`, the upstream filter in its own text, and
    /// the actions united. Equal filters are written once, and with one that denies every row nothing else is
    /// said about rows.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Conflict`] when a field would have two actions.
    pub fn conjoin(&self, ours: &ReadRestrictions) -> Result<String, UpstreamError> {
        let actions = self.projections().chain(ours.projections().iter().copied());
        let united = ReadRestrictions::new(None, actions).map_err(UpstreamError::Conflict)?;
        let row_filter = match (&self.filter, ours.row_filter()) {
            (Some(theirs), Some(ours)) => Some(theirs.and(ours)),
            (Some(theirs), None) => Some(theirs.text.to_owned()),
            (None, ours) => ours.map(|ours| Wire(ours).to_string()),
        };
        Ok(Member { projections: united.projections(), row_filter }.to_json())
    }

    /// The parts as they are, or why they cannot be told; `None` for `null`.
    fn read(text: &'a str) -> Result<Option<Self>, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Members<'a> {
            #[serde(rename = "required-column-projections")]
            projections: Option<Json>,
            #[serde(rename = "required-row-filter", borrow)]
            filter: Option<&'a RawValue>,
        }

        // An array would be taken for the members in order.
        if text.trim_start().starts_with('[') {
            return Err("it is not an object".into());
        }
        let members: Option<Members<'a>> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Some(members) = members else { return Ok(None) };
        Ok(Some(Self {
            projections: members.projections.map_or(Ok(Vec::new()), |json| read_projections(&json))?,
            filter: members.filter.map_or(Ok(None), |raw| Filter::parse(raw.get()))?,
        }))
    }
}

struct Conjunction<'a>(&'a str, Wire<'a>);

impl fmt::Display for Conjunction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        syntax::logical(f, Connective::And, self.0, &self.1)
    }
}

/// Why upstream restrictions and ours cannot be enforced together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpstreamError {
    /// The upstream member is not what the REST schema allows, in words.
    Malformed(String),
    /// The upstream member is not equal to ours, and nothing says that both are to be combined.
    Differs,
    /// A field has an action from each side, and not the same.
    Conflict(ActionConflict),
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(reason) => write!(f, "the upstream read restrictions cannot be read: {reason}"),
            Self::Differs => f.write_str("the upstream read restrictions differ from those of the policies"),
            Self::Conflict(conflict) => write!(f, "with the upstream read restrictions, {conflict}"),
        }
    }
}

impl std::error::Error for UpstreamError {}

impl<'a> Filter<'a> {
    /// `None` for a filter that is spelled as constantly true.
    fn parse(text: &'a str) -> Result<Option<Self>, String> {
        let predicate: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
        check_predicate(&predicate)?;
        let constantly_true = match &predicate {
            Json::Boolean(value) => *value,
            json => json.kind() == Some("true"),
        };
        Ok((!constantly_true).then_some(Self { text, predicate }))
    }

    /// Whether it is the same JSON value as ours on the wire.
    fn is(&self, ours: &Predicate) -> bool {
        serde_json::from_str::<Json>(&Wire(ours).to_string()).is_ok_and(|ours| ours == self.predicate)
    }

    /// Whether it is spelled as constantly false.
    fn denies_all(&self) -> bool {
        matches!(self.predicate, Json::Boolean(false)) || self.predicate.kind() == Some("false")
    }

    /// The text of a filter that keeps the rows that both keep.
    fn and(&self, ours: &Predicate) -> String {
        let deny_all = Predicate::Constant(false);
        if self.denies_all() || *ours == deny_all {
            return Wire(&deny_all).to_string();
        }
        match self.is(ours) {
            true => self.text.to_owned(),
            false => Conjunction(self.text, Wire(ours)).to_string(),
        }
    }
}

fn read_projections(json: &Json) -> Result<Vec<Projection>, String> {
    let Json::Array(elements) = json else { return Err("its projections are not an array".into()) };
    let mut projections = elements.iter().map(read_projection).collect::<Result<Vec<_>, _>>()?;
    projections.sort_unstable();
    match projections.windows(2).find(|pair| pair[0].field_id == pair[1].field_id) {
        Some(pair) => Err(format!("field id {} has two projections", pair[0].field_id)),
        None => Ok(projections),
    }
}

fn read_projection(json: &Json) -> Result<Projection, String> {
    let [action, field_id] = json.members(["action", "field-id"]).ok_or("a projection has other members")?;
    let Json::String(action) = action else { return Err("an action is not a string".into()) };
    let action: Action = action.parse().map_err(|error| format!("{error}"))?;
    match field_id {
        Json::Number(Number::Integer(id)) => i32::try_from(*id).ok(),
        _ => None,
    }
    .map(|field_id| Projection { field_id, action })
    .ok_or_else(|| "a field id is not a 32-bit integer".into())
}

/// Whether the shape is one of the REST schema's, with field ids for references as it demands here.
fn check_predicate(json: &Json) -> Result<(), String> {
    if let Json::Boolean(_) = json {
        return Ok(());
    }
    let kind = json.kind().ok_or("a predicate has no type")?;
    let stray = || format!("a predicate of type {kind:?} has other members than it should");
    match kind {
        "true" | "false" => json.members(["type"]).map(|_| ()).ok_or_else(stray),
        "and" | "or" => {
            let [_, left, right] = json.members(["type", "left", "right"]).ok_or_else(stray)?;
            check_predicate(left).and_then(|()| check_predicate(right))
        }
        "not" => {
            let [_, child] = json.members(["type", "child"]).ok_or_else(stray)?;
            check_predicate(child)
        }
        "is-null" | "not-null" | "is-nan" | "not-nan" => {
            let [_, child] = json.members(["type", "child"]).ok_or_else(stray)?;
            check_operand(child)
        }
        "lt" | "lt-eq" | "gt" | "gt-eq" | "eq" | "not-eq" | "starts-with" | "not-starts-with" => {
            let [_, left, right] = json.members(["type", "left", "right"]).ok_or_else(stray)?;
            check_operand(left).and_then(|()| check_operand(right))
        }
        "in" | "not-in" => {
            let [_, child, values] = json.members(["type", "child", "values"]).ok_or_else(stray)?;
            check_operand(child).and_then(|()| check_literals(values))
        }
        _ => Err(format!("there is no predicate of type {kind:?}")),
    }
}

/// A literal, a reference by field id, or a function of operands and predicates.
fn check_operand(json: &Json) -> Result<(), String> {
    let fits = match json.kind() {
        Some("reference") => {
            let members = json.members(["type", "id"]);
            members.is_some_and(|[_, id]| matches!(id, Json::Number(Number::Integer(_))))
        }
        Some("apply") => match json.members(["type", "function", "arguments"]) {
            Some([_, _, Json::Array(arguments)]) => {
                return arguments
                    .iter()
                    .try_for_each(|argument| check_operand(argument).or_else(|_| check_predicate(argument)));
            }
            _ => false,
        },
        _ => is_literal(json),
    };
    if fits { Ok(()) } else { Err("an operand is neither a literal nor a reference by field id".into()) }
}

fn check_literals(json: &Json) -> Result<(), String> {
    let fits = match (json, json.members(["type", "values", "data-type"])) {
        (Json::Array(values), _) => values.iter().all(is_literal),
        (_, Some([_, Json::Array(values), Json::String(_)])) => {
            json.kind() == Some("literals") && values.iter().all(Json::is_single_value)
        }
        _ => false,
    };
    if fits { Ok(()) } else { Err("a set is not one of literals".into()) }
}

fn is_literal(json: &Json) -> bool {
    let untyped = json.members(["type", "value"]).map(|[_, value]| value);
    let typed = json
        .members(["type", "value", "data-type"])
        .and_then(|[_, value, data_type]| matches!(data_type, Json::String(_)).then_some(value));
    match untyped.or(typed) {
        Some(value) => json.kind() == Some("literal") && value.is_single_value(),
        None => json.is_single_value(),
    }
}

/// A JSON value that is equal to another when they mean the same: members in any order, numbers in any
/// spelling. Objects with a repeated member are refused, since readers differ about which one counts.
#[derive(Debug, PartialEq)]
enum Json {
    Null,
    Boolean(bool),
    Number(Number),
    String(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

#[derive(Debug, PartialEq)]
enum Number {
    Integer(i128),
    /// The bits of a number that is not an integer or too large for one, or is `-0.0`, which is not `0.0` on
    /// the wire.
    Bits(u64),
}

impl Json {
    /// The member `type` of an object.
    fn kind(&self) -> Option<&str> {
        match self {
            Self::Object(members) => match members.get("type") {
                Some(Self::String(kind)) => Some(kind),
                _ => None,
            },
            _ => None,
        }
    }

    /// The members of an object that has exactly these.
    fn members<const N: usize>(&self, names: [&str; N]) -> Option<[&Json; N]> {
        let Self::Object(members) = self else { return None };
        if members.len() != N || !names.iter().all(|name| members.contains_key(*name)) {
            return None;
        }
        Some(names.map(|name| &members[name]))
    }

    /// Whether it can be the JSON form of a single value.
    fn is_single_value(&self) -> bool {
        matches!(self, Self::Boolean(_) | Self::Number(_) | Self::String(_))
    }
}

impl Number {
    fn from_float(value: f64) -> Self {
        /// Up to here every integer is a double of its own.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let negative_zero = value == 0.0 && value.is_sign_negative();
        if value.fract() == 0.0 && value.abs() < EXACT && !negative_zero {
            Self::Integer(value as i128)
        } else {
            Self::Bits(value.to_bits())
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;

        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Boolean(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Number(Number::Integer(value.into())))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Number(Number::Integer(value.into())))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
                Ok(Json::Number(Number::from_float(value)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Json, E> {
                Ok(Json::String(value.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = access.next_element()? {
                    elements.push(element);
                }
                Ok(Json::Array(elements))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = access.next_entry::<String, Json>()? {
                    if members.insert(name, value).is_some() {
                        return Err(A::Error::custom("an object repeats a member"));
                    }
                }
                Ok(Json::Object(members))
            }
        }

        deserializer.deserialize_any(JsonVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        restriction::{ComparisonOperator, Literal, Predicate, Reference},
        table::PrimitiveType,
    };

    fn filter(data_type: PrimitiveType, literal: &str) -> Predicate {
        Predicate::Comparison {
            operator: ComparisonOperator::GtEq,
            reference: Reference { id: 1, required: true },
            literal: Literal::from_number(literal, &data_type).unwrap(),
        }
    }

    fn ours(row_filter: Option<Predicate>, projections: &[(i32, Action)]) -> ReadRestrictions {
        let projections = projections.iter().map(|&(field_id, action)| Projection { field_id, action });
        ReadRestrictions::new(row_filter, projections).unwrap()
    }

    #[track_caller]
    fn parse(text: &str) -> UpstreamMember<'_> {
        UpstreamMember::parse(text).expect("well-formed").expect("a restriction")
    }

    fn equals(text: &str, ours: &ReadRestrictions) -> bool {
        parse(text).must_equal(ours).is_ok()
    }

    fn conjoin(text: &str, ours: &ReadRestrictions) -> Result<String, UpstreamError> {
        parse(text).conjoin(ours)
    }

    fn is_malformed(text: &str) -> bool {
        matches!(UpstreamMember::parse(text), Err(UpstreamError::Malformed(_)))
    }

    #[test]
    fn nothing_restricted_is_nothing() {
        for text in [
            "null",
            " null ",
            "{}",
            " { } ",
            r#"{"required-row-filter":null}"#,
            r#"{"required-row-filter":true}"#,
            r#"{"required-row-filter":{"type":"true"}}"#,
            r#"{"required-column-projections":[]}"#,
            r#"{"required-column-projections":null,"required-row-filter":null}"#,
            r#"{"required-column-projections": [ ], "required-row-filter": { "type" : "true" }}"#,
            r#"{"required\u002drow-filter":true}"#,
        ] {
            assert!(matches!(UpstreamMember::parse(text), Ok(None)), "{text}");
        }
    }

    #[test]
    fn denial_is_a_restriction() {
        for text in [r#"{"required-row-filter":false}"#, r#"{"required-row-filter":{"type":"false"}}"#] {
            assert!(matches!(UpstreamMember::parse(text), Ok(Some(_))), "{text}");
        }
    }

    #[test]
    fn equal_restrictions_are_equal_in_any_spelling() {
        let both = ours(
            Some(filter(PrimitiveType::Double, "5")),
            &[(4, Action::ShowLast4), (8, Action::TruncateToYear)],
        );
        let same = r#" {
            "required-row-filter": {"right": {"data-type": "double", "value": 5, "type": "literal"},
                "left": {"id": 1, "type": "reference"}, "type": "gt-eq"},
            "required-column-projections": [
                {"field-id": 8, "action": "truncate-to-year"}, {"action": "show-last-4", "field-id": 4}]
        }"#;
        // Readers tell NaN from numbers differently: the guard is part of the filter.
        assert!(!equals(same, &both));
        let same = same.replace(
            r#""required-row-filter": {"right""#,
            r#""required-row-filter": {"type": "and", "left": {"child": {"id": 1, "type": "reference"},
                "type": "not-nan"}, "right": {"right""#,
        );
        let same = same.replace(r#""gt-eq"}"#, r#""gt-eq"}}"#);
        assert!(equals(&same, &both));
        assert!(equals(&same.replace("5,", "5.00,"), &both));
        assert!(equals(&same.replace("5,", "0.5e1,"), &both));
        assert!(!equals(&same.replace("5,", "5.000001,"), &both));
        assert!(!equals(&same.replace("5,", "\"5\","), &both));
        assert!(!equals(&same.replace("show-last-4", "show-first-4"), &both));
        assert!(!equals(&same.replace("\"field-id\": 4", "\"field-id\": 5"), &both));
    }

    #[test]
    fn our_own_member_says_the_same() {
        for restrictions in [
            ours(Some(Predicate::Constant(false)), &[]),
            ours(Some(filter(PrimitiveType::Float, "0.1")), &[(4, Action::ShowLast4)]),
            ours(None, &[(4, Action::ShowLast4)]),
        ] {
            let text = restrictions.to_json();
            assert!(equals(&text, &restrictions), "{text}");
            assert!(!equals(&text, &ours(None, &[(9, Action::ShowLast4)])));
        }
    }

    #[test]
    fn the_sign_of_zero_and_large_integers_are_kept_apart() {
        let zero = ours(Some(filter(PrimitiveType::Double, "0")), &[]);
        let text = zero.to_json();
        assert!(text.contains("-0.0") && equals(&text, &zero));
        assert!(!equals(&text.replace("-0.0", "0.0"), &zero));
        let large = ours(Some(filter(PrimitiveType::Long, "9007199254740993")), &[]);
        let text = large.to_json();
        assert!(!equals(&text.replace("740993", "740992"), &large));
        assert!(!equals(&text.replace("740993", "740993.0"), &large), "not a long to everyone");
    }

    #[test]
    fn filters_are_joined_with_and_in_the_upstream_filters_own_text() {
        let upstream = r#"{ "required-row-filter" : { "type":"gt", "left":{"type":"reference","id":2},  "right":1.50e0 } }"#;
        let restrictions = ours(Some(filter(PrimitiveType::Int, "5")), &[]);
        assert_eq!(
            conjoin(upstream, &restrictions).unwrap(),
            r#"{"required-row-filter":{"type":"and","left":{ "type":"gt", "left":{"type":"reference","id":2},  "right":1.50e0 },"right":{"type":"gt-eq","left":{"type":"reference","id":1},"right":{"type":"literal","value":5,"data-type":"int"}}}}"#
        );
    }

    #[test]
    fn actions_are_united_and_sorted() {
        let upstream = r#"{"required-column-projections":[{"field-id":8,"action":"truncate-to-year"},{"field-id":2,"action":"show-last-4"}]}"#;
        let restrictions =
            ours(Some(Predicate::Constant(false)), &[(2, Action::ShowLast4), (4, Action::MaskAlphanum)]);
        assert_eq!(
            conjoin(upstream, &restrictions).unwrap(),
            r#"{"required-column-projections":[{"action":"show-last-4","field-id":2},{"action":"mask-alphanum","field-id":4},{"action":"truncate-to-year","field-id":8}],"required-row-filter":false}"#
        );
        let conflict = conjoin(upstream, &ours(None, &[(8, Action::TruncateToMonth)])).unwrap_err();
        let actions = [Action::TruncateToYear, Action::TruncateToMonth];
        assert_eq!(conflict, UpstreamError::Conflict(ActionConflict { field_id: 8, actions }));
    }

    #[test]
    fn a_part_that_only_one_side_has_is_kept() {
        let mask = ours(None, &[(4, Action::ShowLast4)]);
        assert_eq!(
            conjoin(r#"{"required-row-filter": {"type": "false"}}"#, &mask).unwrap(),
            r#"{"required-column-projections":[{"action":"show-last-4","field-id":4}],"required-row-filter":{"type": "false"}}"#
        );
        let upstream = r#"{"required-row-filter":true,"required-column-projections":[{"field-id":8,"action":"show-last-4"}]}"#;
        assert_eq!(
            conjoin(upstream, &ours(Some(Predicate::Constant(false)), &[])).unwrap(),
            r#"{"required-column-projections":[{"action":"show-last-4","field-id":8}],"required-row-filter":false}"#
        );
    }

    #[test]
    fn upstream_filters_of_every_form_of_the_schema_can_be_joined() {
        let restrictions = ours(Some(Predicate::Constant(false)), &[]);
        for form in [
            r#"{"type":"not","child":{"type":"or","left":false,"right":{"type":"true"}}}"#,
            r#"{"type":"starts-with","left":{"type":"reference","id":1},"right":"a"}"#,
            r#"{"type":"eq","left":{"type":"reference","id":1},"right":{"type":"literal","value":"a"}}"#,
            r#"{"type":"in","child":{"type":"reference","id":1},"values":[1,{"type":"literal","value":2,"data-type":"int"}]}"#,
            r#"{"type":"in","child":{"type":"reference","id":1},"values":{"type":"literals","values":[1,2],"data-type":"int"}}"#,
            r#"{"type":"is-null","child":{"type":"apply","function":"year","arguments":[{"type":"reference","id":1},true]}}"#,
        ] {
            let upstream = format!(r#"{{"required-row-filter":{form}}}"#);
            assert!(conjoin(&upstream, &restrictions).is_ok(), "{form}");
        }
    }

    #[test]
    fn what_the_schema_does_not_allow_is_an_error_and_not_nothing() {
        let filters = [
            r#""US""#,
            r#"{"type":"true","more":1}"#,
            r#"{"type":"and","left":false}"#,
            r#"{"type":"and","left":false,"right":false,"middle":false}"#,
            r#"{"type":"matches","left":{"type":"reference","id":1},"right":"a"}"#,
            r#"{"type":"eq","term":"region","value":"US"}"#,
            r#"{"type":"eq","left":{"type":"reference","name":"region"},"right":"US"}"#,
            r#"{"type":"eq","left":{"type":"reference","id":1.5},"right":"US"}"#,
            r#"{"type":"eq","left":{"type":"reference","id":1},"right":null}"#,
            r#"{"type":"eq","type":"not-eq","left":{"type":"reference","id":1},"right":1}"#,
            r#"{"type":"in","child":{"type":"reference","id":1},"values":[null]}"#,
            r#"{"type":"is-null","child":{"type":"apply","function":"year","arguments":[{}]}}"#,
        ];
        let projections = [
            r#"{}"#,
            r#"["show-last-4"]"#,
            r#"[["show-last-4",1]]"#,
            r#"[{"action":"apply-expression","field-id":1}]"#,
            r#"[{"action":"show-last-4"}]"#,
            r#"[{"action":"show-last-4","field-id":"1"}]"#,
            r#"[{"action":"show-last-4","field-id":4294967296}]"#,
            r#"[{"action":"show-last-4","field-id":1,"salt":1}]"#,
            r#"[{"action":"show-last-4","field-id":1},{"action":"show-last-4","field-id":1}]"#,
        ];
        let members = filters.map(|filter| format!(r#"{{"required-row-filter":{filter}}}"#));
        let members = members.into_iter().chain(
            projections.map(|projections| format!(r#"{{"required-column-projections":{projections}}}"#)),
        );
        let others = [
            "[]",
            "[null,null]",
            "false",
            "0",
            r#""x""#,
            "",
            "{",
            "{} {}",
            r#"{"something-new":null}"#,
            r#"{"required-row-filter":true,"required-row-filter":false}"#,
            r#"{"required-row-filter":null,"required-row-filter":null}"#,
        ];
        for text in members.chain(others.map(str::to_owned)) {
            assert!(is_malformed(&text), "{text}");
        }
    }

    #[test]
    fn nesting_beyond_the_parser_is_malformed_and_no_overflow() {
        let deep = format!(
            r#"{{"required-row-filter":{}false{}}}"#,
            r#"{"type":"not","child":"#.repeat(10_000),
            "}".repeat(10_000)
        );
        assert!(is_malformed(&deep));
    }
}
