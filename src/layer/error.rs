//! Refusals: the stable codes of the HTTP contract, and their answers in Iceberg's error form.
//!
//! An answer says only what its code says. Names of policies, tags and groups, and whatever the inner service
//! sent, stay in the logs.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use super::capability::{Capability, CapabilityRefusal};
use crate::resolve::ResolveError;

const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// Longer request ids, and such with unusual characters, are not repeated in error messages.
const LONGEST_REQUEST_ID: usize = 128;

/// Why a request was refused: the stable code in the message of the error body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RefusalCode {
    /// There is something to enforce, and the client does not declare that it does.
    CapabilityRequired,
    /// The client declares that it enforces, and is not trusted to.
    ReaderNotTrusted,
    /// The table is governed, and there is no authenticated subject.
    SubjectMissing,
    /// The policies do not resolve for this subject and table.
    RestrictionsUnresolvable,
    /// A policy or identity source failed or took too long.
    SourceUnavailable,
    /// The inner service's answer cannot be understood.
    UpstreamInvalid,
    /// Two routers could read the path differently.
    AmbiguousPath,
    /// Two services could read the request's body differently.
    AmbiguousRequest,
    /// The subject reads this table masked or filtered, and may not write it.
    RestrictedCommit,
    /// The request is about a catalog that is not known here.
    UnknownCatalog,
    /// A panic on the way.
    InternalError,
}

impl RefusalCode {
    /// The code as it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CapabilityRequired => "capability-required",
            Self::ReaderNotTrusted => "reader-not-trusted",
            Self::SubjectMissing => "subject-missing",
            Self::RestrictionsUnresolvable => "restrictions-unresolvable",
            Self::SourceUnavailable => "source-unavailable",
            Self::UpstreamInvalid => "upstream-invalid",
            Self::AmbiguousPath => "ambiguous-path",
            Self::AmbiguousRequest => "ambiguous-request",
            Self::RestrictedCommit => "restricted-commit",
            Self::UnknownCatalog => "unknown-catalog",
            Self::InternalError => "internal-error",
        }
    }

    fn status_and_type(self, refusal: CapabilityRefusal) -> (StatusCode, &'static str) {
        match self {
            Self::CapabilityRequired => match refusal {
                CapabilityRefusal::NotAcceptable => {
                    (StatusCode::NOT_ACCEPTABLE, "UnsupportedOperationException")
                }
                CapabilityRefusal::Forbidden => (StatusCode::FORBIDDEN, "ForbiddenException"),
            },
            Self::ReaderNotTrusted
            | Self::SubjectMissing
            | Self::RestrictionsUnresolvable
            | Self::RestrictedCommit => (StatusCode::FORBIDDEN, "ForbiddenException"),
            Self::SourceUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableException"),
            Self::UpstreamInvalid => (StatusCode::BAD_GATEWAY, "BadGatewayException"),
            Self::AmbiguousPath | Self::AmbiguousRequest => (StatusCode::BAD_REQUEST, "BadRequestException"),
            Self::UnknownCatalog => (StatusCode::NOT_FOUND, "NotFoundException"),
            Self::InternalError => (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerErrorException"),
        }
    }

    pub(super) fn status(self, refusal: CapabilityRefusal) -> StatusCode {
        self.status_and_type(refusal).0
    }

    fn message(self, capabilities: &[Capability]) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::CapabilityRequired => return capability_message(capabilities).into(),
            Self::ReaderNotTrusted => "this reader is not trusted to enforce read restrictions",
            Self::SubjectMissing => "reading this table requires an authenticated user",
            Self::RestrictionsUnresolvable => {
                "the read restrictions of this table cannot be resolved; the catalog's administrators find the \
                 reason in the log"
            }
            Self::SourceUnavailable => "the read restrictions of this table are not available now; try again",
            Self::UpstreamInvalid => "the catalog's answer cannot be understood",
            Self::AmbiguousPath => "the path of the request can be read in more than one way",
            Self::AmbiguousRequest => {
                "the body of the request can be read in more than one way, or not at all"
            }
            Self::RestrictedCommit => {
                "what is read under restrictions must not be written back to this table"
            }
            Self::UnknownCatalog => "there is no such catalog",
            Self::InternalError => "an internal error",
        })
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn capability_message(capabilities: &[Capability]) -> String {
    let headers: Vec<_> =
        capabilities.iter().map(|pair| format!("`{}: {}`", pair.spelling(), pair.token())).collect();
    match &*headers {
        [] => "this table has read restrictions, and no client may receive them".into(),
        headers => format!(
            "this table has read restrictions; a client that enforces them says so with the header {}",
            headers.join(" or ")
        ),
    }
}

/// A request that the layer refuses.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub code: RefusalCode,
    /// The whole reason, for logs and decision events. Never sent.
    pub detail: Cow<'static, str>,
}

