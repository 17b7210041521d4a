//! Operations that let a caller read a table without loading it: credentials, scan planning, signing. They are
//! refused wherever loadTable would be.

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, Uri, request::Parts, uri::InvalidUri};

use super::{
    body::{RequestBody, ResponseBody},
    error::{Refusal, RefusalCode},
    exchange::{Exchange, Outcomes, Reply},
    headers,
    inner::Inner,
    kept::Resolved,
    load::without_body,
    read::InnerAnswer,
};

/// What loading a table on behalf of another operation came to.
pub(super) enum Looked<B> {
    /// No policy is effective.
    Ungoverned,
    /// The inner service would not give the table to this caller.
    Refused(Response<B>),
    /// The table is governed.
    Governed(Arc<Resolved>),
}

impl<I: Inner> Exchange<I> {
    /// A gate.
    pub(super) async fn gate(
        &mut self,
        request: Request<RequestBody<I::RequestBody>>,
    ) -> Outcomes<I, Reply<I>> {
        let (mut head, body) = request.into_parts();
        match self.look_at_table(&head).await? {
            Looked::Ungoverned => {}
            Looked::Refused(response) => return Ok(response.map(ResponseBody::untouched)),
            Looked::Governed(resolved) => {
                self.admit(&resolved.resolution)?;
                // A 304 would be about what the client got before it was looked at now.
                headers::take_validators(&mut head.headers);
            }
        }
        self.pass(Request::from_parts(head, body)).await
    }

    /// Loads the table through the inner service with the caller's headers, and resolves it. A table that cannot be
    /// governed by its name is not loaded.
    pub(super) async fn look_at_table(&mut self, request: &Parts) -> Outcomes<I, Looked<I::ResponseBody>> {
        if !self.policies_by_name().await?.is_governed() {
            return Ok(Looked::Ungoverned);
        }
        self.load = self.load.of_this_table();
        (self.known, self.delegation) = (None, None);
        let response = self.call(request_for_table(request, self.load.table_path())?).await?;
        match response.status() {
            StatusCode::NOT_MODIFIED => {
                return Err(Refusal::stray_not_modified().into());
            }
            status if !status.is_success() => return Ok(Looked::Refused(response)),
            _ => {}
        }
        let InnerAnswer { mut collected, load, .. } = self.read(response).await;
        let load = load.map_err(Refusal::upstream_invalid)?;
        let looked = self.resolve_governed(&load).await;
        self.keep(&mut collected, load, None).await;
        Ok(looked?.map_or(Looked::Ungoverned, Looked::Governed))
    }
}

/// A loadTable request with the headers of the caller's, but without access delegation: nobody wants credentials.
fn request_for_table<B>(request: &Parts, table_path: &str) -> Result<Request<RequestBody<B>>, Refusal> {
    let mut load = without_body(request);
    let mut uri = request.uri.clone().into_parts();
    let unreadable = |error: http::Error| Refusal::new(RefusalCode::AmbiguousPath, error.to_string());
    uri.path_and_query = Some(table_path.parse().map_err(|error: InvalidUri| unreadable(error.into()))?);
    *load.uri_mut() = Uri::from_parts(uri).map_err(|error| unreadable(error.into()))?;
    *load.method_mut() = Method::GET;
    let headers = load.headers_mut();
    headers.remove(headers::ACCESS_DELEGATION);
    headers.remove(headers::IDEMPOTENCY_KEY);
    headers::take_validators(headers);
    headers::ask_for_the_whole_body(headers);
    Ok(load)
}
