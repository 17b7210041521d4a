use std::{
    cell::OnceCell,
    error::Error,
    fmt,
    path::{Path, PathBuf},
};

use super::content::ContentError;
use crate::expression::ExpressionError;

/// The most problems that an error shows in a log line.
const DISPLAYED: usize = 20;

/// Everything that is wrong with a governance model: of a file, or put together by a builder.
///
/// [`Display`](fmt::Display) gives one line for each problem, for the first twenty;
/// [`render`](Self::render) gives all of them, and shows the lines of the expressions too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovernanceError {
    file: Option<PathBuf>,
    problems: Vec<GovernanceProblem>,
}

impl GovernanceError {
    pub(super) fn new(problems: Vec<GovernanceProblem>) -> Self {
        Self { file: None, problems }
    }

    /// An error about a file as a whole.
    pub(super) fn about_file(path: &Path, message: impl Into<String>) -> Self {
        let problem =
            GovernanceProblem { position: None, policy: None, message: message.into(), expression: None };
        Self::new(vec![problem]).in_file(path)
    }

    /// The same error, about the text of this file.
    pub fn in_file(mut self, path: &Path) -> Self {
        self.file = Some(path.to_owned());
        self
    }

    /// The file, when there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What is wrong, in the order of the places; never empty.
    pub fn problems(&self) -> &[GovernanceProblem] {
        &self.problems
    }

    /// All problems, those inside an expression with the offending line and a caret.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            text.push_str(&self.line(problem));
            text.push('\n');
            if let Some(error) = &problem.expression {
                // Its first line is the message again.
                for line in error.render().lines().skip(1) {
                    text.push_str("  ");
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        text
    }

    fn line(&self, problem: &GovernanceProblem) -> String {
        let mut place = self.file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
        if let Some((line, column)) = problem.position {
            let separator = if place.is_empty() { "line " } else { ":" };
            place.push_str(&format!("{separator}{line}:{column}"));
        }
        if place.is_empty() { problem.to_string() } else { format!("{place}: {problem}") }
    }
}

impl fmt::Display for GovernanceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> =
            self.problems.iter().take(DISPLAYED).map(|problem| self.line(problem)).collect();
        if self.problems.len() > DISPLAYED {
            lines.push(format!("and {} more problems", self.problems.len() - DISPLAYED));
        }
        f.write_str(&lines.join("\n"))
    }
}

impl Error for GovernanceError {}

/// One thing that is wrong with a governance model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovernanceProblem {
    position: Option<(usize, usize)>,
    policy: Option<String>,
    message: String,
    expression: Option<ExpressionError>,
}

impl GovernanceProblem {
    /// Line and column in the text of the model, both from 1; columns count code points. A model from a
    /// builder has none.
    ///
    /// For a problem inside an expression it is the very place, as long as the expression stands in the
    /// text as it is, without escapes; otherwise the place where the string begins.
    pub fn position(&self) -> Option<(usize, usize)> {
        self.position
    }

    /// The policy that it is about.
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// What is wrong, without the places.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error inside the policy's expression.
    pub fn expression(&self) -> Option<&ExpressionError> {
        self.expression.as_ref()
    }
}

impl fmt::Display for GovernanceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(policy) = &self.policy {
            write!(f, "policy `{policy}`: ")?;
        }
        match &self.expression {
            Some(error) => write!(f, "expression {error}"),
            None => f.write_str(&self.message),
        }
    }
}

/// The problems found so far in one text, or in a model without a text.
pub(super) struct Problems<'a> {
    text: &'a str,
    /// Where each line of the text begins, once a problem asks for it.
    lines: OnceCell<Vec<usize>>,
    found: Vec<GovernanceProblem>,
}

/// What a problem is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About<'a> {
    /// Where that begins in the text.
    pub(super) offset: Option<usize>,
    /// The policy.
    pub(super) policy: Option<&'a str>,
}

impl<'a> Problems<'a> {
    pub(super) fn in_text(text: &'a str) -> Self {
        Self { text, lines: OnceCell::new(), found: Vec::new() }
    }

    pub(super) fn push(&mut self, about: About<'_>, message: impl Into<String>) {
        self.found.push(GovernanceProblem {
            position: about.offset.map(|offset| self.position(offset)),
            policy: about.policy.map(str::to_owned),
            message: message.into(),
            expression: None,
        });
    }

    /// A problem with the content of a policy, whose expression `source` is the value at `about.offset`.
    pub(super) fn push_content(&mut self, about: About<'_>, source: Option<&str>, error: ContentError) {
        let error = match error {
            ContentError::Shape(message) => return self.push(about, format!("content: {message}")),
            ContentError::Expression(error) => error,
        };
        let inside = about
            .offset
            .zip(source)
            .and_then(|(offset, source)| Some(self.start_of_verbatim(offset, source)? + error.span().start));
        self.push(About { offset: inside.or(about.offset), ..about }, error.message().to_owned());
        if let Some(problem) = self.found.last_mut() {
            problem.expression = Some(error);
        }
    }

    /// Where the value of the string at `offset` begins, when it stands in the text as it is: without escapes,
    /// behind quotes and the line break that TOML leaves out.
    fn start_of_verbatim(&self, offset: usize, value: &str) -> Option<usize> {
        let quoted = self.text.get(offset..)?;
        let inner = quoted.trim_start_matches(['"', '\'']);
        let inner = inner.strip_prefix('\n').or_else(|| inner.strip_prefix("\r\n")).unwrap_or(inner);
        inner.starts_with(value).then_some(self.text.len() - inner.len())
    }

    /// Nothing, or all that was found, in the order of the places.
    pub(super) fn into_result(mut self) -> Result<(), GovernanceError> {
        self.found.sort_by_key(GovernanceProblem::position);
        if self.found.is_empty() { Ok(()) } else { Err(GovernanceError::new(self.found)) }
    }

    fn position(&self, offset: usize) -> (usize, usize) {
        let lines = self.lines.get_or_init(|| {
            let newlines = self.text.match_indices('\n').map(|(newline, _)| newline + 1);
            [0].into_iter().chain(newlines).collect()
        });
        let line = lines.partition_point(|start| *start <= offset);
        let before = self.text.get(lines[line - 1]..offset).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}
