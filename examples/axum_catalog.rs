//! Where the layer goes among the other layers of an axum server, and what happens elsewhere.
//!
//! ```sh
//! cargo run --example axum_catalog              # asks the right order and some wrong ones, and tells the answers
//! cargo run --example axum_catalog -- --serve   # serves the right one on 127.0.0.1:8181
//! ```

#[path = "catalog/mod.rs"]
mod catalog;

use std::{error::Error, fmt, process::ExitCode, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{StatusCode, header},
    middleware::{Next, from_fn},
    response::Response,
    routing::get,
};
use clap::Parser;
use http_body_util::BodyExt;
use iceberg_read_restrictions::{
    identity::{AuthenticatedUser, RequestUser},
    layer::ReadRestrictionsLayer,
    policy::{Format, Governance, InMemoryGovernance},
};
use serde_json::Value;
use tokio::net::TcpListener;
use tower::{Layer, ServiceExt};
use tower_http::{compression::CompressionLayer, timeout::TimeoutLayer, trace::TraceLayer};

pub const ORDERS: &str = "/v1/namespaces/sales/tables/orders";
pub const CREDENTIALS: &str = "/v1/namespaces/sales/tables/orders/credentials";
pub const DOOR: &str = "/internal/orders";

/// The order that works. Read it from the bottom to the top to follow a request, and from the top to the bottom to
/// follow its answer: in axum the `.layer()` that is called last is the outermost.
pub fn right_order() -> Router {
    around(catalog::router(), restrictions())
        // Authentication stands outside the restrictions, which depend on the user that it leaves in the request.
        .layer(from_fn(authenticate))
        // The time-out counts everything that an answer may wait for: the catalog, and where policies and groups come
        // from. The layer's own limits are for single calls of those.
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(30)))
        // Compression stands outside, because the layer reads the catalog's answers as they are and puts something in.
        .layer(CompressionLayer::new())
        // Tracing is outermost: it sees the answer that the client gets, and the layer's events fall into its span.
        .layer(TraceLayer::new_for_http())
}

/// The layer stands around the whole catalog, not in its router: `catalog.layer(restrictions)` would put it around
/// each route by itself. See [`inside_the_router`].
fn around(catalog: Router, restrictions: ReadRestrictionsLayer) -> Router {
    Router::new().fallback_service(restrictions.layer(catalog))
}

fn restrictions() -> ReadRestrictionsLayer {
    let governance = Governance::parse(catalog::GOVERNANCE, Format::Toml).expect("the example is valid");
    let policies = InMemoryGovernance::new(governance);
    let users = policies.directory(RequestUser::extension());
    ReadRestrictionsLayer::builder(policies, users).catalog("prod").build()
}

/// Believes what a header says, which only an example may do. A real service checks a token or a certificate here.
async fn authenticate(mut request: Request, next: Next) -> Response {
    if let Some(Ok(user)) = request.headers().get("x-user").map(|value| value.to_str()) {
        let user = AuthenticatedUser(user.to_owned());
        request.extensions_mut().insert(user);
    }
    next.run(request).await
}

/// Nobody is authenticated when the layer looks for a user: governed tables are refused for everybody.
pub fn authentication_inside() -> Router {
    around(catalog::router().layer(from_fn(authenticate)), restrictions()).layer(CompressionLayer::new())
}

/// The layer asks the catalog for bodies as they are, so nothing that it looks at is ever compressed.
pub fn compression_inside() -> Router {
    around(catalog::router().layer(CompressionLayer::new()), restrictions()).layer(from_fn(authenticate))
}

/// The layer around each route: loads are governed. Credentials, scan plans and commits are not let through, because
/// the layer would first have to load the table, and from inside another route it cannot.
pub fn inside_the_router() -> Router {
    catalog::router().layer(restrictions()).layer(from_fn(authenticate)).layer(CompressionLayer::new())
}

/// The one mistake that nothing can refuse: what is not behind the layer is not governed. axum's `.layer()` covers
/// the routes that are there already, and here a second door to the same tables comes later.
pub fn door_beside_the_layer() -> Router {
    let past_the_layer = get(|| async {
        let orders = Request::get(ORDERS).body(Body::empty()).expect("a request");
        catalog::router().oneshot(orders).await
    });
    right_order().route(DOOR, past_the_layer)
}

/// What alice gets from `app`, with a client that enforces restrictions.
pub async fn ask(app: Router, path: &str) -> Answer {
    let plain = send(app.clone(), path, "identity").await;
    let compressed = send(app, path, "gzip").await.headers().contains_key(header::CONTENT_ENCODING);
    let status = plain.status();
    let body = plain.into_body().collect().await.expect("the catalog is in memory").to_bytes();
    let body: Value = serde_json::from_slice(&body).expect("a catalog speaks JSON");
    Answer { status, restricted: body.get("read-restrictions").is_some(), compressed }
}

async fn send(app: Router, path: &str, encoding: &str) -> Response {
    let request = Request::get(path)
        .header("x-user", "alice")
        .header("X-Iceberg-Client-Capabilities", "read-restrictions")
        .header(header::ACCEPT_ENCODING, encoding)
        .body(Body::empty())
        .expect("a request");
    app.oneshot(request).await.unwrap_or_else(|never| match never {})
}

#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    /// The body has the `read-restrictions` member.
    pub restricted: bool,
    /// A client that takes gzip gets gzip.
    pub compressed: bool,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status.as_u16())?;
        for (holds, word) in [(self.restricted, ", restricted"), (self.compressed, ", compressed")] {
            f.write_str(if holds { word } else { "" })?;
        }
        Ok(())
    }
}

/// Where the layer goes among the other layers of an axum server.
#[derive(Parser)]
#[command(name = "axum_catalog", version)]
struct Arguments {
    /// Serve the right order on 127.0.0.1:8181 instead
    #[arg(long)]
    serve: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("axum_catalog: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    if arguments.serve {
        const ADDRESS: &str = "127.0.0.1:8181";
        let listener = TcpListener::bind(ADDRESS)
            .await
            .map_err(|error| format!("cannot listen on {ADDRESS}: {error}"))?;
        println!("curl -H 'x-user: alice' -H 'X-Iceberg-Client-Capabilities: read-restrictions' \\");
        println!("  http://{}{ORDERS}", listener.local_addr()?);
        return Ok(axum::serve(listener, right_order()).await?);
    }
    println!("What alice gets, who is restricted. The outermost layer is named first.\n");
    for (order, app) in [
        ("compression, authentication, restrictions, catalog", right_order()),
        ("compression, restrictions, authentication, catalog", authentication_inside()),
        ("authentication, restrictions, compression, catalog", compression_inside()),
        ("compression, authentication, router with restrictions in it", inside_the_router()),
    ] {
        println!("{order}");
        for (what, path) in [("the table", ORDERS), ("credentials", CREDENTIALS)] {
            println!("  {what:<12} {}", ask(app.clone(), path).await);
        }
    }
    println!("a door beside the layer");
    println!("  {:<12} {}", "the table", ask(door_beside_the_layer(), DOOR).await);
    Ok(())
}
