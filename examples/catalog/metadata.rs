//! Table metadata as the Iceberg table spec lays it down, and the first version of a new table.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    error::CatalogError,
    store::{Properties, TableName, random_uuid},
};

/// Field ids of partition specs start here.
const FIRST_PARTITION_ID: i64 = 1000;

/// A table metadata document. What the catalog only passes on stays as it came, in `rest`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableMetadata {
    pub format_version: u8,
    pub table_uuid: String,
    pub location: String,
    pub last_sequence_number: i64,
    pub last_updated_ms: i64,
    pub last_column_id: i64,
    pub current_schema_id: i64,
    pub schemas: Vec<Schema>,
    pub default_spec_id: i64,
    pub partition_specs: Vec<PartitionSpec>,
    pub last_partition_id: i64,
    pub default_sort_order_id: i64,
    pub sort_orders: Vec<SortOrder>,
    pub properties: Properties,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_snapshot_id: Option<i64>,
    #[serde(default)]
    pub refs: BTreeMap<String, SnapshotReference>,
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
    #[serde(default)]
    pub snapshot_log: Vec<Value>,
    #[serde(default)]
    pub metadata_log: Vec<Value>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Schema {
    #[serde(default)]
    pub schema_id: i64,
    #[serde(flatten)]
    pub content: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PartitionSpec {
    #[serde(default)]
    pub spec_id: i64,
    pub fields: Vec<Map<String, Value>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SortOrder {
    #[serde(default)]
    pub order_id: i64,
    pub fields: Vec<Map<String, Value>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Snapshot {
    pub snapshot_id: i64,
    #[serde(default)]
    pub sequence_number: i64,
    pub timestamp_ms: i64,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotReference {
    pub snapshot_id: i64,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The body of a createTable request.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CreateTable {
    pub name: String,
    pub schema: Schema,
    pub location: Option<String>,
    pub partition_spec: Option<PartitionSpec>,
    pub write_order: Option<SortOrder>,
    #[serde(default)]
    pub stage_create: bool,
    #[serde(default)]
    pub properties: Option<Properties>,
}

impl TableMetadata {
    /// The first version of a table. Field ids are the catalog's to give: those of the request only link
    /// its partition spec and sort order to its schema.
    pub fn create(request: CreateTable, name: &TableName) -> Result<Self, CatalogError> {
        let CreateTable { mut schema, partition_spec, write_order, location, properties, .. } = request;
        let mut fresh = FreshIds::default();
        fresh.assign_struct(&mut schema.content)?;
        schema.schema_id = 0;
        fresh.relink_identifiers(&mut schema.content)?;

        let mut spec = partition_spec.unwrap_or_default();
        spec.spec_id = 0;
        for (index, field) in (FIRST_PARTITION_ID..).zip(&mut spec.fields) {
            fresh.relink(field)?;
            field.insert("field-id".to_owned(), index.into());
        }

        let mut order = write_order.unwrap_or_default();
        order.order_id = i64::from(!order.fields.is_empty());
        for field in &mut order.fields {
            fresh.relink(field)?;
        }

        let mut metadata = Self::empty(location.unwrap_or_else(|| default_location(name)));
        metadata.last_column_id = fresh.last;
        metadata.last_partition_id = FIRST_PARTITION_ID - 1 + spec.fields.len() as i64;
        metadata.default_sort_order_id = order.order_id;
        metadata.schemas.push(schema);
        metadata.partition_specs.push(spec);
        metadata.sort_orders.push(order);
        metadata.properties = properties.unwrap_or_default();
        if let Some(version) = metadata.properties.remove("format-version") {
            metadata.format_version =
                version.parse().ok().filter(|version| (1..=3).contains(version)).ok_or_else(|| {
                    CatalogError::bad_request(format!("Unsupported format version: {version}"))
                })?;
        }
        Ok(metadata)
    }

    /// A table without schema, spec or order: what the updates of a create transaction start from.
    pub fn empty(location: String) -> Self {
        Self {
            format_version: 2,
            table_uuid: random_uuid(),
            location: location.trim_end_matches('/').to_owned(),
            last_sequence_number: 0,
            last_updated_ms: now_ms(),
            last_column_id: 0,
            current_schema_id: 0,
            schemas: Vec::new(),
            default_spec_id: 0,
            partition_specs: Vec::new(),
            last_partition_id: FIRST_PARTITION_ID - 1,
            default_sort_order_id: 0,
            sort_orders: Vec::new(),
            properties: Properties::new(),
            current_snapshot_id: None,
            refs: BTreeMap::new(),
            snapshots: Vec::new(),
            snapshot_log: Vec::new(),
            metadata_log: Vec::new(),
            rest: Map::new(),
        }
    }

    /// The same without the snapshots that nothing refers to.
    pub fn with_referenced_snapshots(&self) -> Self {
        let referenced: HashSet<i64> = self.refs.values().map(|reference| reference.snapshot_id).collect();
        let mut copy = self.clone();
        copy.snapshots.retain(|snapshot| referenced.contains(&snapshot.snapshot_id));
        copy
    }

    /// Notes the version that this one replaces.
    pub fn succeed(&mut self, previous_location: &str, previous_updated_ms: i64) {
        self.metadata_log
            .push(json!({"metadata-file": previous_location, "timestamp-ms": previous_updated_ms}));
        self.last_updated_ms = now_ms().max(previous_updated_ms + 1);
    }
}

/// Below the temporary folder, so that a client on the same machine can write data files.
pub fn default_location(name: &TableName) -> String {
    let folder = std::env::temp_dir().join("iceberg-embedded-catalog");
    format!("file://{}/{}/{}", folder.display(), name.namespace.join("/"), name.name)
}

pub fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// Numbers the fields of a new schema: all fields of a struct first, then what is nested in them.
#[derive(Default)]
struct FreshIds {
    last: i64,
    fresh: HashMap<i64, i64>,
}

impl FreshIds {
    fn next(&mut self, slot: Option<&mut Value>) -> Result<(), CatalogError> {
        let slot = slot.ok_or_else(|| CatalogError::bad_request("A field has no id".to_owned()))?;
        let old =
            slot.as_i64().ok_or_else(|| CatalogError::bad_request(format!("Not a field id: {slot}")))?;
        self.last += 1;
        *slot = self.last.into();
        match self.fresh.insert(old, self.last) {
            None => Ok(()),
            Some(_) => Err(CatalogError::bad_request(format!("Field id {old} is used twice"))),
        }
    }

    fn assign_struct(&mut self, content: &mut Map<String, Value>) -> Result<(), CatalogError> {
        let Some(Value::Array(fields)) = content.get_mut("fields") else {
            return Err(CatalogError::bad_request("A struct has no fields".to_owned()));
        };
        for field in fields.iter_mut() {
            self.next(field.get_mut("id"))?;
        }
        fields
            .iter_mut()
            .filter_map(|field| field.get_mut("type"))
            .try_for_each(|kind| self.assign_type(kind))
    }

    fn assign_type(&mut self, kind: &mut Value) -> Result<(), CatalogError> {
        let Value::Object(nested) = kind else { return Ok(()) };
        let parts: &[&str] = match nested.get("type").and_then(Value::as_str) {
            Some("struct") => return self.assign_struct(nested),
            Some("list") => &["element"],
            Some("map") => &["key", "value"],
            other => return Err(CatalogError::bad_request(format!("Not a type: {other:?}"))),
        };
        for part in parts {
            self.next(nested.get_mut(&format!("{part}-id")))?;
        }
        parts.iter().try_for_each(|part| nested.get_mut(*part).map_or(Ok(()), |kind| self.assign_type(kind)))
    }

    fn of(&self, old: &Value) -> Result<i64, CatalogError> {
        old.as_i64()
            .and_then(|old| self.fresh.get(&old).copied())
            .ok_or_else(|| CatalogError::bad_request(format!("No field of the schema has the id {old}")))
    }

    fn relink(&self, field: &mut Map<String, Value>) -> Result<(), CatalogError> {
        let source = self.of(field.get("source-id").unwrap_or(&Value::Null))?;
        field.insert("source-id".to_owned(), source.into());
        Ok(())
    }

    fn relink_identifiers(&self, content: &mut Map<String, Value>) -> Result<(), CatalogError> {
        if let Some(Value::Array(ids)) = content.get_mut("identifier-field-ids") {
            for id in ids {
                *id = self.of(id)?.into();
            }
        }
        Ok(())
    }
}
