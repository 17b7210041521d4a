//! The masks of a load: of every current top-level field, and of those that only older schemas have.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    ConflictRule,
    bind::{Binder, Context},
    error::{ActionMisfit, ResolveError},
    lower::{LoweredMask, lower_mask},
    select::{Provenance, Selected, select},
};
use crate::{
    expression::{ExpressionError, Rule, Span},
    policy::{EffectivePolicies, EffectivePolicy, ObjectName, Policy, Selection},
    restriction::{Action, ActionError, Projection},
    table::{Field, LoadResult, Schema, Type},
};

/// A mask on one field with everything that led to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResolvedColumnMask {
    /// The field and the action.
    pub projection: Projection,
    /// The latest name of a field that the current schema no longer has; `None` for a current field.
    pub dropped: Option<Arc<str>>,
    /// The policies that ask for the action.
    pub policies: Arc<[Arc<Provenance>]>,
}

/// Resolves the masks of all fields, sorted by field id.
pub(super) fn resolve_masks(
    policies: &EffectivePolicies,
    enforced: bool,
    table: &LoadResult,
    context: Context<'_>,
    conflict: ConflictRule,
) -> Result<Vec<ResolvedColumnMask>, ResolveError> {
    let masks = Masks::select(policies, enforced, table.schema(), context)?;
    if masks.is_empty() {
        return Ok(Vec::new());
    }
    let older = table.older_schemas().map_err(ResolveError::Table)?;
    masks.check_named_columns(table.schema(), &older)?;
    let mut resolved = Vec::new();
    for field in table.schema().fields() {
        let lists = [masks.of(field.name)];
        resolved.extend(resolve_field(field, None, &lists, conflict)?);
    }
    for past in past_fields(table.schema(), &older) {
        let lists: Vec<_> = past.names.iter().map(|name| masks.of(name)).collect();
        resolved.extend(resolve_field(past.latest, Some(past.latest.name), &lists, conflict)?);
    }
    let field_ids = resolved.iter().map(|mask| mask.projection.field_id);
    check_nested_ids(field_ids, table.schema(), &older)?;
    resolved.sort_by_key(|mask| mask.projection);
    Ok(resolved)
}

/// Whether an enforced policy is effective on the table or on a column that it has, had, or must have.
pub(super) fn is_governed(policies: &EffectivePolicies, table: &LoadResult) -> bool {
    let enforced = |list: &[EffectivePolicy]| list.iter().any(|effective| effective.policy.enforce);
    let names_a_column =
        |effective: &EffectivePolicy| effective.policy.enforce && is_named(&effective.selections);
    policies.is_governed()
        && (enforced(&policies.row_filters)
            || policies.columns.values().flatten().any(names_a_column)
            || has_column(table, |name| {
                enforced(policies.columns.get(name).map_or(&*policies.column_masks, |list| list))
            }))
}

/// The masks that every column of the table, now and in the past, shakes off by a tag of its own.
pub(super) fn shaken_off<'a>(
    policies: &'a EffectivePolicies,
    table: &LoadResult,
) -> impl Iterator<Item = &'a EffectivePolicy> {
    let is_inherited = has_column(table, |name| !policies.columns.contains_key(name));
    let inherited = if is_inherited { &[] } else { &*policies.column_masks };
    inherited.iter().filter(|effective| {
        let mut own = policies.columns.values().flatten();
        !own.any(|other| other.policy.name == effective.policy.name)
    })
}

/// Whether a current column passes the test, or one that only older schemas have; those are looked at only if
/// they have to tell, and pass when they cannot be read.
fn has_column(table: &LoadResult, test: impl Fn(&str) -> bool) -> bool {
    let current = table.schema();
    current.fields().any(|field| test(field.name))
        || table.older_schemas().map_or(true, |older| {
            let mut past = older.iter().flat_map(Schema::fields);
            past.any(|field| current.field_by_id(field.id).is_none() && test(field.name))
        })
}

/// The masks that apply to the subject, by the name of the column.
pub(super) struct Masks<'a> {
    inherited: MaskList<'a>,
    columns: BTreeMap<&'a str, MaskList<'a>>,
}

/// The masks of one column, before it is known which field that is.
#[derive(Default)]
pub(super) struct MaskList<'a> {
    choices: Vec<MaskChoice<'a>>,
    policies: Arc<[Arc<Provenance>]>,
}

/// One mask policy, resolved for the subject.
struct MaskChoice<'a> {
    effective: &'a EffectivePolicy,
    mask: LoweredMask,
    provenance: Arc<Provenance>,
}

