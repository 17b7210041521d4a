//! The layer as a Tower middleware: readiness, clones, cancellation, limits, buffers, real sockets.

mod support;

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body};
use http::{Request, Response};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use iceberg_read_restrictions::layer::{ReadRestrictionsService, RequestBody};
use support::{etagger::Etagger, *};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, buffer::BufferLayer, limit::ConcurrencyLimitLayer};

/// An inner service that must be driven to readiness before each call, clone by clone.
struct Strict<S> {
    inner: S,
    ready: bool,
    violations: Arc<AtomicUsize>,
}

impl<S> Strict<S> {
    fn new(inner: S) -> Self {
        Self { inner, ready: false, violations: Arc::default() }
    }
}

impl<S: Clone> Clone for Strict<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), ready: false, violations: self.violations.clone() }
    }
}

impl<S, R> Service<R> for Strict<S>
where
    S: Service<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.ready = true;
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        if !std::mem::take(&mut self.ready) {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.call(request)
    }
}

#[tokio::test]
async fn only_services_that_were_driven_to_readiness_are_called() {
    let etagger = Etagger::new();
    let inner = Strict::new(etagger.service());
    let violations = inner.violations.clone();
    let mut service = layer().build().layer(inner);
    let tag = {
        let response = ServiceExt::<Request<Body>>::ready(&mut service)
            .await
            .unwrap()
            .call(load(ORDERS, "alice"))
            .await
            .unwrap();
        Answer::of(response).await.etag().to_owned()
    };
    for (method, path, tag) in [
        ("GET", OPEN, ""),
        ("GET", "/v1/config", ""),
        ("GET", "/v1/namespaces/sales/views/v", ""),
        ("GET", "/v1/namespaces/sales/tables/orders/odd", ""),
        ("POST", "/v1/namespaces/sales/tables/orders/plan", ""),
        ("GET", ORDERS, &*tag),
        ("GET", "/v1/namespaces/sales/tables/orders?snapshots=refs", &*tag),
        ("GET", "//v1/namespaces/sales/tables/orders", ""),
    ] {
        let mut request = request(method, path, "alice", &[CAPABLE]);
        if !tag.is_empty() {
            request.headers_mut().insert("if-none-match", tag.parse().unwrap());
        }
        ServiceExt::<Request<Body>>::ready(&mut service).await.unwrap().call(request).await.unwrap();
    }
    assert_eq!(violations.load(Ordering::SeqCst), 0);
}

/// An inner service that says when it is ready.
#[derive(Clone)]
struct Gatekeeper(Arc<AtomicBool>);

impl<B> Service<Request<RequestBody<B>>> for Gatekeeper {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        match self.0.load(Ordering::SeqCst) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn call(&mut self, _: Request<RequestBody<B>>) -> Self::Future {
        std::future::ready(Ok(table_response(TABLE)))
    }
}

#[tokio::test]
async fn readiness_is_the_inner_services() {
    let open = Arc::new(AtomicBool::new(false));
    let mut service: ReadRestrictionsService<_> = layer().build().layer(Gatekeeper(open.clone()));
    let mut poll = || {
        let mut context = Context::from_waker(std::task::Waker::noop());
        Service::<Request<Body>>::poll_ready(&mut service, &mut context)
    };
    assert!(poll().is_pending());
    open.store(true, Ordering::SeqCst);
    assert!(poll().is_ready());
}

/// All kinds of requests, one behind the other.
async fn exercise<S, R>(service: &S)
where
    S: Service<Request<Body>, Response = Response<R>> + Clone,
    S::Error: std::fmt::Debug,
    R: http_body::Body<Data = bytes::Bytes>,
    R::Error: std::fmt::Debug,
{
    for _ in 0..3 {
        let full = send(service, load(ORDERS, "alice")).await;
        assert_eq!(full.restrictions(), restrictions_of("alice"));
        let again = request("GET", ORDERS, "alice", &[CAPABLE, ("if-none-match", full.etag())]);
        assert_eq!(send(service, again).await.status, 304);
        assert_eq!(send(service, request("GET", ORDERS, "bob", &[])).await.refusal(), "capability-required");
        assert_eq!(send(service, load(OPEN, "alice")).await.etag(), "\"location-0\"");
        let plan = request_with("POST", &format!("{ORDERS}/plan"), "alice", &[CAPABLE], "{}");
        assert_eq!(send(service, plan).await.status, 200);
        let create =
            request_with("POST", "/v1/namespaces/sales/register", "alice", &[], "{\"name\":\"orders\"}");
        assert_eq!(send(service, create).await.refusal(), "capability-required");
    }
}

