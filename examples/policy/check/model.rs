//! What can be said about a valid model without any table.

use std::collections::BTreeSet;

use iceberg_read_restrictions::{
    expression::{Condition, Expression, ExpressionError, Group},
    policy::{Assignment, DeclaredPolicy, Governance, PolicyType, Relation, Selector},
};

use super::{
    super::{names::did_you_mean, output::Failure},
    finding::{Finding, Report, Severity},
    leaves::leaves,
};

/// Checks policies, groups and tags, and gives the names of the policies that are known to reach nothing.
pub fn check<'a>(
    governance: &'a Governance,
    groups_elsewhere: bool,
    report: &mut Report<'_, '_>,
) -> Result<BTreeSet<&'a str>, Failure> {
    let mut idle = BTreeSet::new();
    report.counts().policies = governance.policies().len();
    for policy in governance.policies() {
        if !groups_elsewhere {
            groups(governance, policy, report)?;
        }
        let reach = reach(governance, policy);
        if let Some(finding) = reach {
            idle.insert(&*policy.name);
            report.push(finding.policy(&policy.name))?;
        } else if policy.compiled.as_ref().is_some_and(|compiled| !compiled.enforce) {
            let message = "REPORT-ONLY (enforce = false): it is logged and counted, and restricts nobody";
            report.push(Finding::warning(message).policy(&policy.name))?;
        }
    }
    tags(governance, report)?;
    Ok(idle)
}

/// Groups that nobody defined: loads are refused for them.
fn groups(
    governance: &Governance,
    policy: &DeclaredPolicy,
    report: &mut Report<'_, '_>,
) -> Result<(), Failure> {
    let Some(compiled) = &policy.compiled else { return Ok(()) };
    let severity = match policy.enabled && compiled.enforce {
        true => Severity::Error,
        false => Severity::Warning,
    };
    let defined = governance.groups();
    let unknown =
        |group: &str| format!("group `{group}` is defined by nobody{}", did_you_mean(group, defined.names()));
    if let Ok(expression) = &compiled.expression {
        for group in named_groups(expression) {
            if defined.members(&group.name).is_none() {
                let message = unknown(&group.name);
                let error = ExpressionError::new(expression.source().clone(), group.span, message.clone());
                report.push(Finding::new(severity, message).policy(&policy.name).at(&error))?;
            }
        }
    }
    for relation in relations_of(governance, policy) {
        for group in relation.except.iter().flat_map(|except| &except.groups) {
            if defined.members(group).is_none() {
                let message = format!("the relation to tag `{}` exempts: {}", relation.tag, unknown(group));
                report.push(Finding::new(severity, message).policy(&policy.name))?;
            }
        }
    }
    Ok(())
}

fn named_groups(expression: &Expression) -> impl Iterator<Item = &Group> {
    leaves(expression.rule()).into_iter().filter_map(|leaf| match leaf {
        Condition::IsGroupMember(group) => Some(group),
        _ => None,
    })
}

/// Why a policy restricts nobody anywhere, when the model alone tells.
fn reach(governance: &Governance, policy: &DeclaredPolicy) -> Option<Finding> {
    let Some(compiled) = &policy.compiled else {
        let known = [PolicyType::RowFilter, PolicyType::ColumnMask].map(PolicyType::as_str);
        let hint = did_you_mean(&policy.policy_type, known);
        let message = format!(
            "policies of type `{}` take no part in resolution: it restricts nobody{hint}",
            policy.policy_type
        );
        return Some(Finding::warning(message));
    };
    if !policy.enabled {
        return Some(Finding::warning("not enabled: it restricts nobody"));
    }
    let relations: Vec<_> = relations_of(governance, policy).collect();
    if relations.is_empty() {
        return Some(Finding::warning("reaches nothing: it is bound to no tag"));
    }
    let mut whys = Vec::new();
    for relation in relations {
        whys.push(missed(governance, relation, compiled.policy_type)?);
    }
    Some(Finding::warning(format!("reaches nothing: {}", whys.join(", and "))))
}

/// Why a relation leads from no object to its policy; `None` when it leads from some.
fn missed(governance: &Governance, relation: &Relation, policy_type: PolicyType) -> Option<String> {
    let tag = &relation.tag;
    let assignments: Vec<_> = assignments_of(governance, tag).collect();
    if assignments.is_empty() {
        return Some(format!("its tag `{tag}` is assigned to nothing"));
    }
    let selected: Vec<_> =
        assignments.iter().filter(|assignment| relation.selector.matches(&assignment.values)).collect();
    if selected.is_empty() {
        let Selector::TagValue(value) = &relation.selector else { return None };
        let values = assignments.iter().flat_map(|assignment| assignment.values.iter());
        let hint = did_you_mean(value, values.map(String::as_str));
        return Some(format!("no assignment of its tag `{tag}` has the value `{value}`{hint}"));
    }
    let only_columns = selected.iter().all(|assignment| assignment.object.column.is_some());
    (policy_type == PolicyType::RowFilter && only_columns)
        .then(|| format!("its tag `{tag}` is on columns only, which play no part for a row filter"))
}

fn tags(governance: &Governance, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    for tag in governance.tags() {
        let name = &tag.name;
        if !governance.relations().iter().any(|relation| relation.tag == *name) {
            report
                .push(Finding::warning(format!("tag `{name}` reaches nothing: no policy is bound to it")))?;
        }
        if assignments_of(governance, name).next().is_none() {
            report
                .push(Finding::warning(format!("tag `{name}` reaches nothing: it is assigned to nothing")))?;
        }
    }
    Ok(())
}

fn relations_of<'a>(
    governance: &'a Governance,
    policy: &'a DeclaredPolicy,
) -> impl Iterator<Item = &'a Relation> {
    governance.relations().iter().filter(|relation| relation.policy == policy.name)
}

fn assignments_of<'a>(governance: &'a Governance, tag: &'a str) -> impl Iterator<Item = &'a Assignment> {
    governance.assignments().iter().filter(move |assignment| &*assignment.tag == tag)
}
