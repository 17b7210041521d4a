//! [Rustberg](https://docs.rs/rustberg) embedded in a server of one's own, with read restrictions in its load
//! results.
//!
//! Rustberg is a whole Iceberg REST catalog that serves its routes through axum. The layer can stand in two places:
//!
//! - [`around_everything`]: round the finished router, which is one line, but Rustberg's authentication is inside, so
//!   the layer has to find out by itself whose request it is;
//! - [`behind_authentication`]: between authentication and the handlers, where the principal is there to be read.

mod catalog;
mod identity;
pub mod orders;
mod places;

pub use catalog::{ApiKeys, CATALOG, open};
pub use identity::{CredentialIdentity, PrincipalIdentity, ROLES};
pub use places::{around, around_everything, behind_authentication, restrictions};
