//! Counters through the `metrics` facade.

#![cfg(feature = "metrics")]

mod support;

use iceberg_read_restrictions::{
    ReadRestrictionsLayer,
    identity::RequestUser,
    policy::{Assignment, Governance, InMemoryGovernance, ObjectName, PolicyObject, Relation, Tag},
};
use metrics_exporter_prometheus::PrometheusBuilder;
use support::*;

#[test]
fn requests_sources_and_times_are_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let service = Inner::table().behind(layer());
            for (path, user, headers) in [
                (ORDERS, "alice", &[CAPABLE][..]),
                (ORDERS, "alice", &[]),
                (ORDERS, "etl", &[]),
                (OPEN, "alice", &[]),
                (OPEN, "bob", &[]),
            ] {
                send(&service, request("GET", path, user, headers)).await;
            }
        });
    });
    let text = handle.render();
    let request = |outcome: &str, code: &str| {
        format!(
            "iceberg_read_restrictions_requests_total{{operation=\"loadTable\",outcome=\"{outcome}\",code=\"{code}\"}}"
        )
    };
    for line in [
        format!("{} 1", request("restricted", "")),
        format!("{} 1", request("refused", "capability-required")),
        format!("{} 1", request("unrestricted", "")),
        format!("{} 2", request("ungoverned", "")),
        "iceberg_read_restrictions_source_calls_total{source=\"policy\"} 5".to_owned(),
        "iceberg_read_restrictions_source_calls_total{source=\"identity\"} 6".to_owned(),
        "iceberg_read_restrictions_scan_seconds_count 5".to_owned(),
        "iceberg_read_restrictions_resolve_seconds_count 3".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("source_errors_total"));
}

#[test]
fn a_policy_that_never_matched_is_seen_as_a_zero() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let governance = Governance::builder()
            .tag(Tag::new("t"))
            .policy(PolicyObject::row_filter("applies", "filter := true").enabled())
            .policy(PolicyObject::row_filter("reaches_nothing", "filter := true").enabled())
            .policy(PolicyObject::row_filter("disabled", "filter := true"))
            .relation(Relation::new("applies", "t"))
            .assignment(Assignment::new(ObjectName::catalog("prod"), "t"))
            .build()
            .unwrap();
        let policies = InMemoryGovernance::new(governance);
        let identity = policies.directory(RequestUser::fixed("alice"));
        let layer = ReadRestrictionsLayer::builder(policies, identity).catalog("prod");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let service = Inner::table().behind(layer);
            for _ in 0..2 {
                send(&service, request("GET", ORDERS, "alice", &[CAPABLE])).await;
            }
        });
    });
    let text = handle.render();
    let matches: Vec<_> = text.lines().filter(|line| line.contains("policy_matches_total{")).collect();
    let line = |policy, count| {
        format!("iceberg_read_restrictions_policy_matches_total{{policy=\"{policy}\"}} {count}")
    };
    let mut matches: Vec<_> = matches.into_iter().map(str::to_owned).collect();
    matches.sort();
    assert_eq!(matches, [line("applies", 2), line("reaches_nothing", 0)]);
}
