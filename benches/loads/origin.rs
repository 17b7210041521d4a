//! The catalog: it answers every request at once, and every load with an entity tag, as catalogs do.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;
use tower::Service;

use super::bodies::{HUGE, LARGE, MEDIUM, SMALL, Shape};

/// A size of load results.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub name: &'static str,
    shape: Shape,
    /// How many bodies are taken in turn, so that no branch is learnt by heart.
    bodies: usize,
    /// How many requests are made in one batch: so few that a batch is seldom interrupted.
    pub batch: usize,
}

pub const SIZES: [Size; 4] = [
    Size { name: "small", shape: SMALL, bodies: 15, batch: 60 },
    Size { name: "medium", shape: MEDIUM, bodies: 3, batch: 6 },
    Size { name: "large", shape: LARGE, bodies: 1, batch: 1 },
    Size { name: "huge", shape: HUGE, bodies: 1, batch: 1 },
];

impl Size {
    fn bodies(&self) -> impl Iterator<Item = String> {
        let Self { shape, bodies, .. } = *self;
        (0..bodies).map(move |at| {
            let (columns, snapshots) = (shape.columns - 2 + at % 5, shape.snapshots - 1 + at % 3);
            Shape { columns, snapshots, ..shape }.load_result()
        })
    }
}

/// A catalog of tables with a number at the end of their names.
#[derive(Clone)]
pub struct Origin(Arc<[Table]>);

struct Table {
    load_result: LoadResult,
    tag: HeaderValue,
}

enum LoadResult {
    InMemory(Bytes),
    Serialised(Value),
}

impl Origin {
    /// Answers with bytes that it holds.
    pub fn in_memory(size: &Size) -> Self {
        Self::new(size, |body| LoadResult::InMemory(body.into()))
    }

    /// Writes what it answers on each request.
    pub fn serialising(size: &Size) -> Self {
        Self::new(size, |body| LoadResult::Serialised(serde_json::from_str(&body).expect("JSON")))
    }

    fn new(size: &Size, load_result: impl Fn(String) -> LoadResult) -> Self {
        let table = |(number, body)| Table {
            load_result: load_result(body),
            tag: format!("\"{number}-00017-0f3b8ad4\"").parse().expect("an entity tag"),
        };
        Self(size.bodies().enumerate().map(table).collect())
    }

    /// How many tables it has; those beyond repeat them.
    pub fn tables(&self) -> usize {
        self.0.len()
    }

    pub fn average_length(&self) -> usize {
        self.0.iter().map(|table| table.load_result.bytes().len()).sum::<usize>() / self.0.len()
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
        let Some(table) = self.table(request.uri().path()) else {
            return response.body(Full::from("{}")).expect("a response");
        };
        let response = response.header(header::ETAG, &table.tag);
        if request.headers().get(header::IF_NONE_MATCH) == Some(&table.tag) {
            return response.status(StatusCode::NOT_MODIFIED).body(Full::default()).expect("a response");
        }
        response.body(table.load_result.bytes().into()).expect("a response")
    }

    fn table(&self, path: &str) -> Option<&Table> {
        let number: usize = path.rsplit_once("/t")?.1.parse().ok()?;
        Some(&self.0[number % self.0.len()])
    }
}

impl LoadResult {
    fn bytes(&self) -> Bytes {
        match self {
            Self::InMemory(bytes) => bytes.clone(),
            Self::Serialised(value) => serde_json::to_vec(value).expect("JSON").into(),
        }
    }
}

impl<B> Service<Request<B>> for Origin {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ready(Ok(self.answer(&request)))
    }
}
