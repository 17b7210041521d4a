//! PyIceberg creates, writes and reads through Rustberg with the layer in either place.
//!
//! Needs a Python with `tests/readers/requirements.txt` of the crate, named by `READERS_PYTHON`. Without it the test
//! is skipped, and says so; with `READERS_REQUIRED=1` it fails.

mod support;

use std::{env, path::Path, process::Command};

use support::{PLACES, Server};

/// The interpreter, or nothing when the test may be skipped.
fn python() -> Option<String> {
    let python = env::var("READERS_PYTHON").ok();
    if python.is_none() {
        let required = env::var("READERS_REQUIRED").is_ok_and(|required| required == "1");
        assert!(!required, "READERS_REQUIRED is set and READERS_PYTHON is not");
        eprintln!("SKIPPED: set READERS_PYTHON to a Python with PyIceberg and PyArrow to run this test");
    }
    python
}

#[tokio::test(flavor = "multi_thread")]
async fn pyiceberg_creates_writes_and_reads() {
    let Some(python) = python() else { return };
    for place in PLACES {
        let server = Server::start(place).await;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/create_write_read.py");
        let mut reader = Command::new(&python);
        reader.arg(script).arg(format!("http://{}", server.address)).args([
            &server.keys.etl,
            &server.keys.alice,
            &server.keys.bob,
        ]);
        let output = tokio::task::spawn_blocking(move || reader.output()).await.unwrap().unwrap();
        assert!(
            output.status.success(),
            "{place:?}\n{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );

        // What the restricted subjects were sent, in the raw.
        let alice = server.orders(&server.keys.alice).await.restrictions().unwrap();
        assert_eq!(alice["required-row-filter"]["right"]["value"], "US", "{place:?}");
        let bob = server.orders(&server.keys.bob).await.restrictions().unwrap();
        assert_eq!(bob["required-row-filter"]["type"], "and", "{place:?}");
        let etl = server.orders(&server.keys.etl).await;
        assert_eq!(etl.restrictions(), None, "{place:?}");
        assert_eq!(etl.json()["metadata"]["snapshots"].as_array().unwrap().len(), 2, "{place:?}");
    }
}
