//! A catalog as an axum router: paths are matched segment by segment, names are decoded once.

use std::collections::HashMap;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Request},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;

use super::{TABLE, table_response};

/// What only somebody who may read the table is given.
pub const CREDENTIALS: &str =
    r#"{"storage-credentials":[{"prefix":"s3://warehouse","config":{"key":"given"}}]}"#;

/// The tables `orders`, `open` and `broken` in the namespace `sales`, with and without a prefix.
pub fn router() -> Router {
    Router::new().nest("/v1", operations()).nest("/v1/{prefix}", operations())
}

fn operations() -> Router {
    Router::new()
        .route("/config", get(|| async { "{}" }))
        .route("/namespaces", get(|| async { "{\"namespaces\":[]}" }))
        .route("/namespaces/{ns}", get(|| async { "{\"namespace\":[]}" }))
        .route("/namespaces/{ns}/tables", get(|| async { "{\"identifiers\":[]}" }).post(create))
        .route("/namespaces/{ns}/register", post(create))
        .route(
            "/namespaces/{ns}/tables/{table}",
            get(load).post(commit).delete(|| async { StatusCode::NO_CONTENT }),
        )
        .route("/namespaces/{ns}/tables/{table}/credentials", get(read))
        .route("/namespaces/{ns}/tables/{table}/plan", post(read))
        .route("/namespaces/{ns}/tables/{table}/plan/{id}", get(read))
        .route("/namespaces/{ns}/tables/{table}/tasks", post(read))
        .route("/namespaces/{ns}/tables/{table}/sign", any(read))
        .route("/namespaces/{ns}/tables/{table}/metrics", post(|| async { StatusCode::NO_CONTENT }))
        .route("/namespaces/{ns}/views/{view}", get(view))
        .route("/transactions/commit", post(|| async { StatusCode::NO_CONTENT }))
}

#[derive(Deserialize)]
struct Names {
    ns: String,
    table: String,
}

impl Names {
    fn exist(&self) -> bool {
        self.ns == "sales" && ["orders", "open", "broken"].contains(&&*self.table)
    }
}

fn no_such_table() -> Response {
    let body = r#"{"error":{"message":"no such table","type":"NoSuchTableException","code":404}}"#;
    (StatusCode::NOT_FOUND, [("content-type", "application/json")], body).into_response()
}

/// The caller `mallory` may see nothing.
fn is_forbidden(headers: &HeaderMap) -> bool {
    headers.get("x-user").is_some_and(|user| user == "mallory")
}

async fn load(Path(names): Path<Names>, request: Request) -> Response {
    match names.exist() {
        true if is_forbidden(request.headers()) => StatusCode::FORBIDDEN.into_response(),
        true => table_response(if request.method() == Method::HEAD { "" } else { TABLE }),
        false => no_such_table(),
    }
}

async fn commit(Path(names): Path<Names>) -> Response {
    match names.exist() {
        true => table_response(r#"{"metadata-location":"s3://x"}"#),
        false => no_such_table(),
    }
}

async fn create(Path(ns): Path<HashMap<String, String>>, _: Bytes) -> Response {
    match ns.get("ns").is_some_and(|ns| ns == "sales") {
        true => table_response(TABLE),
        false => no_such_table(),
    }
}

async fn read(Path(names): Path<Names>, headers: HeaderMap) -> Response {
    match names.exist() {
        true if is_forbidden(&headers) => StatusCode::FORBIDDEN.into_response(),
        true => ([("content-type", "application/json")], CREDENTIALS).into_response(),
        false => no_such_table(),
    }
}

/// The metadata of a view look much like those of a table.
async fn view() -> Response {
    let body = r#"{"metadata":{"format-version":1,"schemas":[{"type":"struct","fields":[]}],"versions":[]}}"#;
    ([("content-type", "application/json")], Body::from(body)).into_response()
}
