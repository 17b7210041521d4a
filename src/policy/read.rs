//! From the text of a governance model to its declarations. Strict: a member that is not known is an
//! error everywhere.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;

use super::{
    builder::{Declarations, Placed},
    document::{Document, Format, Located, Node},
    error::{About, Problems},
    model::{Assignment, PolicyObject, Relation, Selector, Tag},
    source::{Except, ObjectName, PolicyType},
};

/// Reads the declarations of a text; what is wrong with their form goes to `problems`.
pub(super) fn read<'a>(text: &'a str, format: Format, problems: &mut Problems<'a>) -> Declarations {
    let mut reader = Reader { problems, declarations: Declarations::default(), policy: None };
    match Document::parse(text, format) {
        Ok(document) => {
            if let Some(root) = document.root() {
                reader.model(root);
            }
        }
        Err((offset, message)) => reader.problem(offset, message),
    }
    reader.declarations
}

struct Reader<'p, 'a> {
    problems: &'p mut Problems<'a>,
    declarations: Declarations,
    /// The policy that is being read, for its problems.
    policy: Option<String>,
}

impl Reader<'_, '_> {
    fn model(&mut self, root: Node<'_>) {
        let Some(mut members) = self.members(root, "the model") else { return };
        for tag in self.array(&mut members, "tags") {
            self.tag(tag);
        }
        for policy in self.array(&mut members, "policies") {
            self.policy(policy);
            self.policy = None;
        }
        for assignment in self.array(&mut members, "assignments") {
            self.assignment(assignment);
        }
        if let Some(groups) = members.take("groups") {
            self.groups(groups);
        }
        self.finish(members, "tags, policies, assignments, groups");
    }

    fn tag(&mut self, node: Node<'_>) {
        let Some(mut members) = self.members(node, "a tag") else { return };
        let name = self.required(&mut members, "name", Node::string);
        let comment = self.comment(&mut members);
        let allowed_values = self.optional(&mut members, "allowedValues", Node::elements);
        let allowed_values = allowed_values.map(|values| self.texts("allowedValues", values));
        self.finish(members, "name, comment, allowedValues");
        let Some(name) = name else { return };
        let tag = Tag { name: name.into(), comment, allowed_values };
        self.declarations.tags.push(Placed::at(node.offset(), tag));
    }

    fn policy(&mut self, node: Node<'_>) {
        let Some(mut members) = self.members(node, "a policy") else { return };
        let name = self.required(&mut members, "name", Node::string);
        self.policy = name.as_deref().map(str::to_owned);
        let comment = self.comment(&mut members);
        let policy_type = self.required(&mut members, "policyType", Node::string);
        let enabled = self.optional(&mut members, "enabled", Node::boolean).unwrap_or(false);
        let enforce = self.optional(&mut members, "enforce", Node::boolean).unwrap_or(true);
        let content = policy_type.as_deref().and_then(|policy_type| self.content(&mut members, policy_type));
        let name: Option<Arc<str>> = name.map(Into::into);
        let relations: Vec<_> = (self.array(&mut members, "tags").into_iter())
            .filter_map(|relation| self.relation(name.clone().unwrap_or_default(), relation))
            .collect();
        self.finish(members, "name, comment, policyType, enabled, enforce, content, tags");

        let (Some(name), Some(policy_type), Some((content, expression))) = (name, policy_type, content)
        else {
            return;
        };
        let policy_type = policy_type.into_owned();
        let policy = PolicyObject { name, comment, policy_type, enabled, enforce, content };
        self.declarations.policies.push(Placed::at(node.offset(), policy).with_expression_at(expression));
        self.declarations.relations.extend(relations);
    }

    /// The content of a policy as a value, and the offset of its expression; of a type that takes no part,
    /// nothing is read.
    fn content(&mut self, members: &mut Members<'_>, policy_type: &str) -> Option<(Value, usize)> {
        if PolicyType::from_name(policy_type).is_none() {
            members.take("content");
            return Some((Value::Null, members.offset));
        }
        let (mut offset, found) =
            self.required(members, "content", |node| Ok((node.offset(), node.members()?)))?;
        let mut content = serde_json::Map::new();
        for (name, node) in found {
            if name == "expression" {
                offset = node.offset();
            }
            // Whatever is not a string is wrong there anyhow.
            content.insert(name.into_owned(), node.string().map_or(Value::Null, Value::from));
        }
        Some((Value::Object(content), offset))
    }

    fn relation(&mut self, policy: Arc<str>, node: Node<'_>) -> Option<Placed<Relation>> {
        let mut members = self.members(node, "a relation")?;
        let tag = self.required(&mut members, "tag", Node::string);
        let selector = members.take("selector").map_or(Some(Selector::AllValues), |node| self.selector(node));
        let except = members.take("except").map(|node| Arc::new(self.except(node)));
        self.finish(members, "tag, selector, except");
        Some(Placed::at(node.offset(), Relation { policy, tag: tag?.into(), selector: selector?, except }))
    }

    fn selector(&mut self, node: Node<'_>) -> Option<Selector> {
        let mut members = self.members(node, "a selector")?;
        let selector_type = self.required(&mut members, "type", Node::string)?;
        match &*selector_type {
            "ALL_VALUES" => {
                self.finish(members, "type");
                Some(Selector::AllValues)
            }
            "TAG_VALUE" => {
                let value = self.required(&mut members, "value", Node::string);
                self.finish(members, "type, value");
                Some(Selector::TagValue(value?.into_owned()))
            }
            other => {
                let message = format!("unknown selector type `{other}`: expected ALL_VALUES or TAG_VALUE");
                self.problem(node.offset(), message);
                None
            }
        }
    }

