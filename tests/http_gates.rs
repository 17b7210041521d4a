//! Operations that read a table without loading it are refused wherever a load would be.

mod support;

use http::header;
use support::{strict::CREDENTIALS, *};
use tower::Layer;

const GATES: [(&str, &str); 6] = [
    ("GET", "/credentials"),
    ("POST", "/plan"),
    ("GET", "/plan/7"),
    ("POST", "/tasks"),
    ("POST", "/sign"),
    ("PUT", "/sign"),
];

fn gates() -> impl Iterator<Item = (&'static str, &'static str)> {
    GATES.into_iter()
}

#[tokio::test]
async fn who_may_receive_the_restrictions_passes() {
    let service = layer().build().layer(strict::router());
    for (method, gate) in gates() {
        for user in ["alice", "etl"] {
            let answer = send(&service, request(method, &format!("{ORDERS}{gate}"), user, &[CAPABLE])).await;
            assert_eq!((answer.status.as_u16(), answer.text()), (200, CREDENTIALS), "{user} {method} {gate}");
        }
    }
}

#[tokio::test]
async fn who_may_not_is_refused_like_a_load() {
    let untrusting = layer().trusted_readers(|_: &http::request::Parts| false);
    let (service, untrusting) =
        (layer().build().layer(strict::router()), untrusting.build().layer(strict::router()));
    for (method, gate) in gates() {
        let orders = format!("{ORDERS}{gate}");
        for (service, path, user, headers, status, code) in [
            (&service, &orders, "alice", &[][..], 406, "capability-required"),
            (&untrusting, &orders, "alice", &[CAPABLE], 403, "reader-not-trusted"),
            (&service, &orders, "", &[CAPABLE], 403, "subject-missing"),
            (&service, &format!("{BROKEN}{gate}"), "alice", &[CAPABLE], 403, "restrictions-unresolvable"),
        ] {
            let answer = send(service, request(method, path, user, headers)).await;
            assert_eq!((answer.status.as_u16(), &*answer.refusal()), (status, code), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn who_has_nothing_to_enforce_and_what_has_no_policies_passes() {
    let service = layer().build().layer(strict::router());
    for (method, gate) in gates() {
        for (path, user) in [(ORDERS, "etl"), (ORDERS, "root"), (OPEN, "alice"), (OPEN, "")] {
            let answer = send(&service, request(method, &format!("{path}{gate}"), user, &[])).await;
            assert_eq!((answer.status.as_u16(), answer.text()), (200, CREDENTIALS), "{method} {path}{gate}");
        }
    }
}

#[tokio::test]
async fn a_table_that_cannot_be_loaded_gives_the_inner_error() {
    let service = layer().build().layer(strict::router());
    for (method, gate) in gates() {
        let answer = send(&service, request(method, &format!("{ORDERS}{gate}"), "mallory", &[])).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (403, 0), "{method} {gate}");
    }
    let gone = Inner::new(|seen| match seen.uri.path() {
        ORDERS => {
            let mut response = table_response("gone");
            *response.status_mut() = 404.try_into().unwrap();
            response
        }
        _ => table_response(CREDENTIALS),
    });
    let answer =
        send(&gone.behind(layer()), request("GET", &format!("{ORDERS}/credentials"), "alice", &[])).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (404, "gone"));
}

#[tokio::test]
async fn the_table_is_asked_for_with_the_callers_headers_and_without_delegation() {
    let inner = Inner::new(|seen| match seen.uri.path() {
        "/api/v1/x/namespaces/sales/tables/orders" => table_response(TABLE),
        _ => table_response(CREDENTIALS),
    });
    let headers = [
        CAPABLE,
        ("authorization", "Bearer x"),
        ("x-iceberg-access-delegation", "vended-credentials"),
        ("content-type", "application/json"),
        ("content-length", "2"),
        ("if-none-match", "\"x\""),
        ("x-http-method-override", "DELETE"),
    ];
    let path = "/api/v1/x/namespaces/sales/tables/orders/plan";
    let request = request_with("POST", &format!("{path}?a=b"), "alice", &headers, "{}");
    let answer = send(&inner.behind(layer()), request).await;
    assert_eq!(answer.text(), CREDENTIALS);
    let [load, plan] = &*inner.take_seen() else { panic!("two calls") };

    assert_eq!(load.method, "GET");
    assert_eq!(load.uri, "/api/v1/x/namespaces/sales/tables/orders");
    assert!(load.body.is_empty());
    assert_eq!((load.header("authorization"), load.header("x-user")), ("Bearer x", "alice"));
    assert_eq!(load.header("accept-encoding"), "identity");
    for gone in ["x-iceberg-access-delegation", "content-type", "content-length", "if-none-match"] {
        assert!(!load.headers.contains_key(gone), "{gone}");
    }

    assert_eq!((plan.method.as_str(), plan.uri.to_string()), ("POST", format!("{path}?a=b")));
    assert_eq!(plan.body, "{}");
    assert_eq!(plan.header("x-iceberg-access-delegation"), "vended-credentials");
    for seen in [load, plan] {
        assert!(!seen.headers.contains_key("x-http-method-override"));
    }
    assert!(!plan.headers.contains_key(header::IF_NONE_MATCH), "nobody may get a 304 of before");
}

#[tokio::test]
async fn an_absolute_uri_stays_absolute() {
    let inner = Inner::table();
    let uri = format!("https://user@host.example:8181{ORDERS}/credentials");
    send(&inner.behind(layer()), request("GET", &uri, "alice", &[CAPABLE])).await;
    let [load, _] = &*inner.take_seen() else { panic!("two calls") };
    assert_eq!(load.uri.to_string(), format!("https://user@host.example:8181{ORDERS}"));
}

#[tokio::test]
async fn a_table_that_cannot_be_understood_closes_the_gate() {
    for body in ["", "{}", "[]", "{\"metadata\":{}}", &TABLE[..200]] {
        let body = body.to_owned();
        let inner = Inner::new(move |_| table_response(body.clone()));
        let answer = send(
            &inner.behind(layer()),
            request("GET", &format!("{ORDERS}/credentials"), "alice", &[CAPABLE]),
        )
        .await;
        assert_eq!((answer.status.as_u16(), &*answer.refusal()), (502, "upstream-invalid"));
    }
}

#[tokio::test]
async fn cancelling_a_plan_passes() {
    let inner = Inner::new(|_| status(204));
    let answer =
        send(&inner.behind(layer()), request("DELETE", &format!("{ORDERS}/plan/7"), "alice", &[])).await;
    assert_eq!(answer.status, 204);
    assert_eq!(inner.take_seen().len(), 1);
}
