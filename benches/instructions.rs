//! Instructions, which do not depend on the machine's mood. Needs valgrind.
//!
//! `cargo bench --bench instructions`
//!
//! Two things are held: what the scanner takes for each byte, and what each way through the layer takes for a request
//! beyond a layer that does nothing. The counts of the latter were taken with one version of the compiler and hold for
//! that one only; with another they are printed. When a change is worth what it costs, or saves something, renew
//! `COUNTED` from what this bench prints. Under valgrind no processor has instructions for SHA-256, so hashing seems
//! dearer than it is.

mod loads;

use std::{any::Any, env, hint::black_box, process::Command};

use bytes::Bytes;
use iceberg_read_restrictions::{
    identity::{Membership, Memberships, Subject},
    policy::TableIdent,
    resolve::{ResolveRequest, Resolver},
    source::Revision,
    table::LoadResult,
};

use loads::{
    Around, Ask, Batch, Candidate, USER,
    bodies::{MEDIUM, Order, SMALL, escaped, pretty},
    governance, oracle,
    origin::{Origin, SIZES},
    prepare,
};

/// What the scanner may take at most for each byte of a body of 200 KB or more.
const GOAL: f64 = 8.0;

const COMPILER: &str = "rustc 1.95.0 (59807616e 2026-04-14)";

/// The instructions of one request beyond those of a pass-through.
const COUNTED: [(&str, u64); 9] = [
    ("pass-through, above no layer", 0),
    ("none of ours", 1937),
    ("first sight, small", 214512),
    ("first sight, medium", 2306290),
    ("repeat, small", 87900),
    ("repeat, medium", 132621),
    ("304, small", 74189),
    ("304, medium", 77968),
    ("resolve, 2 policies, 100 columns", 40877),
];

/// How much more is a regression, as a part of the count and beyond it: hashes have random seeds, and what the compiler
/// makes of a pass-through differs by several hundred with the rest of this program.
const TOLERANCE: f64 = 0.02;
const SLACK: u64 = 800;

