//! createTable and registerTable: nothing is created behind an error.

mod support;

use support::*;

const CREATE: &str = "/v1/namespaces/sales/tables";
const REGISTER: &str = "/v1/namespaces/sales/register";

fn schema(columns: &[&str]) -> serde_json::Value {
    let fields: Vec<_> = columns
        .iter()
        .zip(1..)
        .map(|(name, id)| serde_json::json!({"id": id, "name": name, "required": false, "type": "string"}))
        .collect();
    serde_json::json!({"type": "struct", "fields": fields})
}

fn create(name: &str, columns: &[&str], stage: bool) -> String {
    serde_json::json!({"stage-create": stage, "schema": schema(columns), "name": name}).to_string()
}

fn register(name: &str) -> String {
    serde_json::json!({"name": name, "metadata-location": "s3://warehouse/x.metadata.json"}).to_string()
}

const COLUMNS: [&str; 4] = ["id", "region", "owner", "phone"];

#[tokio::test]
async fn the_new_table_comes_with_its_restrictions() {
    let inner = Inner::table();
    let service = inner.behind(layer());
    for (path, body) in [
        (CREATE, create("orders", &COLUMNS, false)),
        (CREATE, create("orders", &COLUMNS, true)),
        (REGISTER, register("orders")),
    ] {
        let answer = send(&service, request_with("POST", path, "alice", &[CAPABLE], body.clone())).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.restrictions(), restrictions_of("alice"));
        assert!(answer.etag().starts_with("W/\"rr1."));
        let [seen] = &*inner.take_seen() else { panic!("one call") };
        assert_eq!(seen.body, body, "the very same bytes");
    }
}

#[tokio::test]
async fn who_may_not_receive_restrictions_is_refused_before_anything_is_created() {
    let inner = Inner::table();
    let service = inner.behind(layer());
    let untrusting = inner.behind(layer().trusted_readers(|_: &http::request::Parts| false));
    for (path, body) in [(CREATE, create("orders", &COLUMNS, false)), (REGISTER, register("orders"))] {
        for (service, user, headers, code) in [
            (&service, "alice", &[][..], "capability-required"),
            (&untrusting, "alice", &[CAPABLE], "reader-not-trusted"),
            (&service, "", &[CAPABLE], "subject-missing"),
        ] {
            let answer = send(service, request_with("POST", path, user, headers, body.clone())).await;
            assert_eq!(answer.refusal(), code, "{path}");
        }
    }
    // The policy binds to no column of what is to be created.
    let answer =
        send(&service, request_with("POST", CREATE, "alice", &[CAPABLE], create("broken", &["id"], false)))
            .await;
    assert_eq!(answer.refusal(), "restrictions-unresolvable");
    assert!(inner.take_seen().is_empty());
}

#[tokio::test]
async fn who_is_exempt_creates_what_they_like() {
    let service = Inner::table().behind(layer());
    for (path, body) in [(CREATE, create("orders", &COLUMNS, false)), (REGISTER, register("orders"))] {
        let answer = send(&service, request_with("POST", path, "etl", &[], body)).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, TABLE), "{path}");
    }
}

#[tokio::test]
async fn a_table_without_policies_is_created_as_ever() {
    let inner = Inner::table();
    let service = inner.behind(layer());
    for (path, body) in [
        (CREATE, create("open", &COLUMNS, false)),
        (CREATE, r#"{"name":"open","schema":{"fields":"odd"}}"#.into()),
        (CREATE, r#"{"name":"open"}"#.into()),
        (REGISTER, register("open")),
    ] {
        let answer = send(&service, request_with("POST", path, "", &[], body)).await;
        assert_eq!((answer.status.as_u16(), answer.text(), answer.etag()), (200, TABLE, "\"inner-1\""));
    }
}

#[tokio::test]
async fn a_schema_that_cannot_be_read_leaves_the_decision_to_the_name() {
    let inner = Inner::table();
    let service = inner.behind(layer());
    let body = r#"{"name":"orders","schema":{"type":"struct","fields":[{"name":"phone"}]}}"#;
    assert_eq!(
        send(&service, request_with("POST", CREATE, "alice", &[], body)).await.refusal(),
        "capability-required"
    );
    assert!(inner.take_seen().is_empty());
    let answer = send(&service, request_with("POST", CREATE, "alice", &[CAPABLE], body)).await;
    assert_eq!(answer.restrictions(), restrictions_of("alice"));
}

#[tokio::test]
async fn a_body_that_can_be_read_in_two_ways_is_refused() {
    let inner = Inner::table();
    let service = inner.behind(layer().max_body_bytes(1000));
    for path in [CREATE, REGISTER] {
        for body in [
            r#"{"name":"open","name":"orders"}"#.to_owned(),
            r#"{"name":"open","n\u0061me":"orders"}"#.to_owned(),
            r#"{"name":"open","NAME":"orders"}"#.to_owned(),
            r#"{"name":"open"}{"name":"orders"}"#.to_owned(),
            r#"{"name":["orders"]}"#.to_owned(),
            r#"["orders"]"#.to_owned(),
            "name=orders".to_owned(),
            String::new(),
            format!(r#"{{"name":"open","x":"{}"}}"#, "x".repeat(1000)),
        ] {
            let answer = send(&service, request_with("POST", path, "alice", &[CAPABLE], body.clone())).await;
            assert_eq!((answer.status.as_u16(), &*answer.refusal()), (400, "ambiguous-request"), "{body}");
        }
        let encoded = [CAPABLE, ("content-encoding", "gzip")];
        let answer = send(&service, request_with("POST", path, "alice", &encoded, register("open"))).await;
        assert_eq!(answer.refusal(), "ambiguous-request");
    }
    assert!(inner.take_seen().is_empty());
}

#[tokio::test]
async fn an_inner_refusal_is_handed_on() {
    let inner = Inner::new(|_| {
        let mut response = table_response("{\"error\":{\"code\":409}}");
        *response.status_mut() = 409.try_into().unwrap();
        response
    });
    let answer = send(
        &inner.behind(layer()),
        request_with("POST", CREATE, "alice", &[CAPABLE], create("orders", &COLUMNS, false)),
    )
    .await;
    assert_eq!((answer.status.as_u16(), answer.text()), (409, "{\"error\":{\"code\":409}}"));
}

#[tokio::test]
async fn the_usual_namesakes_pass() {
    let inner = Inner::new(|_| status(204));
    let service = inner.behind(layer());
    for path in [
        "/v1/tables/rename",
        "/v1/namespaces/sales/tables/orders/unregister",
        "/v1/namespaces/sales/register-view",
    ] {
        assert_eq!(
            send(&service, request_with("POST", path, "", &[], "anything")).await.status,
            204,
            "{path}"
        );
    }
}
