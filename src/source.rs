//! What the two pluggable sources, [`PolicySource`](crate::policy::PolicySource) and
//! [`IdentitySource`](crate::identity::IdentitySource), have in common.

use std::{borrow::Cow, error::Error, fmt, future::Future, pin::Pin, sync::Arc};

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
