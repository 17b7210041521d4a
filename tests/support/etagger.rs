//! A catalog that answers 304 by the metadata location alone: the same tag whatever is asked for, and fresh
//! credentials in every body.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{body::Body, response::Response};
use http::header;

use super::{Inner, TABLE, table_response};

/// The metadata location in [`TABLE`].
const LOCATION: &str = "s3://warehouse/sales/orders/metadata/00002-a.metadata.json";

/// What the catalog can be told.
#[derive(Clone, Default)]
pub struct Etagger {
    version: Arc<AtomicUsize>,
    /// How many bodies were sent, which is also the credential in the next one.
    loads: Arc<AtomicUsize>,
    /// Whether each body has credentials of its own.
    pub fresh_credentials: bool,
    /// Whether a 304 names its tag.
    pub names_tag: bool,
}

impl Etagger {
    pub fn new() -> Self {
        Self { names_tag: true, ..Self::default() }
    }

    /// Somebody commits.
    pub fn commit(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Somebody takes the last commit back.
    pub fn go_back(&self) {
        self.version.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many bodies were sent.
    pub fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    /// The tag for the state that the table is in.
    pub fn tag(&self) -> String {
        format!("\"location-{}\"", self.version.load(Ordering::SeqCst))
    }

    /// The metadata location after so many commits.
    pub fn location(commits: usize) -> String {
        LOCATION.replace("00002", &format!("{commits:05}"))
    }

    pub fn service(&self) -> Inner {
        let this = self.clone();
        Inner::new(move |seen| {
            let tag = this.tag();
            let known = seen.headers.get_all(header::IF_NONE_MATCH).iter().any(|line| {
                let line = line.to_str().expect("visible ASCII");
                line.split(',').any(|candidate| candidate.trim() == tag)
            });
            let mut response = if known {
                Response::builder().status(304).header("x-inner", "304").body(Body::empty()).unwrap()
            } else {
                table_response(this.body(seen.uri.query()))
            };
            if !known || this.names_tag {
                response.headers_mut().insert(header::ETAG, tag.parse().unwrap());
            } else {
                response.headers_mut().remove(header::ETAG);
            }
            response
        })
    }

    fn body(&self, query: Option<&str>) -> String {
        let load = self.loads.fetch_add(1, Ordering::SeqCst);
        let version = self.version.load(Ordering::SeqCst);
        let mut body = TABLE.replace(LOCATION, &Self::location(version));
        if self.fresh_credentials {
            body = body.replace("secret-credential", &format!("secret-credential-{load}"));
        }
        if query == Some("snapshots=refs") {
            body = body.replace("\"snapshots\": [", "\"snapshots\": [], \"not-snapshots\": [");
        }
        body
    }
}
