//! Promise: whatever changes while requests are on their way, no answer belongs to another subject, and none is older
//! than what was in force when its request came in.
//!
//! Thousands of loads of mixed subjects over real sockets, plain and conditional, with tags of their own and of others,
//! while policies, groups and the table change all the time.

mod support;

#[path = "judges/random.rs"]
#[allow(dead_code, reason = "the judges use all of it")]
mod random;

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use iceberg_read_restrictions::{
    layer::ReadRestrictionsLayer,
    policy::{Format, Governance, InMemoryGovernance},
};
use random::Random;
use serde_json::{Value, json};
use support::{etagger::Etagger, *};
use tower::Layer;

const WORKERS: usize = 16;
const LOADS_OF_EACH: usize = 250;
/// A worker changes something after so many loads, on the average.
const LOADS_OF_A_CHANGE: usize = 50;
const SUBJECTS: [&str; 4] = ["alice", "bob", "carol", "dave"];
const QUERIES: [&str; 2] = ["", "?snapshots=refs"];

/// Every other subject is an auditor, and with each version it is the others' turn.
fn is_auditor(subject: usize, version: usize) -> bool {
    (subject + version).is_multiple_of(2)
}

/// The version is in what everybody is shown.
fn governance(version: usize) -> Governance {
    let auditors = (0..SUBJECTS.len()).filter(|subject| is_auditor(*subject, version));
    let auditors: Vec<_> = auditors.map(|subject| SUBJECTS[subject]).collect();
    let text = format!(
        r#"
        [[tags]]
        name = "regional"
        [[policies]]
        name = "regions"
        policyType = "system_row_filter"
        enabled = true
        content.expression = '''
        filter := col("region") == "v{version}" if is_group_member("auditors")
        else := col("owner") == session_user() and col("region") != "v{version}"
        '''
        tags = [{{ tag = "regional" }}]
        [[assignments]]
        object = {{ catalog = "prod", namespace = ["sales"], table = "orders" }}
        tag = "regional"
        [groups]
        auditors = {auditors:?}
        "#
    );
    Governance::parse(&text, Format::Toml).unwrap()
}

/// The restrictions of a subject by a version of the policies and one of the groups.
fn restrictions(subject: usize, policies: usize, groups: usize) -> Value {
    let is = |operator: &str, field: i32, value: &str| {
        let literal = json!({"type": "literal", "value": value, "data-type": "string"});
        json!({"type": operator, "left": {"type": "reference", "id": field}, "right": literal})
    };
    let region = |operator| is(operator, 2, &format!("v{policies}"));
    let filter = match is_auditor(subject, groups) {
        true => region("eq"),
        false => json!({"type": "and", "left": is("eq", 3, SUBJECTS[subject]), "right": region("not-eq")}),
    };
    json!({"required-row-filter": filter})
}

/// Something that somebody changes: which versions may be in force.
#[derive(Default)]
struct Versions {
    begun: AtomicUsize,
    in_force: AtomicUsize,
}

impl Versions {
    /// Puts the next version in force.
    fn change(&self, put_in_force: impl FnOnce(usize)) {
        let next = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        put_in_force(next);
        self.in_force.store(next, Ordering::SeqCst);
    }

    fn oldest(&self) -> usize {
        self.in_force.load(Ordering::SeqCst)
    }

