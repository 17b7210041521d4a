//! A layer with caches answers exactly as one without.

mod support;

use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, header, request::Parts};
use iceberg_read_restrictions::{
    ReadRestrictionsLayer,
    identity::{Directory, IdentitySource, Membership, Memberships, RequestUser, Subject},
    layer::{LayerBuilder, ReadRestrictionsService, RequestBody, RestrictedCommits},
    policy::{
        Columns, EffectivePolicies, Format, Governance, InMemoryGovernance, PolicySource, TableRequest,
    },
    resolve::UpstreamRestrictions,
    source::{BoxFuture, Revision, SourceError},
};
use support::*;
use tokio::sync::oneshot;
use tower::{Layer, Service};

// ---- with and without -------------------------------------------------------------------------------

/// A reproducible stream of choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

const DELEGATION: &str = "x-iceberg-access-delegation";

/// What the inner service sends, until somebody changes it.
#[derive(Clone, Default)]
struct Table {
    version: usize,
    /// Whether a column got another name, and whether two schemas are listed.
    renamed: bool,
    credential: usize,
    upstream: Option<&'static str>,
    has_tag: bool,
    padding: usize,
}

const UPSTREAM: [Option<&str>; 4] = [
    None,
    Some("{}"),
    Some(r#"{"required-column-projections":[{"field-id":1,"action":"replace-with-null"}]}"#),
    Some(r#"{"required-column-projections":[{"field-id":4,"action":"show-last-4"}]}"#),
];

impl Table {
    fn answer(&self, seen: &Seen) -> Response<Body> {
        let tag = format!("\"v{}-{}-{:?}\"", self.version, self.renamed, self.upstream.map(str::len));
        let tag = tag.replace(['(', ')'], "-");
        let is_known = self.has_tag
            && seen.headers.get_all(header::IF_NONE_MATCH).iter().any(|line| {
                line.to_str().expect("visible ASCII").split(", ").any(|candidate| candidate == tag)
            });
        let mut response = match is_known {
            true => Response::builder().status(304).header("x-inner", "kept").body(Body::empty()).unwrap(),
            false => table_response(self.body()),
        };
        response.headers_mut().remove(header::ETAG);
        if self.has_tag {
            response.headers_mut().insert(header::ETAG, tag.parse().unwrap());
        }
        response
    }

    fn body(&self) -> String {
        let mut body = TABLE
            .replace("00002-a", &format!("{:05}-a", self.version))
            .replace("secret-credential", &format!("secret-credential-{}", self.credential));
        if self.renamed {
            body = body.replace("\"phone\"", "\"telephone\"");
        }
        if let Some(upstream) = self.upstream {
            body = body.replacen('{', &format!("{{\"read-restrictions\": {upstream},"), 1);
        }
        let padding = "x".repeat(self.padding);
        body.replacen("\"snapshots\": [", &format!("\"padding\": \"{padding}\", \"snapshots\": ["), 1)
    }
}

/// Policies that differ by a little.
fn models() -> Vec<String> {
    let text = include_str!("fixtures/http/governance.toml");
    vec![
        text.to_owned(),
        text.replace("\"US\"", "\"EU\""),
        text.replace("show-last-4", "mask-alphanum"),
        text.replace("auditors = [\"alice\"]", "auditors = [\"bob\"]"),
        text.replace("users = [\"etl\"]", "users = [\"alice\"]"),
        text.replace("enabled = true", "enabled = true\nenforce = false"),
        text.replace("column = \"phone\"", "column = \"region\""),
        "[groups]\nx = []".to_owned(),
    ]
}

/// Answers as the model in force does, in an object of its own each time, and all under one revision.
#[derive(Clone)]
struct OneRevision(InMemoryGovernance);

impl PolicySource for OneRevision {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        assert!(matches!(request.columns, Columns::Known(_) | Columns::Unknown));
        let answer = (*self.0.current().effective_policies_of(request.table)).clone();
        Box::pin(std::future::ready(Ok(Arc::new(EffectivePolicies {
            revision: Revision::new("1"),
            ..answer
        }))))
    }
}

/// The same sequence of requests and changes, once through each layer.
async fn compare(seed: u64, layers: impl Fn(&InMemoryGovernance) -> [LayerBuilder; 2], honest: bool) {
    let mut choices = Choices(seed);
    let models: Vec<String> = models();
    let governance = governance_of(&models[0]);
    let table = Arc::new(Mutex::new(Table { has_tag: true, ..Table::default() }));
    let script = table.clone();
    let inner = Inner::new(move |seen| script.lock().unwrap().answer(seen));
    let [cached, plain] = layers(&governance).map(|layer| inner.behind(layer));
    let mut tags: Vec<String> = Vec::new();
    for step in 0..150 {
        match choices.below(10) {
            0 => governance
                .replace(Governance::parse(choices.one_of::<String>(&models), Format::Toml).unwrap()),
            1 => table.lock().unwrap().version += 1,
            2 => table.lock().unwrap().renamed ^= true,
            3 => table.lock().unwrap().credential += 1,
            4 => table.lock().unwrap().upstream = *choices.one_of(&UPSTREAM),
            5 => table.lock().unwrap().has_tag ^= true,
            6 => table.lock().unwrap().padding = *choices.one_of(&[0, 40_000, 100_000]),
            _ => {}
        }
        let user = *choices.one_of(&["alice", "bob", "etl", "root", ""]);
        let path = *choices.one_of(&[ORDERS, ORDERS, ORDERS, OPEN, "/v1/namespaces/sales/tables/%6frders"]);
        let query = *choices.one_of(&["", "", "?snapshots=refs"]);
        let gate = choices.below(8) == 0;
        let path = format!("{path}{}{query}", if gate { "/credentials" } else { "" });
        let mut headers = vec![];
        if choices.below(8) != 0 {
            headers.push(CAPABLE);
        }
        if choices.below(4) == 0 {
            headers.push(("x-iceberg-access-delegation", "vended-credentials"));
        }
        let tag = (!tags.is_empty()).then(|| choices.one_of(&tags).clone());
        if let Some(tag) = tag.as_deref().filter(|_| choices.below(2) == 0) {
            headers.push(("if-none-match", tag));
        }
        let with = send(&cached, request("GET", &path, user, &headers)).await;
        let without = send(&plain, request("GET", &path, user, &headers)).await;
        let says = format!("seed {seed}, step {step}: {user:?} {path} {headers:?}");
        assert_eq!(with.status, without.status, "{says}");
        assert_eq!(with.headers, without.headers, "{says}");
        assert_eq!(with.body, without.body, "{says}");
        if honest && path == ORDERS && ["alice", "bob"].contains(&user) {
            tags.extend(Some(with.etag().to_owned()).filter(|tag| !tag.is_empty()));
        }
    }
}

#[tokio::test]
async fn a_layer_with_caches_answers_as_one_without() {
    for seed in 0..12 {
        let layers = |governance: &InMemoryGovernance| {
            [64 << 20, 0].map(|bytes| {
                ReadRestrictionsLayer::builder(governance.clone(), directory(governance))
                    .catalog("prod")
                    .upstream_restrictions(UpstreamRestrictions::Conjoin)
                    .cache_bytes(bytes)
            })
        };
        compare(seed, layers, true).await;
    }
}

/// Entries come and go all the time.
#[tokio::test]
async fn a_layer_with_small_caches_answers_as_one_without() {
    for seed in 100..106 {
        let layers = |governance: &InMemoryGovernance| {
            [10 << 10, 0].map(|bytes| {
                ReadRestrictionsLayer::builder(governance.clone(), directory(governance))
                    .catalog("prod")
                    .cache_bytes(bytes)
            })
        };
        compare(seed, layers, true).await;
    }
}

/// A revision that stays the same while the policies change is a mistake of the source, and tags that were given out
/// cannot tell; but no load is answered with what was resolved from other policies.
#[tokio::test]
async fn no_revision_is_believed() {
    for seed in 200..206 {
        let layers = |governance: &InMemoryGovernance| {
            [64 << 20, 0].map(|bytes| {
                ReadRestrictionsLayer::builder(OneRevision(governance.clone()), directory(governance))
                    .catalog("prod")
                    .cache_bytes(bytes)
            })
        };
        compare(seed, layers, false).await;
    }
}

/// Tenants with one path and a catalog each, which a header names.
#[tokio::test]
async fn catalogs_that_share_a_path_share_nothing_else() {
    let text = include_str!("fixtures/http/governance.toml");
    let both = text.replace(
        "catalog = \"prod\", namespace = [\"sales\"], table = \"orders\"",
        "catalog = \"one\", namespace = [\"sales\"], table = \"orders\"",
    );
    let governance = governance_of(&both);
    let layer = ReadRestrictionsLayer::builder(governance.clone(), directory(&governance))
        .catalog_with(|request| Some(request.headers.get("x-tenant")?.to_str().ok()?.to_owned()));
    let service = Inner::table().behind(layer);
    for _ in 0..2 {
        for (tenant, governed) in [("one", true), ("two", false), ("", false)] {
            let answer =
                send(&service, request("GET", ORDERS, "alice", &[CAPABLE, ("x-tenant", tenant)])).await;
            assert_eq!(answer.restrictions().is_object(), governed, "{tenant}");
        }
    }
}

/// Knows users by a header and says of their one group what the test says, all under one revision.
#[derive(Clone)]
struct OneIdentity(Arc<Mutex<Membership>>);

impl IdentitySource for OneIdentity {
    fn subject(&self, request: &Parts) -> BoxFuture<'static, Result<Option<Subject>, SourceError>> {
        let name = request.headers.get("x-user").map(|name| name.to_str().unwrap().to_owned());
        Box::pin(std::future::ready(Ok(name.map(|name| Subject::new(name, Revision::new("1"))))))
    }

    fn memberships<'a>(
        &'a self,
        _: &'a Subject,
        groups: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Memberships, SourceError>> {
        let answer = *self.0.lock().unwrap();
        let answers = groups.iter().map(|group| (group.to_string(), answer));
        Box::pin(std::future::ready(Ok(Memberships::new(Revision::new("1"), answers))))
    }
}

