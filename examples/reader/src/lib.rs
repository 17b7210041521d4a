//! A reader that enforces `read-restrictions`, on iceberg-rust and Arrow.
//!
//! It loads a table from a REST catalog as one subject, evaluates the row filter against the original values, applies the
//! actions to the rows that are left, and **fails the query on anything it does not know**: there is no path on which a
//! restriction that was not understood leads to rows.
//!
//! It shares no code with the layer: what it does comes from the REST specification and the table specification alone, so
//! that both can be held against the conformance kit in `tests/fixtures/reader/`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod demo;
mod json;
mod literal;
mod mask;
mod predicate;
mod reader;
mod refusal;
mod restrictions;
pub mod warehouse;

pub use literal::Literal;
pub use predicate::{Predicate, Test};
pub use reader::{Reader, enforce};
pub use refusal::Refusal;
pub use restrictions::{Action, Restrictions};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Field;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

/// The Iceberg field id of an Arrow field.
fn field_id(field: &Field) -> Result<i32, Refusal> {
    let id = field.metadata().get(PARQUET_FIELD_ID_META_KEY).and_then(|id| id.parse().ok());
    id.ok_or_else(|| Refusal::new(format!("the column {} has no field id", field.name())))
}

/// The top-level column with a field id.
fn column(batch: &RecordBatch, id: i32) -> Result<&ArrayRef, Refusal> {
    let found = batch.schema_ref().fields().iter().position(|field| field_id(field) == Ok(id));
    found
        .map(|index| batch.column(index))
        .ok_or_else(|| Refusal::new(format!("no column has the field id {id}")))
}
