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

#[cfg(test)]
mod tests {
    use crate::{
        identity::{Membership, Subject},
        policy::{Format, Governance, TableIdent},
        resolve::{ResolveRequest, Resolver},
    };

    use super::*;

    const TABLE: &str = r#"{"read-restrictions":null,"metadata-location":"s3://a","metadata":{"format-version":2,
        "table-uuid":"u","current-schema-id":0,"schemas":[{"type":"struct","schema-id":0,"fields":[
        {"id":1,"name":"owner","required":false,"type":"string"}]}]}}"#;

    /// One policy that names a group.
    const MODEL: &str = r#"
        [[tags]]
        name = "t"

        [[policies]]
        name = "p"
        policyType = "system_row_filter"
        enabled = true
        content.expression = 'filter := true if is_group_member("g") else := col("owner") == session_user()'
        tags = [{ tag = "t" }]

        [[assignments]]
        object = { catalog = "prod" }
        tag = "t"

        [groups]
        g = []
    "#;

    fn policies() -> Arc<EffectivePolicies> {
        let governance = Governance::parse(MODEL, Format::Toml).expect("the model is valid");
        governance.effective_policies_of(&TableIdent::new("prod", ["ns"], "t"))
    }

    fn identity(name: &str, revision: &str, answer: Membership) -> Identity {
        let revision = Revision::new(revision);
        let mut identity = Identity::new(Subject::new(name, revision.clone()));
        identity.memberships = Some(Memberships::new(revision, [("g".to_owned(), answer)]));
        identity
    }

    fn load(text: &str, known: Option<&LoadResult>) -> LoadResult {
        let known = known.map(LoadResult::known_metadata);
        LoadResult::read_knowing(text.to_owned().into(), known.as_ref()).expect("a load result")
    }

    #[test]
    fn what_was_resolved_follows_from_nothing_but_the_same() {
        let (policies, table) = (policies(), load(TABLE, None));
        let alice = || identity("alice", "1", Membership::NotMember);
        let subject = alice();
        let request = ResolveRequest {
            policies: &policies,
            subject: Some(&subject.subject),
            memberships: subject.memberships.as_ref(),
            table: &table,
        };
        let resolution = Resolver::new().resolve(request).expect("resolves");
        let resolved = Resolved::new(resolution, Vec::new(), &policies, &alice(), &table);

        let moved = TABLE.replace("s3://a", "s3://b").replace("\"u\"", "\"v\"");
        for same in [load(TABLE, Some(&table)), load(&moved, Some(&table)), table.without_body()] {
            assert!(resolved.follows_from(&policies.clone(), &alice(), &same));
        }
        let equal = Arc::new(EffectivePolicies::clone(&policies));
        assert!(!resolved.follows_from(&equal, &alice(), &table), "an answer of its own");
        for other in [
            identity("Alice", "1", Membership::NotMember),
            identity("alice", "1", Membership::Member),
            identity("alice", "1", Membership::UnknownGroup),
            identity("alice", "2", Membership::NotMember),
            Identity::new(alice().subject),
        ] {
            assert!(!resolved.follows_from(&policies, &other, &table), "{:?}", other.memberships);
        }
        // A revision counts where no group is asked, too.
        let nobody_asked = |revision| Identity::new(Subject::new("alice", Revision::new(revision)));
        let unasked = Resolved::new(resolved.resolution, Vec::new(), &policies, &nobody_asked("1"), &table);
        assert!(unasked.follows_from(&policies, &nobody_asked("1"), &table));
        assert!(!unasked.follows_from(&policies, &nobody_asked("2"), &table));
        for other in [
            load(TABLE, None),
            load(&TABLE.replace("owner", "buyer"), Some(&table)),
            load(&TABLE.replace(":null", ":{}"), Some(&table)),
            load(&TABLE.replacen("\"read-restrictions\":null,", "", 1), Some(&table)),
        ] {
            assert!(!unasked.follows_from(&policies, &nobody_asked("1"), &other));
        }
    }

    #[test]
    fn an_inner_304_is_answered_from_nothing_but_the_same() {
        let headers = |vary, cache_control, tag| {
            let mut headers = HeaderMap::new();
            for (name, value) in
                [(header::VARY, vary), (header::CACHE_CONTROL, cache_control), (header::ETAG, tag)]
            {
                headers.insert(name, HeaderValue::from_static(value));
            }
            headers
        };
        let (table, answer) = (load(TABLE, None), headers("a", "private", "\"1\""));
        let state = |answer: &HeaderMap| InnerState::of(answer, &table);
        let known = Revalidation::new(b"\"1\"", &table, state(&answer), &answer);
        assert!(known.is_of(b"\"1\"", &load(TABLE, Some(&table)), state(&answer), &answer));
        assert!(!known.is_of(b"\"2\"", &table, state(&answer), &answer));
        assert!(!known.is_of(b"\"1\"", &table, state(&headers("a", "private", "\"2\"")), &answer));
        for other in [headers("b", "private", "\"1\""), headers("a", "no-store", "\"1\""), HeaderMap::new()] {
            assert!(!known.is_of(b"\"1\"", &table, state(&answer), &other));
        }
        for other in ["s3://a => s3://b", "\"u\" => \"v\"", ":null => :{}", "owner => buyer"] {
            let (from, to) = other.split_once(" => ").expect("two parts");
            let table = load(&TABLE.replace(from, to), Some(&table));
            assert!(!known.is_of(b"\"1\"", &table, state(&answer), &answer), "{other}");
        }
    }
}
