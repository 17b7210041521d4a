//! What is none of the layer's business: unchanged, unbuffered, without an allocation.

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    convert::Infallible,
    future::Ready,
    task::{Context, Poll},
};

use axum::body::Body;
use http::{Request, Response, header};
use iceberg_read_restrictions::layer::RequestBody;
use support::*;
use tower::{Layer, Service};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// The one place that needs it: the test, not the crate.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Everything that passes.
const PASSING: [(&str, &str); 27] = [
    ("GET", "/"),
    ("GET", "/v1/config?warehouse=prod"),
    ("POST", "/v1/oauth/tokens"),
    ("GET", "/v1/namespaces"),
    ("POST", "/v1/namespaces"),
    ("GET", "/v1/prefix/namespaces?parent=a%1Fb"),
    ("GET", "/v1/namespaces/a%1Fb"),
    ("HEAD", "/v1/namespaces/sales"),
    ("DELETE", "/v1/namespaces/sales"),
    ("POST", "/v1/namespaces/sales/properties"),
    ("GET", "/v1/namespaces/sales/tables?pageSize=10"),
    ("DELETE", "/v1/namespaces/sales/tables/orders?purgeRequested=true"),
    ("POST", "/v1/namespaces/sales/tables/orders/metrics"),
    ("POST", "/v1/namespaces/sales/tables/orders/unregister"),
    ("POST", "/v1/tables/rename"),
    ("POST", "/v1/views/rename"),
    ("POST", "/v1/transactions/commit"),
    ("GET", "/v1/namespaces/sales/views"),
    ("POST", "/v1/namespaces/sales/views"),
    ("GET", "/v1/namespaces/sales/views/v"),
    ("POST", "/v1/namespaces/sales/views/v"),
    ("DELETE", "/v1/namespaces/sales/views/v"),
    ("POST", "/v1/namespaces/sales/register-view"),
    ("GET", "/v1/namespaces/sales/functions"),
    ("GET", "/v1/namespaces/sales/functions/f"),
    ("GET", "/some/other/Api/with%20blanks"),
    ("OPTIONS", "*"),
];

#[tokio::test]
async fn requests_and_answers_pass_unchanged() {
    let inner = Inner::new(|_| {
        let mut response = table_response(TABLE);
        *response.status_mut() = 203.try_into().unwrap();
        response.headers_mut().append(header::ETAG, "odd".parse().unwrap());
        response
    });
    let service = inner.behind(layer());
    for (method, path) in PASSING {
        let headers = [
            ("if-none-match", "\"x\""),
            ("range", "bytes=0-1"),
            ("accept-encoding", "gzip"),
            ("x-iceberg-access-delegation", "vended-credentials"),
        ];
        let answer = send(&service, request_with(method, path, "alice", &headers, "body")).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (203, TABLE), "{method} {path}");
        assert_eq!(answer.headers.get_all(header::ETAG).iter().collect::<Vec<_>>(), ["\"inner-1\"", "odd"]);
        let [seen] = &*inner.take_seen() else { panic!("one call") };
        assert_eq!((seen.method.as_str(), &*seen.uri.to_string(), &*seen.body), (method, path, &b"body"[..]));
        for (name, value) in headers {
            assert_eq!(seen.header(name), value, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn nothing_below_namespaces_may_pretend_to_be_of_another_method() {
    let inner = Inner::table();
    let service = inner.behind(layer());
    let overrides =
        [("x-http-method-override", "POST"), ("x-http-method", "POST"), ("x-method-override", "POST")];
    for (method, path) in [
        ("GET", "/v1/namespaces/sales/tables"),
        ("DELETE", ORDERS),
        ("GET", OPEN),
        ("POST", OPEN),
        ("GET", "/v1/namespaces/sales/tables/open/credentials"),
        ("POST", "/v1/transactions/commit"),
    ] {
        send(&service, request(method, path, "alice", &overrides)).await;
        for seen in inner.take_seen() {
            assert!(overrides.iter().all(|(name, _)| !seen.headers.contains_key(*name)), "{method} {path}");
        }
    }
    send(&service, request("GET", "/v1/config", "alice", &overrides)).await;
    assert_eq!(inner.take_seen()[0].header("x-http-method-override"), "POST", "none of our business");
}

/// Answers at once, without an allocation.
#[derive(Clone)]
struct Instant;

impl Service<Request<RequestBody<Body>>> for Instant {
    type Response = Response<http_body_util::Empty<bytes::Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<Body>>) -> Self::Future {
        drop(request);
        std::future::ready(Ok(Response::new(http_body_util::Empty::new())))
    }
}

#[test]
fn passing_costs_no_allocation() {
    let mut service = layer().build().layer(Instant);
    let requests: Vec<_> = PASSING.iter().map(|(method, path)| request(method, path, "alice", &[])).collect();
    for request in requests {
        let says = format!("{} {}", request.method(), request.uri());
        let before = ALLOCATIONS.get();
        let future = std::pin::pin!(service.call(request));
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(future.poll(&mut context).is_ready());
        assert_eq!(ALLOCATIONS.get() - before, 0, "{says}");
    }
}
