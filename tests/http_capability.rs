//! Who may receive restrictions: the client declares that it enforces them, and is trusted to.

mod support;

use http::{HeaderValue, header};
use iceberg_read_restrictions::layer::{Capability, CapabilityRefusal};
use support::*;

#[tokio::test]
async fn the_answer_depends_on_declaration_and_trust_only_where_something_is_to_be_enforced() {
    let trusting =
        |trust: bool| Inner::table().behind(layer().trusted_readers(move |_: &http::request::Parts| trust));
    let undeclared: &[(&str, &str)] = &[];
    // Whether there is something to enforce, who asks, what is declared, whether it is trusted, and the answer.
    for (path, user, headers, trusted, status, code) in [
        (OPEN, "alice", undeclared, true, 200, ""),
        (ORDERS, "etl", undeclared, true, 200, ""),
        (ORDERS, "etl", &[CAPABLE], false, 200, ""),
        (ORDERS, "alice", undeclared, true, 406, "capability-required"),
        (ORDERS, "alice", undeclared, false, 406, "capability-required"),
        (ORDERS, "alice", &[CAPABLE], false, 403, "reader-not-trusted"),
        (ORDERS, "alice", &[CAPABLE], true, 200, ""),
    ] {
        let answer = send(&trusting(trusted), request("GET", path, user, headers)).await;
        assert_eq!(answer.status, status, "{path} {user}");
        if status != 200 {
            assert_eq!(answer.refusal(), code, "{path} {user}");
            assert_eq!(answer.header(header::CACHE_CONTROL), "private, no-cache");
            assert!(answer.header(header::VARY).contains("Authorization"));
        }
    }
}

#[tokio::test]
async fn the_refusal_says_which_header_to_send() {
    let service = Inner::table().behind(layer());
    let answer = send(&service, request("GET", ORDERS, "alice", &[])).await;
    assert_eq!(answer.json()["error"]["type"], "UnsupportedOperationException");
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`X-Iceberg-Client-Capabilities: read-restrictions`"), "{message}");
}

#[tokio::test]
async fn a_406_may_be_a_403() {
    let service = Inner::table().behind(layer().capability_refusal(CapabilityRefusal::Forbidden));
    let answer = send(&service, request("GET", ORDERS, "alice", &[])).await;
    assert_eq!((answer.status.as_u16(), &*answer.refusal()), (403, "capability-required"));
    assert_eq!(answer.json()["error"]["type"], "ForbiddenException");
}

#[tokio::test]
async fn each_accepted_pair_declares_and_nothing_else() {
    let by_default = Inner::table().behind(layer());
    let own = Capability::new("X-Own", "enforces.v2").unwrap();
    let configured = Inner::table().behind(layer().capabilities([own]));
    for (name, value, default, own) in [
        ("x-iceberg-client-capabilities", "read-restrictions", true, false),
        ("x-iceberg-client-capabilities", "vended-credentials , read-restrictions", true, false),
        ("x-gravitino-client-capabilities", "read-restrictions.v1", true, false),
        ("x-gravitino-read-restrictions", "v1", true, false),
        ("x-own", "enforces.v2", false, true),
        ("x-own", "enforces", false, false),
        ("x-iceberg-client-capabilities", "Read-Restrictions", false, false),
        ("x-iceberg-client-capabilities", "read-restrictions;q=1", false, false),
        ("x-iceberg-client-capabilities", "\"read-restrictions\"", false, false),
        ("x-iceberg-client-capabilities", "read-restrictions,", false, false),
        ("x-iceberg-client-capabilities", "read-restrictions-v2", false, false),
    ] {
        for (service, declared) in [(&by_default, default), (&configured, own)] {
            let answer = send(service, request("GET", ORDERS, "alice", &[(name, value)])).await;
            assert_eq!(answer.status, if declared { 200 } else { 406 }, "{name}: {value}");
        }
    }
}

#[tokio::test]
async fn all_lines_of_a_header_count() {
    let service = Inner::table().behind(layer());
    let with_lines = |lines: &[&'static str]| {
        let mut request = request("GET", ORDERS, "alice", &[]);
        for line in lines {
            request.headers_mut().append(CAPABLE.0, HeaderValue::from_static(line));
        }
        request
    };
    assert_eq!(send(&service, with_lines(&["other", "read-restrictions"])).await.status, 200);
    assert_eq!(send(&service, with_lines(&["read-restrictions", "Malformed"])).await.status, 406);
    let hop = request("GET", ORDERS, "alice", &[CAPABLE, ("connection", "x-iceberg-client-capabilities")]);
    assert_eq!(send(&service, hop).await.status, 406);
}

#[tokio::test]
async fn trust_looks_at_the_request_and_is_part_of_the_tag() {
    let by_header =
        |request: &http::request::Parts| request.headers.get("x-reader").is_some_and(|it| it == "spark");
    let service = Inner::table().behind(layer().trusted_readers(by_header));
    assert_eq!(send(&service, load(ORDERS, "alice")).await.refusal(), "reader-not-trusted");
    let trusted = request("GET", ORDERS, "alice", &[CAPABLE, ("x-reader", "spark")]);
    assert_eq!(send(&service, trusted).await.restrictions(), restrictions_of("alice"));

    // Nothing to enforce for `etl`: the same body, but another state of the reader.
    let tag = |headers: &'static [(&'static str, &'static str)]| {
        let service = service.clone();
        async move { send(&service, request("GET", ORDERS, "etl", headers)).await.etag().to_owned() }
    };
    let (undeclared, untrusted) = (tag(&[]).await, tag(&[CAPABLE]).await);
    let trusted = tag(&[CAPABLE, ("x-reader", "spark")]).await;
    assert!(undeclared != untrusted && untrusted != trusted && undeclared != trusted);
}

#[tokio::test]
async fn the_inner_refusal_comes_before_ours() {
    for code in [301, 400, 401, 403, 404, 409, 429, 500, 503] {
        let service = Inner::new(move |_| {
            let mut response = table_response("{\"error\":{}}");
            *response.status_mut() = code.try_into().unwrap();
            response
        });
        let answer = send(&service.behind(layer()), request("GET", ORDERS, "", &[])).await;
        assert_eq!(
            (answer.status.as_u16(), answer.text(), answer.etag()),
            (code, "{\"error\":{}}", "\"inner-1\"")
        );
    }
}