impl<'a> Masks<'a> {
    pub fn select(
        policies: &'a EffectivePolicies,
        enforced: bool,
        schema: &Schema,
        context: Context<'_>,
    ) -> Result<Self, ResolveError> {
        let list = |effective: &'a [EffectivePolicy]| MaskList::select(effective, enforced, schema, context);
        let inherited = list(&policies.column_masks)?;
        let columns = policies
            .columns
            .iter()
            .map(|(name, effective)| Ok((&**name, list(effective)?)))
            .collect::<Result<_, ResolveError>>()?;
        Ok(Self { inherited, columns })
    }

    fn is_empty(&self) -> bool {
        self.inherited.choices.is_empty() && self.columns.values().all(|list| list.choices.is_empty())
    }

    pub fn of(&self, name: &str) -> &MaskList<'a> {
        self.columns.get(name).unwrap_or(&self.inherited)
    }

    /// A column that an assignment names for a mask must be a current field, or a dropped one; a field
    /// that lives on under another name would silently lose its mask.
    fn check_named_columns(&self, current: &Schema, older: &[Schema]) -> Result<(), ResolveError> {
        for (name, list) in &self.columns {
            let named = list.choices.iter().find(|choice| is_named(&choice.provenance.selections));
            if let Some(choice) = named {
                check_named_column(name, &choice.effective.policy.name, current, older)?;
            }
        }
        Ok(())
    }
}

impl<'a> MaskList<'a> {
    fn select(
        effective: &'a [EffectivePolicy],
        enforced: bool,
        schema: &Schema,
        context: Context<'_>,
    ) -> Result<Self, ResolveError> {
        let mut choices = Vec::new();
        for effective in effective.iter().filter(|effective| effective.policy.enforce == enforced) {
            if let Some(selected) = select(effective, context)? {
                choices.push(MaskChoice::resolve(selected, schema, context)?);
            }
        }
        if choices.is_empty() {
            return Ok(Self::default());
        }
        let policies = choices.iter().map(|choice| choice.provenance.clone()).collect();
        Ok(Self { choices, policies })
    }
}

impl<'a> MaskChoice<'a> {
    fn resolve(selected: Selected<'a>, schema: &Schema, context: Context<'_>) -> Result<Self, ResolveError> {
        let expression = selected.expression;
        let binder = Binder { source: expression.source(), context, schema };
        let mask = match expression.rule() {
            Rule::Mask { branches, fallback } => lower_mask(&binder, branches, fallback),
            Rule::Filter { .. } => {
                Err(binder.error(Default::default(), "a column mask must be a `mask` rule"))
            }
        }
        .map_err(|error| ResolveError::Expression { policy: selected.name().clone(), error })?;
        let effective = selected.effective;
        let provenance = Arc::new(selected.provenance(Some(mask.branch)));
        Ok(Self { effective, mask, provenance })
    }

    /// Every action of the policy must fit the field, also those of branches not taken.
    fn check_field(&self, field: Field<'_>) -> Result<(), ResolveError> {
        for (action, span) in &self.mask.actions {
            action.check(field).map_err(|error| {
                misfit(&self.effective.policy, &self.provenance.selections, field, error, *span)
            })?;
        }
        Ok(())
    }
}

/// Whether an assignment on the column itself leads to the policy.
pub(super) fn is_named(selections: &[Selection]) -> bool {
    selections.iter().any(|selection| selection.from.column.is_some())
}

/// A named column of which a policy masks the values must be found.
pub(super) fn check_named_column(
    name: &str,
    policy: &Arc<str>,
    current: &Schema,
    older: &[Schema],
) -> Result<(), ResolveError> {
    if current.fields_by_name(name).next().is_some() {
        return Ok(());
    }
    let (policy, column) = (policy.clone(), Arc::from(name));
    let mut past = older.iter().flat_map(|schema| schema.fields_by_name(name)).peekable();
    if past.peek().is_none() {
        return Err(ResolveError::ColumnNotFound { policy, column });
    }
    match past.find_map(|field| current.field_by_id(field.id)) {
        Some(renamed) => Err(ResolveError::ColumnRenamed { policy, column, now: renamed.name.into() }),
        None => Ok(()),
    }
}

/// An action that does not fit a field.
pub(super) fn misfit(
    policy: &Policy,
    selections: &[Selection],
    field: Field<'_>,
    error: ActionError,
    span: Span,
) -> ResolveError {
    let source: Arc<str> = policy.expression.as_ref().map_or_else(|_| Arc::default(), |e| e.source().clone());
    ResolveError::Action(Box::new(ActionMisfit {
        policy: policy.name.clone(),
        column: field.name.into(),
        reached_through: reached_through(selections),
        at: ExpressionError::new(source, span, error.to_string()),
        error,
    }))
}

