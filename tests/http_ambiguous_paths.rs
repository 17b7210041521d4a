//! Paths that two routers could read differently never slip by: for every operation, hostile spelling and inner
//! service the restrictions are there, or the answer is not a 2xx.

mod support;

use http::Method;
use iceberg_read_restrictions::layer::RestrictedCommits;
use serde::Deserialize;
use support::{
    lenient::{Leniency, ignoring_case},
    strict::CREDENTIALS,
    *,
};
use tower::Layer;

#[derive(Deserialize)]
struct Spellings {
    spellings: Vec<Spelling>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Spelling {
    replace: Option<(String, String)>,
    #[serde(default)]
    prepend: String,
    #[serde(default)]
    append: String,
}

impl Spelling {
    /// The exact path spelled this way, if it has what is to be replaced.
    fn of(&self, path: &str) -> Option<String> {
        let path = match &self.replace {
            Some((from, to)) if path.contains(&**from) => path.replacen(&**from, to, 1),
            Some(_) => return None,
            None => path.to_owned(),
        };
        Some(format!("{}{path}{}", self.prepend, self.append))
    }
}

fn spellings() -> Vec<Spelling> {
    let spellings: Spellings = serde_json::from_str(include_str!("fixtures/http/spellings.json")).unwrap();
    assert!(spellings.spellings.len() > 100);
    spellings.spellings
}

const OPERATIONS: [(&str, &str); 8] = [
    ("GET", "/v1/namespaces/sales/tables/orders"),
    ("POST", "/v1/namespaces/sales/tables"),
    ("POST", "/v1/namespaces/sales/register"),
    ("GET", "/v1/namespaces/sales/tables/orders/credentials"),
    ("POST", "/v1/namespaces/sales/tables/orders/plan"),
    ("GET", "/v1/namespaces/sales/tables/orders/plan/7"),
    ("POST", "/v1/namespaces/sales/tables/orders/tasks"),
    ("POST", "/v1/namespaces/sales/tables/orders/sign"),
];

/// Operations that change a table, which `restricted_commits` refuses to restricted subjects.
const COMMITS: [(&str, &str); 2] =
    [("POST", "/v1/namespaces/sales/tables/orders"), ("POST", "/v1/transactions/commit")];

/// Each of some operations in every spelling, behind one of several mounts; another `turn` takes other mounts.
fn hostile_requests(operations: &[(&'static str, &str)], turn: usize) -> Vec<(&'static str, String, String)> {
    let mut requests = Vec::new();
    for &(method, exact) in operations {
        let mounts = [exact.to_owned(), format!("/api/catalog{exact}"), exact.replacen("v1", "v1/any", 1)];
        for (at, spelling) in spellings().into_iter().enumerate() {
            let mounted = &mounts[(turn + at) % mounts.len()];
            requests.extend(spelling.of(mounted).map(|path| (method, mounted.clone(), path)));
        }
    }
    requests
}

const NEW_TABLE: &str = r#"{"name":"orders","metadata-location":"s3://x","schema":{"type":"struct","fields":[
    {"id":1,"name":"id","required":true,"type":"long"},
    {"id":2,"name":"region","required":false,"type":"string"},
    {"id":3,"name":"owner","required":false,"type":"string"},
    {"id":4,"name":"phone","required":false,"type":"string"}]}}"#;

/// What must not reach a caller who declares nothing, and what must only reach others with their restrictions.
async fn assert_nothing_slips_by<S, R>(service: &S, method: &str, path: &str, says: &str)
where
    S: tower::Service<http::Request<axum::body::Body>, Response = http::Response<R>> + Clone,
    S::Error: std::fmt::Debug,
    R: http_body::Body<Data = bytes::Bytes>,
    R::Error: std::fmt::Debug,
{
    let body = if method == "POST" { NEW_TABLE } else { "" };
    let undeclared = send(service, request_with(method, path, "alice", &[], body)).await;
    if undeclared.status.is_success() {
        for given in ["format-version", "storage-credentials"] {
            assert!(!undeclared.text().contains(given), "{says}: {method} {path}: {undeclared:?}");
        }
    }
    let declared = send(service, request_with(method, path, "alice", &[CAPABLE], body)).await;
    declared.assert_closed("alice");
}

