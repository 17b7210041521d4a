//! What is wrong with the policies of a table, whoever asks: for those who write policies.

use std::{
    collections::{BTreeMap, BTreeSet},
    slice,
    sync::Arc,
};

use super::{
    ConflictRule, ResolveRequest, Resolver,
    bind::{Binder, Context},
    columns::{Masks, check_agreement, check_nested_ids, check_past_name, is_named, misfit},
    context,
    error::ResolveError,
    report::{keep, report},
    rows::resolve_row_filter,
};
use crate::{
    expression::{ActionCall, Expression, Rule, Span},
    identity::{Memberships, Subject},
    policy::{EffectivePolicies, EffectivePolicy, Policy, PolicyType},
    restriction::Action,
    table::{Field, History, LoadResult, Schema},
};

/// What a diagnosis is made of.
#[derive(Clone, Copy, Debug)]
pub struct DiagnoseRequest<'a> {
    /// The effective policies of the table.
    pub policies: &'a EffectivePolicies,
    /// The table.
    pub table: &'a LoadResult,
    /// The subjects to look for conflicts with, each with the answers for all groups that
    /// [`Resolver::groups`] lists. They may be made up. Everything that does not
    /// depend on the subject is found without any.
    pub subjects: &'a [(Subject, Memberships)],
}

/// One thing that loads of a table are refused for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// What is wrong.
    pub error: ResolveError,
    /// Whether loads are refused for it; not when it is about a report-only policy.
    pub enforced: bool,
    /// The first of the subjects that it happens to, by index; `None` when it happens to everybody.
    pub subject: Option<usize>,
}

pub(super) fn diagnose(resolver: &Resolver, request: DiagnoseRequest<'_>) -> Vec<Diagnosis> {
    let DiagnoseRequest { policies, table, subjects } = request;
    let mut findings = Findings::default();
    findings.bind(policies, table.schema());
    match table.history() {
        Err(error) if policies.all().any(is_mask) => findings.push(ResolveError::Table(error), true, None),
        // Nobody asks for the older schemas then.
        Err(_) => {}
        Ok(history) => {
            let columns = MaskedColumns::of(policies, table.schema(), history);
            findings.columns(policies, &columns, history);
            for (index, (subject, memberships)) in subjects.iter().enumerate() {
                let request = ResolveRequest {
                    policies,
                    subject: Some(subject),
                    memberships: Some(memberships),
                    table,
                };
                findings.with_subject(index, resolver, request, &columns);
            }
        }
    }
    findings.found
}

#[derive(Default)]
struct Findings {
    found: Vec<Diagnosis>,
    /// Policies that cannot be resolved and are left out from now on, so that they do not hide the rest.
    broken: BTreeSet<Arc<str>>,
}

/// The columns that masks can reach.
struct MaskedColumns<'a> {
    current: &'a Schema,
    all: Vec<MaskedColumn<'a>>,
}

struct MaskedColumn<'a> {
    field: Field<'a>,
    /// The names that masks can reach it by: of a current field the one that it has.
    names: Vec<&'a str>,
    /// Whether enough masks reach it for a conflict.
    contested: bool,
}

impl<'a> MaskedColumns<'a> {
    fn of(policies: &EffectivePolicies, current: &'a Schema, history: &'a History) -> Self {
        let enforced =
            |name: &str| masks_of(policies, name).iter().filter(|effective| effective.policy.enforce).count();
        let column = |field: Field<'a>, names: Vec<&'a str>| {
            let contested = names.iter().map(|name| enforced(name)).sum::<usize>() > 1;
            MaskedColumn { field, names, contested }
        };
        let all = current
            .fields()
            .map(|field| column(field, vec![field.name]))
            .chain(history.past_fields().map(|past| column(past.latest(), past.names().collect())))
            .collect();
        Self { current, all }
    }
}

