//! The second address: for those who run the gateway, never for its clients.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use iceberg_read_restrictions::policy::PolicySource;
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;

use crate::governance::GovernanceInForce;

/// What the admin address tells about.
#[derive(Clone)]
pub struct Admin {
    /// The governance in force.
    pub governance: GovernanceInForce,
    /// The counters.
    pub metrics: PrometheusHandle,
    /// Set once the gateway takes no new connections.
    pub draining: Arc<AtomicBool>,
}

impl Admin {
    /// `/-/health`, `/-/ready` and `/-/metrics`.
    pub fn router(self) -> Router {
        Router::new()
            .route("/-/health", get(health))
            .route("/-/ready", get(ready))
            .route("/-/metrics", get(metrics))
            .with_state(self)
    }
}

async fn health() -> impl IntoResponse {
    Json(json!({"status": "alive"}))
}

/// Ready as long as any governance is in force: an invalid newer file is reported, and the last good one
/// goes on.
async fn ready(State(admin): State<Admin>) -> impl IntoResponse {
    let governance = admin.governance.current();
    let status = admin.governance.status();
    let draining = admin.draining.load(Ordering::Relaxed);
    let code = if draining { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let body = json!({
        "ready": !draining,
        "revision": governance.revision().as_str(),
        "identity-revision": governance.identity_revision().as_str(),
        "age-ms": status.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        "error": status.error,
    });
    (code, Json(body))
}

async fn metrics(State(admin): State<Admin>) -> impl IntoResponse {
    let status = admin.governance.status();
    if let Some(age) = status.age {
        metrics::gauge!("gateway_governance_age_seconds").set(age.as_secs_f64());
    }
    metrics::gauge!("gateway_governance_reload_failed").set(if status.error.is_some() { 1.0 } else { 0.0 });
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], admin.metrics.render())
}
