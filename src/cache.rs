//! The bounded caches of the layer and their keys, in one place.
//!
//! Nothing in them was decided: policies, identity and restrictions are asked anew for every load. An entry is a copy
//! of what one inner answer said and is compared with what comes next, so nothing has to be invalidated, and one that
//! a slow load puts in the place of a newer one costs a comparison and no more.

use std::sync::Arc;

use http::HeaderValue;
use moka::future::Cache;

use crate::{
    layer::InnerState,
    policy::TableIdent,
    table::{KnownMetadata, LoadResult},
};

/// What an entry takes beside the bytes that are counted.
const ENTRY_BYTES: usize = 1024;

/// Longer bodies are kept in the buffer that they came in.
const LONGEST_COPY: usize = 64 << 10;

/// The largest buffer that hyper reads a connection into, of which a body that came in one frame is a slice.
const READ_BUFFER: usize = 8192 + 4096 * 100;

/// A load without its caller: two with the same key are usually answered with the same metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LoadKey {
    pub table: Arc<TableIdent>,
    /// The mount and the prefix.
    pub lead: Arc<str>,
    pub query: Option<Arc<str>>,
}

/// The metadata that were read last for each load, bounded by the bytes that they keep alive. They are known again by
/// comparing bytes, so a key only says where to look.
#[derive(Clone, Debug)]
pub(crate) struct MetadataCache(Cache<LoadKey, KnownMetadata>);

impl MetadataCache {
    pub(crate) fn new(max_bytes: u64) -> Self {
        let weigh = |key: &LoadKey, known: &KnownMetadata| weight(key.bytes() + kept_alive(known.size()));
        Self(Cache::builder().weigher(weigh).max_capacity(max_bytes).build())
    }

    pub(crate) async fn get(&self, key: &LoadKey) -> Option<KnownMetadata> {
        self.0.get(key).await
    }

    pub(crate) async fn insert(&self, key: LoadKey, known: KnownMetadata) {
        self.0.insert(key, known).await;
    }
}

/// What a conditional load is answered from when the inner service says 304: what the last full load with the same
/// inner tag showed.
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
    pub load: LoadKey,
    pub subject: Box<str>,
    pub delegation: Vec<Box<[u8]>>,
    pub inner_tag: Box<[u8]>,
}

/// Revalidations of the tables that are asked for most, bounded by the bytes that they keep alive.
#[derive(Clone, Debug)]
pub(crate) struct RevalidationCache(Cache<RevalidationKey, Revalidation>);

impl RevalidationCache {
    pub(crate) fn new(max_bytes: u64) -> Self {
        let weigh = |key: &RevalidationKey, value: &Revalidation| {
            let delegation: usize = key.delegation.iter().map(|value| value.len()).sum();
            let key = key.load.bytes() + key.subject.len() + delegation + key.inner_tag.len();
            weight(key + kept_alive(value.load.body().len()))
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

impl LoadKey {
    fn bytes(&self) -> usize {
        let names = [&self.table.catalog, &self.table.name].into_iter().chain(&self.table.namespace);
        names.map(String::len).sum::<usize>() + self.lead.len() + self.query.as_deref().map_or(0, str::len)
    }
}

/// A load result to be kept. A small body that came in one frame would keep a buffer alive that may be a hundred times
/// as long.
pub(crate) fn keep(load: &LoadResult) -> LoadResult {
    if load.body().len() <= LONGEST_COPY { load.in_own_buffer() } else { load.clone() }
}

/// What a body that is kept takes, at most.
fn kept_alive(body: usize) -> usize {
    if body <= LONGEST_COPY { body } else { body.max(READ_BUFFER) }
}

fn weight(bytes: usize) -> u32 {
    u32::try_from(ENTRY_BYTES + bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> LoadKey {
        LoadKey { table: Arc::new(TableIdent::new("prod", ["sales"], name)), lead: "/v1".into(), query: None }
    }

    fn metadata(size: usize) -> KnownMetadata {
        let body = format!(
            r#"{{"metadata":{{"format-version":1,"schema":{{"type":"struct","fields":[]}},"x":"{}"}}}}"#,
            "x".repeat(size)
        );
        LoadResult::read(body.into()).unwrap().known_metadata()
    }

    #[tokio::test]
    async fn what_does_not_fit_is_not_kept() {
        let cache = MetadataCache::new(64 << 10);
        for number in 0..100 {
            cache.insert(key(&number.to_string()), metadata(4 << 10)).await;
        }
        cache.insert(key("large"), metadata(128 << 10)).await;
        cache.0.run_pending_tasks().await;
        assert!(cache.get(&key("large")).await.is_none());
        assert!(cache.0.weighted_size() <= 64 << 10);
    }

    #[test]
    fn what_is_small_is_kept_without_the_buffer_that_it_was_read_into() {
        let body = |metadata: usize| {
            let schema = r#"{"type":"struct","fields":[]}"#;
            let padding = "x".repeat(metadata);
            format!(r#"{{"metadata":{{"format-version":1,"schema":{schema},"x":"{padding}"}}}}"#)
        };
        for (size, is_copied) in [(100, true), (LONGEST_COPY, false)] {
            let read = bytes::Bytes::from(body(size) + &" ".repeat(READ_BUFFER));
            let load = LoadResult::read(read.slice(..body(size).len())).unwrap();
            let kept = keep(&load);
            assert_eq!(kept.body(), load.body());
            assert_eq!(kept.body().as_ptr() != read.as_ptr(), is_copied);
            assert!(kept.has_metadata(&load.known_metadata()));
        }
    }

    #[tokio::test]
    async fn without_bytes_nothing_is_kept() {
        let cache = MetadataCache::new(0);
        cache.insert(key("t"), metadata(1)).await;
        cache.0.run_pending_tasks().await;
        assert!(cache.get(&key("t")).await.is_none());
    }
}
