//! loadTable, in the order of events of the HTTP contract; and what becomes of a load result, whoever asked for it.

use std::{convert::Infallible, ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, request, response};
use http_body::Body;

use super::{
    body::{Collected, RequestBody, ResponseBody},
    error::Refusal,
    etag::{CarriedTags, EntityTag, IfNoneMatch, InnerState, Representation},
    exchange::{Exchange, Outcomes, Reply},
    headers,
    inner::Inner,
    kept::{KnownLoad, Resolved, Revalidation},
    read::InnerAnswer,
    route::OperationKind,
};
use crate::{
    cache::Newest,
    resolve::Resolver,
    table::{KnownMetadata, LoadResult},
};

impl<I: Inner> Exchange<I> {
    /// loadTable: the inner service is asked first, because it authorises; then policies and identity; then the
    /// capability; and only then is anything sent.
    pub(super) async fn load_table(
        &mut self,
        mut request: Request<RequestBody<I::RequestBody>>,
    ) -> Outcomes<I, Reply<I>> {
        let if_none_match = headers::take_validators(request.headers_mut());
        headers::ask_for_the_whole_body(request.headers_mut());
        let carried = if_none_match.carried();
        let response = match carried.if_none_match() {
            None => self.call(request).await?,
            Some(tags) => match self.load_if_modified(request, tags, &carried, &if_none_match).await? {
                ControlFlow::Break(not_modified) => return Ok(not_modified),
                ControlFlow::Continue(response) => response,
            },
        };
        self.answer(response, &if_none_match).await
    }

    /// Asks the inner service for the table unless it has one of the tags that ours carried. What is left is an
    /// answer to a load in full, unless nothing changed at all.
    async fn load_if_modified(
        &mut self,
        request: Request<RequestBody<I::RequestBody>>,
        tags: HeaderValue,
        carried: &CarriedTags,
        if_none_match: &IfNoneMatch,
    ) -> Outcomes<I, ControlFlow<Reply<I>, Response<I::ResponseBody>>> {
        let (mut head, body) = request.into_parts();
        let in_full = without_body(&head);
        head.headers.insert(header::IF_NONE_MATCH, tags);
        let response = self.call(Request::from_parts(head, body)).await?;
        if response.status() != StatusCode::NOT_MODIFIED {
            return Ok(ControlFlow::Continue(response));
        }
        let (response, _) = response.into_parts();
        match self.revalidate(if_none_match, carried, response.headers).await? {
            Some(not_modified) => Ok(ControlFlow::Break(not_modified)),
            None => Ok(ControlFlow::Continue(self.call(in_full).await?)),
        }
    }

    /// What becomes of the inner service's answer to a request for a load result.
    pub(super) async fn answer(
        &mut self,
        response: Response<I::ResponseBody>,
        if_none_match: &IfNoneMatch,
    ) -> Outcomes<I, Reply<I>> {
        match response.status() {
            StatusCode::NOT_MODIFIED => {
                return Err(Refusal::stray_not_modified().into());
            }
            StatusCode::NO_CONTENT => return Ok(response.map(|_| ResponseBody::empty())),
            status if !status.is_success() => return Ok(response.map(ResponseBody::untouched)),
            _ => {}
        }

        let InnerAnswer { head, mut collected, load } = self.read(response).await;
        let load = match load {
            Ok(load) => load,
            Err(reason) => {
                return match self.policies_by_name().await?.is_governed() {
                    true => Err(Refusal::upstream_invalid(reason).into()),
                    false => Ok(ungoverned(head, if_none_match, collected.replay())),
                };
            }
        };
        match self.decide_on(&load).await {
            Ok(Some(resolved)) => Ok(self.governed(head, collected, load, &resolved, if_none_match).await),
            Ok(None) => {
                let slices = self.keep(&mut collected, load, None).await;
                Ok(ungoverned(head, if_none_match, collected.replay_as(slices)))
            }
            Err(refusal) => {
                self.keep(&mut collected, load, None).await;
                Err(refusal.into())
            }
        }
    }

