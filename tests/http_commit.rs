//! Commits and the existence test pass; what they say to caches does not, and restricted commits may be refused.

mod support;

use iceberg_read_restrictions::{ReadRestrictionsLayer, layer::RestrictedCommits};
use support::*;

const TRANSACTION: &str = "/v1/prefix/transactions/commit";

fn transaction(tables: &[&str]) -> String {
    let changes: Vec<_> = tables
        .iter()
        .map(|name| serde_json::json!({"identifier": {"namespace": ["sales"], "name": name}, "updates": []}))
        .collect();
    serde_json::json!({"table-changes": changes}).to_string()
}

/// Commits answer with a tag, GETs with the table.
fn inner() -> Inner {
    Inner::new(|seen| match (seen.method.as_str(), seen.uri.path()) {
        ("GET", path) if path.ends_with("/new") => status(404),
        ("GET", path) if path.ends_with("/forbidden") => status(403),
        ("GET", _) => table_response(TABLE),
        _ => table_response(
            "{\"metadata-location\":\"s3://x\",\"metadata\":{\"format-version\":2,\"schemas\":[]}}",
        ),
    })
}

#[tokio::test]
async fn a_commit_passes_without_its_tag_on_a_governed_table() {
    let inner = inner();
    let service = inner.behind(layer());
    for (user, headers) in [("alice", &[][..]), ("", &[]), ("bob", &[CAPABLE])] {
        let answer = send(&service, request_with("POST", ORDERS, user, headers, "{\"updates\":[]}")).await;
        assert_eq!((answer.status.as_u16(), answer.etag()), (200, ""));
        assert!(answer.text().contains("metadata-location"));
        let [seen] = &*inner.take_seen() else { panic!("one call") };
        assert_eq!(seen.body, "{\"updates\":[]}");
    }
    let answer = send(&service, request_with("POST", OPEN, "alice", &[], "{}")).await;
    assert_eq!(answer.etag(), "\"inner-1\"");
}

#[tokio::test]
async fn head_passes_without_the_tag_of_a_governed_table() {
    let service = inner().behind(layer());
    let answer = send(&service, request("HEAD", ORDERS, "", &[])).await;
    assert_eq!((answer.status.as_u16(), answer.etag()), (200, ""));
    let answer = send(&service, request("HEAD", OPEN, "", &[])).await;
    assert_eq!((answer.status.as_u16(), answer.etag()), (200, "\"inner-1\""));
    let known = [("if-none-match", "\"inner-1\"")];
    assert_eq!(send(&service, request("HEAD", ORDERS, "alice", &known)).await.status, 200);
    assert_eq!(send(&service, request("HEAD", OPEN, "alice", &known)).await.status, 304);
}

#[tokio::test]
async fn restricted_subjects_may_be_kept_from_committing() {
    let inner = inner();
    let service = inner.behind(layer().restricted_commits(RestrictedCommits::Refuse));
    let commit = |path: &str, user: &str| request_with("POST", path, user, &[CAPABLE], "{}");
    for (path, user, status, code) in [
        (ORDERS, "alice", 403, "restricted-commit"),
        (ORDERS, "bob", 403, "restricted-commit"),
        (ORDERS, "", 403, "subject-missing"),
        (BROKEN, "alice", 403, "restrictions-unresolvable"),
        (ORDERS, "etl", 200, ""),
        (ORDERS, "root", 200, ""),
        (OPEN, "alice", 200, ""),
        ("/v1/namespaces/sales/tables/new", "alice", 200, ""),
    ] {
        inner.take_seen();
        let answer = send(&service, commit(path, user)).await;
        assert_eq!(answer.status, status, "{path} {user}");
        if status != 200 {
            assert_eq!(answer.refusal(), code, "{path} {user}");
            assert!(inner.take_seen().iter().all(|seen| seen.method == "GET"), "{path} {user}");
        }
    }
}

