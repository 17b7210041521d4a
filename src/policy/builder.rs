use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{
    content,
    error::{About, GovernanceError, Problems},
    governance::{DeclaredPolicy, Governance},
    model::{Assignment, PolicyObject, Relation, Selector, Tag},
    revision,
    source::{ObjectName, Policy, PolicyType},
};
use crate::identity::Groups;

/// The most characters that a tag value may have.
const MAX_VALUE_CHARACTERS: usize = 256;

/// Puts a [`Governance`] together in memory.
///
/// Nothing is checked before [`build`](Self::build), and the order of the calls means nothing.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct GovernanceBuilder {
    declarations: Declarations,
}

impl GovernanceBuilder {
    /// Declares a tag.
    pub fn tag(mut self, tag: Tag) -> Self {
        self.declarations.tags.push(Placed::nowhere(tag));
        self
    }

    /// Declares a policy.
    pub fn policy(mut self, policy: PolicyObject) -> Self {
        self.declarations.policies.push(Placed::nowhere(policy));
        self
    }

    /// Binds a policy to a tag.
    pub fn relation(mut self, relation: Relation) -> Self {
        self.declarations.relations.push(Placed::nowhere(relation));
        self
    }

    /// Puts a tag on an object.
    pub fn assignment(mut self, assignment: Assignment) -> Self {
        self.declarations.assignments.push(Placed::nowhere(assignment));
        self
    }

    /// Defines a group, for the directories that are made from this model.
    pub fn group<T: Into<String>>(
        mut self,
        name: impl Into<String>,
        members: impl IntoIterator<Item = T>,
    ) -> Self {
        let members = members.into_iter().map(Into::into).collect();
        self.declarations.groups.push(Placed::nowhere((name.into(), members)));
        self
    }

    /// Checks everything and compiles all expressions, those of disabled policies too.
    ///
    /// # Errors
    ///
    /// With all that is wrong: see [`Governance`] for the rules.
    pub fn build(self) -> Result<Governance, GovernanceError> {
        self.declarations.validate(Problems::in_text(""))
    }
}

/// The declarations of a model in their order, not yet checked against each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    pub(super) tags: Vec<Placed<Tag>>,
    pub(super) policies: Vec<Placed<PolicyObject>>,
    pub(super) relations: Vec<Placed<Relation>>,
    pub(super) assignments: Vec<Placed<Assignment>>,
    pub(super) groups: Vec<Placed<(String, Vec<String>)>>,
}

/// A declaration with its place in the text of the model, when there is one.
#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub(super) item: T,
    offset: Option<usize>,
    /// Where the expression of a policy begins.
    expression: Option<usize>,
}

impl<T> Placed<T> {
    pub(super) fn at(offset: usize, item: T) -> Self {
        Self { item, offset: Some(offset), expression: None }
    }

    pub(super) fn with_expression_at(self, offset: usize) -> Self {
        Self { expression: Some(offset), ..self }
    }

    fn nowhere(item: T) -> Self {
        Self { item, offset: None, expression: None }
    }

    fn about<'a>(&self) -> About<'a> {
        About { offset: self.offset, policy: None }
    }
}

impl Declarations {
    /// Checks the declarations against each other; `problems` holds what was already found.
    pub(super) fn validate(self, mut problems: Problems<'_>) -> Result<Governance, GovernanceError> {
        let policies = check_policies(&self.policies, &mut problems);
        check_tags(&self.tags, &mut problems);
        let tags: HashMap<&str, &Tag> = self.tags.iter().map(|tag| (&*tag.item.name, &tag.item)).collect();
        check_relations(&self.relations, &self.policies, &tags, &mut problems);
        check_assignments(&self.assignments, &tags, &mut problems);
        check_groups(&self.groups, &mut problems);
        problems.into_result()?;

        let groups = self.groups.into_iter().map(|group| group.item);
        Ok(Governance::new(
            items(self.tags),
            policies,
            items(self.relations),
            items(self.assignments),
            Groups::new(groups),
        ))
    }
}

fn items<T>(placed: Vec<Placed<T>>) -> Vec<T> {
    placed.into_iter().map(|placed| placed.item).collect()
}

fn check_tags(tags: &[Placed<Tag>], problems: &mut Problems<'_>) {
    let mut names = HashSet::new();
    for placed in tags {
        let (tag, about) = (&placed.item, placed.about());
        if is_blank(&tag.name) {
            problems.push(about, "the name of a tag is blank");
        }
        if !names.insert(&tag.name) {
            problems.push(about, format!("tag `{}` is declared twice", tag.name));
        }
        check_values(tag.allowed_values.as_deref().unwrap_or_default(), "allowedValues", about, problems);
    }
}

/// Checks the policies and compiles those that take part in resolution.
fn check_policies(policies: &[Placed<PolicyObject>], problems: &mut Problems<'_>) -> Vec<DeclaredPolicy> {
    let mut names = HashSet::new();
    let mut compiled = Vec::with_capacity(policies.len());
    for placed in policies {
        let object = &placed.item;
        let about = About { policy: Some(&object.name), ..placed.about() };
        if is_blank(&object.name) {
            problems.push(about, "the name of a policy is blank");
        }
        if !names.insert(&object.name) {
            problems.push(about, "a policy of this name is declared twice");
        }
        let policy = PolicyType::from_name(&object.policy_type)
            .and_then(|policy_type| compile(placed, policy_type, about, problems));
        compiled.push(DeclaredPolicy::new(object, policy));
    }
    compiled
}

