//! Why a subject sees what it sees: the same resolution as a load's, told to an administrator.
//!
//! An explanation names policies, tags, groups and columns. It is for the people who govern, never for the
//! caller of a load.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    Provenance, Reported, ReportedRestriction, Resolution, ResolveError, ResolveRequest, Resolver,
    columns::{ResolvedColumnMask, shaken_off},
    rows::ResolvedRowFilter,
};
use crate::{
    identity::{Membership, Memberships, Subject},
    policy::{EffectivePolicies, NotSelectedReason, ObjectName},
    restriction::{Action, Predicate, UpstreamMember},
    source::Revision,
    table::{LoadResult, LoadResultError, Schema},
};

/// What a [`Resolver`] explains. Unlike a [`ResolveRequest`] it may hold a load result that cannot be used.
#[derive(Clone, Copy, Debug)]
pub struct ExplainRequest<'a> {
    /// The effective policies of the table.
    pub policies: &'a EffectivePolicies,
    /// The subject.
    pub subject: Option<&'a Subject>,
    /// The answers for the groups that [`Resolver::groups`] lists.
    pub memberships: Option<&'a Memberships>,
    /// The table as the inner service sends it, or why that cannot be understood.
    pub table: Result<&'a LoadResult, &'a LoadResultError>,
}

/// What a subject gets on a table, and why. Serialises to the JSON form of `policy explain --json`;
/// [`Display`](fmt::Display) tells the same, and a little more, over several lines.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Explanation {
    /// What becomes of the load.
    pub outcome: Outcome,
    /// The code of a refusal.
    pub code: Option<&'static str>,
    /// Why it is refused, in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The member exactly as the layer would send it, the inner service's own restrictions included.
    pub read_restrictions: Option<Box<RawValue>>,
    /// The row filter to enforce.
    pub row_filter: Option<ExplainedRowFilter>,
    /// The masks to enforce, sorted by field id.
    pub column_masks: Vec<ExplainedColumnMask>,
    /// What was resolved and is not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Policies that an effective tag leads to and that do not apply, by name.
    pub not_selected: Vec<ExplainedNotSelected>,
    /// What the report-only policies would have done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub report_only: Vec<ExplainedReport>,
    /// Who was asked for.
    pub subject: ExplainedSubject,
    /// The snapshots that the answer comes from.
    pub revisions: ExplainedRevisions,
}

/// What becomes of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// No policy is effective: nothing about the load result changes.
    Ungoverned,
    /// Policies are effective, and nothing is to be enforced for this subject.
    Unrestricted,
    /// Restrictions are sent.
    Restricted,
    /// The load is refused.
    Refused,
}

/// A row filter with its reasons.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ExplainedRowFilter {
    /// The signature of the canonical predicate.
    pub signature: String,
    /// The canonical predicate with column names.
    pub readable: String,
    /// The fields that it reads.
    #[serde(skip)]
    pub fields: Vec<ExplainedField>,
    /// The policies that ask for it.
    pub policies: Vec<ExplainedPolicy>,
}

/// A bound field.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ExplainedField {
    /// The field id.
    pub field_id: i32,
    /// The name in the current schema.
    pub column: String,
}

/// A mask with its reasons.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ExplainedColumnMask {
    /// The field id.
    pub field_id: i32,
    /// The name; the latest one of a column that was dropped.
    pub column: String,
    /// Whether only older schemas have the column, where time travel still reads it.
    #[serde(skip)]
    pub dropped: bool,
    /// The action.
    #[serde(serialize_with = "display")]
    pub action: Action,
    /// The signature of field and action.
    pub signature: String,
    /// The policies that ask for it.
    pub policies: Vec<ExplainedPolicy>,
}

/// A policy that applies.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ExplainedPolicy {
    /// The name.
    pub name: Arc<str>,
    /// The policy's own revision.
    #[serde(skip)]
    pub revision: String,
    /// The branch taken, from 1 with the fallback counted; null when a condition depends on the row.
    pub branch: Option<usize>,
    /// The tags that lead to it.
    pub tags: Vec<ExplainedTag>,
}

/// An effective tag.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ExplainedTag {
    /// The name.
    pub name: Arc<str>,
    /// The values of the winning assignment.
    pub values: Arc<[String]>,
    /// The object that the winning assignment stands on.
    pub from: Arc<ObjectName>,
}

