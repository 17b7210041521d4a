//! `policy check`: everything that is wrong with a governance file, and with the tables that it governs, at
//! once.
//!
//! | severity | what | exit code |
//! |---|---|---|
//! | error | the file is not taken, or loads are refused | 1 |
//! | warning | allowed, and probably not what was meant | 0, with `--strict` 1 |
//! | information | right, and good to know | 0 |
//!
//! An input that cannot be read (no such file, not JSON) is 2; the rest is checked nevertheless.

mod expect;
mod finding;
mod leaves;
mod model;
mod nulls;
mod reach;
mod subjects;
mod table;

use std::{collections::BTreeSet, sync::Arc};

use self::{
    expect::Expectations,
    finding::{Finding, Report},
    reach::Reach,
    table::TableCheck,
};
use super::{
    arguments::CheckArguments,
    input::{self, Entry, GovernanceText, Sources},
    output::{Failure, Output, Verdict},
};

/// Checks a governance file, and the tables of a folder against it.
pub fn run(arguments: &CheckArguments, output: &mut Output<'_>) -> Result<Verdict, Failure> {
    let text = GovernanceText::read(&arguments.governance)?;
    let expectations = arguments.expect.as_deref().map(Expectations::read).transpose()?;
    let entries = arguments.tables.as_deref().map(input::walk).transpose()?;
    let mut report = Report::begin(output, arguments.json)?;
    match text.parse() {
        Err(error) => {
            for finding in Finding::of_model(&error) {
                report.push(finding)?;
            }
        }
        Ok(governance) => {
            let sources = Sources(Arc::new(governance));
            let idle = model::check(&sources.0, arguments.groups_elsewhere, &mut report)?;
            if let Some(entries) = entries {
                let check = Check { arguments, sources: &sources, idle: &idle };
                check.tables(entries, expectations.unwrap_or_default(), &mut report)?;
            }
        }
    }
    report.finish(arguments.strict)
}

struct Check<'a> {
    arguments: &'a CheckArguments,
    sources: &'a Sources,
    /// Policies of which it was said that they restrict nobody.
    idle: &'a BTreeSet<&'a str>,
}

impl Check<'_> {
    fn tables(
        &self,
        entries: impl Iterator<Item = Result<Entry, Failure>>,
        mut expectations: Expectations,
        report: &mut Report<'_, '_>,
    ) -> Result<(), Failure> {
        let Self { arguments, sources, idle } = *self;
        let resolver = arguments.rules.resolver();
        let mut reach = Reach::new(&sources.0);
        let mut check = TableCheck::new(sources, resolver, arguments.groups_elsewhere);
        for entry in entries {
            let (ident, path) = match entry {
                Ok(Entry::Table { ident, path }) => (ident, path),
                Ok(Entry::Skipped { path, why }) => {
                    report.push(Finding::warning(format!("skipped: {why}")).file(path))?;
                    continue;
                }
                Err(failure) => {
                    report.push_unreadable(Finding::error(failure.to_string()))?;
                    continue;
                }
            };
            report.counts().tables += 1;
            let table = match input::table(&path) {
                Ok(table) => table,
                Err(failure) => {
                    report.push_unreadable(Finding::error(failure.to_string()).table(&ident))?;
                    continue;
                }
            };
            let policies = check.check(&ident, &path, &table, reach.named_columns(&ident), report)?;
            reach.table(&ident, &policies);
            expectations.check(sources, resolver, &ident, &table, report)?;
        }
        if let Some(folder) = &arguments.tables {
            if report.counts().tables == 0 {
                report.push(Finding::warning("no table in the folder").file(folder))?;
            }
            reach.finish(folder, idle, report)?;
        }
        expectations.finish(report)
    }
}
