//! What a reverse proxy does to headers: fields that end at this hop, and who asked for what.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header, uri::Authority};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Fields that belong to one connection (RFC 9110, 7.6.1, and those that older clients still send).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Takes out everything that ends at this hop, the fields that `Connection` names included. A `Content-Length`
/// beside `Transfer-Encoding` is overridden by it (RFC 9112, 6.3) and must not go on alone.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Takes out `Expect: 100-continue`: the server side of the gateway meets it as soon as somebody reads the
/// body, and not at all for a request that is refused before.
pub fn remove_met_expectation(headers: &mut HeaderMap) {
    let met = headers
        .get(header::EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    if met {
        headers.remove(header::EXPECT);
    }
}

/// HTTP/2 may split cookies over several lines, which HTTP/1.1 must not (RFC 9113, 8.2.3).
pub fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1
        && let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        headers.insert(header::COOKIE, cookie);
    }
}

/// Says on whose behalf the request goes on. What a trusted peer said already is kept and continued; from
/// anybody else it is invention and replaced.
pub fn set_forwarded(headers: &mut HeaderMap, peer: IpAddr, trusted: bool, host: Option<HeaderValue>) {
    if !trusted {
        for name in [X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO, header::FORWARDED] {
            headers.remove(name);
        }
    }
    let peer = peer.to_string();
    let chain: Vec<&[u8]> = headers
        .get_all(&X_FORWARDED_FOR)
        .iter()
        .map(HeaderValue::as_bytes)
        .chain([peer.as_bytes()])
        .collect();
    if let Ok(chain) = HeaderValue::from_bytes(&chain.join(&b", "[..])) {
        headers.insert(X_FORWARDED_FOR, chain);
    }
    headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static("http"));
    if let Some(host) = host {
        headers.entry(X_FORWARDED_HOST).or_insert(host);
    }
}

/// The host that the client asked for: of an absolute request target (HTTP/2 too), else of `Host`.
pub fn requested_host(authority: Option<&Authority>, headers: &HeaderMap) -> Option<HeaderValue> {
    match authority {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => headers.get(header::HOST).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_connection_names_goes_too() {
        let mut map = headers(&[
            ("connection", "close, X-Secret-Hop"),
            ("x-secret-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("x-kept", "1"),
        ]);
        remove_hop_by_hop(&mut map);
        assert_eq!(map, headers(&[("x-kept", "1")]));
    }

    #[test]
    fn a_connection_line_counts_although_it_holds_other_bytes() {
        let mut map = headers(&[("x-secret-hop", "1")]);
        map.insert(header::CONNECTION, HeaderValue::from_bytes(b"\xff, X-Secret-Hop").unwrap());
        remove_hop_by_hop(&mut map);
        assert!(map.is_empty(), "{map:?}");
    }

    #[test]
    fn a_length_that_the_encoding_overrides_does_not_go_on() {
        let mut map = headers(&[("transfer-encoding", "chunked"), ("content-length", "5")]);
        remove_hop_by_hop(&mut map);
        assert!(map.is_empty(), "{map:?}");
    }

    #[test]
    fn an_untrusted_chain_is_replaced_and_a_trusted_one_continued() {
        let told =
            [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "a")];
        let host = Some(HeaderValue::from_static("b"));

        let mut map = headers(&told);
        set_forwarded(&mut map, [10, 0, 0, 1].into(), false, host.clone());
        assert_eq!(map["x-forwarded-for"], "10.0.0.1");
        assert_eq!(map["x-forwarded-proto"], "http");
        assert_eq!(map["x-forwarded-host"], "b");

        let mut map = headers(&told);
        set_forwarded(&mut map, [10, 0, 0, 1].into(), true, host);
        assert_eq!(map["x-forwarded-for"], "203.0.113.9, 10.0.0.1");
        assert_eq!(map["x-forwarded-proto"], "https");
        assert_eq!(map["x-forwarded-host"], "a");
    }

    #[test]
    fn cookie_crumbs_become_one_line() {
        let mut map = headers(&[("cookie", "a=1"), ("cookie", "b=2")]);
        join_cookies(&mut map);
        assert_eq!(map.get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2"]);
    }
}
