//! An explanation in short: what a subject gets, without why.

use std::{collections::BTreeMap, fmt};

use iceberg_read_restrictions::resolve::Explanation;
use serde::Serialize;

/// What a subject gets on a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// `ungoverned`, `unrestricted`, `restricted` or `refused`.
    pub outcome: String,
    /// The code of a refusal.
    pub code: Option<String>,
    /// The rows that are left, in a readable form; none when all are.
    pub row_filter: Option<String>,
    /// The action on each masked column.
    pub column_masks: BTreeMap<String, String>,
}

impl Summary {
    pub fn of(explanation: &Explanation) -> Self {
        Self {
            outcome: explanation.outcome.as_str().to_owned(),
            code: explanation.code.map(str::to_owned),
            row_filter: explanation.row_filter.as_ref().map(|filter| filter.readable.clone()),
            column_masks: explanation
                .column_masks
                .iter()
                .map(|mask| (mask.column.clone(), mask.action.to_string()))
                .collect(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.outcome)?;
        if let Some(code) = &self.code {
            write!(f, " ({code})")?;
        }
        if let Some(row_filter) = &self.row_filter {
            write!(f, ", rows where {row_filter}")?;
        }
        for (column, action) in &self.column_masks {
            write!(f, ", {action} on {column}")?;
        }
        Ok(())
    }
}
