//! Errors in the form of the Iceberg REST API.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

/// `{"error": {"message": …, "type": …, "code": …}}`
#[derive(Debug)]
pub struct CatalogError {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl CatalogError {
    pub fn new(status: StatusCode, kind: &'static str, message: String) -> Self {
        Self { status, kind, message }
    }

    pub fn bad_request(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestException", message)
    }

    /// Somebody else committed first, or the client is wrong about the table.
    pub fn commit_failed(message: String) -> Self {
        Self::new(StatusCode::CONFLICT, "CommitFailedException", message)
    }
}

impl IntoResponse for CatalogError {
    fn into_response(self) -> Response {
        let code = self.status.as_u16();
        let body = json!({"error": {"message": self.message, "type": self.kind, "code": code}});
        (self.status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
    }
}