impl Findings {
    fn push(&mut self, error: ResolveError, enforced: bool, subject: Option<usize>) {
        if self.found.iter().any(|known| known.error == error && known.enforced == enforced) {
            return;
        }
        if let ResolveError::Content { policy, .. }
        | ResolveError::Expression { policy, .. }
        | ResolveError::TooDeep { policy, .. } = &error
        {
            self.broken.insert(policy.clone());
        }
        self.found.push(Diagnosis { error, enforced, subject });
    }

    /// Whether an action fits a column does not depend on the subject, so that was found before.
    fn push_for(&mut self, index: usize, error: ResolveError, enforced: bool) {
        if !matches!(error, ResolveError::Action(_)) {
            self.push(error, enforced, Some(index));
        }
    }

    fn push_about(&mut self, policy: &Policy, error: ResolveError) {
        self.push(error, policy.enforce, None);
    }

    /// Binds every branch of every policy.
    fn bind(&mut self, policies: &EffectivePolicies, schema: &Schema) {
        let mut seen = BTreeSet::new();
        for EffectivePolicy { policy, .. } in policies.all() {
            if !seen.insert(&policy.name) {
                continue;
            }
            match &policy.expression {
                Err(error) => {
                    let error = ResolveError::Content { policy: policy.name.clone(), error: error.clone() };
                    self.push_about(policy, error);
                }
                Ok(expression) => {
                    for error in binder(expression, schema).all_errors(expression.rule()) {
                        let error = ResolveError::Expression { policy: policy.name.clone(), error };
                        self.push_about(policy, error);
                    }
                }
            }
        }
    }

    /// Holds every action of every mask against every column that it reaches, and looks for the columns
    /// that assignments name.
    fn columns(&mut self, policies: &EffectivePolicies, columns: &MaskedColumns<'_>, history: &History) {
        let is_current = |name: &str| columns.current.fields_by_name(name).next().is_some();
        for (name, list) in policies.columns.iter().filter(|(name, _)| !is_current(name)) {
            for effective in list.iter().filter(|effective| is_named(&effective.selections)) {
                let policy = &effective.policy;
                if let Err(error) = check_past_name(name, &policy.name, columns.current, history) {
                    self.push_about(policy, error);
                }
            }
        }
        let actions = actions_by_policy(policies, columns.current);
        let mut field_ids = Vec::new();
        for MaskedColumn { field, names, .. } in &columns.all {
            for effective in names.iter().flat_map(|name| masks_of(policies, name)) {
                let EffectivePolicy { policy, selections } = effective;
                for (action, span) in actions.get(&policy.name).into_iter().flatten() {
                    if let Err(error) = action.check(*field) {
                        self.push_about(policy, misfit(policy, selections, *field, error, *span));
                    }
                }
                if policy.enforce && field_ids.last() != Some(&field.id) {
                    field_ids.push(field.id);
                }
            }
        }
        if let Err(error) = check_nested_ids(field_ids.iter().copied(), history) {
            self.push(error, true, None);
        }
    }

    /// Resolves for one subject what is not broken.
    fn with_subject(
        &mut self,
        index: usize,
        resolver: &Resolver,
        request: ResolveRequest<'_>,
        columns: &MaskedColumns<'_>,
    ) {
        let context = match context(request.subject, request.memberships) {
            Ok(context) => context,
            Err(error) => return self.push_for(index, error, true),
        };
        let sound;
        let mut policies = request.policies;
        if !self.broken.is_empty() {
            sound = keep(policies, |effective| !self.broken.contains(&effective.policy.name));
            policies = &sound;
        }
        self.row_filters(index, policies, columns.current, context, resolver.conflict);
        self.contested_masks(index, policies, columns, context, resolver.conflict);
        let request = ResolveRequest { policies, ..request };
        if policies.is_governed()
            && request.table.read_restrictions().is_some()
            && let Err(error) = resolver.resolve(request)
        {
            self.push_for(index, error, true);
        }
        for reported in report(request) {
            if let Err(error) = reported.result {
                self.push_for(index, error, false);
            }
        }
    }

