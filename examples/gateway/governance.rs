//! The governance in force: of a watched file, or the built-in example.

use std::{path::Path, sync::Arc, time::Duration};

use iceberg_read_restrictions::{
    identity::{Directory, RequestUser},
    policy::{
        EffectivePolicies, Format, Governance, GovernanceFile, InMemoryGovernance, PolicySource,
        SourceStatus, TableRequest,
    },
    source::{BoxFuture, SourceError},
};

use crate::catalog;

/// Where the policies and groups of the gateway come from.
#[derive(Clone)]
pub enum GovernanceInForce {
    /// A file, read again when it changes.
    File(GovernanceFile),
    /// The example that goes with the embedded catalog.
    BuiltIn(InMemoryGovernance),
}

impl GovernanceInForce {
    /// Watches the file at `path`, or takes the built-in example.
    ///
    /// # Errors
    ///
    /// When the file is missing or invalid.
    pub fn start(path: Option<&Path>, poll: Duration) -> Result<Self, String> {
        match path {
            Some(path) => {
                GovernanceFile::watch_every(path, poll).map(Self::File).map_err(|error| error.to_string())
            }
            None => Governance::parse(catalog::GOVERNANCE, Format::Toml)
                .map(|governance| Self::BuiltIn(InMemoryGovernance::new(governance)))
                .map_err(|error| error.to_string()),
        }
    }

    /// The snapshot that answers now.
    pub fn current(&self) -> Arc<Governance> {
        match self {
            Self::File(file) => file.current(),
            Self::BuiltIn(governance) => governance.current(),
        }
    }

    /// The groups of the snapshot in force, for the users that `user` finds in requests.
    pub fn directory(&self, user: RequestUser) -> Directory {
        match self {
            Self::File(file) => file.directory(user),
            Self::BuiltIn(governance) => governance.directory(user),
        }
    }
}

impl PolicySource for GovernanceInForce {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        match self {
            Self::File(file) => file.effective_policies(request),
            Self::BuiltIn(governance) => governance.effective_policies(request),
        }
    }

    fn status(&self) -> SourceStatus {
        match self {
            Self::File(file) => file.status(),
            Self::BuiltIn(governance) => governance.status(),
        }
    }
}
