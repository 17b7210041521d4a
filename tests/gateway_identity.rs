//! Who a caller is: told by a trusted proxy or fixed, and which readers are believed.

mod gateway_support;

use gateway_support::{CAPABLE, COUNTRIES, Gateway, ORDERS, Upstream, json};
use serde_json::{Value, json};

fn filter_of(field: u32, value: &str) -> Value {
    json!({
        "type": "eq",
        "left": {"type": "reference", "id": field},
        "right": {"type": "literal", "value": value, "data-type": "string"},
    })
}

/// What an auditor gets on the orders: field 2 is the region, field 4 the phone number.
fn auditor() -> Value {
    json!({
        "required-column-projections": [{"action": "show-last-4", "field-id": 4}],
        "required-row-filter": filter_of(2, "US"),
    })
}

/// What anybody else gets: field 3 is the owner.
fn owner(name: &str) -> Value {
    json!({
        "required-column-projections": [{"action": "replace-with-null", "field-id": 4}],
        "required-row-filter": filter_of(3, name),
    })
}

#[tokio::test]
async fn a_trusted_peer_tells_the_user() {
    let gateway = Gateway::start("embedded", "").await;
    assert_eq!(gateway.orders("alice").await.restrictions(), Some(auditor()));
    assert_eq!(gateway.orders("bob").await.restrictions(), Some(owner("bob")));
}

#[tokio::test]
async fn from_another_peer_the_header_is_dropped_and_the_subject_missing() {
    let upstream = Upstream::start(|_| async { json("{}") }).await;
    let rest =
        "[identity]\nheader = \"x-user\"\ngroups_header = \"x-groups\"\ntrusted_peers = [\"10.0.0.0/8\"]\n";
    let gateway = Gateway::start("embedded", rest).await;
    let told = [("x-user", "alice"), ("x-groups", "[\"auditors\"]"), CAPABLE];
    gateway.get(ORDERS, &told).await.assert_refused(403, "ForbiddenException", "subject-missing");
    assert_eq!(
        gateway.get(COUNTRIES, &told).await.restrictions(),
        None,
        "an ungoverned table needs no subject"
    );

    let gateway = Gateway::start(&upstream.url(), rest).await;
    gateway.get("/v1/config", &told).await;
    let headers = upstream.only_received().headers;
    assert!(!headers.contains_key("x-user") && !headers.contains_key("x-groups"), "{headers:?}");
}

#[tokio::test]
async fn peers_are_told_apart_by_address() {
    let gateway = Gateway::start("embedded", "[identity]\ntrusted_peers = [\"127.0.0.9\"]\n").await;
    gateway.orders("alice").await.assert_refused(403, "ForbiddenException", "subject-missing");
}

#[tokio::test]
async fn no_user_and_an_ambiguous_user_are_no_subject() {
    let gateway = Gateway::start("embedded", "").await;
    for told in [
        vec![],
        vec![("x-forwarded-user", "")],
        vec![("x-forwarded-user", "   ")],
        vec![("x-forwarded-user", "alice"), ("x-forwarded-user", "bob")],
        vec![("x-forwarded-user", "alice"), ("connection", "x-forwarded-user")],
        vec![("x_forwarded_user", "alice")],
    ] {
        let headers = [&told[..], &[CAPABLE]].concat();
        let answer = gateway.get(ORDERS, &headers).await;
        assert_eq!(answer.refusal().2, "subject-missing", "{told:?}");
    }
}

#[tokio::test]
async fn a_spelling_that_other_servers_would_take_for_the_header_does_not_pass() {
    let upstream = Upstream::start(|_| async { json("{}") }).await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    gateway.get("/v1/config", &[("x-forwarded-user", "alice"), ("x_forwarded_user", "root")]).await;
    let headers = upstream.only_received().headers;
    assert_eq!(headers["x-forwarded-user"], "alice");
    assert!(!headers.contains_key("x_forwarded_user"));
}

