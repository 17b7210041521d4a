//! What is wrong with the policies of a table, whoever asks: for those who write policies.

use std::{collections::BTreeSet, slice, sync::Arc};

use super::{
    ConflictRule, ResolveRequest, Resolver,
    bind::{Binder, Context},
    columns::{
        Masks, PastField, check_named_column, check_nested_ids, is_named, misfit, past_fields, resolve_field,
    },
    context,
    error::ResolveError,
    report::{keep, report},
    rows::resolve_row_filter,
};
use crate::{
    expression::{ActionCall, Expression, Rule},
    identity::{Memberships, Subject},
    policy::{EffectivePolicies, EffectivePolicy, Policy, PolicyType},
    restriction::Action,
    table::{Field, LoadResult, Schema},
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
    match table.older_schemas() {
        Err(error) if policies.all().any(is_mask) => findings.push(ResolveError::Table(error), true, None),
        // Nobody asks for the older schemas then.
        Err(_) => {}
        Ok(older) => {
            let columns =
                MaskedColumns { current: table.schema(), past: past_fields(table.schema(), &older) };
            findings.columns(policies, &columns, &older);
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

/// The columns that a mask can reach.
struct MaskedColumns<'a> {
    current: &'a Schema,
    past: Vec<PastField<'a>>,
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
    fn columns(&mut self, policies: &EffectivePolicies, columns: &MaskedColumns<'_>, older: &[Schema]) {
        for (name, list) in &policies.columns {
            for effective in list.iter().filter(|effective| is_named(&effective.selections)) {
                let policy = &effective.policy;
                if let Err(error) = check_named_column(name, &policy.name, columns.current, older) {
                    self.push_about(policy, error);
                }
            }
        }
        let mut field_ids = Vec::new();
        for (field, names) in columns.fields() {
            let mut seen = BTreeSet::new();
            for effective in names.iter().flat_map(|name| masks_of(policies, name)) {
                if seen.insert(&effective.policy.name) {
                    self.actions(effective, columns.current, field);
                }
                if effective.policy.enforce {
                    field_ids.push(field.id);
                }
            }
        }
        if let Err(error) = check_nested_ids(field_ids.iter().copied(), columns.current, older) {
            self.push(error, true, None);
        }
    }

    fn actions(&mut self, effective: &EffectivePolicy, schema: &Schema, field: Field<'_>) {
        let EffectivePolicy { policy, selections } = effective;
        let Ok(expression) = &policy.expression else { return };
        let mut misfits: Vec<Action> = Vec::new();
        for call in action_calls(expression.rule()) {
            // An action that there is not was found when the rule was bound.
            let Ok(action) = binder(expression, schema).action(call) else { continue };
            if let Err(error) = action.check(field)
                && !misfits.contains(&action)
            {
                misfits.push(action);
                self.push_about(policy, misfit(policy, selections, field, error, call.span));
            }
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
        let enforced = || policies.row_filters.iter().filter(|effective| effective.policy.enforce);
        let mut sound = Vec::new();
        for effective in enforced() {
            match resolve_row_filter([effective].into_iter(), schema, context, conflict) {
                Ok(_) => sound.push(effective),
                Err(error) => self.push_for(index, error, true),
            }
        }
        if sound.len() > 1
            && let Err(error) = resolve_row_filter(sound.into_iter(), schema, context, conflict)
        {
            self.push_for(index, error, true);
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
        let is_contested = |names: &[&str]| {
            let enforced = |effective: &&EffectivePolicy| effective.policy.enforce;
            names.iter().flat_map(|name| masks_of(policies, name)).filter(enforced).nth(1).is_some()
        };
        let mut contested = columns.fields().filter(|(_, names)| is_contested(names)).peekable();
        if contested.peek().is_none() {
            return;
        }
        let masks = match Masks::select(policies, true, columns.current, context) {
            Ok(masks) => masks,
            Err(error) => return self.push_for(index, error, true),
        };
        for (field, names) in contested {
            let lists: Vec<_> = names.iter().map(|name| masks.of(name)).collect();
            if let Err(error) = resolve_field(field, None, &lists, conflict) {
                self.push_for(index, error, true);
            }
        }
    }
}

impl MaskedColumns<'_> {
    /// Every field with the names that masks can reach it by.
    fn fields(&self) -> impl Iterator<Item = (Field<'_>, Vec<&str>)> {
        let current = self.current.fields().map(|field| (field, vec![field.name]));
        current.chain(self.past.iter().map(|past| (past.latest, past.names.iter().copied().collect())))
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

fn action_calls(rule: &Rule) -> impl Iterator<Item = &ActionCall> {
    let (branches, fallback): (&[_], _) = match rule {
        Rule::Mask { branches, fallback } => (branches, slice::from_ref(fallback)),
        Rule::Filter { .. } => (&[], &[][..]),
    };
    branches.iter().map(|branch| &branch.result).chain(fallback)
}
