//! Who sends a request: found out once, before the layer sees it.
//!
//! [`Authenticator`] turns what a trusted proxy or a token says into a [`Caller`], takes out what nobody but a
//! trusted peer may say, and leaves the result in the request's extensions, where the layer's identity
//! source finds it.

use std::net::IpAddr;

use http::{Extensions, HeaderMap, HeaderName};
use iceberg_read_restrictions::identity::{
    AuthenticatedGroups, AuthenticatedUser, Directory, RequestGroups, RequestUser,
};
use ipnet::IpNet;
use serde_json::Value;

use crate::{
    governance::GovernanceInForce,
    jwt::{Claims, Verifier},
};

/// What is known about the sender of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub user: Option<String>,
    /// The user's groups, if the request tells them and did so as an array of strings.
    pub groups: Option<Vec<String>>,
    /// The reader: the engine, not the user.
    pub reader: Option<String>,
}

/// The authenticated reader, in the extensions of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatedReader(pub String);

impl Caller {
    /// Leaves everything that is known in the extensions of the request.
    pub fn leave_in(self, extensions: &mut Extensions) {
        if let Some(user) = self.user {
            extensions.insert(AuthenticatedUser(user));
        }
        if let Some(groups) = self.groups {
            extensions.insert(AuthenticatedGroups(groups));
        }
        if let Some(reader) = self.reader {
            extensions.insert(AuthenticatedReader(reader));
        }
    }
}

/// How the user is told.
pub enum Mode {
    /// By a trusted proxy, in a header.
    Header {
        /// The header with the user.
        user: HeaderName,
        /// The header with the groups, a JSON array.
        groups: Option<HeaderName>,
    },
    /// By a bearer token.
    Jwt {
        /// What verifies it.
        verifier: Verifier,
        /// The claim with the user.
        subject_claim: String,
        /// The claim with the groups, an array.
        groups_claim: Option<String>,
    },
    /// By the configuration: everybody is this user.
    Fixed(String),
}

/// How the reader is told.
pub enum ReaderTold {
    /// By a trusted peer, in a header.
    Header(HeaderName),
    /// By a claim of the bearer token.
    Claim(String),
}

/// Finds out who sends a request.
pub struct Authenticator {
    /// The peers that may say who somebody is.
    pub trusted_peers: Vec<IpNet>,
    /// How the user is told.
    pub mode: Mode,
    /// How the reader is told.
    pub reader: Option<ReaderTold>,
}

impl Authenticator {
    /// Whether the peer may say who somebody is.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_peers.iter().any(|net| net.contains(&peer))
    }

    /// The identity source for the layer: callers that this left in the extensions, and the groups of
    /// `governance`, whose members count unless the request tells the groups.
    pub fn directory(&self, governance: &GovernanceInForce) -> Directory {
        let directory = governance.directory(RequestUser::extension());
        match &self.mode {
            Mode::Header { groups: Some(_), .. } | Mode::Jwt { groups_claim: Some(_), .. } => {
                directory.with_request_groups(RequestGroups::extension())
            }
            Mode::Header { groups: None, .. } | Mode::Jwt { groups_claim: None, .. } | Mode::Fixed(_) => {
                directory
            }
        }
    }

    /// The caller of a request from `peer`. Headers that only a trusted peer may set are taken out when
    /// another one set them.
    pub fn authenticate(&self, peer: IpAddr, headers: &mut HeaderMap) -> Caller {
        let trusted = self.trusts(peer);
        for name in self.identity_headers() {
            drop_lookalikes(headers, name);
            if !trusted {
                headers.remove(name);
            }
        }
        let claims = self.claims(headers);
        let (user, groups) = match &self.mode {
            Mode::Header { user, groups } => {
                (only_line(headers, user), groups.as_ref().and_then(|name| array_in(headers, name)))
            }
            Mode::Jwt { subject_claim, groups_claim, .. } => (
                text_claim(&claims, subject_claim),
                groups_claim.as_ref().and_then(|name| array_claim(&claims, name)),
            ),
            Mode::Fixed(user) => (Some(user.clone()), None),
        };
        let reader = match &self.reader {
            Some(ReaderTold::Header(name)) => only_line(headers, name),
            Some(ReaderTold::Claim(name)) => text_claim(&claims, name),
            None => None,
        };
        Caller { user, groups, reader }
    }

    /// The claims of a verified token; none without one.
    fn claims(&self, headers: &HeaderMap) -> Claims {
        let Mode::Jwt { verifier, .. } = &self.mode else { return Claims::new() };
        verifier.verify(headers).unwrap_or_else(|reason| {
            tracing::debug!(%reason, "no claims from a bearer token");
            Claims::new()
        })
    }

    /// The headers that only a trusted peer may set.
    fn identity_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let (user, groups) = match &self.mode {
            Mode::Header { user, groups } => (Some(user), groups.as_ref()),
            Mode::Jwt { .. } | Mode::Fixed(_) => (None, None),
        };
        let reader = match &self.reader {
            Some(ReaderTold::Header(name)) => Some(name),
            Some(ReaderTold::Claim(_)) | None => None,
        };
        [user, groups, reader].into_iter().flatten()
    }
}

/// Many servers read `x_forwarded_user` as `x-forwarded-user`. A proxy that sets the one may let the other
/// through, so no spelling but the configured one reaches the upstream.
fn drop_lookalikes(headers: &mut HeaderMap, name: &HeaderName) {
    let plain = |name: &HeaderName| name.as_str().replace('_', "-");
    let lookalikes: Vec<HeaderName> =
        headers.keys().filter(|other| *other != name && plain(other) == plain(name)).cloned().collect();
    for other in lookalikes {
        headers.remove(other);
    }
}

/// The value of a header that stands there once. Two lines are nobody's word.
fn only_line(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => std::str::from_utf8(line.as_bytes()).ok().map(str::to_owned),
        _ => None,
    }
}

fn array_in(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<String>> {
    serde_json::from_str(&only_line(headers, name)?).ok()
}

fn text_claim(claims: &Claims, name: &str) -> Option<String> {
    claims.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn array_claim(claims: &Claims, name: &str) -> Option<Vec<String>> {
    serde_json::from_value(claims.get(name)?.clone()).ok()
}