fn compile(
    placed: &Placed<PolicyObject>,
    policy_type: PolicyType,
    about: About<'_>,
    problems: &mut Problems<'_>,
) -> Option<Arc<Policy>> {
    let object = &placed.item;
    match content::compile(policy_type, &object.content) {
        Ok(expression) => Some(Arc::new(Policy {
            name: Arc::clone(&object.name),
            revision: revision::of_policy(object, policy_type, &expression),
            policy_type,
            enforce: object.enforce,
            expression: Ok(expression),
        })),
        Err(error) => {
            let about = About { offset: placed.expression.or(about.offset), ..about };
            problems.push_content(about, object.content["expression"].as_str(), error);
            None
        }
    }
}

fn check_relations(
    relations: &[Placed<Relation>],
    policies: &[Placed<PolicyObject>],
    tags: &HashMap<&str, &Tag>,
    problems: &mut Problems<'_>,
) {
    let policies: HashSet<&str> = policies.iter().map(|policy| &*policy.item.name).collect();
    let mut pairs = HashSet::new();
    for placed in relations {
        let relation = &placed.item;
        let about = About { policy: Some(&relation.policy), ..placed.about() };
        if !policies.contains(&*relation.policy) {
            problems.push(about, "this policy has a relation and is not declared");
        }
        if !tags.contains_key(&*relation.tag) {
            problems.push(about, undeclared(&relation.tag));
        }
        if !pairs.insert((&relation.policy, &relation.tag)) {
            problems.push(about, format!("the policy has two relations to tag `{}`", relation.tag));
        }
        if let Selector::TagValue(value) = &relation.selector {
            check_values(std::slice::from_ref(value), "selector", about, problems);
        }
        if let Some(except) = &relation.except {
            check_names(&except.users, "except.users", about, problems);
            check_names(&except.groups, "except.groups", about, problems);
        }
    }
}

fn check_assignments(
    assignments: &[Placed<Assignment>],
    tags: &HashMap<&str, &Tag>,
    problems: &mut Problems<'_>,
) {
    let mut pairs = HashSet::new();
    for placed in assignments {
        let (Assignment { object, tag, values }, about) = (&placed.item, placed.about());
        check_object(object, about, problems);
        if !pairs.insert((object, tag)) {
            problems.push(about, format!("tag `{tag}` is assigned twice to {object}"));
        }
        check_values(values, "values", about, problems);
        let Some(declared) = tags.get(&**tag) else {
            problems.push(about, undeclared(tag));
            continue;
        };
        let Some(allowed) = &declared.allowed_values else { continue };
        let foreign: BTreeSet<_> = values.iter().filter(|value| !allowed.contains(value)).collect();
        for value in foreign {
            problems.push(about, format!("value `{value}` is not one of the allowedValues of tag `{tag}`"));
        }
    }
}

fn check_object(object: &ObjectName, about: About<'_>, problems: &mut Problems<'_>) {
    let parts = [Some(&object.catalog), object.table.as_ref(), object.column.as_ref()];
    if parts.into_iter().flatten().chain(&object.namespace).any(String::is_empty) {
        problems.push(about, "a part of the object's name is empty");
    }
    if object.table.is_some() && object.namespace.is_empty() {
        problems.push(about, "an object with a `table` needs the `namespace` of the table");
    }
    if object.column.is_some() && object.table.is_none() {
        problems.push(about, "an object with a `column` needs the `table` of the column");
    }
}

fn check_groups(groups: &[Placed<(String, Vec<String>)>], problems: &mut Problems<'_>) {
    let mut names = HashSet::new();
    for placed in groups {
        let ((name, members), about) = (&placed.item, placed.about());
        if name.is_empty() {
            problems.push(about, "the name of a group is empty");
        }
        if !names.insert(name) {
            problems.push(about, format!("group `{name}` is defined twice"));
        }
        check_names(members, &format!("group `{name}`"), about, problems);
    }
}

/// Tag values: non-blank, at most 256 characters, each once.
fn check_values(values: &[String], of: &str, about: About<'_>, problems: &mut Problems<'_>) {
    check_names(values, of, about, problems);
    for value in values.iter().filter(|value| value.chars().count() > MAX_VALUE_CHARACTERS) {
        let start: String = value.chars().take(20).collect();
        let message = format!("{of}: value `{start}…` is longer than {MAX_VALUE_CHARACTERS} characters");
        problems.push(about, message);
    }
}

/// Texts that are compared with a value or with a principal's name: non-blank, each once.
fn check_names(names: &[String], of: &str, about: About<'_>, problems: &mut Problems<'_>) {
    let mut seen = HashSet::new();
    for name in names {
        if is_blank(name) {
            problems.push(about, format!("{of}: `{name}` is blank"));
        }
        if !seen.insert(name) {
            problems.push(about, format!("{of}: `{name}` is repeated"));
        }
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn undeclared(tag: &str) -> String {
    format!("tag `{tag}` is not declared")
}
