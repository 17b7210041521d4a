//! The Tower layer: which requests it looks at, and what it makes of their answers. HTTP only; what a policy or a
//! schema means is decided elsewhere.
//!
//! Everything reduces to four rules:
//!
//! 1. If the inner service returns a load result to a caller for whom a restriction is active, the answer carries
//!    exactly the right restrictions, or it is not a 2xx.
//! 2. A 304 reaches the client only after restrictions were resolved for this caller now, and only if the client sent
//!    our own tag for exactly this representation.
//! 3. Every failure is closed: an Iceberg error body with a stable [code](RefusalCode), without metadata, credentials,
//!    entity tag, or the name of a policy, tag or group.
//! 4. Everything else passes through unchanged, body unbuffered, bytes untouched.
//!
//! # Where to put it
//!
//! Around the whole catalog, behind authentication:
//!
//! ```
//! use axum::{Router, routing::get};
//! use iceberg_read_restrictions::{
//!     identity::RequestUser,
//!     layer::ReadRestrictionsLayer,
//!     policy::{Governance, InMemoryGovernance},
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let catalog = Router::new().route("/v1/config", get(|| async { "{}" }));
//! let policies = InMemoryGovernance::new(Governance::builder().build()?);
//! let directory = policies.directory(RequestUser::extension());
//! let layer = ReadRestrictionsLayer::builder(policies, directory).catalog("prod").build();
//!
//! let app: Router = Router::new().fallback_service(catalog).layer(layer);
//! # Ok(())
//! # }
//! ```
//!
//! For operations that read a table without loading it (credentials, scan planning, signing) the layer loads the table
//! through the service that it is put around, so that has to be the whole catalog, as it is here. With
//! `catalog.layer(layer)` axum would put the layer around each route by itself, where the table's own route cannot be
//! reached: loads are governed there too, but those operations fail on governed tables.
//!
//! What is inside must read names as the layer does: namespace levels are split at `%1F` in the raw path (and at a
//! [configured separator](LayerBuilder::namespace_separators)), then decoded once; `+` is a plus unless
//! [said otherwise](LayerBuilder::plus_as_space). Names are compared as they are: a catalog that ignores the case of
//! names, or trims them, would let a table be reached under a name that no policy knows.
//!
//! # What happens to a request
//!
//! | request | what the layer does |
//! |---|---|
//! | loadTable | asks the inner service, then policies and identity, then splices |
//! | createTable, registerTable | refuses before anything is created what it would refuse afterwards, as far as the name and the schema in the request tell; a load result in the answer is treated as loadTable's |
//! | loadCredentials, planTableScan, fetchPlanningResult, fetchScanTasks, sign | refused wherever loadTable would be; any method but `OPTIONS` |
//! | commit | passes without its entity tag on a governed table; [`RestrictedCommits::Refuse`] refuses it to subjects with an active mask or filter, and transactions for any of their tables |
//! | HEAD on a table | passes without its entity tag on a governed table |
//! | a path that a lenient router could take for one of these | 400 `ambiguous-path` |
//! | anything else below `namespaces` that the REST specification does not have | a load result in the answer is refused (502), and so is a compressed answer, or a JSON answer that is too large to be looked at |
//! | everything else | passes |
//!
//! A table without an effective policy is ungoverned: nothing about its answers changes, not even where they cannot be
//! understood.
//!
//! # Caches
//!
//! Two, both [bounded](LayerBuilder::cache_bytes). One knows metadata again that have not changed since they were read
//! last; the other knows what was resolved for a caller, and answers a conditional load from an inner 304. Policies and
//! identity are asked anew for every load, and what was resolved is used again only if the answers, the schemas and the
//! restrictions of the inner service are those that it was resolved from.
//!
//! # Telling administrators
//!
//! Each governed load, gate and refusal is a [`Decision`]: handed to a [`Decisions`] hook, and a `tracing` event with
//! the target `iceberg_read_restrictions::decision`. With the `metrics` feature it is counted as well.

mod body;
mod capability;
mod commit;
mod create;
mod decision;
#[cfg(feature = "decompression")]
mod decompress;
mod error;
mod etag;
mod exchange;
mod future;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod headers;
mod inner;
mod kept;
#[expect(clippy::module_inception, reason = "the parts of a middleware have the same names everywhere")]
mod layer;
mod load;
mod measure;
mod names;
mod read;
mod reading;
mod route;
mod service;
mod unrecognized;

pub use body::{RequestBody, ResponseBody};
pub use capability::{Capability, CapabilityError, CapabilityRefusal, TrustedReaders};
pub use commit::RestrictedCommits;
pub use decision::{Decision, Decisions, ReportOnly, Revisions};
pub use error::RefusalCode;
pub use future::ResponseFuture;
pub use layer::{LayerBuilder, ReadRestrictionsLayer};
pub use service::ReadRestrictionsService;
