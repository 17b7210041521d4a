//! What the layer takes from the heap for a request, beyond what the same service takes without it.

#[path = "support/allocations.rs"]
mod allocations;
#[path = "support/bodies.rs"]
mod bodies;

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Empty, Full};
use iceberg_read_restrictions::{
    identity::RequestUser,
    layer::{ReadRestrictionsLayer, ReadRestrictionsService},
    policy::{
        Assignment, Governance, InMemoryGovernance, ObjectName, PolicyObject, Relation, TableIdent, Tag,
    },
};
use tower::{Layer, Service, ServiceExt};

use allocations::{Allocations, count};
use bodies::{LARGE, MEDIUM, SMALL};

const FILTER: &str = r#"filter := col("column_1") == "US" if is_group_member("auditors") else := col("column_1") == session_user()"#;
const MASK: &str = r#"mask := action("mask-to-fixed-value") if is_group_member("auditors") else := action("mask-to-fixed-value")"#;

/// What the labels of the counters take where they are compiled in.
const COUNTERS: usize = if cfg!(feature = "metrics") { 13 } else { 0 };

/// Allocations over those of the service alone, with both policies and one group to be asked.
const REPEAT: usize = 11 + COUNTERS;
const NEW_METADATA: usize = 20 + COUNTERS;
const NOT_MODIFIED: usize = 23 + COUNTERS;
const NEVER_SEEN: usize = 210 + COUNTERS;

/// A catalog of one table, whose load result a test can change.
#[derive(Clone)]
struct Origin {
    table: Arc<Mutex<Bytes>>,
    /// Whether each answer has a buffer of its own, as one that is serialised has.
    serialises: bool,
    version: Arc<AtomicUsize>,
}

impl Origin {
    fn new(body: String, serialises: bool) -> Self {
        let table = Arc::new(Mutex::new(Bytes::from(body)));
        Self { table, serialises, version: Arc::default() }
    }

    /// A commit, which leaves the schemas as they are.
    fn commit(&self) {
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        let mut table = self.table.lock().unwrap();
        let text = String::from_utf8(table.to_vec()).unwrap();
        let sequence = text.find("\"last-sequence-number\"").unwrap();
        let comma = sequence + text[sequence..].find(',').unwrap();
        *table = format!("{}\"last-sequence-number\":{version}{}", &text[..sequence], &text[comma..]).into();
    }

    fn behind(&self, governance: &InMemoryGovernance) -> ReadRestrictionsService<Self> {
        let identity = governance.directory(RequestUser::header("x-user".parse().unwrap()));
        ReadRestrictionsLayer::builder(governance.clone(), identity)
            .catalog("prod")
            .build()
            .layer(self.clone())
    }
}

impl<B> Service<Request<B>> for Origin {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let tag = format!("\"{}\"", self.version.load(Ordering::Relaxed));
        let tag = header::HeaderValue::try_from(tag).unwrap();
        let is_known = request.headers().get(header::IF_NONE_MATCH) == Some(&tag);
        let table = self.table.lock().unwrap();
        let body = match (is_known, self.serialises) {
            (true, _) => Bytes::new(),
            (false, true) => Bytes::copy_from_slice(&table),
            (false, false) => table.clone(),
        };
        let mut response = Response::new(Full::new(body));
        response.headers_mut().insert(header::ETAG, tag);
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        ready(Ok(response))
    }
}

/// A filter on the table and a mask on its fourth column, or on every column.
fn governance(mask_all: bool) -> InMemoryGovernance {
    let table = || ObjectName::table("prod", ["sales"], "orders");
    let masked = if mask_all { table() } else { ObjectName::column("prod", ["sales"], "orders", "column_4") };
    let governance = Governance::builder()
        .tag(Tag::new("filtered"))
        .tag(Tag::new("masked"))
        .policy(PolicyObject::row_filter("filter", FILTER).enabled())
        .policy(PolicyObject::column_mask("mask", MASK).enabled())
        .relation(Relation::new("filter", "filtered"))
        .relation(Relation::new("mask", "masked"))
        .assignment(Assignment::new(table(), "filtered"))
        .assignment(Assignment::new(masked, "masked"))
        .group("auditors", ["alice"])
        .build()
        .unwrap();
    InMemoryGovernance::new(governance)
}

fn load(path: &str, tag: Option<&header::HeaderValue>) -> Request<Empty<Bytes>> {
    let mut request = Request::get(path)
        .header("x-user", "alice")
        .header("x-iceberg-client-capabilities", "read-restrictions")
        .body(Empty::new())
        .unwrap();
    if let Some(tag) = tag {
        request.headers_mut().insert(header::IF_NONE_MATCH, tag.clone());
    }
    request
}

