//! Which policies apply: the [`PolicySource`] trait, and policy-on-tag sources that come with the crate.

mod content;
mod source;

pub use content::ContentError;
pub use source::{
    Columns, EffectivePolicies, EffectivePolicy, Except, NotSelected, NotSelectedReason, ObjectName, Policy,
    PolicySource, PolicyType, Selection, SourceStatus, TableIdent, TableRequest,
};
