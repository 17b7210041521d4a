//! Requests through a catalog and a layer around it: what the benches of the layer have in common.
//!
//! Nobody listens to traces and decisions. The origin answers at once, so that without sockets what is left is the cost
//! of the layer itself.

#![allow(dead_code, reason = "each bench uses a part of it")]

#[path = "../../tests/support/bodies.rs"]
pub mod bodies;
#[path = "../../tests/support/oracle.rs"]
pub mod oracle;
pub mod origin;
pub mod others;
pub mod sockets;

use std::{any::Any, convert::Infallible, hint::black_box, pin::pin};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use iceberg_read_restrictions::{
    ReadRestrictionsLayer,
    identity::{AuthenticatedUser, RequestUser},
    layer::ReadRestrictionsService,
    policy::{Assignment, Governance, InMemoryGovernance, ObjectName, PolicyObject, Relation, Tag},
};
use tower::{Layer, Service, ServiceExt};

use origin::Origin;
use others::{PassThrough, Rewrite};

/// Who loads.
pub const USER: &str = "alice";

const FILTER: &str = r#"filter := col("column_1") == "US" if is_group_member("auditors")
else := col("column_1") == session_user()"#;
const MASK: &str = r#"mask := action("mask-to-fixed-value") if is_group_member("auditors")
else := action("mask-to-fixed-value")"#;

/// What stands around the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    Nothing,
    /// A layer that hands everything on.
    PassThrough,
    /// This crate's.
    Ours,
    /// A layer that reads the facts with `serde_json` visitors and puts a constant member in.
    Visitors,
    /// A layer that parses the body to a `Value`, inserts a constant member, and writes it again: what people write
    /// first.
    Value,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Loads of tables that were never loaded before, through a layer that has just been made.
    FirstLoad,
    /// Loads of tables whose metadata are as they were last time.
    Reload,
    /// Loads by a client that has the answer already. The catalog says 304.
    Conditional,
    /// Requests that no layer has anything to do with.
    Unrelated,
}

/// One of the things that are compared.
pub type Candidate = (Around, Ask);

/// What is compared on loads of one body.
pub const CANDIDATES: [(&str, Candidate); 10] = [
    ("none", (Around::Nothing, Ask::Reload)),
    ("pass-through", (Around::PassThrough, Ask::Reload)),
    ("ours, first sight", (Around::Ours, Ask::FirstLoad)),
    ("ours, repeat", (Around::Ours, Ask::Reload)),
    ("serde_json visitors", (Around::Visitors, Ask::Reload)),
    ("serde_json Value", (Around::Value, Ask::Reload)),
    ("pass-through, 304", (Around::PassThrough, Ask::Conditional)),
    ("ours, 304", (Around::Ours, Ask::Conditional)),
    ("pass-through, unrelated", (Around::PassThrough, Ask::Unrelated)),
    ("ours, unrelated", (Around::Ours, Ask::Unrelated)),
];

/// Requests that are ready to be sent. What it gives back is to be dropped when nobody measures any more.
pub type Batch = Box<dyn FnOnce() -> Box<dyn Any>>;

/// Gets so many requests ready. Everything is checked beforehand, on requests of the same kind.
pub fn prepare((around, ask): Candidate, origin: &Origin, count: usize) -> Batch {
    match around {
        Around::Nothing => batch(origin.clone(), ask, origin, count),
        Around::PassThrough => batch(PassThrough(origin.clone()), ask, origin, count),
        Around::Ours => batch(governed(origin, count.max(origin.tables()) + 1), ask, origin, count),
        Around::Visitors => batch(Rewrite::visitors(origin.clone()), ask, origin, count),
        Around::Value => batch(Rewrite::value(origin.clone()), ask, origin, count),
    }
}

/// A filter that each table inherits from its namespace, and a mask on one of its columns.
pub fn governance(tables: usize) -> Governance {
    let mut governance = Governance::builder()
        .tag(Tag::new("filtered"))
        .tag(Tag::new("masked"))
        .policy(PolicyObject::row_filter("filter", FILTER).enabled())
        .policy(PolicyObject::column_mask("mask", MASK).enabled())
        .relation(Relation::new("filter", "filtered"))
        .relation(Relation::new("mask", "masked"))
        .assignment(Assignment::new(ObjectName::namespace("prod", ["sales"]), "filtered"))
        .group("auditors", [USER]);
    for number in 0..tables {
        let column = ObjectName::column("prod", ["sales"], format!("t{number}"), "column_4");
        governance = governance.assignment(Assignment::new(column, "masked"));
    }
    governance.build().expect("a valid model")
}

