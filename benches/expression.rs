//! What it costs to parse and check a policy's expression, up to the limits of the language.
//!
//! `cargo bench --bench expression`

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iceberg_read_restrictions::expression::Expression;

const SMALL: &str =
    r#"mask := action("show-last-4") if is_group_member("auditors") else := action("sha-256-global")"#;
const MEDIUM: &str = r#"filter := true if is_group_member("administrators") or is_group_member("compliance")
else := col("region") in ["US", "CA", "MX"] and not col("category") == "internal" if is_group_member("americas")
else := col("region") in ["DE", "FR", "IT", "ES", "PL"] and col("amount") <= 25000.00 if is_group_member("europe")
else := (col("region") == "JP" or col("region") == "KR") and col("closed") == true if is_group_member("asia")
else := col("owner") == session_user() and col("owner") != null"#;

fn join(count: usize, separator: &str, each: impl Fn(usize) -> String) -> String {
    (0..count).map(each).collect::<Vec<_>>().join(separator)
}

/// A chain of so many comparisons.
fn chain(length: usize) -> String {
    let comparison = |at| format!(r#"col("column_{at}") == "value {at}""#);
    format!("filter := {}", join(length, " or ", comparison))
}

/// An array of so many elements.
fn array(length: usize) -> String {
    format!(r#"filter := col("region") in [{}]"#, join(length, ", ", |at| format!("\"region {at}\"")))
}

/// So many conditions, one behind the other.
fn branches(count: usize) -> String {
    let branch = |at| format!(r#"action("sha-256-global") if is_group_member("group {at}") else := "#);
    format!(r#"mask := {}action("replace-with-null")"#, join(count, "", branch))
}

/// Three strings of nearly 4 KiB each, full of escapes.
fn strings() -> String {
    join(3, " and ", |_| format!("col(\"c\") != \"{}\"", r"\u00e9".repeat(680)))
}

fn expression(criterion: &mut Criterion) {
    let mut cases =
        vec![("small", SMALL.len(), SMALL.to_owned()), ("medium", MEDIUM.len(), MEDIUM.to_owned())];
    cases.extend([10, 20, 40, 80].map(|length| ("chain", length, chain(length))));
    cases.extend([30, 60, 120, 240].map(|length| ("array", length, array(length))));
    cases.extend([10, 20, 40, 80].map(|count| ("branches", count, branches(count))));
    let strings = format!("filter := {}", strings());
    cases.push(("long strings", strings.len(), strings));

    let mut group = criterion.benchmark_group("expression");
    for (name, size, source) in cases {
        Expression::parse(&source).expect("an expression within the limits");
        group.throughput(Throughput::Bytes(source.len() as u64));
        group.bench_function(BenchmarkId::new(name, size), |bencher| {
            bencher.iter(|| black_box(Expression::parse(black_box(&source))));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    targets = expression
}
criterion_main!(benches);
