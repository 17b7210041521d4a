//! The gateway's own answers, in the error form of the Iceberg REST API.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::json;

/// Longer request ids, and such with unusual characters, are not repeated.
const LONGEST_REQUEST_ID: usize = 128;

/// The `X-Request-Id` of a request, if it is fit to be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(String);

impl RequestId {
    /// Reads it.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let id = headers.get("x-request-id")?.to_str().ok()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte);
        ((1..=LONGEST_REQUEST_ID).contains(&id.len()) && id.bytes().all(plain)).then(|| Self(id.to_owned()))
    }
}

/// An error that the gateway itself answers with. Its code stands in brackets before the message, as in
/// the errors of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayError {
    /// The upstream catalog cannot be reached, or broke off before it answered.
    UpstreamUnavailable,
    /// The upstream catalog said nothing for too long.
    UpstreamTimeout,
    /// The request names no path, as `CONNECT` and `OPTIONS *` do.
    NoPath,
}

impl GatewayError {
    fn parts(self) -> (StatusCode, &'static str, &'static str, &'static str) {
        match self {
            Self::UpstreamUnavailable => (
                StatusCode::BAD_GATEWAY,
                "BadGatewayException",
                "upstream-unavailable",
                "the catalog behind this gateway cannot be reached",
            ),
            Self::UpstreamTimeout => (
                StatusCode::GATEWAY_TIMEOUT,
                "GatewayTimeoutException",
                "upstream-timeout",
                "the catalog behind this gateway did not answer in time",
            ),
            Self::NoPath => (
                StatusCode::BAD_REQUEST,
                "BadRequestException",
                "ambiguous-path",
                "the request target is not a path",
            ),
        }
    }

    /// The whole answer to the request of this id.
    pub fn response(self, request_id: Option<&RequestId>) -> Response<Body> {
        let (status, kind, code, message) = self.parts();
        let mut message = format!("[{code}] {message}");
        if let Some(RequestId(id)) = request_id {
            message.push_str(&format!(" (request {id})"));
        }
        let body = json!({"error": {"message": message, "type": kind, "code": status.as_u16()}});
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
