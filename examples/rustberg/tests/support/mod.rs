//! Serves Rustberg with the layer in either place on a loopback port, with `sales.orders` in it.

#![allow(dead_code)]

use std::net::SocketAddr;

use axum::Router;
use iceberg_read_restrictions::policy::{Format, Governance, InMemoryGovernance};
use reqwest::{Client, RequestBuilder, StatusCode, header::HeaderMap};
use rustberg::App;
use rustberg_with_read_restrictions::{ApiKeys, around_everything, behind_authentication, open, orders};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;

pub const GOVERNANCE: &str = include_str!("../../governance.toml");
pub const ORDERS: &str = "namespaces/sales/tables/orders";

/// Where the layer stands.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    AroundEverything,
    BehindAuthentication,
}

pub const PLACES: [Place; 2] = [Place::AroundEverything, Place::BehindAuthentication];

/// A running server; its catalog is gone when it is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub app: App,
    pub keys: ApiKeys,
    pub policies: InMemoryGovernance,
    client: Client,
    _folder: TempDir,
}

impl Server {
    pub async fn start(place: Place) -> Self {
        Self::serving(|app, policies| match place {
            Place::AroundEverything => around_everything(app, policies),
            Place::BehindAuthentication => behind_authentication(app, policies),
        })
        .await
    }

    /// With whatever router is made of the catalog.
    pub async fn serving(router: impl FnOnce(App, InMemoryGovernance) -> Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (app, keys) = open(folder.path()).await.unwrap();
        let policies = InMemoryGovernance::new(Governance::parse(GOVERNANCE, Format::Toml).unwrap());
        let address = listen(router(app.clone(), policies.clone())).await;
        Self { address, app, keys, policies, client: Client::new(), _folder: folder }
    }

    /// The same, and `sales.orders` was created through it.
    pub async fn with_orders(place: Place) -> Self {
        let server = Self::start(place).await;
        server.create_orders().await;
        server
    }

    pub async fn create_orders(&self) {
        for (path, body) in
            [("namespaces", orders::namespace()), ("namespaces/sales/tables", orders::table())]
        {
            let answer = send(self.post(path, &body).bearer_auth(&self.keys.etl)).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        }
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("http://{}/v1/{path}", self.address))
    }

    pub fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(format!("http://{}/v1/{path}", self.address)).json(body)
    }

    /// `sales.orders` by a client that declares that it enforces.
    pub async fn orders(&self, key: &str) -> Answer {
        send(capable(self.get(ORDERS)).bearer_auth(key)).await
    }
}

pub async fn listen(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, service).into_future());
    address
}

/// Declares that the client enforces restrictions.
pub fn capable(request: RequestBuilder) -> RequestBuilder {
    request.header("X-Iceberg-Client-Capabilities", "read-restrictions")
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

pub async fn send(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Answer { status, headers, body: response.bytes().await.unwrap().to_vec() }
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The member, of an answer that must be a load result.
    #[track_caller]
    pub fn restrictions(&self) -> Option<Value> {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text());
        let body = self.json();
        assert!(body["metadata"].is_object(), "{body}");
        body.get("read-restrictions").cloned()
    }

    #[track_caller]
    pub fn assert_refused(&self, status: u16, code: &str) {
        let body = self.json();
        assert_eq!(self.status.as_u16(), status, "{body}");
        assert_eq!(body["error"]["code"], status);
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("[{code}]")), "{message}");
        assert!(body.get("metadata").is_none() && !self.headers.contains_key("etag"), "{body}");
    }
}
