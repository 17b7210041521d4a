//! PyIceberg creates, writes and reads through Rustberg with the layer in either place, and through the gateway in front
//! of it.
//!
//! Needs a Python with `tests/readers/requirements.txt` of the crate, named by `READERS_PYTHON`. Without it the test
//! is skipped, and says so; with `READERS_REQUIRED=1` it fails.

mod support;

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use rustberg_with_read_restrictions::ApiKeys;
use support::{GOVERNANCE, ORDERS, PLACES, Server, capable, send};
use tempfile::TempDir;

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

/// Runs the script against a server.
async fn create_write_read(python: &str, address: SocketAddr, keys: &ApiKeys) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/create_write_read.py");
    let mut reader = Command::new(python);
    reader.arg(script).arg(format!("http://{address}")).args([&keys.etl, &keys.alice, &keys.bob]);
    let output = tokio::task::spawn_blocking(move || reader.output()).await.unwrap().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pyiceberg_creates_writes_and_reads() {
    let Some(python) = python() else { return };
    for place in PLACES {
        let server = Server::start(place).await;
        create_write_read(&python, server.address, &server.keys).await;

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

#[tokio::test(flavor = "multi_thread")]
async fn pyiceberg_creates_writes_and_reads_through_the_gateway_in_front() {
    let Some(python) = python() else { return };
    let server = Server::serving(|app, _| app.into_router()).await;
    let gateway = Gateway::start(server.address).await;
    create_write_read(&python, gateway.address, &server.keys).await;

    let orders = |user, key| {
        let request = reqwest::Client::new().get(format!("http://{}/v1/{ORDERS}", gateway.address));
        send(capable(request).bearer_auth(key).header("x-forwarded-user", user))
    };
    let alice = orders("alice", &server.keys.alice).await.restrictions().unwrap();
    assert_eq!(alice["required-row-filter"]["right"]["value"], "US");
    let bob = orders("bob", &server.keys.bob).await.restrictions().unwrap();
    assert_eq!(bob["required-row-filter"]["type"], "and");
    assert_eq!(orders("etl", &server.keys.etl).await.restrictions(), None);
}

/// The crate's gateway as a process; dropped, it is killed.
struct Gateway {
    address: SocketAddr,
    process: Child,
    _folder: TempDir,
}

impl Gateway {
    async fn start(upstream: SocketAddr) -> Self {
        tokio::task::spawn_blocking(move || Self::start_blocking(upstream)).await.unwrap()
    }

    fn start_blocking(upstream: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Here the groups are the file's; the roles of the keys are inside, where the gateway does not look.
        let groups = "\n[groups]\nauditors = [\"alice\"]\n";
        fs::write(folder.path().join("governance.toml"), [GOVERNANCE, groups].concat()).unwrap();
        let config = folder.path().join("gateway.toml");
        let settings = format!(
            "listen = \"127.0.0.1:0\"\nupstream = \"http://{upstream}\"\ngovernance = \"governance.toml\"\n\
             catalog = \"lake\"\n[settings]\nupstream_restrictions = \"conjoin\"\n\
             [identity]\nmode = \"header\"\nheader = \"x-forwarded-user\"\ntrusted_peers = [\"127.0.0.0/8\"]\n"
        );
        fs::write(&config, settings).unwrap();
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
        let mut process = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--example", "gateway", "--manifest-path"])
            .arg(manifest)
            .args(["--", "--config"])
            .arg(&config)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let address = ready.split("http://").nth(1).and_then(|rest| rest.split([',', ' ', '\n']).next());
        let address = address.and_then(|address| address.parse().ok());
        Self { address: address.unwrap_or_else(|| panic!("not ready: {ready}")), process, _folder: folder }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
