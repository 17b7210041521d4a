//! The checked rule: every form in it is one that the language allows where it stands.

use std::sync::Arc;

/// A half-open range of byte offsets into the source of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset behind the last byte.
    pub end: usize,
}

impl Span {
    /// From the start of this one to the end of the other.
    pub(super) fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end }
    }
}

/// A whole policy expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// `filter := …`: which rows a subject may read.
    Filter {
        /// The conditional branches in source order: the first true condition wins.
        branches: Vec<Branch<Condition>>,
        /// The value when no condition is true.
        fallback: Condition,
    },
    /// `mask := …`: what happens to the values of a column.
    Mask {
        /// The conditional branches in source order; no condition reads a column.
        branches: Vec<Branch<ActionCall>>,
        /// The action when no condition is true.
        fallback: ActionCall,
    },
}

/// One `result if condition` of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch<R> {
    /// The value of the rule when the condition is the first true one.
    pub result: R,
    /// When the branch is taken.
    pub condition: Condition,
}

/// `action("name")`.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionCall {
    /// The decoded action name; whether there is such an action is not known here.
    pub name: Arc<str>,
    /// The whole call.
    pub span: Span,
}

/// A Boolean expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// `true` or `false`.
    Constant(bool),
    /// `not c`.
    Not(Box<Condition>),
    /// `c1 and c2 and …`, at least two.
    And(Vec<Condition>),
    /// `c1 or c2 or …`, at least two.
    Or(Vec<Condition>),
    /// `col("x") < 5` or `5 > col("x")`: the column stands first here, the operator mirrored to fit.
    Compare {
        /// The column.
        column: Column,
        /// The operator as read with the column first.
        operator: ComparisonOperator,
        /// The literal, not null.
        literal: Literal,
    },
    /// `col("x") == null`.
    IsNull(Column),
    /// `col("x") != null`.
    NotNull(Column),
    /// `col("x") in [1, 2]`: not empty, of one literal kind.
    In {
        /// The column.
        column: Column,
        /// The values in source order.
        values: Vec<Literal>,
    },
    /// `col("x") == session_user()`, in either order.
    ColumnIsUser {
        /// The column.
        column: Column,
        /// Whether the operator is `!=`.
        negated: bool,
    },
    /// `session_user() == "alice"`, in either order.
    UserIs {
        /// The name compared with.
        name: Arc<str>,
        /// Whether the operator is `!=`.
        negated: bool,
    },
    /// `session_user() in ["alice", "bob"]`.
    UserIn(Vec<Arc<str>>),
    /// `is_group_member("g")`.
    IsGroupMember(Group),
}

/// `col("name")`.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The decoded name, not empty.
    pub name: Arc<str>,
    /// The whole call.
    pub span: Span,
}

/// The group of an `is_group_member("name")`.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The decoded name, not empty.
    pub name: Arc<str>,
    /// The whole call.
    pub span: Span,
}

/// A literal with its place in the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Literal {
    /// The value as written.
    pub value: LiteralValue,
    /// Where it stands.
    pub span: Span,
}

/// A literal as written: it has a kind, and no type before it meets a column.
#[derive(Clone, Debug, PartialEq)]
pub enum LiteralValue {
    /// `true` or `false`.
    Boolean(bool),
    /// A number in its source spelling, sign included, so that no digit is lost.
    Number(Arc<str>),
    /// A decoded string.
    String(Arc<str>),
}

/// The operators between a column and a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComparisonOperator {
    /// `==`
    Eq,
    /// `!=`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
}

impl ComparisonOperator {
    /// The operator that says the same with its operands swapped.
    pub(super) fn mirrored(self) -> Self {
        match self {
            Self::Eq | Self::NotEq => self,
            Self::Lt => Self::Gt,
            Self::LtEq => Self::GtEq,
            Self::Gt => Self::Lt,
            Self::GtEq => Self::LtEq,
        }
    }
}
