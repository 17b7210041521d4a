use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Response, request::Parts};
use tower::Layer;

use super::{
    capability::{Capability, CapabilityRefusal, Reader, TrustedReaders},
    commit::RestrictedCommits,
    decision::{Decision, Decisions, TARGET},
    error::{Refusal, RequestId},
    headers::{self, Variance},
    kept::Caches,
    names::{CatalogName, NameSyntax},
    service::ReadRestrictionsService,
};
use crate::{
    identity::IdentitySource,
    policy::PolicySource,
    resolve::{ConflictRule, Resolver, UpstreamRestrictions},
};

const DEFAULT_MAX_BODY_BYTES: usize = 64 << 20;
const DEFAULT_SOURCE_TIMEOUT: Duration = Duration::from_secs(2);
const DEFAULT_CACHE_BYTES: u64 = 64 << 20;

/// The Tower layer that puts `read-restrictions` into the load results of an Iceberg REST catalog.
///
/// See the [module page](super) for what it does, and [`builder`](Self::builder) to make one.
///
/// One layer is for one catalog. It may be put around several services that are ways to the same catalog; they share
/// what is kept from one load to the next, which is found by the request target that the layer sees.
#[derive(Clone)]
pub struct ReadRestrictionsLayer {
    shared: Arc<Shared>,
}

impl ReadRestrictionsLayer {
    /// Starts a layer that asks `policies` what applies to a table, and `identity` who is asking.
    ///
    /// A catalog must be named, by [`catalog`](LayerBuilder::catalog) or one of its kin; until then every
    /// operation on a table is refused with 404 `unknown-catalog`.
    pub fn builder(policies: impl PolicySource, identity: impl IdentitySource) -> LayerBuilder {
        LayerBuilder {
            shared: Shared {
                policies: Arc::new(policies),
                identity: Arc::new(identity),
                catalog: CatalogName::FromPrefix(BTreeSet::new()),
                names: NameSyntax { plus_as_space: false, separators: Vec::new() },
                capabilities: Capability::defaults(),
                capability_refusal: CapabilityRefusal::default(),
                trusted_readers: Arc::new(|_: &Parts| true),
                resolver: Resolver::new(),
                restricted_commits: RestrictedCommits::default(),
                max_body_bytes: DEFAULT_MAX_BODY_BYTES,
                source_timeout: DEFAULT_SOURCE_TIMEOUT,
                decisions: None,
                variance: Variance::new(&[]),
                caches: Caches::new(DEFAULT_CACHE_BYTES),
            },
            conflict: ConflictRule::default(),
            upstream: UpstreamRestrictions::default(),
        }
    }
}

impl<S> Layer<S> for ReadRestrictionsLayer {
    type Service = ReadRestrictionsService<S>;

    fn layer(&self, inner: S) -> ReadRestrictionsService<S> {
        ReadRestrictionsService::new(inner, self.shared.clone())
    }
}

impl fmt::Debug for ReadRestrictionsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

/// Puts a [`ReadRestrictionsLayer`] together. Everything but the catalog has a default.
#[must_use]
pub struct LayerBuilder {
    shared: Shared,
    conflict: ConflictRule,
    upstream: UpstreamRestrictions,
}

impl LayerBuilder {
    /// Every request is about the catalog of this name, whatever its prefix.
    pub fn catalog(mut self, name: impl Into<String>) -> Self {
        self.shared.catalog = CatalogName::Fixed(name.into());
        self
    }

