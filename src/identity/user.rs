use std::{fmt, str, sync::Arc};

use http::{HeaderName, request::Parts};

/// The authenticated user, as authentication in front of the layer leaves it in the request's extensions
/// for [`RequestUser::extension`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthenticatedUser(pub String);

/// Where the authenticated user of a request is found.
///
/// The name is taken exactly as it stands there: no trimming, no case folding, no decoding. A name that is
/// empty or only white space is no user.
#[derive(Clone)]
pub struct RequestUser(FromRequest<Arc<str>>);

/// How something is read from a request that may not have it.
pub(super) type FromRequest<T> = Arc<dyn Fn(&Parts) -> Option<T> + Send + Sync>;

impl RequestUser {
    /// The [`AuthenticatedUser`] in the request's extensions.
    pub fn extension() -> Self {
        Self(Arc::new(|request| request.extensions.get().map(|AuthenticatedUser(name)| name.as_str().into())))
    }

    /// What a closure makes of the request, for authentication that leaves something else behind.
    ///
    /// The closure must read nothing that the caller could have written.
    pub fn extension_with(read: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |request| read(request).map(Arc::from)))
    }

    /// A header that a trusted proxy sets, and takes away when a caller sends it.
    ///
    /// There is no user when the header is absent, has several lines, or is not UTF-8: which of several
    /// lines the proxy wrote cannot be known.
    pub fn header(name: HeaderName) -> Self {
        Self(Arc::new(move |request| single_line(request, &name).map(Arc::from)))
    }

    /// One user for every request, for engines that have one login.
    pub fn fixed(name: impl Into<String>) -> Self {
        let name: Arc<str> = name.into().into();
        Self(Arc::new(move |_| Some(Arc::clone(&name))))
    }

    /// The user of a request.
    pub fn of(&self, request: &Parts) -> Option<Arc<str>> {
        (self.0)(request).filter(|name| !name.trim().is_empty())
    }
}

impl fmt::Debug for RequestUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestUser").finish_non_exhaustive()
    }
}

/// The value of a header that has exactly one line, of valid UTF-8.
pub(super) fn single_line<'a>(request: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    let mut lines = request.headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => str::from_utf8(line.as_bytes()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    const USER: HeaderName = HeaderName::from_static("x-forwarded-user");

    fn of_lines(lines: &[&[u8]]) -> Option<Arc<str>> {
        let (mut parts, ()) = Request::new(()).into_parts();
        for line in lines {
            parts.headers.append(USER, HeaderValue::from_bytes(line).unwrap());
        }
        RequestUser::header(USER).of(&parts)
    }

    #[test]
    fn a_header_is_taken_exactly() {
        assert_eq!(of_lines(&[b"alice"]).as_deref(), Some("alice"));
        assert_eq!(of_lines(&[b"Alice  B"]).as_deref(), Some("Alice  B"));
        assert_eq!(of_lines(&[b" alice"]).as_deref(), Some(" alice"), "not trimmed");
        assert_eq!(of_lines(&["jörg".as_bytes()]).as_deref(), Some("jörg"));
        assert_eq!(of_lines(&[b"a,b"]).as_deref(), Some("a,b"), "not a list");
    }

    #[test]
    fn a_header_that_does_not_name_one_user_names_nobody() {
        assert_eq!(of_lines(&[]), None);
        assert_eq!(of_lines(&[b""]), None);
        assert_eq!(of_lines(&[b" \t"]), None);
        assert_eq!(of_lines(&["\u{a0}\u{2003}".as_bytes()]), None, "white space of any kind");
        assert_eq!(of_lines(&[b"alice", b"bob"]), None);
        assert_eq!(of_lines(&[b"alice", b"alice"]), None);
        assert_eq!(of_lines(&[b"alice", b""]), None);
        assert_eq!(of_lines(&[b"j\xf6rg"]), None, "Latin-1");
    }

    #[test]
    fn an_extension_is_taken_exactly() {
        let of = |name: Option<&str>| {
            let (mut parts, ()) = Request::new(()).into_parts();
            if let Some(name) = name {
                parts.extensions.insert(AuthenticatedUser(name.to_owned()));
            }
            RequestUser::extension().of(&parts)
        };
        assert_eq!(of(Some(" alice ")).as_deref(), Some(" alice "));
        assert_eq!(of(Some("\n")), None);
        assert_eq!(of(None), None);
    }
}
