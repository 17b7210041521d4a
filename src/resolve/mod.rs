//! From policies to restrictions: binds the selected expressions to one subject and one table, brings them
//! to their canonical form, and refuses what conflicts. Nothing here knows HTTP.
//!
//! [`Resolver::resolve`] gives what the layer sends; [`Resolver::explain`] gives the same with the reasons,
//! for people.

mod bind;
mod columns;
mod diagnose;
mod error;
mod explain;
mod lower;
mod report;
mod rows;
mod select;
mod suggest;

use std::{collections::BTreeSet, sync::Arc};

pub use columns::ResolvedColumnMask;
pub use diagnose::{DiagnoseRequest, Diagnosis};
pub use error::{ActionMisfit, ResolveError};
pub use explain::{
    ExplainRequest, ExplainedColumnMask, ExplainedField, ExplainedNotSelected, ExplainedPolicy,
    ExplainedReport, ExplainedRevisions, ExplainedRowFilter, ExplainedSubject, ExplainedTag, Explanation,
    LeftOut, Outcome,
};
pub use report::{Reported, ReportedRestriction};
pub use rows::ResolvedRowFilter;
pub use select::Provenance;

use self::{bind::Context, columns::resolve_masks, rows::resolve_row_filter};
use crate::{
    expression::{Condition, Rule},
    identity::{Memberships, Subject},
    policy::{EffectivePolicies, EffectivePolicy, Policy},
    restriction::{ReadRestrictions, UpstreamMember},
    table::LoadResult,
};

/// What counts as a conflict between the policies on one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConflictRule {
    /// Policies that resolve to different restrictions.
    #[default]
    BySignature,
    /// Any two distinct policies, even when they resolve to the same.
    ByPolicy,
}

/// What happens when the inner service sends restrictions of its own beside ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamRestrictions {
    /// They must equal ours, or the load is refused.
    #[default]
    Refuse,
    /// Filters are joined with `and`, actions are united; one field with two actions is refused.
    Conjoin,
}

/// Resolves policies for one subject and one table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resolver {
    conflict: ConflictRule,
    upstream: UpstreamRestrictions,
}

/// What a [`Resolver`] works on: one policy snapshot, one identity snapshot, one load result.
#[derive(Clone, Copy, Debug)]
pub struct ResolveRequest<'a> {
    /// The effective policies of the table.
    pub policies: &'a EffectivePolicies,
    /// The authenticated subject; a governed table is refused without one.
    pub subject: Option<&'a Subject>,
    /// The answers for the groups that [`Resolver::groups`] lists; may be `None` when it lists none.
    pub memberships: Option<&'a Memberships>,
    /// The table as the inner service sends it.
    pub table: &'a LoadResult,
}

impl Resolver {
    /// A resolver with the default rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what counts as a conflict.
    pub fn with_conflict(self, conflict: ConflictRule) -> Self {
        Self { conflict, ..self }
    }

    /// Sets what happens to restrictions of the inner service.
    pub fn with_upstream_restrictions(self, upstream: UpstreamRestrictions) -> Self {
        Self { upstream, ..self }
    }

    /// Every group that the policies name, in any branch or exemption, each once: what has to be asked of
    /// the identity source, in one call.
    pub fn groups(policies: &EffectivePolicies) -> Vec<&str> {
        let mut groups = Vec::new();
        visit_groups(policies.all(), &mut |group| {
            if !groups.contains(&group) {
                groups.push(group);
            }
        });
        groups.sort_unstable();
        groups
    }

    /// Whether an enforced policy names a group. If only report-only ones do, a load does not depend on the answers.
    pub fn needs_groups(policies: &EffectivePolicies) -> bool {
        let mut any = false;
        visit_groups(policies.all().filter(|effective| effective.policy.enforce), &mut |_| any = true);
        any
    }

