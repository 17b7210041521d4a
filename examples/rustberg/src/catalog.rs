//! Rustberg itself: a catalog file, a warehouse on the local disk, three API keys and a Cedar policy.

use std::path::Path;

use rustberg::{
    App,
    auth::{ApiKey, ApiKeyBuilder, RateLimitConfig},
    error::AppError,
};

/// The name by which the governance file calls this catalog.
pub const CATALOG: &str = "lake";

const TENANT: &str = "acme";
const POLICIES: &str = include_str!("../policies.cedar");

/// One key for each caller of the demonstration. They are made anew at each start.
pub struct ApiKeys {
    /// Creates tables and writes; exempt from the policies of the layer.
    pub etl: String,
    /// An auditor. Rustberg restricts nothing for her, the layer does.
    pub alice: String,
    /// A partner. Rustberg restricts what he reads, and so does the layer.
    pub bob: String,
}

/// Opens a catalog that is forgotten at the end, with its warehouse below `folder`.
pub async fn open(folder: &Path) -> Result<(App, ApiKeys), AppError> {
    let mut accepted = Vec::new();
    let mut issue = |name: &str, role: &str| {
        let (key, secret): (ApiKey, _) = ApiKeyBuilder::new(name, TENANT).with_role(role).build();
        accepted.push(key);
        secret.to_string()
    };
    let keys = ApiKeys {
        etl: issue("etl", "writers"),
        alice: issue("alice", "auditors"),
        bob: issue("bob", "partners"),
    };
    let (app, _) = App::builder()
        .with_catalog_url("memory://")
        .with_warehouse_location(format!("file://{}", folder.join("warehouse").display()))
        .with_default_tenant_id(TENANT)
        .with_policies(POLICIES)
        .with_api_keys(accepted)
        .with_rate_limit_config(RateLimitConfig::disabled())
        .build_with_api_keys()
        .await?;
    Ok((app, keys))
}
