//! The closed result: predicates and actions by field id with typed literals, and nothing else. Nothing
//! here knows which policy, subject or table a restriction came from.

mod action;
mod canonical;
mod civil;
mod evaluate;
mod literal;
mod mask;
mod predicate;
mod readable;
mod signature;
mod syntax;
mod upstream;
mod value;
mod wire;

pub use action::{Action, ActionError, Projection, UnknownAction};
pub use evaluate::{EvaluateError, Row, evaluate};
pub use literal::{Literal, LiteralError};
pub use mask::{MaskError, mask};
pub use predicate::{ComparisonOperator, Predicate, Reference, SetOperator, UnaryOperator};
pub use signature::Signature;
pub use upstream::{UpstreamError, UpstreamMember};
pub use value::Value;
pub use wire::{ActionConflict, ReadRestrictions};
