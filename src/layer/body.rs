//! The bodies that the layer hands on: the other side's, untouched, or what it read of it.

use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a request to the inner service: the caller's, untouched, or one that the layer has read.
    #[derive(Debug)]
    pub struct RequestBody<B> {
        #[pin]
        kind: RequestKind<B>,
    }
}

pin_project! {
    #[project = RequestKindProjection]
    #[derive(Debug)]
    enum RequestKind<B> {
        Untouched { #[pin] body: B },
        Whole { data: Bytes },
    }
}

impl<B> RequestBody<B> {
    pub(super) fn untouched(body: B) -> Self {
        Self { kind: RequestKind::Untouched { body } }
    }

    pub(super) fn whole(data: Bytes) -> Self {
        Self { kind: RequestKind::Whole { data } }
    }

    pub(super) fn empty() -> Self {
        Self::whole(Bytes::new())
    }
}

impl<B: Body<Data = Bytes>> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            RequestKindProjection::Untouched { body } => body.poll_frame(context),
            RequestKindProjection::Whole { data } => Poll::Ready(next_data([data])),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            RequestKind::Untouched { body } => body.is_end_stream(),
            RequestKind::Whole { data } => data.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            RequestKind::Untouched { body } => body.size_hint(),
            RequestKind::Whole { data } => SizeHint::with_exact(data.len() as u64),
        }
    }
}

pin_project! {
    /// The body of a response: the inner service's, untouched, or one that the layer has read and perhaps
    /// put something into.
    pub struct ResponseBody<B: Body> {
        #[pin]
        kind: ResponseKind<B>,
    }
}

pin_project! {
    #[project = ResponseKindProjection]
    enum ResponseKind<B: Body> {
        Untouched { #[pin] body: B },
        Read { slices: [Bytes; 3], then: Then<B> },
    }
}

/// What comes behind the bytes that were read.
enum Then<B: Body> {
    Nothing,
    Trailers(HeaderMap),
    /// The body broke off.
    Error(B::Error),
    /// Nobody read on.
    Rest(Pin<Box<B>>),
}

impl<B: Body> ResponseBody<B> {
    pub(super) fn untouched(body: B) -> Self {
        Self { kind: ResponseKind::Untouched { body } }
    }

    /// A few slices, one behind the other.
    pub(super) fn slices(slices: [Bytes; 3]) -> Self {
        Self::read(slices, Then::Nothing)
    }

    pub(super) fn whole(data: Bytes) -> Self {
        Self::slices([data, Bytes::new(), Bytes::new()])
    }

    pub(super) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    fn read(slices: [Bytes; 3], then: Then<B>) -> Self {
        Self { kind: ResponseKind::Read { slices, then } }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let (slices, then) = match self.project().kind.project() {
            ResponseKindProjection::Untouched { body } => return body.poll_frame(context),
            ResponseKindProjection::Read { slices, then } => (slices, then),
        };
        if let Some(frame) = next_data(slices) {
            return Poll::Ready(Some(frame));
        }
        if let Then::Rest(body) = then {
            let frame = ready!(body.as_mut().poll_frame(context));
            if frame.is_none() {
                *then = Then::Nothing;
            }
            return Poll::Ready(frame);
        }
        Poll::Ready(match mem::replace(then, Then::Nothing) {
            Then::Trailers(trailers) => Some(Ok(Frame::trailers(trailers))),
            Then::Error(error) => Some(Err(error)),
            Then::Nothing | Then::Rest(_) => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            ResponseKind::Untouched { body } => body.is_end_stream(),
            ResponseKind::Read { slices, then } => {
                slices.iter().all(Bytes::is_empty) && matches!(then, Then::Nothing)
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        let (slices, then) = match &self.kind {
            ResponseKind::Untouched { body } => return body.size_hint(),
            ResponseKind::Read { slices, then } => (slices, then),
        };
        let read = slices.iter().map(|slice| slice.len() as u64).sum();
        match then {
            Then::Nothing | Then::Trailers(_) => SizeHint::with_exact(read),
            Then::Error(_) => {
                let mut hint = SizeHint::new();
                hint.set_lower(read);
                hint
            }
            Then::Rest(body) => {
                let rest = body.size_hint();
                let mut hint = SizeHint::new();
                hint.set_lower(read.saturating_add(rest.lower()));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
                    hint.set_upper(upper);
                }
                hint
            }
        }
    }
}

impl<B: Body> fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ResponseKind::Untouched { .. } => "untouched",
            ResponseKind::Read { .. } => "read",
        };
        f.debug_tuple("ResponseBody").field(&kind).finish()
    }
}