#[tokio::test]
async fn with_a_groups_header_membership_is_the_headers_alone() {
    let gateway = Gateway::start("embedded", "[identity]\ngroups_header = \"x-groups\"\n").await;
    let orders = async |user, groups: Option<&str>| {
        let mut headers = vec![("x-forwarded-user", user), CAPABLE];
        headers.extend(groups.map(|groups| ("x-groups", groups)));
        gateway.get(ORDERS, &headers).await
    };
    assert_eq!(orders("bob", Some(r#"["auditors", "others"]"#)).await.restrictions(), Some(auditor()));
    assert_eq!(
        orders("alice", Some("[]")).await.restrictions(),
        Some(owner("alice")),
        "the file's membership does not count"
    );
    for unusable in [None, Some(""), Some("auditors"), Some("{}"), Some("[1]"), Some(r#"["auditors", null]"#)]
    {
        let answer = orders("alice", unusable).await;
        assert_eq!(answer.status, 503, "{unusable:?}: {answer:?}");
        assert_eq!(answer.refusal().2, "source-unavailable", "{unusable:?}");
    }
}

#[tokio::test]
async fn the_groups_that_exist_are_the_files_with_a_groups_header_too() {
    let gateway = Gateway::start("embedded", "[identity]\ngroups_header = \"x-groups\"\n").await;
    let governance = gateway_support::GOVERNANCE.replace("auditors = [\"alice\"]\n", "");
    std::fs::write(gateway.folder.join("governance.toml"), governance).unwrap();
    let headers = [("x-forwarded-user", "alice"), ("x-groups", r#"["auditors"]"#), CAPABLE];
    let answer = gateway.eventually(|| gateway.get(ORDERS, &headers), |answer| answer.status != 200).await;
    answer.assert_refused(403, "ForbiddenException", "restrictions-unresolvable");
}

#[tokio::test]
async fn groups_of_the_request_are_part_of_the_entity_tag() {
    let gateway = Gateway::start("embedded", "[identity]\ngroups_header = \"x-groups\"\n").await;
    let tag = async |groups| {
        let headers = [("x-forwarded-user", "bob"), ("x-groups", groups), CAPABLE];
        gateway.get(ORDERS, &headers).await.headers["etag"].clone()
    };
    assert_eq!(tag(r#"["a", "b"]"#).await, tag(r#"["b", "a", "b"]"#).await);
    assert_ne!(tag(r#"["a", "b"]"#).await, tag(r#"["a"]"#).await);
}

#[tokio::test]
async fn in_mode_fixed_everybody_is_the_configured_user() {
    let gateway =
        Gateway::start("embedded", "[identity]\nmode = \"fixed\"\nsubject = \"clickhouse\"\n").await;
    assert_eq!(gateway.orders("alice").await.restrictions(), Some(owner("clickhouse")));
}

#[tokio::test]
async fn only_readers_of_the_list_are_believed() {
    let rest = "[trust]\nreaders_header = \"x-reader\"\nreaders = [\"spark-prod\", \"trino-eu\"]\n";
    let gateway = Gateway::start("embedded", rest).await;
    let orders = async |readers: &[&str]| {
        let mut headers = vec![("x-forwarded-user", "alice"), CAPABLE];
        headers.extend(readers.iter().map(|reader| ("x-reader", *reader)));
        gateway.get(ORDERS, &headers).await
    };
    assert_eq!(orders(&["trino-eu"]).await.restrictions(), Some(auditor()));
    for readers in [&[][..], &["Trino-EU"], &["spark"], &["spark-prod", "spark-prod"], &[""]] {
        let answer = orders(readers).await;
        assert_eq!(answer.refusal().2, "reader-not-trusted", "{readers:?}");
    }
    let undeclared = [("x-forwarded-user", "alice"), ("x-reader", "trino-eu")];
    gateway.get(ORDERS, &undeclared).await.assert_refused(
        406,
        "UnsupportedOperationException",
        "capability-required",
    );
}

#[tokio::test]
async fn the_reader_is_told_by_a_trusted_peer_in_every_mode() {
    let rest = "[identity]\nmode = \"fixed\"\nsubject = \"alice\"\ntrusted_peers = [\"10.0.0.0/8\"]\n\
                [trust]\nreaders_header = \"x-reader\"\nreaders = [\"spark-prod\"]\n";
    let gateway = Gateway::start("embedded", rest).await;
    let answer = gateway.get(ORDERS, &[("x-reader", "spark-prod"), CAPABLE]).await;
    answer.assert_refused(403, "ForbiddenException", "reader-not-trusted");

    let gateway = Gateway::start("embedded", &rest.replace("10.0.0.0/8", "127.0.0.1/32")).await;
    let answer = gateway.get(ORDERS, &[("x-reader", "spark-prod"), CAPABLE]).await;
    assert_eq!(answer.restrictions(), Some(auditor()));
}
