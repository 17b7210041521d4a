//! Promise: real clients work through the gateway as they do through the layer: DuckDB, which cannot declare, and
//! iceberg-js, which sends entity tags back. PyIceberg has a file of its own.

mod gateway_support;
#[path = "readers/mod.rs"]
mod readers;

use std::{fs, time::Duration};

use gateway_support::{GOVERNANCE, Gateway};
use readers::{node, python};
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::sleep};

/// One login for everybody, as engines have that cannot send a user.
const FIXED: &str = "[identity]\nmode = \"fixed\"\nsubject = \"alice\"\n";

/// Runs a client beside the gateway that it talks to.
async fn client(run: impl FnOnce() -> Option<Value> + Send + 'static) -> Option<Value> {
    spawn_blocking(run).await.expect("the client's assertions hold")
}

fn headers() -> String {
    json!({ readers::CAPABLE.0: readers::CAPABLE.1 }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn duckdb_reads_an_ungoverned_table_and_is_stopped_at_a_governed_one() {
    let gateway = Gateway::start("embedded", FIXED).await;
    let uri = format!("http://{}", gateway.address);
    let location = format!("file://{}", gateway.folder.join("words").display());
    let arguments = [uri.clone(), "scratch.words".into(), location, "{}".into()];
    let Some(written) = client(move || python("pyiceberg_write.py", arguments)).await else { return };
    assert_eq!(written[0], json!({"id": 1, "word": "a"}));

    let read = |table: &'static str| {
        let uri = uri.clone();
        client(move || python("duckdb_read.py", [&*uri, table]))
    };
    assert_eq!(read("scratch.words").await.unwrap(), json!({"rows": [[1, "a"], [2, "b"], [3, null]]}));
    let stopped = read("sales.orders").await.unwrap();
    let error = stopped["error"].as_str().unwrap();
    assert!(error.contains("406") || error.contains("capability-required"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn iceberg_js_revalidates_and_gets_a_fresh_table_after_the_file_changed() {
    let gateway = Gateway::start("embedded", FIXED).await;
    let uri = format!("http://{}", gateway.address);
    let load = |etag: Option<String>| {
        let mut arguments = vec![uri.clone(), "sales".into(), "orders".into(), headers()];
        arguments.extend(etag);
        client(move || node("iceberg_js_load.mjs", arguments))
    };
    let Some(first) = load(None).await else { return };
    let etag = first["etag"].as_str().unwrap().to_owned();
    assert_eq!(first["restrictions"]["required-row-filter"]["right"]["value"], "US");
    assert_eq!(load(Some(etag.clone())).await.unwrap(), json!({"notModified": true}));

    let changed = GOVERNANCE.replace("== \"US\"", "== \"CA\"");
    fs::write(gateway.folder.join("governance.toml"), changed).unwrap();
    let mut fresh = json!({"notModified": true});
    for _ in 0..100 {
        fresh = load(Some(etag.clone())).await.unwrap();
        if fresh["notModified"] != true {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(fresh["restrictions"]["required-row-filter"]["right"]["value"], "CA");
    assert_ne!(fresh["etag"], etag);
}
