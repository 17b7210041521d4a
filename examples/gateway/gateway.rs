//! One request through the gateway.

use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Instant};

use axum::body::Body;
use http::{Method, Request, Response, Uri, request::Parts};
use hyper::body::Incoming;
use iceberg_read_restrictions::layer::ReadRestrictionsLayer;
use tower::{Layer, ServiceExt, util::BoxCloneSyncService};

use crate::{
    config::{CatalogConfig, Config},
    decisions::DecisionLog,
    error::{GatewayError, RequestId},
    governance::GovernanceInForce,
    headers,
    identity::{AuthenticatedReader, Authenticator},
    stall::StallLimit,
    upstream::Upstream,
};

/// The public side of the gateway.
#[derive(Clone)]
pub struct Gateway {
    authenticator: Arc<Authenticator>,
    catalog: BoxCloneSyncService<Request<Incoming>, Response<Body>, Infallible>,
}

impl Gateway {
    /// Puts the layer between the time limit and the upstream.
    pub fn new(
        config: Config,
        governance: GovernanceInForce,
        upstream: Upstream,
        decisions: DecisionLog,
    ) -> Self {
        let Config { catalog, authenticator, capability, trusted_readers, settings, .. } = config;
        let identity = authenticator.directory(&governance);
        let mut layer = ReadRestrictionsLayer::builder(governance, identity)
            .capability_refusal(capability.refuse_with)
            .conflict(settings.conflict)
            .upstream_restrictions(settings.upstream_restrictions)
            .restricted_commits(settings.restricted_commits)
            .plus_as_space(settings.plus_as_space)
            .namespace_separators(settings.namespace_separators)
            .max_body_bytes(settings.max_body_bytes)
            .cache_bytes(settings.cache_bytes)
            .source_timeout(settings.source_timeout)
            .decisions(decisions);
        layer = match catalog {
            CatalogConfig::Fixed(name) => layer.catalog(name),
            CatalogConfig::FromPrefix(names) => layer.catalog_from_prefix(names),
        };
        if let Some(accepted) = capability.accept {
            layer = layer.capabilities(accepted);
        }
        if let Some(readers) = trusted_readers {
            layer = layer.trusted_readers(move |request: &Parts| {
                let reader = request.extensions.get::<AuthenticatedReader>();
                reader.is_some_and(|AuthenticatedReader(name)| readers.contains(name))
            });
        }
        let layer = layer.build().layer(upstream);
        let catalog = BoxCloneSyncService::new(StallLimit::new(layer, settings.upstream_timeout));
        Self { authenticator: Arc::new(authenticator), catalog }
    }

    /// The answer to a request from `peer`.
    pub async fn answer(self, peer: IpAddr, request: Request<Incoming>) -> Response<Body> {
        // A socket for both families has IPv4 peers in IPv6 form.
        let peer = peer.to_canonical();
        let begun = Instant::now();
        let method = counted_method(request.method());
        let request_id = RequestId::of(request.headers());
        let response = match self.prepare(peer, request) {
            Ok(request) => {
                self.catalog.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {})
            }
            Err(error) => error.response(request_id.as_ref()),
        };
        let labels = [("method", method.into()), ("status", response.status().as_str().to_owned())];
        metrics::counter!("gateway_requests_total", &labels).increment(1);
        metrics::histogram!("gateway_request_seconds").record(begun.elapsed().as_secs_f64());
        response
    }

    /// What is settled before the layer sees a request: what ends at this hop, who sent it, and for whom.
    fn prepare(
        &self,
        peer: IpAddr,
        mut request: Request<Incoming>,
    ) -> Result<Request<Incoming>, GatewayError> {
        let target = match request.uri().path_and_query() {
            Some(target) if target.path().starts_with('/') => target.clone(),
            _ => return Err(GatewayError::NoPath),
        };
        let host = headers::requested_host(request.uri().authority(), request.headers());
        *request.uri_mut() = Uri::from(target);

        let lines = request.headers_mut();
        headers::remove_hop_by_hop(lines);
        headers::remove_met_expectation(lines);
        headers::join_cookies(lines);
        let caller = self.authenticator.authenticate(peer, lines);
        headers::set_forwarded(lines, peer, self.authenticator.trusts(peer), host);
        caller.leave_in(request.extensions_mut());
        Ok(request)
    }
}

/// A method as it is counted. Clients may invent methods, and each of them would be a counter of its own.
fn counted_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