/// A body by its name.
type Body = (&'static str, fn() -> String);

/// A way to find the facts, by its name.
type Reader = (&'static str, fn(&Bytes));

/// A way through the layer, what it is compared with, and the body that is loaded.
type Path = (&'static str, Candidate, Candidate, usize);

const BODIES: [Body; 5] = [
    ("small", || SMALL.load_result()),
    ("medium", || MEDIUM.load_result()),
    ("medium, id behind", || MEDIUM.with_order(Order::BehindSnapshots).load_result()),
    ("medium, pretty", || pretty(&MEDIUM.load_result())),
    ("medium, escapes", || escaped(&MEDIUM.load_result())),
];

const READERS: [Reader; 3] = [
    ("scanner", |body| drop(black_box(LoadResult::read(body.clone())))),
    ("serde_json visitors", |body| drop(black_box(oracle::read_with_visitors(body)))),
    ("serde_json round trip", |body| {
        let value: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        drop(black_box(serde_json::to_vec(&value)));
    }),
];

const fn ours(ask: Ask) -> Candidate {
    (Around::Ours, ask)
}

const fn passing(ask: Ask) -> Candidate {
    (Around::PassThrough, ask)
}

const PATHS: [Path; 8] = [
    ("pass-through, above no layer", passing(Ask::Reload), (Around::Nothing, Ask::Reload), 0),
    ("none of ours", ours(Ask::Unrelated), passing(Ask::Unrelated), 0),
    ("first sight, small", ours(Ask::FirstLoad), passing(Ask::Reload), 0),
    ("first sight, medium", ours(Ask::FirstLoad), passing(Ask::Reload), 1),
    ("repeat, small", ours(Ask::Reload), passing(Ask::Reload), 0),
    ("repeat, medium", ours(Ask::Reload), passing(Ask::Reload), 1),
    ("304, small", ours(Ask::Conditional), passing(Ask::Conditional), 0),
    ("304, medium", ours(Ask::Conditional), passing(Ask::Conditional), 1),
];

const RESOLVE: &str = "resolve, 2 policies, 100 columns";

/// How often a body is read, and a request made, in one count.
const READS: usize = 4;
const REQUESTS: usize = 60;

/// What a child of this program does, as its arguments say.
enum Work {
    Read(Reader, Body),
    Request(Candidate, usize),
    Resolve,
}

impl Work {
    /// Reads the arguments of a child.
    fn of(arguments: &[String]) -> Option<Self> {
        let number = |text: &String| text.parse::<usize>().ok();
        match arguments {
            [word, reader, body] if word == "read" => {
                Some(Self::Read(READERS[number(reader)?], BODIES[number(body)?]))
            }
            [word, path, is_base] if word == "request" => {
                let (_, path, base, size) = PATHS[number(path)?];
                Some(Self::Request(if is_base == "true" { base } else { path }, size))
            }
            [word] if word == "resolve" => Some(Self::Resolve),
            _ => None,
        }
    }

    fn times(&self) -> usize {
        match self {
            Self::Read(..) => READS,
            Self::Request(..) | Self::Resolve => REQUESTS,
        }
    }

    /// Gets everything ready that is not to be counted.
    fn prepare(&self) -> Batch {
        match self {
            Self::Read((_, read), (_, body)) => {
                let (read, body) = (*read, Bytes::from(body()));
                self.repeated(move || read(&body))
            }
            Self::Request(candidate, size) => {
                prepare(*candidate, &Origin::in_memory(&SIZES[*size]), self.times())
            }
            Self::Resolve => {
                let table = LoadResult::read(MEDIUM.load_result().into()).expect("a load result");
                let governance = governance(1);
                let policies = governance.effective_policies_of(&TableIdent::new("prod", ["sales"], "t0"));
                let revision = Revision::new("1");
                let subject = Subject::new(USER, revision.clone());
                let groups = [("auditors".to_owned(), Membership::Member)];
                let memberships = Memberships::new(revision, groups);
                self.repeated(move || {
                    let request = ResolveRequest {
                        policies: &policies,
                        subject: Some(&subject),
                        memberships: Some(&memberships),
                        table: &table,
                    };
                    drop(black_box(Resolver::new().resolve(request).expect("restrictions")));
                })
            }
        }
    }

    fn repeated(&self, work: impl Fn() + 'static) -> Batch {
        let times = self.times();
        Box::new(move || {
            (0..times).for_each(|_| work());
            Box::new(())
        })
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some(work) = Work::of(&arguments) {
        // What is done once in a process is done before anything is counted.
        work.prepare()();
        let batch = work.prepare();
        return drop(counted(batch));
    }
    if !arguments.contains(&"--bench".to_owned()) {
        println!("counted in a build for benches alone");
    } else if count(&["resolve"]).is_none() {
        println!("valgrind is not there; nothing counted");
    } else {
        let missed = [count_readers(), count_paths()].concat();
        assert!(missed.is_empty(), "{}", missed.join("\n"));
    }
}

/// The only thing that callgrind looks at.
#[inline(never)]
fn counted(batch: Batch) -> Box<dyn Any> {
    batch()
}

/// Instructions for each byte, and which of them are too many.
fn count_readers() -> Vec<String> {
    let mut missed = Vec::new();
    for (body, (body_name, text)) in BODIES.iter().enumerate() {
        let length = text().len();
        for (reader, (reader_name, _)) in READERS.iter().enumerate() {
            let count = count(&["read", &reader.to_string(), &body.to_string()]).unwrap_or(u64::MAX);
            let per_byte = count as f64 / length as f64;
            println!(
                "{reader_name:<24} {body_name:<20} {length:>8} bytes {per_byte:>7.2} instructions per byte"
            );
            if reader == 0 && *body_name == "medium" && per_byte > GOAL {
                missed.push(format!("the scanner takes more than {GOAL} instructions per byte"));
            }
        }
    }
    missed
}

/// Instructions for each request beyond those of a pass-through, and which of them are more than they were.
fn count_paths() -> Vec<String> {
    let paths = PATHS.iter().enumerate().map(|(number, (name, ..))| {
        let count = |is_base: &str| count(&["request", &number.to_string(), is_base]).unwrap_or(u64::MAX);
        (*name, count("false").saturating_sub(count("true")))
    });
    let counts: Vec<_> = paths.chain([(RESOLVE, count(&["resolve"]).unwrap_or(u64::MAX))]).collect();
    println!("\nconst COUNTED: [(&str, u64); {}] = [", counts.len());
    counts.iter().for_each(|(name, count)| println!("    ({name:?}, {count}),"));
    println!("];");
    if !is_the_same_compiler() {
        println!("not compared: the counts were taken with {COMPILER}");
        return Vec::new();
    }
    let expected =
        |name: &str| COUNTED.iter().find(|(counted, _)| *counted == name).map_or(0, |(_, count)| *count);
    let allowed = |name| (expected(name) as f64 * (1.0 + TOLERANCE)) as u64 + SLACK;
    counts
        .iter()
        .filter(|(name, count)| *count > allowed(name))
        .map(|(name, count)| format!("{name}: {count} instructions where there were {}", expected(name)))
        .collect()
}

fn is_the_same_compiler() -> bool {
    let version = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output();
    version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).trim() == COMPILER)
}

/// The instructions of one piece of work in a child of this program.
fn count(arguments: &[&str]) -> Option<u64> {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let times = Work::of(&arguments)?.times() as u64;
    let program = env::current_exe().expect("this program");
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted*"])
        .arg(program)
        .args(&arguments)
        .output()
        .ok()?;
    let report = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{report}");
    let (_, collected) = report.lines().find_map(|line| line.split_once("Collected :"))?;
    Some(collected.trim().parse::<u64>().ok()? / times)
}