    /// Whether every enforced policy exempts this subject, which can be told before anybody has read the
    /// table's schema.
    ///
    /// # Errors
    ///
    /// When the subject is missing, a group is unknown, or a policy that does not exempt it does not compile.
    pub fn exempts(
        policies: &EffectivePolicies,
        subject: &Subject,
        memberships: Option<&Memberships>,
    ) -> Result<bool, ResolveError> {
        let context = context(Some(subject), memberships)?;
        for effective in policies.all().filter(|effective| effective.policy.enforce) {
            if select::select(effective, context)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether any enforced policy reaches this table or a column that it has or had. By its name alone a
    /// table may seem governed only because of columns that it could have.
    ///
    /// Where older schemas would have to tell and cannot be read, it is governed.
    pub fn governs(policies: &EffectivePolicies, table: &LoadResult) -> bool {
        columns::is_governed(policies, table)
    }

    /// The restrictions of a governed load. Report-only policies take no part; see [`Resolver::report`].
    ///
    /// # Errors
    ///
    /// Whatever cannot be resolved without doubt. The load must then be refused.
    pub fn resolve(&self, request: ResolveRequest<'_>) -> Result<Resolution, ResolveError> {
        let context = context(request.subject, request.memberships)?;
        let ResolveRequest { policies, table, .. } = request;
        let filters = policies.row_filters.iter().filter(|effective| effective.policy.enforce);
        let row_filter = resolve_row_filter(filters, table.schema(), context, self.conflict)?;
        let column_masks = resolve_masks(policies, true, table, context, self.conflict)?;
        let exempt = exempt_policies(policies, context)?;
        let restrictions = read_restrictions(row_filter.as_ref(), &column_masks)?;
        let member = self.member(&restrictions, table)?;
        Ok(Resolution { row_filter, column_masks, exempt, restrictions, member })
    }

    /// What the report-only policies would have done, each for itself: they take no part in conflicts, and
    /// one that cannot be resolved says why.
    pub fn report(&self, request: ResolveRequest<'_>) -> Vec<Reported> {
        report::report(request)
    }

    /// Everything that a load of this table could be refused for, whoever asks, not only the first thing:
    /// every branch of every policy is bound, every action is held against every column it reaches, and
    /// conflicts are looked for with each of the given subjects.
    pub fn diagnose(&self, request: DiagnoseRequest<'_>) -> Vec<Diagnosis> {
        diagnose::diagnose(self, request)
    }

    /// The text of the `read-restrictions` member to send, or `None` when nothing of ours is to be enforced.
    fn member(&self, ours: &ReadRestrictions, table: &LoadResult) -> Result<Option<Box<str>>, ResolveError> {
        if ours.is_empty() {
            return Ok(None);
        }
        let upstream = match table.read_restrictions() {
            Some(text) => UpstreamMember::parse(text).map_err(ResolveError::Upstream)?,
            None => None,
        };
        let Some(upstream) = upstream else { return Ok(Some(ours.to_json().into())) };
        match self.upstream {
            UpstreamRestrictions::Refuse => upstream.must_equal(ours).map(|()| ours.to_json()),
            UpstreamRestrictions::Conjoin => {
                check_united(ours, &upstream, table)?;
                upstream.conjoin(ours)
            }
        }
        .map(|member| Some(member.into()))
        .map_err(ResolveError::Upstream)
    }
}

/// What was resolved for one load, and why.
#[derive(Clone, Debug)]
pub struct Resolution {
    row_filter: Option<ResolvedRowFilter>,
    column_masks: Vec<ResolvedColumnMask>,
    exempt: Vec<Arc<str>>,
    restrictions: ReadRestrictions,
    member: Option<Box<str>>,
}

impl Resolution {
    /// The row filter, a constant true included.
    pub fn row_filter(&self) -> Option<&ResolvedRowFilter> {
        self.row_filter.as_ref()
    }

    /// The masks, sorted by field id.
    pub fn column_masks(&self) -> &[ResolvedColumnMask] {
        &self.column_masks
    }

    /// The policies that exempt the subject.
    pub fn exempt(&self) -> &[Arc<str>] {
        &self.exempt
    }

    /// The text of the `read-restrictions` member that the load result must carry, restrictions of the
    /// inner service included. `None` when no local policy restricts this subject: the body stays as it is.
    pub fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    /// The restrictions that the local policies ask for.
    pub fn restrictions(&self) -> &ReadRestrictions {
        &self.restrictions
    }

    /// The names of the policies that took part, each once.
    pub fn policies(&self) -> BTreeSet<&Arc<str>> {
        let filters = self.row_filter.iter().flat_map(|filter| &filter.policies);
        let masks = self.column_masks.iter().flat_map(|mask| mask.policies.iter());
        let mut policies = BTreeSet::new();
        // To collect them would be to list those of every column first.
        policies.extend(filters.chain(masks).map(|provenance| &provenance.policy));
        policies
    }
}

fn read_restrictions(
    row_filter: Option<&ResolvedRowFilter>,
    column_masks: &[ResolvedColumnMask],
) -> Result<ReadRestrictions, ResolveError> {
    let predicate = row_filter.map(|filter| filter.predicate.clone());
    ReadRestrictions::new(predicate, column_masks.iter().map(|mask| mask.projection))
        .map_err(ResolveError::Projections)
}

/// The subject as expressions see it. A blank name is no subject, and both halves of the identity must come
/// from one snapshot.
fn context<'a>(
    subject: Option<&'a Subject>,
    memberships: Option<&'a Memberships>,
) -> Result<Context<'a>, ResolveError> {
    let subject = subject.filter(|subject| !subject.is_blank()).ok_or(ResolveError::SubjectMissing)?;
    if memberships.is_some_and(|memberships| memberships.revision() != subject.revision()) {
        return Err(ResolveError::InconsistentIdentity);
    }
    Ok(Context { subject: subject.name(), memberships })
}

