//! Every failure is closed: an Iceberg error body, and not one byte of the inner answer or of the governance.

mod support;

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{BoxError, body::Body};
use futures_util::stream;
use http::{Response, header, request::Parts};
use iceberg_read_restrictions::{
    identity::{Directory, IdentitySource, Memberships, Subject},
    layer::{Decision, LayerBuilder, ReadRestrictionsLayer, RefusalCode, RestrictedCommits},
    policy::{EffectivePolicies, InMemoryGovernance, PolicySource, TableRequest},
    resolve::Outcome,
    source::{BoxFuture, Revision, SourceError},
};
use support::*;
use tower::{Layer, ServiceExt, util::MapResult};

/// How a step of a source goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Error,
    Hangs,
    Panics,
    PanicsLater,
    /// Another revision than the other half of the identity.
    Inconsistent,
}

const FAULTS: [Fault; 6] =
    [Fault::None, Fault::Error, Fault::Hangs, Fault::Panics, Fault::PanicsLater, Fault::Inconsistent];

/// The usual sources, with faults.
#[derive(Clone)]
struct Faulty {
    governance: InMemoryGovernance,
    directory: Directory,
    policies: Arc<Mutex<Fault>>,
    subject: Arc<Mutex<Fault>>,
    memberships: Arc<Mutex<Fault>>,
}

impl Faulty {
    fn new() -> Self {
        let governance = governance();
        let directory = directory(&governance);
        let none = || Arc::new(Mutex::new(Fault::None));
        Self { governance, directory, policies: none(), subject: none(), memberships: none() }
    }

    fn layer(&self) -> LayerBuilder {
        ReadRestrictionsLayer::builder(self.clone(), self.clone())
            .catalog("prod")
            .source_timeout(Duration::from_millis(20))
    }
}

/// Goes wrong before or while `answer` is awaited.
fn with_fault<'a, T: Send + 'a>(
    fault: Fault,
    answer: BoxFuture<'a, Result<T, SourceError>>,
) -> BoxFuture<'a, Result<T, SourceError>> {
    assert!(fault != Fault::Panics, "metadata secret_filter: a panic before the future");
    Box::pin(async move {
        match fault {
            Fault::Error => Err(SourceError::new("metadata secret_filter: an error")),
            Fault::PanicsLater => panic!("metadata secret_filter: a panic in the future"),
            Fault::Hangs => std::future::pending().await,
            Fault::None | Fault::Inconsistent | Fault::Panics => answer.await,
        }
    })
}

impl PolicySource for Faulty {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        let fault = *self.policies.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        with_fault(fault, self.governance.effective_policies(request))
    }
}

impl IdentitySource for Faulty {
    fn subject(&self, request: &Parts) -> BoxFuture<'static, Result<Option<Subject>, SourceError>> {
        let fault = *self.subject.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let subject = self.directory.subject(request);
        with_fault(fault, subject)
    }

    fn memberships<'a>(
        &'a self,
        subject: &'a Subject,
        groups: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Memberships, SourceError>> {
        let fault = *self.memberships.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let answer = self.directory.memberships(subject, groups);
        with_fault(
            fault,
            Box::pin(async move {
                let answer = answer.await?;
                if fault != Fault::Inconsistent {
                    return Ok(answer);
                }
                let answers: Vec<_> = answer.iter().map(|(group, is)| (group.to_owned(), is)).collect();
                Ok(Memberships::new(Revision::new("another"), answers))
            }),
        )
    }
}

fn expected(fault: Fault) -> (u16, &'static str) {
    match fault {
        Fault::Panics | Fault::PanicsLater => (500, "internal-error"),
        _ => (503, "source-unavailable"),
    }
}

