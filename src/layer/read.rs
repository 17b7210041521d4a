//! Reading the inner service's answer to a load.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, response::Parts};
use http_body::Body;

use super::{
    body::Collected,
    exchange::Exchange,
    headers,
    inner::Inner,
    measure::{self, Work},
};
use crate::table::LoadResult;

/// A 2xx answer as far as it was read.
pub(super) struct InnerAnswer<B: Body> {
    pub head: Parts,
    /// The body as it came.
    pub collected: Collected<B>,
    /// The load result in it, or why there is none.
    pub load: Result<LoadResult, Cow<'static, str>>,
}

impl<I: Inner> Exchange<I> {
    /// Reads a 2xx answer. Metadata that were read before under the same key are known again by their bytes.
    pub(super) async fn read(&mut self, response: Response<I::ResponseBody>) -> InnerAnswer<I::ResponseBody> {
        let (head, body) = response.into_parts();
        let limit = self.shared.max_body_bytes;
        let readable = !headers::is_encoded(&head.headers) || cfg!(feature = "decompression");
        let collected = Collected::collect(body, if readable { limit } else { 0 }).await;
        let body = whole_body(&head, &collected);
        let load = match decoded(&head.headers, body, limit).await {
            Ok(body) => self.read_load_result(body).await,
            Err(reason) => Err(reason),
        };
        InnerAnswer { head, collected, load }
    }

    async fn read_load_result(&mut self, body: Bytes) -> Result<LoadResult, Cow<'static, str>> {
        // Somebody else may have read them while the inner service was at it.
        if self.known.is_none()
            && let Some(slot) = self.shared.caches.metadata.get(&self.load).await
        {
            self.known = slot.lock().get().map(|known| known.metadata.clone());
        }
        measure::timed(Work::Scan, || LoadResult::read_knowing(body, self.known.as_ref()))
            .map_err(|error| error.to_string().into())
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
