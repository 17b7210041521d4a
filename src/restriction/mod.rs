//! The closed result: predicates and actions by field id with typed literals, and nothing else. Nothing
//! here knows which policy, subject or table a restriction came from.

mod action;
mod literal;
mod predicate;

pub use action::{Action, Projection};
pub use literal::Literal;
pub use predicate::{ComparisonOperator, Predicate, Reference, SetOperator, UnaryOperator};