    fn except(&mut self, node: Node<'_>) -> Except {
        let Some(mut members) = self.members(node, "`except`") else { return Except::default() };
        let except = Except {
            users: self.strings(&mut members, "users"),
            groups: self.strings(&mut members, "groups"),
        };
        self.finish(members, "users, groups");
        except
    }

    fn assignment(&mut self, node: Node<'_>) {
        let Some(mut members) = self.members(node, "an assignment") else { return };
        let object = self.required(&mut members, "object", Ok).and_then(|object| self.object(object));
        let tag = self.required(&mut members, "tag", Node::string);
        let values = self.strings(&mut members, "values");
        self.finish(members, "object, tag, values");
        let (Some(object), Some(tag)) = (object, tag) else { return };
        let assignment = Assignment::new(object, tag).with_values(values);
        self.declarations.assignments.push(Placed::at(node.offset(), assignment));
    }

    fn object(&mut self, node: Node<'_>) -> Option<ObjectName> {
        let mut members = self.members(node, "an object")?;
        let catalog = self.required(&mut members, "catalog", Node::string);
        let namespace = self.strings(&mut members, "namespace");
        let table = self.optional(&mut members, "table", Node::string);
        let column = self.optional(&mut members, "column", Node::string);
        self.finish(members, "catalog, namespace, table, column");
        Some(ObjectName {
            catalog: catalog?.into_owned(),
            namespace,
            table: table.map(Cow::into_owned),
            column: column.map(Cow::into_owned),
        })
    }

    fn groups(&mut self, node: Node<'_>) {
        for (name, node) in self.located(in_member("groups", node.members())).unwrap_or_default() {
            let members = self.located(in_member(&name, node.elements())).unwrap_or_default();
            let members = self.texts(&name, members);
            self.declarations.groups.push(Placed::at(node.offset(), (name.into_owned(), members)));
        }
    }

    /// A comment may be null, as servers write one that is absent.
    fn comment(&mut self, members: &mut Members<'_>) -> Option<String> {
        let comment = members.take("comment").filter(|node| !node.is_null())?;
        self.located(in_member("comment", comment.string())).map(Cow::into_owned)
    }

    /// The strings of a member that may be absent.
    fn strings(&mut self, members: &mut Members<'_>, name: &str) -> Vec<String> {
        let elements = self.array(members, name);
        self.texts(name, elements)
    }

    fn texts(&mut self, name: &str, elements: Vec<Node<'_>>) -> Vec<String> {
        let texts = elements.into_iter().filter_map(|node| self.located(in_member(name, node.string())));
        texts.map(Cow::into_owned).collect()
    }

    /// The elements of a member that may be absent.
    fn array<'n>(&mut self, members: &mut Members<'n>, name: &str) -> Vec<Node<'n>> {
        self.optional(members, name, Node::elements).unwrap_or_default()
    }

    fn members<'n>(&mut self, node: Node<'n>, of: &'static str) -> Option<Members<'n>> {
        let rest = self.located(node.members().map_err(|(offset, it)| (offset, format!("{of}: {it}"))))?;
        Some(Members { of, offset: node.offset(), rest })
    }

    fn required<'n, T>(
        &mut self,
        members: &mut Members<'n>,
        name: &str,
        read: impl FnOnce(Node<'n>) -> Located<T>,
    ) -> Option<T> {
        match members.take(name) {
            Some(node) => self.located(in_member(name, read(node))),
            None => {
                self.problem(members.offset, format!("{} needs `{name}`", members.of));
                None
            }
        }
    }

    fn optional<'n, T>(
        &mut self,
        members: &mut Members<'n>,
        name: &str,
        read: impl FnOnce(Node<'n>) -> Located<T>,
    ) -> Option<T> {
        members.take(name).and_then(|node| self.located(in_member(name, read(node))))
    }

    /// Reports the members that nobody took.
    fn finish(&mut self, members: Members<'_>, known: &str) {
        for (name, node) in members.rest {
            self.problem(
                node.offset(),
                format!("unknown member `{name}` of {}; known are {known}", members.of),
            );
        }
    }

    fn located<T>(&mut self, result: Located<T>) -> Option<T> {
        result.map_err(|(offset, message)| self.problem(offset, message)).ok()
    }

    fn problem(&mut self, offset: usize, message: String) {
        self.problems.push(About { offset: Some(offset), policy: self.policy.as_deref() }, message);
    }
}

/// Says which member an error is about.
fn in_member<T>(name: &str, result: Located<T>) -> Located<T> {
    result.map_err(|(offset, message)| (offset, format!("`{name}`: {message}")))
}

/// The members of a value that are not yet read.
struct Members<'n> {
    of: &'static str,
    offset: usize,
    rest: Vec<(Cow<'n, str>, Node<'n>)>,
}

impl<'n> Members<'n> {
    fn take(&mut self, name: &str) -> Option<Node<'n>> {
        let index = self.rest.iter().position(|(member, _)| member == name)?;
        Some(self.rest.remove(index).1)
    }
}