/// Something resolved that is not sent.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct LeftOut {
    /// The policy.
    pub policy: Arc<str>,
    /// Why it leaves nothing to send.
    pub reason: &'static str,
}

/// A policy that does not apply.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ExplainedNotSelected {
    /// The policy.
    pub policy: Arc<str>,
    /// `disabled`, `selector`, `exempt`, `report-only` or `other-type`.
    pub reason: &'static str,
}

/// What a report-only policy would have done.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ExplainedReport {
    /// The policy.
    pub policy: Arc<str>,
    /// Its restriction in a readable form.
    pub would: Option<String>,
    /// Why it cannot be resolved.
    pub error: Option<String>,
}

/// The subject and its groups.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ExplainedSubject {
    /// The name; null when there is no subject.
    pub name: Option<String>,
    /// The answer for each group that a policy names: `member`, `not a member` or `unknown group`.
    pub groups: BTreeMap<String, &'static str>,
}

/// The revisions of both sources.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ExplainedRevisions {
    /// The policy-and-tag revision.
    pub policy: String,
    /// The identity revision; null when there is no subject.
    pub identity: Option<String>,
}

impl Resolver {
    /// What the layer would do with this load, and why. Whatever is wrong becomes part of the explanation.
    pub fn explain(&self, request: ExplainRequest<'_>) -> Explanation {
        let mut explanation = Explanation::new(&request);
        match self.explained_resolution(&request) {
            Ok(resolution) => explanation.tell(request.table.ok(), resolution.as_ref()),
            Err(error) => explanation.refuse(&error),
        }
        if let Ok(table) = request.table {
            let ExplainRequest { policies, subject, memberships, .. } = request;
            let reported = self.report(ResolveRequest { policies, subject, memberships, table });
            explanation.report_only =
                reported.iter().map(|reported| explained_report(reported, table)).collect();
        }
        explanation
    }

    /// `None` for an ungoverned table, whose load result may be as odd as it likes.
    fn explained_resolution(&self, request: &ExplainRequest<'_>) -> Result<Option<Resolution>, ResolveError> {
        let ExplainRequest { policies, subject, memberships, table } = *request;
        let is_governed = match table {
            Ok(table) => Self::governs(policies, table),
            Err(_) => policies.is_governed(),
        };
        if !is_governed {
            return Ok(None);
        }
        let table = table.map_err(|error| ResolveError::Table(error.clone()))?;
        self.resolve(ResolveRequest { policies, subject, memberships, table }).map(Some)
    }
}

impl Explanation {
    fn new(request: &ExplainRequest<'_>) -> Self {
        let ExplainRequest { policies, subject, memberships, .. } = *request;
        Self {
            outcome: Outcome::Refused,
            code: None,
            message: None,
            read_restrictions: None,
            row_filter: None,
            column_masks: Vec::new(),
            left_out: Vec::new(),
            not_selected: not_selected(policies, request.table.ok()),
            report_only: Vec::new(),
            subject: ExplainedSubject {
                name: subject.map(|subject| subject.name().to_owned()),
                groups: groups(memberships),
            },
            revisions: ExplainedRevisions {
                policy: policies.revision.to_string(),
                identity: subject.map(|subject| subject.revision().to_string()),
            },
        }
    }

    fn refuse(&mut self, error: &ResolveError) {
        self.code = Some(error.code());
        self.message = Some(error.to_string());
    }

    fn tell(&mut self, table: Option<&LoadResult>, resolution: Option<&Resolution>) {
        let member = resolution.and_then(Resolution::member);
        self.read_restrictions = member.or_else(|| upstream(table?)).and_then(raw);
        self.outcome = match (resolution, member) {
            (None, _) => Outcome::Ungoverned,
            (Some(_), None) => Outcome::Unrestricted,
            (Some(_), Some(_)) => Outcome::Restricted,
        };
        if let (Some(resolution), Some(table)) = (resolution, table) {
            self.tell_reasons(table.schema(), resolution);
        }
    }

