//! Promise: under load, with the governance file rewritten and the upstream restarted all the time, the gateway never
//! shows a governed table without restrictions, never answers by a file that is half written, leaves no request without
//! an answer, and does not grow.
//!
//! `GATEWAY_LOAD_REQUESTS` (4,000 unless set) and `GATEWAY_LOAD_SECONDS` (60) bound it, whichever comes first;
//! `GATEWAY_LOAD_CACHE_BYTES` (4 MiB) is the gateway's setting. The figures go to the standard output:
//! `cargo test --test gateway_load -- --nocapture`.

mod gateway_support;

use std::{
    collections::BTreeMap,
    env, fs, mem,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::body::Body;
use bytes::Bytes;
use gateway_support::{CAPABLE, COUNTRIES, GOVERNANCE, Gateway, ORDERS, PATIENCE, Upstream, json, request};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinSet};

const WORKERS: usize = 16;
/// How many requests see one version of the table.
const REQUESTS_PER_VERSION: usize = 250;
const SNAPSHOTS: usize = 100;
/// What a process may grow by without having a leak: buffers of connections, and the allocator's arenas.
const GROWTH_KIB: usize = 16 << 10;
/// Small, so that the caches are full when the first quarter is through.
const CACHE_BYTES: usize = 4 << 20;
/// Shorter than the patience of clients: a silence behind the gateway becomes a 504, one in the gateway does not.
const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(15);
const CREDENTIALS: &str = "/v1/namespaces/sales/tables/orders/credentials";
const LIST: &str = "/v1/namespaces/sales/tables";
const AMBIGUOUS: &str = "/v1/namespaces/sales/table%73/orders";

/// What auditors are shown, by the two versions of the governance file.
const REGIONS: [&str; 2] = ["US", "CA"];

fn setting(name: &str, default: usize) -> usize {
    env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|error| panic!("{name}: {error}")))
}

fn governance(version: usize) -> String {
    GOVERNANCE.replace(r#""US""#, &format!("{:?}", REGIONS[version % 2]))
}

/// A load result of a few tens of kilobytes; each version has another snapshot.
fn load_result(version: usize) -> String {
    let snapshot = |at: usize| {
        format!(
            r#"{{"snapshot-id":{},"timestamp-ms":1700000000000,"manifest-list":"s3://bucket/{version}/{at}.avro","summary":{{"operation":"append","total-records":"{at}"}},"schema-id":0}}"#,
            version * SNAPSHOTS + at + 1
        )
    };
    let snapshots: Vec<_> = (0..SNAPSHOTS).map(snapshot).collect();
    format!(
        r#"{{"metadata-location":"s3://bucket/{version}.json","metadata":{{"format-version":2,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","snapshots":[{}],"current-schema-id":0,"schemas":[{{"type":"struct","schema-id":0,"fields":[{{"id":1,"name":"region","type":"string","required":false}},{{"id":2,"name":"owner","type":"string","required":false}},{{"id":3,"name":"phone","type":"string","required":false}}]}}]}},"config":{{}}}}"#,
        snapshots.join(",")
    )
}

/// A catalog whose table changes as it is asked.
#[derive(Clone, Default)]
struct Catalog {
    asked: Arc<AtomicUsize>,
    newest: Arc<Mutex<(usize, Bytes)>>,
}

impl Catalog {
    async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        match request.uri().path() {
            ORDERS | COUNTRIES => self.load(&request),
            CREDENTIALS => json(r#"{"storage-credentials":[]}"#),
            LIST => json(r#"{"identifiers":[]}"#),
            other => panic!("{other} should not come here"),
        }
    }

    fn load(&self, request: &Request<Incoming>) -> Response<Body> {
        let version = 1 + self.asked.fetch_add(1, Ordering::Relaxed) / REQUESTS_PER_VERSION;
        let body = {
            let mut newest = self.newest.lock().unwrap();
            if newest.0 < version {
                *newest = (version, load_result(version).into());
            }
            newest.1.clone()
        };
        let tag = format!("\"v{version}\"");
        let known = request.headers().get(header::IF_NONE_MATCH);
        let mut response = match known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
            true => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                response
            }
            false => json(body),
        };
        response.headers_mut().insert(header::ETAG, tag.parse().unwrap());
        response
    }
}

