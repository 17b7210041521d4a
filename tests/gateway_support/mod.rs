//! Runs the built `gateway` over real sockets, in front of an upstream that the test controls.

#![allow(dead_code)]

use std::{
    convert::Infallible,
    env, fs,
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command as AsyncCommand},
    sync::mpsc,
    task::JoinHandle,
};

/// Far longer than anything here takes, so that a hang fails instead of hanging.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const ORDERS: &str = "/v1/namespaces/sales/tables/orders";
pub const COUNTRIES: &str = "/v1/namespaces/reference/tables/countries";
pub const CAPABLE: (&str, &str) = ("x-iceberg-client-capabilities", "read-restrictions");

/// One filter, one mask, and a group, on `prod.sales.orders`.
pub const GOVERNANCE: &str = include_str!("governance.toml");

/// The example as a binary of the profile and features of this test, built if it is not there yet.
pub fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let test = env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", "gateway", "--example", "quickstart"]);
        build.args(["--example", "policy", "--target-dir"]);
        build.arg(profile.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
        if profile.file_name().unwrap() != "debug" {
            build.arg("--profile").arg(profile.file_name().unwrap());
        }
        for (feature, enabled) in
            [("metrics", cfg!(feature = "metrics")), ("decompression", cfg!(feature = "decompression"))]
        {
            if enabled {
                build.args(["--features", feature]);
            }
        }
        // What cargo tells this test about its package would make build scripts of others run again.
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                build.env_remove(name);
            }
        }
        assert!(build.status().unwrap().success(), "the examples do not build");
        profile.join("examples")
    });
    folder.join(name)
}

/// A folder of this test's own, with a governance file in it.
pub fn folder() -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gateway-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("governance.toml"), GOVERNANCE).unwrap();
    folder
}

/// A configuration with `upstream`, free ports, and `rest` after it.
pub fn configuration(upstream: &str, rest: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\nupstream = \"{upstream}\"\n\
         governance = \"governance.toml\"\ncatalog = \"prod\"\n[reload]\npoll_ms = 20\n{rest}"
    )
}

/// Runs the gateway to its end, which must come by itself.
pub fn run(folder: &Path, configuration: &str) -> Output {
    fs::write(folder.join("gateway.toml"), configuration).unwrap();
    Command::new(example("gateway")).arg("--config").arg(folder.join("gateway.toml")).output().unwrap()
}

/// A running gateway; dropped, it is killed.
pub struct Gateway {
    pub folder: PathBuf,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    pub ready: String,
    pub child: Child,
    pub stderr: mpsc::UnboundedReceiver<String>,
}

impl Gateway {
    /// In front of `upstream`, with what `rest` says.
    pub async fn start(upstream: &str, rest: &str) -> Self {
        Self::start_in(folder(), &configuration(upstream, rest), &[]).await
    }

