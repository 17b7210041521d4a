use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::{concat::concat_batches, filter::filter_record_batch};
use futures_util::TryStreamExt;
use iceberg::{
    NamespaceIdent, TableIdent,
    arrow::{ArrowReaderBuilder, schema_to_arrow_schema},
    io::FileIO,
    spec::{PartitionSpecRef, Schema, TableMetadata},
    table::Table,
};
use serde_json::Value;

use crate::{Refusal, json, mask, restrictions::Restrictions};

/// A reader of one catalog's tables for one subject.
pub struct Reader {
    catalog: String,
    subject: String,
    client: reqwest::Client,
}

impl Reader {
    /// Asks the catalog at this base URL (up to and without `/v1`), as this subject. The name goes out in the header
    /// `X-Forwarded-User`, which is for a proxy to set: a real reader sends credentials.
    pub fn new(catalog: impl Into<String>, subject: impl Into<String>) -> Self {
        Self { catalog: catalog.into(), subject: subject.into(), client: reqwest::Client::new() }
    }

    /// All rows of a table that the subject may see, as it may see them.
    ///
    /// # Errors
    ///
    /// When the catalog refuses, and when anything about the table or its restrictions is not understood.
    pub async fn read(&self, table: &TableIdent) -> Result<RecordBatch, Refusal> {
        let loaded = self.load(table).await?;
        let mut salt = [0; 32];
        getrandom::fill(&mut salt)
            .map_err(|error| Refusal::new(format!("no salt for the query: {error}")))?;
        let rows = scan(&loaded.table, &loaded.schema).await?;
        enforce(&loaded.restrictions, &loaded.schema, &rows, &salt)
    }

    async fn load(&self, table: &TableIdent) -> Result<Loaded, Refusal> {
        let request = self.client.get(self.url(table.namespace(), table.name()));
        let request = request
            .header("X-Forwarded-User", &self.subject)
            .header("X-Iceberg-Client-Capabilities", "read-restrictions");
        let response = request.send().await?;
        let status = response.status();
        let body = response.bytes().await?;
        if status != reqwest::StatusCode::OK {
            let text = String::from_utf8_lossy(&body);
            return Err(Refusal::new(format!("the catalog answers {status}: {text}")));
        }
        Loaded::from_load_result(table, &json::parse(&body)?)
    }

    fn url(&self, namespace: &NamespaceIdent, table: &str) -> String {
        let levels: Vec<_> = namespace.iter().map(|level| encoded(level)).collect();
        format!("{}/v1/namespaces/{}/tables/{}", self.catalog, levels.join("%1F"), encoded(table))
    }
}

/// A part of a path with everything but unreserved characters in percent-encoding.
fn encoded(part: &str) -> String {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte| if unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    part.bytes().map(encode).collect()
}

/// A table with what has to be enforced on it.
struct Loaded {
    table: Table,
    /// The schema that the scan reads with.
    schema: Schema,
    restrictions: Restrictions,
}

impl Loaded {
    fn from_load_result(identifier: &TableIdent, body: &Value) -> Result<Self, Refusal> {
        let metadata: TableMetadata = serde_json::from_value(body["metadata"].clone())
            .map_err(|error| Refusal::new(format!("the table's metadata cannot be read: {error}")))?;
        // The scan reads with the snapshot's own schema, which may be older than the current one.
        let schema = match metadata.current_snapshot() {
            Some(snapshot) => snapshot.schema(&metadata)?,
            None => metadata.current_schema().clone(),
        };
        let restrictions = match body.get("read-restrictions") {
            Some(member) => Restrictions::from_value(member, &schema)?,
            None => Restrictions::none(),
        };
        let table =
            Table::builder().identifier(identifier.clone()).metadata(metadata).file_io(FileIO::new_with_fs());
        let table = table.runtime(iceberg::Runtime::try_current()?).readonly(true).build()?;
        Ok(Self { table, schema: (*schema).clone(), restrictions })
    }
}

/// Every row as the table has it, one file after the other, so that the order is the same each time. No filter goes
/// along: what iceberg-rust makes of one departs from what it means.
async fn scan(table: &Table, schema: &Schema) -> Result<RecordBatch, Refusal> {
    let specs = partition_specs(table).await?;
    let tasks = table.scan().with_concurrency_limit(1).build()?.plan_files().await?;
    // A column of which only the partition has the value is null to iceberg-rust unless the task names the
    // specification, and its own plan does not.
    let tasks = tasks.map_ok(move |mut task| {
        task.partition_spec = specs.get(task.data_file_path()).cloned();
        task
    });
    let reader = ArrowReaderBuilder::new(table.file_io().clone(), iceberg::Runtime::try_current()?);
    let reader = reader.with_data_file_concurrency_limit(1).build();
    let batches: Vec<_> = reader.read(Box::pin(tasks))?.stream().try_collect().await?;
    let arrow_schema: SchemaRef = schema_to_arrow_schema(schema)?.into();
    let batches =
        batches.iter().map(|batch| without_runs(batch, &arrow_schema)).collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(&arrow_schema, &batches)?)
}

/// The partition specification that each data file was written with, by its path.
async fn partition_specs(table: &Table) -> Result<HashMap<String, PartitionSpecRef>, Refusal> {
    let mut specs = HashMap::new();
    let (metadata, file_io) = (table.metadata(), table.file_io());
    let Some(snapshot) = metadata.current_snapshot() else { return Ok(specs) };
    for manifest in table.manifest_list_reader(snapshot).load().await?.entries() {
        let id = manifest.partition_spec_id;
        let spec = metadata.partition_spec_by_id(id);
        let spec = spec.ok_or_else(|| Refusal::new(format!("there is no partition specification {id}")))?;
        let manifest = manifest.load_manifest(file_io).await?;
        let alive = manifest.entries().iter().filter(|entry| entry.is_alive());
        specs.extend(alive.map(|entry| (entry.file_path().to_owned(), spec.clone())));
    }
    Ok(specs)
}

/// The batch with plain columns: iceberg-rust gives the value of a partition as one long run.
fn without_runs(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column.data_type() {
        DataType::RunEndEncoded(..) => cast(column, field.data_type()),
        _ => Ok(column.clone()),
    });
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?)
}

/// Filters by the original values, then masks the rows that are left. The columns carry their field ids in Parquet's
/// metadata, as iceberg-rust hands them out.
///
/// # Errors
///
/// When a restriction cannot be applied to these columns.
pub fn enforce(
    restrictions: &Restrictions,
    schema: &Schema,
    rows: &RecordBatch,
    salt: &[u8],
) -> Result<RecordBatch, Refusal> {
    let kept = restrictions.row_filter().evaluate(rows)?;
    mask::apply(restrictions, schema, &filter_record_batch(rows, &kept)?, salt)
}
