//! What the layer takes out of requests and changes on answers.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{
    capability::{Capability, trim_blanks},
    etag::IfNoneMatch,
};

const METHOD_OVERRIDES: [&str; 5] =
    ["x-http-method-override", "x-http-method", "x-method-override", "x-original-method", "-method"];

pub(super) const ACCESS_DELEGATION: HeaderName = HeaderName::from_static("x-iceberg-access-delegation");

/// Says that a request was sent before; a load made on its behalf was not.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What describes the exact bytes of a body, or other ranges of it, or lets a shared cache keep it: not true of a
/// governed answer.
const OF_THE_INNER_BODY: [HeaderName; 9] = [
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    header::ACCEPT_RANGES,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    HeaderName::from_static("surrogate-control"),
    HeaderName::from_static("cdn-cache-control"),
];

/// What says something about a body that a 304 does not have.
const OF_A_BODY: [HeaderName; 8] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_RANGE,
    header::CONTENT_DISPOSITION,
    header::TRANSFER_ENCODING,
    header::TRAILER,
];

/// Removes the headers by which a request says that it is of another method than it looks. To servers that hand
/// headers on as variables, `_` and `-` are the same.
pub(super) fn remove_method_overrides(request: &mut HeaderMap) {
    let is_override = |name: &HeaderName| {
        let name = name.as_str();
        METHOD_OVERRIDES.iter().any(|other| {
            name.len() == other.len()
                && name.bytes().zip(other.bytes()).all(|(a, b)| a == b || (a == b'_' && b == b'-'))
        })
    };
    while let Some(name) = request.keys().find(|name| is_override(name)).cloned() {
        request.remove(name);
    }
}

/// Takes the validators out of a request: only the layer can tell whether the client has a representation.
pub(super) fn take_validators(request: &mut HeaderMap) -> IfNoneMatch {
    request.remove(header::IF_MODIFIED_SINCE);
    IfNoneMatch::take(request)
}

/// The credentials that a caller asks for, all lines in order.
pub(super) fn delegation(request: &HeaderMap) -> Option<Arc<[u8]>> {
    let mut lines = request.get_all(ACCESS_DELEGATION).iter().map(HeaderValue::as_bytes);
    match (lines.next()?, lines.next()) {
        (only, None) => Some(only.into()),
        // There are no line ends inside of them.
        (first, Some(second)) => {
            Some([first, second].into_iter().chain(lines).collect::<Vec<_>>().join(&b'\n').into())
        }
    }
}