    fn tell_reasons(&mut self, schema: &Schema, resolution: &Resolution) {
        match resolution.row_filter() {
            Some(filter) if filter.predicate == Predicate::Constant(true) => {
                self.left_out.extend(filter.policies.iter().map(|provenance| LeftOut {
                    policy: provenance.policy.clone(),
                    reason: "the row filter is true for this subject: every row may be read",
                }));
            }
            filter => self.row_filter = filter.map(|filter| explained_row_filter(filter, schema)),
        }
        self.column_masks =
            resolution.column_masks().iter().map(|mask| explained_mask(mask, schema)).collect();
        // One that exempts the subject on one column may still apply on another.
        let applied = resolution.policies();
        let exempt = resolution.exempt().iter().filter(|policy| !applied.contains(policy)).map(|policy| {
            ExplainedNotSelected { policy: policy.clone(), reason: NotSelectedReason::Exempt.as_str() }
        });
        self.not_selected.extend(exempt);
        self.not_selected.sort_by(|a, b| (&a.policy, a.reason).cmp(&(&b.policy, b.reason)));
    }
}

/// For an administrator at a terminal. The wording is for people and may change; programs read the JSON form.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None => writeln!(f, "{}: {}", self.outcome.as_str(), self.outcome.meaning())?,
            Some(code) => writeln!(f, "{}: {code}", self.outcome.as_str())?,
        }
        for line in self.message.iter().flat_map(|message| message.lines()) {
            writeln!(f, "  {line}")?;
        }
        self.write_subject(f)?;
        if let Some(filter) = &self.row_filter {
            writeln!(f, "\nrow filter: {}", filter.readable)?;
            for field in &filter.fields {
                writeln!(f, "  reads column {} (field {})", field.column, field.field_id)?;
            }
            write_reasons(f, &filter.signature, &filter.policies)?;
        }
        for mask in &self.column_masks {
            let dropped = if mask.dropped { ", dropped, in older snapshots only" } else { "" };
            writeln!(f, "\ncolumn {} (field {}{dropped}): {}", mask.column, mask.field_id, mask.action)?;
            write_reasons(f, &mask.signature, &mask.policies)?;
        }
        let left_out = self.left_out.iter().map(|left| format!("{}: {}", left.policy, left.reason));
        write_list(f, "left out", left_out)?;
        let not_selected =
            self.not_selected.iter().map(|entry| format!("{}: {}", entry.policy, entry.reason));
        write_list(f, "not selected", not_selected)?;
        write_list(f, "report-only: NOT enforced", self.report_only.iter().map(ToString::to_string))?;
        writeln!(f, "\nread-restrictions")?;
        match &self.read_restrictions {
            Some(member) => writeln!(f, "  {}", member.get()),
            None => writeln!(f, "  none"),
        }
    }
}

impl Explanation {
    fn write_subject(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nsubject: {}", self.subject.name.as_deref().unwrap_or("none"))?;
        for (group, answer) in &self.subject.groups {
            writeln!(f, "  group {group}: {answer}")?;
        }
        writeln!(f, "policy revision: {}", self.revisions.policy)?;
        match &self.revisions.identity {
            Some(identity) => writeln!(f, "identity revision: {identity}"),
            None => Ok(()),
        }
    }
}

fn write_reasons(f: &mut fmt::Formatter<'_>, signature: &str, policies: &[ExplainedPolicy]) -> fmt::Result {
    writeln!(f, "  signature {signature}")?;
    for policy in policies {
        match policy.branch {
            Some(branch) => writeln!(f, "  because of policy {}, branch {branch}", policy.name)?,
            None => writeln!(f, "  because of policy {}, the branch depends on the row", policy.name)?,
        }
        for tag in &policy.tags {
            writeln!(f, "    tag {} = {:?} from {}", tag.name, tag.values, tag.from)?;
        }
    }
    Ok(())
}

fn write_list(
    f: &mut fmt::Formatter<'_>,
    heading: &str,
    lines: impl ExactSizeIterator<Item = String>,
) -> fmt::Result {
    if lines.len() == 0 {
        return Ok(());
    }
    writeln!(f, "\n{heading}")?;
    for line in lines {
        writeln!(f, "  {line}")?;
    }
    Ok(())
}

impl fmt::Display for ExplainedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.policy)?;
        if let Some(would) = &self.would {
            write!(f, " would send: {would}")?;
        }
        if let Some(error) = &self.error {
            write!(f, " cannot be resolved: {error}")?;
        }
        Ok(())
    }
}

impl Outcome {
    /// The word in the JSON form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ungoverned => "ungoverned",
            Self::Unrestricted => "unrestricted",
            Self::Restricted => "restricted",
            Self::Refused => "refused",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Ungoverned => "no policy applies to the table",
            Self::Unrestricted => "policies apply, and nothing is enforced for this subject",
            Self::Restricted => "the load result carries restrictions",
            Self::Refused => "the load is refused",
        }
    }
}