/// A source that changes its mind without another revision is noticed, for callers that declare and for those that
/// do not.
#[tokio::test]
async fn no_identity_revision_is_believed() {
    let answer = Arc::new(Mutex::new(Membership::Member));
    let layer = ReadRestrictionsLayer::builder(governance(), OneIdentity(answer.clone())).catalog("prod");
    let service = Inner::table().behind(layer);
    for _ in 0..2 {
        for (membership, filter) in [(Membership::Member, "\"US\""), (Membership::NotMember, "\"alice\"")] {
            *answer.lock().unwrap() = membership;
            let loaded = send(&service, load(ORDERS, "alice")).await;
            assert!(loaded.restrictions()["required-row-filter"].to_string().contains(filter), "{loaded:?}");
            let tag = [CAPABLE, ("if-none-match", loaded.etag())];
            assert_eq!(send(&service, request("GET", ORDERS, "alice", &tag)).await.status, 304);
            let undeclared = send(&service, request("GET", ORDERS, "alice", &tag[1..])).await;
            assert_eq!(undeclared.refusal(), "capability-required");
        }
        *answer.lock().unwrap() = Membership::UnknownGroup;
        assert_eq!(send(&service, load(ORDERS, "alice")).await.refusal(), "restrictions-unresolvable");
    }
}

