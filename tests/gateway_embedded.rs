//! The embedded catalog as clients meet it, through the gateway and on tables that nothing governs.

mod gateway_support;

use axum::body::Body;
use gateway_support::{Answer, CAPABLE, COUNTRIES, Gateway, fetch, request};
use http::Method;
use serde_json::{Value, json};

const TABLES: &str = "/v1/namespaces/sandbox/tables";

async fn send(gateway: &Gateway, method: &str, path: &str, body: Value) -> Answer {
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    fetch(gateway.address, request(method.parse().unwrap(), path, &[], body)).await
}

#[track_caller]
fn assert_error(answer: &Answer, status: u16, kind: &str) {
    let error = &answer.json()["error"];
    assert_eq!(
        (answer.status.as_u16(), &error["code"], &error["type"]),
        (status, &json!(status), &json!(kind))
    );
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
}

/// A table whose fields are numbered as some clients do it: from zero, and not in order.
fn people(name: &str) -> Value {
    json!({
        "name": name,
        "schema": {"type": "struct", "identifier-field-ids": [7], "fields": [
            {"id": 7, "name": "id", "required": true, "type": "long"},
            {"id": 0, "name": "tags", "required": false, "type":
                {"type": "map", "key-id": 1, "key": "string", "value-id": 2, "value-required": false, "value": "int"}},
            {"id": 3, "name": "born", "required": false, "type": "date"},
        ]},
        "partition-spec": {"fields": [{"source-id": 3, "name": "born_year", "transform": "year"}]},
    })
}

#[tokio::test]
async fn with_a_prefix_or_none_it_lists_what_there_is() {
    let gateway = Gateway::start("embedded", "").await;
    for root in ["/v1", "/v1/anything"] {
        let namespaces = gateway.get(&format!("{root}/namespaces"), &[]).await.json();
        assert_eq!(namespaces["namespaces"], json!([["hr"], ["reference"], ["sales"], ["sandbox"]]));
        let below = gateway.get(&format!("{root}/namespaces?parent=hr"), &[]).await.json();
        assert_eq!(below["namespaces"], json!([["hr", "payroll"]]));
        let tables = gateway.get(&format!("{root}/namespaces/hr%1Fpayroll/tables"), &[]).await.json();
        assert_eq!(tables["identifiers"], json!([{"namespace": ["hr", "payroll"], "name": "salaries"}]));
    }
    let config = gateway.get("/v1/config?warehouse=prod", &[]).await.json();
    assert_eq!(config["overrides"]["prefix"], "prod");
    assert!(config["endpoints"].as_array().unwrap().contains(&json!("GET /v1/{prefix}/namespaces")));
}

#[tokio::test]
async fn an_unchanged_table_is_a_304() {
    let gateway = Gateway::start("embedded", "").await;
    let loaded = gateway.get(COUNTRIES, &[]).await;
    assert_eq!(loaded.json()["metadata"]["format-version"], 2);
    let etag = loaded.headers["etag"].to_str().unwrap();
    let again = gateway.get(COUNTRIES, &[("if-none-match", etag)]).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    assert_eq!(again.headers["etag"], etag);
    assert_eq!(gateway.get(COUNTRIES, &[("if-none-match", "\"other\"")]).await.status, 200);

    let head = fetch(gateway.address, request(Method::HEAD, COUNTRIES, &[], Body::empty())).await;
    assert_eq!((head.status.as_u16(), head.headers["etag"].to_str().unwrap()), (204, etag));
}

#[tokio::test]
async fn a_new_table_gets_ids_of_the_catalog() {
    let gateway = Gateway::start("embedded", "").await;
    let created = send(&gateway, "POST", TABLES, people("people")).await;
    assert_eq!(created.status, 200);
    let metadata = &created.json()["metadata"];
    let schema = &metadata["schemas"][0];
    assert_eq!(schema["identifier-field-ids"], json!([1]));
    let ids = |path: &str| schema.pointer(path).unwrap().as_i64().unwrap();
    assert_eq!([ids("/fields/0/id"), ids("/fields/1/id"), ids("/fields/2/id")], [1, 2, 3]);
    assert_eq!([ids("/fields/1/type/key-id"), ids("/fields/1/type/value-id")], [4, 5]);
    assert_eq!(metadata["last-column-id"], 5);
    assert_eq!(metadata["partition-specs"][0]["fields"][0]["source-id"], 3);
    assert_eq!(metadata["last-partition-id"], 1000);

    assert_error(&send(&gateway, "POST", TABLES, people("people")).await, 409, "AlreadyExistsException");
    let nowhere = "/v1/namespaces/nowhere/tables";
    assert_error(&send(&gateway, "POST", nowhere, people("people")).await, 404, "NoSuchNamespaceException");
    let loaded = gateway.get(&format!("{TABLES}/people"), &[]).await;
    assert_eq!(loaded.json()["metadata"], *metadata);
}

