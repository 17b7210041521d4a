//! The catalog behind the gateway: one somewhere on the network, or the embedded one.

use std::{
    convert::Infallible,
    error::Error as _,
    fmt,
    future::Future,
    pin::Pin,
    str::FromStr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body};
use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, Uri, Version, header,
    uri::{Authority, PathAndQuery, Scheme},
};
use http_body::Body as HttpBody;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{
        Client, Error,
        connect::{HttpConnector, capture_connection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::net::TcpStream;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use tower::{BoxError, Service, ServiceExt, util::MapResponse};

use crate::{
    catalog,
    config::UpstreamConfig,
    connection::{Observed, lost},
    error::{GatewayError, RequestId},
    headers,
    stall::{Progress, Watched},
};

/// How long a connection that nobody uses is kept.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// How long after its connection is gone a request counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(1);
/// After how long a silence the other side is asked whether it is still there, and how often.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An `http` or `https` URL that request paths are appended to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    scheme: Scheme,
    authority: Authority,
    path: String,
}

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("upstream `{text}` is not a URL: {error}"))?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(format!("upstream `{text}` is neither an http or https URL nor \"embedded\""));
        };
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(format!("upstream `{text}` is neither http nor https"));
        }
        if authority.as_str().contains('@') || text.contains('#') {
            return Err(format!(
                "upstream `{text}` has a login or a fragment, which are not sent to a server"
            ));
        }
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err(format!(
                "upstream `{text}` has a query, and request paths cannot be appended to one"
            ));
        }
        Ok(Self { scheme, authority, path: path.path().trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

impl BaseUrl {
    /// The URL of a request, its path and query byte for byte as the client wrote them.
    fn join(&self, target: &Uri) -> Result<Uri, http::Error> {
        let target = target.path_and_query().map_or("/", PathAndQuery::as_str);
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{}{target}", self.path))
            .build()
    }
}

/// The innermost service of the gateway. What goes wrong on the way to the catalog is an answer, too.
#[derive(Clone)]
pub enum Upstream {
    /// A catalog on the network.
    Remote(Arc<Remote>),
    /// The catalog of the quickstart, in this process.
    Embedded(Router),
}

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type Connector = MapResponse<HttpsConnector<HttpConnector>, fn(Stream) -> Observed<Stream>>;

/// A catalog on the network.
pub struct Remote {
    base: BaseUrl,
    /// Keeps connections for the next request.
    pooled: Client<Connector, Body>,
    /// Makes a connection for each request.
    fresh: Client<Connector, Body>,
    /// How long it may take to connect.
    patience: Duration,
}

impl Upstream {
    /// The catalog that the configuration names. One on the network has `patience` to accept a connection, and to
    /// acknowledge what it is sent.
    ///
    /// # Errors
    ///
    /// When it is one on the network that cannot be spoken to over TLS.
    pub fn new(config: &UpstreamConfig, patience: Duration) -> Result<Self, String> {
        match config {
            UpstreamConfig::Embedded => Ok(Self::Embedded(catalog::router())),
            UpstreamConfig::Remote(base) => {
                Remote::new(base.clone(), patience).map(|remote| Self::Remote(Arc::new(remote)))
            }
        }
    }

    async fn send(self, request: Request<Body>) -> Response<Body> {
        match self {
            Self::Remote(remote) => remote.send(request).await,
            // A router cannot fail.
            Self::Embedded(router) => {
                router.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {})
            }
        }
    }
}

impl Remote {
    /// A catalog at `base`. Over TLS it may speak HTTP/2, and its certificate must be one that this
    /// machine trusts.
    fn new(base: BaseUrl, patience: Duration) -> Result<Self, String> {
        let provider = ring::default_provider();
        let connector = if base.scheme == Scheme::HTTPS {
            HttpsConnectorBuilder::new()
                .with_provider_and_native_roots(provider)
                .map_err(|error| format!("no root certificates for the upstream {base}: {error}"))?
        } else {
            let config = ClientConfig::builder_with_provider(provider.into())
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            HttpsConnectorBuilder::new().with_tls_config(config)
        };
        let connector = connector.https_or_http().enable_all_versions().wrap_connector(tcp(patience));
        let connector: Connector = connector.map_response(Observed::new);
        let mut client = Client::builder(TokioExecutor::new());
        client
            .pool_idle_timeout(POOL_IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(patience);
        let pooled = client.build(connector.clone());
        let fresh = client.pool_max_idle_per_host(0).build(connector);
        Ok(Self { base, pooled, fresh, patience })
    }

    async fn send(&self, mut request: Request<Body>) -> Response<Body> {
        let base = &self.base;
        let request_id = RequestId::of(request.headers());
        match (base.join(request.uri()), HeaderValue::from_str(base.authority.as_str())) {
            (Ok(uri), Ok(host)) => {
                *request.uri_mut() = uri;
                request.headers_mut().insert(header::HOST, host);
            }
            // The longest path that the server side accepts can be too long with the base before it.
            _ => return GatewayError::NoPath.response(request_id.as_ref()),
        }
        // The client speaks what was negotiated, whatever the request came in as.
        *request.version_mut() = Version::HTTP_11;
        match self.exchange(request).await {
            Ok(response) => response.map(Body::new),
            Err(error) => {
                tracing::warn!(upstream = %base, %error, "upstream unavailable");
                GatewayError::UpstreamUnavailable.response(request_id.as_ref())
            }
        }
    }

    /// Sends a request, and once more over a fresh connection when the first broke off and asking twice does no harm:
    /// a connection that was kept may have died, and nobody finds out before it is used.
    async fn exchange(&self, request: Request<Body>) -> Result<Response<Incoming>, Failure> {
        let again = repeatable(&request);
        // The client itself may still be connecting anew, if the request never left it.
        let grace = if again.is_some() { LOST_AFTER } else { self.patience.max(LOST_AFTER) };
        let failure = match answer_from(&self.pooled, request, grace).await {
            Ok(response) => return Ok(response),
            Err(failure) => failure,
        };
        match again {
            Some(again) if failure.is_of_connection() => {
                tracing::debug!(upstream = %self.base, %failure, "asking once more");
                answer_from(&self.fresh, again, LOST_AFTER).await
            }
            _ => Err(failure),
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum Failure {
    Client(Error),
    /// The connection is gone, and nobody said what became of the request.
    Lost,
}

impl Failure {
    /// Whether a connection that was there ended before it gave an answer.
    fn is_of_connection(&self) -> bool {
        let Self::Client(error) = self else { return true };
        let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
        !error.is_connect() && cause.is_some_and(|cause| !cause.is_parse() && !cause.is_user())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => match error.source() {
                Some(cause) => write!(f, "{error}: {cause}"),
                None => error.fmt(f),
            },
            Self::Lost => f.write_str("the connection is gone"),
        }
    }
}

async fn answer_from(
    client: &Client<Connector, Body>,
    mut request: Request<Body>,
    grace: Duration,
) -> Result<Response<Incoming>, Failure> {
    let captured = capture_connection(&mut request);
    tokio::select! {
        biased;
        answer = client.request(request) => answer.map_err(Failure::Client),
        () = lost(captured, grace) => Err(Failure::Lost),
    }
}

/// Connections that notice when the machine on the other side is gone without a word.
fn tcp(patience: Duration) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(patience));
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_keepalive_interval(Some(KEEP_ALIVE));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(patience));
    tcp
}

/// The same request once more, if it changes nothing and can be had again.
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    if !request.method().is_safe() || !request.body().is_end_stream() {
        return None;
    }
    let mut again = Request::new(Body::empty());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(remote) => remote.base.fmt(f),
            Self::Embedded(_) => f.write_str("embedded"),
        }
    }
}