/// What the workers share.
struct Load {
    address: SocketAddr,
    requests: usize,
    begun: Instant,
    time: Duration,
    sent: AtomicUsize,
    /// Odd from before the upstream goes away until a while after it is back.
    disturbances: AtomicUsize,
    answers: Mutex<BTreeMap<&'static str, usize>>,
    /// The longest time until an answer was read, and of what kind the request was.
    longest: Mutex<(Duration, Option<Kind>)>,
}

impl Load {
    fn is_over(&self) -> bool {
        self.is_through(4)
    }

    /// Whether so many quarters are through.
    fn is_through(&self, quarters: usize) -> bool {
        self.sent.load(Ordering::Relaxed) >= self.requests * quarters / 4
            || self.begun.elapsed() >= self.time * quarters as u32 / 4
    }

    fn count(&self, answer: &'static str) {
        *self.answers.lock().unwrap().entry(answer).or_default() += 1;
    }

    fn took(&self, time: Duration, kind: Kind) {
        let mut longest = self.longest.lock().unwrap();
        if longest.0 < time {
            *longest = (time, Some(kind));
        }
    }

    /// Sends requests of all kinds until the load is over, and looks at every answer.
    async fn work(self: Arc<Self>) {
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let mut tag = None;
        while !self.is_over() {
            let number = self.sent.fetch_add(1, Ordering::Relaxed);
            let kind = Kind::of(number);
            let before = self.disturbances.load(Ordering::SeqCst);
            let asked = Instant::now();
            let answer = fetch(&client, self.address, kind.request(number, tag.as_deref()));
            let answer = tokio::time::timeout(PATIENCE, answer).await;
            let answer =
                answer.unwrap_or_else(|_| panic!("{kind:?} {number} got no answer, disturbances {before}"));
            self.took(asked.elapsed(), kind);
            let disturbed = before % 2 == 1 || self.disturbances.load(Ordering::SeqCst) != before;
            match answer {
                Ok((status, etag, body)) => {
                    self.count(kind.check(number, status, &body, disturbed));
                    if kind == Kind::Auditor {
                        tag = etag.or(tag);
                    }
                }
                // What passes through breaks off where the upstream did.
                Err(error) => {
                    assert!(disturbed && !kind.is_governed(), "{kind:?}: {error}");
                    self.count("broken off");
                }
            }
        }
    }
}

type Fetched = (StatusCode, Option<String>, Bytes);

