//! Prints what the layer costs as the tables of the README: beside a layer that does nothing, and beside what people
//! write first. The candidates take turns, so that whatever else the machine does meets all of them.
//!
//! `cargo bench --bench costs`

mod loads;

use std::{
    env,
    time::{Duration, Instant},
};

use loads::{
    Around, Ask, Candidate,
    origin::{Origin, SIZES, Size},
    prepare,
    sockets::{Connection, runtime},
};

const PASS_THROUGH: Candidate = (Around::PassThrough, Ask::Reload);
const FIRST: Candidate = (Around::Ours, Ask::FirstLoad);
const REPEAT: Candidate = (Around::Ours, Ask::Reload);
const VISITORS: Candidate = (Around::Visitors, Ask::Reload);
const VALUE: Candidate = (Around::Value, Ask::Reload);
const PASS_THROUGH_304: Candidate = (Around::PassThrough, Ask::Conditional);
const OURS_304: Candidate = (Around::Ours, Ask::Conditional);
const PASS_THROUGH_UNRELATED: Candidate = (Around::PassThrough, Ask::Unrelated);
const OURS_UNRELATED: Candidate = (Around::Ours, Ask::Unrelated);

fn main() {
    // When benches are only tried out, the small bodies show that everything works.
    let is_trial = !env::args().any(|argument| argument == "--bench");
    let sizes = if is_trial { &SIZES[..1] } else { &SIZES[..] };
    println!("{}, {}\n", jiff::Timestamp::now().strftime("%-d %B %Y"), std::env::consts::ARCH);
    end_to_end(sizes, is_trial);
    println!();
    added(sizes, is_trial);
}

/// Medians from the request to the end of the answer, over loopback sockets.
fn end_to_end(sizes: &[Size], is_trial: bool) {
    println!(
        "| load result | origin | pass-through | first sight | repeat | visitors | `Value` | 304: pass-through | ours |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for size in sizes {
        let origins =
            [("bytes in memory", Origin::in_memory(size)), ("serialises", Origin::serialising(size))];
        for (name, origin) in origins {
            let [pass_through, first, repeat, visitors, value, pass_through_304, ours_304] = round_trips(
                [PASS_THROUGH, FIRST, REPEAT, VISITORS, VALUE, PASS_THROUGH_304, OURS_304],
                &origin,
                if is_trial { 10 } else { Rounds::of(size).round_trips },
            );
            println!(
                "| {} | {name} | {} | {} | {} | {} | {} | {} | {} |",
                described(size, &origin),
                time(pass_through),
                ratio(first, pass_through),
                ratio(repeat, pass_through),
                ratio(visitors, pass_through),
                ratio(value, pass_through),
                time(pass_through_304),
                ratio(ours_304, pass_through_304),
            );
        }
    }
}

fn round_trips<const N: usize>(candidates: [Candidate; N], origin: &Origin, rounds: usize) -> [Duration; N] {
    runtime().block_on(async {
        let mut connections = Vec::with_capacity(N);
        for candidate in candidates {
            connections.push((Connection::open(candidate, origin, rounds).await, Vec::new()));
        }
        for _ in 0..rounds {
            for (connection, taken) in &mut connections {
                taken.push(connection.round_trip().await);
            }
        }
        let mut connections = connections.into_iter();
        candidates.map(|_| quantile(connections.next().map(|(_, taken)| taken).unwrap_or_default(), 2))
    })
}

/// What each layer adds to a pass-through, without sockets: lower quartiles, which other work on the machine moves
/// less than medians.
fn added(sizes: &[Size], is_trial: bool) {
    println!(
        "| load result | first sight | repeat | 304 | none of ours | visitors | `Value` | `Value` / first sight |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for size in sizes {
        let origin = Origin::in_memory(size);
        let candidates = [
            PASS_THROUGH,
            FIRST,
            REPEAT,
            VISITORS,
            VALUE,
            PASS_THROUGH_304,
            OURS_304,
            PASS_THROUGH_UNRELATED,
            OURS_UNRELATED,
        ];
        let [
            pass_through,
            first,
            repeat,
            visitors,
            value,
            pass_through_304,
            ours_304,
            pass_through_unrelated,
            ours_unrelated,
        ] = batches(candidates, &origin, size.batch, if is_trial { 1 } else { Rounds::of(size).batches });
        let above = |candidate: Duration| candidate.saturating_sub(pass_through);
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            described(size, &origin),
            time(above(first)),
            time(above(repeat)),
            time(ours_304.saturating_sub(pass_through_304)),
            time(ours_unrelated.saturating_sub(pass_through_unrelated)),
            time(above(visitors)),
            time(above(value)),
            ratio(above(value), above(first)),
        );
    }
}

/// The time of one request of each candidate.
fn batches<const N: usize>(
    candidates: [Candidate; N],
    origin: &Origin,
    count: usize,
    rounds: usize,
) -> [Duration; N] {
    let mut taken = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (candidate, taken) in candidates.into_iter().zip(&mut taken) {
            let run = prepare(candidate, origin, count);
            let start = Instant::now();
            let remains = run();
            taken.push(start.elapsed() / u32::try_from(count).expect("a small number"));
            drop(remains);
        }
    }
    taken.map(|taken| quantile(taken, 4))
}

/// How often each candidate has its turn, over sockets and without: the less often the longer it takes.
struct Rounds {
    round_trips: usize,
    batches: usize,
}

impl Rounds {
    fn of(size: &Size) -> Self {
        let (round_trips, batches) = match size.name {
            "small" => (3000, 300),
            "medium" => (600, 100),
            "large" => (60, 20),
            _ => (9, 5),
        };
        Self { round_trips, batches }
    }
}

/// What one in so many is below: the median for 2.
fn quantile(mut taken: Vec<Duration>, part: usize) -> Duration {
    taken.sort_unstable();
    taken.get(taken.len() / part).copied().unwrap_or_default()
}

fn described(size: &Size, origin: &Origin) -> String {
    let length = origin.average_length() as f64;
    let length =
        if length < 1e6 { format!("{:.0} KB", length / 1e3) } else { format!("{:.1} MB", length / 1e6) };
    format!("{}, {length}", size.name)
}

fn time(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        ..1.0 => format!("{micros:.2} µs"),
        ..10.0 => format!("{micros:.1} µs"),
        ..10_000.0 => format!("{micros:.0} µs"),
        _ => format!("{:.0} ms", micros / 1e3),
    }
}

fn ratio(candidate: Duration, to: Duration) -> String {
    let ratio = candidate.as_secs_f64() / to.as_secs_f64();
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}
