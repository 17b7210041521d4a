//! Counters and histograms through the `metrics` facade; nothing at all without the `metrics` feature.
//!
//! | name | kind | labels |
//! |---|---|---|
//! | `iceberg_read_restrictions_requests_total` | counter | `operation`, `outcome`, `code` |
//! | `iceberg_read_restrictions_source_calls_total` | counter | `source` |
//! | `iceberg_read_restrictions_source_errors_total` | counter | `source` |
//! | `iceberg_read_restrictions_report_only_total` | counter | `result` |
//! | `iceberg_read_restrictions_policy_matches_total` | counter | `policy` |
//! | `iceberg_read_restrictions_snapshot_age_seconds` | gauge | |
//! | `iceberg_read_restrictions_scan_seconds` | histogram | |
//! | `iceberg_read_restrictions_resolve_seconds` | histogram | |
//!
//! The sources of this crate start the matches of each enabled policy at zero when they put it in force, so a policy that
//! never matched is one whose counter is still zero. The `result` of a report-only policy is what it would have done to this
//! load: `restricts`, `nothing` or `unresolvable`. Labels never hold the name of a subject, a group, a tag or a table.

use std::sync::Arc;

use super::{error::RefusalCode, route::OperationKind};
use crate::{
    policy::PolicySource,
    resolve::{Outcome, Reported},
};

/// Which of the two sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Policy,
    Identity,
}

impl Source {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Identity => "identity",
        }
    }
}

/// A piece of work whose time is taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Reading a load result.
    Scan,
    /// Resolving it for a subject.
    Resolve,
}

#[cfg(feature = "metrics")]
mod facade {
    use std::time::Instant;

    use super::*;
    use crate::{layer::decision::restrictions, policy::MATCHES_COUNTER};

    /// An operation came to an end.
    pub(in super::super) fn decided(operation: OperationKind, outcome: Outcome, code: Option<RefusalCode>) {
        let outcome = match outcome {
            Outcome::Ungoverned => "ungoverned",
            Outcome::Unrestricted => "unrestricted",
            Outcome::Restricted => "restricted",
            Outcome::Refused => "refused",
        };
        metrics::counter!(
            "iceberg_read_restrictions_requests_total",
            "operation" => operation.as_str(),
            "outcome" => outcome,
            "code" => code.map_or("", RefusalCode::as_str),
        )
        .increment(1);
    }

    /// A source was called.
    pub(in super::super) fn called(source: Source, failed: bool) {
        metrics::counter!("iceberg_read_restrictions_source_calls_total", "source" => source.as_str())
            .increment(1);
        if failed {
            metrics::counter!("iceberg_read_restrictions_source_errors_total", "source" => source.as_str())
                .increment(1);
        }
    }

    /// These policies applied to a load.
    pub(in super::super) fn matched<'a>(policies: impl Iterator<Item = &'a Arc<str>>) {
        for policy in policies {
            metrics::counter!(MATCHES_COUNTER, "policy" => policy.to_string()).increment(1);
        }
    }

    /// A report-only policy was resolved.
    pub(in super::super) fn reported(reported: &[Reported]) {
        for Reported { result, .. } in reported {
            let result = match result.as_ref().map(restrictions) {
                Ok(Some(_)) => "restricts",
                Ok(None) => "nothing",
                Err(_) => "unresolvable",
            };
            metrics::counter!("iceberg_read_restrictions_report_only_total", "result" => result).increment(1);
        }
    }

    /// How old the snapshot of the policy source is.
    pub(in super::super) fn snapshot_age(policies: &dyn PolicySource) {
        if let Some(age) = policies.status().age {
            metrics::gauge!("iceberg_read_restrictions_snapshot_age_seconds").set(age.as_secs_f64());
        }
    }

    /// Takes the time of some work.
    pub(in super::super) fn timed<T>(work: Work, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        let name = match work {
            Work::Scan => "iceberg_read_restrictions_scan_seconds",
            Work::Resolve => "iceberg_read_restrictions_resolve_seconds",
        };
        metrics::histogram!(name).record(start.elapsed().as_secs_f64());
        result
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    use super::*;

    pub(in super::super) fn decided(_: OperationKind, _: Outcome, _: Option<RefusalCode>) {}

    pub(in super::super) fn called(_: Source, _: bool) {}

    pub(in super::super) fn matched<'a>(_: impl Iterator<Item = &'a Arc<str>>) {}

    pub(in super::super) fn reported(_: &[Reported]) {}

    pub(in super::super) fn snapshot_age(_: &dyn PolicySource) {}

    pub(in super::super) fn timed<T>(_: Work, run: impl FnOnce() -> T) -> T {
        run()
    }
}

pub(super) use facade::*;
