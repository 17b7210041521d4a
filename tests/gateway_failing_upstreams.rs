//! Promise: a catalog that restarts, dies or falls silent costs nobody more than its time limit, nothing is asked twice
//! that changes something, and no client is told of a connection that died while it was kept.

mod gateway_support;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::body::Body;
use gateway_support::{CAPABLE, Gateway, ORDERS, PATIENCE, Upstream, fetch, fetch_with, json, request};
use http::Method;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::timeout,
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

/// What an upstream does with a request.
#[derive(Clone, Copy, Debug)]
enum Then {
    Answer,
    /// Closes the connection.
    Close,
    /// Closes it so that the other side gets an error instead of an end.
    Reset,
    /// Sends this and closes the connection.
    Say(&'static [u8]),
    /// Keeps the connection and says nothing.
    Hang,
}

/// An upstream that does something with each request that comes, in this order, and the last for all that follow.
struct Scripted {
    address: SocketAddr,
    /// The method of each request, and the connection on which it came.
    requests: Arc<Mutex<Vec<(String, usize)>>>,
}

impl Scripted {
    async fn start(script: &'static [Then]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        let notes = requests.clone();
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(Self::serve(stream, connection, script, notes.clone()));
            }
        });
        Self { address, requests }
    }

    async fn serve(
        mut stream: TcpStream,
        connection: usize,
        script: &[Then],
        requests: Arc<Mutex<Vec<(String, usize)>>>,
    ) {
        while let Some(head) = read_head(&mut stream).await {
            let number = {
                let mut requests = requests.lock().unwrap();
                requests.push((head.split(' ').next().unwrap().to_owned(), connection));
                requests.len() - 1
            };
            match script[number.min(script.len() - 1)] {
                Then::Answer => stream.write_all(ANSWER).await.unwrap(),
                Then::Close => return,
                Then::Reset => return stream.set_zero_linger().unwrap(),
                Then::Say(bytes) => return stream.write_all(bytes).await.unwrap(),
                Then::Hang => std::future::pending().await,
            }
        }
    }

    /// In front of this upstream, with what `rest` says.
    async fn gateway(&self, rest: &str) -> Gateway {
        Gateway::start(&format!("http://{}", self.address), rest).await
    }

    fn requests(&self) -> Vec<(String, usize)> {
        self.requests.lock().unwrap().clone()
    }

    fn assert_asked(&self, expected: &[(&str, usize)]) {
        let requests = self.requests();
        let requests: Vec<_> = requests.iter().map(|(method, connection)| (&**method, *connection)).collect();
        assert_eq!(requests, expected);
    }
}

/// A request without a body, or `None` when no more come.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

async fn send(gateway: &Gateway, method: Method) -> gateway_support::Answer {
    fetch(gateway.address, request(method, "/v1/config", &[], Body::empty())).await
}

#[tokio::test]
async fn a_read_is_sent_again_when_a_kept_connection_dies_under_it() {
    for (dies, method) in [
        (&[Then::Answer, Then::Close, Then::Answer], Method::GET),
        (&[Then::Answer, Then::Reset, Then::Answer], Method::GET),
        (&[Then::Answer, Then::Close, Then::Answer], Method::HEAD),
    ] {
        let upstream = Scripted::start(dies).await;
        let gateway = upstream.gateway("").await;
        assert_eq!(send(&gateway, Method::GET).await.status, 200);
        assert_eq!(send(&gateway, method.clone()).await.status, 200, "{dies:?}");
        upstream.assert_asked(&[("GET", 0), (method.as_str(), 0), (method.as_str(), 1)]);
    }
}

#[tokio::test]
async fn what_may_change_something_is_sent_once() {
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let upstream = Scripted::start(&[Then::Answer, Then::Close, Then::Answer]).await;
        let gateway = upstream.gateway("").await;
        assert_eq!(send(&gateway, Method::GET).await.status, 200);
        let answer = send(&gateway, method.clone()).await;
        answer.assert_refused(502, "BadGatewayException", "upstream-unavailable");
        upstream.assert_asked(&[("GET", 0), (method.as_str(), 0)]);
    }
}

#[tokio::test]
async fn a_read_with_a_body_is_sent_once() {
    let upstream = Scripted::start(&[Then::Close, Then::Answer]).await;
    let gateway = upstream.gateway("").await;
    let answer = fetch(gateway.address, request(Method::GET, "/v1/config", &[], Body::from("{}"))).await;
    answer.assert_refused(502, "BadGatewayException", "upstream-unavailable");
    upstream.assert_asked(&[("GET", 0)]);
}