/// The enforced policies of which every selection exempts the subject, each once.
fn exempt_policies(
    policies: &EffectivePolicies,
    context: Context<'_>,
) -> Result<Vec<Arc<str>>, ResolveError> {
    let mut exempt = BTreeSet::new();
    for effective in policies.all().filter(|effective| effective.policy.enforce && effective.may_exempt()) {
        if select::select(effective, context)?.is_none() {
            exempt.insert(effective.policy.name.clone());
        }
    }
    Ok(exempt.into_iter().collect())
}

/// A projection on the key of a map, or on a column and on a field inside it, must not be sent. Ours are on
/// top-level fields; the inner service's may be anywhere.
fn check_united(
    ours: &ReadRestrictions,
    upstream: &UpstreamMember<'_>,
    table: &LoadResult,
) -> Result<(), ResolveError> {
    let united = upstream.projections().chain(ours.projections().iter().copied());
    let field_ids: Vec<_> = united.map(|projection| projection.field_id).collect();
    match table.schema().forbidden_projection(&field_ids) {
        Some(field_id) => Err(ResolveError::NestedFieldId { field_id }),
        None => Ok(()),
    }
}

/// Visits every group that the policies name. A policy that stands in many places is looked into once.
fn visit_groups<'a>(policies: impl Iterator<Item = &'a EffectivePolicy>, visit: &mut impl FnMut(&'a str)) {
    let mut last: Option<&Arc<Policy>> = None;
    for EffectivePolicy { policy, selections } in policies {
        let excepts = selections.iter().filter_map(|selection| selection.except.as_ref());
        excepts.flat_map(|except| &except.groups).for_each(|group| visit(group));
        if last.replace(policy).is_none_or(|last| !Arc::ptr_eq(last, policy)) {
            visit_groups_in_rule(policy, visit);
        }
    }
}

fn visit_groups_in_rule<'a>(policy: &'a Policy, visit: &mut impl FnMut(&'a str)) {
    let Ok(expression) = &policy.expression else { return };
    match expression.rule() {
        Rule::Filter { branches, fallback } => {
            for branch in branches {
                visit_groups_in(&branch.condition, visit);
                visit_groups_in(&branch.result, visit);
            }
            visit_groups_in(fallback, visit);
        }
        Rule::Mask { branches, .. } => {
            for branch in branches {
                visit_groups_in(&branch.condition, visit);
            }
        }
    }
}

fn visit_groups_in<'a>(condition: &'a Condition, visit: &mut impl FnMut(&'a str)) {
    match condition {
        Condition::IsGroupMember(group) => visit(&group.name),
        Condition::Not(child) => visit_groups_in(child, visit),
        Condition::And(children) | Condition::Or(children) => {
            for child in children {
                visit_groups_in(child, visit);
            }
        }
        Condition::Constant(_)
        | Condition::Compare { .. }
        | Condition::IsNull(_)
        | Condition::NotNull(_)
        | Condition::In { .. }
        | Condition::ColumnIsUser { .. }
        | Condition::UserIs { .. }
        | Condition::UserIn(_) => {}
    }
}
