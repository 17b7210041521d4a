//! The row filter of a load.

use std::sync::Arc;

use super::{
    ConflictRule,
    bind::{Binder, Context},
    error::ResolveError,
    lower::{check_depth, lower_filter},
    select::{Provenance, select},
};
use crate::{
    expression::Rule,
    policy::EffectivePolicy,
    restriction::{Predicate, Signature},
    table::Schema,
};

/// The row filter with everything that led to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResolvedRowFilter {
    /// In canonical form. A constant true is resolved like any other and left out of the response.
    pub predicate: Predicate,
    /// The policies that ask for it.
    pub policies: Vec<Arc<Provenance>>,
}

impl ResolvedRowFilter {
    /// The signature of the predicate.
    pub fn signature(&self) -> Signature {
        self.predicate.signature()
    }
}

/// Resolves the selected row filters to the one that all of them mean.
pub(super) fn resolve_row_filter<'a>(
    policies: impl Iterator<Item = &'a EffectivePolicy>,
    schema: &Schema,
    context: Context<'_>,
    conflict: ConflictRule,
) -> Result<Option<ResolvedRowFilter>, ResolveError> {
    let mut resolved: Option<ResolvedRowFilter> = None;
    let mut distinct = false;
    for effective in policies {
        let Some((predicate, provenance)) = resolve_one(effective, schema, context)? else { continue };
        match &mut resolved {
            None => resolved = Some(ResolvedRowFilter { predicate, policies: vec![provenance] }),
            Some(first) => {
                // Equal canonical predicates are equal records, and so equal signatures.
                distinct |= conflict == ConflictRule::ByPolicy || first.predicate != predicate;
                first.policies.push(provenance);
            }
        }
    }
    match resolved {
        Some(filter) if distinct => {
            let policies = filter.policies.iter().map(|provenance| provenance.policy.clone()).collect();
            Err(ResolveError::Conflict { column: None, policies })
        }
        resolved => Ok(resolved),
    }
}

fn resolve_one(
    effective: &EffectivePolicy,
    schema: &Schema,
    context: Context<'_>,
) -> Result<Option<(Predicate, Arc<Provenance>)>, ResolveError> {
    let Some(selected) = select(effective, context)? else { return Ok(None) };
    let expression = selected.expression;
    let binder = Binder { source: expression.source(), context, schema };
    let lowered = match expression.rule() {
        Rule::Filter { branches, fallback } => lower_filter(&binder, branches, fallback),
        Rule::Mask { .. } => Err(binder.error(Default::default(), "a row filter must be a `filter` rule")),
    }
    .map_err(|error| ResolveError::Expression { policy: selected.name().clone(), error })?;
    check_depth(selected.name(), &lowered.predicate)?;
    Ok(Some((lowered.predicate, Arc::new(selected.provenance(lowered.branch)))))
}
