//! Which effective policies apply to the subject, and through which tags.

use std::sync::Arc;

use super::{bind::Context, error::ResolveError};
use crate::{
    expression::Expression,
    identity::Membership,
    policy::{EffectivePolicy, Except, Selection},
    source::Revision,
};

/// A policy that applies to the subject.
pub(super) struct Selected<'a> {
    pub effective: &'a EffectivePolicy,
    pub expression: &'a Expression,
    /// Those of its selections that do not exempt the subject.
    pub selections: Vec<Selection>,
}

impl Selected<'_> {
    pub fn name(&self) -> &Arc<str> {
        &self.effective.policy.name
    }

    pub fn provenance(self, branch: Option<usize>) -> Provenance {
        let policy = &self.effective.policy;
        Provenance {
            policy: policy.name.clone(),
            revision: policy.revision.clone(),
            branch,
            selections: self.selections,
        }
    }
}

/// Why a restriction is there: a policy, the tags that lead to it, and the branch that was taken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Provenance {
    /// The policy.
    pub policy: Arc<str>,
    /// The policy's own revision.
    pub revision: Revision,
    /// The branch of its rule that was taken, from 1 with the fallback counted; `None` when a condition
    /// depends on the row.
    pub branch: Option<usize>,
    /// The tags and relations that selected it for this subject.
    pub selections: Vec<Selection>,
}

impl Provenance {
    /// Adds those that are not there yet: a tag is assigned to one object once.
    pub(super) fn add_selections(&mut self, others: &[Selection]) {
        for other in others {
            if !self
                .selections
                .iter()
                .any(|selection| selection.tag == other.tag && selection.from == other.from)
            {
                self.selections.push(other.clone());
            }
        }
    }
}

/// The policy with the selections that do not exempt the subject, or `None` when all of them do.
pub(super) fn select<'a>(
    effective: &'a EffectivePolicy,
    context: Context<'_>,
) -> Result<Option<Selected<'a>>, ResolveError> {
    let policy = &effective.policy;
    let mut selections = Vec::with_capacity(effective.selections.len());
    for selection in &effective.selections {
        let exempt = match &selection.except {
            Some(except) => is_exempt(except, context)
                .map_err(|group| ResolveError::UnknownExceptGroup { policy: policy.name.clone(), group })?,
            None => false,
        };
        if !exempt {
            selections.push(selection.clone());
        }
    }
    if selections.is_empty() && !effective.selections.is_empty() {
        return Ok(None);
    }
    match &policy.expression {
        Ok(expression) => Ok(Some(Selected { effective, expression, selections })),
        Err(error) => Err(ResolveError::Content { policy: policy.name.clone(), error: error.clone() }),
    }
}

/// Whether the subject is one of the principals. An unknown group is an error, also for a subject that
/// another entry names.
fn is_exempt(except: &Except, context: Context<'_>) -> Result<bool, Arc<str>> {
    let mut exempt = except.users.iter().any(|user| user == context.subject);
    for group in &except.groups {
        match context.membership(group) {
            Membership::Member => exempt = true,
            Membership::NotMember => {}
            Membership::UnknownGroup => return Err(group.as_str().into()),
        }
    }
    Ok(exempt)
}
