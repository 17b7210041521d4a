//! Tables in Parquet, with the number of each row in a column `row`.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use futures_util::TryStreamExt;
use iceberg::{
    Catalog, CatalogBuilder, NamespaceIdent, TableCreation,
    io::LocalFsStorageFactory,
    memory::{MEMORY_CATALOG_WAREHOUSE, MemoryCatalogBuilder},
    spec::{
        DataContentType, DataFileBuilder, DataFileFormat, Literal, Schema, Struct, TableMetadata,
        TableMetadataBuilder, Transform, UnboundPartitionSpec,
    },
    table::Table,
    transaction::{ApplyTransactionAction, Transaction},
};
use iceberg_read_restrictions::restriction::Value;
use reader::warehouse::create_table;
use serde_json::{Value as Json, json};

use crate::{policy::load_result, rows::batch, values::value};

pub type Rows = BTreeSet<usize>;

/// A table of the conformance kit with the filters on it: every predicate on one type and its awkward values.
pub struct KitTable {
    pub table: Table,
    pub data_type: Json,
    pub filters: Vec<KitFilter>,
}

pub struct KitFilter {
    pub name: String,
    pub wire: Json,
    pub meant: Rows,
}

impl KitTable {
    /// Whether the type is one of these, or one of their kind: `decimal` is any decimal.
    pub fn is_of(&self, types: &[&str]) -> bool {
        let name = self.data_type.as_str();
        name.is_some_and(|name| types.iter().any(|prefix| name.starts_with(prefix)))
    }
}

/// Writes the tables of the kit's filters. Types that iceberg-rust does not know are left out.
pub async fn kit(folder: &Path) -> Vec<KitTable> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/reader/filters.json");
    let suites: Vec<Json> = serde_json::from_slice(&fs::read(path).expect("the kit")).expect("suites");
    let mut tables = Vec::new();
    for (suite, number) in suites.iter().zip(0..) {
        if let Ok(schema) = serde_json::from_value(suite["schema"].clone()) {
            tables.push(kit_table(suite, renumbered(schema), &folder.join(format!("suite-{number}"))).await);
        }
    }
    tables
}

