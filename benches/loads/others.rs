//! The layers that ours is compared with.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::Service;

use super::oracle;

/// A constant: nothing is resolved.
const MEMBER: &str = r#"{"required-row-filter":{"type":"eq","left":{"type":"reference","id":1},"right":{"type":"literal","value":"US","data-type":"string"}}}"#;

/// Hands everything on.
#[derive(Clone)]
pub struct PassThrough<S>(pub S);

impl<S: Service<Request<B>>, B> Service<Request<B>> for PassThrough<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.0.call(request)
    }
}

/// Collects each body and makes another one of it.
#[derive(Clone)]
pub struct Rewrite<S> {
    inner: S,
    rewrite: fn(&[u8]) -> Vec<u8>,
}

impl<S> Rewrite<S> {
    /// Finds the facts with visitors, and copies the body behind a member.
    pub fn visitors(inner: S) -> Self {
        let rewrite = |body: &[u8]| {
            oracle::read_with_visitors(body).expect("a load result");
            [br#"{"read-restrictions":"#, MEMBER.as_bytes(), b",", &body[1..]].concat()
        };
        Self { inner, rewrite }
    }

    /// Parses the body, inserts a member, and writes it again.
    pub fn value(inner: S) -> Self {
        let rewrite = |body: &[u8]| {
            let mut value: Value = serde_json::from_slice(body).expect("JSON");
            value["read-restrictions"] = serde_json::from_str(MEMBER).expect("JSON");
            serde_json::to_vec(&value).expect("JSON")
        };
        Self { inner, rewrite }
    }
}

impl<S, B, R> Service<Request<B>> for Rewrite<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible>,
    S::Future: Send + 'static,
    R: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (response, rewrite) = (self.inner.call(request), self.rewrite);
        Box::pin(async move {
            let (head, body) = response.await?.into_parts();
            let body = body.collect().await?.to_bytes();
            let body = if head.status == StatusCode::OK { rewrite(&body).into() } else { body };
            Ok(Response::from_parts(head, Full::new(body)))
        })
    }
}
