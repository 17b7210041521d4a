use std::{
    error::Error,
    fmt::{self, Display},
    sync::Arc,
};

use combine::stream::easy;

use super::rule::Span;

/// The longest part of a line that [`ExpressionError::render`] shows, in code points.
const SHOWN: usize = 100;

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

    /// The error over several lines: position and message, the offending line, and carets under the offence.
    ///
    /// Control characters are shown as one character each, and a long line is cut, so that the carets stand where
    /// they should.
    ///
    /// ```
    /// # use iceberg_read_restrictions::expression::Expression;
    /// let error = Expression::parse("filter :=\n  col(\"active\")").unwrap_err();
    /// assert_eq!(
    ///     error.render(),
    ///     "line 2, column 3: a bare column is not a predicate; write `col(\"active\") == true`\n\
    ///      \x20 |\n\
    ///      2 |   col(\"active\")\n\
    ///      \x20 |   ^^^^^^^^^^^^^"
    /// );
    /// ```
    pub fn render(&self) -> String {
        let (line, column) = self.position();
        let text: Vec<char> =
            self.source.split('\n').nth(line - 1).unwrap_or_default().chars().map(visible).collect();
        let offence = self.source.get(self.span.start..self.span.end).unwrap_or_default();
        let carets = offence.split('\n').next().map_or(0, |offence| offence.chars().count());

        let cut = if text.len() > SHOWN { (column - 1).saturating_sub(SHOWN / 2) } else { 0 };
        let shown: String = text.iter().skip(cut).take(SHOWN).collect();
        let before = if cut > 0 { "…" } else { "" };
        let behind = if cut + SHOWN < text.len() { "…" } else { "" };

        let number = line.to_string();
        let margin = " ".repeat(number.len());
        let indent = " ".repeat(before.chars().count() + column - 1 - cut);
        let carets = "^".repeat(carets.clamp(1, SHOWN / 2));
        format!("{self}\n{margin} |\n{number} | {before}{shown}{behind}\n{margin} | {indent}{carets}")
    }
}

/// A stand-in of width one for what would move the cursor.
fn visible(c: char) -> char {
    match c {
        '\t' | '\r' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.position();
        write!(f, "line {line}, column {column}: {}", self.message)
    }
}

impl Error for ExpressionError {}

/// An error that does not carry its source yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    span: Span,
    message: String,
}

impl Refusal {
    pub(super) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn of(self, source: Arc<str>) -> ExpressionError {
        ExpressionError::new(source, self.span, self.message)
    }
}

/// What the parsers of `combine` have to say: their own message, or what they expected in place of `found`.
pub(super) fn expectation<T, R>(errors: &[easy::Error<T, R>], found: impl Display) -> String {
    let own = errors.iter().find_map(|error| match error {
        easy::Error::Message(info) => label(info),
        _ => None,
    });
    if let Some(message) = own {
        return message.to_owned();
    }
    let expected: Vec<&str> = errors
        .iter()
        .filter_map(|error| match error {
            easy::Error::Expected(info) => label(info),
            _ => None,
        })
        .collect();
    match expected.split_last() {
        None => format!("unexpected {found}"),
        Some((last, [])) => format!("expected {last}, found {found}"),
        Some((last, others)) => format!("expected {} or {last}, found {found}", others.join(", ")),
    }
}

/// Our parsers are all labelled; a bare token or range says nothing that a reader could use.
fn label<T, R>(info: &easy::Info<T, R>) -> Option<&str> {
    match info {
        easy::Info::Static(label) => Some(label),
        easy::Info::Owned(label) => Some(label),
        easy::Info::Token(_) | easy::Info::Range(_) => None,
    }
}