#[tokio::test]
async fn each_fault_of_a_source_is_an_error_and_the_next_request_works() {
    let faulty = Faulty::new();
    let service = Inner::table().behind(faulty.layer());
    for step in [&faulty.policies, &faulty.subject, &faulty.memberships] {
        for fault in FAULTS.into_iter().filter(|fault| *fault != Fault::None) {
            if fault == Fault::Inconsistent && !Arc::ptr_eq(step, &faulty.memberships) {
                continue;
            }
            *step.lock().unwrap() = fault;
            let answer = send(&service, load(ORDERS, "alice")).await;
            let (status, code) = expected(fault);
            assert_eq!((answer.status.as_u16(), &*answer.refusal()), (status, code), "{fault:?}");
            assert_eq!(answer.headers.contains_key(header::RETRY_AFTER), status == 503);

            *step.lock().unwrap() = Fault::None;
            let answer = send(&service, load(ORDERS, "alice")).await;
            assert_eq!(answer.restrictions(), restrictions_of("alice"), "after {fault:?}");
        }
    }
}

#[tokio::test]
async fn a_table_without_policies_needs_no_identity() {
    let faulty = Faulty::new();
    let service = Inner::table().behind(faulty.layer());
    *faulty.memberships.lock().unwrap() = Fault::Error;
    for fault in [Fault::Error, Fault::Hangs, Fault::PanicsLater] {
        *faulty.subject.lock().unwrap() = fault;
        assert_eq!(send(&service, load(OPEN, "alice")).await.text(), TABLE, "{fault:?}");
    }
}

#[tokio::test]
async fn a_policy_source_that_cannot_see_never_lets_anything_through() {
    let faulty = Faulty::new();
    let inner = Inner::table();
    let service = inner.behind(faulty.layer());
    *faulty.policies.lock().unwrap() = Fault::Error;
    for (method, path, body) in [
        ("GET", OPEN.to_owned(), ""),
        ("GET", format!("{OPEN}/credentials"), ""),
        ("POST", format!("{OPEN}/plan"), "{}"),
        ("POST", "/v1/namespaces/sales/tables".into(), "{\"name\":\"x\"}"),
        ("POST", "/v1/namespaces/sales/register".into(), "{\"name\":\"x\"}"),
    ] {
        let answer = send(&service, request_with(method, &path, "alice", &[CAPABLE], body)).await;
        assert_eq!(answer.refusal(), "source-unavailable", "{method} {path}");
        assert!(inner.take_seen().iter().all(|seen| seen.method == "GET"));
    }
    // A commit and HEAD pass, but their tag does not.
    for method in ["HEAD", "POST"] {
        let answer = send(&service, request_with(method, OPEN, "alice", &[], "")).await;
        assert_eq!((answer.status.as_u16(), answer.etag()), (200, ""), "{method}");
    }
}

#[tokio::test]
async fn a_panic_in_any_hook_is_closed() {
    let boom = |_: &Parts| -> bool { panic!("metadata: trust") };
    let service = Inner::table().behind(layer().trusted_readers(boom));
    assert_eq!(send(&service, load(ORDERS, "alice")).await.refusal(), "internal-error");
    assert_eq!(send(&service, request("GET", ORDERS, "alice", &[])).await.refusal(), "capability-required");
    let service = Inner::table().behind(layer().catalog_with(|_| panic!("metadata: catalog")));
    assert_eq!(send(&service, load(ORDERS, "alice")).await.refusal(), "internal-error");
    let service = Inner::table().behind(layer().decisions(|_: &Decision| panic!("metadata: decisions")));
    assert_eq!(send(&service, load(ORDERS, "alice")).await.refusal(), "internal-error");
    assert_eq!(send(&service, load(OPEN, "alice")).await.text(), TABLE);
}

#[tokio::test]
async fn errors_carry_the_request_id() {
    let service = Inner::table().behind(layer());
    let with_id = |id| request("GET", ORDERS, "alice", &[("x-request-id", id)]);
    let answer = send(&service, with_id("7f-3")).await;
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("7f-3"));
    let answer = send(&service, with_id("\"metadata\"")).await;
    assert!(!answer.text().contains("metadata"));
}

