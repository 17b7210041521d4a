//! Who is asking: the [`IdentitySource`] trait and the sources that come with the crate.

mod source;

pub use source::{IdentitySource, Membership, Memberships, Subject};
