//! Rules to their closed results: a decision list over rows becomes one predicate, a decision list over
//! the subject becomes the branch that is taken.

use std::sync::Arc;

use super::{bind::Binder, error::ResolveError};
use crate::{
    expression::{ActionCall, Branch, Condition, ExpressionError, Span},
    restriction::{Action, Predicate},
};

/// The deepest resolved predicate: chains flat, guards not counted.
const MAX_DEPTH: usize = 8;

/// A row filter in canonical form.
pub(super) struct LoweredFilter {
    pub predicate: Predicate,
    /// From 1, the fallback counted; `None` when a condition depends on the row.
    pub branch: Option<usize>,
}

/// `r1 if c1 else r2 if c2 else f` is `(c1 and r1) or (not c1 and c2 and r2) or (not c1 and not c2 and f)`.
pub(super) fn lower_filter(
    binder: &Binder<'_>,
    branches: &[Branch<Condition>],
    fallback: &Condition,
) -> Result<LoweredFilter, ExpressionError> {
    let fallback = binder.condition(fallback)?;
    let mut taken = BranchTaken::default();
    let mut alternatives = Vec::with_capacity(branches.len() + 1);
    let mut none_before = Vec::with_capacity(branches.len() + 1);
    for branch in branches {
        let condition = binder.condition(&branch.condition)?;
        let result = binder.condition(&branch.result)?;
        taken.next(&condition.clone().canonical());
        alternatives.push(all(&none_before, [condition.clone(), result]));
        none_before.push(condition.negate());
    }
    alternatives.push(all(&none_before, [fallback]));
    Ok(LoweredFilter { predicate: Predicate::Or(alternatives).canonical(), branch: taken.branch() })
}

/// The depth limit of a resolved predicate.
pub(super) fn check_depth(policy: &Arc<str>, predicate: &Predicate) -> Result<(), ResolveError> {
    match predicate.depth() {
        depth if depth > MAX_DEPTH => Err(ResolveError::TooDeep { policy: policy.clone(), depth }),
        _ => Ok(()),
    }
}

fn all<const N: usize>(none_before: &[Predicate], rest: [Predicate; N]) -> Predicate {
    Predicate::And(none_before.iter().cloned().chain(rest).collect())
}

/// A mask rule for one subject: the action that is taken, and all that stand in its branches.
pub(super) struct LoweredMask {
    pub taken: Action,
    pub branch: usize,
    /// Every action of the rule with its place: each must fit every column that the policy reaches.
    pub actions: Vec<(Action, Span)>,
}

pub(super) fn lower_mask(
    binder: &Binder<'_>,
    branches: &[Branch<ActionCall>],
    fallback: &ActionCall,
) -> Result<LoweredMask, ExpressionError> {
    let mut actions = Vec::with_capacity(branches.len() + 1);
    let mut taken = BranchTaken::default();
    for branch in branches {
        taken.next(&binder.condition(&branch.condition)?.canonical());
        actions.push((binder.action(&branch.result)?, branch.result.span));
    }
    actions.push((binder.action(fallback)?, fallback.span));
    let branch = taken
        .branch()
        .ok_or_else(|| binder.error(fallback.span, "the condition of a mask must not depend on the row"))?;
    Ok(LoweredMask { taken: actions[branch - 1].0, branch, actions })
}

/// Follows the conditions of a decision list and tells which branch is taken.
#[derive(Default)]
struct BranchTaken {
    seen: usize,
    first_true: Option<usize>,
    depends_on_row: bool,
}

impl BranchTaken {
    fn next(&mut self, canonical: &Predicate) {
        self.seen += 1;
        match canonical {
            _ if self.first_true.is_some() => {}
            Predicate::Constant(true) => self.first_true = Some(self.seen),
            Predicate::Constant(false) => {}
            _ => self.depends_on_row = true,
        }
    }

    fn branch(&self) -> Option<usize> {
        (!self.depends_on_row).then(|| self.first_true.unwrap_or(self.seen + 1))
    }
}
