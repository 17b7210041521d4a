use std::{fmt, sync::Arc};

use http::{Extensions, request::Parts};

use super::directory::Snapshot;
use crate::source::{BoxFuture, Revision, SourceError};

/// Tells who sends a request and which groups that subject belongs to.
///
/// The layer calls [`subject`](Self::subject) once for each load and, when the selected policies name
/// groups, [`memberships`](Self::memberships) once. Both must answer from the same snapshot: if the
/// revisions differ, the load is refused with 503 `source-unavailable`.
pub trait IdentitySource: Send + Sync + 'static {
    /// The authenticated effective user of a request, or `None` when there is none.
    ///
    /// Only trusted request context may be read: what authentication left in the request's extensions,
    /// or a header that a trusted proxy sets. What is needed is read before the future is returned; the
    /// future is awaited only for a table that turns out to be governed.
    ///
    /// # Errors
    ///
    /// When the identity could not be found out, which is another answer than `None`.
    fn subject(&self, request: &Parts) -> BoxFuture<'static, Result<Option<Subject>, SourceError>>;

    /// Whether the subject is in each of `groups`: exact and flat membership, all in one call.
    ///
    /// A group that is left out of the answer counts as [`Membership::UnknownGroup`].
    ///
    /// # Errors
    ///
    /// When memberships could not be looked up, or when the source cannot tell an unknown group from a
    /// group without this member.
    fn memberships<'a>(
        &'a self,
        subject: &'a Subject,
        groups: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Memberships, SourceError>>;
}

impl<T: IdentitySource + ?Sized> IdentitySource for Arc<T> {
    fn subject(&self, request: &Parts) -> BoxFuture<'static, Result<Option<Subject>, SourceError>> {
        (**self).subject(request)
    }

    fn memberships<'a>(
        &'a self,
        subject: &'a Subject,
        groups: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Memberships, SourceError>> {
        (**self).memberships(subject, groups)
    }
}

/// An authenticated user, as one snapshot of an identity source knows it.
#[derive(Clone)]
pub struct Subject {
    name: Arc<str>,
    revision: Revision,
    extensions: Extensions,
    /// What the crate's own source wants to find again, without a detour over extensions.
    pub(super) snapshot: Option<Snapshot>,
}

impl Subject {
    /// A subject by the name that `session_user()` stands for, with the identity revision that it was
    /// read from. A name that is empty or only white space counts as no subject.
    pub fn new(name: impl Into<Arc<str>>, revision: Revision) -> Self {
        Self { name: name.into(), revision, extensions: Extensions::new(), snapshot: None }
    }

    /// The name that `session_user()` stands for, exactly as it was authenticated.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same, to be kept.
    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the name is empty or only white space, which counts as no subject.
    pub fn is_blank(&self) -> bool {
        self.name.trim().is_empty()
    }

    /// The identity revision that the subject was read from.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// What the source wants to find again when it is asked for memberships.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Mutable access to the same.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("name", &self.name)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// The answer for one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Membership {
    /// The group exists and the subject is in it.
    Member,
    /// The group exists and the subject is not in it.
    NotMember,
    /// There is no such group: an error wherever a selected policy names it.
    UnknownGroup,
}

/// The answers for all groups that were asked, from one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memberships {
    revision: Revision,
    /// Sorted by group, each once.
    answers: Box<[(Arc<str>, Membership)]>,
}

impl Memberships {
    /// Answers that were read from the snapshot `revision`.
    pub fn new(revision: Revision, answers: impl IntoIterator<Item = (String, Membership)>) -> Self {
        Self::of_shared(revision, answers.into_iter().map(|(group, answer)| (group.into(), answer)).collect())
    }

    /// The same with names that somebody else has too. The last answer for a group counts.
    pub(super) fn of_shared(revision: Revision, mut answers: Vec<(Arc<str>, Membership)>) -> Self {
        answers.reverse();
        answers.sort_by(|(one, _), (other, _)| one.cmp(other));
        answers.dedup_by(|(next, _), (first, _)| next == first);
        Self { revision, answers: answers.into() }
    }

    /// The identity revision that the answers were read from.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The answer for `group`; a group without an answer is unknown.
    pub fn of(&self, group: &str) -> Membership {
        match self.answers.binary_search_by_key(&group, |(name, _)| name) {
            Ok(found) => self.answers[found].1,
            Err(_) => Membership::UnknownGroup,
        }
    }

    /// All answers, by group name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Membership)> {
        self.answers.iter().map(|(group, answer)| (&**group, *answer))
    }
}
