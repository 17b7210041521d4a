//! What a check finds, and how it is written.

use std::path::PathBuf;

use iceberg_read_restrictions::{
    expression::ExpressionError,
    policy::{GovernanceError, TableIdent},
};
use serde::Serialize;

use super::super::{
    names::TableName,
    output::{Colour, Failure, Output, Verdict, counted},
};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Loads are refused, or the file is not taken at all.
    Error,
    /// Allowed, and probably not what was meant.
    Warning,
    /// Right, and good to know.
    Information,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
        }
    }

    fn colour(self) -> Colour {
        match self {
            Self::Error => Colour::Bad,
            Self::Warning => Colour::Doubtful,
            Self::Information => Colour::Note,
        }
    }
}

/// One thing found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    pub severity: Severity,
    policy: Option<String>,
    table: Option<TableName>,
    column: Option<String>,
    message: String,
    expression: Option<Place>,
    file: Option<FilePosition>,
}

/// A place in an expression.
#[derive(Debug, Serialize)]
struct Place {
    line: usize,
    column: usize,
    /// The offending line with carets below.
    shown: Vec<String>,
}

/// A place in the governance file, or in another file that was read.
#[derive(Debug, Serialize)]
struct FilePosition {
    path: PathBuf,
    line: Option<usize>,
    column: Option<usize>,
}

impl Finding {
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { severity, policy: None, table: None, column: None, message, expression: None, file: None }
    }

    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    pub fn warning(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, message)
    }

    pub fn information(message: impl Into<String>) -> Self {
        Self::new(Severity::Information, message)
    }

    pub fn policy(self, policy: &str) -> Self {
        Self { policy: Some(policy.to_owned()), ..self }
    }

    pub fn table(self, table: &TableIdent) -> Self {
        Self { table: Some(table.into()), ..self }
    }

    pub fn column(self, column: &str) -> Self {
        Self { column: Some(column.to_owned()), ..self }
    }

    pub fn file(self, path: impl Into<PathBuf>) -> Self {
        Self { file: Some(FilePosition { path: path.into(), line: None, column: None }), ..self }
    }

    /// The place in the policy's expression.
    pub fn at(self, error: &ExpressionError) -> Self {
        let (line, column) = error.position();
        let shown = error.render().lines().skip(1).map(str::to_owned).collect();
        Self { expression: Some(Place { line, column, shown }), ..self }
    }

    /// The problems of an invalid model.
    pub fn of_model(error: &GovernanceError) -> impl Iterator<Item = Self> + '_ {
        error.problems().iter().map(|problem| {
            let mut finding = Self::error(problem.message());
            if let Some(policy) = problem.policy() {
                finding = finding.policy(policy);
            }
            if let Some(error) = problem.expression() {
                finding = finding.at(error);
            }
            finding.file = error.file().map(|path| FilePosition {
                path: path.to_owned(),
                line: problem.position().map(|(line, _)| line),
                column: problem.position().map(|(_, column)| column),
            });
            finding
        })
    }
}

impl Finding {
    /// `error: policy `p`, table prod.sales.orders, column `c`: what is wrong`
    fn write(&self, output: &mut Output<'_>) -> Result<(), Failure> {
        let severity = output.painted(self.severity.word(), self.severity.colour());
        let mut about = Vec::new();
        if let Some(FilePosition { path, line, column }) = &self.file {
            let mut place = path.display().to_string();
            for number in [line, column].into_iter().flatten() {
                place.push_str(&format!(":{number}"));
            }
            about.push(place);
        }
        about.extend(self.policy.as_ref().map(|policy| format!("policy `{policy}`")));
        about.extend(self.table.as_ref().map(|table| format!("table {table}")));
        about.extend(self.column.as_ref().map(|column| format!("column `{column}`")));
        let about = about.join(", ");
        let colon = if about.is_empty() { "" } else { ": " };
        write!(output.out, "{severity}: {about}{colon}{}", self.message)?;
        match &self.expression {
            None => writeln!(output.out)?,
            Some(Place { line, column, shown }) => {
                writeln!(output.out, " (line {line}, column {column} of the expression)")?;
                for line in shown {
                    writeln!(output.out, "    {line}")?;
                }
            }
        }
        Ok(())
    }
}

/// Writes findings as they come, and counts them: nothing is kept.
pub struct Report<'a, 'o> {
    output: &'a mut Output<'o>,
    json: bool,
    counts: Counts,
    /// Whether some input could not be read.
    unreadable: bool,
}

/// What a check comes to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    pub policies: usize,
    pub tables: usize,
    errors: usize,
    warnings: usize,
    information: usize,
}

impl<'a, 'o> Report<'a, 'o> {
    pub fn begin(output: &'a mut Output<'o>, json: bool) -> Result<Self, Failure> {
        if json {
            write!(output.out, "{{\"findings\":[")?;
        }
        Ok(Self { output, json, counts: Counts::default(), unreadable: false })
    }

    pub fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    pub fn push(&mut self, finding: Finding) -> Result<(), Failure> {
        let Counts { errors, warnings, information, .. } = self.counts;
        if self.json {
            let comma = if errors + warnings + information == 0 { "" } else { "," };
            let text = serde_json::to_string(&finding).map_err(std::io::Error::from)?;
            write!(self.output.out, "{comma}\n{text}")?;
        } else {
            finding.write(self.output)?;
        }
        match finding.severity {
            Severity::Error => self.counts.errors += 1,
            Severity::Warning => self.counts.warnings += 1,
            Severity::Information => self.counts.information += 1,
        }
        Ok(())
    }

    /// An input that cannot be read is a finding like any other, and shows in the exit code.
    pub fn push_unreadable(&mut self, finding: Finding) -> Result<(), Failure> {
        self.unreadable = true;
        self.push(finding)
    }

    pub fn finish(self, strict: bool) -> Result<Verdict, Failure> {
        let Counts { policies, tables, errors, warnings, information } = self.counts;
        if self.json {
            let counts = serde_json::to_string(&self.counts).map_err(std::io::Error::from)?;
            writeln!(self.output.out, "\n],{}", counts.strip_prefix('{').unwrap_or_default())?;
        } else {
            writeln!(
                self.output.out,
                "{} and {}: {}, {}, {information} for information",
                counted(policies, "policy", "policies"),
                counted(tables, "table", "tables"),
                counted(errors, "error", "errors"),
                counted(warnings, "warning", "warnings"),
            )?;
        }
        Ok(match (self.unreadable, errors, warnings) {
            (true, ..) => Verdict::Unusable,
            (false, 0, 0) => Verdict::Yes,
            (false, 0, _) if !strict => Verdict::Yes,
            _ => Verdict::No,
        })
    }
}
