//! The gateway as a reverse proxy: what it changes on the way, and what it leaves alone.

mod gateway_support;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use gateway_support::{
    CAPABLE, COUNTRIES, Gateway, ORDERS, PATIENCE, Upstream, configuration, fetch_with, folder, json, request,
};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::service::service_fn;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

/// Sends raw bytes and gives back everything until the gateway closes.
async fn raw(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("no end").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn client() -> Client<HttpConnector, Body> {
    Client::builder(TokioExecutor::new()).build(HttpConnector::new())
}

#[tokio::test]
async fn targets_go_on_byte_for_byte_below_the_base_path() {
    let upstream = Upstream::fixed("{}").await;
    for (base, target, sent) in [
        ("", "/v1/config?warehouse=a%2Fb&x=+", "/v1/config?warehouse=a%2Fb&x=+"),
        ("/api/catalog", "/v1/config", "/api/catalog/v1/config"),
        ("/api/catalog/", "/v1/config?", "/api/catalog/v1/config?"),
        ("", "/-/health", "/-/health"),
        ("", "/-/metrics", "/-/metrics"),
        ("", "/", "/"),
        ("", "/%7Euser/..;/x", "/%7Euser/..;/x"),
    ] {
        let gateway = Gateway::start(&format!("{}{base}", upstream.url()), "").await;
        assert_eq!(gateway.get(target, &[]).await.status, 200);
        assert_eq!(upstream.only_received().uri.to_string(), sent);
    }
}

#[tokio::test]
async fn methods_bodies_and_answers_pass_unchanged() {
    let upstream = Upstream::start(|request: Request<_>| async {
        let method = request.method().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response.headers_mut().insert("x-method", HeaderValue::from_str(method.as_str()).unwrap());
        response.headers_mut().append("set-cookie", HeaderValue::from_static("a=1"));
        response.headers_mut().append("set-cookie", HeaderValue::from_static("b=2"));
        response
    })
    .await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "PROPFIND"] {
        let body = "{\"a\": 1.0e400, \u{1F9CA}";
        let request = request(method.parse().unwrap(), "/v1/anything", &[], Body::from(body));
        let answer = gateway_support::fetch(gateway.address, request).await;
        assert_eq!(answer.status, StatusCode::IM_A_TEAPOT);
        assert_eq!(answer.headers["x-method"], method);
        assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
        assert_eq!(answer.body, body);
    }
}

