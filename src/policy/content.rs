use std::{error::Error, fmt, sync::Arc};

use serde_json::Value;

use super::source::PolicyType;
use crate::{
    expression::{ActionCall, Expression, ExpressionError, Rule, Span},
    restriction::Action,
};

/// Why the content of a policy is not usable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentError {
    /// The content is not exactly `{"expression": "…"}`.
    Shape(String),
    /// The expression is not one of the language, or its rule or an action is not one for the policy type.
    Expression(ExpressionError),
}

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(message) => f.write_str(message),
            Self::Expression(error) => write!(f, "expression {error}"),
        }
    }
}

impl Error for ContentError {}

impl From<ExpressionError> for ContentError {
    fn from(error: ExpressionError) -> Self {
        Self::Expression(error)
    }
}

/// Compiles the content of a policy: exactly `{"expression": "<source>"}`, whose rule is a `filter` for a
/// row filter and a `mask` for a column mask. Every action that a mask names in any branch must exist.
///
/// # Errors
///
/// When the content has any other shape (the reserved `function` form included), or the expression is
/// not one for this policy type.
pub fn compile(policy_type: PolicyType, content: &Value) -> Result<Expression, ContentError> {
    let expression = Expression::parse(source(content)?)?;
    match (policy_type, expression.rule()) {
        (PolicyType::RowFilter, Rule::Filter { .. }) => {}
        (PolicyType::ColumnMask, Rule::Mask { branches, fallback }) => {
            let actions = branches.iter().map(|branch| &branch.result).chain([fallback]);
            check_actions(&expression, actions)?;
        }
        (PolicyType::RowFilter, Rule::Mask { .. }) => {
            return Err(wrong_rule(&expression, policy_type, "filter"));
        }
        (PolicyType::ColumnMask, Rule::Filter { .. }) => {
            return Err(wrong_rule(&expression, policy_type, "mask"));
        }
    }
    Ok(expression)
}

/// The source text in a content object.
fn source(content: &Value) -> Result<&str, ContentError> {
    const EXPECTED: &str = r#"the content of a policy is exactly {"expression": "<source>"}"#;
    let Value::Object(members) = content else {
        return Err(ContentError::Shape(format!("expected an object: {EXPECTED}")));
    };
    if members.contains_key("function") {
        return Err(ContentError::Shape(format!("`function` is reserved and not supported: {EXPECTED}")));
    }
    if let Some(unknown) = members.keys().find(|name| *name != "expression") {
        return Err(ContentError::Shape(format!("unknown member `{unknown}`: {EXPECTED}")));
    }
    match members.get("expression") {
        Some(Value::String(source)) => Ok(source),
        Some(_) => Err(ContentError::Shape(format!("`expression` is not a string: {EXPECTED}"))),
        None => Err(ContentError::Shape(format!("`expression` is missing: {EXPECTED}"))),
    }
}

fn check_actions<'a>(
    expression: &Expression,
    actions: impl Iterator<Item = &'a ActionCall>,
) -> Result<(), ExpressionError> {
    for call in actions {
        if let Err(error) = call.name.parse::<Action>() {
            return Err(ExpressionError::new(Arc::clone(expression.source()), call.span, error.to_string()));
        }
    }
    Ok(())
}

fn wrong_rule(expression: &Expression, policy_type: PolicyType, rule: &str) -> ContentError {
    let message = format!("a {policy_type} policy takes a `{rule}` rule");
    let source = expression.source();
    // The rule's own word, behind any white space.
    let start = source.len() - source.trim_start().len();
    let word = source[start..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(source.len() - start);
    let span = Span { start, end: start + word };
    ExpressionError::new(Arc::clone(source), span, message).into()
}
