//! Counters through the `metrics` facade.

#![cfg(feature = "metrics")]

mod support;

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