#[tokio::test]
async fn a_staged_table_exists_once_it_is_committed() {
    let gateway = Gateway::start("embedded", "").await;
    let mut staged = people("staged");
    staged["stage-create"] = json!(true);
    let metadata = send(&gateway, "POST", TABLES, staged).await.json()["metadata"].clone();
    let path = format!("{TABLES}/staged");
    assert_error(&gateway.get(&path, &[]).await, 404, "NoSuchTableException");
    let commit = json!({
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
            {"action": "add-schema", "schema": metadata["schemas"][0]},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": metadata["partition-specs"][0]},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ],
    });
    assert_eq!(send(&gateway, "POST", &path, commit.clone()).await.status, 200);
    let loaded = gateway.get(&path, &[]).await.json();
    for member in ["table-uuid", "schemas", "partition-specs", "sort-orders", "last-column-id"] {
        assert_eq!(loaded["metadata"][member], metadata[member], "{member}");
    }
    assert_error(&send(&gateway, "POST", &path, commit).await, 409, "AlreadyExistsException");
}

#[tokio::test]
async fn a_commit_whose_requirement_fails_changes_nothing() {
    let gateway = Gateway::start("embedded", "").await;
    let before = gateway.get(COUNTRIES, &[]).await;
    let commit = |schema_id: i64| {
        json!({
            "requirements": [{"type": "assert-current-schema-id", "current-schema-id": schema_id}],
            "updates": [{"action": "set-properties", "updates": {"owner": "me"}}],
        })
    };
    assert_error(&send(&gateway, "POST", COUNTRIES, commit(7)).await, 409, "CommitFailedException");
    assert_eq!(gateway.get(COUNTRIES, &[]).await.headers["etag"], before.headers["etag"]);

    let committed = send(&gateway, "POST", COUNTRIES, commit(0)).await;
    assert_eq!(committed.json()["metadata"]["properties"]["owner"], "me");
    let after = gateway.get(COUNTRIES, &[]).await;
    assert_ne!(after.headers["etag"], before.headers["etag"]);
    assert_eq!(
        after.json()["metadata"]["metadata-log"][0]["metadata-file"],
        before.json()["metadata-location"]
    );

    let unknown = json!({"requirements": [], "updates": [{"action": "add-encryption-key"}]});
    assert_error(&send(&gateway, "POST", COUNTRIES, unknown).await, 400, "BadRequestException");
}

#[tokio::test]
async fn a_transaction_changes_all_tables_or_none() {
    let gateway = Gateway::start("embedded", "").await;
    for name in ["a", "b"] {
        assert_eq!(send(&gateway, "POST", TABLES, people(name)).await.status, 200);
    }
    let change = |name: &str, schema_id: i64| {
        json!({
            "identifier": {"namespace": ["sandbox"], "name": name},
            "requirements": [{"type": "assert-current-schema-id", "current-schema-id": schema_id}],
            "updates": [{"action": "set-properties", "updates": {"done": "yes"}}],
        })
    };
    let done = async |name: &str| {
        let table = gateway.get(&format!("{TABLES}/{name}"), &[]).await.json();
        table["metadata"]["properties"]["done"] == "yes"
    };
    let transaction = "/v1/transactions/commit";
    let half = json!({"table-changes": [change("a", 0), change("b", 7)]});
    assert_error(&send(&gateway, "POST", transaction, half).await, 409, "CommitFailedException");
    assert!(!done("a").await && !done("b").await);
    let twice = json!({"table-changes": [change("a", 0), change("a", 0)]});
    assert_error(&send(&gateway, "POST", transaction, twice).await, 400, "BadRequestException");
    let whole = json!({"table-changes": [change("a", 0), change("b", 0)]});
    assert_eq!(send(&gateway, "POST", transaction, whole).await.status, 204);
    assert!(done("a").await && done("b").await);
}

