//! What the layer costs around a catalog, against no layer, a layer that does nothing, and other ways to do the same.
//!
//! `cargo bench --bench layer`

mod loads;

use std::{
    env,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use loads::{
    CANDIDATES, Candidate,
    origin::{Origin, SIZES, Size},
    prepare,
};

type MakeOrigin = fn(&Size) -> Origin;

const ORIGINS: [(&str, MakeOrigin); 2] =
    [("in memory", Origin::in_memory), ("serialising", Origin::serialising)];

fn layer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("layer");
    // When benches are only tried out, the large bodies would take most of the time and show nothing more.
    let sizes = if env::args().any(|argument| argument == "--bench") { &SIZES[..] } else { &SIZES[..2] };
    for size in sizes {
        for (origin_name, origin) in ORIGINS {
            let origin = origin(size);
            group.throughput(Throughput::Bytes(origin.average_length() as u64));
            for (name, candidate) in CANDIDATES {
                let id = BenchmarkId::new(name, format!("{}, {origin_name}", size.name));
                group.bench_function(id, |bencher| {
                    bencher.iter_custom(|times| measure(candidate, &origin, size.batch, times));
                });
            }
        }
    }
    group.finish();
}

/// The time of so many requests, in batches.
fn measure(candidate: Candidate, origin: &Origin, batch: usize, times: u64) -> Duration {
    let mut left = usize::try_from(times).expect("a number of requests");
    let mut taken = Duration::ZERO;
    while left > 0 {
        let count = left.min(batch);
        let run = prepare(candidate, origin, count);
        let start = Instant::now();
        let remains = run();
        taken += start.elapsed();
        drop(remains);
        left -= count;
    }
    taken
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = layer
}
criterion_main!(benches);
