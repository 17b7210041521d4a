//! The policy expression language, *restricted Rego* (`restricted-rego-v1`): source text to a checked rule.
//!
//! A rule knows names, conditionals and the two context functions. It knows no table and no subject;
//! [`resolve`](crate::resolve) binds it to both.

mod ast;
mod check;
mod error;
mod limits;
mod parse;
mod precedence;
mod rule;
mod token;

use error::Refusal;

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
    /// Parses and checks a source text.
    ///
    /// Whether its columns, groups and actions exist is not known here.
    ///
    /// ```
    /// # use iceberg_read_restrictions::expression::{Expression, Rule};
    /// let expression = Expression::parse(r#"filter := col("region") == "US" and col("amount") > 10"#)?;
    /// assert!(matches!(expression.rule(), Rule::Filter { .. }));
    /// # Ok::<_, iceberg_read_restrictions::expression::ExpressionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The source is not of the language, a form stands where it must not, or a limit is exceeded. No source,
    /// however deeply nested, overflows the stack.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        let text = Arc::from(source);
        match read(source) {
            Ok(rule) => Ok(Self { source: text, rule }),
            Err(refusal) => Err(refusal.of(text)),
        }
    }

    /// The source text.
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    /// What it says.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }
}

fn read(source: &str) -> Result<Rule, Refusal> {
    limits::source(source)?;
    let tokens = token::tokens(source);
    let program = parse::program(&tokens, source.len())?;
    limits::tokens(&tokens)?;
    limits::program(&program)?;
    check::rule(program)
}