#[tokio::test]
async fn tables_are_renamed_dropped_and_registered_again() {
    let gateway = Gateway::start("embedded", "").await;
    let created = send(&gateway, "POST", TABLES, people("first")).await.json();
    let name = |name: &str| json!({"namespace": ["sandbox"], "name": name});
    let rename = json!({"source": name("first"), "destination": name("second")});
    assert_eq!(send(&gateway, "POST", "/v1/tables/rename", rename.clone()).await.status, 204);
    assert_error(&send(&gateway, "POST", "/v1/tables/rename", rename).await, 404, "NoSuchTableException");

    let second = format!("{TABLES}/second");
    assert_eq!(send(&gateway, "DELETE", &second, Value::Null).await.status, 204);
    assert_error(&gateway.get(&second, &[]).await, 404, "NoSuchTableException");

    let register = json!({"name": "third", "metadata-location": created["metadata-location"]});
    let path = "/v1/namespaces/sandbox/register";
    let registered = send(&gateway, "POST", path, register).await.json();
    assert_eq!(registered["metadata"], created["metadata"]);
    let nothing = json!({"name": "fourth", "metadata-location": "s3://nowhere/00000.metadata.json"});
    assert_error(&send(&gateway, "POST", path, nothing).await, 404, "NotFoundException");
}

#[tokio::test]
async fn namespaces_are_made_changed_and_dropped() {
    let gateway = Gateway::start("embedded", "").await;
    let lake = json!({"namespace": ["lake"], "properties": {"owner": "me", "old": "1"}});
    assert_eq!(send(&gateway, "POST", "/v1/namespaces", lake.clone()).await.status, 200);
    assert_error(&send(&gateway, "POST", "/v1/namespaces", lake).await, 409, "AlreadyExistsException");
    let change = json!({"removals": ["old", "never"], "updates": {"owner": "you"}});
    let changed = send(&gateway, "POST", "/v1/namespaces/lake/properties", change).await.json();
    assert_eq!(changed, json!({"updated": ["owner"], "removed": ["old"], "missing": ["never"]}));
    let loaded = gateway.get("/v1/namespaces/lake", &[]).await.json();
    assert_eq!(loaded["properties"], json!({"owner": "you"}));
    assert_eq!(send(&gateway, "HEAD", "/v1/namespaces/lake", Value::Null).await.status, 204);
    assert_eq!(send(&gateway, "DELETE", "/v1/namespaces/lake", Value::Null).await.status, 204);
    assert_eq!(send(&gateway, "HEAD", "/v1/namespaces/lake", Value::Null).await.status, 404);
    let full = send(&gateway, "DELETE", "/v1/namespaces/sales", Value::Null).await;
    assert_error(&full, 409, "NamespaceNotEmptyException");
}

#[tokio::test]
async fn what_reads_around_a_load_is_served_too() {
    let gateway = Gateway::start("embedded", "").await;
    let credentials = gateway.get(&format!("{COUNTRIES}/credentials"), &[]).await.json();
    assert_eq!(credentials, json!({"storage-credentials": []}));
    let metrics =
        send(&gateway, "POST", &format!("{COUNTRIES}/metrics"), json!({"report-type": "scan-report"})).await;
    assert_eq!(metrics.status, 204);
    let views = "/v1/namespaces/sales/views";
    assert_eq!(gateway.get(views, &[]).await.json(), json!({"identifiers": []}));
    assert_error(&gateway.get(&format!("{views}/v"), &[]).await, 404, "NoSuchViewException");
    assert_error(&gateway.get("/v1/nothing/like/it", &[]).await, 404, "NotFoundException");
}

#[tokio::test]
async fn branches_alone_can_be_loaded() {
    let gateway = Gateway::start("embedded", "").await;
    let headers = [("x-forwarded-user", "alice"), CAPABLE];
    let snapshots = async |query: &str| {
        let table = gateway.get(&format!("{}{query}", gateway_support::ORDERS), &headers).await;
        (table.json()["metadata"]["snapshots"].as_array().unwrap().len(), table.headers["etag"].clone())
    };
    let (all, all_tag) = snapshots("").await;
    let (referenced, referenced_tag) = snapshots("?snapshots=refs").await;
    assert_eq!((all, referenced), (2, 1));
    assert_ne!(all_tag, referenced_tag);
}