#[tokio::test]
async fn a_transaction_is_refused_for_any_of_its_tables() {
    let inner = inner();
    let service = inner.behind(layer().restricted_commits(RestrictedCommits::Refuse));
    let commit =
        |tables: &[&str], user: &str| request_with("POST", TRANSACTION, user, &[], transaction(tables));
    for (tables, user, status, code) in [
        (&["orders"][..], "alice", 403, "restricted-commit"),
        (&["open", "new", "orders"], "alice", 403, "restricted-commit"),
        (&["open", "broken"], "alice", 403, "restrictions-unresolvable"),
        (&["orders"], "", 403, "subject-missing"),
        (&["orders", "open"], "etl", 200, ""),
        (&["open", "new"], "alice", 200, ""),
        (&[], "alice", 200, ""),
    ] {
        inner.take_seen();
        let answer = send(&service, commit(tables, user)).await;
        assert_eq!(answer.status, status, "{tables:?} {user}");
        let seen = inner.take_seen();
        if status == 200 {
            let [.., last] = &*seen else { panic!("a call") };
            assert_eq!((last.uri.path(), &*last.body), (TRANSACTION, transaction(tables).as_bytes()));
        } else {
            assert_eq!(answer.refusal(), code, "{tables:?} {user}");
            assert!(seen.iter().all(|seen| seen.method == "GET"));
        }
    }
    inner.take_seen();
    send(&service, commit(&["orders"], "alice")).await;
    assert_eq!(inner.take_seen()[0].uri.path(), "/v1/prefix/namespaces/sales/tables/orders");
}

/// Each table has groups of its own to ask about.
#[tokio::test]
async fn a_transaction_asks_for_the_groups_of_each_of_its_tables() {
    let policy = |name: &str| {
        format!(
            r#"
            [[tags]]
            name = "{name}"
            [[policies]]
            name = "{name}"
            policyType = "system_row_filter"
            enabled = true
            content.expression = 'filter := true if is_group_member("{name}") else := col("region") == "US"'
            tags = [{{ tag = "{name}" }}]
            [[assignments]]
            object = {{ catalog = "prod", namespace = ["sales"], table = "{name}" }}
            tag = "{name}"
            "#
        )
    };
    let groups = r#"
            [groups]
            one = ["alice", "bob"]
            two = ["alice"]
    "#;
    let governance = governance_of(&[&policy("one"), &policy("two"), groups].concat());
    let layer = ReadRestrictionsLayer::builder(governance.clone(), directory(&governance));
    let service = inner().behind(layer.catalog("prod").restricted_commits(RestrictedCommits::Refuse));
    for (user, status) in [("alice", 200), ("bob", 403)] {
        for tables in [["one", "two"], ["two", "one"]] {
            let answer =
                send(&service, request_with("POST", TRANSACTION, user, &[], transaction(&tables))).await;
            assert_eq!(answer.status, status, "{user} {tables:?} {answer:?}");
            assert!(status == 200 || answer.refusal() == "restricted-commit");
        }
    }
}

#[tokio::test]
async fn a_transaction_that_can_be_read_in_two_ways_is_refused() {
    let inner = inner();
    let service = inner.behind(layer().restricted_commits(RestrictedCommits::Refuse));
    for body in [
        "",
        "{}",
        r#"{"table-changes":[],"table-changes":[]}"#,
        r#"{"table-changes":[{"updates":[]}]}"#,
        r#"{"table-changes":[{"identifier":{"namespace":["sales"],"name":"open","name":"orders"}}]}"#,
    ] {
        let answer = send(&service, request_with("POST", TRANSACTION, "alice", &[], body)).await;
        assert_eq!((answer.status.as_u16(), &*answer.refusal()), (400, "ambiguous-request"), "{body}");
    }
    assert!(inner.take_seen().is_empty());
    // Where restricted commits are allowed nobody reads the body.
    let service = inner.behind(layer());
    assert_eq!(send(&service, request_with("POST", TRANSACTION, "alice", &[], "odd")).await.status, 200);
}

/// Asking for a table by a path that is read as another table's would mix up the two.
#[tokio::test]
async fn a_transaction_that_names_a_table_as_no_path_does_is_refused() {
    let inner = inner();
    let layer = || layer().restricted_commits(RestrictedCommits::Refuse);
    for (layer, namespace, name) in [
        (layer(), "a\u{1f}b", "t"),
        (layer(), "a%1Fb", "t"),
        (layer(), "sales", ".."),
        (layer(), "sales", "orders;x"),
        (layer(), "..", "t"),
        (layer().namespace_separators(["."]), "sales.eu", "t"),
        (layer().namespace_separators(["%2E"]), "sales%2eeu", "t"),
        (layer().namespace_separators(["%1f", "-"]), "sales-eu", "t"),
    ] {
        let service = inner.behind(layer);
        let identifier = serde_json::json!({"namespace": [namespace], "name": name});
        let body = serde_json::json!({"table-changes": [{"identifier": identifier}]}).to_string();
        let answer = send(&service, request_with("POST", TRANSACTION, "alice", &[], body)).await;
        assert_eq!((answer.status.as_u16(), &*answer.refusal()), (400, "ambiguous-request"), "{identifier}");
        assert!(inner.take_seen().is_empty(), "{identifier}");
    }
}