/// Each caller, query and delegation has a place of its own, where nobody else's load puts anything: an inner 304 is
/// enough for each of them, however many there are.
#[tokio::test]
async fn what_is_known_for_one_caller_query_and_delegation_is_not_overwritten_by_others() {
    let inner = Inner::new(|seen| {
        let of = [seen.header("x-user"), seen.uri.query().unwrap_or("-"), seen.header(DELEGATION)].join("/");
        let tag = format!("\"{of}\"");
        let mut response = match seen.header(header::IF_NONE_MATCH) == tag {
            true => status(304),
            false => table_response(TABLE.replace("secret-credential", &of)),
        };
        response.headers_mut().insert(header::ETAG, tag.parse().unwrap());
        response
    });
    let service = inner.behind(layer());
    let mut requests = Vec::new();
    for user in ["alice", "bob", "Alice"] {
        for path in [ORDERS.to_owned(), format!("{ORDERS}?"), format!("{ORDERS}?snapshots=refs")] {
            for delegation in [&[][..], &[(DELEGATION, "")], &[(DELEGATION, "vended-credentials")]] {
                requests.push((user, path.clone(), [&[CAPABLE], delegation].concat()));
            }
        }
    }
    let mut tags = Vec::new();
    for (user, path, headers) in &requests {
        tags.push(send(&service, request("GET", path, user, headers)).await.etag().to_owned());
    }
    for ((user, path, headers), tag) in requests.iter().zip(&tags) {
        inner.take_seen();
        let headers = [headers, &[("if-none-match", &**tag)][..]].concat();
        let answer = send(&service, request("GET", path, user, &headers)).await;
        assert_eq!((answer.status.as_u16(), answer.etag()), (304, &**tag), "{user} {path} {headers:?}");
        assert_eq!(inner.take_seen().len(), 1, "{user} {path} {headers:?}");
        let undeclared = send(&service, request("GET", path, user, &headers[1..])).await;
        assert_eq!(undeclared.refusal(), "capability-required");
        assert_eq!(inner.take_seen().len(), 1, "{user} {path} {headers:?}");
    }
}

