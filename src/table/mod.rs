//! What the layer reads out of a load result: the current schema, the older ones, and where in the bytes
//! everything stands. Nothing here knows HTTP or policies.

mod error;
mod history;
mod load_result;
mod recognize;
mod scan;
mod schema;
mod schema_json;
mod types;

pub use error::LoadResultError;
pub use history::{History, PastField};
pub use load_result::{KnownMetadata, LoadResult};
pub(crate) use load_result::{KnownSchemas, Member};
pub use recognize::is_load_result;
pub use schema::{Field, Schema, SchemaBuilder};
pub use types::{NestedField, PrimitiveType, Type};
