//! A catalog that knows nothing of restrictions, behind the layer, on a free port of this machine.

use std::{path::Path, sync::Arc};

use arrow_array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray};
use axum::{
    Json, Router,
    extract::Path as Segments,
    http::{HeaderName, StatusCode},
    routing::get,
};
use iceberg::{
    arrow::schema_to_arrow_schema,
    spec::{NestedField, PrimitiveType, Schema, Type},
    table::Table,
};
use iceberg_read_restrictions::{
    ReadRestrictionsLayer,
    identity::RequestUser,
    policy::{Format, Governance, InMemoryGovernance},
};
use serde_json::{Value, json};

use crate::warehouse::create_table;

/// The policies in front of the catalog.
pub const GOVERNANCE: &str = include_str!("../governance.toml");

/// A running catalog with the table `sales.orders`. It stops when this is dropped.
pub struct Demo {
    /// Where it listens, without a slash at the end.
    pub url: String,
    server: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Demo {
    /// Writes the table into a temporary folder and starts the catalog behind a layer with these policies.
    ///
    /// # Errors
    ///
    /// When the table cannot be written, the policies are not valid, or no port is free.
    pub async fn start(governance: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let policies = InMemoryGovernance::new(Governance::parse(governance, Format::Toml)?);
        let users = policies.directory(RequestUser::header(HeaderName::from_static("x-forwarded-user")));
        let layer = ReadRestrictionsLayer::builder(policies, users).catalog("prod").build();
        let app = catalog(&orders(folder.path()).await?)?.layer(layer);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                eprintln!("the catalog stopped: {error}");
            }
        });
        Ok(Self { url, server, _folder: folder })
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A catalog of one table, which it shows to everybody as it is.
fn catalog(table: &Table) -> Result<Router, Box<dyn std::error::Error>> {
    let load_result = json!({
        "metadata-location": table.metadata_location_result()?,
        "metadata": table.metadata(),
        "config": {},
    });
    let load = move |Segments((namespace, name)): Segments<(String, String)>| {
        let found = (namespace.as_str(), name.as_str()) == ("sales", "orders");
        let answer = if found { (StatusCode::OK, Json(load_result.clone())) } else { no_such_table() };
        async move { answer }
    };
    Ok(Router::new().route("/v1/namespaces/{namespace}/tables/{table}", get(load)))
}

fn no_such_table() -> (StatusCode, Json<Value>) {
    let error = json!({"message": "no such table", "type": "NoSuchTableException", "code": 404});
    (StatusCode::NOT_FOUND, Json(json!({ "error": error })))
}

async fn orders(folder: &Path) -> Result<Table, Box<dyn std::error::Error>> {
    let field = |id, name, required, data_type| {
        Arc::new(NestedField::new(id, name, Type::Primitive(data_type), required))
    };
    let schema = Schema::builder().with_fields([
        field(1, "id", true, PrimitiveType::Long),
        field(2, "owner", false, PrimitiveType::String),
        field(3, "region", false, PrimitiveType::String),
        field(4, "phone", false, PrimitiveType::String),
        field(5, "placed", true, PrimitiveType::Date),
    ]);
    let schema = schema.build()?;
    let arrow_schema = Arc::new(schema_to_arrow_schema(&schema)?);
    let batch = |rows: &[Order]| -> Result<RecordBatch, arrow_schema::ArrowError> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| row.3).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| Some(row.4)).collect::<Date32Array>()),
        ];
        RecordBatch::try_new(arrow_schema.clone(), columns)
    };
    let (first, second) = ORDERS.split_at(4);
    Ok(create_table(folder, "orders", schema, vec![batch(first)?, batch(second)?]).await?)
}

/// Id, owner, region, phone, days since 1970.
type Order = (i64, Option<&'static str>, Option<&'static str>, Option<&'static str>, i32);

const ORDERS: [Order; 7] = [
    (1, Some("olga"), Some("US"), Some("(555) 010-4477"), 19_738),
    (2, Some("bob"), Some("EU"), Some("+41 44 668 18 00"), 19_782),
    (3, Some("olga"), Some("EU"), Some("110"), 19_814),
    (4, None, Some("US"), None, 19_815),
    (5, Some("carol"), None, Some("555-0199"), 19_850),
    (6, Some("bob"), Some("US"), Some("4111-1111"), 19_866),
    (7, Some("olga"), None, Some("555-0142"), 19_900),
];
