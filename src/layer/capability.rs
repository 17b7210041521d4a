//! Whether a client declares that it enforces read restrictions, and whether it is trusted to.

use std::{error::Error, fmt};

use http::{HeaderMap, HeaderName, header, request::Parts};

const X_ICEBERG_CLIENT_CAPABILITIES: HeaderName = HeaderName::from_static("x-iceberg-client-capabilities");
const X_GRAVITINO_CLIENT_CAPABILITIES: HeaderName =
    HeaderName::from_static("x-gravitino-client-capabilities");
const X_GRAVITINO_READ_RESTRICTIONS: HeaderName = HeaderName::from_static("x-gravitino-read-restrictions");

/// One way in which a client may declare that it enforces read restrictions: a token in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    header: HeaderName,
    /// The header as people write it.
    spelling: Box<str>,
    token: Box<str>,
}

impl Capability {
    /// A token that declares the capability when it stands in `header`.
    ///
    /// A token is a lower-case letter or digit, then lower-case letters, digits, `-` and `.`.
    ///
    /// # Errors
    ///
    /// When `header` is no header name or `token` no token.
    pub fn new(header: &str, token: &str) -> Result<Self, CapabilityError> {
        let name = header.parse().map_err(|_| CapabilityError(format!("`{header}` is not a header name")))?;
        if !is_token(token.as_bytes()) {
            return Err(CapabilityError(format!("`{token}` is not a capability token")));
        }
        Ok(Self { header: name, spelling: header.into(), token: token.into() })
    }

    /// The three pairs that are accepted when nothing else is configured.
    pub fn defaults() -> Vec<Self> {
        [
            (X_ICEBERG_CLIENT_CAPABILITIES, "X-Iceberg-Client-Capabilities", "read-restrictions"),
            (X_GRAVITINO_CLIENT_CAPABILITIES, "X-Gravitino-Client-Capabilities", "read-restrictions.v1"),
            (X_GRAVITINO_READ_RESTRICTIONS, "X-Gravitino-Read-Restrictions", "v1"),
        ]
        .map(|(header, spelling, token)| Self { header, spelling: spelling.into(), token: token.into() })
        .into()
    }

    /// The header, in lower case.
    pub fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The header as it was written in [`new`](Self::new).
    pub(super) fn spelling(&self) -> &str {
        &self.spelling
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Whether the headers of a request hold this declaration.
    ///
    /// Tokens stand between commas over all lines of the header; a malformed one makes the whole header void. A
    /// header named in `Connection` was meant for the previous hop.
    pub(super) fn is_declared_in(&self, headers: &HeaderMap) -> bool {
        let mut declared = false;
        for line in headers.get_all(&self.header) {
            for token in line.as_bytes().split(|byte| *byte == b',').map(trim_blanks) {
                if !is_token(token) {
                    return false;
                }
                declared |= token == self.token.as_bytes();
            }
        }
        declared && !is_named_in_connection(headers, &self.header)
    }
}

/// A pair of header and token that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityError(String);

impl fmt::Display for CapabilityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for CapabilityError {}

/// With which status a client that declares nothing is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapabilityRefusal {
    /// 406 `UnsupportedOperationException`.
    #[default]
    NotAcceptable,
    /// 403 `ForbiddenException`, for clients that retry a 406.
    Forbidden,
}

/// Decides which readers are believed when they declare that they enforce read restrictions.
///
/// A declaration is a hint, not proof: any client can send a header. Only trusted request context may be read here,
/// such as what authentication left in the request's extensions, or that the channel is mutually authenticated.
/// Closures over the request are `TrustedReaders`.
pub trait TrustedReaders: Send + Sync + 'static {
    /// Whether the reader that sends this request is trusted to enforce restrictions.
    fn is_trusted(&self, request: &Parts) -> bool;
}

impl<F: Fn(&Parts) -> bool + Send + Sync + 'static> TrustedReaders for F {
    fn is_trusted(&self, request: &Parts) -> bool {
        self(request)
    }
}

/// What is known of a reader; part of the entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Undeclared,
    Untrusted,
    Trusted,
}

fn is_token(token: &[u8]) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    token.first().is_some_and(alphanumeric)
        && token.iter().all(|byte| alphanumeric(byte) || matches!(byte, b'-' | b'.'))
}

pub(super) fn trim_blanks(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(start) = text.iter().position(|byte| !blank(byte)) else { return b"" };
    let end = text.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

fn is_named_in_connection(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .any(|token| trim_blanks(token).eq_ignore_ascii_case(name.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn declared(lines: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        }
        Capability::defaults().iter().any(|capability| capability.is_declared_in(&headers))
    }

    const ICEBERG: &str = "X-Iceberg-Client-Capabilities";

    #[test]
    fn each_default_pair_declares() {
        assert!(declared(&[(ICEBERG, "read-restrictions")]));
        assert!(declared(&[("X-Gravitino-Client-Capabilities", "read-restrictions.v1")]));
        assert!(declared(&[("X-Gravitino-Read-Restrictions", "v1")]));
        assert!(!declared(&[("X-Gravitino-Read-Restrictions", "read-restrictions")]));
        assert!(!declared(&[(ICEBERG, "read-restrictions.v1")]));
        assert!(!declared(&[]));
    }

    #[test]
    fn tokens_stand_between_commas_over_all_lines() {
        for value in [
            "vended-credentials,read-restrictions",
            " \tread-restrictions\t , other.v2 ",
            "read-restrictions,read-restrictions",
        ] {
            assert!(declared(&[(ICEBERG, value)]), "{value}");
        }
        assert!(declared(&[(ICEBERG, "other"), (ICEBERG, "read-restrictions")]));
    }

    #[test]
    fn one_malformed_token_makes_the_header_void() {
        for value in [
            "",
            "Read-Restrictions",
            "read-restrictions;q=0",
            "\"read-restrictions\"",
            "read-restrictions, ",
            "read-restrictions,,x",
            "read-restrictions,UPPER",
            "read-restrictions,-x",
            "read-restrictions,.x",
            "read-restrictions,a_b",
            "read restrictions",
            "read-restrictions,é",
            "read-restriction",
            "read-restrictions-not",
            "read-restrictions=false",
            "*",
        ] {
            assert!(!declared(&[(ICEBERG, value)]), "{value}");
        }
        assert!(!declared(&[(ICEBERG, "read-restrictions"), (ICEBERG, "Bad")]));
        let other_header_stands = [(ICEBERG, "Bad"), ("X-Gravitino-Read-Restrictions", "v1")];
        assert!(declared(&other_header_stands));
    }

    #[test]
    fn a_header_named_in_connection_is_absent() {
        let declaration = (ICEBERG, "read-restrictions");
        assert!(!declared(&[declaration, ("Connection", "close, x-iceberg-CLIENT-capabilities")]));
        assert!(!declared(&[declaration, ("Connection", "close"), ("Connection", ICEBERG)]));
        assert!(declared(&[declaration, ("Connection", "close, x-other")]));
    }

    #[test]
    fn pairs_that_could_never_match_are_errors() {
        assert!(Capability::new("bad header", "v1").is_err());
        assert!(Capability::new("x-good", "V1").is_err());
        assert!(Capability::new("x-good", "v1").is_ok());
    }
}