#[tokio::test]
async fn hostile_spellings_behind_a_strict_router() {
    let service = layer().build().layer(strict::router());
    for (method, exact, path) in (0..3).flat_map(|turn| hostile_requests(&OPERATIONS, turn)) {
        if path.parse::<http::Uri>().is_ok() {
            assert_nothing_slips_by(&service, method, &path, &exact).await;
        }
    }
}

#[tokio::test]
async fn hostile_spellings_behind_lenient_routers() {
    let mut refused = 0;
    for (turn, leniency) in Leniency::all().enumerate() {
        let service = leniency.service().behind(layer());
        for (method, exact, path) in hostile_requests(&OPERATIONS, turn) {
            if path.parse::<http::Uri>().is_err() {
                continue;
            }
            assert_nothing_slips_by(&service, method, &path, &format!("{leniency:?}: {exact}")).await;
            let parsed: Method = method.parse().unwrap();
            if leniency.answer(&parsed, &path).is_some() && !is_exact(&path) {
                let body = if method == "POST" { NEW_TABLE } else { "" };
                let answer = send(&service, request_with(method, &path, "alice", &[CAPABLE], body)).await;
                assert_eq!(answer.status, 400, "{leniency:?}: {method} {path}");
                assert_eq!(answer.refusal(), "ambiguous-path", "{leniency:?}: {method} {path}");
                refused += 1;
            }
        }
    }
    assert!(refused > 2000, "only {refused} spellings were ambiguous");
}

const TRANSACTION: &str =
    r#"{"table-changes":[{"identifier":{"namespace":["sales"],"name":"orders"},"updates":[]}]}"#;

/// However a commit is spelled, a restricted subject's never reaches a catalog that would take it for one.
#[tokio::test]
async fn hostile_spellings_of_commits_behind_lenient_routers() {
    let mut refused = 0;
    for (turn, leniency) in Leniency::all().enumerate() {
        let inner = leniency.service();
        let service = inner.behind(layer().restricted_commits(RestrictedCommits::Refuse));
        for (method, _, path) in hostile_requests(&COMMITS, turn) {
            if path.parse::<http::Uri>().is_err() {
                continue;
            }
            send(&service, request_with(method, &path, "alice", &[CAPABLE], TRANSACTION)).await;
            let commits = inner.take_seen().into_iter().filter(|seen| seen.method == Method::POST);
            for seen in commits {
                let segments = leniency.segments(seen.uri.path());
                assert!(!is_commit(&segments), "{leniency:?}: {path} committed to {segments:?}");
            }
            refused += usize::from(is_commit(&leniency.segments(&path)));
        }
    }
    assert!(refused > 1000, "only {refused} spellings were commits to somebody");
}

/// Whether a lenient catalog takes a POST for a commit to the governed table.
fn is_commit(segments: &[String]) -> bool {
    let lower: Vec<String> = segments.iter().map(|segment| ignoring_case(segment)).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let ends_as = |words: &[&str]| lower.ends_with(words);
    ends_as(&["namespaces", "sales", "tables", "orders"]) || ends_as(&["transactions", "commit"])
}

/// Whether the fixed parts of a path are spelled as they must be; names may be encoded.
fn is_exact(path: &str) -> bool {
    let leads = ["/v1", "/v1/any", "/api/catalog/v1"]
        .map(|lead| [format!("{lead}/namespaces/"), format!("{lead}/namespaces/namespaces/")]);
    leads.iter().flatten().any(|lead| {
        let Some(rest) = path.strip_prefix(&**lead) else { return false };
        let segments: Vec<&str> = rest.split('/').collect();
        let plain_name = |name: &str| {
            let decoded = percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned();
            !name.is_empty() && !decoded.contains([';', '/', '\\', '\0', '%', '\u{fffd}'])
        };
        // What an id is made of is nobody's business, as long as it is one segment to everybody.
        let plain_id =
            |id: &str| id.starts_with('7') && plain_name(&id.replace("%2F", "").replace("%5C", ""));
        match &*segments {
            [ns, "tables" | "register"] => plain_name(ns),
            [ns, "tables", table] => plain_name(ns) && plain_name(table),
            [ns, "tables", table, "credentials" | "plan" | "tasks" | "sign"] => {
                plain_name(ns) && plain_name(table)
            }
            [ns, "tables", table, "plan", id] => plain_name(ns) && plain_name(table) && plain_id(id),
            _ => false,
        }
    })
}

