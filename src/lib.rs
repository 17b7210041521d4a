//! A Tower layer that puts Apache Iceberg `read-restrictions` into the load results of a REST catalog that
//! knows nothing of them.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cache;
pub mod expression;
pub mod identity;
pub mod layer;
pub mod policy;
pub mod resolve;
pub mod restriction;
pub mod source;
pub mod table;