    /// With a configuration of its own. The test's folder is not the working folder of the process.
    pub async fn start_in(folder: PathBuf, configuration: &str, environment: &[(&str, &str)]) -> Self {
        let config = folder.join("gateway.toml");
        fs::write(&config, configuration).unwrap();
        let mut child = AsyncCommand::new(example("gateway"))
            .arg("--config")
            .arg(&config)
            .arg("--decisions")
            .envs(environment.iter().copied())
            .current_dir("/")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let (send, stderr) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(line)) = errors.next_line().await {
                eprintln!("gateway: {line}");
                let _ = send.send(line);
            }
        });
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = tokio::time::timeout(PATIENCE, output.next_line())
            .await
            .expect("the gateway does not start")
            .unwrap()
            .expect("the gateway ended at once");
        let mut addresses = ready
            .split("http://")
            .skip(1)
            .map(|rest| rest.split([',', ' ']).next().unwrap().trim().parse::<SocketAddr>().unwrap());
        let address = addresses.next().unwrap();
        let admin = addresses.next().unwrap();
        Self { folder, address, admin, ready, child, stderr }
    }

    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        fetch(self.address, request(Method::GET, path, headers, Body::empty())).await
    }

    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        fetch(self.address, request(Method::POST, path, headers, body.into())).await
    }

    /// The orders as `user` sees them, told by the default header.
    pub async fn orders(&self, user: &str) -> Answer {
        self.get(ORDERS, &[("x-forwarded-user", user), CAPABLE]).await
    }

    pub async fn admin(&self, path: &str) -> Answer {
        fetch(self.admin, request(Method::GET, path, &[], Body::empty())).await
    }

    pub fn terminate(&self) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// The next decision event.
    pub async fn decision(&mut self) -> Value {
        let next = async {
            loop {
                let line = self.stderr.recv().await.expect("the gateway ended");
                if line.starts_with('{') {
                    return serde_json::from_str(&line).unwrap();
                }
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("no decision event")
    }

    /// Asks until the answer is as wanted; what it takes depends on how often files are read.
    pub async fn eventually<F>(&self, mut ask: impl FnMut() -> F, wanted: impl Fn(&Answer) -> bool) -> Answer
    where
        F: Future<Output = Answer>,
    {
        let asking = async {
            loop {
                let answer = ask().await;
                if wanted(&answer) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.expect("the wanted answer never came")
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The `read-restrictions` member, if the answer is a load result that has one.
    pub fn restrictions(&self) -> Option<Value> {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        self.json().get("read-restrictions").cloned()
    }

    /// Status, type and the code in brackets of an Iceberg error, which must say nothing else.
    pub fn refusal(&self) -> (u16, String, String) {
        assert_eq!(self.headers["content-type"], "application/json");
        let body = self.json();
        let error = &body["error"];
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        assert_eq!(error["code"], self.status.as_u16(), "{body}");
        let message = error["message"].as_str().unwrap();
        let code = message.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(code, _)| code);
        let kind = error["type"].as_str().unwrap();
        (self.status.as_u16(), kind.to_owned(), code.unwrap_or_else(|| panic!("{message}")).to_owned())
    }

    #[track_caller]
    pub fn assert_refused(&self, status: u16, kind: &str, code: &str) {
        assert_eq!(self.refusal(), (status, kind.to_owned(), code.to_owned()));
    }
}

pub fn request(method: Method, path: &str, headers: &[(&str, &str)], body: Body) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

/// Sends a request over a connection of its own.
pub async fn fetch(address: SocketAddr, request: Request<Body>) -> Answer {
    let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
    fetch_with(&client, address, request).await
}

pub async fn fetch_with(
    client: &Client<HttpConnector, Body>,
    address: SocketAddr,
    mut request: Request<Body>,
) -> Answer {
    let target = request.uri().path_and_query().unwrap();
    *request.uri_mut() = format!("http://{address}{target}").parse::<Uri>().unwrap();
    let response = tokio::time::timeout(PATIENCE, client.request(request)).await.expect("no answer").unwrap();
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("no end").unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// What an upstream was sent.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
}

/// An upstream of the test's own that notes what it is sent.
pub struct Upstream {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    serving: JoinHandle<()>,
}

impl Upstream {
    /// Answers every request with `answer`.
    pub async fn start<A, F>(answer: A) -> Self
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        Self::start_on("127.0.0.1:0".parse().unwrap(), answer).await
    }

    /// The same at a known address.
    pub async fn start_on<A, F>(address: SocketAddr, answer: A) -> Self
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let notes = received.clone();
        let serving = tokio::spawn(async move {
            // Dropped with this task, and every connection with it.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (notes, answer) = (notes.clone(), answer.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    notes.lock().unwrap().push(Received {
                        method: request.method().clone(),
                        uri: request.uri().clone(),
                        headers: request.headers().clone(),
                    });
                    let answer = answer(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                connections.spawn(async move {
                    let _ = auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, received, serving }
    }

    /// Answers every request with these bytes as JSON.
    pub async fn fixed(body: &'static str) -> Self {
        Self::start(move |_| async move { json(body) }).await
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What came since the last call.
    pub fn received(&self) -> Vec<Received> {
        std::mem::take(&mut self.received.lock().unwrap())
    }

    /// The one request that came since the last call.
    pub fn only_received(&self) -> Received {
        let mut received = self.received();
        assert_eq!(received.len(), 1, "{received:?}");
        received.remove(0)
    }

    pub async fn stop(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

pub fn json(body: impl Into<Body>) -> Response<Body> {
    Response::builder().header("content-type", "application/json").body(body.into()).unwrap()
}
