//! A Tower layer that puts Apache Iceberg `read-restrictions` (row filters and column masks) into the load results
//! of a REST catalog that knows nothing of them.
//!
//! An Iceberg REST catalog decides who may load a table; it cannot say "but only these rows, and with the phone number
//! masked". The specification has a member of the load result for that, which a conforming reader must enforce. This
//! layer fills it: it reads the load result of the inner service, asks which policies apply and who is asking, resolves
//! them, and splices the restrictions in, without a change to any other byte. It fails closed: what cannot be resolved
//! is refused. It only ever takes away; it never grants.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::{BodyExt, Empty, Full};
//! use iceberg_read_restrictions::{
//!     ReadRestrictionsLayer,
//!     identity::{AuthenticatedUser, RequestUser},
//!     layer::RequestBody,
//!     policy::{Format, Governance, InMemoryGovernance},
//! };
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policies = InMemoryGovernance::new(Governance::parse(
//!     r#"
//!     tags = [{ name = "pii" }]
//!
//!     [[policies]]
//!     name = "mask_phone"
//!     policyType = "system_column_mask"
//!     enabled = true
//!     content.expression = 'mask := action("show-last-4")'
//!     tags = [{ tag = "pii" }]
//!
//!     [[assignments]]
//!     object = { catalog = "prod", namespace = ["sales"], table = "orders", column = "phone" }
//!     tag = "pii"
//!     "#,
//!     Format::Toml,
//! )?);
//! let users = policies.directory(RequestUser::extension());
//! let layer = ReadRestrictionsLayer::builder(policies, users).catalog("prod").build();
//!
//! // Any service that answers loads; in a real server, a router.
//! let catalog = service_fn(|_: Request<RequestBody<Empty<Bytes>>>| async {
//!     let body = r#"{"metadata": {"format-version": 2, "current-schema-id": 0, "schemas": [{"type": "struct",
//!         "schema-id": 0, "fields": [{"id": 4, "name": "phone", "type": "string", "required": false}]}]}}"#;
//!     Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
//! });
//!
//! let load = Request::get("/v1/namespaces/sales/tables/orders")
//!     .header("x-iceberg-client-capabilities", "read-restrictions")
//!     .extension(AuthenticatedUser("alice".into()))
//!     .body(Empty::new())?;
//! let response = layer.layer(catalog).oneshot(load).await?;
//! assert_eq!(response.status(), StatusCode::OK);
//! let body = response.into_body().collect().await?.to_bytes();
//! assert!(body.starts_with(
//!     br#"{"read-restrictions":{"required-column-projections":[{"action":"show-last-4","field-id":4}]},"metadata""#
//! ));
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//!
//! One request travels one way through the modules:
//!
//! | module | what it does |
//! |---|---|
//! | [`layer`] | HTTP: which requests are loads, who may receive restrictions, entity tags, errors |
//! | [`table`] | reads the schema and the places of things out of a load result, in one pass over the bytes |
//! | [`policy`] | which policies apply: the [`PolicySource`](policy::PolicySource) trait, policy-on-tag, the governance file |
//! | [`identity`] | who is asking: the [`IdentitySource`](identity::IdentitySource) trait and its sources |
//! | [`expression`] | the policy language: source text to a checked rule |
//! | [`resolve`] | binds checked rules to a subject and a schema, finds conflicts, explains |
//! | [`restriction`] | the closed result: typed predicates and actions, their JSON, and their reference meaning |
//! | [`source`] | what the two pluggable sources have in common |
//!
//! # Features
//!
//! - `decompression`: decodes inner answers that are compressed although they were asked not to be, within the limit
//!   for bodies. Without it they are refused on governed tables.
//! - `metrics`: counters and histograms through the [`metrics`](https://docs.rs/metrics) facade.
//!
//! Both are off by default. The layer needs a Tokio runtime with timers, for the time limits of the sources.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cache;
pub mod expression;
pub mod identity;
pub mod layer;
pub mod policy;
pub mod resolve;
pub mod restriction;
pub mod source;
pub mod table;

pub use layer::ReadRestrictionsLayer;

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
