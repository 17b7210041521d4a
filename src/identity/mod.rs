//! Who is asking: the [`IdentitySource`] trait and the sources that come with the crate.
//!
//! A [`Directory`] reads the user from the request, as a [`RequestUser`] says, and knows groups: those of a
//! governance file, of a model in memory, or any [`Groups`].

mod directory;
mod groups;
mod source;
mod user;

pub use directory::{AuthenticatedGroups, Directory, RequestGroups};
pub use groups::Groups;
pub use source::{IdentitySource, Membership, Memberships, Subject};
pub use user::{AuthenticatedUser, RequestUser};