const TABLE: &str = "/v1/namespaces/sales/tables/orders";

/// Sends a request, reads the answer frame by frame, and counts.
fn sent<S, R>(
    service: &S,
    request: Request<Empty<Bytes>>,
) -> (StatusCode, Option<header::HeaderValue>, usize, Allocations)
where
    S: Service<Request<Empty<Bytes>>, Response = Response<R>> + Clone,
    S::Error: std::fmt::Debug,
    R: Body<Data = Bytes>,
    R::Error: std::fmt::Debug,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ((head, length), allocations) = count(|| {
        runtime.block_on(async {
            let (head, body) = service.clone().oneshot(request).await.unwrap().into_parts();
            let mut body = std::pin::pin!(body);
            let mut length = 0;
            while let Some(frame) = body.frame().await {
                length += frame.unwrap().into_data().unwrap().len();
            }
            (head, length)
        })
    });
    (head.status, head.headers.get(header::ETAG).cloned(), length, allocations)
}

/// A load result of a table with so many columns, none of them nested.
fn flat(columns: usize) -> String {
    let column =
        |id: usize| format!(r#"{{"id":{id},"name":"column_{id}","required":false,"type":"string"}}"#);
    let fields = (1..=columns).map(column).collect::<Vec<_>>().join(",");
    let schema = |id: usize| format!(r#"{{"type":"struct","schema-id":{id},"fields":[{fields}]}}"#);
    format!(
        concat!(
            r#"{{"metadata-location":"s3://warehouse/orders/00001.metadata.json","metadata":{{"format-version":2,"#,
            r#""table-uuid":"b55d9dda-6561-423a-8bfc-787980ce421f","last-sequence-number":0,"current-schema-id":1,"#,
            r#""schemas":[{},{}],"snapshots":[]}},"config":{{"s3.secret-access-key":"wJalrXUtnFEMI"}}}}"#
        ),
        schema(0),
        schema(1)
    )
}

/// Every kind of origin and policy, with tables of so many columns, and what the origin takes alone.
fn each_case(columns: &[usize], mut check: impl FnMut(&str, &Origin, &InMemoryGovernance, Allocations)) {
    for serialises in [false, true] {
        for mask_all in [false, true] {
            for columns in columns {
                let origin = Origin::new(flat(*columns), serialises);
                let (_, _, _, alone) = sent(&origin, load(TABLE, None));
                let says = format!("{columns} columns, serialises: {serialises}, mask all: {mask_all}");
                check(&says, &origin, &governance(mask_all), alone);
            }
        }
    }
}

#[test]
fn what_is_none_of_ours_takes_nothing() {
    each_case(&[10], |says, origin, governance, _| {
        let service = origin.behind(governance);
        for path in ["/v1/config", "/v1/namespaces", "/v1/namespaces/sales/tables", "/metrics"] {
            let (_, _, _, alone) = sent(origin, load(path, None));
            let (_, _, _, behind) = sent(&service, load(path, None));
            assert_eq!(behind.count, alone.count, "{path}, {says}");
        }
    });
}

#[test]
fn a_load_that_was_seen_before_takes_next_to_nothing_at_any_column_count() {
    each_case(&[10, 300, 10_000], |says, origin, governance, alone| {
        let service = origin.behind(governance);
        sent(&service, load(TABLE, None));
        // The first clones of what is kept may still have to learn to share.
        sent(&service, load(TABLE, None));
        let (status, _, _, again) = sent(&service, load(TABLE, None));
        assert_eq!(status, 200);
        // What two slices of one buffer share, if nobody shared it before.
        let shared = usize::from(origin.serialises);
        assert!(again.count <= alone.count + REPEAT + shared, "{again:?} over {alone:?}, {says}");
    });
}

#[test]
fn metadata_that_are_new_take_little_at_any_column_count() {
    each_case(&[10, 300, 10_000], |says, origin, governance, alone| {
        let service = origin.behind(governance);
        sent(&service, load(TABLE, None));
        sent(&service, load(TABLE, None));
        let counts: Vec<_> = (0..8)
            .map(|_| {
                origin.commit();
                sent(&service, load(TABLE, None)).3.count - alone.count
            })
            .collect();
        // Now and then the cache weighs what it holds.
        let usual = counts.iter().filter(|count| **count <= NEW_METADATA).count();
        assert!(usual >= 6 && counts.iter().all(|count| *count <= 2 * NEW_METADATA), "{counts:?}, {says}");
    });
}

#[test]
fn a_table_that_was_never_seen_takes_as_many_allocations_at_any_column_count() {
    each_case(&[10, 300, 10_000], |says, origin, governance, alone| {
        let service = origin.behind(governance);
        sent(&service, load("/v1/namespaces/sales/tables/other", None));
        let (status, _, _, first) = sent(&service, load(TABLE, None));
        assert_eq!(status, 200);
        assert!(first.count <= alone.count + NEVER_SEEN, "{first:?}, {says}");
    });
}

#[test]
fn a_load_that_has_not_changed_is_answered_from_what_is_known() {
    each_case(&[10, 300, 10_000], |says, origin, governance, _| {
        let service = origin.behind(governance);
        let (_, tag, _, _) = sent(&service, load(TABLE, None));
        sent(&service, load(TABLE, tag.as_ref()));
        let inner_tag = header::HeaderValue::from_static("\"0\"");
        let (_, _, _, alone) = sent(origin, load(TABLE, Some(&inner_tag)));
        let (status, _, length, unchanged) = sent(&service, load(TABLE, tag.as_ref()));
        assert_eq!((status.as_u16(), length), (304, 0));
        assert!(unchanged.count <= alone.count + NOT_MODIFIED, "{unchanged:?}, {says}");
    });
}

/// Beside the body itself, also where it was never seen before and is kept from then on.
#[test]
fn memory_above_the_body_is_bounded_and_there_is_never_a_second_body() {
    for shape in [SMALL, MEDIUM, LARGE] {
        for serialises in [false, true] {
            let origin = Origin::new(shape.load_result(), serialises);
            let (_, _, _, alone) = sent(&origin, load(TABLE, None));
            let service = origin.behind(&governance(false));
            // Fifty schemas of three hundred columns have to be read once.
            let first = sent(&service, load(TABLE, None)).3.peak - alone.peak;
            assert!(
                first <= if shape.columns > 100 { 100 << 10 } else { 64 << 10 },
                "{first} bytes, {shape:?}"
            );
            let again = sent(&service, load(TABLE, None)).3.peak - alone.peak;
            assert!(again <= 32 << 10, "again: {again} bytes, {shape:?}");
            origin.commit();
            let above = sent(&service, load(TABLE, None)).3.peak - alone.peak;
            assert!(above <= 64 << 10, "new metadata: {above} bytes, {shape:?}");
        }
    }
}

/// Many tables, of which each column is masked by a tag of its own, loaded by many callers: far more than fits.
#[test]
fn what_is_kept_takes_no_more_than_it_may() {
    const TABLES: usize = 150;
    const COLUMNS: usize = 60;
    let names: Vec<_> = (0..TABLES).map(|table| format!("table_{table}")).collect();
    let callers: Vec<_> = (0..8).map(|caller| format!("caller_{caller}")).collect();
    let mut governance = Governance::builder()
        .tag(Tag::new("filtered"))
        .tag(Tag::new("masked"))
        .policy(PolicyObject::row_filter("filter", FILTER).enabled())
        .policy(PolicyObject::column_mask("mask", MASK).enabled())
        .relation(Relation::new("filter", "filtered"))
        .relation(Relation::new("mask", "masked"))
        .assignment(Assignment::new(ObjectName::namespace("prod", ["sales"]), "filtered"))
        .group("auditors", ["caller_0"]);
    for name in &names {
        for column in 1..=COLUMNS {
            let column = ObjectName::column("prod", ["sales"], name, format!("column_{column}"));
            governance = governance.assignment(Assignment::new(column, "masked"));
        }
    }
    let governance = InMemoryGovernance::new(governance.build().unwrap());
    for name in &names {
        let table = TableIdent::new("prod", ["sales"], name);
        governance.current().effective_policies_of(&table);
    }
    let origin = Origin::new(flat(COLUMNS), true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for bytes in [0, 1 << 20, 2 << 20] {
        let identity = governance.directory(RequestUser::header("x-user".parse().unwrap()));
        let layer = ReadRestrictionsLayer::builder(governance.clone(), identity)
            .catalog("prod")
            .cache_bytes(bytes)
            .build();
        let (_, allocations) = count(|| {
            let service = layer.layer(origin.clone());
            for name in &names {
                for caller in &callers {
                    let mut request = load(&format!("/v1/namespaces/sales/tables/{name}"), None);
                    request.headers_mut().insert("x-user", caller.parse().unwrap());
                    let answer = runtime.block_on(async {
                        let response = service.clone().oneshot(request).await.unwrap();
                        (response.status(), response.into_body().collect().await.unwrap().to_bytes())
                    });
                    assert_eq!(answer.0, 200);
                }
            }
        });
        // There are two caches. Beside what they keep there is one request at a time.
        let peak = allocations.peak.unsigned_abs() as u64;
        assert!(peak <= 2 * bytes + (128 << 10), "{peak} bytes with two caches of {bytes}");
        assert!(peak >= bytes, "{peak} bytes do not fill two caches of {bytes}");
    }
}