#[tokio::test]
async fn a_read_is_sent_twice_at_most() {
    let upstream = Scripted::start(&[Then::Close]).await;
    let gateway = upstream.gateway("").await;
    for path in ["/v1/config", ORDERS] {
        let before = upstream.requests().len();
        let answer = gateway.get(path, &[("x-forwarded-user", "alice"), CAPABLE]).await;
        answer.assert_refused(502, "BadGatewayException", "upstream-unavailable");
        assert_eq!(upstream.requests().len(), before + 2, "{path}");
    }
}

#[tokio::test]
async fn what_was_answered_is_not_asked_again() {
    const SAID: [&[Then]; 2] = [
        &[Then::Say(b"SSH-2.0-OpenSSH_9.6\r\n"), Then::Answer],
        &[Then::Say(b"HTTP/9.9 200 OK\r\n\r\n"), Then::Answer],
    ];
    for said in SAID {
        let upstream = Scripted::start(said).await;
        let gateway = upstream.gateway("").await;
        let answer = send(&gateway, Method::GET).await;
        answer.assert_refused(502, "BadGatewayException", "upstream-unavailable");
        upstream.assert_asked(&[("GET", 0)]);
    }
}

#[tokio::test]
async fn a_silent_connection_is_given_up_and_not_used_again() {
    let upstream = Scripted::start(&[Then::Answer, Then::Hang, Then::Answer]).await;
    let gateway = upstream.gateway("[settings]\nupstream_timeout_ms = 200\n").await;
    assert_eq!(send(&gateway, Method::GET).await.status, 200);
    let answer = send(&gateway, Method::GET).await;
    answer.assert_refused(504, "GatewayTimeoutException", "upstream-timeout");
    assert_eq!(send(&gateway, Method::GET).await.status, 200);
    upstream.assert_asked(&[("GET", 0), ("GET", 0), ("GET", 1)]);
}

#[tokio::test]
async fn reads_go_on_after_restarts_at_the_same_address() {
    let answer = |_| async { json("{}") };
    let mut upstream = Upstream::start(answer).await;
    let address = upstream.address;
    let gateway = Gateway::start(&upstream.url(), "").await;
    for _ in 0..20 {
        // Several connections are kept when it goes away.
        let answers = futures_util::future::join_all((0..8).map(|_| send(&gateway, Method::GET))).await;
        assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
        upstream.stop().await;
        upstream = Upstream::start_on(address, answer).await;
    }
}

/// Requests meet connections in every state of dying, also the one in which nobody tells them.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_waits_for_a_connection_that_is_gone() {
    const CLIENTS: usize = 16;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        let mut end = tokio::time::interval(Duration::from_millis(12));
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let mut stream = accepted.unwrap().0;
                    connections.spawn(async move {
                        while read_head(&mut stream).await.is_some() && stream.write_all(ANSWER).await.is_ok() {}
                    });
                }
                _ = end.tick() => connections.abort_all(),
            }
        }
    });
    let gateway =
        Gateway::start(&format!("http://{address}"), "[settings]\nupstream_timeout_ms = 10000\n").await;
    let (gateway, end) = (gateway.address, Instant::now() + Duration::from_secs(5));
    let client = move || async move {
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        while Instant::now() < end {
            let asked = request(Method::GET, "/v1/config", &[], Body::empty());
            let status = fetch_with(&client, gateway, asked).await.status.as_u16();
            assert!(matches!(status, 200 | 502), "{status}");
        }
    };
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(client());
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
}

/// A machine that is gone, or lets nobody in: nothing comes back, not even a refusal.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_that_is_not_accepted_is_a_502_in_time() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // As many as the system keeps for a listener that never accepts, and more.
    let mut waiting = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        waiting.push(connected.unwrap());
        assert!(waiting.len() < 100, "the queue never fills");
    }
    let gateway =
        Gateway::start(&format!("http://{address}"), "[settings]\nupstream_connect_timeout_ms = 200\n").await;
    for method in [Method::GET, Method::POST] {
        let answer = timeout(PATIENCE, send(&gateway, method)).await.unwrap();
        answer.assert_refused(502, "BadGatewayException", "upstream-unavailable");
    }
}
