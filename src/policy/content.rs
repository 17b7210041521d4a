use std::{error::Error, fmt};

use crate::expression::ExpressionError;

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
            Self::Expression(error) => error.fmt(f),
        }
    }
}

impl Error for ContentError {}