/// The restrictions of the inner service, when there are any.
fn upstream(table: &LoadResult) -> Option<&str> {
    let text = table.read_restrictions()?;
    match UpstreamMember::parse(text) {
        Ok(None) => None,
        // One that cannot be understood is passed on beside no restriction of ours, as it is.
        Ok(Some(_)) | Err(_) => Some(text),
    }
}

fn raw(member: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(member.to_owned()).ok()
}

fn not_selected(policies: &EffectivePolicies, table: Option<&LoadResult>) -> Vec<ExplainedNotSelected> {
    let from_source = policies.not_selected.iter().map(|entry| (entry.policy.clone(), entry.reason.as_str()));
    let report_only = policies
        .all()
        .filter(|effective| !effective.policy.enforce)
        .map(|effective| (effective.policy.name.clone(), NotSelectedReason::ReportOnly.as_str()));
    let shaken_off = table
        .into_iter()
        .flat_map(|table| shaken_off(policies, table))
        .map(|effective| (effective.policy.name.clone(), NotSelectedReason::Selector.as_str()));
    let unique: BTreeSet<_> = from_source.chain(report_only).chain(shaken_off).collect();
    unique.into_iter().map(|(policy, reason)| ExplainedNotSelected { policy, reason }).collect()
}

fn groups(memberships: Option<&Memberships>) -> BTreeMap<String, &'static str> {
    let answers = memberships.into_iter().flat_map(Memberships::iter);
    answers.map(|(group, answer)| (group.to_owned(), membership(answer))).collect()
}

fn membership(answer: Membership) -> &'static str {
    match answer {
        Membership::Member => "member",
        Membership::NotMember => "not a member",
        Membership::UnknownGroup => "unknown group",
    }
}

fn explained_row_filter(filter: &ResolvedRowFilter, schema: &Schema) -> ExplainedRowFilter {
    ExplainedRowFilter {
        signature: filter.signature().to_string(),
        readable: readable(&filter.predicate, schema),
        fields: filter
            .predicate
            .field_ids()
            .into_iter()
            .map(|field_id| ExplainedField { field_id, column: column_name(schema, field_id) })
            .collect(),
        policies: filter.policies.iter().map(|provenance| explained_policy(provenance)).collect(),
    }
}

fn explained_mask(mask: &ResolvedColumnMask, schema: &Schema) -> ExplainedColumnMask {
    let field_id = mask.projection.field_id;
    ExplainedColumnMask {
        field_id,
        column: match &mask.dropped {
            Some(name) => name.to_string(),
            None => column_name(schema, field_id),
        },
        dropped: mask.dropped.is_some(),
        action: mask.projection.action,
        signature: mask.projection.signature().to_string(),
        policies: mask.policies.iter().map(|provenance| explained_policy(provenance)).collect(),
    }
}

fn explained_policy(provenance: &Provenance) -> ExplainedPolicy {
    ExplainedPolicy {
        name: provenance.policy.clone(),
        revision: revision(&provenance.revision),
        branch: provenance.branch,
        tags: provenance
            .selections
            .iter()
            .map(|selection| ExplainedTag {
                name: selection.tag.clone(),
                values: selection.values.clone(),
                from: selection.from.clone(),
            })
            .collect(),
    }
}

fn explained_report(reported: &Reported, table: &LoadResult) -> ExplainedReport {
    let (would, error) = match &reported.result {
        Ok(restriction) => (Some(reported_readable(restriction, table.schema())), None),
        Err(error) => (None, Some(error.to_string())),
    };
    ExplainedReport { policy: reported.policy.clone(), would, error }
}

fn reported_readable(restriction: &ReportedRestriction, schema: &Schema) -> String {
    match restriction {
        ReportedRestriction::Exempt => "nothing for this subject".to_owned(),
        ReportedRestriction::RowFilter(predicate) => readable(predicate, schema),
        ReportedRestriction::ColumnMasks(projections) => projections
            .iter()
            .map(|mask| format!("{} on {}", mask.action, column_name(schema, mask.field_id)))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn readable(predicate: &Predicate, schema: &Schema) -> String {
    predicate.display(|id| column_name(schema, id)).to_string()
}

fn column_name(schema: &Schema, field_id: i32) -> String {
    schema.field_by_id(field_id).map_or_else(|| format!("field {field_id}"), |field| field.name.to_owned())
}

fn revision(revision: &Revision) -> String {
    revision.to_string()
}

fn display<T: std::fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
