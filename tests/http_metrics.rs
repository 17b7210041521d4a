//! Counters through the `metrics` facade.

#![cfg(feature = "metrics")]

mod support;

use std::{sync::Arc, time::Duration};

use http::request::Parts;
use iceberg_read_restrictions::{
    ReadRestrictionsLayer,
    identity::{Directory, IdentitySource, Memberships, RequestUser, Subject},
    policy::{
        Assignment, EffectivePolicies, Governance, InMemoryGovernance, ObjectName, PolicyObject,
        PolicySource, Relation, SourceStatus, TableRequest, Tag,
    },
    source::{BoxFuture, SourceError},
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
        "iceberg_read_restrictions_resolve_seconds_count 2".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("source_errors_total"));
}

/// A source that fails when it is asked for this one.
struct Failing<S>(S);

impl PolicySource for Failing<InMemoryGovernance> {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        match request.table.name == "open" {
            true => Box::pin(async { Err(SourceError::new("no connection")) }),
            false => self.0.effective_policies(request),
        }
    }

    fn status(&self) -> SourceStatus {
        SourceStatus { age: Some(Duration::from_secs(7)), error: None }
    }
}

impl IdentitySource for Failing<Directory> {
    fn subject(&self, request: &Parts) -> BoxFuture<'static, Result<Option<Subject>, SourceError>> {
        match request.headers["x-user"] == "eve" {
            true => Box::pin(std::future::pending()),
            false => self.0.subject(request),
        }
    }

    fn memberships<'a>(
        &'a self,
        subject: &'a Subject,
        groups: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Memberships, SourceError>> {
        self.0.memberships(subject, groups)
    }
}

#[test]
fn failures_of_a_source_and_what_report_only_policies_would_do_are_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let text = include_str!("fixtures/http/governance.toml")
            .replacen("enabled = true", "enabled = true\nenforce = false", 1)
            .replace("\"secret_broken\"", "\"secret_broken\"\nenforce = false");
        let governance = governance_of(&text);
        let identity = Failing(directory(&governance));
        let layer = ReadRestrictionsLayer::builder(Failing(governance), identity)
            .catalog("prod")
            .source_timeout(Duration::from_millis(1));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let service = Inner::table().behind(layer);
            for (path, user) in
                [(OPEN, "alice"), (ORDERS, "eve"), (ORDERS, "alice"), (ORDERS, "etl"), (BROKEN, "alice")]
            {
                send(&service, request("GET", path, user, &[CAPABLE])).await;
            }
        });
    });
    let text = handle.render();
    let counted = |name: &str, label: &str, value: &str, count: u64| {
        let line = format!("iceberg_read_restrictions_{name}{{{label}=\"{value}\"}} {count}");
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    };
    counted("source_calls_total", "source", "policy", 5);
    counted("source_errors_total", "source", "policy", 1);
    counted("source_errors_total", "source", "identity", 1);
    for result in ["restricts", "nothing", "unresolvable"] {
        counted("report_only_total", "result", result, 1);
    }
    assert!(text.lines().any(|line| line == "iceberg_read_restrictions_snapshot_age_seconds 7"), "{text}");
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
