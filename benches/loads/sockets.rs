//! The same requests over loopback sockets: HTTP/1.1 by hyper on both sides, one connection for each candidate.

use std::{
    convert::Infallible,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    server::conn::http1,
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use iceberg_read_restrictions::identity::AuthenticatedUser;
use tokio::runtime::{Builder, Runtime};
use tower::{Service, util::MapRequest};

use super::{
    Around, Ask, Candidate, USER, governed,
    origin::Origin,
    others::{PassThrough, Rewrite},
    request,
};

/// A client and a server that has a candidate to itself.
pub struct Connection {
    ask: Ask,
    tables: usize,
    sender: SendRequest<Empty<Bytes>>,
    /// What the client has of each table.
    tags: Vec<HeaderValue>,
    sent: usize,
}

impl Connection {
    /// Connects to a candidate and lets it see what it is to have seen. Not more than `requests` will follow.
    pub async fn open((around, ask): Candidate, origin: &Origin, requests: usize) -> Self {
        let inner = origin.clone();
        let address = match around {
            Around::Nothing => serve(inner),
            Around::PassThrough => serve(PassThrough(inner)),
            Around::Ours => serve(governed(origin, requests + origin.tables())),
            Around::Visitors => serve(Rewrite::visitors(inner)),
            Around::Value => serve(Rewrite::value(inner)),
        };
        let stream = in_async(TcpStream::connect(address).expect("a connection"));
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        let mut this = Self { ask, tables: origin.tables(), sender, tags: Vec::new(), sent: 0 };
        for table in 0..origin.tables() {
            let response = this.send(request(ask, table, None)).await;
            assert_eq!(response.status(), StatusCode::OK);
            if let (Ask::Conditional, Some(tag)) = (ask, response.headers().get(header::ETAG)) {
                this.tags.push(tag.clone());
            }
        }
        this
    }

    /// The time from a request to the end of its answer.
    pub async fn round_trip(&mut self) -> Duration {
        let table = match self.ask {
            // The tables before these were seen when the connection was opened.
            Ask::FirstLoad => self.tables + self.sent,
            _ => self.sent % self.tables,
        };
        self.sent += 1;
        let request = request(self.ask, table, self.tags.get(table));
        let start = Instant::now();
        let response = self.send(request).await;
        let taken = start.elapsed();
        assert_eq!(response.status() == StatusCode::NOT_MODIFIED, self.ask == Ask::Conditional);
        taken
    }

    async fn send(&mut self, request: Request<Empty<Bytes>>) -> Response<()> {
        self.sender.ready().await.expect("a connection that stays");
        let response = self.sender.send_request(request).await.expect("an answer");
        let (head, mut body) = response.into_parts();
        while let Some(frame) = body.frame().await {
            frame.expect("a frame");
        }
        Response::from_parts(head, ())
    }
}

/// Serves one connection, in a thread of its own that ends with it.
fn serve<S, R>(service: S) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
    S::Future: 'static,
    R: Body<Data = Bytes, Error = Infallible> + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    // Authentication, which runs outside of any layer of ours.
    let service = MapRequest::new(service, |mut request: Request<Incoming>| {
        request.extensions_mut().insert(AuthenticatedUser(USER.to_owned()));
        request
    });
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        runtime().block_on(async {
            let served = http1::Builder::new()
                .serve_connection(TokioIo::new(in_async(stream)), TowerToHyperService::new(service));
            served.await.expect("a connection that ends well");
        });
    });
    address
}

fn in_async(stream: TcpStream) -> tokio::net::TcpStream {
    stream.set_nodelay(true).expect("an option");
    stream.set_nonblocking(true).expect("an option");
    tokio::net::TcpStream::from_std(stream).expect("a socket")
}

pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}