async fn fetch(
    client: &Client<HttpConnector, Body>,
    address: SocketAddr,
    mut request: Request<Body>,
) -> Result<Fetched, Box<dyn std::error::Error + Send + Sync>> {
    *request.uri_mut() = format!("http://{address}{}", request.uri()).parse()?;
    let response = client.request(request).await?;
    let (head, body) = response.into_parts();
    let etag = head.headers.get(header::ETAG).map(|tag| tag.to_str().map(str::to_owned)).transpose()?;
    Ok((head.status, etag, body.collect().await?.to_bytes()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The same table again and again, with the tag of the last time.
    Auditor,
    /// Somebody else each time.
    Stranger,
    Undeclared,
    Credentials,
    Ungoverned,
    List,
    Ambiguous,
}

impl Kind {
    fn of(number: usize) -> Self {
        match number % 10 {
            0..3 => Self::Auditor,
            3..5 => Self::Stranger,
            5 => Self::Undeclared,
            6 => Self::Credentials,
            7 => Self::Ungoverned,
            8 => Self::List,
            _ => Self::Ambiguous,
        }
    }

    fn is_governed(self) -> bool {
        !matches!(self, Self::Ungoverned | Self::List | Self::Credentials)
    }

    fn request(self, number: usize, tag: Option<&str>) -> Request<Body> {
        let stranger = format!("user-{number}");
        let mut headers = vec![("x-forwarded-user", "alice"), CAPABLE];
        let path = match self {
            Self::Auditor => {
                headers.extend(tag.map(|tag| ("if-none-match", tag)));
                ORDERS
            }
            Self::Stranger => {
                headers[0].1 = &stranger;
                ORDERS
            }
            Self::Undeclared => {
                headers.truncate(1);
                ORDERS
            }
            Self::Credentials => CREDENTIALS,
            Self::Ungoverned => COUNTRIES,
            Self::List => LIST,
            Self::Ambiguous => AMBIGUOUS,
        };
        request(Method::GET, path, &headers, Body::empty())
    }

    /// Holds an answer to what it must be, and says what it is.
    fn check(self, number: usize, status: StatusCode, body: &[u8], disturbed: bool) -> &'static str {
        let text = String::from_utf8_lossy(body);
        match (self, status.as_u16()) {
            (_, 502) if disturbed && self != Self::Ambiguous => {
                assert!(text.contains("BadGatewayException") && !text.contains("metadata"), "{text}");
                "502 while the upstream was away"
            }
            (Self::Auditor, 200) => {
                assert!(filtered_by(body).is_some_and(|region| REGIONS.contains(&&*region)), "{text}");
                "200 restricted"
            }
            (Self::Auditor, 304) => "304",
            (Self::Stranger, 200) => {
                assert_eq!(filtered_by(body), Some(format!("user-{number}")));
                "200 restricted"
            }
            (Self::Undeclared, 406) | (Self::Ambiguous, 400) => {
                assert!(!text.contains("metadata"), "{text}");
                "refused"
            }
            (Self::Credentials | Self::List, 200) => "200 passed through",
            (Self::Ungoverned, 200) => {
                assert!(text.starts_with(r#"{"metadata-location""#), "{text}");
                "200 ungoverned"
            }
            _ => panic!("{self:?}: {status} {text}"),
        }
    }
}

/// The value that rows are held to by a load result.
fn filtered_by(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Loaded {
        read_restrictions: Option<Value>,
    }
    let loaded: Loaded = serde_json::from_slice(body).unwrap();
    let value = &loaded.read_restrictions?["required-row-filter"]["right"]["value"];
    value.as_str().map(str::to_owned)
}

/// Rewrites the governance file in the ways that editors and deployments do, until the load is over. Gives the
/// number of times, which is the version that it left there.
async fn rewrite_governance(load: Arc<Load>, file: PathBuf) -> usize {
    let pause = || tokio::time::sleep(Duration::from_millis(30));
    let mut version = 0;
    while !load.is_over() {
        version += 1;
        let text = governance(version);
        match version % 3 {
            0 => {
                let beside = file.with_extension("new");
                fs::write(&beside, text).unwrap();
                fs::rename(beside, &file).unwrap();
            }
            1 => {
                fs::write(&file, "").unwrap();
                pause().await;
                fs::write(&file, &text[..text.len() / 2]).unwrap();
                pause().await;
                fs::write(&file, text).unwrap();
            }
            _ => {
                fs::write(&file, "this is = = no TOML").unwrap();
                pause().await;
                fs::write(&file, text).unwrap();
            }
        }
        pause().await;
    }
    version
}

/// Takes the upstream away for a moment, again and again, until the load is over. Gives the number of times, and the
/// upstream that is there in the end.
async fn restart_upstream(load: Arc<Load>, mut upstream: Upstream, catalog: Catalog) -> (usize, Upstream) {
    let mut times = 0;
    while !load.is_over() {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(upstream.received());
        }
        let address = upstream.address;
        load.disturbances.fetch_add(1, Ordering::SeqCst);
        upstream.stop().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        upstream = start_upstream(address, &catalog).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        load.disturbances.fetch_add(1, Ordering::SeqCst);
        times += 1;
    }
    (times, upstream)
}

async fn start_upstream(address: SocketAddr, catalog: &Catalog) -> Upstream {
    let catalog = catalog.clone();
    Upstream::start_on(address, move |request| catalog.clone().answer(request)).await
}

/// The size of a process at one moment.
#[derive(Clone, Copy, Debug)]
struct Size {
    resident_kib: usize,
    open_files: usize,
}

impl Size {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
            open_files: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
        }
    }
}

