//! Instructions per byte, which do not depend on the machine's mood. Needs valgrind.
//!
//! `cargo bench --bench instructions`

#[path = "../tests/support/bodies.rs"]
mod bodies;
#[path = "../tests/support/oracle.rs"]
mod oracle;

use std::{env, hint::black_box, process::Command};

use bytes::Bytes;
use iceberg_read_restrictions::table::LoadResult;

use bodies::{MEDIUM, Order, SMALL, escaped, pretty};

/// What the scanner may take at most for a body of 200 KB or more.
const GOAL: f64 = 8.0;

/// A body by its name.
type Body = (&'static str, fn() -> String);

/// A way to find the facts, by its name.
type Candidate = (&'static str, fn(&Bytes));

const BODIES: [Body; 5] = [
    ("small", || SMALL.load_result()),
    ("medium", || MEDIUM.load_result()),
    ("medium, id behind", || MEDIUM.with_order(Order::BehindSnapshots).load_result()),
    ("medium, pretty", || pretty(&MEDIUM.load_result())),
    ("medium, escapes", || escaped(&MEDIUM.load_result())),
];

const CANDIDATES: [Candidate; 3] = [
    ("scanner", |body| drop(black_box(LoadResult::read(body.clone())))),
    ("serde_json visitors", |body| drop(black_box(oracle::read_with_visitors(body)))),
    ("serde_json round trip", |body| {
        let value: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        drop(black_box(serde_json::to_vec(&value)));
    }),
];

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, run, candidate, body, times] = &arguments[..]
        && run == "run"
    {
        let place = |text: &str| text.parse::<usize>().expect("a number");
        let text = Bytes::from(BODIES[place(body)].1());
        return (0..place(times)).for_each(|_| CANDIDATES[place(candidate)].1(&text));
    }
    if !arguments.contains(&"--bench".to_owned()) {
        println!("counted in a build for benches alone");
        return;
    }
    let mut missed = false;
    for (body, (body_name, text)) in BODIES.iter().enumerate() {
        let length = text().len();
        for (candidate, (candidate_name, _)) in CANDIDATES.iter().enumerate() {
            let count = |times| count_instructions(candidate, body, times);
            let (Some(once), Some(often)) = (count(1), count(6)) else {
                println!("valgrind is not there; nothing counted");
                return;
            };
            let per_byte = (often - once) as f64 / 5.0 / length as f64;
            println!(
                "{candidate_name:<24} {body_name:<20} {length:>8} bytes {per_byte:>7.2} instructions per byte"
            );
            missed |= candidate == 0 && *body_name == "medium" && per_byte > GOAL;
        }
    }
    assert!(!missed, "the scanner takes more than {GOAL} instructions per byte");
}

/// Runs this program under callgrind; all that is not the candidate is the same at any number of times.
fn count_instructions(candidate: usize, body: usize, times: usize) -> Option<u64> {
    let program = env::current_exe().expect("this program");
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["run".to_owned(), candidate.to_string(), body.to_string(), times.to_string()])
        .output()
        .ok()?;
    let report = String::from_utf8_lossy(&run.stderr);
    let collected = report.lines().find_map(|line| line.split_once("Collected :"))?;
    collected.1.trim().parse().ok()
}