/// A small generator of its own, so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// An inner answer that may be wrong in every respect.
fn random_answer(seed: u64) -> Response<Body> {
    let mut random = Random(seed);
    let mut body = TABLE.to_owned();
    match random.below(12) {
        0 => body.truncate(random.below(TABLE.len())),
        1 => body = body.replacen("\"schemas\"", "\"schema\"", 1),
        2 => body = body.replacen("\"current-schema-id\": 1", "\"current-schema-id\": 9", 1),
        3 => body.push('x'),
        4 => body = body.replacen("\"config\"", "\"metadata\"", 1),
        _ => {}
    }
    let status = random.one_of(&[200, 200, 200, 200, 201, 206, 304, 404, 500]);
    if status >= 300 {
        body = r#"{"error":{}}"#.to_owned();
    }
    let breaks_off = status < 300 && random.below(8) == 0;
    let chunk = 1 + random.below(700);
    let chunks: Vec<Result<bytes::Bytes, std::io::Error>> = body
        .as_bytes()
        .chunks(chunk)
        .map(|chunk| Ok(bytes::Bytes::copy_from_slice(chunk)))
        .chain(breaks_off.then(|| Err(std::io::Error::other("metadata: broken"))))
        .collect();
    let mut response = table_response(Body::from_stream(stream::iter(chunks)));
    *response.status_mut() = status.try_into().unwrap();
    if random.below(8) == 0 {
        response.headers_mut().insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
    }
    if random.below(4) == 0 {
        response.headers_mut().remove(header::ETAG);
    }
    response
}