/// One policy for everything in the catalog, and another one for a table in a namespace of two levels.
const TWO_LEVELS: &str = r#"
    [[tags]]
    name = "everything"

    [[tags]]
    name = "phones"

    [[policies]]
    name = "all_rows"
    policyType = "system_row_filter"
    enabled = true
    content.expression = 'filter := true'
    tags = [{ tag = "everything" }]

    [[policies]]
    name = "phone_masked"
    policyType = "system_column_mask"
    enabled = true
    content.expression = 'mask := action("replace-with-null")'
    tags = [{ tag = "phones" }]

    [[assignments]]
    object = { catalog = "prod" }
    tag = "everything"

    [[assignments]]
    object = { catalog = "prod", namespace = ["sales", "eu"], table = "orders", column = "phone" }
    tag = "phones"
"#;

/// What a transaction calls a table, and how a path that looks the same is read, are two things.
#[tokio::test]
async fn a_transaction_does_not_say_how_a_path_is_read() {
    let path = "/v1/namespaces/sales.eu/tables/orders";
    let governance = governance_of(TWO_LEVELS);
    let layer = ReadRestrictionsLayer::builder(governance.clone(), directory(&governance))
        .catalog("prod")
        .namespace_separators(["."])
        .restricted_commits(RestrictedCommits::Refuse);
    let service = Inner::table().behind(layer);
    let identifier = serde_json::json!({"namespace": ["sales.eu"], "name": "orders"});
    let body = serde_json::json!({"table-changes": [{"identifier": identifier}]}).to_string();
    send(&service, request_with("POST", "/v1/transactions/commit", "alice", &[], body)).await;
    let answer = send(&service, load(path, "alice")).await;
    assert!(answer.restrictions().is_object(), "{answer:?}");
}

// ---- the order of events ----------------------------------------------------------------------------

/// An inner service that answers each call when the test says so.
#[derive(Clone, Default)]
struct Held {
    calls: Arc<Mutex<Vec<oneshot::Sender<Response<Body>>>>>,
}

impl Held {
    /// Answers the call that is waiting as the first, second, ….
    fn answer(&self, call: usize, response: Response<Body>) {
        let mut calls = self.calls.lock().unwrap();
        let sender = std::mem::replace(&mut calls[call], oneshot::channel().0);
        drop(sender.send(response));
    }

    fn behind(&self, layer: LayerBuilder) -> ReadRestrictionsService<Self> {
        layer.build().layer(self.clone())
    }
}

