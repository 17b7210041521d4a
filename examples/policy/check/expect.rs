//! What subjects are expected to get: a test of the policies, in a file beside them.
//!
//! ```toml
//! [[expect]]
//! table = { catalog = "prod", namespace = ["sales"], table = "orders" }
//! subject = "alice"
//! outcome = "restricted"            # ungoverned | unrestricted | restricted | refused
//! code = "…"                        # of a refusal
//! row-filter = "region = 'US'"      # as `policy explain` shows it; absent: none
//! column-masks = { phone = "show-last-4" }
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use iceberg_read_restrictions::{
    policy::TableIdent,
    resolve::{ExplainRequest, Resolver},
};
use serde::Deserialize;

use super::{
    super::{
        input::{Sources, Table},
        output::Failure,
        summary::Summary,
    },
    finding::{Finding, Report},
};

/// The expectations of a file, by table. Those of a table that was checked are gone.
#[derive(Default)]
pub struct Expectations(HashMap<TableIdent, Vec<Expectation>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    expect: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    table: Ident,
    #[serde(default)]
    subject: String,
    outcome: String,
    code: Option<String>,
    row_filter: Option<String>,
    #[serde(default)]
    column_masks: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ident {
    catalog: String,
    namespace: Vec<String>,
    table: String,
}

struct Expectation {
    subject: String,
    result: Summary,
}

impl Expectations {
    /// Reads a file of expectations.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let failure = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| failure(&error))?;
        let file: File = toml::from_str(&text).map_err(|error| failure(&error))?;
        let mut expectations = Self::default();
        for entry in file.expect {
            let Entry { table: Ident { catalog, namespace, table }, subject, .. } = entry;
            let (outcome, code) = (entry.outcome, entry.code);
            let (row_filter, column_masks) = (entry.row_filter, entry.column_masks);
            let result = Summary { outcome, code, row_filter, column_masks };
            let ident = TableIdent::new(catalog, namespace, table);
            expectations.0.entry(ident).or_default().push(Expectation { subject, result });
        }
        Ok(expectations)
    }

    /// Holds what is expected of a table against what the layer would do.
    pub fn check(
        &mut self,
        sources: &Sources,
        resolver: Resolver,
        ident: &TableIdent,
        table: &Table,
        report: &mut Report<'_, '_>,
    ) -> Result<(), Failure> {
        for Expectation { subject, result } in self.0.remove(ident).unwrap_or_default() {
            let policies = sources.policies(ident, table)?;
            let identity = sources.identity(&subject, &policies)?;
            let explanation = resolver.explain(ExplainRequest {
                policies: &policies,
                subject: identity.subject.as_ref(),
                memberships: identity.memberships.as_ref(),
                table: table.as_ref(),
            });
            let found = Summary::of(&explanation);
            if found != result {
                let message = format!(
                    "`{subject}` is expected to get {result}, and gets {found}{}",
                    explanation.message.map_or_else(String::new, |message| format!(": {message}"))
                );
                report.push(Finding::error(message).table(ident))?;
            }
        }
        Ok(())
    }

    /// Reports the expectations of tables that are not in the folder.
    pub fn finish(self, report: &mut Report<'_, '_>) -> Result<(), Failure> {
        let mut missed: Vec<_> = self.0.into_keys().collect();
        missed.sort();
        for ident in missed {
            report.push(
                Finding::error("something is expected of it, and it is not in the folder").table(&ident),
            )?;
        }
        Ok(())
    }
}
