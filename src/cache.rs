//! The bounded caches of the layer and their keys, in one place.

use http::HeaderValue;
use moka::future::Cache;

use crate::{layer::InnerState, policy::TableIdent, table::LoadResult};

/// What a conditional load is answered from when the inner service says 304: what the last full load with the same
/// inner tag showed.
///
/// Nothing in it was decided: policies, identity and restrictions are asked again each time.
#[derive(Clone, Debug)]
pub(crate) struct Revalidation {
    pub load: LoadResult,
    pub state: InnerState,
    /// The `Vary` and `Cache-Control` that the full answer had.
    pub vary: Option<HeaderValue>,
    pub cache_control: Option<HeaderValue>,
}

/// Everything that the inner service's answer may depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RevalidationKey {
    pub table: TableIdent,
    pub subject: String,
    pub query: Option<String>,
    pub delegation: Vec<HeaderValue>,
    pub inner_tag: Box<[u8]>,
}

/// Revalidations of the tables that are asked for most, bounded by the bytes that they hold.
///
/// An entry is a copy of what one inner answer said, so nothing has to be invalidated: another inner tag is another
/// entry, and the hash of the client's tag tells whether it is about this very one.
#[derive(Clone, Debug)]
pub(crate) struct Revalidations(Cache<RevalidationKey, Revalidation>);

impl Revalidations {
    pub(crate) fn new(max_bytes: u64) -> Self {
        let weigh = |key: &RevalidationKey, value: &Revalidation| {
            let names = key.table.name.len() + key.table.namespace.iter().map(String::len).sum::<usize>();
            let key =
                names + key.subject.len() + key.query.as_deref().map_or(0, str::len) + key.inner_tag.len();
            u32::try_from(ENTRY_BYTES + key + value.load.body().len()).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().weigher(weigh).max_capacity(max_bytes).build())
    }

    pub(crate) async fn get(&self, key: &RevalidationKey) -> Option<Revalidation> {
        self.0.get(key).await
    }

    pub(crate) async fn insert(&self, key: RevalidationKey, value: Revalidation) {
        self.0.insert(key, value).await;
    }
}

/// What an entry takes beside the bytes that are counted.
const ENTRY_BYTES: usize = 1024;