#[tokio::test]
async fn exact_spellings_are_served() {
    let service = layer().build().layer(strict::router());
    for (method, exact) in OPERATIONS {
        let body = if method == "POST" { NEW_TABLE } else { "" };
        let answer = send(&service, request_with(method, exact, "alice", &[CAPABLE], body)).await;
        assert_eq!(answer.status, 200, "{method} {exact}: {answer:?}");
        match answer.text() {
            CREDENTIALS => {}
            _ => assert_eq!(answer.restrictions(), restrictions_of("alice"), "{method} {exact}"),
        }
    }
}

#[tokio::test]
async fn an_ambiguous_request_never_reaches_the_inner_service() {
    let inner = Inner::table();
    let service = inner.behind(layer());
    for path in [
        "//v1/namespaces/sales/tables/orders",
        "/v1/namespaces/sales/tables/orders;x",
        "/v1/namespaces/sales/tables/%ff",
    ] {
        let answer = send(&service, load(path, "alice")).await;
        assert_eq!((answer.status.as_u16(), &*answer.refusal()), (400, "ambiguous-path"), "{path}");
    }
    assert!(inner.take_seen().is_empty());
}

#[tokio::test]
async fn a_load_result_to_a_request_that_nobody_recognised_is_refused() {
    let service = Inner::table().behind(layer());
    for (method, path) in [
        ("PUT", "/v1/namespaces/sales/tables/orders"),
        ("FETCH", "/v1/namespaces/sales/tables/orders"),
        ("get", "/v1/namespaces/sales/tables/orders"),
        ("GET", "/v1/namespaces/sales/tables/orders/metadata"),
        ("GET", "/v1/namespaces/sales/tables/"),
        ("GET", "/v1/namespaces/sales/iceberg-tables/orders"),
        ("GET", "/v1/namespaces/a/b/sales/tables/orders"),
        ("DELETE", "/v1/namespaces/sales/tables"),
    ] {
        let answer = send(&service, request(method, path, "alice", &[CAPABLE])).await;
        assert_eq!(
            (answer.status.as_u16(), &*answer.refusal()),
            (502, "upstream-invalid"),
            "{method} {path}"
        );
    }
}

/// What comes of one answer to a request that nobody recognised.
async fn unrecognised(response: http::Response<axum::body::Body>) -> Answer {
    let response = std::sync::Mutex::new(Some(response));
    let inner = Inner::new(move |_| response.lock().unwrap().take().expect("one request"));
    let path = "/v1/namespaces/sales/tables/orders/unknown";
    send(&inner.behind(layer().max_body_bytes(4096)), request("GET", path, "alice", &[])).await
}

fn answer_with(
    name: &'static str,
    value: &'static str,
    body: impl Into<axum::body::Body>,
) -> http::Response<axum::body::Body> {
    let mut response = table_response(body);
    response.headers_mut().insert(name, value.parse().unwrap());
    response
}

#[tokio::test]
async fn answers_that_could_hide_a_load_result_are_refused() {
    let large = || format!(r#"{{"x":"{}"}}"#, "x".repeat(5000));
    for (says, response) in [
        ("compressed", answer_with("content-encoding", "gzip", "{}")),
        ("too large", table_response(large())),
        ("too large, of another type", answer_with("content-type", "text/html", large())),
        ("plain text", answer_with("content-type", "text/plain", TABLE)),
        ("bytes", answer_with("content-type", "application/octet-stream", format!(" \n{TABLE}"))),
        ("a kind of JSON", answer_with("content-type", "application/vnd.x+JSON; charset=utf-8", TABLE)),
        ("a byte order mark", table_response(format!("\u{feff}{TABLE}"))),
    ] {
        let answer = unrecognised(response).await;
        assert_eq!((answer.status.as_u16(), &*answer.refusal()), (502, "upstream-invalid"), "{says}");
    }
}

#[tokio::test]
async fn other_answers_to_what_nobody_recognised_pass() {
    let answer = unrecognised(table_response(r#"{"snapshots":[]}"#)).await;
    assert_eq!(
        (answer.status.as_u16(), answer.text(), answer.etag()),
        (200, r#"{"snapshots":[]}"#, "\"inner-1\"")
    );
    let large = answer_with("content-type", "application/octet-stream", "x".repeat(5000));
    assert_eq!(unrecognised(large).await.body.len(), 5000);
    assert_eq!(unrecognised(status(404)).await.status, 404);
    assert_eq!(unrecognised(status(204)).await.status, 204);
}
