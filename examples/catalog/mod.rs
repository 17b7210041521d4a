//! A small Iceberg REST catalog in memory: real table metadata, real commits, no storage behind it.
//!
//! It knows nothing of read restrictions. The quickstart puts the layer in front of it, and the gateway
//! serves it as `upstream = "embedded"`. Whoever is asked for a prefix in the path may send any: like many
//! catalogs it serves the same tables under each.

mod commit;
mod error;
mod metadata;
mod store;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Query, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use self::{
    commit::CommitRequest,
    error::CatalogError,
    metadata::{CreateTable, TableMetadata},
    store::{Namespace, Store, TableName},
};

/// The governance that goes with the tables of this catalog, for the catalog name `prod`.
pub const GOVERNANCE: &str = include_str!("governance.toml");

const ENDPOINTS: [&str; 19] = [
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
];

const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// The catalog with its sample tables, at the root of a router of its own.
pub fn router() -> Router {
    let api = Router::new()
        .route("/namespaces", get(list_namespaces).post(create_namespace))
        .route("/namespaces/{namespace}", get(load_namespace).head(namespace_exists).delete(drop_namespace))
        .route("/namespaces/{namespace}/properties", post(update_properties))
        .route("/namespaces/{namespace}/tables", get(list_tables).post(create_table))
        .route("/namespaces/{namespace}/register", post(register_table))
        .route(
            "/namespaces/{namespace}/tables/{table}",
            get(load_table).head(table_exists).post(commit_table).delete(drop_table),
        )
        .route("/namespaces/{namespace}/tables/{table}/credentials", get(load_credentials))
        .route("/namespaces/{namespace}/tables/{table}/metrics", post(report_metrics))
        .route("/namespaces/{namespace}/tables/{table}/unregister", post(unregister_table))
        .route("/namespaces/{namespace}/views", get(list_views))
        .route("/namespaces/{namespace}/views/{view}", get(load_view))
        .route("/tables/rename", post(rename_table))
        .route("/transactions/commit", post(commit_transaction));

    Router::new()
        .route("/v1/config", get(config))
        .nest("/v1", api.clone())
        .nest("/v1/{prefix}", api)
        .fallback(no_such_endpoint)
        .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
        .with_state(Catalog::default())
}

#[derive(Clone, Default)]
struct Catalog(Arc<Mutex<Store>>);

