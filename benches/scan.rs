//! What it costs to find the facts in a load result and to put a member in, against other ways to do so.
//!
//! `cargo bench --bench scan`

#[path = "../tests/support/bodies.rs"]
mod bodies;
#[path = "../tests/support/oracle.rs"]
mod oracle;

use std::{cell::Cell, hint::black_box};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iceberg_read_restrictions::table::LoadResult;
use serde_json::Value;

use bodies::{LARGE, MEDIUM, Order, SMALL, Shape, escaped, pretty};

const MEMBER: &str = r#"{"required-row-filter":{"type":"is-null","child":{"type":"reference","id":1}}}"#;

/// Bodies of one kind, taken in turn so that no branch is learnt by heart.
struct Rotation {
    bodies: Vec<Bytes>,
    next: Cell<usize>,
}

impl Rotation {
    fn new(count: usize, body: impl Fn(usize) -> String) -> Self {
        Self { bodies: (0..count).map(|at| body(at).into()).collect(), next: Cell::new(0) }
    }

    fn next(&self) -> &Bytes {
        self.next.set((self.next.get() + 1) % self.bodies.len());
        &self.bodies[self.next.get()]
    }

    fn average_length(&self) -> usize {
        self.bodies.iter().map(Bytes::len).sum::<usize>() / self.bodies.len()
    }
}

fn cases() -> Vec<(&'static str, Rotation)> {
    let small = |at| Shape { columns: 8 + at % 5, snapshots: 2 + at % 5, ..SMALL };
    let medium = |at| Shape { snapshots: MEDIUM.snapshots + at, ..MEDIUM };
    vec![
        ("small", Rotation::new(15, |at| small(at).load_result())),
        ("medium", Rotation::new(3, |at| medium(at).load_result())),
        (
            "medium, id behind",
            Rotation::new(3, |at| medium(at).with_order(Order::BehindSnapshots).load_result()),
        ),
        ("medium, pretty", Rotation::new(3, |at| pretty(&medium(at).load_result()))),
        ("medium, escapes", Rotation::new(3, |at| escaped(&medium(at).load_result()))),
        ("large", Rotation::new(1, |_| LARGE.load_result())),
    ]
}

/// What people write first.
fn value_round_trip(body: &[u8]) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(body).expect("a load result");
    value["read-restrictions"] = serde_json::from_str(MEMBER).expect("JSON");
    serde_json::to_vec(&value).expect("JSON")
}

fn scan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan");
    for (name, bodies) in cases() {
        let earlier = Bytes::copy_from_slice(&bodies.bodies[0]);
        let known = LoadResult::read(earlier).expect("a load result").known_metadata();
        group.throughput(Throughput::Bytes(bodies.average_length() as u64));
        let mut bench = |candidate: &str, run: &mut dyn FnMut(&Bytes)| {
            group.bench_function(BenchmarkId::new(candidate, name), |bencher| {
                bencher.iter(|| run(bodies.next()));
            });
        };
        bench("memcpy", &mut |body| drop(black_box(body.to_vec())));
        bench("scanner", &mut |body| drop(black_box(LoadResult::read(body.clone()))));
        bench("scanner and splice", &mut |body| {
            drop(black_box(LoadResult::read(body.clone()).map(|table| table.splice(MEMBER))));
        });
        bench("scanner, metadata known", &mut |_| {
            drop(black_box(LoadResult::read_knowing(bodies.bodies[0].clone(), Some(&known))));
        });
        bench("serde_json visitors", &mut |body| drop(black_box(oracle::read_with_visitors(body))));
        bench("serde_json raw values", &mut |body| drop(black_box(oracle::read_with_raw_values(body))));
        bench("serde_json round trip", &mut |body| drop(black_box(value_round_trip(body))));
    }
    group.finish();
}

criterion_group!(benches, scan);
criterion_main!(benches);
