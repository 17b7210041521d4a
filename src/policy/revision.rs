//! The revisions of a model: digests of what its answers depend on, in canonical order. The notation of
//! the file, the order of its declarations, defaults written out and comments make no difference.

use super::{
    governance::DeclaredPolicy,
    model::{Assignment, PolicyObject, Relation, Selector, Tag},
    source::{Except, PolicyType},
};
use crate::{
    expression::Expression,
    source::{Digest, Revision},
};

/// The revision of a compiled policy.
pub(super) fn of_policy(object: &PolicyObject, policy_type: PolicyType, expression: &Expression) -> Revision {
    Digest::new("policy-v1")
        .text(&object.name)
        .text(policy_type.as_str())
        .flag(object.enabled)
        .flag(object.enforce)
        .text(expression.source())
        .revision()
}

/// The policy-and-tag revision of a whole model.
pub(super) fn of_model(
    tags: &[Tag],
    policies: &[DeclaredPolicy],
    relations: &[Relation],
    assignments: &[Assignment],
) -> Revision {
    Digest::new("policy-on-tag-v1")
        .list(&sorted(tags, |tag| &tag.name), |digest, tag| {
            let allowed = tag.allowed_values.as_deref();
            digest
                .text(&tag.name)
                .optional(allowed, |digest, values| digest.set(values.iter().map(String::as_str)))
        })
        .list(&sorted(policies, |policy| &policy.name), |digest, declared| {
            let digest = digest.text(&declared.name).text(&declared.policy_type).flag(declared.enabled);
            digest.optional(declared.compiled.as_deref(), |digest, policy| {
                digest.text(policy.revision.as_str())
            })
        })
        .list(&sorted(relations, |relation| (&relation.policy, &relation.tag)), |digest, relation| {
            let value = match &relation.selector {
                Selector::AllValues => None,
                Selector::TagValue(value) => Some(value),
            };
            let digest =
                digest.text(&relation.policy).text(&relation.tag).optional(value, |d, value| d.text(value));
            let nobody = Except::default();
            let except = relation.except.as_deref().unwrap_or(&nobody);
            [&except.users, &except.groups]
                .into_iter()
                .fold(digest, |digest, names| digest.set(names.iter().map(String::as_str)))
        })
        .list(
            &sorted(assignments, |assignment| (&assignment.object, &assignment.tag)),
            |digest, assignment| {
                let object = &assignment.object;
                digest
                    .text(&object.catalog)
                    .list(&object.namespace, |digest, level| digest.text(level))
                    .optional(object.table.as_deref(), Digest::text)
                    .optional(object.column.as_deref(), Digest::text)
                    .text(&assignment.tag)
                    .set(assignment.values.iter().map(String::as_str))
            },
        )
        .revision()
}

fn sorted<'a, T, K: Ord>(items: &'a [T], key: impl Fn(&'a T) -> K) -> Vec<&'a T> {
    let mut items: Vec<&T> = items.iter().collect();
    items.sort_unstable_by_key(|item| key(item));
    items
}
