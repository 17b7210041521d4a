//! The inner service as the layer calls it: once as it was driven to readiness, then through clones.

use std::marker::PhantomData;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower::{Service, ServiceExt};

use super::body::RequestBody;

/// The inner service, with everything that must be true of it said once.
pub(super) trait Inner: Send {
    type RequestBody: Body<Data = Bytes> + Send + 'static;
    type ResponseBody: Body<Data = Bytes, Error = Self::BodyError> + Send + 'static;
    type BodyError: Send;
    type Error: Send;

    /// Calls it, as often as needed.
    fn call(
        &mut self,
        request: Request<RequestBody<Self::RequestBody>>,
    ) -> impl Future<Output = Result<Response<Self::ResponseBody>, Self::Error>> + Send;
}

/// A Tower service for one request and what the layer wants to know beside.
pub(super) struct InnerService<S, B> {
    /// The one that the caller drove to readiness, until it is called.
    ready: Option<S>,
    /// A clone that nobody drove to readiness yet.
    spare: S,
    body: PhantomData<fn(B)>,
}

impl<S, B> InnerService<S, B> {
    pub(super) fn new(ready: S, spare: S) -> Self {
        Self { ready: Some(ready), spare, body: PhantomData }
    }
}

impl<S, B, R> Inner for InnerService<S, B>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send,
    S::Error: Send,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type RequestBody = B;
    type ResponseBody = R;
    type BodyError = R::Error;
    type Error = S::Error;

    async fn call(&mut self, request: Request<RequestBody<B>>) -> Result<Response<R>, S::Error> {
        let future = match self.ready.take() {
            Some(mut service) => service.call(request),
            None => {
                let mut service = self.spare.clone();
                service.ready().await?.call(request)
            }
        };
        future.await
    }
}
