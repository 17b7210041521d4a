use std::{error::Error, fmt};

/// Why a load result cannot be used: what is wrong, and at which byte.
///
/// It quotes nothing of the body, which may hold credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadResultError {
    member: Option<&'static str>,
    what: &'static str,
    offset: usize,
}

impl LoadResultError {
    /// The text is not JSON as RFC 8259 has it, or passes a bound of the scanner.
    #[cold]
    pub(super) fn json(what: &'static str, offset: usize) -> Self {
        Self { member: None, what, offset }
    }

    /// The text is JSON, but this member is not what Iceberg says it should be.
    #[cold]
    pub(super) fn member(member: &'static str, what: &'static str, offset: usize) -> Self {
        Self { member: Some(member), what, offset }
    }

    /// The byte of the document that was read, counted from 0, where the trouble is.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl fmt::Display for LoadResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(member) = self.member {
            write!(f, "`{member}` ")?;
        }
        write!(f, "{} (byte {})", self.what, self.offset)
    }
}

impl Error for LoadResultError {}