#[tokio::test]
async fn it_works_around_a_limit_of_one() {
    let limit = ConcurrencyLimitLayer::new(1);
    let service = ServiceBuilder::new().layer(layer().build()).layer(limit).service(Etagger::new().service());
    tokio::time::timeout(Duration::from_secs(20), exercise(&service)).await.expect("no deadlock");
}

#[tokio::test]
async fn it_works_behind_a_limit_and_a_buffer() {
    let service = ServiceBuilder::new()
        .layer(BufferLayer::new(4))
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(layer().build())
        .service(Etagger::new().service());
    tokio::time::timeout(Duration::from_secs(20), exercise(&service)).await.expect("no deadlock");
}

#[tokio::test]
async fn it_works_around_a_buffer() {
    let inner = ServiceBuilder::new().layer(BufferLayer::new(1)).service(Etagger::new().service());
    tokio::time::timeout(Duration::from_secs(20), exercise(&layer().build().layer(inner)))
        .await
        .expect("no deadlock");
}

#[tokio::test]
async fn it_works_on_an_axum_router() {
    let app = Router::new().fallback_service(layer().build().layer(strict::router()));
    let answer = send(&app, load(ORDERS, "alice")).await;
    assert_eq!(answer.restrictions(), restrictions_of("alice"));
    let nested = Router::new().nest_service("/api/catalog", layer().build().layer(strict::router()));
    let answer = send(&nested, load(&format!("/api/catalog{ORDERS}"), "alice")).await;
    assert_eq!(answer.restrictions(), restrictions_of("alice"));
    let plan = |headers| request_with("POST", &format!("/api/catalog{ORDERS}/plan"), "alice", headers, "{}");
    let around_all = Router::new().nest_service("/api/catalog", strict::router()).layer(layer().build());
    for app in [&nested, &Router::new().fallback_service(around_all)] {
        assert_eq!(send(app, plan(&[])).await.refusal(), "capability-required");
        assert_eq!(send(app, plan(&[CAPABLE])).await.text(), strict::CREDENTIALS);
    }
    // Router::layer puts it around each route: loads are governed there too.
    let layered = strict::router().layer(layer().build());
    let answer = send(&layered, load(ORDERS, "bob")).await;
    assert_eq!(answer.restrictions(), restrictions_of("bob"));
}

/// An inner service that fails.
#[derive(Clone)]
struct Failing;

impl<B> Service<Request<RequestBody<B>>> for Failing {
    type Response = Response<Body>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Response<Body>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<RequestBody<B>>) -> Self::Future {
        std::future::ready(Err("down"))
    }
}

#[tokio::test]
async fn errors_of_the_inner_service_are_its_own() {
    let service = layer().build().layer(Failing);
    for path in [
        ORDERS,
        OPEN,
        "/v1/config",
        "/v1/namespaces/sales/tables/orders/credentials",
        "/v1/namespaces/x/odd/y",
    ] {
        assert_eq!(service.clone().oneshot(load(path, "alice")).await.unwrap_err(), "down", "{path}");
    }
}

