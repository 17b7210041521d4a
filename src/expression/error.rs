use std::{error::Error, fmt, sync::Arc};

use super::rule::Span;

/// Why a source text is not an expression of the language, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    message: String,
    span: Span,
    source: Arc<str>,
}

impl ExpressionError {
    /// An error at `span` of `source`. The resolver makes such errors too, for what does not bind.
    pub fn new(source: impl Into<Arc<str>>, span: Span, message: impl Into<String>) -> Self {
        Self { message: message.into(), span, source: source.into() }
    }

    /// What is wrong and what was expected, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The bytes of the source that the error is about.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Line and column of the error, both from 1; columns count code points.
    pub fn position(&self) -> (usize, usize) {
        let before = self.source.get(..self.span.start).unwrap_or(&self.source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.position();
        write!(f, "line {line}, column {column}: {}", self.message)
    }
}

impl Error for ExpressionError {}
