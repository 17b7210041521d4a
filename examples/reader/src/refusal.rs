use std::{error::Error, fmt};

use arrow_schema::ArrowError;

/// Why a query fails: this reader was told a restriction that it cannot apply, or could not read the table.
///
/// A reader that cannot apply a restriction must fail the query. There is no way from here to rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// A refusal for people to read.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Refusal {}

impl From<iceberg::Error> for Refusal {
    fn from(error: iceberg::Error) -> Self {
        Self::new(format!("the table cannot be read: {error}"))
    }
}

impl From<ArrowError> for Refusal {
    fn from(error: ArrowError) -> Self {
        Self::new(format!("the rows cannot be handled: {error}"))
    }
}

impl From<reqwest::Error> for Refusal {
    fn from(error: reqwest::Error) -> Self {
        Self::new(format!("the catalog cannot be asked: {error}"))
    }
}
