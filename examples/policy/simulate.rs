//! `policy simulate`: every subject and table whose result another governance file would change.
//!
//! What becomes visible that was not is told apart from what becomes hidden:
//!
//! | effect | meaning | exit code |
//! |---|---|---|
//! | widens | something becomes visible, and there is an example or a proof of it | 1 |
//! | may-widen | nobody could prove that nothing becomes visible | 1 |
//! | narrows | less is visible, and nothing that was not | 0 |
//! | same | another result, and the same is visible | 0 |
//!
//! The restrictions that a catalog sends itself stand beside both results and are not compared.

mod masks;
mod rows;
mod visible;

use std::{fmt, path::Path, sync::Arc};

use iceberg_read_restrictions::{
    policy::TableIdent,
    resolve::{ExplainRequest, Explanation, Resolver},
};
use serde::Serialize;
use serde_json::value::RawValue;

use self::visible::{Comparison, Effect, Visible, compare};
use super::{
    arguments::SimulateArguments,
    input::{self, Entry, Sources, Table},
    names::TableName,
    output::{Colour, Failure, Output, Verdict, counted},
    summary::Summary,
};

/// A subject and a table whose result changes.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Change {
    table: TableName,
    subject: String,
    #[serde(flatten)]
    comparison: Comparison,
    before: Side,
    after: Side,
}

/// One of the two results.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Side {
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    read_restrictions: Option<Box<RawValue>>,
}

/// Compares the results of two governance files.
pub fn run(arguments: &SimulateArguments, output: &mut Output<'_>) -> Result<Verdict, Failure> {
    if let Some(blank) = arguments.subjects.iter().find(|subject| subject.trim().is_empty()) {
        return Err(Failure::input(format!("--subjects: {blank:?} is no subject")));
    }
    let sources = |path: &Path| Ok::<_, Failure>(Sources(Arc::new(input::governance(path)?)));
    let simulation = Simulation {
        before: sources(&arguments.before)?,
        after: sources(&arguments.after)?,
        resolver: arguments.rules.resolver(),
    };
    let entries = input::walk(&arguments.tables)?;
    let mut report = Report::begin(output, arguments.json)?;
    for entry in entries {
        let (ident, path) = match entry {
            Ok(Entry::Table { ident, path }) => (ident, path),
            Ok(Entry::Skipped { path, why }) => {
                report.skip(format!("{}: {why}", path.display()), Verdict::Yes)?;
                continue;
            }
            Err(failure) => {
                report.skip(failure.to_string(), Verdict::Unusable)?;
                continue;
            }
        };
        match input::table(&path) {
            Err(failure) => report.skip(failure.to_string(), Verdict::Unusable)?,
            Ok(table) => {
                report.tables += 1;
                for subject in &arguments.subjects {
                    if let Some(change) = simulation.change(&ident, &table, subject)? {
                        report.push(&change)?;
                    }
                }
            }
        }
    }
    if report.tables == 0 && report.verdict == Verdict::Yes {
        // A wrong folder must not pass for a change without effect.
        report.skip(format!("{}: no table in the folder", arguments.tables.display()), Verdict::Unusable)?;
    }
    report.finish()
}

struct Simulation {
    before: Sources,
    after: Sources,
    resolver: Resolver,
}

impl Simulation {
    fn change(&self, ident: &TableIdent, table: &Table, subject: &str) -> Result<Option<Change>, Failure> {
        let (before, before_side) = self.result(&self.before, ident, table, subject)?;
        let (after, after_side) = self.result(&self.after, ident, table, subject)?;
        if before_side.sent() == after_side.sent() {
            return Ok(None);
        }
        Ok(Some(Change {
            table: ident.into(),
            subject: subject.to_owned(),
            comparison: compare(&before, &after, table.as_ref().ok()),
            before: before_side,
            after: after_side,
        }))
    }

