//! A reverse proxy in front of one Iceberg REST catalog in any language, with the layer inside.
//!
//! ```text
//! client ─▶ connection ─▶ who, for whom ─▶ time limit ─▶ layer ─▶ upstream ─▶ catalog
//!           serve.rs      gateway.rs        stall.rs              upstream.rs
//!                         identity.rs, jwt.rs, headers.rs             connection.rs
//! ```
//!
//! Without `--config` it serves the embedded catalog with a built-in governance example:
//!
//! ```sh
//! cargo run --example gateway
//! curl -i -H 'x-forwarded-user: alice' -H 'X-Iceberg-Client-Capabilities: read-restrictions' \
//!     http://127.0.0.1:8181/v1/namespaces/sales/tables/orders
//! ```

mod admin;
#[path = "../catalog/mod.rs"]
mod catalog;
mod config;
mod connection;
mod decisions;
mod error;
mod gateway;
mod governance;
mod headers;
mod identity;
mod jwt;
mod serve;
mod signals;
mod stall;
mod upstream;

use std::{
    convert::Infallible,
    fmt::Display,
    io::{IsTerminal, Write, stderr, stdout},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use clap::Parser;
use http::Request;
use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::{net::TcpListener, sync::oneshot};
use tower::ServiceExt;
use tracing_subscriber::EnvFilter;

use self::{
    admin::Admin, config::Config, decisions::DecisionLog, gateway::Gateway, governance::GovernanceInForce,
    signals::Signals, upstream::Upstream,
};

/// Wrong use or unreadable input.
const EXIT_USAGE: u8 = 2;

/// How often the samples of the histogram are counted, which are kept one by one until then.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The upper bounds of the histogram of request times, in seconds.
const TIME_BUCKETS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// A reverse proxy that adds Iceberg read restrictions to the load results of a REST catalog.
#[derive(Parser)]
#[command(name = "gateway", version)]
struct Arguments {
    /// The configuration file; without it, the embedded catalog on 127.0.0.1:8181
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print one line of JSON on stderr for each governed load
    #[arg(long)]
    decisions: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(stderr().is_terminal())
        .with_writer(stderr)
        .init();

    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(text)
        .and_then(|runtime| runtime.block_on(run(&arguments)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("gateway: {message}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Starts everything, serves until a signal comes, and ends when the last request is answered.
async fn run(arguments: &Arguments) -> Result<(), String> {
    let config = match &arguments.config {
        Some(path) => Config::read(path)?,
        None => Config::built_in(),
    };
    let governance = GovernanceInForce::start(config.governance.as_deref(), config.poll)?;
    let upstream = Upstream::new(&config.upstream, config.settings.upstream_connect_timeout)?;
    let metrics = install_metrics()?;
    let public = bind(&config.listen).await?;
    let admin = match &config.admin_listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let ready = ready_line(&public, admin.as_ref(), &upstream)?;
    let mut signals = Signals::catch().map_err(text)?;

    let draining = Arc::new(AtomicBool::new(false));
    tokio::spawn(keep_up(metrics.clone()));
    if let Some(listener) = admin {
        let admin = Admin { governance: governance.clone(), metrics, draining: draining.clone() };
        tokio::spawn(serve_admin(listener, admin));
    }
    let gateway = Gateway::new(config, governance, upstream, DecisionLog { print: arguments.decisions });
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(serve::serve(
        public,
        move |peer: SocketAddr, request| gateway.clone().answer(peer.ip(), request),
        // A sender that is gone means the same as one that sends.
        async { drop(stopped.await) },
    ));

    // Nobody may be reading; that is no reason not to serve.
    let _ = writeln!(stdout(), "{ready}");
    signals.next().await;
    draining.store(true, Ordering::Relaxed);
    drop(stop);
    tokio::select! {
        ended = serving => ended.map_err(text),
        // Whoever asks twice does not want to wait.
        () = signals.next() => Ok(()),
    }
}

/// Serves the admin address until the process ends, so that it can be asked while requests are finished.
async fn serve_admin(listener: TcpListener, admin: Admin) {
    let router = admin.router();
    let answer = move |_, request: Request<_>| {
        let answer = router.clone().oneshot(request.map(Body::new));
        async { answer.await.unwrap_or_else(|never: Infallible| match never {}) }
    };
    serve::serve(listener, answer, std::future::pending()).await;
}

/// Collects what the gateway counts, and with the feature `metrics` what the layer counts.
fn install_metrics() -> Result<PrometheusHandle, String> {
    let handle = PrometheusBuilder::new()
        .set_buckets(&TIME_BUCKETS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(text)?;
    describe_counter!("gateway_requests_total", "Requests by method and status of the answer.");
    describe_counter!(
        "gateway_governed_loads_total",
        "Decisions of the layer by outcome and code of a refusal."
    );
    describe_histogram!("gateway_request_seconds", "Time until the head of the answer.");
    describe_gauge!(
        "gateway_governance_age_seconds",
        "Time since the governance in force was last known to be the newest."
    );
    describe_gauge!("gateway_governance_reload_failed", "Whether a newer governance could not be taken.");
    Ok(handle)
}

/// Keeps the samples from piling up when nobody asks for the metrics.
async fn keep_up(metrics: PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP_INTERVAL).await;
        metrics.run_upkeep();
    }
}

async fn bind(address: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address}: {error}"))
}

fn ready_line(
    public: &TcpListener,
    admin: Option<&TcpListener>,
    upstream: &Upstream,
) -> Result<String, String> {
    let url = |listener: &TcpListener| {
        listener.local_addr().map(|address| format!("http://{address}")).map_err(text)
    };
    let admin = match admin {
        Some(listener) => format!(", admin on {}", url(listener)?),
        None => String::new(),
    };
    Ok(format!("gateway listening on {}{admin}, upstream {upstream}", url(public)?))
}

fn text(error: impl Display) -> String {
    error.to_string()
}