    fn row_filters(
        &mut self,
        index: usize,
        policies: &EffectivePolicies,
        schema: &Schema,
        context: Context<'_>,
        conflict: ConflictRule,
    ) {
        let mut resolved = Vec::new();
        for effective in policies.row_filters.iter().filter(|effective| effective.policy.enforce) {
            match resolve_row_filter([effective].into_iter(), schema, context, conflict) {
                Ok(filter) => {
                    resolved.extend(filter.map(|filter| (filter.predicate, &effective.policy.name)))
                }
                Err(error) => self.push_for(index, error, true),
            }
        }
        let distinct = match conflict {
            ConflictRule::ByPolicy => resolved.len() > 1,
            ConflictRule::BySignature => resolved.windows(2).any(|pair| pair[0].0 != pair[1].0),
        };
        if distinct {
            let policies = resolved.into_iter().map(|(_, policy)| policy.clone()).collect();
            self.push_for(index, ResolveError::Conflict { column: None, policies }, true);
        }
    }

    /// Only fields with several masks can have a conflict, and what else can be wrong with a mask is known.
    fn contested_masks(
        &mut self,
        index: usize,
        policies: &EffectivePolicies,
        columns: &MaskedColumns<'_>,
        context: Context<'_>,
        conflict: ConflictRule,
    ) {
        let mut contested = columns.all.iter().filter(|column| column.contested).peekable();
        if contested.peek().is_none() {
            return;
        }
        let masks = match Masks::select(policies, true, columns.current, context) {
            Ok(masks) => masks,
            Err(error) => return self.push_for(index, error, true),
        };
        for MaskedColumn { field, names, .. } in contested {
            let lists: Vec<_> = names.iter().map(|name| masks.of(name)).collect();
            if let Err(error) = check_agreement(*field, &lists, conflict) {
                self.push_for(index, error, true);
            }
        }
    }
}

fn is_mask(effective: &EffectivePolicy) -> bool {
    effective.policy.policy_type == PolicyType::ColumnMask
}

fn masks_of<'a>(policies: &'a EffectivePolicies, column: &str) -> &'a [EffectivePolicy] {
    policies.columns.get(column).unwrap_or(&policies.column_masks)
}

/// Binds what does not depend on the subject.
fn binder<'a>(expression: &'a Expression, schema: &'a Schema) -> Binder<'a> {
    Binder { source: expression.source(), context: Context { subject: "", memberships: None }, schema }
}

/// The different actions of each mask, with the place of the first of its kind.
fn actions_by_policy<'a>(
    policies: &'a EffectivePolicies,
    schema: &Schema,
) -> BTreeMap<&'a Arc<str>, Vec<(Action, Span)>> {
    let mut by_policy = BTreeMap::new();
    for EffectivePolicy { policy, .. } in policies.all().filter(|effective| is_mask(effective)) {
        let Ok(expression) = &policy.expression else { continue };
        by_policy.entry(&policy.name).or_insert_with(|| {
            let mut actions: Vec<(Action, Span)> = Vec::new();
            for call in action_calls(expression.rule()) {
                // An action that there is not was found when the rule was bound.
                let Ok(action) = binder(expression, schema).action(call) else { continue };
                if actions.iter().all(|(known, _)| *known != action) {
                    actions.push((action, call.span));
                }
            }
            actions
        });
    }
    by_policy
}

fn action_calls(rule: &Rule) -> impl Iterator<Item = &ActionCall> {
    let (branches, fallback): (&[_], _) = match rule {
        Rule::Mask { branches, fallback } => (branches, slice::from_ref(fallback)),
        Rule::Filter { .. } => (&[], &[][..]),
    };
    branches.iter().map(|branch| &branch.result).chain(fallback)
}
