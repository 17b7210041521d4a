//! The policy expression language, *restricted Rego* (`restricted-rego-v1`): source text to a checked rule.
//!
//! A rule knows names, conditionals and the two context functions. It knows no table and no subject;
//! [`resolve`](crate::resolve) binds it to both.

mod error;
mod rule;

pub use error::ExpressionError;
pub use rule::{
    ActionCall, Branch, Column, ComparisonOperator, Condition, Group, Literal, LiteralValue, Rule, Span,
};

use std::sync::Arc;

/// A policy expression that was parsed and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    source: Arc<str>,
    rule: Rule,
}

impl Expression {
    /// The source text.
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    /// What it says.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }
}
