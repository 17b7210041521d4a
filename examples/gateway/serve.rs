//! Connections: HTTP/1.1 and HTTP/2 without TLS on one port, and an end that cuts nobody off.

use std::{convert::Infallible, future::Future, io, net::SocketAddr, pin::pin, time::Duration};

use axum::body::Body;
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::net::TcpListener;

/// How long a client may take to send the head of a request, and keep a connection without one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// How long requests in flight may go on once the gateway was told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait when the system cannot hand over a connection, as when files have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves every connection with `answer` until `stop` ends; then idle connections are closed, and
/// requests in flight are finished.
pub async fn serve<A, F>(listener: TcpListener, answer: A, stop: impl Future<Output = ()>)
where
    A: Fn(SocketAddr, Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let mut protocol = auto::Builder::new(TokioExecutor::new());
    protocol.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    protocol.http2().timer(TokioTimer::new());

    let connections = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        // Small answers should not wait for more to send; a socket that cannot do that works all the same.
        let _ = stream.set_nodelay(true);
        let answer = answer.clone();
        let service = service_fn(move |request| {
            let answer = answer(peer, request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let connection = protocol.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%peer, error, "connection ended early");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.shutdown()).await.is_err() {
        tracing::warn!("requests were still in flight after {} seconds", DRAIN_TIMEOUT.as_secs());
    }
}

/// A connection that is gone before it was taken says nothing about the next one.
async fn pause_after(error: &io::Error) {
    let of_one_connection = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    );
    if !of_one_connection {
        tracing::warn!(%error, "cannot accept connections");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