/// A layer of ours around the origin.
pub fn governed(origin: &Origin, tables: usize) -> ReadRestrictionsService<Origin> {
    let governance = InMemoryGovernance::new(governance(tables));
    let users = governance.directory(RequestUser::extension());
    ReadRestrictionsLayer::builder(governance, users).catalog("prod").build().layer(origin.clone())
}

/// A request of one kind. Its number says about which table.
pub fn request(ask: Ask, number: usize, known: Option<&HeaderValue>) -> Request<Empty<Bytes>> {
    const UNRELATED: [&str; 3] =
        ["/v1/config?warehouse=prod", "/v1/namespaces?parent=sales", "/v1/namespaces/sales/views/shipped"];
    let uri = match ask {
        Ask::Unrelated => UNRELATED[number % UNRELATED.len()].to_owned(),
        _ => format!("/v1/namespaces/sales/tables/t{number}"),
    };
    let mut request = Request::get(uri)
        .header(header::HOST, "catalog.example")
        .header(header::USER_AGENT, "reader/1.0")
        .header(header::AUTHORIZATION, "Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl")
        .header("x-iceberg-client-capabilities", "read-restrictions")
        .extension(AuthenticatedUser(USER.to_owned()));
    if let Some(tag) = known {
        request = request.header(header::IF_NONE_MATCH, tag);
    }
    request.body(Empty::new()).expect("a request")
}

fn batch<S, R>(mut service: S, ask: Ask, origin: &Origin, count: usize) -> Batch
where
    S: Service<Request<Empty<Bytes>>, Response = Response<R>, Error = Infallible> + 'static,
    R: Body<Data = Bytes, Error = Infallible> + 'static,
{
    let runtime = sockets::runtime();
    let tags = runtime.block_on(warm_up(&mut service, ask, origin, count));
    let table = |at: usize| if ask == Ask::FirstLoad { at } else { at % origin.tables() };
    let requests: Vec<_> = (0..count).map(|at| request(ask, table(at), tags.get(table(at)))).collect();
    Box::new(move || {
        runtime.block_on(async {
            for request in requests {
                let response = service.ready().await.expect("ready").call(request).await.expect("an answer");
                consume(response).await;
            }
        });
        Box::new((service, runtime))
    })
}

/// Lets a service see what it is to have seen, and tells the tags that a client is to have.
async fn warm_up<S, R>(service: &mut S, ask: Ask, origin: &Origin, count: usize) -> Vec<HeaderValue>
where
    S: Service<Request<Empty<Bytes>>, Response = Response<R>, Error = Infallible>,
    R: Body<Data = Bytes, Error = Infallible>,
{
    // The tables before this one are those of the batch.
    let seen = if ask == Ask::FirstLoad { count..count + 1 } else { 0..origin.tables() };
    let mut tags = Vec::new();
    for table in seen {
        let response = send(service, request(ask, table, None)).await;
        assert_eq!(response.status(), StatusCode::OK, "{:?}", response.body());
        if let (Ask::Conditional, Some(tag)) = (ask, response.headers().get(header::ETAG)) {
            tags.push(tag.clone());
            let again = send(service, request(ask, table, Some(tag))).await;
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        }
    }
    tags
}

async fn send<S, R>(service: &mut S, request: Request<Empty<Bytes>>) -> Response<Bytes>
where
    S: Service<Request<Empty<Bytes>>, Response = Response<R>, Error = Infallible>,
    R: Body<Data = Bytes, Error = Infallible>,
{
    let response = service.ready().await.expect("ready").call(request).await.expect("an answer");
    let (head, body) = response.into_parts();
    Response::from_parts(head, body.collect().await.expect("a body").to_bytes())
}

/// Takes an answer as a server would that writes it out, which needs no copy of it.
async fn consume<R: Body<Data = Bytes, Error = Infallible>>(response: Response<R>) {
    let (head, body) = response.into_parts();
    black_box(head);
    let mut body = pin!(body);
    while let Some(frame) = body.frame().await {
        black_box(frame.expect("a frame"));
    }
}