    fn newest(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

/// Whom an answer was made for, and from what.
#[derive(Clone, Debug, PartialEq)]
struct Representation {
    subject: usize,
    query: &'static str,
    location: Value,
    restrictions: Value,
}

/// What changes, and what was sent.
struct World {
    policies: InMemoryGovernance,
    catalog: Etagger,
    governance: Versions,
    table: Versions,
    /// One change at a time.
    changing: Mutex<()>,
    /// What was sent with each tag.
    sent: Mutex<HashMap<String, Representation>>,
}

impl World {
    fn change(&self, random: &mut Random) {
        let _one_at_a_time = self.changing.lock().unwrap();
        match random.once_in(4) {
            true => self.table.change(|_| self.catalog.commit()),
            false => self.governance.change(|version| self.policies.replace(governance(version))),
        }
    }
}

/// How often something was answered.
#[derive(Default)]
struct Counts {
    full: AtomicUsize,
    not_modified: AtomicUsize,
}

struct Soak {
    world: World,
    counts: Counts,
    client: Client<HttpConnector, Body>,
    origin: String,
}

impl Soak {
    async fn work(self: Arc<Self>, mut random: Random) {
        let mut tags: HashMap<(usize, &str), String> = HashMap::new();
        for _ in 0..LOADS_OF_EACH {
            let (subject, query) = (random.below(SUBJECTS.len()), *random.choose(&QUERIES));
            let tag = match random.below(8) {
                0 => None,
                1 => tags.values().nth(random.below(tags.len().max(1))),
                _ => tags.get(&(subject, query)),
            };
            if let Some(tag) = self.load(subject, query, tag.cloned()).await {
                tags.insert((subject, query), tag);
            }
            if random.once_in(LOADS_OF_A_CHANGE) {
                self.world.change(&mut random);
            }
        }
    }

    /// Loads the table and holds the answer to what may be answered. Gives the tag of a full answer.
    async fn load(&self, subject: usize, query: &'static str, tag: Option<String>) -> Option<String> {
        let World { governance, table, sent, .. } = &self.world;
        let (governed, committed) = (governance.oldest(), table.oldest());
        let mut headers = vec![CAPABLE];
        headers.extend(tag.as_deref().map(|tag| ("if-none-match", tag)));
        let uri = format!("{}{ORDERS}{query}", self.origin);
        let request = request("GET", &uri, SUBJECTS[subject], &headers);
        let response = tokio::time::timeout(Duration::from_secs(30), self.client.request(request)).await;
        let answer = Answer::of(response.expect("an answer in time").unwrap()).await;
        let shown = match answer.status.as_u16() {
            200 => {
                let body = answer.json();
                let location = body["metadata-location"].clone();
                let restrictions = body["read-restrictions"].clone();
                Representation { subject, query, location, restrictions }
            }
            304 => {
                assert_eq!(Some(answer.etag()), tag.as_deref(), "a tag that the client has");
                sent.lock().unwrap()[answer.etag()].clone()
            }
            _ => panic!("{answer:?}"),
        };
        assert_eq!((shown.subject, shown.query), (subject, query), "made for this request");
        let governed = governed..=governance.newest();
        assert!(is_of(&shown.restrictions, subject, governed.clone()), "{governed:?} {subject}: {shown:?}");
        let mut locations = (committed..=table.newest()).map(Etagger::location);
        assert!(locations.any(|location| shown.location == location), "{shown:?} is older");

        match answer.status.as_u16() {
            200 => {
                let before = sent.lock().unwrap().insert(answer.etag().to_owned(), shown.clone());
                assert!(before.is_none_or(|before| before == shown), "one tag, one representation");
                self.counts.full.fetch_add(1, Ordering::Relaxed);
                Some(answer.etag().to_owned())
            }
            _ => {
                self.counts.not_modified.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Whether restrictions are those of a subject by versions that may have been in force. Policies and groups are two
/// sources, which are asked one after the other.
fn is_of(shown: &Value, subject: usize, versions: RangeInclusive<usize>) -> bool {
    let mut policies = versions.clone();
    policies.any(|policies| versions.clone().any(|groups| *shown == restrictions(subject, policies, groups)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_is_anothers_or_older_than_its_request() {
    let (policies, catalog) = (InMemoryGovernance::new(governance(0)), Etagger::new());
    let layer =
        ReadRestrictionsLayer::builder(policies.clone(), directory(&policies)).catalog("prod").build();
    let app = Router::new().fallback_service(layer.layer(catalog.service()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });

    let world = World {
        policies,
        catalog,
        governance: Versions::default(),
        table: Versions::default(),
        changing: Mutex::default(),
        sent: Mutex::default(),
    };
    let client = Client::builder(TokioExecutor::new()).build_http();
    let soak = Arc::new(Soak { world, counts: Counts::default(), client, origin });
    let mut seeds = Random::for_test("http_soak");
    let workers = (0..WORKERS).map(|_| tokio::spawn(soak.clone().work(Random::new(seeds.next()))));
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }

    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    let (full, not_modified) = (count(&soak.counts.full), count(&soak.counts.not_modified));
    let (policies, commits) = (soak.world.governance.newest(), soak.world.table.newest());
    eprintln!("{full} full, {not_modified} not modified; {policies} governance changes, {commits} commits");
    assert_eq!(full + not_modified, WORKERS * LOADS_OF_EACH);
    assert!(full > 500 && not_modified > 100, "both kinds were put to the test");
    assert!(policies > 10 && commits > 3, "the world changed meanwhile");
}