    /// The restrictions that this caller may receive; `None` for a table that no policy governs.
    async fn decide_on(&mut self, load: &LoadResult) -> Result<Option<Arc<Resolved>>, Refusal> {
        let resolved = self.resolve_governed(load).await?;
        if let Some(resolved) = &resolved {
            self.admit(&resolved.resolution)?;
        }
        Ok(resolved)
    }

    /// What is resolved for a table, if any policy governs it.
    pub(super) async fn resolve_governed(
        &mut self,
        load: &LoadResult,
    ) -> Result<Option<Arc<Resolved>>, Refusal> {
        let policies = self.policies_of(load).await?;
        if !Resolver::governs(&policies, load) {
            self.report_only(&policies, load).await;
            return Ok(None);
        }
        self.resolve(&policies, load).await.map(Some)
    }

    /// The answer for a governed table whose restrictions this caller may receive.
    async fn governed(
        &mut self,
        mut head: response::Parts,
        mut collected: Collected<I::ResponseBody>,
        load: LoadResult,
        resolved: &Resolved,
        if_none_match: &IfNoneMatch,
    ) -> Reply<I> {
        let state = InnerState::of(&head.headers, &load);
        // Only answers to loads can be asked for again, and only if there is one tag.
        let is_load = self.operation == OperationKind::LoadTable;
        let has_tag = is_load && EntityTag::of(&head.headers).is_some();
        let inner_tag = head.headers.remove(header::ETAG).filter(|_| has_tag);
        let inner_tag = inner_tag.as_ref().and_then(|tag| EntityTag::parse(tag.as_bytes()));
        let tag = self.tag(resolved, &load, state, inner_tag);
        let is_known = if_none_match.matches_ours(&tag);
        headers::govern(&mut head.headers, tag, &self.shared.variance);
        if let Some(inner_tag) = inner_tag.filter(|tag| tag.is_carried()) {
            self.remember(inner_tag.as_bytes(), &load, state, &head.headers).await;
        }
        if resolved.member.is_some() {
            // What is spliced is decoded.
            head.headers.remove(header::CONTENT_ENCODING);
        }
        let slices = self.keep(&mut collected, load, Some(resolved)).await;
        if is_known {
            return not_modified(head.headers);
        }
        let length: usize = slices.iter().map(Bytes::len).sum();
        head.headers.insert(header::CONTENT_LENGTH, headers::content_length(length));
        Response::from_parts(head, ResponseBody::slices(slices))
    }

    /// Keeps the metadata for the next load. What is left is the body to send: with what was resolved in it, or as it
    /// came.
    pub(super) async fn keep(
        &mut self,
        collected: &mut Collected<I::ResponseBody>,
        load: LoadResult,
        resolved: Option<&Resolved>,
    ) -> [Bytes; 3] {
        let member = resolved.and_then(|resolved| resolved.member.as_ref());
        // If nothing was decoded, only the load is to hold the buffer, from which the rest is moved out.
        let body = Some(collected.take_data()).filter(|body| body.as_ptr() != load.body().as_ptr());
        let known = self.known.take().filter(|known| load.has_metadata(known));
        let slices = match known {
            None if self.keeps_metadata() => {
                let text = resolved.and_then(|resolved| resolved.resolution.member());
                let (slices, metadata) = load.into_slices(text);
                self.keep_metadata(metadata).await;
                slices
            }
            known => {
                if let Some(metadata) = known {
                    self.keep_metadata(metadata).await;
                }
                match member {
                    Some(member) => load.splice_shared(member),
                    None => [load.body().clone(), Bytes::new(), Bytes::new()],
                }
            }
        };
        match (member, body) {
            (None, Some(body)) => [body, Bytes::new(), Bytes::new()],
            _ => slices,
        }
    }

    async fn keep_metadata(&mut self, metadata: KnownMetadata) {
        let (known, began) = (KnownLoad { key: self.load.clone(), metadata }, self.began);
        let put = |newest: &mut Newest<_>| newest.put(began, known.clone());
        self.shared.caches.metadata.change(&self.load, put).await;
    }

    /// What is created has not been asked for yet.
    fn keeps_metadata(&self) -> bool {
        !matches!(self.operation, OperationKind::CreateTable | OperationKind::RegisterTable)
            && self.shared.caches.metadata.keeps_anything()
    }

