//! A small real catalog behind the layer, and what three callers get from it.
//!
//! ```sh
//! cargo run --example quickstart              # tells the story and ends
//! cargo run --example quickstart -- --serve   # and keeps the catalog running
//! ```

#[path = "catalog/mod.rs"]
mod catalog;

use std::{
    collections::BTreeMap,
    error::Error,
    fmt::Display,
    io::{IsTerminal, Write, stdout},
    net::SocketAddr,
    process::ExitCode,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::{self, Next},
    response::Response,
};
use clap::Parser;
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use iceberg_read_restrictions::{
    identity::{AuthenticatedUser, IdentitySource, RequestUser},
    layer::ReadRestrictionsLayer,
    policy::{Format, Governance, InMemoryGovernance, TableIdent},
    resolve::{ExplainRequest, ExplainedPolicy, ExplainedTag, Explanation, Resolver},
    table::LoadResult,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tower::{Layer, ServiceExt};

const TABLE: &str = "/v1/namespaces/sales/tables/orders";
const USER_HEADER: &str = "x-user";
const CAPABILITY: (&str, &str) = ("X-Iceberg-Client-Capabilities", "read-restrictions");

/// Prints a line. A reader that went away needs no more of the story.
macro_rules! say {
    ($($line:tt)*) => {{
        let _ = writeln!(stdout(), $($line)*);
    }};
}

/// A small Iceberg catalog behind the layer, and what three callers get from it.
#[derive(Parser)]
#[command(name = "quickstart", version)]
struct Arguments {
    /// Keep the catalog running after the story
    #[arg(long)]
    serve: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let policies = InMemoryGovernance::new(Governance::parse(catalog::GOVERNANCE, Format::Toml)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let story = Story {
        address: listener.local_addr()?,
        policies: policies.clone(),
        client: Client::builder(TokioExecutor::new()).build_http(),
        style: Style { colour: stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() },
    };
    let serving = tokio::spawn(axum::serve(listener, app(policies)).into_future());
    story.tell(arguments.serve).await?;
    if arguments.serve {
        serving.await??;
    }
    Ok(())
}

/// The catalog with the layer around all of it. The `.layer()` that comes last is the outermost: a request
/// meets authentication first, then the layer, which finds the user there, then the catalog.
fn app(policies: InMemoryGovernance) -> Router {
    let identity = policies.directory(RequestUser::extension());
    let restrictions = ReadRestrictionsLayer::builder(policies, identity).catalog("prod").build();
    let governed = Router::new().fallback_service(restrictions.layer(catalog::router()));
    governed.layer(middleware::from_fn(authenticate))
}

/// Believes what a header says, which only a demonstration may do. A real service checks a token or a
/// certificate here.
async fn authenticate(mut request: Request, next: Next) -> Response {
    if let Some(Ok(user)) = request.headers().get(USER_HEADER).map(|value| value.to_str()) {
        let user = AuthenticatedUser(user.to_owned());
        request.extensions_mut().insert(user);
    }
    next.run(request).await
}

struct Story {
    address: SocketAddr,
    policies: InMemoryGovernance,
    client: Client<HttpConnector, Body>,
    style: Style,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What is shown of a body: the member of a load result, or the message of an error.
#[derive(Deserialize)]
struct ShownBody<'a> {
    #[serde(rename = "read-restrictions", borrow)]
    restrictions: Option<BTreeMap<&'a str, &'a RawValue>>,
    error: Option<ShownError>,
}

#[derive(Deserialize)]
struct ShownError {
    message: String,
}

impl Story {
    async fn tell(&self, serve: bool) -> Result<(), Box<dyn Error>> {
        let Self { address, style, .. } = self;
        say!("{}", style.bold("Read restrictions for an Iceberg catalog that knows nothing of them"));
        say!("A catalog with sample tables is behind the layer on http://{address}.");
        say!("Everybody below loads the same table, prod.sales.orders.");

        self.chapter("alice is an auditor, and her client enforces restrictions");
        let first = self.load("alice", &[CAPABILITY]).await?;
        self.show(&first);
        self.show_reasons(&self.explain("alice").await?);

        self.chapter("bob owns some of the orders, and his client enforces restrictions");
        self.show(&self.load("bob", &[CAPABILITY]).await?);
        self.show_reasons(&self.explain("bob").await?);

        self.chapter("bob again, with a client that declares nothing");
        self.show(&self.load("bob", &[]).await?);
        self.entry("why", "there is something to enforce, and nobody said that it would be");

        self.chapter("alice once more, with the entity tag of her first load");
        let tag = first.header(header::ETAG).unwrap_or_default();
        let conditional = [CAPABILITY, ("If-None-Match", tag)];
        self.show(&self.load("alice", &conditional).await?);
        self.entry("why", "neither the table nor her restrictions changed, so her copy is good");

        self.chapter("the mask becomes mask-alphanum for auditors; alice, with the same entity tag");
        let changed = catalog::GOVERNANCE.replace("show-last-4", "mask-alphanum");
        self.policies.replace(Governance::parse(&changed, Format::Toml)?);
        self.show(&self.load("alice", &conditional).await?);
        self.show_reasons(&self.explain("alice").await?);

        say!("\n{}", style.bold("Try it by hand"));
        self.show_curl("alice", true);
        self.show_curl("bob", true);
        self.show_curl("bob", false);
        match serve {
            true => say!("The catalog keeps running; end it with Ctrl-C."),
            false => {
                say!("The catalog ends here; with `-- --serve` it keeps running, on a port of its own.")
            }
        }
        Ok(())
    }

    async fn load(&self, user: &str, headers: &[(&str, &str)]) -> Result<Answer, Box<dyn Error>> {
        let uri: Uri = format!("http://{}{TABLE}", self.address).parse()?;
        let mut request = Request::get(uri).header(USER_HEADER, user);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, body) = self.client.request(request.body(Body::empty())?).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }

    /// Resolves the same load as the layer does, for the reasons.
    async fn explain(&self, user: &str) -> Result<Explanation, Box<dyn Error>> {
        let load = catalog::router().oneshot(Request::get(TABLE).body(Body::empty())?).await?;
        let load = LoadResult::read(load.into_body().collect().await?.to_bytes())?;
        let policies =
            self.policies.current().effective_policies_of(&TableIdent::new("prod", ["sales"], "orders"));

        let identity = self.policies.directory(RequestUser::fixed(user));
        let (request, ()) = Request::new(()).into_parts();
        let subject = identity.subject(&request).await?.ok_or("there is no such user")?;
        let memberships = identity.memberships(&subject, &Resolver::groups(&policies)).await?;
        Ok(Resolver::new().explain(ExplainRequest {
            policies: &policies,
            subject: Some(&subject),
            memberships: Some(&memberships),
            table: Ok(&load),
        }))
    }

    fn chapter(&self, title: &str) {
        say!("\n{}", self.style.bold(title));
    }

    fn entry(&self, name: &str, value: impl Display) {
        for (number, line) in value.to_string().lines().enumerate() {
            let name = if number == 0 { name } else { "" };
            say!("  {} {line}", self.style.dim(&format!("{name:<18}")));
        }
    }

    fn show(&self, answer: &Answer) {
        self.entry("status", self.style.status(answer.status));
        self.entry("entity tag", answer.header(header::ETAG).unwrap_or("none"));
        match serde_json::from_slice(&answer.body) {
            Ok(ShownBody { error: Some(error), .. }) => self.entry("error", error.message),
            Ok(ShownBody { restrictions: Some(parts), .. }) => {
                let parts: Vec<_> = parts.iter().map(|(name, part)| format!("\"{name}\": {part}")).collect();
                self.entry("read-restrictions", format!("{{{}}}", parts.join(",\n ")));
            }
            Ok(ShownBody { .. }) => self.entry("read-restrictions", "none"),
            Err(_) => self.entry("body", "none"),
        }
    }

    fn show_reasons(&self, explanation: &Explanation) {
        let mut reasons = Vec::new();
        if let Some(filter) = &explanation.row_filter {
            reasons.push(format!("rows: {}", filter.readable));
            reasons.extend(filter.policies.iter().map(by_policy));
        }
        for mask in &explanation.column_masks {
            let dropped = if mask.dropped { " (dropped, but old snapshots still have it)" } else { "" };
            reasons.push(format!("column {}{dropped}: {}", mask.column, mask.action));
            reasons.extend(mask.policies.iter().map(by_policy));
        }
        let groups = explanation.subject.groups.iter();
        reasons.extend(groups.map(|(group, answer)| format!("group {group}: {answer}")));
        self.entry("why", reasons.join("\n"));
    }

    fn show_curl(&self, user: &str, declares: bool) {
        let (name, token) = CAPABILITY;
        let declaration = if declares { format!(" -H '{name}: {token}'") } else { String::new() };
        say!("  curl -i -H '{USER_HEADER}: {user}'{declaration} http://{}{TABLE}", self.address);
    }
}

fn by_policy(policy: &ExplainedPolicy) -> String {
    let branch = match policy.branch {
        Some(number) => format!("branch {number}"),
        None => "the branch depends on the row".to_owned(),
    };
    let tags: Vec<String> = policy.tags.iter().map(by_tag).collect();
    format!("  by {}, {branch}, through {}", policy.name, tags.join(" and "))
}

fn by_tag(tag: &ExplainedTag) -> String {
    let values = if tag.values.is_empty() { String::new() } else { format!(" = {}", tag.values.join(", ")) };
    format!("tag {}{values} on {}", tag.name, tag.from)
}

/// Colour where a terminal can show it.
struct Style {
    colour: bool,
}

impl Style {
    fn paint(&self, code: &str, text: impl Display) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    fn status(&self, status: StatusCode) -> String {
        let code = match status.is_client_error() || status.is_server_error() {
            true => "31",
            false => "32",
        };
        self.paint(code, status)
    }
}
