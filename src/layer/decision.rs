//! What was decided about a request, for those who keep records.

use std::{sync::Arc, time::Duration};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::error::RefusalCode;
use crate::{
    policy::ObjectName,
    resolve::{Outcome, Reported, ReportedRestriction},
    restriction::ReadRestrictions,
    source::Revision,
};

/// The target of the `tracing` event of each decision.
pub(super) const TARGET: &str = "iceberg_read_restrictions::decision";

/// What became of a governed load, or of another operation that was gated or refused.
///
/// It names policies and says why in full: it is for the people who govern, never for the caller. Each decision is
/// also a `tracing` event with the target `iceberg_read_restrictions::decision`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Decision {
    /// What became of it.
    pub outcome: Outcome,
    /// The code of a refusal.
    pub code: Option<RefusalCode>,
    /// Why it was refused, in full.
    pub reason: Option<String>,
    /// The status of the answer; `None` when the inner service failed without one.
    pub status: Option<u16>,
    /// The operation, by its name in Iceberg's OpenAPI document.
    pub operation: &'static str,
    /// The table.
    pub table: ObjectName,
    /// The authenticated subject, once it is known.
    pub subject: Option<String>,
    /// The policies that took part, each once.
    pub policies: Vec<Arc<str>>,
    /// The policies that exempt the subject.
    pub exempt: Vec<Arc<str>>,
    /// The digest of the restrictions that were resolved: those that the answer carries, or would carry were the reader
    /// one to receive them.
    pub signature: Option<String>,
    /// What report-only policies would have done.
    pub report_only: Vec<ReportOnly>,
    /// The snapshots that the decision comes from.
    pub revisions: Revisions,
    /// How long ago the policy source knew its snapshot to be the newest.
    #[serde(rename = "source-age-ms", serialize_with = "milliseconds")]
    pub source_age: Option<Duration>,
    /// The request's `X-Request-Id`.
    pub request_id: Option<String>,
}

/// The snapshots that a decision comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Revisions {
    /// The policy-and-tag revision.
    #[serde(serialize_with = "revision")]
    pub policy: Option<Revision>,
    /// The identity revision.
    #[serde(serialize_with = "revision")]
    pub identity: Option<Revision>,
}

/// What one report-only policy would have done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ReportOnly {
    /// The policy.
    pub policy: Arc<str>,
    /// The text of the `read-restrictions` member that it alone would have put in; `None` when it restricts nothing for
    /// this subject, and when there is an error.
    #[serde(serialize_with = "raw")]
    pub read_restrictions: Option<String>,
    /// Why its restriction cannot be resolved; enforced, it would refuse the load.
    pub error: Option<String>,
}

impl From<&Reported> for ReportOnly {
    fn from(reported: &Reported) -> Self {
        let restrictions = reported.result.as_ref().ok().and_then(restrictions);
        Self {
            policy: reported.policy.clone(),
            read_restrictions: restrictions.map(|restrictions| restrictions.to_json()),
            error: reported.result.as_ref().err().map(ToString::to_string),
        }
    }
}

/// What a reader would have to enforce, if anything.
pub(super) fn restrictions(reported: &ReportedRestriction) -> Option<ReadRestrictions> {
    let restrictions = match reported {
        ReportedRestriction::Exempt => return None,
        ReportedRestriction::RowFilter(filter) => ReadRestrictions::new(Some(filter.clone()), []),
        ReportedRestriction::ColumnMasks(masks) => ReadRestrictions::new(None, masks.iter().copied()),
    };
    // One policy that was resolved has one action for each column.
    restrictions.ok().filter(|restrictions| !restrictions.is_empty())
}

/// Receives every [`Decision`]. Closures over it are `Decisions`.
///
/// It is called on the request's way, so it must not block.
pub trait Decisions: Send + Sync + 'static {
    /// Takes note of a decision.
    fn decided(&self, decision: &Decision);
}

impl<F: Fn(&Decision) + Send + Sync + 'static> Decisions for F {
    fn decided(&self, decision: &Decision) {
        self(decision);
    }
}

impl Decision {
    pub(super) fn trace(&self) {
        tracing::info!(
            target: TARGET,
            outcome = ?self.outcome,
            code = self.code.map(RefusalCode::as_str),
            reason = self.reason,
            status = self.status,
            operation = self.operation,
            catalog = self.table.catalog,
            namespace = ?self.table.namespace,
            table = self.table.table,
            subject = self.subject,
            policies = ?self.policies,
            exempt = ?self.exempt,
            report_only = ?self.report_only,
            signature = self.signature,
            policy_revision = self.revisions.policy.as_ref().map(Revision::as_str),
            identity_revision = self.revisions.identity.as_ref().map(Revision::as_str),
            source_age_ms = self.source_age.map(|age| age.as_millis()),
            request_id = self.request_id,
        );
    }
}

fn revision<S: Serializer>(revision: &Option<Revision>, serializer: S) -> Result<S::Ok, S::Error> {
    revision.as_ref().map(Revision::as_str).serialize(serializer)
}

/// JSON in JSON, not in a string.
fn raw<S: Serializer>(json: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let json = json.clone().map(RawValue::from_string).transpose();
    json.map_err(serde::ser::Error::custom)?.serialize(serializer)
}

fn milliseconds<S: Serializer>(age: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    age.map(|age| age.as_millis() as u64).serialize(serializer)
}