    /// Remembers what an inner 304 to this tag is to be answered from.
    async fn remember(
        &mut self,
        inner_tag: &[u8],
        load: &LoadResult,
        state: InnerState,
        headers: &HeaderMap,
    ) {
        let Some((key, slot)) = &self.slot else { return };
        let is_right = |known: &Revalidation| known.is_of(inner_tag, load, state, headers);
        let make = || Ok::<_, Infallible>(Revalidation::new(inner_tag, load, state, headers));
        let Ok(_) = slot.lock().revalidation.get_or_put(self.began, is_right, make);
        self.shared.caches.callers.weigh(key, slot).await;
    }

    /// After an inner 304 to the tags that ours carried: answers 304 if nothing of ours changed either. `None` when
    /// only a full load can tell.
    async fn revalidate(
        &mut self,
        if_none_match: &IfNoneMatch,
        carried: &CarriedTags,
        mut not_modified_inside: HeaderMap,
    ) -> Outcomes<I, Option<Reply<I>>> {
        let Some(inner_tag) = carried.confirmed_by(&not_modified_inside) else { return Ok(None) };
        if self.subject().await.is_err() {
            return Ok(None);
        }
        let Some(known) = self.recall(inner_tag).await else { return Ok(None) };

        let policies = self.policies_of(&known.table).await?;
        self.asked = Some((known.clone(), policies.clone()));
        if !Resolver::governs(&policies, &known.table) {
            return Ok(None);
        }
        self.identify(&policies).await?;
        // Other policies may need more of the table than is known of it.
        let Ok(resolved) = self.resolve(&policies, &known.table).await else { return Ok(None) };
        self.admit(&resolved.resolution)?;
        let tag = self.tag(&resolved, &known.table, known.state, EntityTag::parse(inner_tag));
        if !if_none_match.matches_ours(&tag) {
            return Ok(None);
        }
        headers::govern(&mut not_modified_inside, tag, &self.shared.variance);
        for (name, value) in [(header::VARY, &known.vary), (header::CACHE_CONTROL, &known.cache_control)] {
            if let Some(value) = value {
                not_modified_inside.insert(name, value.clone());
            }
        }
        Ok(Some(not_modified(not_modified_inside)))
    }

    /// What the last full load with this inner tag showed.
    async fn recall(&mut self, inner_tag: &[u8]) -> Option<Arc<Revalidation>> {
        let key = self.caller_key()?;
        let slot = self.shared.caches.callers.get(&key).await?;
        let known = slot.lock().revalidation.get()?.clone();
        (*known.inner_tag == *inner_tag).then_some(known)
    }

    fn tag(
        &self,
        resolved: &Resolved,
        load: &LoadResult,
        inner: InnerState,
        inner_tag: Option<EntityTag<'_>>,
    ) -> HeaderValue {
        Representation {
            operation: self.operation.as_str(),
            table: self.load.table(),
            lead: self.load.lead(),
            inner,
            metadata_location: load.metadata_location(),
            query: self.load.query(),
            delegation: self.delegation.as_deref(),
            subject: resolved.subject(),
            identity_revision: resolved.identity_revision(),
            policy_revision: &resolved.policies().revision,
            schema_id: load.schema().id(),
            restrictions: &resolved.digest,
            reader: self.reader,
        }
        .tag(inner_tag)
    }
}

/// The answer of a table that no policy governs: as it came, or the 304 that the inner service would have given.
fn ungoverned<B: Body<Data = Bytes>>(
    head: response::Parts,
    if_none_match: &IfNoneMatch,
    body: ResponseBody<B>,
) -> Response<ResponseBody<B>> {
    match if_none_match.matches_inner(&head.headers) {
        true => not_modified(head.headers),
        false => Response::from_parts(head, body),
    }
}

/// A 304 with the headers of the 200 that it stands for.
fn not_modified<B: Body>(mut headers: HeaderMap) -> Response<ResponseBody<B>> {
    headers::remove_content(&mut headers);
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    *response.headers_mut() = headers;
    response
}

/// The same request again, without its body.
pub(super) fn without_body<B>(request: &request::Parts) -> Request<RequestBody<B>> {
    let mut again = Request::from_parts(request.clone(), RequestBody::empty());
    headers::remove_body_headers(again.headers_mut());
    again
}