#[tokio::test]
async fn hop_by_hop_fields_end_here_both_ways() {
    let upstream = Upstream::start(|_| async {
        let mut response = json("{}");
        let headers = response.headers_mut();
        for (name, value) in [
            ("connection", "X-Upstream-Hop"),
            ("x-upstream-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic"),
            ("x-kept", "1"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    })
    .await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let answer = raw(
        gateway.address,
        "GET /v1/config HTTP/1.1\r\nHost: a\r\nConnection: close, X-Client-Hop\r\nX-Client-Hop: 1\r\n\
         Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\n\
         TE: trailers\r\nUpgrade: h2c\r\nX-Kept: 1\r\n\r\n",
    )
    .await
    .to_lowercase();
    let sent = upstream.only_received().headers;
    for name in [
        "x-client-hop",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "upgrade",
        "transfer-encoding",
    ] {
        assert!(!sent.contains_key(name), "{name}: {sent:?}");
    }
    assert!(sent.get("connection").is_none_or(|value| value == "keep-alive"), "{sent:?}");
    assert_eq!(sent["x-kept"], "1");
    assert!(answer.contains("x-kept: 1"), "{answer}");
    for name in ["x-upstream-hop", "keep-alive", "proxy-authenticate"] {
        assert!(!answer.contains(name), "{name}: {answer}");
    }
}

#[tokio::test]
async fn a_capability_that_connection_names_is_absent() {
    let gateway = Gateway::start("embedded", "").await;
    let answer = raw(
        gateway.address,
        &format!(
            "GET {ORDERS} HTTP/1.1\r\nHost: a\r\nX-Forwarded-User: alice\r\n\
             X-Iceberg-Client-Capabilities: read-restrictions\r\n\
             Connection: close, X-Iceberg-Client-Capabilities\r\n\r\n"
        ),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 406 "), "{answer}");
}

#[tokio::test]
async fn the_upstream_is_told_on_whose_behalf() {
    let upstream = Upstream::fixed("{}").await;
    let told = [
        ("host", "catalog.example.org"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "lake.example.org"),
        ("forwarded", "for=203.0.113.9"),
    ];

    let gateway = Gateway::start(&upstream.url(), "[identity]\ntrusted_peers = []\n").await;
    gateway.get("/v1/config", &told).await;
    let sent = upstream.only_received().headers;
    assert_eq!(sent["host"], upstream.address.to_string());
    assert_eq!(sent["x-forwarded-for"], "127.0.0.1");
    assert_eq!(sent["x-forwarded-proto"], "http");
    assert_eq!(sent["x-forwarded-host"], "catalog.example.org");
    assert!(!sent.contains_key("forwarded"));

    let gateway = Gateway::start(&upstream.url(), "").await;
    gateway.get("/v1/config", &told).await;
    let sent = upstream.only_received().headers;
    assert_eq!(sent["x-forwarded-for"], "203.0.113.9, 127.0.0.1");
    assert_eq!(sent["x-forwarded-proto"], "https");
    assert_eq!(sent["x-forwarded-host"], "lake.example.org");
    assert_eq!(sent["forwarded"], "for=203.0.113.9");
}

#[tokio::test]
async fn targets_that_are_no_paths_are_refused() {
    let upstream = Upstream::fixed("{}").await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for head in ["OPTIONS *", "CONNECT a:1"] {
        let answer =
            raw(gateway.address, &format!("{head} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert!(upstream.received().is_empty());

    let absolute = "GET http://b.example/v1/config HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert!(raw(gateway.address, absolute).await.starts_with("HTTP/1.1 200 "));
    let sent = upstream.only_received();
    assert_eq!(
        (sent.uri.to_string().as_str(), &sent.headers["x-forwarded-host"]),
        ("/v1/config", &HeaderValue::from_static("b.example"))
    );
}

/// A body whose frames the test sends one by one.
fn hand_fed() -> (mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>, Body) {
    let (send, receive) = mpsc::channel(1);
    let frames = stream::unfold(receive, |mut receive| async { Some((receive.recv().await?, receive)) });
    (send, Body::new(StreamBody::new(Box::pin(frames))))
}

fn frame(text: &'static str) -> Result<Frame<Bytes>, std::io::Error> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

#[tokio::test]
async fn answers_that_are_not_ours_stream_while_they_come() {
    let (feed, body) = hand_fed();
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let upstream = Upstream::start(move |_| {
        let body = body.lock().unwrap().take().unwrap();
        async { json(body) }
    })
    .await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let uri = format!("http://{}/v1/namespaces/sales/tables", gateway.address);
    let asked = client().request(Request::get(uri).body(Body::empty()).unwrap());
    let mut body = timeout(PATIENCE, asked).await.expect("the head waits for the body").unwrap().into_body();
    for text in ["one", "two"] {
        feed.send(frame(text)).await.unwrap();
        let next = timeout(PATIENCE, body.frame()).await.expect("a frame waits for the next");
        assert_eq!(next.unwrap().unwrap().into_data().unwrap(), text);
    }
    drop(feed);
    assert!(timeout(PATIENCE, body.frame()).await.unwrap().is_none());
}

#[tokio::test]
async fn uploads_stream_while_they_come() {
    let (seen, mut arrived) = mpsc::unbounded_channel();
    let upstream = Upstream::start(move |request: Request<hyper::body::Incoming>| {
        let seen = seen.clone();
        async move {
            let mut body = request.into_body();
            while let Some(frame) = body.frame().await {
                seen.send(frame.unwrap().into_data().unwrap()).unwrap();
            }
            json("{}")
        }
    })
    .await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let (feed, body) = hand_fed();
    let uri = format!("http://{}/v1/namespaces/sales/tables/orders/metrics", gateway.address);
    let asking = tokio::spawn(client().request(Request::post(uri).body(body).unwrap()));
    for text in ["one", "two"] {
        feed.send(frame(text)).await.unwrap();
        assert_eq!(
            timeout(PATIENCE, arrived.recv()).await.expect("the upload waits for its end").unwrap(),
            text
        );
    }
    drop(feed);
    assert_eq!(timeout(PATIENCE, asking).await.unwrap().unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn a_body_larger_than_any_limit_passes() {
    const FRAMES: usize = 3_000;
    const FRAME: usize = 64 * 1024;
    let upstream = Upstream::start(|_| async {
        let frames = stream::iter(
            (0..FRAMES).map(|_| Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![b'x'; FRAME])))),
        );
        json(Body::new(StreamBody::new(frames)))
    })
    .await;
    let gateway = Gateway::start(&upstream.url(), "[settings]\nmax_body_bytes = 1024\n").await;
    let answer = gateway.get("/v1/namespaces", &[]).await;
    assert_eq!(answer.body.len(), FRAMES * FRAME);
}

/// An upstream that answers one request with these bytes, whatever was asked.
async fn raw_upstream(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    format!("http://{address}")
}

#[tokio::test]
async fn trailers_pass() {
    let upstream = raw_upstream(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n\
         2\r\n{}\r\n0\r\nX-Checksum: 42\r\n\r\n",
    )
    .await;
    let gateway = Gateway::start(&upstream, "").await;
    let client: Client<_, Body> =
        Client::builder(TokioExecutor::new()).http2_only(true).build(HttpConnector::new());
    let uri = format!("http://{}/v1/config", gateway.address);
    let response = client.request(Request::get(uri).body(Body::empty()).unwrap()).await.unwrap();
    let body = timeout(PATIENCE, response.into_body().collect()).await.unwrap().unwrap();
    assert_eq!(body.trailers().unwrap()["x-checksum"], "42");
    assert_eq!(body.to_bytes(), "{}");
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_a_502() {
    let gateway = Gateway::start(&raw_upstream("SSH-2.0-OpenSSH_9.6\r\n").await, "").await;
    gateway.get("/v1/config", &[]).await.assert_refused(502, "BadGatewayException", "upstream-unavailable");
}

#[tokio::test]
async fn cleartext_http2_is_served_with_prior_knowledge() {
    let upstream = Upstream::fixed("{}").await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let client: Client<_, Body> =
        Client::builder(TokioExecutor::new()).http2_only(true).build(HttpConnector::new());
    let headers = [("cookie", "a=1"), ("cookie", "b=2")];
    let answer =
        fetch_with(&client, gateway.address, request(Method::GET, "/v1/config", &headers, Body::empty()))
            .await;
    assert_eq!((answer.status.as_u16(), answer.body.as_ref()), (200, &b"{}"[..]));
    let sent = upstream.only_received().headers;
    assert_eq!(sent.get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2"]);
    assert_eq!(sent["host"], upstream.address.to_string());
    assert_eq!(sent["x-forwarded-host"], gateway.address.to_string());

    let gateway = Gateway::start("embedded", "").await;
    let headers = [("x-forwarded-user", "alice"), CAPABLE];
    let answer =
        fetch_with(&client, gateway.address, request(Method::GET, ORDERS, &headers, Body::empty())).await;
    assert!(answer.restrictions().is_some());
}

#[tokio::test]
async fn an_upstream_over_tls_may_speak_http2() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gateway");
    let chain = CertificateDer::pem_file_iter(format!("{fixtures}/tls-server.pem"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(format!("{fixtures}/tls-server.key")).unwrap();
    let mut config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(|request: Request<_>| async move {
                    assert_eq!(request.version(), Version::HTTP_2);
                    Ok::<_, std::io::Error>(json(format!("{{\"path\": \"{}\"}}", request.uri().path())))
                });
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    let configuration = configuration(&format!("https://localhost:{port}/base"), "");
    let ca = format!("{fixtures}/tls-ca.pem");
    let trusting = Gateway::start_in(folder(), &configuration, &[("SSL_CERT_FILE", &ca)]).await;
    let answer = trusting.get("/v1/config", &[]).await;
    assert_eq!((answer.status.as_u16(), answer.json()["path"].as_str()), (200, Some("/base/v1/config")));

    let other = format!("{fixtures}/tls-server.pem");
    let distrusting = Gateway::start_in(folder(), &configuration, &[("SSL_CERT_FILE", &other)]).await;
    distrusting.get("/v1/config", &[]).await.assert_refused(
        502,
        "BadGatewayException",
        "upstream-unavailable",
    );
}

#[tokio::test]
async fn an_upstream_that_is_down_is_a_502_until_it_is_back() {
    let upstream = Upstream::fixed("{\"up\": true}").await;
    let (address, url) = (upstream.address, upstream.url());
    let gateway = Gateway::start(&url, "").await;
    assert_eq!(gateway.get("/v1/config", &[]).await.status, 200);

    upstream.stop().await;
    for path in ["/v1/config", ORDERS] {
        let answer = gateway.get(path, &[("x-request-id", "r-1")]).await;
        answer.assert_refused(502, "BadGatewayException", "upstream-unavailable");
        assert!(answer.json()["error"]["message"].as_str().unwrap().ends_with("(request r-1)"));
    }

    let _upstream = Upstream::start_on(address, |_| async { json("{\"up\": true}") }).await;
    let answer = gateway.eventually(|| gateway.get("/v1/config", &[]), |answer| answer.status == 200).await;
    assert_eq!(answer.json()["up"], true);
}

#[tokio::test]
async fn an_upstream_that_breaks_off_a_load_is_a_502() {
    let broken =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"metadata\": {";
    let gateway = Gateway::start(&raw_upstream(broken).await, "").await;
    let answer = gateway.orders("alice").await;
    answer.assert_refused(502, "BadGatewayException", "upstream-invalid");
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_a_504() {
    let upstream = Upstream::start(|request: Request<_>| async move {
        if request.uri().path() == ORDERS {
            let (feed, body) = hand_fed();
            tokio::spawn(async move {
                feed.send(frame("{\"metadata\": {")).await.unwrap();
                std::future::pending::<()>().await;
            });
            return json(body);
        }
        std::future::pending().await
    })
    .await;
    let gateway = Gateway::start(&upstream.url(), "[settings]\nupstream_timeout_ms = 50\n").await;
    for path in ["/v1/config", ORDERS, COUNTRIES] {
        let answer = gateway.get(path, &[("x-forwarded-user", "alice"), CAPABLE]).await;
        answer.assert_refused(504, "GatewayTimeoutException", "upstream-timeout");
    }
}

#[tokio::test]
async fn an_expectation_is_met_only_when_the_body_is_wanted() {
    let upstream = Upstream::start(|request: Request<hyper::body::Incoming>| async {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        json(Body::from(body))
    })
    .await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head = "POST /v1/namespaces HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = vec![0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    timeout(PATIENCE, stream.read_exact(&mut interim)).await.expect("no 100").unwrap();
    assert_eq!(interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("{}"), "{answer}");
    assert!(!upstream.only_received().headers.contains_key("expect"));

    let refused = "POST //v1/namespaces/sales/tables HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let answer = raw(gateway.address, refused).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn a_gateway_that_is_told_to_stop_finishes_what_it_began() {
    let (feed, body) = hand_fed();
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let upstream = Upstream::start(move |_| {
        let body = body.lock().unwrap().take().unwrap();
        async { json(body) }
    })
    .await;
    let mut gateway = Gateway::start(&upstream.url(), "").await;
    let _idle = TcpStream::connect(gateway.address).await.unwrap();
    let uri = format!("http://{}/v1/config", gateway.address);
    let response = client().request(Request::get(uri).body(Body::empty()).unwrap()).await.unwrap();
    feed.send(frame("begun, ")).await.unwrap();

    gateway.terminate();
    gateway.eventually(|| gateway.admin("/-/ready"), |answer| answer.status == 503).await;
    assert_eq!(gateway.admin("/-/health").await.status, 200);
    let closed = async {
        while TcpStream::connect(gateway.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, closed).await.expect("new connections are still taken");

    feed.send(frame("ended")).await.unwrap();
    drop(feed);
    let body = timeout(PATIENCE, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
    assert_eq!(body, "begun, ended");
    let status = timeout(PATIENCE, gateway.child.wait()).await.expect("the process goes on").unwrap();
    assert_eq!(status.code(), Some(0));
}
