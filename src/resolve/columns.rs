//! The masks of a load: of every current top-level field, and of those that only older schemas have.

use std::{
    cell::Cell,
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
    table::{Field, History, LoadResult, Schema},
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
    let (schema, history) = (table.schema(), table.history().map_err(ResolveError::Table)?);
    let lists: Vec<_> = schema.fields().map(|field| masks.of_current(field.name)).collect();
    masks.check_named_columns(schema, history)?;
    let mut resolved = Vec::new();
    for (field, list) in schema.fields().zip(lists) {
        resolved.extend(resolve_field(field, None, &[list], conflict)?);
    }
    for past in history.past_fields() {
        let lists: Vec<_> = past.names().map(|name| masks.of(name)).collect();
        let latest = past.latest();
        resolved.extend(resolve_field(latest, Some(latest.name), &lists, conflict)?);
    }
    check_nested_ids(resolved.iter().map(|mask| mask.projection.field_id), history)?;
    resolved.sort_unstable_by_key(|mask| mask.projection);
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
    table.schema().fields().any(|field| test(field.name))
        || table.history().map_or(true, |history| history.past_fields().any(|past| past.names().any(&test)))
}

/// The masks that apply to the subject, by the name of the column.
pub(super) struct Masks<'a> {
    inherited: MaskList<'a>,
    /// Sorted by name.
    columns: Vec<(&'a str, MaskList<'a>)>,
}

/// The masks of one column, before it is known which field that is.
#[derive(Default)]
pub(super) struct MaskList<'a> {
    choices: Vec<MaskChoice<'a>>,
    policies: Arc<[Arc<Provenance>]>,
    /// Whether the current schema has the column.
    is_current: Cell<bool>,
}

/// One mask policy, resolved for the subject.
struct MaskChoice<'a> {
    effective: &'a EffectivePolicy,
    mask: Arc<LoweredMask>,
    provenance: Arc<Provenance>,
}

/// Mask policies for one subject and one schema, each bound once however many columns it reaches.
struct Bound<'a> {
    schema: &'a Schema,
    context: Context<'a>,
    masks: BTreeMap<*const Policy, Arc<LoweredMask>>,
}

impl<'a> Masks<'a> {
    pub fn select(
        policies: &'a EffectivePolicies,
        enforced: bool,
        schema: &Schema,
        context: Context<'_>,
    ) -> Result<Self, ResolveError> {
        let mut bound = Bound { schema, context, masks: BTreeMap::new() };
        let mut list = |effective: &'a [EffectivePolicy]| MaskList::select(effective, enforced, &mut bound);
        let inherited = list(&policies.column_masks)?;
        let columns = policies
            .columns
            .iter()
            .map(|(name, effective)| Ok((&**name, list(effective)?)))
            .collect::<Result<_, ResolveError>>()?;
        Ok(Self { inherited, columns })
    }

    fn is_empty(&self) -> bool {
        self.inherited.choices.is_empty() && self.columns.iter().all(|(_, list)| list.choices.is_empty())
    }

    pub fn of(&self, name: &str) -> &MaskList<'a> {
        match self.columns.binary_search_by_key(&name, |(column, _)| column) {
            Ok(found) => &self.columns[found].1,
            Err(_) => &self.inherited,
        }
    }

    fn of_current(&self, name: &str) -> &MaskList<'a> {
        let list = self.of(name);
        list.is_current.set(true);
        list
    }

    /// A column that an assignment names for a mask must be a current field, or a dropped one; a field
    /// that lives on under another name would silently lose its mask. The current ones were
    /// [asked for](Self::of_current) before.
    fn check_named_columns(&self, current: &Schema, history: &History) -> Result<(), ResolveError> {
        for (name, list) in self.columns.iter().filter(|(_, list)| !list.is_current.get()) {
            let named = list.choices.iter().find(|choice| is_named(&choice.provenance.selections));
            if let Some(choice) = named {
                check_past_name(name, &choice.effective.policy.name, current, history)?;
            }
        }
        Ok(())
    }
}

impl<'a> MaskList<'a> {
    fn select(
        effective: &'a [EffectivePolicy],
        enforced: bool,
        bound: &mut Bound<'_>,
    ) -> Result<Self, ResolveError> {
        let mut choices = Vec::new();
        for effective in effective.iter().filter(|effective| effective.policy.enforce == enforced) {
            if let Some(selected) = select(effective, bound.context)? {
                choices.push(MaskChoice::resolve(selected, bound)?);
            }
        }
        if choices.is_empty() {
            return Ok(Self::default());
        }
        let policies = choices.iter().map(|choice| choice.provenance.clone()).collect();
        Ok(Self { choices, policies, is_current: Cell::default() })
    }
}

impl<'a> MaskChoice<'a> {
    fn resolve(selected: Selected<'a>, bound: &mut Bound<'_>) -> Result<Self, ResolveError> {
        let mask = bound.mask(&selected)?;
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

impl Bound<'_> {
    fn mask(&mut self, selected: &Selected<'_>) -> Result<Arc<LoweredMask>, ResolveError> {
        let policy = Arc::as_ptr(&selected.effective.policy);
        if let Some(mask) = self.masks.get(&policy) {
            return Ok(Arc::clone(mask));
        }
        let expression = selected.expression;
        let binder = Binder { source: expression.source(), context: self.context, schema: self.schema };
        let mask = match expression.rule() {
            Rule::Mask { branches, fallback } => lower_mask(&binder, branches, fallback),
            Rule::Filter { .. } => {
                Err(binder.error(Default::default(), "a column mask must be a `mask` rule"))
            }
        }
        .map_err(|error| ResolveError::Expression { policy: selected.name().clone(), error })?;
        let mask = Arc::new(mask);
        self.masks.insert(policy, Arc::clone(&mask));
        Ok(mask)
    }
}

/// Whether an assignment on the column itself leads to the policy.
pub(super) fn is_named(selections: &[Selection]) -> bool {
    selections.iter().any(|selection| selection.from.column.is_some())
}

/// A column of which a policy masks the values, and that the current schema does not have, must have been dropped.
pub(super) fn check_past_name(
    name: &str,
    policy: &Arc<str>,
    current: &Schema,
    history: &History,
) -> Result<(), ResolveError> {
    let (policy, column) = (policy.clone(), Arc::from(name));
    let Some(lives_on) = history.former_name(name) else {
        return Err(ResolveError::ColumnNotFound { policy, column });
    };
    match lives_on.and_then(|id| current.field_by_id(id)) {
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

/// A projection on an id that is also used below the top level would reach something else as well.
pub(super) fn check_nested_ids(
    mut field_ids: impl Iterator<Item = i32>,
    history: &History,
) -> Result<(), ResolveError> {
    match field_ids.find(|id| history.has_nested_id(*id)) {
        Some(field_id) => Err(ResolveError::NestedFieldId { field_id }),
        None => Ok(()),
    }
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
