//! What it costs to resolve the policies of a load once its schema is read and the expressions are compiled.
//!
//! `cargo bench --bench resolve`

#[path = "../tests/support/bodies.rs"]
mod bodies;

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use iceberg_read_restrictions::{
    identity::{Membership, Memberships, Subject},
    policy::{
        Assignment, EffectivePolicies, Governance, ObjectName, PolicyObject, Relation, TableIdent, Tag,
    },
    resolve::{ResolveRequest, Resolver},
    source::Revision,
    table::LoadResult,
};

use bodies::{MEDIUM, Shape};

const FILTER: &str = r#"filter := col("column_1") == "US" if is_group_member("auditors")
else := col("column_1") == session_user()"#;
const MASK: &str = r#"mask := action("mask-to-fixed-value") if is_group_member("auditors")
else := action("mask-to-fixed-value")"#;

/// Where the mask's tag is put.
#[derive(Clone, Copy)]
enum Masked {
    /// On one column.
    One,
    /// On the table, so that every column inherits it.
    Inherited,
    /// On each column.
    Each,
}

fn policies(columns: usize, filters: usize, masked: Masked) -> Arc<EffectivePolicies> {
    let table = || ObjectName::table("prod", ["sales"], "orders");
    let column = |id| ObjectName::column("prod", ["sales"], "orders", format!("column_{id}"));
    let mut governance = Governance::builder()
        .tag(Tag::new("filtered"))
        .tag(Tag::new("masked"))
        .policy(PolicyObject::column_mask("mask", MASK).enabled())
        .relation(Relation::new("mask", "masked"))
        .assignment(Assignment::new(table(), "filtered"));
    for number in 0..filters {
        let name = format!("filter_{number}");
        governance = governance
            .policy(PolicyObject::row_filter(&*name, FILTER).enabled())
            .relation(Relation::new(&*name, "filtered"));
    }
    let objects = match masked {
        Masked::One => vec![column(4)],
        Masked::Inherited => vec![table()],
        Masked::Each => (1..=columns).map(column).collect(),
    };
    for object in objects {
        governance = governance.assignment(Assignment::new(object, "masked"));
    }
    let governance = governance.build().expect("a valid model");
    governance.effective_policies_of(&TableIdent::new("prod", ["sales"], "orders"))
}

fn resolve(criterion: &mut Criterion) {
    let revision = Revision::new("1");
    let subject = Subject::new("alice", revision.clone());
    let memberships = Memberships::new(revision, [("auditors".to_owned(), Membership::Member)]);
    let mut group = criterion.benchmark_group("resolve");
    for (name, filters, masked) in [
        ("a filter and a mask on one column", 1, Masked::One),
        ("a filter and a mask on the table", 1, Masked::Inherited),
        ("a filter and a mask on each column", 1, Masked::Each),
        ("four filters and a mask on one column", 4, Masked::One),
        ("sixteen filters and a mask on one column", 16, Masked::One),
    ] {
        for columns in [10, 100, 1000] {
            let body = Shape { columns, ..MEDIUM }.load_result();
            let table = LoadResult::read(body.into()).expect("a load result");
            let policies = policies(columns, filters, masked);
            let request = || ResolveRequest {
                policies: &policies,
                subject: Some(&subject),
                memberships: Some(&memberships),
                table: &table,
            };
            Resolver::new().resolve(request()).expect("restrictions");
            group.bench_function(BenchmarkId::new(name, columns), |bencher| {
                bencher.iter(|| black_box(Resolver::new().resolve(black_box(request()))));
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    targets = resolve
}
criterion_main!(benches);
