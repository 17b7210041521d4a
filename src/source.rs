//! What the two pluggable sources, [`PolicySource`](crate::policy::PolicySource) and
//! [`IdentitySource`](crate::identity::IdentitySource), have in common.

use std::{borrow::Cow, error::Error, fmt, future::Future, pin::Pin, sync::Arc};

use sha2::{Digest as _, Sha256};

/// The future that a source returns: boxed, so that both traits are dyn-compatible.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The name of one consistent snapshot of a source.
///
/// Equal content must give equal revisions on every replica and after a restart, so a revision must
/// never contain a clock reading or anything random. A source without revisions of its own uses a
/// digest of its canonical content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(Arc<str>);

impl Revision {
    /// Names a snapshot.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A source could not give an answer: it is down, timed out, or saw an inconsistent snapshot.
///
/// "No policy applies" and "the subject is in no group" are answers, not errors. A governed load that
/// meets a `SourceError` is refused with 503 `source-unavailable`.
#[derive(Debug)]
pub struct SourceError {
    message: Cow<'static, str>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl SourceError {
    /// An error with a message for the operator; it is logged and never sent to the caller.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// The same with the error that caused it.
    pub fn with_source(
        message: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for SourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|error| error as &(dyn Error + 'static))
    }
}

/// The digest that names a snapshot: SHA-256 over length-framed parts, so that no two different contents
/// share bytes.
pub(crate) struct Digest(Sha256);

impl Digest {
    /// A digest of one kind of content; another kind, or another layout of it, takes another `domain`.
    pub(crate) fn new(domain: &str) -> Self {
        Self(Sha256::new()).text(domain)
    }

    /// Adds one text.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
        self
    }

    /// Adds a truth value.
    pub(crate) fn flag(self, flag: bool) -> Self {
        self.text(if flag { "true" } else { "false" })
    }

    /// Adds what may be absent; absent is not the same as empty.
    pub(crate) fn optional<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            None => self.flag(false),
            Some(value) => add(self.flag(true), value),
        }
    }

    /// Adds a list whose order means something.
    pub(crate) fn list<T>(mut self, items: &[T], mut add: impl FnMut(Self, &T) -> Self) -> Self {
        self.0.update((items.len() as u64).to_le_bytes());
        items.iter().fold(self, &mut add)
    }

    /// Adds a set of texts: the order in which they are given means nothing.
    pub(crate) fn set<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut texts: Vec<&str> = texts.into_iter().collect();
        texts.sort_unstable();
        self.list(&texts, |digest, text| digest.text(text))
    }

    /// The revision.
    pub(crate) fn revision(self) -> Revision {
        let mut name = String::from("sha256:");
        for byte in self.0.finalize() {
            name.extend(
                [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
            );
        }
        Revision::new(name)
    }
}
