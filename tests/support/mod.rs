//! What the HTTP tests share: the governed catalog of `fixtures/http`, inner services of several kinds, and a client.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod etagger;
pub mod lenient;
pub mod strict;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use iceberg_read_restrictions::{
    identity::{Directory, RequestUser},
    layer::{LayerBuilder, ReadRestrictionsLayer, ReadRestrictionsService, RequestBody},
    policy::{Format, Governance, InMemoryGovernance},
};
use serde_json::Value;
use tower::{Layer, Service, ServiceExt};

/// The load result that the inner services send for every table.
pub const TABLE: &str = include_str!("../fixtures/http/table.json");

pub const ORDERS: &str = "/v1/namespaces/sales/tables/orders";
pub const OPEN: &str = "/v1/namespaces/sales/tables/open";
pub const BROKEN: &str = "/v1/namespaces/sales/tables/broken";

/// A header that declares the capability.
pub const CAPABLE: (&str, &str) = ("x-iceberg-client-capabilities", "read-restrictions");

pub fn governance() -> InMemoryGovernance {
    governance_of(include_str!("../fixtures/http/governance.toml"))
}

pub fn governance_of(text: &str) -> InMemoryGovernance {
    InMemoryGovernance::new(Governance::parse(text, Format::Toml).expect("the governance is valid"))
}

/// The subject is whom the header `x-user` names.
pub fn directory(governance: &InMemoryGovernance) -> Directory {
    governance.directory(RequestUser::header("x-user".parse().unwrap()))
}

/// A layer for the catalog `prod` of the usual governance.
pub fn layer() -> LayerBuilder {
    let governance = governance();
    ReadRestrictionsLayer::builder(governance.clone(), directory(&governance)).catalog("prod")
}

/// What the restrictions of a caller on `sales.orders` are.
pub fn restrictions_of(user: &str) -> Value {
    let reference = |id: i32| serde_json::json!({"type": "reference", "id": id});
    let eq = |id: i32, value: &str| {
        serde_json::json!({
            "type": "eq", "left": reference(id),
            "right": {"type": "literal", "value": value, "data-type": "string"}
        })
    };
    let (filter, action) = match user {
        "alice" => (eq(2, "US"), "show-last-4"),
        user => (eq(3, user), "replace-with-null"),
    };
    serde_json::json!({
        "required-column-projections": [{"action": action, "field-id": 4}],
        "required-row-filter": filter,
    })
}

// ---- the client -----------------------------------------------------------------------------------

/// A request without body; the subject in `x-user` is `user`.
pub fn request(method: &str, uri: &str, user: &str, headers: &[(&str, &str)]) -> Request<Body> {
    request_with(method, uri, user, headers, Body::empty())
}

pub fn request_with(
    method: &str,
    uri: &str,
    user: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(uri);
    if !user.is_empty() {
        request = request.header("x-user", user);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).expect("a valid request")
}

/// A load of `uri` by `user`, who declares the capability.
pub fn load(uri: &str, user: &str) -> Request<Body> {
    request("GET", uri, user, &[CAPABLE])
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub async fn of<B>(response: Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Self { status: head.status, headers: head.headers, body }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    pub fn json(&self) -> Value {
        // The table has a lone surrogate in a member that is nobody's business.
        serde_json::from_str(&self.text().replace("\"\\ud800\"", "\"\"")).expect("JSON")
    }

    pub fn header(&self, name: impl header::AsHeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("visible ASCII"))
    }

    pub fn etag(&self) -> &str {
        self.header(header::ETAG)
    }

    /// The `read-restrictions` member, `Null` when there is none.
    pub fn restrictions(&self) -> Value {
        self.json()["read-restrictions"].clone()
    }

    /// The code in brackets of an error answer, which must be closed in every respect.
    pub fn refusal(&self) -> String {
        let shown = format!("{self:?}");
        assert!(!self.status.is_success() && self.status != 304, "{shown}");
        assert_eq!(self.header(header::CONTENT_TYPE), "application/json", "{shown}");
        assert!(!self.headers.contains_key(header::ETAG), "{shown}");
        for leak in ["metadata", "secret", "auditors", "regional", "pii"] {
            assert!(!self.text().contains(leak), "`{leak}` in {shown}");
        }
        let error = &self.json()["error"];
        assert_eq!(error["code"], self.status.as_u16(), "{shown}");
        assert!(error["type"].as_str().is_some_and(|name| name.ends_with("Exception")), "{shown}");
        let message = error["message"].as_str().expect("a message");
        let (code, _) = message.strip_prefix('[').and_then(|rest| rest.split_once("] ")).expect("a code");
        code.to_owned()
    }

    /// Nothing of a load result without the restrictions of `user`, whatever else the answer is.
    pub fn assert_closed(&self, user: &str) {
        if self.status.is_success() && self.text().contains("format-version") {
            assert_eq!(self.restrictions(), restrictions_of(user), "{self:?}");
        }
    }
}

/// Sends one request through a service.
pub async fn send<S, R>(service: &S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<R>> + Clone,
    S::Error: std::fmt::Debug,
    R: http_body::Body<Data = Bytes>,
    R::Error: std::fmt::Debug,
{
    Answer::of(service.clone().oneshot(request).await.expect("an answer")).await
}

// ---- an inner service that answers as a test says ---------------------------------------------------

/// A request as the inner service saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub fn header(&self, name: impl header::AsHeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("visible ASCII"))
    }
}

type Script = dyn Fn(&Seen) -> Response<Body> + Send + Sync;

/// Answers as its script says, and remembers what it was asked.
#[derive(Clone)]
pub struct Inner {
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Inner {
    pub fn new(script: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), seen: Arc::default() }
    }

    /// Sends the table to everybody.
    pub fn table() -> Self {
        Self::new(|_| table_response(TABLE))
    }

    /// The requests so far, which are forgotten.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// This service behind a layer.
    pub fn behind(&self, layer: LayerBuilder) -> ReadRestrictionsService<Self> {
        layer.build().layer(self.clone())
    }
}

impl<B> Service<Request<RequestBody<B>>> for Inner
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<B>>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let seen = Seen { method: head.method, uri: head.uri, headers: head.headers, body };
            this.seen.lock().unwrap().push(seen.clone());
            Ok((this.script)(&seen))
        })
    }
}

/// A 200 with a load result and headers of the kind that catalogs send.
pub fn table_response(body: impl Into<Body>) -> Response<Body> {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ETAG, "\"inner-1\"")
        .header("x-inner", "kept")
        .body(body.into())
        .unwrap()
}

pub fn status(status: u16) -> Response<Body> {
    Response::builder().status(status).body(Body::empty()).unwrap()
}
