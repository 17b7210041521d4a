//! Promise: the same rows in every reader. What a policy's source says, row by row, is held against what is
//! resolved from it, against what is sent, and against judges that share no code with this crate.
//!
//! - `meaning`: the source by a naive evaluator, the resolved predicate, and the wire form in every dialect of
//!   reader, on 100,000 generated cases;
//! - `rego`: the same rules run by `regorus`, a Rego engine;
//! - `kit`: the reference evaluator and masks on the conformance kit that readers are held to.
//!
//! iceberg-rust and PyIceberg judge the wire form in the tests of `examples/reader`, with the same generator.

mod dialect;
mod generate;
mod kit;
mod meaning;
mod naive;
mod policy;
mod random;
mod rego;
mod values;
