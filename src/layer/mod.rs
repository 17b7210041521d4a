//! The HTTP side: the Tower layer, which requests it looks at, and what it makes of their answers.

mod body;
mod capability;
mod commit;
mod create;
mod decision;
mod error;
mod etag;
mod exchange;
mod future;
mod gate;
mod headers;
mod inner;
#[expect(clippy::module_inception, reason = "the parts of a middleware have the same names everywhere")]
mod layer;
mod load;
mod names;
mod reading;
mod route;
mod service;
mod unrecognized;

pub use body::{RequestBody, ResponseBody};
pub use capability::{Capability, CapabilityError, CapabilityRefusal, TrustedReaders};
pub use commit::RestrictedCommits;
pub use decision::{Decision, Decisions, ReportOnly, Revisions};
pub use error::RefusalCode;
pub(crate) use etag::InnerState;
pub use future::ResponseFuture;
pub use layer::{LayerBuilder, ReadRestrictionsLayer};
pub use service::ReadRestrictions;
