//! Promise: the gateway governs catalogs that have nothing to do with this crate, whatever they are written in.
//! SeaweedFS (Go) and Lakana (Python) come from PyPI; see `readers/mod.rs` for what happens where they are missing.

mod gateway_support;
#[path = "readers/mod.rs"]
mod readers;

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use axum::body::Body;
use gateway_support::{Answer, Gateway, configuration, fetch, folder, request};
use http::Method;
use serde_json::{Value, json};

const STARTUP: Duration = Duration::from_secs(90);

/// Somebody else's catalog; dropped, it is killed.
struct ForeignCatalog {
    process: Child,
    address: SocketAddr,
    /// A namespace in which it lets one create tables.
    namespace: &'static str,
    /// What PyIceberg has to know of it.
    properties: Value,
}

impl Drop for ForeignCatalog {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl ForeignCatalog {
    /// A catalog at the end of `command`, once it answers.
    async fn start(
        command: &mut Command,
        address: SocketAddr,
        namespace: &'static str,
        properties: Value,
    ) -> Self {
        let process = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut catalog = Self { process, address, namespace, properties };
        let begun = Instant::now();
        while tokio::net::TcpStream::connect(address).await.is_err() {
            assert!(begun.elapsed() < STARTUP, "{command:?} does not start");
            assert_eq!(catalog.process.try_wait().unwrap(), None, "{command:?} ended at once");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        catalog
    }

    /// SeaweedFS: its S3 storage and its Iceberg catalog in one process, with one table bucket.
    async fn seaweedfs(bin: &Path, folder: &Path) -> Self {
        let [iceberg, s3, master, volume, filer, admin] = free_ports();
        let [s3_grpc, master_grpc, volume_grpc, filer_grpc, admin_grpc] = free_ports();
        let mut command = program(bin.join("weed"), folder);
        command.args(["mini", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-tableBucket=lake"]);
        command.args(["-webdav=false", "-admin.ui=false", "-master.telemetry=false", "-s3.port.lance=0"]);
        command.arg(format!("-dir={}", folder.display()));
        for server in ["filer", "s3"] {
            command.arg(format!("-{server}.localSocket={}", folder.join(server).display()));
        }
        for (option, port) in [
            ("s3.port.iceberg", iceberg),
            ("s3.port", s3),
            ("master.port", master),
            ("volume.port", volume),
            ("filer.port", filer),
            ("admin.port", admin),
            ("s3.port.grpc", s3_grpc),
            ("master.port.grpc", master_grpc),
            ("volume.port.grpc", volume_grpc),
            ("filer.port.grpc", filer_grpc),
            ("admin.port.grpc", admin_grpc),
        ] {
            command.arg(format!("-{option}={port}"));
        }
        command.envs([("AWS_ACCESS_KEY_ID", "writer"), ("AWS_SECRET_ACCESS_KEY", "of-this-test")]);
        let properties = json!({
            "warehouse": "s3://lake",
            "credential": "writer:of-this-test",
            "s3.endpoint": format!("http://127.0.0.1:{s3}"),
            "s3.access-key-id": "writer",
            "s3.secret-access-key": "of-this-test",
            "s3.region": "us-east-1",
        });
        let catalog = Self::start(&mut command, loopback(iceberg), "sales", properties).await;
        catalog.has_its_bucket().await;
        catalog
    }

    /// SeaweedFS makes the table bucket some time after it began to answer.
    async fn has_its_bucket(&self) {
        let begun = Instant::now();
        loop {
            let answer = self.namespaces_of_the_bucket().await;
            if answer.status.is_success() {
                return;
            }
            assert!(begun.elapsed() < STARTUP, "no table bucket: {answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn namespaces_of_the_bucket(&self) -> Answer {
        let form = "grant_type=client_credentials&client_id=writer&client_secret=of-this-test";
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let login = request(Method::POST, "/v1/oauth/tokens", &headers, Body::from(form));
        let login = fetch(self.address, login).await;
        if !login.status.is_success() {
            return login;
        }
        let bearer = format!("Bearer {}", login.json()["access_token"].as_str().unwrap());
        let headers = [("authorization", &*bearer)];
        fetch(self.address, request(Method::GET, "/v1/lake/namespaces", &headers, Body::empty())).await
    }

    /// Lakana on SQLite, with one environment that keeps its tables in `folder`.
    async fn lakana(bin: &Path, folder: &Path) -> Self {
        const KEY: (&str, &str) = ("0123456789abcdef", "a-secret-of-this-test-that-is-long-enough");
        let [port] = free_ports();
        let server = || {
            let mut command = program(bin.join("lakana-server"), folder);
            command.envs([
                ("LAKANA_DATABASE__URL", &*format!("sqlite:///{}", folder.join("lakana.db").display())),
                ("LAKANA_BOOTSTRAP_PAT_KEY_ID", KEY.0),
                ("LAKANA_BOOTSTRAP_PAT_SECRET", KEY.1),
                ("LAKANA_PORT", &port.to_string()),
            ]);
            command
        };
        assert!(server().arg("migrate").status().unwrap().success());
        let token = format!("lakana_pat_{}_{}", KEY.0, KEY.1);
        let properties = json!({"token": token, "prefix": "dev"});
        // Only below one of a few namespaces.
        let catalog = Self::start(&mut server(), loopback(port), "gold", properties).await;
        let root = format!("file://{}", folder.join("warehouse").display());
        let environment = json!({"name": "dev", "storage": {"scheme": "file", "root": root, "options": {}}});
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", &*authorization), ("content-type", "application/json")];
        let create =
            request(Method::POST, "/api/v1/environments", &headers, Body::from(environment.to_string()));
        let answer = fetch(catalog.address, create).await;
        assert!(answer.status.is_success(), "{answer:?}");
        catalog
    }
}

/// A program that is heard only when it has something to complain about.
fn program(path: PathBuf, folder: &Path) -> Command {
    let mut command = Command::new(path);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Ports that were free a moment ago, all different.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// The folder with the programs that were installed with `READERS_PYTHON`.
fn programs() -> Option<PathBuf> {
    readers::python_program("gateway_upstreams").map(|python| python.parent().unwrap().to_owned())
}

fn governance(namespace: &str) -> String {
    gateway_support::GOVERNANCE
        .replace(r#""sales""#, &format!("{namespace:?}"))
        .replace(r#"value = "finance" } }"#, r#"value = "finance" }, except = { users = ["etl"] } }"#)
        .replace(r#"{ tag = "pii" }"#, r#"{ tag = "pii", except = { users = ["etl"] } }"#)
}

/// Everything that PyIceberg did with a table of this catalog through the gateway, held to what it should have got.
async fn exercise(catalog: ForeignCatalog) {
    let namespace = catalog.namespace;
    let folder = folder();
    fs::write(folder.join("governance.toml"), governance(namespace)).unwrap();
    let upstream = format!("http://{}", catalog.address);
    let gateway = Gateway::start_in(folder, &configuration(&upstream, ""), &[]).await;
    let uri = format!("http://{}", gateway.address);
    let arguments = [uri, namespace.to_owned(), catalog.properties.to_string()];
    let told =
        tokio::task::spawn_blocking(|| readers::python("foreign.py", arguments)).await.unwrap().unwrap();

    let answer = |who: &str| (told[who]["status"].as_u64().unwrap(), told[who]["body"].as_str().unwrap());
    let body = |who: &str| -> Value {
        let (status, body) = answer(who);
        assert_eq!(status, 200, "{who}: {body}");
        serde_json::from_str(body).unwrap()
    };
    let field = |name: &str| told["fields"][name].clone();
    let restrictions = |filtered: &str, value: &str, action: &str| {
        let literal = json!({"type": "literal", "value": value, "data-type": "string"});
        json!({
            "required-column-projections": [{"action": action, "field-id": field("phone")}],
            "required-row-filter":
                {"type": "eq", "left": {"type": "reference", "id": field(filtered)}, "right": literal},
        })
    };
    assert_eq!(body("auditor")["read-restrictions"], restrictions("region", "US", "show-last-4"));
    assert_eq!(body("owner")["read-restrictions"], restrictions("owner", "bob", "replace-with-null"));
    let exempt = body("exempt");
    assert_eq!(exempt.get("read-restrictions"), None);
    assert_eq!(exempt["metadata"]["snapshots"].as_array().unwrap().len(), 2, "both writes are there");

    assert_eq!(answer("again"), (304, ""));
    assert_eq!(told["again"]["etag"], told["auditor"]["etag"]);
    for (who, status, code) in
        [("undeclared", 406, "[capability-required]"), ("nobody", 403, "[subject-missing]")]
    {
        let (got, body) = answer(who);
        assert_eq!(got, status, "{who}: {body}");
        assert!(body.contains(code) && !body.contains("metadata"), "{who}: {body}");
    }
    assert_eq!(told["ungoverned"], 4, "a table without policies is everybody's");
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_behind_the_gateway() {
    let Some(bin) = programs() else { return };
    let folder = tempfile::tempdir().unwrap();
    exercise(ForeignCatalog::seaweedfs(&bin, folder.path()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lakana_behind_the_gateway() {
    let Some(bin) = programs() else { return };
    let folder = tempfile::tempdir().unwrap();
    exercise(ForeignCatalog::lakana(&bin, folder.path()).await).await;
}
