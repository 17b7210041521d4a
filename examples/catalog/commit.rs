//! Commits: requirements that must hold, then updates in their order.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    error::CatalogError,
    metadata::{
        PartitionSpec, Schema, Snapshot, SnapshotReference, SortOrder, TableMetadata, default_location,
    },
    store::{Store, TableName},
};

/// An id that stands for what this commit added last.
const LAST_ADDED: i64 = -1;

#[derive(Deserialize)]
pub struct CommitRequest {
    requirements: Vec<Requirement>,
    updates: Vec<Update>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all_fields = "kebab-case")]
enum Requirement {
    #[serde(rename = "assert-create")]
    Create,
    #[serde(rename = "assert-table-uuid")]
    TableUuid { uuid: String },
    #[serde(rename = "assert-ref-snapshot-id")]
    RefSnapshotId { r#ref: String, snapshot_id: Option<i64> },
    #[serde(rename = "assert-last-assigned-field-id")]
    LastAssignedFieldId { last_assigned_field_id: i64 },
    #[serde(rename = "assert-current-schema-id")]
    CurrentSchemaId { current_schema_id: i64 },
    #[serde(rename = "assert-last-assigned-partition-id")]
    LastAssignedPartitionId { last_assigned_partition_id: i64 },
    #[serde(rename = "assert-default-spec-id")]
    DefaultSpecId { default_spec_id: i64 },
    #[serde(rename = "assert-default-sort-order-id")]
    DefaultSortOrderId { default_sort_order_id: i64 },
}

/// The updates that clients need to create tables, change schemas and properties, and append. Others are
/// refused by name.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
enum Update {
    AssignUuid {
        uuid: String,
    },
    UpgradeFormatVersion {
        format_version: u8,
    },
    AddSchema {
        schema: Schema,
    },
    SetCurrentSchema {
        schema_id: i64,
    },
    AddSpec {
        spec: PartitionSpec,
    },
    SetDefaultSpec {
        spec_id: i64,
    },
    AddSortOrder {
        sort_order: SortOrder,
    },
    SetDefaultSortOrder {
        sort_order_id: i64,
    },
    AddSnapshot {
        snapshot: Snapshot,
    },
    SetSnapshotRef {
        ref_name: String,
        #[serde(flatten)]
        reference: SnapshotReference,
    },
    RemoveSnapshotRef {
        ref_name: String,
    },
    RemoveSnapshots {
        snapshot_ids: Vec<i64>,
    },
    SetLocation {
        location: String,
    },
    SetProperties {
        updates: BTreeMap<String, String>,
    },
    RemoveProperties {
        removals: Vec<String>,
    },
}

impl CommitRequest {
    /// The table's next metadata, if every requirement holds.
    pub fn apply(self, store: &Store, name: &TableName) -> Result<TableMetadata, CatalogError> {
        let creates = self.requirements.iter().any(|required| matches!(required, Requirement::Create));
        let mut metadata = if creates {
            store.must_be_free(name)?;
            TableMetadata::empty(default_location(name))
        } else {
            let table = store.table(name)?;
            let mut metadata = TableMetadata::clone(&table.metadata);
            metadata.succeed(&table.metadata_location, table.metadata.last_updated_ms);
            metadata
        };
        for requirement in &self.requirements {
            requirement.check(&metadata)?;
        }
        let mut added = Added::default();
        for update in self.updates {
            update.apply(&mut metadata, &mut added)?;
        }
        if metadata.schemas.is_empty() {
            return Err(CatalogError::bad_request("The table would have no schema".to_owned()));
        }
        Ok(metadata)
    }
}

impl Requirement {
    fn check(&self, metadata: &TableMetadata) -> Result<(), CatalogError> {
        let (what, holds) = match self {
            Self::Create => return Ok(()),
            Self::TableUuid { uuid } => ("table UUID", uuid.eq_ignore_ascii_case(&metadata.table_uuid)),
            Self::RefSnapshotId { r#ref, snapshot_id } => {
                let current = metadata.refs.get(r#ref).map(|reference| reference.snapshot_id);
                ("snapshot of the reference", current == *snapshot_id)
            }
            Self::LastAssignedFieldId { last_assigned_field_id: id } => {
                ("last assigned field id", *id == metadata.last_column_id)
            }
            Self::CurrentSchemaId { current_schema_id: id } => {
                ("current schema id", *id == metadata.current_schema_id)
            }
            Self::LastAssignedPartitionId { last_assigned_partition_id: id } => {
                ("last assigned partition id", *id == metadata.last_partition_id)
            }
            Self::DefaultSpecId { default_spec_id: id } => {
                ("default partition spec id", *id == metadata.default_spec_id)
            }
            Self::DefaultSortOrderId { default_sort_order_id: id } => {
                ("default sort order id", *id == metadata.default_sort_order_id)
            }
        };
        if holds {
            Ok(())
        } else {
            Err(CatalogError::commit_failed(format!("Requirement failed: {what} changed")))
        }
    }
}

/// The ids that this commit gave, for updates that refer to [`LAST_ADDED`].
#[derive(Default)]
struct Added {
    schema: Option<i64>,
    spec: Option<i64>,
    sort_order: Option<i64>,
}

impl Update {
    fn apply(self, metadata: &mut TableMetadata, added: &mut Added) -> Result<(), CatalogError> {
        match self {
            Self::AssignUuid { uuid } => metadata.table_uuid = uuid,
            Self::UpgradeFormatVersion { format_version } if format_version < metadata.format_version => {
                return Err(CatalogError::bad_request("A format version cannot be lowered".to_owned()));
            }
            Self::UpgradeFormatVersion { format_version } => metadata.format_version = format_version,
            Self::AddSchema { mut schema } => {
                let highest = highest_field_id(&schema.content);
                metadata.last_column_id = metadata.last_column_id.max(highest);
                schema.schema_id = next_id(metadata.schemas.iter().map(|schema| schema.schema_id));
                added.schema = Some(schema.schema_id);
                metadata.schemas.push(schema);
            }
            Self::SetCurrentSchema { schema_id } => {
                let ids = metadata.schemas.iter().map(|schema| schema.schema_id);
                metadata.current_schema_id = existing("schema", schema_id, added.schema, ids)?;
            }
            Self::AddSpec { mut spec } => {
                spec.spec_id = next_id(metadata.partition_specs.iter().map(|spec| spec.spec_id));
                added.spec = Some(spec.spec_id);
                let last = &mut metadata.last_partition_id;
                for field in &mut spec.fields {
                    let id = field.get("field-id").and_then(Value::as_i64).unwrap_or(*last + 1);
                    *last = id.max(*last);
                    field.insert("field-id".to_owned(), id.into());
                }
                metadata.partition_specs.push(spec);
            }
            Self::SetDefaultSpec { spec_id } => {
                let ids = metadata.partition_specs.iter().map(|spec| spec.spec_id);
                metadata.default_spec_id = existing("partition spec", spec_id, added.spec, ids)?;
            }
            Self::AddSortOrder { mut sort_order } => {
                // Order 0 is the table spec's name for "unsorted".
                sort_order.order_id = match sort_order.fields.is_empty() {
                    true => 0,
                    false => next_id(metadata.sort_orders.iter().map(|order| order.order_id)).max(1),
                };
                added.sort_order = Some(sort_order.order_id);
                metadata.sort_orders.retain(|order| order.order_id != sort_order.order_id);
                metadata.sort_orders.push(sort_order);
            }
            Self::SetDefaultSortOrder { sort_order_id } => {
                let ids = metadata.sort_orders.iter().map(|order| order.order_id);
                metadata.default_sort_order_id =
                    existing("sort order", sort_order_id, added.sort_order, ids)?;
            }
            Self::AddSnapshot { snapshot } => {
                metadata.last_sequence_number = metadata.last_sequence_number.max(snapshot.sequence_number);
                metadata.snapshots.push(snapshot);
            }
            Self::SetSnapshotRef { ref_name, reference } => {
                let id = reference.snapshot_id;
                let Some(snapshot) = metadata.snapshots.iter().find(|snapshot| snapshot.snapshot_id == id)
                else {
                    return Err(CatalogError::bad_request(format!("There is no snapshot {id}")));
                };
                if ref_name == "main" && metadata.current_snapshot_id != Some(id) {
                    let timestamp = snapshot.timestamp_ms;
                    metadata.snapshot_log.push(json!({"snapshot-id": id, "timestamp-ms": timestamp}));
                    metadata.current_snapshot_id = Some(id);
                }
                metadata.refs.insert(ref_name, reference);
            }
            Self::RemoveSnapshotRef { ref_name } => {
                metadata.refs.remove(&ref_name);
                if ref_name == "main" {
                    metadata.current_snapshot_id = None;
                }
            }
            Self::RemoveSnapshots { snapshot_ids } => {
                metadata.snapshots.retain(|snapshot| !snapshot_ids.contains(&snapshot.snapshot_id));
                metadata.refs.retain(|_, reference| !snapshot_ids.contains(&reference.snapshot_id));
                metadata.current_snapshot_id =
                    metadata.current_snapshot_id.filter(|current| !snapshot_ids.contains(current));
            }
            Self::SetLocation { location } => metadata.location = location.trim_end_matches('/').to_owned(),
            Self::SetProperties { updates } => metadata.properties.extend(updates),
            Self::RemoveProperties { removals } => {
                metadata.properties.retain(|key, _| !removals.contains(key));
            }
        }
        Ok(())
    }
}

fn next_id(ids: impl Iterator<Item = i64>) -> i64 {
    ids.max().map_or(0, |highest| highest + 1)
}

fn existing(
    what: &str,
    id: i64,
    last_added: Option<i64>,
    mut known: impl Iterator<Item = i64>,
) -> Result<i64, CatalogError> {
    let id = if id == LAST_ADDED { last_added.unwrap_or(LAST_ADDED) } else { id };
    match known.any(|known| known == id) {
        true => Ok(id),
        false => Err(CatalogError::bad_request(format!("There is no {what} {id}"))),
    }
}

/// The highest field id anywhere in a schema or nested type.
fn highest_field_id(content: &serde_json::Map<String, Value>) -> i64 {
    content
        .iter()
        .map(|(member, value)| match (member.as_str(), value) {
            ("id" | "element-id" | "key-id" | "value-id", id) => id.as_i64().unwrap_or(0),
            ("type" | "element" | "key" | "value", Value::Object(nested)) => highest_field_id(nested),
            ("fields", Value::Array(fields)) => {
                fields.iter().filter_map(Value::as_object).map(highest_field_id).max().unwrap_or(0)
            }
            _ => 0,
        })
        .max()
        .unwrap_or(0)
}