/// Measures a process when a quarter of the load is through, and each quarter after that.
async fn measure(load: Arc<Load>, pid: u32) -> [Size; 4] {
    let mut sizes = [Size::of(pid); 4];
    for (quarter, size) in (1..).zip(&mut sizes) {
        while !load.is_through(quarter) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        *size = Size::of(pid);
    }
    sizes
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_shown_unrestricted_and_nothing_grows() {
    let catalog = Catalog::default();
    let upstream = start_upstream(SocketAddr::from(([127, 0, 0, 1], 0)), &catalog).await;
    let settings = format!(
        "[settings]\nupstream_timeout_ms = {}\ncache_bytes = {}\n",
        UPSTREAM_TIMEOUT.as_millis(),
        setting("GATEWAY_LOAD_CACHE_BYTES", CACHE_BYTES)
    );
    let mut gateway = Gateway::start(&upstream.url(), &settings).await;
    // Nobody is interested in that many decision events.
    let mut events = mem::replace(&mut gateway.stderr, mpsc::unbounded_channel().1);
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    let pid = gateway.child.id().unwrap();
    let load = Arc::new(Load {
        address: gateway.address,
        requests: setting("GATEWAY_LOAD_REQUESTS", 4_000),
        begun: Instant::now(),
        time: Duration::from_secs(setting("GATEWAY_LOAD_SECONDS", 60) as u64),
        sent: AtomicUsize::new(0),
        disturbances: AtomicUsize::new(0),
        answers: Mutex::default(),
        longest: Mutex::default(),
    });

    let idle = Size::of(pid);
    let rewriting = tokio::spawn(rewrite_governance(load.clone(), gateway.folder.join("governance.toml")));
    let restarting = tokio::spawn(restart_upstream(load.clone(), upstream, catalog));
    let measuring = tokio::spawn(measure(load.clone(), pid));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(load.clone().work());
    }
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    let took = load.begun.elapsed();
    let (quarters, last) = (measuring.await.unwrap(), Size::of(pid));
    let rewrites = rewriting.await.unwrap();
    let (restarts, upstream) = restarting.await.unwrap();

    let sent = load.sent.load(Ordering::Relaxed);
    println!(
        "{sent} requests in {took:.1?}, {rewrites} rewrites of the governance file, {restarts} restarts of the upstream"
    );
    for (answer, count) in load.answers.lock().unwrap().iter() {
        println!("  {count:>8}  {answer}");
    }
    let (longest, kind) = *load.longest.lock().unwrap();
    println!("longest answer {longest:.2?}, to {kind:?}");
    println!("size of the gateway: idle {idle:?}, after each quarter {quarters:?}, in the end {last:?}");

    assert!(rewrites > 0 && restarts > 0);
    assert!(last.resident_kib < quarters[0].resident_kib + GROWTH_KIB, "{quarters:?} {last:?}");
    assert!(last.open_files <= idle.open_files + 4 * WORKERS, "{idle:?} {last:?}");
    let region = REGIONS[rewrites % 2];
    gateway
        .eventually(|| gateway.orders("alice"), |answer| filtered_by(&answer.body).as_deref() == Some(region))
        .await;
    drop(upstream);
}

/// hyper reads small answers into the large buffer that a large one left it with, and a slice keeps a whole buffer alive.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn small_tables_are_not_kept_in_buffers_of_large_ones() {
    const SMALL: &str = r#"{"metadata-location":"s3://bucket/1.json","metadata":{"format-version":2,"current-schema-id":0,"schemas":[{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"region","type":"string","required":false},{"id":2,"name":"owner","type":"string","required":false},{"id":3,"name":"phone","type":"string","required":false}]}]}}"#;
    let large =
        load_result(1).replace(r#""config""#, &format!(r#""padding":"{}","config""#, "x".repeat(1 << 20)));
    let upstream = Upstream::start(move |request: Request<Incoming>| {
        let body = if request.uri().path() == ORDERS { SMALL.into() } else { large.clone() };
        async {
            let mut response = json(body);
            response.headers_mut().insert(header::ETAG, header::HeaderValue::from_static("\"1\""));
            response
        }
    })
    .await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let pid = gateway.child.id().unwrap();
    gateway.get(COUNTRIES, &[]).await;
    let before = Size::of(pid);
    for number in 0..300 {
        assert_eq!(gateway.get(COUNTRIES, &[]).await.status, 200);
        // Somebody else each time, so that each answer is kept for itself.
        let stranger = format!("user-{number}");
        let small = gateway.orders(&stranger).await;
        assert_eq!(filtered_by(&small.body), Some(stranger));
    }
    let after = Size::of(pid);
    println!("size of the gateway: before {before:?}, after {after:?}");
    assert!(after.resident_kib < before.resident_kib + GROWTH_KIB, "from {before:?} to {after:?}");
}
