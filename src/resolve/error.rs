use std::{error::Error, fmt, sync::Arc};

use crate::{
    expression::ExpressionError,
    policy::ContentError,
    restriction::{ActionConflict, ActionError, UpstreamError},
    table::LoadResultError,
};

/// Why the restrictions of a load could not be resolved. Each is a refusal; none may ever turn into an
/// unrestricted answer.
///
/// `Display` is the administrator's view and names policies, columns and groups: it is for logs and
/// explanations, never for the caller.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ResolveError {
    /// The table is governed and there is no authenticated subject.
    SubjectMissing,
    /// The subject and the memberships come from different revisions of the identity source.
    InconsistentIdentity,
    /// The content of a selected policy does not compile.
    Content {
        /// The policy.
        policy: Arc<str>,
        /// What is wrong with its content.
        error: ContentError,
    },
    /// A selected expression does not bind to this table and subject, in some branch.
    Expression {
        /// The policy.
        policy: Arc<str>,
        /// What does not bind, and where in the source.
        error: ExpressionError,
    },
    /// An action does not fit the column that it reaches.
    Action(Box<ActionMisfit>),
    /// A relation exempts a group that does not exist.
    UnknownExceptGroup {
        /// The policy of the relation.
        policy: Arc<str>,
        /// The group.
        group: Arc<str>,
    },
    /// The resolved row filter is nested too deeply.
    TooDeep {
        /// The policy.
        policy: Arc<str>,
        /// The depth of its resolved predicate.
        depth: usize,
    },
    /// A masked column is found in no schema of the table.
    ColumnNotFound {
        /// The policy that masks it.
        policy: Arc<str>,
        /// The name of the column in the assignment.
        column: Arc<str>,
    },
    /// A masked column lives on under another name, where the mask would no longer reach it.
    ColumnRenamed {
        /// The policy that masks it.
        policy: Arc<str>,
        /// The name of the column in the assignment.
        column: Arc<str>,
        /// The name of the same field in the current schema.
        now: Arc<str>,
    },
    /// A masked field shares its id with a field below the top level of another column.
    NestedFieldId {
        /// The field id.
        field_id: i32,
    },
    /// Several policies want different things of one target.
    Conflict {
        /// The row filter of the table (`None`), or a column.
        column: Option<Arc<str>>,
        /// The policies.
        policies: Vec<Arc<str>>,
    },
    /// One field id came out with two actions.
    Projections(ActionConflict),
    /// The inner service has restrictions of its own that cannot stand beside ours.
    Upstream(UpstreamError),
    /// The load result itself cannot be used.
    Table(LoadResultError),
}

/// An action that does not fit a column.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ActionMisfit {
    /// The policy.
    pub policy: Arc<str>,
    /// The column, by its current or latest name.
    pub column: Arc<str>,
    /// The tags and objects through which the policy reaches the column, in words.
    pub reached_through: String,
    /// What does not fit.
    pub error: ActionError,
    /// The same, at the place of the action in the source.
    pub at: ExpressionError,
}

impl ResolveError {
    /// The stable code of the refusal, as the HTTP contract lists them.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SubjectMissing => "subject-missing",
            Self::InconsistentIdentity => "source-unavailable",
            Self::Table(_) => "upstream-invalid",
            _ => "restrictions-unresolvable",
        }
    }

    /// The policy that the error is about, when it is about one.
    pub fn policy(&self) -> Option<&Arc<str>> {
        match self {
            Self::Content { policy, .. }
            | Self::Expression { policy, .. }
            | Self::UnknownExceptGroup { policy, .. }
            | Self::TooDeep { policy, .. }
            | Self::ColumnNotFound { policy, .. }
            | Self::ColumnRenamed { policy, .. } => Some(policy),
            Self::Action(misfit) => Some(&misfit.policy),
            Self::SubjectMissing
            | Self::InconsistentIdentity
            | Self::NestedFieldId { .. }
            | Self::Conflict { .. }
            | Self::Projections(_)
            | Self::Upstream(_)
            | Self::Table(_) => None,
        }
    }

    /// The column that the error is about, when it is about one.
    pub fn column(&self) -> Option<&Arc<str>> {
        match self {
            Self::Action(misfit) => Some(&misfit.column),
            Self::ColumnNotFound { column, .. } | Self::ColumnRenamed { column, .. } => Some(column),
            Self::Conflict { column, .. } => column.as_ref(),
            _ => None,
        }
    }

    /// Where in the source of the policy's expression the error lies, when it lies in one.
    pub fn expression(&self) -> Option<&ExpressionError> {
        match self {
            Self::Expression { error, .. } => Some(error),
            Self::Action(misfit) => Some(&misfit.at),
            Self::Content { error: ContentError::Expression(error), .. } => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SubjectMissing => {
                f.write_str("the table is governed and the request has no authenticated subject")
            }
            Self::InconsistentIdentity => {
                f.write_str("the subject and its group memberships come from different identity revisions")
            }
            Self::Content { policy, error } => write!(f, "policy `{policy}`: {error}"),
            Self::Expression { policy, error } => write!(f, "policy `{policy}`: {error}"),
            Self::Action(misfit) => {
                let ActionMisfit { policy, column, reached_through, error, .. } = &**misfit;
                write!(f, "policy `{policy}` reaches column `{column}` through {reached_through}: {error}")
            }
            Self::UnknownExceptGroup { policy, group } => {
                write!(f, "a relation of policy `{policy}` exempts the unknown group `{group}`")
            }
            Self::TooDeep { policy, depth } => write!(
                f,
                "policy `{policy}`: the resolved row filter is {depth} operations deep, and 8 is the limit"
            ),
            Self::ColumnNotFound { policy, column } => {
                write!(f, "policy `{policy}` masks column `{column}`, which no schema of the table has")
            }
            Self::ColumnRenamed { policy, column, now } => write!(
                f,
                "policy `{policy}` masks column `{column}`, which was renamed to `{now}`: move the tag"
            ),
            Self::NestedFieldId { field_id } => write!(
                f,
                "field id {field_id} would be masked and is also used below the top level of a column"
            ),
            Self::Conflict { column, policies } => {
                match column {
                    Some(column) => write!(f, "conflicting masks on column `{column}`:")?,
                    None => f.write_str("conflicting row filters:")?,
                }
                for (index, policy) in policies.iter().enumerate() {
                    write!(f, "{} `{policy}`", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Projections(error) => error.fmt(f),
            Self::Upstream(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
        }
    }
}

impl Error for ResolveError {}