impl Catalog {
    /// A store is never left half changed, so one that a panic poisoned is still whole.
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Answer = Result<Response, CatalogError>;

/// The path of a request with its prefix, which this catalog has no use for, left out.
#[derive(Deserialize)]
struct NamespacePath {
    namespace: String,
}

impl NamespacePath {
    fn namespace(&self) -> Namespace {
        levels(&self.namespace)
    }
}

#[derive(Deserialize)]
struct TablePath {
    namespace: String,
    table: String,
}

impl TablePath {
    fn name(&self) -> TableName {
        TableName { namespace: levels(&self.namespace), name: self.table.clone() }
    }
}

/// Namespace levels are joined with the unit separator, `%1F` in a path.
fn levels(namespace: &str) -> Namespace {
    namespace.split('\u{1F}').map(str::to_owned).collect()
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, CatalogError> {
    serde_json::from_slice(body)
        .map_err(|error| CatalogError::bad_request(format!("Malformed request: {error}")))
}

fn json(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// A whole load result. The entity tag stands for one version of the metadata, as its location does.
fn load_result(location: Option<&str>, metadata: &TableMetadata, etag: Option<String>) -> Response {
    let mut result = json!({"metadata": metadata, "config": {}});
    if let Some(location) = location {
        result["metadata-location"] = location.into();
    }
    match etag {
        Some(etag) => ([(header::ETAG, etag)], json(&result)).into_response(),
        None => json(&result),
    }
}

async fn no_such_endpoint() -> CatalogError {
    CatalogError::new(StatusCode::NOT_FOUND, "NotFoundException", "No such endpoint".to_owned())
}

// Configuration and namespaces

#[derive(Deserialize)]
struct ConfigQuery {
    warehouse: Option<String>,
}

/// A client that names a warehouse is told to use it as its prefix.
async fn config(Query(query): Query<ConfigQuery>) -> Response {
    let mut overrides = BTreeMap::new();
    if let Some(warehouse) = query.warehouse.filter(|name| !name.is_empty() && !name.contains('/')) {
        overrides.insert("prefix", warehouse);
    }
    json(&json!({"defaults": {}, "overrides": overrides, "endpoints": ENDPOINTS}))
}

#[derive(Deserialize)]
struct NamespacesQuery {
    parent: Option<String>,
}

async fn list_namespaces(State(catalog): State<Catalog>, Query(query): Query<NamespacesQuery>) -> Answer {
    let parent = query.parent.filter(|parent| !parent.is_empty()).map(|parent| levels(&parent));
    let store = catalog.lock();
    let namespaces = store.namespaces(parent.as_deref().unwrap_or_default())?;
    Ok(json(&json!({"namespaces": namespaces})))
}

#[derive(Deserialize)]
struct CreateNamespace {
    namespace: Namespace,
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

async fn create_namespace(State(catalog): State<Catalog>, body: Bytes) -> Answer {
    let CreateNamespace { namespace, properties } = read(&body)?;
    catalog.lock().create_namespace(namespace.clone(), properties.clone())?;
    Ok(json(&json!({"namespace": namespace, "properties": properties})))
}

async fn load_namespace(State(catalog): State<Catalog>, Path(path): Path<NamespacePath>) -> Answer {
    let namespace = path.namespace();
    let properties = catalog.lock().namespace(&namespace)?.clone();
    Ok(json(&json!({"namespace": namespace, "properties": properties})))
}

async fn namespace_exists(State(catalog): State<Catalog>, Path(path): Path<NamespacePath>) -> Answer {
    catalog.lock().namespace(&path.namespace())?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn drop_namespace(State(catalog): State<Catalog>, Path(path): Path<NamespacePath>) -> Answer {
    catalog.lock().drop_namespace(&path.namespace())?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
struct PropertiesChange {
    #[serde(default)]
    removals: Vec<String>,
    #[serde(default)]
    updates: BTreeMap<String, String>,
}

async fn update_properties(
    State(catalog): State<Catalog>,
    Path(path): Path<NamespacePath>,
    body: Bytes,
) -> Answer {
    let change: PropertiesChange = read(&body)?;
    let mut store = catalog.lock();
    let properties = store.namespace_mut(&path.namespace())?;
    let (removed, missing): (Vec<_>, Vec<_>) =
        change.removals.into_iter().partition(|key| properties.remove(key).is_some());
    let updated: Vec<_> = change.updates.keys().cloned().collect();
    properties.extend(change.updates);
    Ok(json(&json!({"updated": updated, "removed": removed, "missing": missing})))
}

// Tables

async fn list_tables(State(catalog): State<Catalog>, Path(path): Path<NamespacePath>) -> Answer {
    let store = catalog.lock();
    let identifiers = store.tables(&path.namespace())?;
    Ok(json(&json!({"identifiers": identifiers})))
}

async fn create_table(
    State(catalog): State<Catalog>,
    Path(path): Path<NamespacePath>,
    body: Bytes,
) -> Answer {
    let request: CreateTable = read(&body)?;
    let name = TableName { namespace: path.namespace(), name: request.name.clone() };
    let staged = request.stage_create;
    let mut store = catalog.lock();
    store.must_be_free(&name)?;
    let metadata = TableMetadata::create(request, &name)?;
    if staged {
        return Ok(load_result(None, &metadata, None));
    }
    let table = store.write(name, metadata);
    Ok(load_result(Some(&table.metadata_location), &table.metadata, Some(table.etag(Snapshots::All))))
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RegisterTable {
    name: String,
    metadata_location: String,
    #[serde(default)]
    overwrite: bool,
}

async fn register_table(
    State(catalog): State<Catalog>,
    Path(path): Path<NamespacePath>,
    body: Bytes,
) -> Answer {
    let request: RegisterTable = read(&body)?;
    let name = TableName { namespace: path.namespace(), name: request.name };
    let mut store = catalog.lock();
    if !request.overwrite {
        store.must_be_free(&name)?;
    }
    let table = store.register(name, &request.metadata_location)?;
    Ok(load_result(Some(&table.metadata_location), &table.metadata, Some(table.etag(Snapshots::All))))
}

/// Which snapshots a load result holds.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Snapshots {
    #[default]
    All,
    /// Only those that a branch or tag refers to.
    Refs,
}

#[derive(Deserialize)]
struct LoadQuery {
    #[serde(default)]
    snapshots: Snapshots,
}

async fn load_table(
    State(catalog): State<Catalog>,
    Path(path): Path<TablePath>,
    Query(query): Query<LoadQuery>,
    headers: HeaderMap,
) -> Answer {
    let table = catalog.lock().table(&path.name())?.clone();
    let etag = table.etag(query.snapshots);
    if matches(&headers, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    let location = Some(table.metadata_location.as_str());
    Ok(match query.snapshots {
        Snapshots::All => load_result(location, &table.metadata, Some(etag)),
        Snapshots::Refs => load_result(location, &table.metadata.with_referenced_snapshots(), Some(etag)),
    })
}

/// Whether `If-None-Match` holds the tag. The tags of this catalog contain no comma.
fn matches(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == "*" || tag == etag)
}

async fn table_exists(State(catalog): State<Catalog>, Path(path): Path<TablePath>) -> Answer {
    let etag = catalog.lock().table(&path.name())?.etag(Snapshots::All);
    Ok((StatusCode::NO_CONTENT, [(header::ETAG, etag)]).into_response())
}

async fn commit_table(State(catalog): State<Catalog>, Path(path): Path<TablePath>, body: Bytes) -> Answer {
    let request: CommitRequest = read(&body)?;
    let mut store = catalog.lock();
    let name = path.name();
    let metadata = request.apply(&store, &name)?;
    let table = store.write(name, metadata);
    let result = json!({"metadata-location": table.metadata_location, "metadata": table.metadata});
    Ok(([(header::ETAG, table.etag(Snapshots::All))], json(&result)).into_response())
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct CommitTransaction {
    table_changes: Vec<TableChange>,
}

#[derive(Deserialize)]
struct TableChange {
    identifier: TableName,
    #[serde(flatten)]
    commit: CommitRequest,
}

/// All changes are checked before the first is written.
async fn commit_transaction(State(catalog): State<Catalog>, body: Bytes) -> Answer {
    let CommitTransaction { table_changes } = read(&body)?;
    let names: BTreeSet<_> = table_changes.iter().map(|change| &change.identifier).collect();
    if names.len() < table_changes.len() {
        return Err(CatalogError::bad_request("A table is changed twice".to_owned()));
    }
    let mut store = catalog.lock();
    let changed = table_changes
        .into_iter()
        .map(|change| Ok((change.commit.apply(&store, &change.identifier)?, change.identifier)))
        .collect::<Result<Vec<_>, CatalogError>>()?;
    for (metadata, name) in changed {
        store.write(name, metadata);
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn drop_table(State(catalog): State<Catalog>, Path(path): Path<TablePath>) -> Answer {
    catalog.lock().remove(&path.name())?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn unregister_table(State(catalog): State<Catalog>, Path(path): Path<TablePath>) -> Answer {
    let table = catalog.lock().remove(&path.name())?;
    Ok(json(&json!({"metadata-location": table.metadata_location, "metadata": table.metadata})))
}

#[derive(Deserialize)]
struct RenameTable {
    source: TableName,
    destination: TableName,
}

async fn rename_table(State(catalog): State<Catalog>, body: Bytes) -> Answer {
    let RenameTable { source, destination } = read(&body)?;
    catalog.lock().rename(&source, destination)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// There is no storage, so there is nothing to vend.
async fn load_credentials(State(catalog): State<Catalog>, Path(path): Path<TablePath>) -> Answer {
    catalog.lock().table(&path.name())?;
    let body = json(&json!({"storage-credentials": []}));
    Ok(([(HeaderName::from_static("cache-control"), "no-store")], body).into_response())
}

async fn report_metrics(State(catalog): State<Catalog>, Path(path): Path<TablePath>) -> Answer {
    catalog.lock().table(&path.name())?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

// Views: there are none

async fn list_views(State(catalog): State<Catalog>, Path(path): Path<NamespacePath>) -> Answer {
    catalog.lock().namespace(&path.namespace())?;
    Ok(json(&json!({"identifiers": []})))
}

#[derive(Deserialize)]
struct ViewPath {
    namespace: String,
    view: String,
}

async fn load_view(Path(path): Path<ViewPath>) -> CatalogError {
    let name = [&*levels(&path.namespace), &[path.view]].concat().join(".");
    CatalogError::new(StatusCode::NOT_FOUND, "NoSuchViewException", format!("View does not exist: {name}"))
}
