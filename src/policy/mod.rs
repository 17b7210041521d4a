//! Which policies apply: the [`PolicySource`] trait, and the policy-on-tag sources that come with the crate.
//!
//! Policies are bound to tags, and tags are assigned to objects; there is no direct binding of a policy to
//! an object.
//!
//! ```text
//! policy --(relation, selector)--> tag --(assignment, values)--> catalog | namespace | table | column
//! ```
//!
//! A valid model is a [`Governance`], put together by [`Governance::builder`] or read by
//! [`Governance::parse`]. [`GovernanceFile`] keeps the one of a file in force while the file changes,
//! [`InMemoryGovernance`] one that the program replaces.

mod builder;
mod content;
mod document;
mod error;
mod file;
mod governance;
mod memory;
mod model;
mod objects;
mod read;
mod revision;
mod source;

pub use builder::GovernanceBuilder;
pub use content::{ContentError, compile};
pub use document::Format;
pub use error::{GovernanceError, GovernanceProblem};
pub use file::GovernanceFile;
#[cfg(feature = "metrics")]
pub(crate) use governance::MATCHES_COUNTER;
pub use governance::{DeclaredPolicy, Governance};
pub use memory::InMemoryGovernance;
pub use model::{Assignment, PolicyObject, Relation, Selector, Tag};
pub use source::{
    Columns, EffectivePolicies, EffectivePolicy, Except, NotSelected, NotSelectedReason, ObjectName, Policy,
    PolicySource, PolicyType, Selection, SourceStatus, TableIdent, TableRequest,
};
