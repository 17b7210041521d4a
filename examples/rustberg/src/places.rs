//! The two places of the layer. In axum the `.layer()` that is called last is the outermost: a request meets it
//! first, an answer last.

use std::time::Duration;

use axum::{
    Router,
    http::{HeaderName, StatusCode},
    middleware::from_fn_with_state,
};
use iceberg_read_restrictions::{
    identity::IdentitySource, layer::ReadRestrictionsLayer, policy::PolicySource,
    resolve::UpstreamRestrictions,
};
use rustberg::{
    App,
    auth::{AuthState, auth_middleware},
};
use tower::Layer;
use tower_http::{
    compression::CompressionLayer,
    limit::RequestBodyLimitLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer},
    timeout::TimeoutLayer,
    trace::TraceLayer,
};

use crate::{CATALOG, CredentialIdentity, PrincipalIdentity};

const MAX_REQUEST_BYTES: usize = 10 << 20;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The layer, with which Rustberg's own restrictions are joined: both row filters hold, and the masks of both.
pub fn restrictions(policies: impl PolicySource, identity: impl IdentitySource) -> ReadRestrictionsLayer {
    ReadRestrictionsLayer::builder(policies, identity)
        .catalog(CATALOG)
        .upstream_restrictions(UpstreamRestrictions::Conjoin)
        .build()
}

/// The layer round everything that Rustberg's router does: authentication, compression, time-outs.
///
/// The router compresses what a client asks it to compress. The layer asks for the bodies of load results as they
/// are, which it must read, so the client would get them uncompressed; hence compression once more on the outside,
/// which leaves alone what is compressed already.
pub fn around_everything(app: App, policies: impl PolicySource) -> Router {
    let identity = CredentialIdentity::new(app.state().authenticator.clone());
    around(app.into_router(), restrictions(policies, identity)).layer(CompressionLayer::new())
}

/// A router that hands every request to the layer, and the layer round all of `catalog`.
///
/// `catalog.layer(layer)` would put it round each route by itself, behind the choice of the route. Loads are governed
/// there too, but before the layer lets credentials, scan plans or commits through, it loads the table, and from inside
/// another route it could not get there: such requests would be refused.
pub fn around(catalog: Router, layer: ReadRestrictionsLayer) -> Router {
    Router::new().fallback_service(layer.layer(catalog))
}

/// The layer between authentication and the handlers. Rustberg's router cannot be opened there, but all the parts it
/// is made of are public, so it is put together once more.
pub fn behind_authentication(app: App, policies: impl PolicySource) -> Router {
    let state = app.state().clone();
    let authentication =
        AuthState::with_rate_limiter(state.authenticator.clone(), state.rate_limiter.clone())
            .with_remote_ip(state.remote_ip.clone())
            .with_auditor(state.auditor.clone());

    let catalog = Router::new()
        .merge(rustberg::catalog::create_routes(state.clone()))
        .merge(rustberg::config::create_routes(state));

    around(catalog, restrictions(policies, PrincipalIdentity))
        .layer(from_fn_with_state(authentication, auth_middleware))
        .layer(RequestBodyLimitLayer::new(MAX_REQUEST_BYTES))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, REQUEST_TIMEOUT))
        // Outside the layer, which repeats the request's id in its refusals.
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
        // Outside the layer, which reads bodies as they are.
        .layer(CompressionLayer::new())
        .layer(TraceLayer::new_for_http())
}
