//! Promise: this reader, iceberg-rust's own evaluators and PyIceberg's show the rows that a policy's source says.
//!
//! Rules, tables and rows come from the generator of the crate's own tests; what is judged is the wire form that the
//! crate makes of them. The reader is held to the conformance kit as well.

#[path = "../../../../tests/judges/generate.rs"]
#[allow(dead_code, reason = "shared with the crate's tests")]
mod generate;
#[path = "../../../../tests/judges/naive.rs"]
mod naive;
#[path = "../../../../tests/judges/policy.rs"]
#[allow(dead_code, reason = "shared with the crate's tests")]
mod policy;
#[path = "../../../../tests/judges/random.rs"]
mod random;
#[path = "../../../../tests/judges/values.rs"]
mod values;

mod cases;
mod demo;
mod iceberg_rust;
mod kit;
mod mutations;
mod ours;
mod pyiceberg;
mod rows;
mod served;
mod tables;
mod wire;