impl Refusal {
    pub(super) fn new(code: RefusalCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into() }
    }

    pub(super) fn upstream_invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(RefusalCode::UpstreamInvalid, detail)
    }

    /// The inner service says 304 to a request that carried no validator.
    pub(super) fn stray_not_modified() -> Self {
        Self::upstream_invalid("a 304 to a request without validators")
    }

    /// The answer, without headers that depend on what it answers to.
    pub(super) fn response(
        &self,
        capabilities: &[Capability],
        refusal: CapabilityRefusal,
        request_id: Option<&RequestId>,
    ) -> Response<Bytes> {
        let (status, r#type) = self.code.status_and_type(refusal);
        let mut message = format!("[{}] {}", self.code, self.code.message(capabilities));
        if let Some(RequestId(id)) = request_id {
            message.push_str(&format!(" (request {id})"));
        }
        let body = serde_json::json!({
            "error": { "message": message, "type": r#type, "code": status.as_u16() }
        });
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = status;
        let length = HeaderValue::from(response.body().len());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_LENGTH, length);
        if self.code == RefusalCode::SourceUnavailable {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response
    }
}

impl From<ResolveError> for Refusal {
    fn from(error: ResolveError) -> Self {
        let code = match &error {
            ResolveError::SubjectMissing => RefusalCode::SubjectMissing,
            ResolveError::InconsistentIdentity => RefusalCode::SourceUnavailable,
            ResolveError::Table(_) => RefusalCode::UpstreamInvalid,
            _ => RefusalCode::RestrictionsUnresolvable,
        };
        Self::new(code, error.to_string())
    }
}

/// The `X-Request-Id` of a request, if it is fit to be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestId(pub Box<str>);

impl RequestId {
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let id = headers.get("x-request-id")?.to_str().ok()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte);
        ((1..=LONGEST_REQUEST_ID).contains(&id.len()) && id.bytes().all(plain)).then(|| Self(id.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: RefusalCode, id: Option<&str>) -> (u16, serde_json::Value, HeaderMap) {
        let refusal = Refusal::new(code, "policy secret_policy");
        let id = id.map(|id| RequestId(id.into()));
        let response = refusal.response(&Capability::defaults(), CapabilityRefusal::default(), id.as_ref());
        let body = serde_json::from_slice(response.body()).unwrap();
        (response.status().as_u16(), body, response.headers().clone())
    }

    #[test]
    fn every_code_has_its_status_and_type() {
        use RefusalCode::*;
        for (code, name, status, r#type) in [
            (CapabilityRequired, "capability-required", 406, "UnsupportedOperationException"),
            (ReaderNotTrusted, "reader-not-trusted", 403, "ForbiddenException"),
            (SubjectMissing, "subject-missing", 403, "ForbiddenException"),
            (RestrictionsUnresolvable, "restrictions-unresolvable", 403, "ForbiddenException"),
            (SourceUnavailable, "source-unavailable", 503, "ServiceUnavailableException"),
            (UpstreamInvalid, "upstream-invalid", 502, "BadGatewayException"),
            (AmbiguousPath, "ambiguous-path", 400, "BadRequestException"),
            (AmbiguousRequest, "ambiguous-request", 400, "BadRequestException"),
            (RestrictedCommit, "restricted-commit", 403, "ForbiddenException"),
            (UnknownCatalog, "unknown-catalog", 404, "NotFoundException"),
            (InternalError, "internal-error", 500, "InternalServerErrorException"),
        ] {
            let (answered, body, headers) = answer(code, None);
            assert_eq!(answered, status);
            assert_eq!(body["error"]["type"], r#type);
            assert_eq!(body["error"]["code"], status);
            let message = body["error"]["message"].as_str().unwrap();
            assert!(message.starts_with(&format!("[{name}] ")), "{message}");
            assert!(!message.contains("secret_policy"));
            assert_eq!(headers[header::CONTENT_TYPE], "application/json");
            assert_eq!(headers.contains_key(header::RETRY_AFTER), status == 503);
            assert_eq!(serde_json::to_value(code).unwrap(), name);
        }
    }

    #[test]
    fn the_message_says_which_header_to_send_and_the_request_id() {
        let (_, body, _) = answer(RefusalCode::CapabilityRequired, Some("7f-3"));
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains("`X-Iceberg-Client-Capabilities: read-restrictions`"), "{message}");
        assert!(message.ends_with("(request 7f-3)"), "{message}");
    }

    #[test]
    fn the_status_of_a_missing_capability_is_a_setting() {
        let refusal = Refusal::new(RefusalCode::CapabilityRequired, "");
        let response = refusal.response(&[], CapabilityRefusal::Forbidden, None);
        assert_eq!(response.status(), 403);
        assert!(std::str::from_utf8(response.body()).unwrap().contains("\"ForbiddenException\""));
    }

    #[test]
    fn odd_request_ids_are_not_repeated() {
        let id = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-request-id", HeaderValue::from_bytes(value.as_bytes()).unwrap());
            RequestId::of(&headers)
        };
        assert_eq!(id("a1-b_c.d:e/f+g="), Some(RequestId("a1-b_c.d:e/f+g=".into())));
        for odd in ["", "a b", "\"metadata\"", "<x>", "é", &"x".repeat(129)] {
            assert_eq!(id(odd), None, "{odd}");
        }
        assert_eq!(RequestId::of(&HeaderMap::new()), None);
    }
}