/// Asks for the whole body as it is, because it has to be read.
pub(super) fn ask_for_the_whole_body(request: &mut HeaderMap) {
    request.remove(header::RANGE);
    request.remove(header::IF_RANGE);
    request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Removes what describes the body of a request that is sent on without it.
pub(super) fn remove_body_headers(request: &mut HeaderMap) {
    for name in OF_A_BODY {
        request.remove(name);
    }
    request.remove(header::EXPECT);
}

/// Whether a body is encoded, other than by `identity`.
pub(super) fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(trim_blanks)
        .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

/// Makes the headers of an inner answer those of a governed one.
pub(super) fn govern(headers: &mut HeaderMap, tag: HeaderValue, variance: &Variance) {
    for name in OF_THE_INNER_BODY {
        headers.remove(name);
    }
    keep_private(headers, variance);
    headers.insert(header::ETAG, tag);
}

/// Keeps shared caches from answering others with what this caller got.
pub(super) fn keep_private(headers: &mut HeaderMap, variance: &Variance) {
    let no_store = headers
        .get_all(header::CACHE_CONTROL)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .any(|directive| trim_blanks(directive).eq_ignore_ascii_case(b"no-store"));
    let cache_control = if no_store { "no-store" } else { "private, no-cache" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
    let vary = match headers.contains_key(header::VARY) {
        true => variance.beside(headers),
        false => variance.ours.clone(),
    };
    headers.insert(header::VARY, vary);
}

/// The request headers that restrictions depend on.
pub(super) struct Variance {
    names: Vec<Box<str>>,
    /// All of them, as they go out where the inner service has none.
    ours: HeaderValue,
}

impl Variance {
    pub(super) fn new(capabilities: &[Capability]) -> Self {
        let ours = capabilities.iter().map(Capability::spelling);
        let names = ["Authorization"].into_iter().chain(ours).map(Box::from).collect();
        let mut variance = Self { names, ours: HeaderValue::from_static("*") };
        variance.ours = variance.beside(&HeaderMap::new());
        variance
    }

    /// The tokens that are there already, and everything that the restrictions depend on.
    fn beside(&self, headers: &HeaderMap) -> HeaderValue {
        let upstream = headers
            .get_all(header::VARY)
            .iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .map(str::trim)
            .filter(|token| !token.is_empty());
        let mut tokens: Vec<&str> = Vec::with_capacity(self.names.len());
        for token in upstream.chain(self.names.iter().map(|name| &**name)) {
            if !tokens.iter().any(|other| other.eq_ignore_ascii_case(token)) {
                tokens.push(token);
            }
        }
        // Every token comes from a header value or is a header name.
        HeaderValue::try_from(tokens.join(", ")).unwrap_or(HeaderValue::from_static("*"))
    }
}

/// The length of a body, in one allocation.
pub(super) fn content_length(length: usize) -> HeaderValue {
    let (mut digits, mut rest) = ([0; 20], length);
    let mut start = digits.len();
    while start == digits.len() || rest > 0 {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    HeaderValue::from_bytes(&digits[start..]).unwrap_or_else(|_| length.into())
}

/// Leaves the headers of a 304.
pub(super) fn remove_content(headers: &mut HeaderMap) {
    for name in OF_A_BODY {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    fn governed(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = headers(lines);
        govern(
            &mut headers,
            HeaderValue::from_static("W/\"rr1.x\""),
            &Variance::new(&Capability::defaults()),
        );
        headers
    }

    #[test]
    fn no_spelling_of_a_method_override_is_left() {
        let mut request = headers(&[
            ("x-http-method-override", "GET"),
            ("x_http_method_override", "GET"),
            ("x-http-method_override", "GET"),
            ("x-http-method", "GET"),
            ("x-method-override", "GET"),
            ("_method", "GET"),
            ("x-method", "kept"),
        ]);
        request.append("x-http-method-override", HeaderValue::from_static("HEAD"));
        remove_method_overrides(&mut request);
        assert_eq!(request, headers(&[("x-method", "kept")]));
    }

    #[test]
    fn vary_is_the_upstream_tokens_and_ours_each_once() {
        let ours =
            "X-Iceberg-Client-Capabilities, X-Gravitino-Client-Capabilities, X-Gravitino-Read-Restrictions";
        let vary = |lines: &[_]| governed(lines)[header::VARY].to_str().unwrap().to_owned();
        assert_eq!(vary(&[]), format!("Authorization, {ours}"));
        assert_eq!(
            vary(&[("vary", "Accept-Encoding, authorization"), ("vary", "X-Tenant,,accept-encoding")]),
            format!("Accept-Encoding, authorization, X-Tenant, {ours}")
        );
        assert!(vary(&[("vary", "*")]).starts_with("*, "));
    }

    #[test]
    fn cache_control_is_private_unless_nothing_may_be_stored() {
        let cache_control = |lines: &[_]| governed(lines)[header::CACHE_CONTROL].clone();
        assert_eq!(cache_control(&[]), "private, no-cache");
        assert_eq!(cache_control(&[("cache-control", "public, max-age=600")]), "private, no-cache");
        assert_eq!(
            cache_control(&[("cache-control", "private"), ("cache-control", "No-Store ")]),
            "no-store"
        );
    }

    #[test]
    fn there_is_one_tag_and_nothing_about_the_inner_bytes() {
        let governed = governed(&[
            ("etag", "\"a\""),
            ("etag", "\"b\""),
            ("content-md5", "x"),
            ("digest", "x"),
            ("content-digest", "x"),
            ("accept-ranges", "bytes"),
            ("x-request-id", "7"),
        ]);
        assert_eq!(governed.get_all(header::ETAG).iter().collect::<Vec<_>>(), ["W/\"rr1.x\""]);
        let mut left: Vec<_> = governed.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["cache-control", "etag", "vary", "x-request-id"]);
    }

    #[test]
    fn a_length_is_written_in_digits() {
        for length in [0, 7, 10, 4096, usize::MAX] {
            assert_eq!(content_length(length), length.to_string());
        }
    }

    #[test]
    fn any_coding_but_identity_is_an_encoding() {
        for plain in [&[][..], &[("content-encoding", "identity")], &[("content-encoding", " Identity , ")]] {
            assert!(!is_encoded(&headers(plain)), "{plain:?}");
        }
        for encoded in ["gzip", "identity, gzip", "x-unknown", "br;q=0"] {
            assert!(is_encoded(&headers(&[("content-encoding", "identity"), ("content-encoding", encoded)])));
        }
    }
}