#[tokio::test]
async fn a_dropped_request_leaves_nothing_behind() {
    let etagger = Etagger::new();
    let service = ServiceBuilder::new()
        .layer(layer().build())
        .layer(ConcurrencyLimitLayer::new(1))
        .service(etagger.service());
    let tag = send(&service, load(ORDERS, "alice")).await.etag().to_owned();
    for polls in 0..12 {
        for request in [
            load(ORDERS, "alice"),
            request("GET", ORDERS, "alice", &[CAPABLE, ("if-none-match", &tag)]),
            request_with("POST", &format!("{ORDERS}/plan"), "alice", &[CAPABLE], "{}"),
            request_with(
                "POST",
                "/v1/namespaces/sales/register",
                "alice",
                &[CAPABLE],
                "{\"name\":\"orders\"}",
            ),
        ] {
            let mut future: Pin<Box<dyn Future<Output = _>>> = Box::pin(service.clone().oneshot(request));
            for _ in 0..polls {
                let mut context = Context::from_waker(std::task::Waker::noop());
                if future.as_mut().poll(&mut context).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let answer = tokio::time::timeout(Duration::from_secs(5), send(&service, load(ORDERS, "bob"))).await;
        assert_eq!(answer.expect("not stuck").restrictions(), restrictions_of("bob"));
    }
}

/// Without axum around it, and over the second version of HTTP as well.
#[tokio::test]
async fn it_works_on_plain_hyper() {
    let service = layer().build().layer(Etagger::new().service());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let protocols = auto::Builder::new(TokioExecutor::new());
                protocols.serve_connection(TokioIo::new(stream), service).await
            });
        }
    });
    for only_http2 in [false, true] {
        let client = Client::builder(TokioExecutor::new()).http2_only(only_http2).build_http::<Body>();
        let to_server = tower::service_fn(move |mut request: Request<Body>| {
            let path = request.uri().path_and_query().unwrap();
            *request.uri_mut() = format!("http://{address}{path}").parse().unwrap();
            client.request(request)
        });
        exercise(&to_server).await;
    }
}

/// Serves an app on a free loopback port.
async fn serve(app: Router) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_subjects_at_once_over_real_sockets_get_their_own() {
    let mut etagger = Etagger::new();
    etagger.fresh_credentials = true;
    let catalog = etagger.service();
    let app = Router::new().fallback_service(layer().build().layer(catalog));
    let address = serve(app).await;
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();

    let workers = (0..16_usize).map(|worker| {
        let (client, etagger) = (client.clone(), etagger.clone());
        tokio::spawn(async move {
            let user = ["alice", "bob", "carol", "etl"][worker % 4];
            let mut tag = String::new();
            for round in 0..60_usize {
                if round % 20 == 19 && worker == 0 {
                    etagger.commit();
                }
                let path = if round % 5 == 4 { OPEN } else { ORDERS };
                let query = if round % 3 == 0 { "?snapshots=refs" } else { "" };
                let mut headers = vec![CAPABLE];
                if !tag.is_empty() {
                    headers.push(("if-none-match", &tag));
                }
                let request = request("GET", &format!("http://{address}{path}{query}"), user, &headers);
                let answer = Answer::of(client.request(request).await.unwrap()).await;
                match (answer.status.as_u16(), path) {
                    (304, _) => assert_eq!(answer.etag(), tag),
                    (200, ORDERS) if user != "etl" => {
                        assert_eq!(answer.restrictions(), restrictions_of(user));
                        tag = answer.etag().to_owned();
                    }
                    (200, _) => assert!(answer.restrictions().is_null()),
                    other => panic!("{other:?}: {answer:?}"),
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

#[tokio::test]
async fn the_bytes_on_the_wire_are_right() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let app = Router::new().fallback_service(layer().build().layer(strict::router()));
    let address = serve(app).await;
    let exchange = async |request: String| {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let common = "Host: x\r\nConnection: close\r\nX-User: alice\r\n";
    let declared = "X-Iceberg-Client-Capabilities: read-restrictions\r\n";

    let answer = exchange(format!("GET {ORDERS} HTTP/1.1\r\n{common}{declared}\r\n")).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"));
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert!(body.contains("\"read-restrictions\":"));

    // An absolute-form target, and names in mixed case.
    let answer = exchange(format!("GET http://x{ORDERS} HTTP/1.1\r\n{common}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 406"), "{answer}");
    let answer = exchange(format!("HEAD {ORDERS} HTTP/1.1\r\n{common}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("etag"), "{answer}");
    let answer =
        exchange(format!("GET //v1/namespaces/sales/tables/orders HTTP/1.1\r\n{common}{declared}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}
