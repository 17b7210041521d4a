//! The `read-restrictions` member, parsed strictly and checked against the schema that is read.

use std::{collections::BTreeMap, str::FromStr};

use iceberg::spec::{NestedFieldRef, PrimitiveType, Schema, Type};
use serde_json::Value;

use crate::{
    Refusal,
    json::{self, member, object},
    predicate::Predicate,
};

/// What this reader has to enforce on one table.
#[derive(Clone, Debug, PartialEq)]
pub struct Restrictions {
    row_filter: Predicate,
    /// By field id. Some fields may be none of the schema's.
    projections: BTreeMap<i32, Action>,
}

/// What to do to the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the action of the same name")]
pub enum Action {
    MaskAlphanum,
    MaskToFixedValue,
    ReplaceWithNull,
    ShowFirst4,
    ShowLast4,
    TruncateToYear,
    TruncateToMonth,
    Sha256Global,
    Sha256QueryLocal,
}

impl FromStr for Action {
    type Err = Refusal;

    fn from_str(name: &str) -> Result<Self, Refusal> {
        match name {
            "mask-alphanum" => Ok(Self::MaskAlphanum),
            "mask-to-fixed-value" => Ok(Self::MaskToFixedValue),
            "replace-with-null" => Ok(Self::ReplaceWithNull),
            "show-first-4" => Ok(Self::ShowFirst4),
            "show-last-4" => Ok(Self::ShowLast4),
            "truncate-to-year" => Ok(Self::TruncateToYear),
            "truncate-to-month" => Ok(Self::TruncateToMonth),
            "sha-256-global" => Ok(Self::Sha256Global),
            "sha-256-query-local" => Ok(Self::Sha256QueryLocal),
            unknown => Err(Refusal::new(format!("this reader does not know the action `{unknown}`"))),
        }
    }
}

impl Restrictions {
    /// Nothing to enforce.
    pub fn none() -> Self {
        Self { row_filter: Predicate::Constant(true), projections: BTreeMap::new() }
    }

    /// Reads the text of the member's value. Null counts as no restriction, for catalogs that write absent members so.
    ///
    /// # Errors
    ///
    /// When the text is not JSON or repeats a member, and on everything that this reader could not enforce or does not know; see [`Predicate::parse`] for the filter. A
    /// projection must have a known action and a field id that no other has. The fields that the schema has must be fit
    /// for their action, no map key, and not inside one another. An id that the schema does not have is that of a
    /// column that is not read here, so that its action applies to nothing.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, Refusal> {
        Self::from_value(&json::parse(text.as_bytes())?, schema)
    }

    pub(crate) fn from_value(value: &Value, schema: &Schema) -> Result<Self, Refusal> {
        if value.is_null() {
            return Ok(Self::none());
        }
        let members =
            object(value, "`read-restrictions`", &["required-column-projections", "required-row-filter"])?;
        let projections = match members.get("required-column-projections") {
            None => BTreeMap::new(),
            Some(Value::Array(projections)) => parse_projections(projections)?,
            Some(other) => return Err(Refusal::new(format!("the projections are no array: {other}"))),
        };
        for field in schema.as_struct().fields() {
            check(field, &projections, None)?;
        }
        let row_filter = match members.get("required-row-filter") {
            None | Some(Value::Null) => Predicate::Constant(true),
            Some(filter) => Predicate::parse(filter, schema)?,
        };
        Ok(Self { row_filter, projections })
    }

    /// Which rows may be shown, by their original values.
    pub fn row_filter(&self) -> &Predicate {
        &self.row_filter
    }

    /// What to do to a field, at any depth.
    pub fn action(&self, field_id: i32) -> Option<Action> {
        self.projections.get(&field_id).copied()
    }
}

fn parse_projections(projections: &[Value]) -> Result<BTreeMap<i32, Action>, Refusal> {
    let mut actions = BTreeMap::new();
    for projection in projections {
        let members = object(projection, "a projection", &["action", "field-id"])?;
        let id = member(members, "a projection", "field-id")?.as_i64().and_then(|id| i32::try_from(id).ok());
        let id = id.filter(|id| *id >= 0);
        let id =
            id.ok_or_else(|| Refusal::new(format!("a projection has what is no field id: {projection}")))?;
        let action = member(members, "a projection", "action")?.as_str();
        let action = action
            .ok_or_else(|| Refusal::new(format!("a projection has what is no action: {projection}")))?;
        if actions.insert(id, action.parse()?).is_some() {
            return Err(Refusal::new(format!("the field {id} has more than one action")));
        }
    }
    Ok(actions)
}

/// Checks the actions on a field and on everything inside it; `outer` is an enclosing field that has an action.
fn check(field: &NestedFieldRef, actions: &BTreeMap<i32, Action>, outer: Option<i32>) -> Result<(), Refusal> {
    let id = field.id;
    let action = actions.get(&id);
    if let (Some(outer), Some(_)) = (outer, action) {
        return Err(Refusal::new(format!(
            "the field {outer} and the field {id} inside it both have an action"
        )));
    }
    match action {
        Some(Action::ReplaceWithNull) if field.required => {
            return Err(Refusal::new(format!("the field {id} is required and cannot be replaced with null")));
        }
        Some(&action) if !fits(action, &field.field_type) => {
            return Err(Refusal::new(format!(
                "{action:?} does not fit the field {id} of the type {}",
                field.field_type
            )));
        }
        _ => {}
    }
    let outer = outer.or(action.map(|_| id));
    match &*field.field_type {
        Type::Primitive(_) => Ok(()),
        Type::Struct(fields) => fields.fields().iter().try_for_each(|field| check(field, actions, outer)),
        Type::List(list) => check(&list.element_field, actions, outer),
        Type::Map(map) => {
            let key = &map.key_field;
            if has_action(key, actions) {
                return Err(Refusal::new(format!("an action on the key {} of a map", key.id)));
            }
            check(&map.value_field, actions, outer)
        }
    }
}

/// Whether a field or one inside it has an action. Changing a part of a key changes the key.
fn has_action(field: &NestedFieldRef, actions: &BTreeMap<i32, Action>) -> bool {
    let inside = match &*field.field_type {
        Type::Primitive(_) => false,
        Type::Struct(fields) => fields.fields().iter().any(|field| has_action(field, actions)),
        Type::List(list) => has_action(&list.element_field, actions),
        Type::Map(map) => has_action(&map.key_field, actions) || has_action(&map.value_field, actions),
    };
    inside || actions.contains_key(&field.id)
}

/// Whether the action is defined for the type. All types that iceberg-rust knows have a fixed value.
fn fits(action: Action, r#type: &Type) -> bool {
    use PrimitiveType as P;
    match action {
        Action::MaskToFixedValue | Action::ReplaceWithNull => true,
        Action::MaskAlphanum | Action::ShowFirst4 | Action::ShowLast4 => {
            matches!(r#type, Type::Primitive(P::String))
        }
        Action::TruncateToYear | Action::TruncateToMonth => matches!(
            r#type,
            Type::Primitive(P::Date | P::Timestamp | P::Timestamptz | P::TimestampNs | P::TimestamptzNs)
        ),
        Action::Sha256Global | Action::Sha256QueryLocal => {
            matches!(r#type, Type::Primitive(P::String | P::Int | P::Long | P::Binary))
        }
    }
}
