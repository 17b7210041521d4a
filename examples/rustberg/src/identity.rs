//! Rustberg's principals as subjects of the layer: the name is the subject, the roles are its groups.
//!
//! Where the principal comes from depends on the place of the layer, and so there are two sources.

use std::{collections::BTreeSet, sync::Arc};

use axum::http::request::Parts;
use iceberg_read_restrictions::{
    identity::{IdentitySource, Membership, Memberships, Subject},
    source::{BoxFuture, Revision, SourceError},
};
use rustberg::auth::{AuthError, Authenticator, Principal, PrincipalType};
use serde_json::json;

/// All roles that there are. A policy that names another group is an error, not a group without members.
pub const ROLES: [&str; 3] = ["auditors", "partners", "writers"];

/// The principal that Rustberg's authentication left in the request's extensions: for a layer that stands behind it.
///
/// In front of it there is no principal, hence no subject, and governed tables are refused.
#[derive(Clone, Copy, Debug)]
pub struct PrincipalIdentity;

impl IdentitySource for PrincipalIdentity {
    fn subject(&self, request: &Parts) -> BoxFuture<'static, Result<Option<Subject>, SourceError>> {
        let subject = request.extensions.get::<Principal>().and_then(as_subject);
        Box::pin(async { Ok(subject) })
    }

    fn memberships<'a>(
        &'a self,
        subject: &'a Subject,
        groups: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Memberships, SourceError>> {
        Box::pin(async { memberships(subject, groups) })
    }
}

/// The principal to whom the request's credential belongs, by Rustberg's own authenticator: for a layer that stands
/// round the finished router.
///
/// The credential of a governed load is looked up twice, here and inside. A credential that is not accepted here is
/// not accepted inside either, where it is answered with 401.
#[derive(Clone)]
pub struct CredentialIdentity(Arc<dyn Authenticator>);

impl CredentialIdentity {
    /// `authenticator` must be the one that Rustberg uses.
    pub fn new(authenticator: Arc<dyn Authenticator>) -> Self {
        Self(authenticator)
    }
}

impl IdentitySource for CredentialIdentity {
    fn subject(&self, request: &Parts) -> BoxFuture<'static, Result<Option<Subject>, SourceError>> {
        let (authenticator, headers) = (self.0.clone(), request.headers.clone());
        Box::pin(async move {
            match authenticator.authenticate(&headers).await {
                Ok(principal) => Ok(as_subject(&principal)),
                Err(AuthError::Unauthenticated) => Ok(None),
                Err(error) if error.credential_was_rejected() => Ok(None),
                Err(error) => Err(SourceError::with_source("the credential cannot be checked", error)),
            }
        })
    }

    fn memberships<'a>(
        &'a self,
        subject: &'a Subject,
        groups: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Memberships, SourceError>> {
        Box::pin(async { memberships(subject, groups) })
    }
}

/// The roles that a subject had when it was read, so that both calls answer from one snapshot.
#[derive(Clone)]
struct Roles(BTreeSet<String>);

/// Nobody for an anonymous principal and for one whose credential has run out.
fn as_subject(principal: &Principal) -> Option<Subject> {
    if principal.is_anonymous() || principal.is_expired() {
        return None;
    }
    // The id of an API key is made anew at each start; its name is the one in the configuration.
    let name = match principal.principal_type() {
        PrincipalType::ApiKey => principal.name(),
        _ => principal.id(),
    };
    let roles = Roles(principal.roles().iter().cloned().collect());
    // Everything that an answer depends on, and nothing else: the same on every replica and after a restart.
    let revision = Revision::new(json!([principal.tenant_id(), name, roles.0, ROLES]).to_string());
    let mut subject = Subject::new(name, revision);
    subject.extensions_mut().insert(roles);
    Some(subject)
}

fn memberships(subject: &Subject, groups: &[&str]) -> Result<Memberships, SourceError> {
    let Roles(roles) =
        subject.extensions().get().ok_or_else(|| SourceError::new("a subject of another source"))?;
    let answer = |group: &str| match () {
        _ if !ROLES.contains(&group) => Membership::UnknownGroup,
        _ if roles.contains(group) => Membership::Member,
        _ => Membership::NotMember,
    };
    let answers = groups.iter().map(|&group| (group.to_owned(), answer(group)));
    Ok(Memberships::new(subject.revision().clone(), answers))
}