impl<B> Service<Request<B>> for Upstream
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Watched<Body>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let progress = request.extensions().get::<Progress>().cloned().unwrap_or_default();
        let answer = self.clone().send(request.map(Body::new));
        Box::pin(async move {
            let mut response = answer.await;
            progress.note();
            *response.version_mut() = Version::HTTP_11;
            headers::remove_hop_by_hop(response.headers_mut());
            Ok(response.map(|body| Watched::new(body, progress)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_path_is_kept_and_the_target_not_touched() {
        for (base, target, joined) in [
            ("http://h:1", "/v1/config", "http://h:1/v1/config"),
            ("http://h:1/", "/v1/config?a=%2F", "http://h:1/v1/config?a=%2F"),
            ("https://h/api/catalog", "//v1/a%2Fb;c", "https://h/api/catalog//v1/a%2Fb;c"),
            ("https://h/api/catalog/", "/", "https://h/api/catalog/"),
        ] {
            let base: BaseUrl = base.parse().unwrap();
            assert_eq!(base.join(&target.parse().unwrap()).unwrap().to_string(), joined);
        }
    }

    #[test]
    fn urls_that_cannot_be_a_base_are_refused() {
        for text in
            ["", "embeded", "localhost:8182", "ftp://h/", "http://u:p@h/", "http://h/?q", "http://h/#f"]
        {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }
}
