//! What those see who run the gateway: health, readiness, metrics, decisions, reloads.

mod gateway_support;

use std::fs;

use axum::body::Body;
use gateway_support::{COUNTRIES, Gateway, ORDERS, Upstream, example, fetch, request};
use serde_json::{Value, json};

#[tokio::test]
async fn health_and_readiness_are_told_on_the_second_address() {
    let gateway = Gateway::start("embedded", "").await;
    assert_eq!(gateway.admin("/-/health").await.json(), json!({"status": "alive"}));
    let ready = gateway.admin("/-/ready").await;
    assert_eq!(ready.status, 200);
    let governance = ready.json();
    assert!(governance["revision"].as_str().is_some_and(|revision| !revision.is_empty()));
    assert!(governance["identity-revision"].is_string());
    assert!(governance["age-ms"].is_u64(), "{governance}");
    assert_eq!(governance["error"], Value::Null);
    assert_eq!(gateway.admin(ORDERS).await.status, 404, "the catalog is not served there");
}

#[tokio::test]
async fn nothing_of_it_is_on_the_public_address() {
    let gateway = Gateway::start("embedded", "").await;
    for path in ["/-/health", "/-/ready", "/-/metrics"] {
        let answer = gateway.get(path, &[]).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["error"]["type"]),
            (404, &json!("NotFoundException"))
        );
    }
    let upstream = Upstream::fixed("{\"of\": \"the upstream\"}").await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    assert_eq!(gateway.get("/-/ready", &[]).await.json()["of"], "the upstream");
}

#[tokio::test]
async fn a_changed_file_changes_the_answers() {
    let gateway = Gateway::start("embedded", "").await;
    let before = gateway.orders("alice").await;
    assert_eq!(before.restrictions().unwrap()["required-row-filter"]["right"]["value"], "US");
    let revision = gateway.admin("/-/ready").await.json()["revision"].clone();

    let changed = gateway_support::GOVERNANCE.replace("\"US\"", "\"EU\"");
    fs::write(gateway.folder.join("governance.toml"), changed).unwrap();
    let after = gateway
        .eventually(
            || gateway.orders("alice"),
            |answer| answer.restrictions().unwrap()["required-row-filter"]["right"]["value"] == "EU",
        )
        .await;
    assert_ne!(before.headers["etag"], after.headers["etag"]);
    assert_ne!(gateway.admin("/-/ready").await.json()["revision"], revision);
}

#[tokio::test]
async fn an_invalid_file_is_reported_and_the_last_good_one_stays() {
    let gateway = Gateway::start("embedded", "").await;
    let revision = gateway.admin("/-/ready").await.json()["revision"].clone();
    fs::write(gateway.folder.join("governance.toml"), "[[policies]]\nname = \"p\"\n").unwrap();
    let ready =
        gateway.eventually(|| gateway.admin("/-/ready"), |answer| !answer.json()["error"].is_null()).await;
    assert_eq!((ready.status.as_u16(), &ready.json()["revision"]), (200, &revision));
    assert!(gateway.orders("alice").await.restrictions().is_some());
}

#[tokio::test]
async fn each_governed_load_is_one_line_of_json_and_counted() {
    let mut gateway = Gateway::start("embedded", "").await;
    gateway.get(COUNTRIES, &[]).await;
    gateway.orders("alice").await;
    let decision = gateway.decision().await;
    assert_eq!(decision["outcome"], "restricted", "{decision}");
    assert_eq!(decision["subject"], "alice", "{decision}");
    gateway.get(ORDERS, &[("x-forwarded-user", "bob")]).await;
    let decision = gateway.decision().await;
    assert_eq!(decision["outcome"], "refused", "{decision}");
    assert_eq!(decision["code"], "capability-required", "{decision}");

    let metrics = gateway.admin("/-/metrics").await;
    assert!(metrics.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for line in [
        "gateway_governed_loads_total{outcome=\"restricted\",code=\"\"} 1",
        "gateway_governed_loads_total{outcome=\"refused\",code=\"capability-required\"} 1",
        "gateway_requests_total{method=\"GET\",status=\"200\"} 2",
        "gateway_requests_total{method=\"GET\",status=\"406\"} 1",
        "# TYPE gateway_request_seconds histogram",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
    }
    // Built with the feature, the gateway shows what the layer counts, too.
    let of_the_layer = "iceberg_read_restrictions_requests_total{operation=\"loadTable\",outcome=\"restricted\",code=\"\"} 1";
    assert_eq!(text.lines().any(|line| line == of_the_layer), cfg!(feature = "metrics"), "{text}");
}

#[tokio::test]
async fn invented_methods_do_not_make_counters() {
    let gateway = Gateway::start("embedded", "").await;
    for invented in ["BREW", "GET2", "get"] {
        let answer =
            fetch(gateway.address, request(invented.parse().unwrap(), "/", &[], Body::empty())).await;
        assert_eq!(answer.status, 404);
    }
    let metrics = gateway.admin("/-/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    let line = "gateway_requests_total{method=\"other\",status=\"404\"} 3";
    assert!(text.lines().any(|other| other == line), "{text}");
}

#[tokio::test]
async fn without_a_configuration_the_embedded_catalog_is_served() {
    use std::process::Stdio;
    use tokio::io::{AsyncBufReadExt, BufReader};

    let mut child = tokio::process::Command::new(example("gateway"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    match lines.next_line().await.unwrap() {
        Some(ready) => {
            assert!(ready.contains("http://127.0.0.1:8181") && ready.contains("embedded"), "{ready}");
            let address = "127.0.0.1:8181".parse().unwrap();
            let headers = [("x-forwarded-user", "alice"), gateway_support::CAPABLE];
            let request =
                gateway_support::request(http::Method::GET, ORDERS, &headers, axum::body::Body::empty());
            assert!(gateway_support::fetch(address, request).await.restrictions().is_some());
        }
        // Somebody else has the port, which is what the gateway must then say.
        None => {
            let output = child.wait_with_output().await.unwrap();
            assert_eq!(output.status.code(), Some(2));
            assert!(String::from_utf8(output.stderr).unwrap().contains("127.0.0.1:8181"));
        }
    }
}
