//! Names as people read them, and names that they may have meant.

use std::fmt;

use iceberg_read_restrictions::policy::TableIdent;
use serde::Serialize;

/// A table, `prod.sales.orders` for people; a part that is not a plain word stands in quotes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableName {
    catalog: String,
    namespace: Vec<String>,
    table: String,
}

impl From<&TableIdent> for TableName {
    fn from(ident: &TableIdent) -> Self {
        let TableIdent { catalog, namespace, name } = ident.clone();
        Self { catalog, namespace, table: name }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |part: &str| part.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
        let parts = std::iter::once(&self.catalog).chain(&self.namespace).chain([&self.table]);
        for (index, part) in parts.enumerate() {
            let dot = if index == 0 { "" } else { "." };
            match is_plain(part) {
                true => write!(f, "{dot}{part}")?,
                false => write!(f, "{dot}{part:?}")?,
            }
        }
        Ok(())
    }
}

/// Whether two different names are so close that one is probably a slip for the other: they differ by case
/// only, or by one letter put in, left out, replaced, or swapped with its neighbour.
pub fn is_close(a: &str, b: &str) -> bool {
    a != b
        && (a.to_lowercase() == b.to_lowercase()
            || (a.chars().count().max(b.chars().count()) > 2 && strsim::osa_distance(a, b) == 1))
}

/// `; did you mean `x`?` when a candidate is close, else nothing.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let close = candidates.into_iter().find(|candidate| is_close(name, candidate));
    close.map_or_else(String::new, |close| format!("; did you mean `{close}`?"))
}