/// Takes the first slice that is not empty.
fn next_data<'a, E>(slices: impl IntoIterator<Item = &'a mut Bytes>) -> Option<Result<Frame<Bytes>, E>> {
    let slice = slices.into_iter().find(|slice| !slice.is_empty())?;
    Some(Ok(Frame::data(mem::take(slice))))
}

/// As much of a body as was read.
pub(super) struct Collected<B: Body> {
    data: Bytes,
    /// The chunk that went over the limit.
    overflow: Bytes,
    then: Then<B>,
}

impl<B: Body<Data = Bytes>> Collected<B> {
    /// Reads a body to its end, or until it holds more than `limit` bytes. A body that says beforehand that it is
    /// too large is not read at all.
    pub(super) async fn collect(body: B, limit: usize) -> Self {
        if body.size_hint().lower() > limit as u64 {
            return Self { data: Bytes::new(), overflow: Bytes::new(), then: Then::Rest(Box::pin(body)) };
        }
        Self::collect_while(body, limit, |_| true).await
    }

    /// The same for a body of any size, and stops when `wanted` says of what was read that no more is.
    pub(super) async fn collect_while(body: B, limit: usize, wanted: impl Fn(&[u8]) -> bool) -> Self {
        let mut body = Box::pin(body);
        let mut buffer = Buffer::Empty;
        let (overflow, then) = loop {
            if !wanted(buffer.as_slice()) {
                break (Bytes::new(), Then::Rest(body));
            }
            let frame = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await;
            match frame.map(|frame| frame.map(Frame::into_data)) {
                None => break (Bytes::new(), Then::Nothing),
                Some(Err(error)) => break (Bytes::new(), Then::Error(error)),
                Some(Ok(Ok(data))) if data.len() > limit - buffer.as_slice().len() => {
                    break (data, Then::Rest(body));
                }
                Some(Ok(Ok(data))) => buffer.push(data, body.size_hint().exact()),
                Some(Ok(Err(frame))) => match frame.into_trailers() {
                    Ok(trailers) => break (Bytes::new(), Then::Trailers(trailers)),
                    // A kind of frame that `http_body` does not have yet.
                    Err(_) => continue,
                },
            }
        };
        Self { data: buffer.freeze(), overflow, then }
    }

    /// The whole body, if it was read to its end.
    pub(super) fn whole(&self) -> Option<&Bytes> {
        matches!(self.then, Then::Nothing | Then::Trailers(_)).then_some(&self.data)
    }

    /// What was read in one piece, which is somebody else's from now on.
    pub(super) fn take_data(&mut self) -> Bytes {
        mem::take(&mut self.data)
    }

    /// Why it was not.
    pub(super) fn failure(&self) -> &'static str {
        match self.then {
            Then::Error(_) => "the body breaks off",
            Then::Rest(_) => "the body is too large",
            Then::Nothing | Then::Trailers(_) => "the body is whole",
        }
    }

    /// Everything that was read.
    pub(super) fn bytes(&self) -> impl Iterator<Item = &u8> {
        self.data.iter().chain(&self.overflow)
    }

    /// The body as if nobody had read it.
    pub(super) fn replay(mut self) -> ResponseBody<B> {
        let slices = [self.take_data(), mem::take(&mut self.overflow), Bytes::new()];
        self.replay_as(slices)
    }

    /// The same with something else for what was read in one piece.
    pub(super) fn replay_as(self, slices: [Bytes; 3]) -> ResponseBody<B> {
        ResponseBody::read(slices, self.then)
    }
}

/// One buffer for all chunks; a single chunk stays as it is.
enum Buffer {
    Empty,
    One(Bytes),
    Many(BytesMut),
}