/// One action for one field, from the lists of all names that the field has or had.
fn resolve_field(
    field: Field<'_>,
    dropped: Option<&str>,
    lists: &[&MaskList<'_>],
    conflict: ConflictRule,
) -> Result<Option<ResolvedColumnMask>, ResolveError> {
    let choices = || lists.iter().flat_map(|list| &list.choices);
    let Some(first) = choices().next() else { return Ok(None) };
    for choice in choices() {
        choice.check_field(field)?;
    }
    check_agreement(field, lists, conflict)?;
    Ok(Some(ResolvedColumnMask {
        projection: Projection { field_id: field.id, action: first.mask.taken },
        dropped: dropped.map(Arc::from),
        policies: united(lists),
    }))
}

/// All masks of a field must want the same.
pub(super) fn check_agreement(
    field: Field<'_>,
    lists: &[&MaskList<'_>],
    conflict: ConflictRule,
) -> Result<(), ResolveError> {
    let choices = || lists.iter().flat_map(|list| &list.choices);
    let Some(first) = choices().next() else { return Ok(()) };
    if !choices().any(|choice| conflict.conflicts(first, choice)) {
        return Ok(());
    }
    let policies: BTreeSet<_> = choices().map(|choice| choice.effective.policy.name.clone()).collect();
    let policies = policies.into_iter().collect();
    Err(ResolveError::Conflict { column: Some(field.name.into()), policies })
}

impl ConflictRule {
    /// On one field, equal signatures and equal actions are the same thing.
    fn conflicts(self, a: &MaskChoice<'_>, b: &MaskChoice<'_>) -> bool {
        let (a_action, b_action): (Action, Action) = (a.mask.taken, b.mask.taken);
        match self {
            Self::BySignature => a_action != b_action,
            Self::ByPolicy => a_action != b_action || a.effective.policy.name != b.effective.policy.name,
        }
    }
}

/// The policies of all lists, each once with the selections of all names. One list is shared as it is.
fn united(lists: &[&MaskList<'_>]) -> Arc<[Arc<Provenance>]> {
    if let [list] = lists {
        return list.policies.clone();
    }
    let mut united: Vec<Arc<Provenance>> = Vec::new();
    for provenance in lists.iter().flat_map(|list| list.policies.iter()) {
        match united.iter_mut().find(|other| other.policy == provenance.policy) {
            Some(other) => Arc::make_mut(other).add_selections(&provenance.selections),
            None => united.push(provenance.clone()),
        }
    }
    united.into()
}

/// A top-level field that the current schema does not have.
pub(super) struct PastField<'a> {
    pub names: BTreeSet<&'a str>,
    /// As the last schema of the list that holds it has it.
    pub latest: Field<'a>,
}

pub(super) fn past_fields<'a>(current: &Schema, older: &'a [Schema]) -> Vec<PastField<'a>> {
    let mut past: BTreeMap<i32, PastField<'a>> = BTreeMap::new();
    for field in older.iter().flat_map(Schema::fields) {
        if current.field_by_id(field.id).is_some() {
            continue;
        }
        let entry = past.entry(field.id).or_insert(PastField { names: BTreeSet::new(), latest: field });
        entry.names.insert(field.name);
        entry.latest = field;
    }
    past.into_values().collect()
}

/// A projection on an id that is also used below the top level would reach something else as well.
pub(super) fn check_nested_ids(
    field_ids: impl Iterator<Item = i32> + Clone,
    current: &Schema,
    older: &[Schema],
) -> Result<(), ResolveError> {
    let is_nested = |field: Field<'_>| !matches!(field.r#type, Type::Primitive(_));
    for schema in std::iter::once(current).chain(older) {
        if !schema.fields().any(is_nested) {
            continue;
        }
        if let Some(field_id) = field_ids.clone().find(|id| schema.has_nested_id(*id)) {
            return Err(ResolveError::NestedFieldId { field_id });
        }
    }
    Ok(())
}

/// `tag `pii` on namespace `prod`.`sales``, for the administrator who has to find it.
fn reached_through(selections: &[Selection]) -> String {
    let each = |selection: &Selection| format!("tag `{}` on {}", selection.tag, object_name(&selection.from));
    selections.iter().map(each).collect::<Vec<_>>().join(" and ")
}

fn object_name(object: &ObjectName) -> String {
    let parts = std::iter::once(&object.catalog)
        .chain(&object.namespace)
        .chain(&object.table)
        .chain(&object.column)
        .map(|part| format!("`{part}`"))
        .collect::<Vec<_>>()
        .join(".");
    let kind = match object {
        ObjectName { column: Some(_), .. } => "column",
        ObjectName { table: Some(_), .. } => "table",
        ObjectName { namespace, .. } if !namespace.is_empty() => "namespace",
        ObjectName { .. } => "catalog",
    };
    format!("{kind} {parts}")
}
