//! Reading the inner service's answer to a load.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, response::Parts};
use http_body::Body;

use super::{
    body::Collected,
    headers,
    layer::Shared,
    measure::{self, Work},
};
use crate::{
    cache::{self, LoadKey},
    table::LoadResult,
};

/// A 2xx answer as far as it was read.
pub(super) struct InnerAnswer<B: Body> {
    pub head: Parts,
    /// The body as it came.
    pub collected: Collected<B>,
    /// The load result in it, or why there is none.
    pub load: Result<LoadResult, Cow<'static, str>>,
}

impl<B: Body<Data = Bytes>> InnerAnswer<B> {
    /// Reads a 2xx answer. Metadata that were read before under the same key are known again by their bytes.
    pub(super) async fn read(shared: &Shared, response: Response<B>, key: Option<LoadKey>) -> Self {
        let (head, body) = response.into_parts();
        let readable = !headers::is_encoded(&head.headers) || cfg!(feature = "decompression");
        let collected = Collected::collect(body, if readable { shared.max_body_bytes } else { 0 }).await;
        let body = whole_body(&head, &collected);
        let load = load_result(shared, &head.headers, body, key).await;
        Self { head, collected, load }
    }
}

/// The body as it came.
fn whole_body<B: Body<Data = Bytes>>(
    head: &Parts,
    collected: &Collected<B>,
) -> Result<Bytes, Cow<'static, str>> {
    if head.status == StatusCode::PARTIAL_CONTENT {
        return Err("a part of the body was sent where the whole was asked for".into());
    }
    collected.whole().cloned().ok_or_else(|| collected.failure().into())
}

async fn load_result(
    shared: &Shared,
    headers: &HeaderMap,
    body: Result<Bytes, Cow<'static, str>>,
    key: Option<LoadKey>,
) -> Result<LoadResult, Cow<'static, str>> {
    let body = decoded(headers, body, shared.max_body_bytes).await?;
    let known = match &key {
        Some(key) => shared.metadata.get(key).await,
        None => None,
    };
    let load = measure::timed(Work::Scan, || LoadResult::read_knowing(body, known.as_ref()))
        .map_err(|error| error.to_string())?;
    if let Some(key) = key
        && !known.is_some_and(|known| load.has_metadata(&known))
    {
        shared.metadata.insert(key, cache::keep(&load).known_metadata()).await;
    }
    Ok(load)
}

/// The body without its encoding.
#[cfg(feature = "decompression")]
async fn decoded(
    headers: &HeaderMap,
    body: Result<Bytes, Cow<'static, str>>,
    limit: usize,
) -> Result<Bytes, Cow<'static, str>> {
    match headers::is_encoded(headers) {
        true => super::decompress::decompress(headers, &body?, limit).await,
        false => body,
    }
}

/// The body, if it is not encoded.
#[cfg(not(feature = "decompression"))]
async fn decoded(
    headers: &HeaderMap,
    body: Result<Bytes, Cow<'static, str>>,
    _: usize,
) -> Result<Bytes, Cow<'static, str>> {
    match headers::is_encoded(headers) {
        true => Err("the body is compressed".into()),
        false => body,
    }
}