async fn kit_table(suite: &Json, schema: Schema, folder: &Path) -> KitTable {
    let loaded = load_result(&suite["schema"]["fields"]);
    let row = |row: &Json| -> Vec<Value> {
        let values = row.as_array().expect("a row").iter().zip(loaded.schema().fields());
        values.map(|(json, field)| value(json, field.r#type)).collect()
    };
    let rows: Vec<_> = suite["rows"].as_array().expect("rows").iter().map(row).collect();
    // Several files, so that whole files are pruned as well.
    let batches = rows.chunks(rows.len().div_ceil(3)).map(|rows| batch(rows, &schema)).collect();
    let table = create_table(folder, "judged", schema, batches).await.expect("a table");
    let filters = suite["cases"].as_array().expect("cases").iter().map(kit_filter).collect();
    KitTable { table, data_type: suite["schema"]["fields"][1]["type"].clone(), filters }
}

fn kit_filter(case: &Json) -> KitFilter {
    let number = |row: &Json| usize::try_from(row[0].as_u64().expect("a number")).expect("a row");
    KitFilter {
        name: case["name"].as_str().expect("a name").to_owned(),
        wire: case["read-restrictions"]["required-row-filter"].clone(),
        meant: case["result"].as_array().expect("rows").iter().map(number).collect(),
    }
}

/// The schema that a new table gets. iceberg-rust numbers the fields itself, breadth first, which is the kit's order at the
/// top level.
fn renumbered(schema: Schema) -> Schema {
    let creation = TableCreation::builder().name("judged".into()).location("nowhere".into()).schema(schema);
    let metadata = TableMetadataBuilder::from_table_creation(creation.build()).expect("a table").build();
    metadata.expect("metadata").metadata.current_schema().as_ref().clone()
}

pub fn row() -> Json {
    json!({"id": 1, "name": "row", "type": "int", "required": true})
}

pub fn optional_x(data_type: &str) -> Json {
    json!({"id": 2, "name": "x", "type": data_type, "required": false})
}

fn schema(fields: &Json) -> Schema {
    let schema = json!({"type": "struct", "schema-id": 0, "fields": fields});
    serde_json::from_value(schema).expect("a schema")
}

/// A table with the number of each row and one optional column `x`.
pub async fn one_column<const N: usize>(folder: &Path, data_type: &str, values: [Value; N]) -> Table {
    let schema = schema(&json!([row(), optional_x(data_type)]));
    let rows: Vec<_> = (0..).map(Value::Int).zip(values).map(|(number, value)| vec![number, value]).collect();
    create_table(folder, "one_column", schema.clone(), vec![batch(&rows, &schema)]).await.expect("a table")
}

/// Null, both zeros, one and NaN.
pub async fn doubles(folder: &Path) -> Table {
    let values = [-0.0, 0.0, 1.0, f64::NAN].map(Value::Double);
    let [negative_zero, zero, one, nan] = values;
    one_column(folder, "double", [Value::Null, negative_zero, zero, one, nan]).await
}

/// Two rows in a file that has nothing but their numbers.
pub async fn numbers(folder: &Path) -> Table {
    let schema = schema(&json!([row()]));
    let rows = [0, 1].map(|number| vec![Value::Int(number)]);
    create_table(folder, "numbers", schema.clone(), vec![batch(&rows, &schema)]).await.expect("a table")
}

/// The same data files after a change of the table's schema.
pub fn evolved(table: &Table, fields: &[Json]) -> Table {
    let mut metadata = serde_json::to_value(table.metadata()).expect("JSON");
    let schema = json!({"type": "struct", "schema-id": 1, "fields": fields});
    metadata["schemas"].as_array_mut().expect("schemas").push(schema);
    metadata["current-schema-id"] = json!(1);
    metadata["last-column-id"] = json!(fields.len());
    for snapshot in metadata["snapshots"].as_array_mut().expect("snapshots") {
        snapshot["schema-id"] = json!(1);
    }
    let metadata: TableMetadata = serde_json::from_value(metadata).expect("metadata");
    let table = Table::builder()
        .identifier(table.identifier().clone())
        .file_io(table.file_io().clone())
        .metadata(metadata);
    table
        .runtime(iceberg::Runtime::try_current().expect("a runtime"))
        .readonly(true)
        .build()
        .expect("a table")
}

/// A table of one data file, in a partition where the column `x` is 5; the file has no such column, as after a
/// migration from Hive.
pub async fn migrated(folder: &Path) -> Table {
    let files = numbers(folder).await.scan().build().expect("a scan").plan_files().await.expect("a plan");
    let files: Vec<_> = files.try_collect().await.expect("a plan");
    let [file] = &files[..] else { panic!("one file, not {files:?}") };
    let location = [(MEMORY_CATALOG_WAREHOUSE.to_owned(), folder.join("migrated").display().to_string())];
    let catalog = MemoryCatalogBuilder::default().with_storage_factory(Arc::new(LocalFsStorageFactory));
    let catalog = catalog.load("judged", location.into()).await.expect("a catalog");
    let namespace = NamespaceIdent::new("sales".to_owned());
    catalog.create_namespace(&namespace, [].into()).await.expect("a namespace");
    let spec = UnboundPartitionSpec::builder().with_spec_id(0);
    let spec = spec.add_partition_field(2, "x", Transform::Identity).expect("a partition field").build();
    let schema = schema(&json!([row(), optional_x("int")]));
    let creation =
        TableCreation::builder().name("migrated".into()).schema(schema).partition_spec(spec).build();
    let table = catalog.create_table(&namespace, creation).await.expect("a table");
    let file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(file.data_file_path.clone())
        .file_format(DataFileFormat::Parquet)
        .file_size_in_bytes(file.file_size_in_bytes)
        .record_count(2)
        .partition_spec_id(table.metadata().default_partition_spec_id())
        .partition(Struct::from_iter([Some(Literal::int(5))]))
        .build()
        .expect("a data file");
    let transaction = Transaction::new(&table);
    let append = transaction.fast_append().add_data_files([file]);
    append.apply(transaction).expect("an append").commit(&catalog).await.expect("a commit")
}
