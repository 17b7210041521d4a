use std::{collections::BTreeSet, fmt, future::ready, sync::Arc};

use http::{HeaderName, request::Parts};

use super::{
    groups::Groups,
    source::{IdentitySource, Membership, Memberships, Subject},
    user::{FromRequest, RequestUser, single_line},
};
use crate::source::{BoxFuture, Digest, Revision, SourceError};

/// The groups of the authenticated user, as authentication in front of the layer leaves them in the
/// request's extensions for [`RequestGroups::extension`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticatedGroups(pub Vec<String>);

/// Where the groups of the authenticated user are found in a request.
#[derive(Clone)]
pub struct RequestGroups(FromRequest<Vec<String>>);

impl RequestGroups {
    /// The [`AuthenticatedGroups`] in the request's extensions.
    pub fn extension() -> Self {
        Self::extension_with(|request| {
            request.extensions.get().map(|AuthenticatedGroups(groups)| groups.clone())
        })
    }

    /// What a closure makes of the request; `None` when it cannot tell the groups.
    ///
    /// The closure must read nothing that the caller could have written.
    pub fn extension_with(read: impl Fn(&Parts) -> Option<Vec<String>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// A header that a trusted proxy sets, and takes away when a caller sends it: a JSON array of strings.
    /// Absent, over several lines or of any other form, it does not tell the groups.
    pub fn header(name: HeaderName) -> Self {
        Self::extension_with(move |request| serde_json::from_str(single_line(request, &name)?).ok())
    }
}

impl fmt::Debug for RequestGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestGroups").finish_non_exhaustive()
    }
}

/// The identity source that comes with the crate: the user is the request's, the groups that exist are
/// those of a [`Groups`] snapshot, and so are their members unless
/// [`with_request_groups`](Self::with_request_groups) leaves those to the request.
///
/// The snapshot that is in force when a request's subject is read is kept with the subject, so that its
/// memberships come from the same one, whatever happens to the source of groups in between.
///
/// ```
/// use iceberg_read_restrictions::identity::{Directory, Groups, RequestGroups, RequestUser};
///
/// // Users, and who is in which group, as a trusted proxy tells them; the groups that exist, as we do.
/// let groups = Groups::new([("auditors", [""; 0]), ("restricted", [""; 0])]);
/// let directory = Directory::new(RequestUser::header("x-forwarded-user".parse()?), groups)
///     .with_request_groups(RequestGroups::header("x-forwarded-groups".parse()?));
/// # Ok::<_, http::header::InvalidHeaderName>(())
/// ```
#[derive(Clone)]
pub struct Directory {
    user: RequestUser,
    groups: Arc<dyn Fn() -> Arc<Groups> + Send + Sync>,
    request_groups: Option<RequestGroups>,
}

impl Directory {
    /// A directory over groups that never change.
    pub fn new(user: RequestUser, groups: impl Into<Arc<Groups>>) -> Self {
        let groups = groups.into();
        Self::following(user, move || Arc::clone(&groups))
    }

    /// A directory over the groups that `current` gives, once for each request.
    pub fn following(user: RequestUser, current: impl Fn() -> Arc<Groups> + Send + Sync + 'static) -> Self {
        Self { user, groups: Arc::new(current), request_groups: None }
    }

    /// The same directory, with memberships that are the request's alone: the groups that exist are the
    /// same, their members do not count. A request that does not tell its groups is an error once a group
    /// is asked about.
    pub fn with_request_groups(self, request_groups: RequestGroups) -> Self {
        Self { request_groups: Some(request_groups), ..self }
    }

    fn read(&self, request: &Parts) -> Option<Subject> {
        let name = self.user.of(request)?;
        let groups = (self.groups)();
        let (memberships, revision) = match &self.request_groups {
            None => (Pinned::OfGroups, groups.revision().clone()),
            Some(request_groups) => {
                let told = (request_groups.0)(request).map(BTreeSet::from_iter);
                let revision = revision_of_request(&groups, told.as_ref());
                (Pinned::OfRequest(told), revision)
            }
        };
        let mut subject = Subject::new(name, revision);
        subject.snapshot = Some(Snapshot { groups, memberships });
        Some(subject)
    }
}

impl IdentitySource for Directory {
    fn subject(&self, request: &Parts) -> BoxFuture<'static, Result<Option<Subject>, SourceError>> {
        Box::pin(ready(Ok(self.read(request))))
    }

    fn memberships<'a>(
        &'a self,
        subject: &'a Subject,
        groups: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Memberships, SourceError>> {
        let answers = match &subject.snapshot {
            Some(snapshot) => snapshot.memberships(subject, groups),
            None => Err(SourceError::new("the subject is not one of this directory")),
        };
        Box::pin(ready(answers))
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory")
            .field("request_groups", &self.request_groups.is_some())
            .finish_non_exhaustive()
    }
}

/// What a subject keeps for the questions about its memberships.
#[derive(Clone)]
pub(super) struct Snapshot {
    groups: Arc<Groups>,
    memberships: Pinned,
}

/// Where the memberships are.
#[derive(Clone)]
enum Pinned {
    /// In the snapshot of the groups.
    OfGroups,
    /// In the request, when it told them.
    OfRequest(Option<BTreeSet<String>>),
}

impl Snapshot {
    fn memberships(&self, subject: &Subject, groups: &[&str]) -> Result<Memberships, SourceError> {
        let mut answers = Vec::with_capacity(groups.len());
        for group in groups {
            answers.push(self.membership(subject, group)?);
        }
        Ok(Memberships::of_shared(subject.revision().clone(), answers))
    }

    fn membership(&self, subject: &Subject, group: &str) -> Result<(Arc<str>, Membership), SourceError> {
        if let Pinned::OfRequest(None) = &self.memberships {
            return Err(SourceError::new("the request does not tell the groups of its user"));
        }
        let Some((name, members)) = self.groups.get(group) else {
            return Ok((group.into(), Membership::UnknownGroup));
        };
        let is_member = match &self.memberships {
            Pinned::OfRequest(told) => told.as_ref().is_some_and(|told| told.contains(group)),
            Pinned::OfGroups => members.contains(subject.name()),
        };
        Ok((Arc::clone(name), if is_member { Membership::Member } else { Membership::NotMember }))
    }
}

/// The identity revision of memberships that a request brings: of the groups that exist and of what the
/// request tells.
fn revision_of_request(groups: &Groups, told: Option<&BTreeSet<String>>) -> Revision {
    Digest::new("request-groups-v1")
        .text(groups.revision().as_str())
        .optional(told, |digest, told| digest.set(told.iter().map(String::as_str)))
        .revision()
}