impl<B: Send + 'static> Service<Request<RequestBody<B>>> for Held {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<RequestBody<B>>) -> Self::Future {
        let (sender, receiver) = oneshot::channel();
        self.calls.lock().unwrap().push(sender);
        Box::pin(async move { Ok(receiver.await.unwrap_or_else(|_| status(500))) })
    }
}

fn version(version: usize) -> Response<Body> {
    let table = Table { version, has_tag: true, ..Table::default() };
    let seen = Seen {
        method: http::Method::GET,
        uri: ORDERS.parse().unwrap(),
        headers: Default::default(),
        body: Bytes::new(),
    };
    table.answer(&seen)
}

/// What a 304 to a tag is answered from is what the load that began last has brought, not the one that ended last.
#[tokio::test]
async fn a_slow_load_does_not_overwrite_what_came_after_it() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let held = Held::default();
        let service = held.behind(layer());
        let mut loads: Vec<_> = (0..3).map(|_| Box::pin(send(&service, load(ORDERS, "alice")))).collect();
        for load in &mut loads {
            assert!(futures_util::poll!(load.as_mut()).is_pending());
        }
        let mut tags = [const { String::new() }; 3];
        for at in order {
            held.answer(at, version(at));
            tags[at] = loads[at].as_mut().await.etag().to_owned();
        }
        // Only the last one to begin is known: an inner 304 to its tag is enough.
        for (at, tag) in tags.iter().enumerate() {
            let before = held.calls.lock().unwrap().len();
            let mut load =
                Box::pin(send(&service, request("GET", ORDERS, "alice", &[CAPABLE, ("if-none-match", tag)])));
            assert!(futures_util::poll!(load.as_mut()).is_pending());
            held.answer(before, status(304));
            match (at, futures_util::poll!(load.as_mut())) {
                (2, Poll::Ready(answer)) => assert_eq!(answer.status, 304),
                (0 | 1, Poll::Pending) => {}
                (at, other) => panic!("{order:?}: load {at} is {other:?}"),
            }
        }
    }
}

/// Policies that change while a load is under way are those of the answer, and of every answer after it.
#[tokio::test]
async fn a_load_under_way_while_the_policies_change_does_not_bring_the_old_ones_back() {
    let governance = governance();
    let layer = ReadRestrictionsLayer::builder(governance.clone(), directory(&governance)).catalog("prod");
    let held = Held::default();
    let service = held.behind(layer);
    let mut early = Box::pin(send(&service, load(ORDERS, "alice")));
    assert!(futures_util::poll!(early.as_mut()).is_pending());
    let before = {
        let mut load = Box::pin(send(&service, load(ORDERS, "alice")));
        assert!(futures_util::poll!(load.as_mut()).is_pending());
        held.answer(1, version(0));
        load.await
    };
    assert_eq!(before.restrictions(), restrictions_of("alice"));
    governance.replace(Governance::parse(&models()[1], Format::Toml).unwrap());
    held.answer(0, version(0));
    assert!(early.await.restrictions().to_string().contains("\"EU\""));
    let mut after = Box::pin(send(&service, load(ORDERS, "alice")));
    assert!(futures_util::poll!(after.as_mut()).is_pending());
    held.answer(2, version(0));
    assert!(after.await.restrictions().to_string().contains("\"EU\""));
}

/// Has other policies for any table but the one that it was made for.
struct OneTable(InMemoryGovernance, InMemoryGovernance);

impl PolicySource for OneTable {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        let is_it = TABLE.contains(request.uuid.expect("the table has a UUID"))
            && matches!(request.columns, Columns::Known(names) if names.contains(&"phone"));
        if is_it { self.0.effective_policies(request) } else { self.1.effective_policies(request) }
    }
}

