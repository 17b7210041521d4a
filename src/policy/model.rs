use std::sync::Arc;

use serde_json::Value;

use super::source::{Except, ObjectName, PolicyType};

/// A tag. Tags are flat: they have no parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The name, unique in a model.
    pub name: Arc<str>,
    /// What people should know about it.
    pub comment: Option<String>,
    /// The values that an assignment may give: any when absent, none when empty.
    pub allowed_values: Option<Vec<String>>,
}

impl Tag {
    /// A tag that takes any values.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), comment: None, allowed_values: None }
    }

    /// The same tag, with these values only; an empty list allows no values.
    pub fn with_allowed_values<T: Into<String>>(mut self, values: impl IntoIterator<Item = T>) -> Self {
        self.allowed_values = Some(values.into_iter().map(Into::into).collect());
        self
    }
}

/// A policy as it is declared, member for member the policy object that a Gravitino server shows, and
/// `enforce` beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyObject {
    /// The name, unique in a model.
    pub name: Arc<str>,
    /// What people should know about it.
    pub comment: Option<String>,
    /// `system_row_filter` or `system_column_mask`. Policies of any other type are kept out of resolution.
    pub policy_type: String,
    /// Whether the policy applies at all.
    pub enabled: bool,
    /// `false` for report-only: resolved, logged and counted, never sent.
    pub enforce: bool,
    /// `{"expression": "<source>"}` for the two types that take part; of other types it is never looked at.
    pub content: Value,
}

impl PolicyObject {
    /// A policy by its parts; it is enforced, and **not enabled** before [`enabled`](Self::enabled) is called.
    pub fn new(name: impl Into<Arc<str>>, policy_type: impl Into<String>, content: Value) -> Self {
        Self {
            name: name.into(),
            comment: None,
            policy_type: policy_type.into(),
            enabled: false,
            enforce: true,
            content,
        }
    }

    /// A `system_row_filter` policy with this `filter` rule.
    pub fn row_filter(name: impl Into<Arc<str>>, expression: &str) -> Self {
        Self::of_type(name, PolicyType::RowFilter, expression)
    }

    /// A `system_column_mask` policy with this `mask` rule.
    pub fn column_mask(name: impl Into<Arc<str>>, expression: &str) -> Self {
        Self::of_type(name, PolicyType::ColumnMask, expression)
    }

    fn of_type(name: impl Into<Arc<str>>, policy_type: PolicyType, expression: &str) -> Self {
        Self::new(name, policy_type.as_str(), serde_json::json!({ "expression": expression }))
    }

    /// The same policy, enabled.
    pub fn enabled(mut self) -> Self {
        self.enabled = true;
        self
    }

    /// The same policy, resolved and reported but never sent.
    pub fn report_only(mut self) -> Self {
        self.enforce = false;
        self
    }
}

/// The binding of a policy to a tag; at most one for each pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// The policy.
    pub policy: Arc<str>,
    /// The tag.
    pub tag: Arc<str>,
    /// Which assignments of the tag lead to the policy.
    pub selector: Selector,
    /// The principals for whom this relation does not select.
    pub except: Option<Arc<Except>>,
}

impl Relation {
    /// A relation that matches the presence of the tag, whatever its values.
    pub fn new(policy: impl Into<Arc<str>>, tag: impl Into<Arc<str>>) -> Self {
        Self { policy: policy.into(), tag: tag.into(), selector: Selector::AllValues, except: None }
    }

    /// The same relation, for assignments that hold exactly this value.
    pub fn with_value(mut self, value: impl Into<String>) -> Self {
        self.selector = Selector::TagValue(value.into());
        self
    }

    /// The same relation, selecting for everybody but these principals.
    pub fn with_except(mut self, except: Except) -> Self {
        self.except = Some(Arc::new(except));
        self
    }
}

/// Which assignments of a tag lead to a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// Every one: the presence of the tag is enough.
    #[default]
    AllValues,
    /// Those whose values contain exactly this one, case-sensitively.
    TagValue(String),
}

impl Selector {
    /// Whether a winning assignment with these values leads to the policy.
    pub fn matches(&self, values: &[String]) -> bool {
        match self {
            Self::AllValues => true,
            Self::TagValue(value) => values.contains(value),
        }
    }
}

/// A tag on an object; at most one for each pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The object.
    pub object: Arc<ObjectName>,
    /// The tag.
    pub tag: Arc<str>,
    /// The values: non-blank, at most 256 characters each, unique.
    pub values: Arc<[String]>,
}

impl Assignment {
    /// A tag without values on an object.
    pub fn new(object: ObjectName, tag: impl Into<Arc<str>>) -> Self {
        Self { object: Arc::new(object), tag: tag.into(), values: Arc::default() }
    }

    /// The same assignment with these values.
    pub fn with_values<T: Into<String>>(mut self, values: impl IntoIterator<Item = T>) -> Self {
        self.values = values.into_iter().map(Into::into).collect();
        self
    }
}
