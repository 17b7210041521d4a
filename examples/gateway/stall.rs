//! The upstream time limit: how long an exchange may stand still.
//!
//! A limit on the whole exchange would cut long uploads and downloads short, so what is limited is the time
//! in which no byte moves. Before the answer begins it ends in a 504; the layer collects a load result
//! before it answers, so a load result that breaks off half-way ends there too. After that there is
//! nothing left to say, and the connection is broken.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Service};

use crate::error::{GatewayError, RequestId};

/// When bytes of one exchange last moved.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Mutex<Instant>>);

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Progress {
    /// Notes that bytes move now.
    pub fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pin_project! {
    /// A body that notes its progress.
    pub struct Watched<B> {
        #[pin]
        body: B,
        progress: Progress,
    }
}

impl<B> Watched<B> {
    /// Notes in `progress` whenever a frame of `body` comes through.
    pub fn new(body: B, progress: Progress) -> Self {
        Self { body, progress }
    }
}

impl<B: HttpBody> HttpBody for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        this.progress.note();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pin_project! {
    /// A body that fails when it is waited for longer than the limit.
    struct Limited<B> {
        #[pin]
        body: B,
        limit: Duration,
        waiting: Option<Pin<Box<Sleep>>>,
    }
}

impl<B> HttpBody for Limited<B>
where
    B: HttpBody,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.project();
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            *this.waiting = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let limit = *this.limit;
        let waiting = this.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Some(Err("the upstream catalog stopped in the middle of its answer".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The limit around a service. The request carries a [`Progress`] in its extensions, for those that
/// see the upstream's bytes.
#[derive(Clone)]
pub struct StallLimit<S> {
    inner: S,
    limit: Duration,
}

impl<S> StallLimit<S> {
    /// Allows `inner` to stand still for `limit`.
    pub fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

impl<S, B, R> Service<Request<B>> for StallLimit<S>
where
    S: Service<Request<Watched<B>>, Response = Response<R>>,
    S::Future: Send + 'static,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let limit = self.limit;
        let progress = Progress::default();
        let request_id = RequestId::of(request.headers());
        request.extensions_mut().insert(progress.clone());
        let answer = self.inner.call(request.map(|body| Watched::new(body, progress.clone())));
        Box::pin(async move {
            tokio::select! {
                answer = answer => {
                    Ok(answer?.map(|body| Body::new(Limited { body, limit, waiting: None })))
                }
                () = stalled(progress, limit) => Ok(GatewayError::UpstreamTimeout.response(request_id.as_ref())),
            }
        })
    }
}

/// Ends once nothing has moved for `limit`.
async fn stalled(progress: Progress, limit: Duration) {
    loop {
        let deadline = progress.last() + limit;
        tokio::time::sleep_until(deadline).await;
        if progress.last() + limit <= Instant::now() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http::StatusCode;
    use http_body_util::{BodyExt, StreamBody};
    use tower::{ServiceExt, service_fn};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    async fn wait(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// A body with a frame every so many seconds.
    fn frames(pauses: &'static [u64]) -> Body {
        let frames = stream::unfold(pauses.iter(), |mut pauses| async {
            wait(*pauses.next()?).await;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x"))), pauses))
        });
        Body::new(StreamBody::new(Box::pin(frames)))
    }

    #[tokio::test(start_paused = true)]
    async fn silence_before_the_answer_is_a_504() {
        let silent = service_fn(|_: Request<Watched<Body>>| async {
            wait(61).await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let response = StallLimit::new(silent, LIMIT).oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_goes_on_is_not_cut_short() {
        let patient = service_fn(|request: Request<Watched<Body>>| async {
            let body = request.into_body().collect().await.unwrap();
            Ok::<_, Infallible>(Response::new(Body::from(body.to_bytes())))
        });
        let request = Request::new(frames(&[50, 50, 50]));
        let response = StallLimit::new(patient, LIMIT).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_download_may_be_long_but_not_stand_still() {
        let answer = |pauses| async move {
            let service = service_fn(move |_: Request<Watched<Body>>| async move {
                Ok::<_, Infallible>(Response::new(frames(pauses)))
            });
            let response =
                StallLimit::new(service, LIMIT).oneshot(Request::new(Body::empty())).await.unwrap();
            response.into_body().collect().await.map(|body| body.to_bytes().len())
        };
        assert_eq!(answer(&[50, 50, 50]).await.unwrap(), 3);
        assert!(answer(&[50, 61, 1]).await.is_err());
    }
}
