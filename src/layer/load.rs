//! loadTable, in the order of events of the HTTP contract; and what becomes of a load result, whoever asked for it.

use std::ops::ControlFlow;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, request};
use http_body::Body;

use super::{
    body::{RequestBody, ResponseBody},
    error::Refusal,
    etag::{CarriedTags, EntityTag, IfNoneMatch, InnerState, Representation},
    exchange::{Exchange, Outcomes, Reply, Resolved},
    headers,
    inner::Inner,
    read::InnerAnswer,
    route::OperationKind,
};
use crate::{
    cache::{self, LoadKey, Revalidation, RevalidationKey},
    resolve::Resolver,
    table::LoadResult,
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
        match self.revalidate(if_none_match, carried, response.headers()).await? {
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

        let key = (self.operation == OperationKind::LoadTable).then(|| self.load_key());
        let answer = InnerAnswer::read(&self.shared, response, key).await;
        let load = match &answer.load {
            Ok(load) => load.clone(),
            Err(reason) => {
                return match self.policies_by_name().await?.is_governed() {
                    true => Err(Refusal::upstream_invalid(reason.clone()).into()),
                    false => Ok(ungoverned(answer, if_none_match)),
                };
            }
        };
        let policies = self.policies_of(&load).await?;
        if !Resolver::governs(&policies, &load) {
            self.report_only(&policies, &load).await;
            return Ok(ungoverned(answer, if_none_match));
        }
        let resolved = self.resolve(policies, &load).await?;
        self.admit(&resolved.resolution)?;
        Ok(self.governed(answer, load, &resolved, if_none_match).await)
    }

    /// The answer for a governed table whose restrictions this caller may receive.
    async fn governed(
        &mut self,
        answer: InnerAnswer<I::ResponseBody>,
        load: LoadResult,
        resolved: &Resolved,
        if_none_match: &IfNoneMatch,
    ) -> Reply<I> {
        let InnerAnswer { mut head, collected, .. } = answer;
        let state = InnerState::of(&head.headers, &load);
        // Only answers to loads can be asked for again.
        let inner_tag = EntityTag::of(&head.headers).filter(|_| self.operation == OperationKind::LoadTable);
        let tag = self.tag(resolved, &load, &state, inner_tag);
        let carried = inner_tag.and_then(|inner| inner.is_carried().then(|| inner.as_bytes().into()));
        let known = if_none_match.matches_ours(&tag);
        headers::govern(&mut head.headers, tag, &self.shared.capabilities);

        if let Some(inner_tag) = carried {
            let key = self.revalidation_key(resolved.subject.name(), inner_tag);
            let revalidation = Revalidation {
                load: cache::keep(&load),
                state,
                vary: head.headers.get(header::VARY).cloned(),
                cache_control: head.headers.get(header::CACHE_CONTROL).cloned(),
            };
            self.shared.revalidations.insert(key, revalidation).await;
        }
        if known {
            return not_modified(head.headers);
        }
        let slices = match resolved.resolution.member() {
            Some(member) => {
                // What is spliced is decoded.
                head.headers.remove(header::CONTENT_ENCODING);
                load.splice(member)
            }
            None => [collected.into_data(), Bytes::new(), Bytes::new()],
        };
        let length: usize = slices.iter().map(Bytes::len).sum();
        head.headers.insert(header::CONTENT_LENGTH, length.into());
        Response::from_parts(head, ResponseBody::slices(slices))
    }

    /// After an inner 304 to the tags that ours carried: answers 304 if nothing of ours changed either. `None` when
    /// only a full load can tell.
    async fn revalidate(
        &mut self,
        if_none_match: &IfNoneMatch,
        carried: &CarriedTags,
        not_modified_inside: &HeaderMap,
    ) -> Outcomes<I, Option<Reply<I>>> {
        let Some(inner_tag) = carried.confirmed_by(not_modified_inside) else { return Ok(None) };
        let Ok(identity) = self.subject().await else { return Ok(None) };
        let subject = identity.subject.name().to_owned();
        let key = self.revalidation_key(&subject, inner_tag.into());
        let Some(known) = self.shared.revalidations.get(&key).await else { return Ok(None) };

        let policies = self.policies_of(&known.load).await?;
        self.asked = Some((known.load.clone(), policies.clone()));
        if !Resolver::governs(&policies, &known.load) {
            return Ok(None);
        }
        let resolved = self.resolve(policies, &known.load).await?;
        self.admit(&resolved.resolution)?;
        let tag = self.tag(&resolved, &known.load, &known.state, EntityTag::parse(inner_tag));
        if !if_none_match.matches_ours(&tag) {
            return Ok(None);
        }
        let mut headers = not_modified_inside.clone();
        headers::govern(&mut headers, tag, &self.shared.capabilities);
        for (name, value) in [(header::VARY, known.vary), (header::CACHE_CONTROL, known.cache_control)] {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
        Ok(Some(not_modified(headers)))
    }

    fn tag(
        &self,
        resolved: &Resolved,
        load: &LoadResult,
        state: &InnerState,
        inner_tag: Option<EntityTag<'_>>,
    ) -> HeaderValue {
        Representation {
            operation: self.operation.as_str(),
            table: &self.table,
            lead: &self.lead,
            inner: state,
            metadata_location: load.metadata_location(),
            query: self.query.as_deref(),
            delegation: &self.delegation,
            subject: resolved.subject.name(),
            identity_revision: resolved.subject.revision(),
            policy_revision: &resolved.policies.revision,
            schema_id: load.schema().id(),
            restrictions: &resolved.resolution.fingerprint(),
            reader: self.reader,
        }
        .tag(inner_tag)
    }

    pub(super) fn load_key(&self) -> LoadKey {
        LoadKey { table: self.table.clone(), lead: self.lead.clone(), query: self.query.clone() }
    }

    fn revalidation_key(&self, subject: &str, inner_tag: Box<[u8]>) -> RevalidationKey {
        RevalidationKey {
            load: self.load_key(),
            subject: subject.into(),
            delegation: self.delegation.clone(),
            inner_tag,
        }
    }
}

/// The answer of a table that no policy governs: as it came, or the 304 that the inner service would have given.
fn ungoverned<B: Body<Data = Bytes>>(
    answer: InnerAnswer<B>,
    if_none_match: &IfNoneMatch,
) -> Response<ResponseBody<B>> {
    match if_none_match.matches_inner(&answer.head.headers) {
        true => not_modified(answer.head.headers),
        false => Response::from_parts(answer.head, answer.collected.replay()),
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
