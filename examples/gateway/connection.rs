//! Connections to the catalog that tell when they are no more.
//!
//! hyper hands a request to the task of its connection through a channel. A request that is handed over in the very
//! moment in which that task ends can stay in the channel: it is neither sent nor given back, and its answer is awaited
//! for ever ([hyper#4122](https://github.com/hyperium/hyper/issues/4122)). It takes an upstream that dies under load
//! to meet that moment, and from outside it looks like one that says nothing. What it takes to tell the two apart is
//! to know whether the connection still is.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Extensions;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection};
use pin_project_lite::pin_project;
use tokio::sync::watch;

pin_project! {
    /// A connection, with something that ends when it does.
    pub struct Observed<T> {
        #[pin]
        stream: T,
        alive: watch::Sender<()>,
    }
}

/// Ends with a connection.
#[derive(Clone, Debug)]
struct Lifetime(watch::Receiver<()>);

impl<T> Observed<T> {
    pub fn new(stream: T) -> Self {
        Self { stream, alive: watch::Sender::default() }
    }
}

impl Lifetime {
    /// Of the connection that a request was last given to.
    fn of(captured: &CaptureConnection) -> Option<Self> {
        let mut extras = Extensions::new();
        captured.connection_metadata().as_ref()?.get_extras(&mut extras);
        extras.remove()
    }

    async fn ended(&mut self) {
        // Nothing is ever sent: the only news is that the sender is gone.
        while self.0.changed().await.is_ok() {}
    }
}

/// Ends once the connection that a request was given to has been gone for `grace`, and the request was given to no
/// other. An answer has long been there by then, or an error.
pub async fn lost(mut captured: CaptureConnection, grace: Duration) {
    captured.wait_for_connection_metadata().await;
    gone_for(grace, || Lifetime::of(&captured)).await;
}

async fn gone_for(grace: Duration, current: impl Fn() -> Option<Lifetime>) {
    loop {
        let Some(mut lifetime) = current() else { return std::future::pending().await };
        lifetime.ended().await;
        tokio::time::sleep(grace).await;
        if current().is_some_and(|current| current.0.same_channel(&lifetime.0)) {
            return;
        }
    }
}

impl<T: Connection> Connection for Observed<T> {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(Lifetime(self.alive.subscribe()))
    }
}

impl<T: Read> Read for Observed<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.project().stream.poll_read(cx, buffer)
    }
}

impl<T: Write> Write for Observed<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write_vectored(cx, slices)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::{Instant, timeout};

    use super::*;

    const GRACE: Duration = Duration::from_secs(1);
    const LONG: Duration = Duration::from_secs(3600);

    fn lifetime<T>(connection: &Observed<T>) -> Lifetime {
        Lifetime(connection.alive.subscribe())
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_lost_when_its_connection_is_gone() {
        let connection = Observed::new(());
        let of_request = lifetime(&connection);
        assert!(timeout(LONG, gone_for(GRACE, || Some(of_request.clone()))).await.is_err());
        let begun = Instant::now();
        drop(connection);
        timeout(LONG, gone_for(GRACE, || Some(of_request.clone()))).await.unwrap();
        assert!(begun.elapsed() >= GRACE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_another_connection_took_is_not_lost() {
        let (first, second) = (Observed::new(()), Observed::new(()));
        let of_request = Mutex::new(lifetime(&first));
        let watched = gone_for(GRACE, || Some(of_request.lock().unwrap().clone()));
        let mut watched = std::pin::pin!(watched);
        assert!(timeout(LONG, &mut watched).await.is_err());
        drop(first);
        *of_request.lock().unwrap() = lifetime(&second);
        assert!(timeout(LONG, &mut watched).await.is_err());
        drop(second);
        timeout(LONG, watched).await.unwrap();
    }
}