impl Buffer {
    /// `rest` is how much more is to come, when that is known.
    fn push(&mut self, data: Bytes, rest: Option<u64>) {
        *self = match mem::replace(self, Self::Empty) {
            Self::Empty => Self::One(data),
            Self::One(first) => {
                let rest = rest.and_then(|rest| usize::try_from(rest).ok()).unwrap_or_default();
                let mut buffer = BytesMut::with_capacity(first.len() + data.len() + rest);
                buffer.extend_from_slice(&first);
                buffer.extend_from_slice(&data);
                Self::Many(buffer)
            }
            Self::Many(mut buffer) => {
                buffer.extend_from_slice(&data);
                Self::Many(buffer)
            }
        };
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Empty => &[],
            Self::One(data) => data,
            Self::Many(buffer) => buffer,
        }
    }

    fn freeze(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::One(data) => data,
            Self::Many(buffer) => buffer.freeze(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible};

    use http::HeaderValue;
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    /// A body of these frames, which knows nothing about its size.
    fn frames(
        frames: impl IntoIterator<Item = Result<Frame<Bytes>, &'static str>>,
    ) -> impl Body<Data = Bytes, Error = &'static str> {
        let mut frames: VecDeque<_> = frames.into_iter().collect();
        StreamBody::new(futures_util::stream::poll_fn(move |_| Poll::Ready(frames.pop_front())))
    }

    fn data(text: &'static str) -> Result<Frame<Bytes>, &'static str> {
        Ok(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    async fn read(body: impl Body<Data = Bytes, Error = &'static str>) -> Result<Bytes, &'static str> {
        Ok(body.collect().await?.to_bytes())
    }

    #[tokio::test]
    async fn a_single_frame_is_not_copied() {
        let body = Bytes::from("one frame".to_owned());
        let collected = Collected::collect(Full::new(body.clone()), 9).await;
        assert_eq!(collected.whole().unwrap().as_ptr(), body.as_ptr());
    }

    #[tokio::test]
    async fn chunks_come_together_up_to_the_limit() {
        let chunked = || frames([data("ab"), data(""), data("cd"), data("e")]);
        let collected = Collected::collect(chunked(), 5).await;
        assert_eq!(collected.whole().unwrap(), "abcde");

        let collected = Collected::collect(chunked(), 4).await;
        assert_eq!(collected.whole(), None);
        let replayed = collected.replay();
        assert_eq!(replayed.size_hint().lower(), 5);
        assert!(!replayed.is_end_stream());
        assert_eq!(read(replayed).await.unwrap(), "abcde");
    }

    #[tokio::test]
    async fn a_body_that_says_it_is_too_large_is_not_read() {
        let collected = Collected::collect(Full::new(Bytes::from_static(b"abcde")), 4).await;
        assert!(collected.data.is_empty());
        let replayed = collected.replay();
        assert_eq!(replayed.size_hint().exact(), Some(5));
        assert_eq!(replayed.collect().await.unwrap().to_bytes(), "abcde");
    }

    #[tokio::test]
    async fn trailers_are_replayed_and_errors_too() {
        let trailers = HeaderMap::from_iter([(http::header::EXPIRES, HeaderValue::from_static("0"))]);
        let body = frames([data("ab"), Ok(Frame::trailers(trailers.clone()))]);
        let replayed = Collected::collect(body, 9).await.replay().collect().await.unwrap();
        assert_eq!(replayed.trailers(), Some(&trailers));

        let collected = Collected::collect(frames([data("ab"), data("cd"), Err("broken")]), 9).await;
        assert_eq!(collected.whole(), None);
        let mut replayed = collected.replay();
        assert_eq!(replayed.frame().await.unwrap().unwrap().into_data().unwrap(), "abcd");
        assert_eq!(replayed.frame().await.unwrap().unwrap_err(), "broken");
        assert!(replayed.frame().await.is_none());
    }

    #[tokio::test]
    async fn reading_stops_when_no_more_is_wanted() {
        let body = frames([data("  "), data("x"), data("y"), data("z")]);
        let collected = Collected::collect_while(body, 9, |read| !read.contains(&b'x')).await;
        assert_eq!(collected.data, "  x");
        assert_eq!(collected.whole(), None);
        assert_eq!(read(collected.replay()).await.unwrap(), "  xyz");
    }

    #[tokio::test]
    async fn slices_come_in_order_with_their_exact_size() {
        let slices = ["ab", "", "c"].map(|slice| Bytes::from_static(slice.as_bytes()));
        let body = ResponseBody::<Full<Bytes>>::slices(slices);
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
        assert!(ResponseBody::<Full<Bytes>>::empty().is_end_stream());
    }

    #[tokio::test]
    async fn the_request_body_is_the_callers_or_the_bytes() {
        let untouched = RequestBody::untouched(Full::<Bytes>::from("caller"));
        assert_eq!(untouched.size_hint().exact(), Some(6));
        assert_eq!(untouched.collect().await.unwrap().to_bytes(), "caller");
        let whole = RequestBody::<Full<Bytes>>::whole(Bytes::from_static(b"layer"));
        assert_eq!(whole.size_hint().exact(), Some(5));
        let whole: Result<_, Infallible> = whole.collect().await;
        assert_eq!(whole.unwrap().to_bytes(), "layer");
        assert!(RequestBody::<Full<Bytes>>::empty().is_end_stream());
    }
}