/// A table that is put in the place of another one between the inner 304 and the load in full is governed as what it
/// is.
#[tokio::test]
async fn a_table_that_takes_the_place_of_a_known_one_has_its_own_policies() {
    let eu = models()[1].replace("column = \"phone\"", "column = \"region\"");
    for body in [TABLE.replace("9c12d441", "00000000"), TABLE.replace("\"phone\"", "\"telephone\"")] {
        let governance = governance();
        let source = OneTable(governance.clone(), governance_of(&eu));
        let layer = ReadRestrictionsLayer::builder(source, directory(&governance)).catalog("prod");
        let loads = AtomicUsize::new(0);
        let inner = Inner::new(move |seen| match seen.headers.contains_key(header::IF_NONE_MATCH) {
            true => status(304),
            false if loads.fetch_add(1, Ordering::SeqCst) == 0 => table_response(TABLE),
            false => table_response(body.clone()),
        });
        let service = inner.behind(layer);
        let first = send(&service, load(ORDERS, "alice")).await;
        assert_eq!(first.restrictions(), restrictions_of("alice"));
        let stale = first.etag().replacen("rr1.", "rr1.x", 1);
        let answer =
            send(&service, request("GET", ORDERS, "alice", &[CAPABLE, ("if-none-match", &stale)])).await;
        assert_eq!(inner.take_seen().len(), 3, "an inner 304, and a load in full");
        assert!(answer.restrictions().to_string().contains("\"EU\""), "{answer:?}");
    }
}

// ---- many at the same time --------------------------------------------------------------------------

/// Gives others a turn before it answers.
#[derive(Clone)]
struct Hesitant(InMemoryGovernance, Arc<AtomicUsize>);

impl PolicySource for Hesitant {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        let answer = self.0.effective_policies(request);
        Box::pin(async move {
            self.1.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            answer.await
        })
    }
}

/// Requests that are dropped at any of their steps leave nothing behind that others would wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_requests_leave_everything_to_the_others() {
    let governance = governance();
    let asked = Arc::new(AtomicUsize::new(0));
    let identity: Directory = governance.directory(RequestUser::header("x-user".parse().unwrap()));
    let layer = ReadRestrictionsLayer::builder(Hesitant(governance, asked.clone()), identity).catalog("prod");
    let service = Inner::table().behind(layer);
    for round in 0..20 {
        let path = format!("/v1/namespaces/sales/tables/orders?round={round}");
        let loads = (0..12).map(|number| {
            let (service, path) = (service.clone(), path.clone());
            tokio::spawn(async move {
                let mut load = Box::pin(send(&service, load(&path, ["alice", "bob"][number % 2])));
                if number % 3 != 0 {
                    return Some((number, load.await));
                }
                // Dropped after so many polls.
                let mut polls = number / 3;
                std::future::poll_fn(|context| {
                    let answer = load.as_mut().poll(context).is_ready();
                    polls = polls.saturating_sub(1);
                    if answer || polls == 0 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                None
            })
        });
        for load in loads.collect::<Vec<_>>() {
            let load = tokio::time::timeout(std::time::Duration::from_secs(20), load).await;
            if let Some((number, answer)) = load.expect("nobody waits for a dropped request").unwrap() {
                assert_eq!(answer.restrictions(), restrictions_of(["alice", "bob"][number % 2]));
            }
        }
    }
    assert!(asked.load(Ordering::SeqCst) >= 20 * 8);
}

/// Of many loads of one key at the same time, one resolves.
#[cfg(feature = "metrics")]
#[test]
fn what_is_the_same_is_resolved_once() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let governance = governance();
            let identity: Directory = governance.directory(RequestUser::header("x-user".parse().unwrap()));
            let layer = ReadRestrictionsLayer::builder(Hesitant(governance, Arc::default()), identity);
            let service = Inner::table().behind(layer.catalog("prod"));
            // The schemas are known from here on.
            send(&service, load(ORDERS, "bob")).await;
            let loads = (0..16).map(|_| send(&service, load(ORDERS, "alice")));
            for answer in futures_util::future::join_all(loads).await {
                assert_eq!(answer.restrictions(), restrictions_of("alice"));
            }
        });
    });
    let text = handle.render();
    let count = text.lines().find(|line| line.starts_with("iceberg_read_restrictions_resolve_seconds_count"));
    assert_eq!(count, Some("iceberg_read_restrictions_resolve_seconds_count 2"));
}
