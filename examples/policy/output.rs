//! Where results go, and what a run comes to.

use std::{fmt, io};

/// What a run comes to; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Verdict {
    /// Done.
    Yes = 0,
    /// The answer is "no": a check failed, a load would be refused, something would become visible.
    No = 1,
    /// Wrong use or unreadable input.
    Unusable = 2,
}

/// Why a run could not be done.
#[derive(Debug)]
pub enum Failure {
    /// An input that cannot be read, in words for the user.
    Input(String),
    /// The results could not be written.
    Output(io::Error),
}

impl Failure {
    /// An input that cannot be read.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input(message.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(message) => f.write_str(message),
            Self::Output(error) => write!(f, "cannot write the results: {error}"),
        }
    }
}

/// The stream of results.
pub struct Output<'a> {
    /// The stream itself.
    pub out: &'a mut dyn io::Write,
    /// Whether somebody looks at it on a terminal.
    pub colour: bool,
}

/// The colours in use, by what they mean.
#[derive(Clone, Copy, Debug)]
pub enum Colour {
    /// Red
    Bad,
    /// Yellow
    Doubtful,
    /// Green
    Good,
    /// Cyan
    Note,
}

impl Output<'_> {
    /// The text, in colour on a terminal.
    pub fn painted(&self, text: &str, colour: Colour) -> String {
        let code = match colour {
            Colour::Bad => 31,
            Colour::Doubtful => 33,
            Colour::Good => 32,
            Colour::Note => 36,
        };
        if self.colour { format!("\x1b[1;{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Writes a value as indented JSON and a line break.
    pub fn json(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut *self.out, value).map_err(io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }
}

/// `1 table`, `2 tables`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
