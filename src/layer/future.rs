use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::body::ResponseBody;
use crate::source::BoxFuture;

/// An answer on its way.
pub(super) type Governed<R, E> = BoxFuture<'static, Result<Response<ResponseBody<R>>, E>>;

pin_project! {
    /// The future of [`ReadRestrictionsService`](super::ReadRestrictionsService): the inner service's own for what is none of the
    /// layer's business, without an allocation.
    pub struct ResponseFuture<F, R: Body, E> {
        #[pin]
        kind: Kind<F, R, E>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<F, R: Body, E> {
        PassThrough { #[pin] future: F },
        Governed { future: Governed<R, E> },
    }
}

impl<F, R: Body, E> ResponseFuture<F, R, E> {
    pub(super) fn pass_through(future: F) -> Self {
        Self { kind: Kind::PassThrough { future } }
    }

    pub(super) fn governed(future: Governed<R, E>) -> Self {
        Self { kind: Kind::Governed { future } }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            KindProjection::PassThrough { future } => {
                let response = ready!(future.poll(context))?;
                Poll::Ready(Ok(response.map(ResponseBody::untouched)))
            }
            KindProjection::Governed { future } => future.as_mut().poll(context),
        }
    }
}
