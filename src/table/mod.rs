//! What the layer reads out of a load result: the current schema, the older ones, and where in the bytes
//! everything stands. Nothing here knows HTTP or policies.

mod schema;
mod types;

pub use schema::{Field, Schema, SchemaBuilder};
pub use types::{NestedField, PrimitiveType, Type};
