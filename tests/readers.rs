//! Promise: real clients work through the layer. One that declares gets its restrictions, one that does not is told
//! which header to send, and a table without policies is nobody's business.

#[path = "../examples/catalog/mod.rs"]
#[allow(dead_code)]
mod catalog;
#[path = "readers/mod.rs"]
mod readers;

use std::net::SocketAddr;

use axum::Router;
use iceberg_read_restrictions::{
    ReadRestrictionsLayer,
    identity::RequestUser,
    policy::{Format, Governance, InMemoryGovernance},
};
use readers::{USER, headers, node, python};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::spawn_blocking};

/// One catalog, with and without the layer in front.
struct Served {
    governed: String,
    plain: String,
    policies: InMemoryGovernance,
}

impl Served {
    async fn start() -> Self {
        let policies = InMemoryGovernance::new(governance(catalog::GOVERNANCE));
        let identity = policies.directory(RequestUser::extension_with(|request| {
            let user = request.headers.get(USER).map_or("guest", |user| user.to_str().unwrap_or_default());
            Some(user.to_owned())
        }));
        let layer = ReadRestrictionsLayer::builder(policies.clone(), identity).catalog("prod").build();
        let catalog = catalog::router();
        Self { governed: serve(catalog.clone().layer(layer)).await, plain: serve(catalog).await, policies }
    }
}

fn governance(toml: &str) -> Governance {
    Governance::parse(toml, Format::Toml).expect("a valid governance file")
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("bound");
    tokio::spawn(axum::serve(listener, router).into_future());
    format!("http://{address}")
}

/// Runs a client beside the server that it talks to.
async fn client(run: impl FnOnce() -> Option<Value> + Send + 'static) -> Option<Value> {
    spawn_blocking(run).await.expect("the client's assertions hold")
}

async fn pyiceberg_load(uri: &str, table: &'static str, headers: String) -> Option<Value> {
    let uri = uri.to_owned();
    client(move || python("pyiceberg_load.py", [&uri, table, &headers])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pyiceberg_that_declares_gets_the_table_and_its_restrictions() {
    let served = Served::start().await;
    let loaded = pyiceberg_load(&served.governed, "sales.orders", headers("alice", true)).await;
    let Some(loaded) = loaded else { return };
    assert_eq!(loaded["status"], 200);
    assert_eq!(loaded["error"], Value::Null);
    let raw: Value = serde_json::from_str(loaded["raw"].as_str().unwrap()).unwrap();
    let fields = raw["metadata"]["schemas"].as_array().unwrap().last().unwrap()["fields"].clone();
    let id = |name: &str| {
        fields.as_array().unwrap().iter().find(|field| field["name"] == name).unwrap()["id"].clone()
    };
    let restrictions = &raw["read-restrictions"];
    assert_eq!(
        restrictions["required-row-filter"],
        json!({"type": "eq", "left": {"type": "reference", "id": id("region")},
            "right": {"type": "literal", "value": "US", "data-type": "string"}})
    );
    let projections = restrictions["required-column-projections"].as_array().unwrap();
    assert!(projections.contains(&json!({"action": "show-last-4", "field-id": id("phone")})));
    assert!(loaded["columns"].as_array().unwrap().contains(&"phone".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn pyiceberg_that_does_not_declare_is_told_which_header_to_send() {
    let served = Served::start().await;
    let loaded = pyiceberg_load(&served.governed, "sales.orders", headers("alice", false)).await;
    let Some(loaded) = loaded else { return };
    assert_eq!(loaded["status"], 406);
    let error = loaded["error"].as_str().unwrap();
    assert!(error.contains("[capability-required]"), "{error}");
    assert!(error.to_lowercase().contains("x-iceberg-client-capabilities: read-restrictions"), "{error}");
    assert!(!loaded["raw"].as_str().unwrap().contains("metadata"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pyiceberg_loads_an_ungoverned_table_byte_for_byte() {
    let served = Served::start().await;
    let table = "reference.countries";
    let through = pyiceberg_load(&served.governed, table, headers("alice", false)).await;
    let Some(through) = through else { return };
    let direct = pyiceberg_load(&served.plain, table, headers("alice", false)).await.unwrap();
    assert_eq!(through["status"], 200);
    assert_eq!(through["error"], Value::Null);
    assert_eq!(through, direct);
}

#[tokio::test(flavor = "multi_thread")]
async fn duckdb_reads_what_pyiceberg_wrote_and_is_stopped_at_a_governed_table() {
    let served = Served::start().await;
    let folder = tempfile::tempdir().unwrap();
    let location = format!("file://{}", folder.path().join("words").display());
    let uri = served.governed.clone();
    let written = client(move || {
        python("pyiceberg_write.py", [&*uri, "scratch.words", &location, &headers("guest", false)])
    })
    .await;
    let Some(written) = written else { return };
    let rows = json!([{"id": 1, "word": "a"}, {"id": 2, "word": "b"}, {"id": 3, "word": null}]);
    assert_eq!(written, rows);

    let read = |table: &'static str| {
        let uri = served.governed.clone();
        client(move || python("duckdb_read.py", [&uri, table]))
    };
    assert_eq!(read("scratch.words").await.unwrap(), json!({"rows": [[1, "a"], [2, "b"], [3, null]]}));
    let stopped = read("sales.orders").await.unwrap();
    let error = stopped["error"].as_str().unwrap();
    assert!(error.contains("406") || error.contains("capability-required"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn iceberg_js_revalidates_and_gets_a_fresh_table_after_a_policy_change() {
    let served = Served::start().await;
    let load = |etag: Option<String>| {
        let mut arguments =
            vec![served.governed.clone(), "sales".into(), "orders".into(), headers("alice", true)];
        arguments.extend(etag);
        client(move || node("iceberg_js_load.mjs", arguments))
    };
    let Some(first) = load(None).await else { return };
    let etag = first["etag"].as_str().unwrap().to_owned();
    assert!(etag.starts_with("W/\"rr1."), "{etag}");
    assert_eq!(first["restrictions"]["required-row-filter"]["right"]["value"], "US");
    assert_eq!(load(Some(etag.clone())).await.unwrap(), json!({"notModified": true}));

    served.policies.replace(governance(&catalog::GOVERNANCE.replace("== \"US\"", "== \"CA\"")));
    let fresh = load(Some(etag.clone())).await.unwrap();
    assert_eq!(fresh["restrictions"]["required-row-filter"]["right"]["value"], "CA");
    assert_ne!(fresh["etag"], etag);
}