    /// The catalog is the decoded prefix of the path, which must be one of `names`; below another prefix there is
    /// nothing (404 `unknown-catalog`). Several prefix segments are one name with slashes. The path may hold only
    /// one `v1`: with two of them, servers differ about where the prefix begins.
    ///
    /// The inner service must tell prefixes apart: behind one that ignores them, a table could be reached under
    /// another catalog's policies.
    pub fn catalog_from_prefix<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.shared.catalog = CatalogName::FromPrefix(names.into_iter().map(Into::into).collect());
        self
    }

    /// The catalog is what a closure makes of the request; `None` is refused with 404 `unknown-catalog`.
    ///
    /// Two requests that reach the same table of the inner service must get the same name.
    pub fn catalog_with(mut self, name: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.shared.catalog = CatalogName::With(Box::new(name));
        self
    }

    /// The headers and tokens with which a client declares that it enforces restrictions, instead of
    /// [`Capability::defaults`].
    pub fn capabilities(mut self, capabilities: impl IntoIterator<Item = Capability>) -> Self {
        self.shared.capabilities = capabilities.into_iter().collect();
        self
    }

    /// With which status a client that declares nothing is refused; 406 unless set.
    pub fn capability_refusal(mut self, refusal: CapabilityRefusal) -> Self {
        self.shared.capability_refusal = refusal;
        self
    }

    /// Which readers are believed when they declare; whoever declares unless set.
    pub fn trusted_readers(mut self, readers: impl TrustedReaders) -> Self {
        self.shared.trusted_readers = Arc::new(readers);
        self
    }

    /// What counts as a conflict between policies.
    pub fn conflict(mut self, rule: ConflictRule) -> Self {
        self.conflict = rule;
        self
    }

    /// What happens when the inner service sends restrictions of its own beside ours.
    pub fn upstream_restrictions(mut self, upstream: UpstreamRestrictions) -> Self {
        self.upstream = upstream;
        self
    }

    /// Whether subjects with an active mask or filter may commit.
    pub fn restricted_commits(mut self, commits: RestrictedCommits) -> Self {
        self.shared.restricted_commits = commits;
        self
    }

    /// Whether the inner service reads a `+` in a path as a blank; not unless set.
    pub fn plus_as_space(mut self, plus_as_space: bool) -> Self {
        self.shared.names.plus_as_space = plus_as_space;
        self
    }

    /// What separates namespace levels in a path beside `%1F`, as it stands there before decoding (`%2E`, `.`). The
    /// first one also joins levels when the layer itself asks for a table.
    pub fn namespace_separators<T: Into<String>>(mut self, separators: impl IntoIterator<Item = T>) -> Self {
        self.shared.names.separators =
            separators.into_iter().map(Into::into).filter(|separator| !separator.is_empty()).collect();
        self
    }

    /// How many bytes of a load result are read, after decoding; 64 MiB unless set. The bodies of requests to
    /// create tables fall under the same limit.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.shared.max_body_bytes = bytes;
        self
    }

    /// How many bytes each of the two caches keeps alive: one knows metadata again that have not changed, the other
    /// knows what was resolved for a caller, and answers conditional loads. 64 MiB unless set; 0 keeps nothing.
    ///
    /// Answers are the same with any size. Of the bodies only metadata are kept. More than 32 KiB of them stay in the
    /// buffer that they came in, and what stands around them, such as credentials, is moved out of it; that is left
    /// there only if somebody else holds a part of the buffer, or if it is longer than 32 KiB itself.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.shared.caches = Caches::new(bytes);
        self
    }

    /// How long each call of a source may take; 2 seconds unless set.
    pub fn source_timeout(mut self, limit: Duration) -> Self {
        self.shared.source_timeout = limit;
        self
    }

    /// Who is told of every decision.
    pub fn decisions(mut self, decisions: impl Decisions) -> Self {
        self.shared.decisions = Some(Arc::new(decisions));
        self
    }

    /// The layer.
    pub fn build(self) -> ReadRestrictionsLayer {
        let Self { mut shared, conflict, upstream } = self;
        shared.variance = Variance::new(&shared.capabilities);
        shared.resolver = Resolver::new().with_conflict(conflict).with_upstream_restrictions(upstream);
        ReadRestrictionsLayer { shared: Arc::new(shared) }
    }
}

impl fmt::Debug for LayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

/// What all requests share: the sources, the settings, the caches.
pub(super) struct Shared {
    pub policies: Arc<dyn PolicySource>,
    pub identity: Arc<dyn IdentitySource>,
    pub catalog: CatalogName,
    pub names: NameSyntax,
    pub capabilities: Vec<Capability>,
    capability_refusal: CapabilityRefusal,
    trusted_readers: Arc<dyn TrustedReaders>,
    pub resolver: Resolver,
    pub restricted_commits: RestrictedCommits,
    pub max_body_bytes: usize,
    pub source_timeout: Duration,
    decisions: Option<Arc<dyn Decisions>>,
    pub variance: Variance,
    pub caches: Caches,
}

impl Shared {
    /// What a request says about its reader. Nobody is asked for trust in vain.
    pub(super) fn reader(&self, request: &Parts) -> Reader {
        if !self.capabilities.iter().any(|capability| capability.is_declared_in(&request.headers)) {
            Reader::Undeclared
        } else if self.trusted_readers.is_trusted(request) {
            Reader::Trusted
        } else {
            Reader::Untrusted
        }
    }

    /// The status of that answer.
    pub(super) fn status_of(&self, refusal: &Refusal) -> u16 {
        refusal.code.status(self.capability_refusal).as_u16()
    }

    /// The answer for a refusal.
    pub(super) fn refuse(&self, refusal: &Refusal, request_id: Option<&RequestId>) -> Response<Bytes> {
        let mut response = refusal.response(&self.capabilities, self.capability_refusal, request_id);
        headers::keep_private(response.headers_mut(), &self.variance);
        response
    }

    pub(super) fn is_anybody_listening(&self) -> bool {
        self.decisions.is_some() || tracing::enabled!(target: TARGET, tracing::Level::INFO)
    }

    pub(super) fn decided(&self, decision: &Decision) {
        decision.trace();
        if let Some(decisions) = &self.decisions {
            decisions.decided(decision);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadRestrictionsLayer")
            .field("catalog", &self.catalog)
            .field("names", &self.names)
            .field("capabilities", &self.capabilities)
            .field("capability_refusal", &self.capability_refusal)
            .field("resolver", &self.resolver)
            .field("restricted_commits", &self.restricted_commits)
            .field("max_body_bytes", &self.max_body_bytes)
            .field("source_timeout", &self.source_timeout)
            .finish_non_exhaustive()
    }
}
