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

use std::{collections::BTreeSet, path::Path, sync::Arc};

use iceberg_read_restrictions::policy::Governance;

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
            if let Some(folder) = &arguments.tables {
                tables(arguments, folder, &sources, &idle, expectations.unwrap_or_default(), &mut report)?;
            }
        }
    }
    report.finish(arguments.strict)
}

fn tables(
    arguments: &CheckArguments,
    folder: &Path,
    sources: &Sources,
    idle: &BTreeSet<&str>,
    mut expectations: Expectations,
    report: &mut Report<'_, '_>,
) -> Result<(), Failure> {
    let governance: &Governance = &sources.0;
    let mut reach = Reach::new(governance);
    let mut check = TableCheck::new(sources, arguments.rules.resolver(), arguments.groups_elsewhere);
    for entry in input::walk(folder)? {
        let (ident, path) = match entry? {
            Entry::Table { ident, path } => (ident, path),
            Entry::Skipped { path, why } => {
                report.push(Finding::warning(format!("skipped: {why}")).file(path))?;
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
        expectations.check(sources, arguments.rules.resolver(), &ident, &table, report)?;
    }
    if report.counts().tables == 0 {
        report.push(Finding::warning("no table in the folder").file(folder))?;
    }
    reach.finish(folder, idle, report)?;
    expectations.finish(report)
}
