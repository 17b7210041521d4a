use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use super::content::ContentError;
use crate::{
    expression::Expression,
    source::{BoxFuture, Revision, SourceError},
};

/// Tells which policies apply to a table and its columns.
///
/// The layer calls it once for each load. Everything in one answer comes from one snapshot, which the
/// answer names. "No policy applies" is an answer without policies; "I could not see" is an error.
pub trait PolicySource: Send + Sync + 'static {
    /// The effective policies of a table and of each of its columns.
    ///
    /// The answer holds the masks of all columns that the source has assignments for under this table,
    /// not only of those in `request.columns`.
    ///
    /// # Errors
    ///
    /// When the source cannot tell; the load is refused with 503 `source-unavailable`.
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>>;

    /// How fresh the snapshot in force is, for decision events and health checks. A source that asks
    /// somebody else each time has nothing to say.
    fn status(&self) -> SourceStatus {
        SourceStatus::default()
    }
}

impl<T: PolicySource + ?Sized> PolicySource for Arc<T> {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        (**self).effective_policies(request)
    }

    fn status(&self) -> SourceStatus {
        (**self).status()
    }
}

/// How fresh a source's snapshot is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceStatus {
    /// The time since the snapshot in force was last known to be the newest.
    pub age: Option<Duration>,
    /// Why a newer snapshot could not be taken, while the last good one stays in force.
    pub error: Option<String>,
}

/// A table by its parts, never by a dotted string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableIdent {
    /// The catalog.
    pub catalog: String,
    /// The namespace levels, outermost first.
    pub namespace: Vec<String>,
    /// The table.
    pub name: String,
}

impl TableIdent {
    /// A table by its parts, the namespace levels outermost first.
    pub fn new<T: Into<String>>(
        catalog: impl Into<String>,
        namespace: impl IntoIterator<Item = T>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            catalog: catalog.into(),
            namespace: namespace.into_iter().map(Into::into).collect(),
            name: name.into(),
        }
    }
}

/// What a [`PolicySource`] is asked.
#[derive(Clone, Copy, Debug)]
pub struct TableRequest<'a> {
    /// The table by name.
    pub table: &'a TableIdent,
    /// The `table-uuid` of the metadata, when the metadata was read and has one.
    pub uuid: Option<&'a str>,
    /// The columns that the table is known to have.
    pub columns: Columns<'a>,
}

/// The columns of a table as far as they are known.
#[derive(Clone, Copy, Debug)]
pub enum Columns<'a> {
    /// The names of all top-level columns of the current schema.
    Known(&'a [&'a str]),
    /// Nobody has read the schema yet: the answer is for every column that the table could have.
    Unknown,
}

/// The policies that apply to one table, from one snapshot of the source.
#[derive(Clone, Debug)]
pub struct EffectivePolicies {
    /// The policy-and-tag revision.
    pub revision: Revision,
    /// The row filters of the table, one entry for each policy.
    pub row_filters: Vec<EffectivePolicy>,
    /// The masks of every column that `columns` does not name, one entry for each policy.
    pub column_masks: Vec<EffectivePolicy>,
    /// The masks of each column that differs from `column_masks`, whole: what is inherited is repeated.
    pub columns: BTreeMap<Arc<str>, Vec<EffectivePolicy>>,
    /// Policies that an effective tag leads to and that do not apply, for those who ask why.
    pub not_selected: Vec<NotSelected>,
}

impl EffectivePolicies {
    /// An answer without policies.
    pub fn none(revision: Revision) -> Self {
        Self {
            revision,
            row_filters: Vec::new(),
            column_masks: Vec::new(),
            columns: BTreeMap::new(),
            not_selected: Vec::new(),
        }
    }

    /// Every effective policy with the place it applies to; a policy that applies to several places comes
    /// once for each.
    pub fn all(&self) -> impl Iterator<Item = &EffectivePolicy> {
        self.row_filters.iter().chain(&self.column_masks).chain(self.columns.values().flatten())
    }

    /// Whether any enforced policy is effective. A table without one is ungoverned: nothing about its
    /// load results changes.
    pub fn is_governed(&self) -> bool {
        self.all().any(|effective| effective.policy.enforce)
    }
}

/// One policy with everything that led to it.
#[derive(Clone, Debug)]
pub struct EffectivePolicy {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The tags and relations that select it, at least one. Each may exempt principals of its own; the
    /// policy applies to a subject unless every selection exempts it.
    pub selections: Vec<Selection>,
}