/// A random operation on a governed table: its method and path, its body, and whether it may ever be answered with
/// success where there is something to enforce.
fn random_operation(random: &mut Random) -> (&'static str, String, String, bool) {
    let name = random.one_of(&["orders", "orders", "broken"]);
    let path = format!("/v1/namespaces/sales/tables/{name}");
    let schema = r#"{"type":"struct","fields":[{"id":2,"name":"region","required":false,"type":"string"},
        {"id":3,"name":"owner","required":false,"type":"string"},{"id":4,"name":"phone","required":false,"type":"string"}]}"#;
    let new = format!(r#"{{"name":"{name}","schema":{schema}}}"#);
    let change = format!(r#"{{"identifier":{{"namespace":["sales"],"name":"{name}"}}}}"#);
    let exists = name == "orders";
    match random.below(12) {
        0 => ("POST", "/v1/namespaces/sales/tables".into(), new, exists),
        1 => ("POST", "/v1/namespaces/sales/register".into(), new, exists),
        2 => ("GET", format!("{path}/credentials"), String::new(), exists),
        3 => ("POST", format!("{path}/plan"), "{}".into(), exists),
        4 => ("POST", path, "{}".into(), false),
        5 => ("POST", "/v1/transactions/commit".into(), format!(r#"{{"table-changes":[{change}]}}"#), false),
        _ => ("GET", path, String::new(), exists),
    }
}

/// Each of the sources, of the hooks and the inner service fails now and then, in every operation.
#[tokio::test]
async fn random_failures_at_every_step_leak_nothing() {
    let faulty = Faulty::new();
    let hooks: [Arc<Mutex<Fault>>; 3] = std::array::from_fn(|_| Arc::new(Mutex::new(Fault::None)));
    let [catalog, trust, decisions] = hooks.clone();
    let panics = |hook: &Mutex<Fault>| {
        let fault = *hook.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        assert!(fault == Fault::None, "metadata secret_filter: a panic in a hook");
    };
    let layer = faulty
        .layer()
        .source_timeout(Duration::from_millis(1))
        .restricted_commits(RestrictedCommits::Refuse)
        .catalog_with(move |_| {
            panics(&catalog);
            Some("prod".into())
        })
        .trusted_readers(move |_: &Parts| {
            panics(&trust);
            true
        })
        .decisions(move |_: &Decision| panics(&decisions));
    let seed = Arc::new(AtomicU64::new(0));
    let (inner_seed, call_seed) = (seed.clone(), seed.clone());
    let inner = Inner::new(move |_| random_answer(inner_seed.load(Ordering::SeqCst)));
    let inner = MapResult::new(inner, move |result: Result<Response<Body>, Infallible>| {
        match Random(call_seed.load(Ordering::SeqCst) ^ 0xdead).below(16) {
            0 => Err(BoxError::from("metadata: the inner service is down")),
            _ => Ok(result?),
        }
    });
    let service = layer.build().layer(inner);

    let (mut successes, mut refusals, mut not_modified, mut down) = (0, 0, 0, 0);
    let mut tags: HashMap<String, &str> = HashMap::new();
    for number in 0..4000 {
        seed.store(number, Ordering::SeqCst);
        let mut random = Random(number ^ 0x5eed);
        for step in [&faulty.policies, &faulty.subject, &faulty.memberships] {
            let fault = if random.below(8) == 0 { random.one_of(&FAULTS) } else { Fault::None };
            *step.lock().unwrap() = fault;
        }
        for hook in &hooks {
            let fault = if random.below(24) == 0 { Fault::Panics } else { Fault::None };
            *hook.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = fault;
        }
        let (method, path, body, may_succeed) = random_operation(&mut random);
        let user = random.one_of(&["alice", "bob", ""]);
        let declares = random.below(4) > 0;
        let mut request = request_with(method, &path, user, if declares { &[CAPABLE] } else { &[] }, body);
        if let Some(tag) = tags.keys().nth(random.below(2 * tags.len().max(1))) {
            request.headers_mut().insert(header::IF_NONE_MATCH, tag.parse().unwrap());
        }
        let context = format!("seed {number}: {method} {path} {user}");
        let answer = match service.clone().oneshot(request).await {
            Ok(response) => Answer::of(response).await,
            Err(error) => {
                assert!(error.to_string().contains("is down"), "{context}");
                down += 1;
                continue;
            }
        };
        match answer.status.as_u16() {
            status if answer.status.is_success() => {
                assert!(may_succeed && declares && !user.is_empty(), "{context}: {status}");
                // A gate lets the inner service's answer through; the others carry restrictions.
                if !path.ends_with("/plan") && !path.ends_with("/credentials") {
                    assert_eq!(answer.restrictions(), restrictions_of(user), "{context}");
                    if method == "GET" {
                        tags.insert(answer.etag().to_owned(), user);
                    }
                }
                successes += 1;
            }
            304 => {
                assert_eq!(tags.get(answer.etag()), Some(&user), "{context}");
                assert!(declares && answer.body.is_empty(), "{context}");
                not_modified += 1;
            }
            404 | 500 if answer.headers.contains_key("x-inner") => {
                assert_eq!(answer.text(), r#"{"error":{}}"#, "{context}: the inner service's own error");
            }
            _ => {
                answer.refusal();
                refusals += 1;
            }
        }
    }
    let counts = [successes, refusals, not_modified, down];
    assert!(successes > 100 && refusals > 1000 && not_modified > 10 && down > 100, "{counts:?}");
}

#[tokio::test]
async fn decisions_tell_administrators_everything() {
    let decisions = Arc::new(Mutex::new(Vec::new()));
    let sink = decisions.clone();
    let service = Inner::table()
        .behind(layer().decisions(move |decision: &Decision| sink.lock().unwrap().push(decision.clone())));
    for (path, user) in [(ORDERS, "alice"), (ORDERS, "etl"), (ORDERS, ""), (BROKEN, "alice"), (OPEN, "alice")]
    {
        send(&service, request("GET", path, user, &[CAPABLE, ("x-request-id", "r-1")])).await;
    }
    let decisions = decisions.lock().unwrap();
    let [restricted, exempt, missing, broken] = &**decisions else { panic!("one for each governed load") };

    assert_eq!((restricted.outcome, restricted.status), (Outcome::Restricted, Some(200)));
    assert_eq!(restricted.subject.as_deref(), Some("alice"));
    let names: Vec<&str> = restricted.policies.iter().map(|name| &**name).collect();
    assert_eq!(names, ["secret_filter", "secret_mask"]);
    assert!(restricted.signature.as_deref().is_some_and(|signature| signature.starts_with("sha256:")));
    assert!(restricted.revisions.policy.is_some() && restricted.revisions.identity.is_some());
    assert_eq!(restricted.request_id.as_deref(), Some("r-1"));

    assert_eq!(exempt.outcome, Outcome::Unrestricted);
    assert_eq!(exempt.exempt.len(), 2);
    assert_eq!((missing.code, missing.status), (Some(RefusalCode::SubjectMissing), Some(403)));
    assert_eq!(broken.code, Some(RefusalCode::RestrictionsUnresolvable));
    assert!(broken.reason.as_deref().is_some_and(|reason| reason.contains("no_such_column")));

    let json = serde_json::to_value(restricted).unwrap();
    assert_eq!(json["outcome"], "restricted");
    assert_eq!(json["operation"], "loadTable");
    assert_eq!(
        json["table"],
        serde_json::json!({"catalog": "prod", "namespace": ["sales"], "table": "orders"})
    );
    assert_eq!(serde_json::to_value(missing).unwrap()["code"], "subject-missing");
}

#[tokio::test]
async fn report_only_policies_are_told_and_not_sent() {
    let text = include_str!("fixtures/http/governance.toml")
        .replace("enabled = true", "enabled = true\nenforce = false");
    let governance = governance_of(&text);
    let decisions = Arc::new(Mutex::new(Vec::new()));
    let sink = decisions.clone();
    let layer = ReadRestrictionsLayer::builder(governance.clone(), directory(&governance))
        .catalog("prod")
        .decisions(move |decision: &Decision| sink.lock().unwrap().push(decision.clone()));
    let service = Inner::table().behind(layer);
    for (path, user) in [(ORDERS, "alice"), (ORDERS, "etl"), (BROKEN, "alice"), (ORDERS, "")] {
        let answer = send(&service, request("GET", path, user, &[])).await;
        assert_eq!((answer.text(), answer.etag()), (TABLE, "\"inner-1\""), "{path} {user}");
    }
    let decisions = decisions.lock().unwrap();
    let [reported, exempt, broken, missing] = &**decisions else { panic!("one for each") };
    assert_eq!(reported.outcome, Outcome::Ungoverned);
    // Each by itself what the two would have been together, had they been enforced.
    let enforced = restrictions_of("alice");
    let alone = |member: &str| serde_json::json!({member: enforced[member]});
    assert_eq!(
        serde_json::to_value(&reported.report_only).unwrap(),
        serde_json::json!([
            {"policy": "secret_filter", "read-restrictions": alone("required-row-filter"), "error": null},
            {"policy": "secret_mask", "read-restrictions": alone("required-column-projections"), "error": null},
        ])
    );
    assert!(
        exempt.report_only.iter().all(|report| (&report.read_restrictions, &report.error) == (&None, &None))
    );
    for unresolvable in [&broken.report_only[..], &missing.report_only] {
        assert!(unresolvable.iter().all(|report| report.read_restrictions.is_none()), "{unresolvable:?}");
    }
    assert!(broken.report_only[0].error.as_deref().unwrap().contains("no_such_column"));
    assert!(missing.report_only.iter().all(|report| report.error.is_some()));
}

#[tokio::test]
async fn groups_that_only_report_only_policies_name_never_refuse_a_load() {
    let text = include_str!("fixtures/http/governance.toml")
        .replacen(r#"is_group_member("auditors")"#, r#"session_user() == "alice""#, 1)
        .replace("\"secret_mask\"", "\"secret_mask\"\nenforce = false");
    for fault in [Fault::None, Fault::Error, Fault::Hangs, Fault::Inconsistent] {
        let governance = governance_of(&text);
        let directory = directory(&governance);
        let faulty = Faulty { governance, directory, ..Faulty::new() };
        *faulty.memberships.lock().unwrap() = fault;
        let decisions = Arc::new(Mutex::new(Vec::new()));
        let sink = decisions.clone();
        let layer =
            faulty.layer().decisions(move |decision: &Decision| sink.lock().unwrap().push(decision.clone()));
        let answer = send(&Inner::table().behind(layer), load(ORDERS, "alice")).await;
        assert_eq!(answer.status, 200, "{fault:?}");
        let filter = restrictions_of("alice")["required-row-filter"].clone();
        assert_eq!(answer.restrictions(), serde_json::json!({"required-row-filter": filter}), "{fault:?}");
        let decisions = decisions.lock().unwrap();
        let [decision] = &**decisions else { panic!("one decision") };
        let [report] = &*decision.report_only else { panic!("one report") };
        assert_eq!(report.error.is_none(), fault == Fault::None, "{fault:?}");
    }
}