    fn result(
        &self,
        sources: &Sources,
        ident: &TableIdent,
        table: &Table,
        subject: &str,
    ) -> Result<(Visible, Side), Failure> {
        let policies = sources.policies(ident, table)?;
        let identity = sources.identity(subject, &policies)?;
        let request = ExplainRequest {
            policies: &policies,
            subject: identity.subject.as_ref(),
            memberships: identity.memberships.as_ref(),
            table: table.as_ref(),
        };
        let explanation = self.resolver.explain(request);
        let visible = Visible::of(&self.resolver, &request, &explanation);
        Ok((visible, Side::of(explanation)))
    }
}

impl Side {
    fn of(explanation: Explanation) -> Self {
        let summary = Summary::of(&explanation);
        let Explanation { message, read_restrictions, .. } = explanation;
        Self { summary, message, read_restrictions }
    }

    /// What the caller gets; why a load is refused is no part of it.
    fn sent(&self) -> (&str, Option<&str>, Option<&str>) {
        let Summary { outcome, code, .. } = &self.summary;
        (outcome, code.as_deref(), self.read_restrictions.as_ref().map(|member| member.get()))
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary.fmt(f)?;
        self.message.iter().try_for_each(|message| write!(f, ": {message}"))
    }
}

/// Writes changes as they are found; only what had to be left out is kept to the end.
struct Report<'a, 'o> {
    output: &'a mut Output<'o>,
    json: bool,
    tables: usize,
    changes: usize,
    skipped: Vec<String>,
    verdict: Verdict,
}

impl<'a, 'o> Report<'a, 'o> {
    fn begin(output: &'a mut Output<'o>, json: bool) -> Result<Self, Failure> {
        if json {
            write!(output.out, "{{\"changes\":[")?;
        }
        Ok(Self { output, json, tables: 0, changes: 0, skipped: Vec::new(), verdict: Verdict::Yes })
    }

    fn skip(&mut self, what: String, verdict: Verdict) -> Result<(), Failure> {
        match self.json {
            true => self.skipped.push(what),
            false => {
                let word = self.output.painted("skipped", Colour::Doubtful);
                writeln!(self.output.out, "{word}: {what}")?;
            }
        }
        self.verdict = self.verdict.max(verdict);
        Ok(())
    }

    fn push(&mut self, change: &Change) -> Result<(), Failure> {
        match self.json {
            true => {
                let comma = if self.changes == 0 { "" } else { "," };
                let text = serde_json::to_string(change).map_err(std::io::Error::from)?;
                write!(self.output.out, "{comma}\n{text}")?;
            }
            false => self.write(change)?,
        }
        self.changes += 1;
        if matches!(change.comparison.effect, Effect::Widens | Effect::MayWiden) {
            self.verdict = self.verdict.max(Verdict::No);
        }
        Ok(())
    }

    fn write(&mut self, change: &Change) -> Result<(), Failure> {
        let Change { table, subject, comparison, before, after } = change;
        let colour = match comparison.effect {
            Effect::Widens => Colour::Bad,
            Effect::MayWiden => Colour::Doubtful,
            Effect::Narrows => Colour::Good,
            Effect::Same => Colour::Note,
        };
        let effect = self.output.painted(comparison.effect.words(), colour);
        writeln!(self.output.out, "{effect}: table {table}, subject {subject}")?;
        for reason in &comparison.reasons {
            writeln!(self.output.out, "  {reason}")?;
        }
        writeln!(self.output.out, "  before: {before}")?;
        writeln!(self.output.out, "  after:  {after}")?;
        Ok(())
    }

    fn finish(self) -> Result<Verdict, Failure> {
        let Self { output, json, tables, changes, skipped, verdict } = self;
        match json {
            true => {
                let skipped = serde_json::to_string(&skipped).map_err(std::io::Error::from)?;
                writeln!(
                    output.out,
                    "\n],\"tables\":{tables},\"changed\":{changes},\"skipped\":{skipped}}}"
                )?;
            }
            false => {
                let tables = counted(tables, "table", "tables");
                writeln!(output.out, "{tables}: {}", counted(changes, "result changes", "results change"))?;
            }
        }
        Ok(verdict)
    }
}
