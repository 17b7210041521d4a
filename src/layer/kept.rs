//! What the layer keeps from one load to the next, and how it is known again.

use std::{mem, ptr, sync::Arc};

use http::{HeaderMap, HeaderValue, header};

use super::{
    etag::{self, InnerState},
    exchange::Identity,
};
use crate::{
    cache::{CallerKey, Calls, LoadKey, Newest, Size, SlotCache},
    identity::Memberships,
    policy::{EffectivePolicies, EffectivePolicy, Policy, Selection},
    resolve::{Reported, Resolution, ResolvedColumnMask},
    source::Revision,
    table::{KnownMetadata, KnownSchemas, LoadResult, Member},
};

/// Longer metadata are kept in the buffer that their body came in.
const LONGEST_COPY: usize = 32 << 10;

/// The largest buffer that hyper reads a connection into, of which a body that came in one frame is a slice.
const READ_BUFFER: usize = 8192 + 4096 * 100;

/// The caches of one layer.
#[derive(Debug)]
pub(super) struct Caches {
    /// What was read last for each load.
    pub metadata: SlotCache<LoadKey, Newest<KnownLoad>>,
    /// What was worked out last for each caller of a load.
    pub callers: SlotCache<CallerKey, ForCaller>,
    pub calls: Calls,
}

impl Caches {
    /// Each of the two keeps so many bytes alive.
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            metadata: SlotCache::new(max_bytes),
            callers: SlotCache::new(max_bytes),
            calls: Calls::default(),
        }
    }
}

/// The metadata of a load, and the names that were read from its path.
#[derive(Clone, Debug)]
pub(super) struct KnownLoad {
    pub key: LoadKey,
    pub metadata: KnownMetadata,
}

impl Size for KnownLoad {
    /// A part of a body keeps the whole buffer alive that the body is a part of.
    fn size(&self) -> usize {
        match self.metadata.size() {
            small @ ..=LONGEST_COPY => small,
            large => large.max(READ_BUFFER),
        }
    }
}

/// What is kept for one caller of one load.
#[derive(Debug, Default)]
pub(super) struct ForCaller {
    pub resolved: Newest<Arc<Resolved>>,
    pub revalidation: Newest<Arc<Revalidation>>,
}

impl Size for ForCaller {
    fn size(&self) -> usize {
        self.resolved.size() + self.revalidation.size()
    }
}

/// A governed table as it was resolved for one caller, and what that came from.
#[derive(Debug)]
pub(super) struct Resolved {
    pub resolution: Resolution,
    /// What the load result must carry.
    pub member: Option<Member>,
    /// What the report-only policies would have done.
    pub reported: Vec<Reported>,
    /// What an entity tag depends on.
    pub digest: [u8; 32],
    grounds: Grounds,
    size: usize,
}

/// Everything that a resolver's answer depends on beside its settings, which are those of the layer.
#[derive(Debug)]
struct Grounds {
    /// Kept, so that no other answer can come to lie at the same address.
    policies: Arc<EffectivePolicies>,
    subject: Arc<str>,
    identity_revision: Revision,
    memberships: Option<Memberships>,
    schemas: KnownSchemas,
    /// The `read-restrictions` of the inner service.
    upstream: Option<Box<str>>,
}

impl Resolved {
    pub(super) fn new(
        resolution: Resolution,
        reported: Vec<Reported>,
        policies: &Arc<EffectivePolicies>,
        identity: &Identity,
        table: &LoadResult,
    ) -> Self {
        let grounds = Grounds {
            policies: Arc::clone(policies),
            subject: Arc::clone(identity.subject.shared_name()),
            identity_revision: identity.subject.revision().clone(),
            memberships: identity.memberships.clone(),
            schemas: table.schemas(),
            upstream: table.read_restrictions().map(Box::from),
        };
        let masks = mem::size_of_val::<[ResolvedColumnMask]>(resolution.column_masks());
        // Once as text, once to be sent, and about as much for the predicate.
        let text =
            3 * resolution.member().map_or(0, str::len) + table.read_restrictions().map_or(0, str::len);
        let size = masks + text + table.schemas_size() + size_of_policies(policies);
        let member = resolution.member().map(Member::new);
        let digest = etag::digest_of(&resolution);
        Self { resolution, member, reported, digest, grounds, size }
    }

    /// Whether a resolver would have to come to the same. No revision is believed to say so alone: the policies are
    /// the same object, the schemas were found to be the same text, and everything else is compared.
    pub(super) fn follows_from(
        &self,
        policies: &Arc<EffectivePolicies>,
        identity: &Identity,
        table: &LoadResult,
    ) -> bool {
        let grounds = &self.grounds;
        Arc::ptr_eq(&grounds.policies, policies)
            && *grounds.subject == *identity.subject.name()
            && grounds.identity_revision == *identity.subject.revision()
            && grounds.memberships == identity.memberships
            && table.has_schemas(&grounds.schemas)
            && grounds.upstream.as_deref() == table.read_restrictions()
    }

    pub(super) fn policies(&self) -> &EffectivePolicies {
        &self.grounds.policies
    }

    pub(super) fn subject(&self) -> &str {
        &self.grounds.subject
    }

    pub(super) fn identity_revision(&self) -> &Revision {
        &self.grounds.identity_revision
    }
}

impl Size for Resolved {
    fn size(&self) -> usize {
        self.size
    }
}

/// About how much an answer of a policy source takes, as if nobody else held it.
fn size_of_policies(policies: &EffectivePolicies) -> usize {
    let (mut size, mut last) = (0, ptr::null());
    for EffectivePolicy { policy, selections } in policies.all() {
        size += mem::size_of::<EffectivePolicy>() + mem::size_of_val::<[Selection]>(selections);
        if !ptr::eq(last, &**policy) {
            // A syntax tree takes several times its source.
            size +=
                mem::size_of::<Policy>() + 16 * policy.expression.as_ref().map_or(0, |e| e.source().len());
            last = &**policy;
        }
    }
    size
}

/// What a conditional load is answered from when the inner service says 304: what the last full load showed, without
/// its body.
#[derive(Debug)]
pub(super) struct Revalidation {
    pub inner_tag: Box<[u8]>,
    pub table: LoadResult,
    pub state: InnerState,
    /// The `Vary` and `Cache-Control` that the full answer had.
    pub vary: Option<HeaderValue>,
    pub cache_control: Option<HeaderValue>,
}

impl Revalidation {
    pub(super) fn new(inner_tag: &[u8], load: &LoadResult, state: InnerState, answer: &HeaderMap) -> Self {
        Self {
            inner_tag: inner_tag.into(),
            table: load.without_body(),
            state,
            vary: answer.get(header::VARY).cloned(),
            cache_control: answer.get(header::CACHE_CONTROL).cloned(),
        }
    }

    /// Whether another one of this answer would be the same.
    pub(super) fn is_of(
        &self,
        inner_tag: &[u8],
        load: &LoadResult,
        state: InnerState,
        answer: &HeaderMap,
    ) -> bool {
        *self.inner_tag == *inner_tag
            && self.state == state
            && self.vary.as_ref() == answer.get(header::VARY)
            && self.cache_control.as_ref() == answer.get(header::CACHE_CONTROL)
            && self.table.says_the_same_as(load)
    }
}

impl Size for Revalidation {
    fn size(&self) -> usize {
        let texts = [self.table.metadata_location(), self.table.read_restrictions(), self.table.table_uuid()];
        let texts: usize = texts.into_iter().flatten().map(str::len).sum();
        mem::size_of::<Self>() + self.inner_tag.len() + texts + self.vary.as_ref().map_or(0, HeaderValue::len)
    }
}
