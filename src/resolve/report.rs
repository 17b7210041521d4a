//! Report-only policies: resolved beside the others, for logs and counters.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    ConflictRule, ResolveRequest, columns::resolve_masks, context, error::ResolveError,
    rows::resolve_row_filter,
};
use crate::{
    policy::{EffectivePolicies, EffectivePolicy},
    restriction::{Predicate, Projection},
};

/// What one report-only policy would have done.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reported {
    /// The policy.
    pub policy: Arc<str>,
    /// Its restriction for this subject and table, or why there is none to be had. A governed load would
    /// have been refused for that.
    pub result: Result<ReportedRestriction, ResolveError>,
}

/// The restriction of a report-only policy.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReportedRestriction {
    /// The policy does not apply to this subject.
    Exempt,
    /// The row filter.
    RowFilter(Predicate),
    /// The masks, sorted by field id.
    ColumnMasks(Vec<Projection>),
}

pub(super) fn report(request: ResolveRequest<'_>) -> Vec<Reported> {
    let report_only = request.policies.all().filter(|effective| !effective.policy.enforce);
    let names: BTreeSet<_> = report_only.map(|effective| &effective.policy.name).collect();
    names
        .into_iter()
        .map(|policy| {
            let alone = keep(request.policies, |effective| effective.policy.name == *policy);
            let result = resolve_alone(ResolveRequest { policies: &alone, ..request });
            Reported { policy: policy.clone(), result }
        })
        .collect()
}

/// The same answer with fewer policies in it.
pub(super) fn keep(
    policies: &EffectivePolicies,
    wanted: impl Fn(&EffectivePolicy) -> bool,
) -> EffectivePolicies {
    let kept = |list: &[EffectivePolicy]| -> Vec<_> {
        list.iter().filter(|effective| wanted(effective)).cloned().collect()
    };
    EffectivePolicies {
        revision: policies.revision.clone(),
        row_filters: kept(&policies.row_filters),
        column_masks: kept(&policies.column_masks),
        columns: policies.columns.iter().map(|(column, list)| (column.clone(), kept(list))).collect(),
        not_selected: Vec::new(),
    }
}

fn resolve_alone(request: ResolveRequest<'_>) -> Result<ReportedRestriction, ResolveError> {
    let context = context(request.subject, request.memberships)?;
    let ResolveRequest { policies, table, .. } = request;
    let conflict = ConflictRule::BySignature;
    let row_filter = resolve_row_filter(policies.row_filters.iter(), table.schema(), context, conflict)?;
    if let Some(filter) = row_filter {
        return Ok(ReportedRestriction::RowFilter(filter.predicate));
    }
    let masks = resolve_masks(policies, false, table, context, conflict)?;
    if masks.is_empty() {
        return Ok(ReportedRestriction::Exempt);
    }
    Ok(ReportedRestriction::ColumnMasks(masks.into_iter().map(|mask| mask.projection).collect()))
}