impl EffectivePolicy {
    /// Whether there are subjects that the policy does not apply to.
    pub fn may_exempt(&self) -> bool {
        self.selections.iter().all(|selection| selection.except.is_some())
    }
}

/// One way from an object over a tag and a relation to a policy.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The tag.
    pub tag: Arc<str>,
    /// The values of the winning assignment.
    pub values: Arc<[String]>,
    /// The object that the winning assignment stands on.
    pub from: Arc<ObjectName>,
    /// The principals for whom this relation does not select.
    pub except: Option<Arc<Except>>,
}

/// Principals that a relation does not select for: maintenance and ETL identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Except {
    /// Subject names.
    pub users: Vec<String>,
    /// Group names; an unknown one is an error.
    pub groups: Vec<String>,
}

impl Except {
    /// Whether nobody is exempted.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }
}

/// A policy, compiled.
#[derive(Debug)]
pub struct Policy {
    /// The name, unique in its source.
    pub name: Arc<str>,
    /// A digest of, or the source's own name for, the policy's content.
    pub revision: Revision,
    /// What the policy restricts.
    pub policy_type: PolicyType,
    /// `false` for report-only: resolved, logged and counted, never sent.
    pub enforce: bool,
    /// The compiled expression. A source hands a policy that does not compile on as it is: leaving it out
    /// would leave its table unrestricted.
    pub expression: Result<Expression, ContentError>,
}

/// The policy types that take part in resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyType {
    /// `system_row_filter`
    RowFilter,
    /// `system_column_mask`
    ColumnMask,
}

impl PolicyType {
    /// The type that a policy object names; `None` for a type that takes no part in resolution.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::RowFilter, Self::ColumnMask].into_iter().find(|policy_type| policy_type.as_str() == name)
    }

    /// The name in a policy object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RowFilter => "system_row_filter",
            Self::ColumnMask => "system_column_mask",
        }
    }
}

impl fmt::Display for PolicyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The object of a tag assignment, by its parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ObjectName {
    /// The catalog.
    pub catalog: String,
    /// The namespace levels, outermost first; empty for the catalog itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespace: Vec<String>,
    /// The table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The top-level column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

impl ObjectName {
    /// A catalog.
    pub fn catalog(catalog: impl Into<String>) -> Self {
        Self { catalog: catalog.into(), namespace: Vec::new(), table: None, column: None }
    }

    /// A namespace by its levels, outermost first.
    pub fn namespace<T: Into<String>>(
        catalog: impl Into<String>,
        levels: impl IntoIterator<Item = T>,
    ) -> Self {
        let namespace = levels.into_iter().map(Into::into).collect();
        Self { namespace, ..Self::catalog(catalog) }
    }

    /// A table in a namespace.
    pub fn table<T: Into<String>>(
        catalog: impl Into<String>,
        namespace: impl IntoIterator<Item = T>,
        table: impl Into<String>,
    ) -> Self {
        Self { table: Some(table.into()), ..Self::namespace(catalog, namespace) }
    }

    /// A top-level column of a table.
    pub fn column<T: Into<String>>(
        catalog: impl Into<String>,
        namespace: impl IntoIterator<Item = T>,
        table: impl Into<String>,
        column: impl Into<String>,
    ) -> Self {
        Self { column: Some(column.into()), ..Self::table(catalog, namespace, table) }
    }
}

impl fmt::Display for ObjectName {
    /// The parts from the innermost outwards: `column "phone" of table "orders" in namespace ["sales"] of
    /// catalog "prod"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(column) = &self.column {
            write!(f, "column {column:?} of ")?;
        }
        if let Some(table) = &self.table {
            write!(f, "table {table:?} in ")?;
        }
        if !self.namespace.is_empty() {
            write!(f, "namespace {:?} of ", self.namespace)?;
        }
        write!(f, "catalog {:?}", self.catalog)
    }
}

/// A policy that an effective tag leads to and that does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSelected {
    /// The policy.
    pub policy: Arc<str>,
    /// Why not.
    pub reason: NotSelectedReason,
}

/// Why a policy does not apply although an effective tag leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotSelectedReason {
    /// The policy is not enabled.
    Disabled,
    /// No relation's selector matches the winning values.
    Selector,
    /// Every relation that selects it exempts the subject.
    Exempt,
    /// The policy is report-only.
    ReportOnly,
    /// The policy's type takes no part in resolution.
    OtherType,
}

impl NotSelectedReason {
    /// The word used in explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Selector => "selector",
            Self::Exempt => "exempt",
            Self::ReportOnly => "report-only",
            Self::OtherType => "other-type",
        }
    }
}
