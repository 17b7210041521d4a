use std::collections::BTreeSet;

use super::literal::Literal;

/// A resolved row predicate: field ids and typed literals only. There is no negation; it was pushed down
/// to the leaves.
///
/// Chains are flat here. The canonical record and the wire form write a chain as a balanced binary tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// Every row, or none.
    Constant(bool),
    /// All of them; in canonical form at least two.
    And(Vec<Predicate>),
    /// Any of them; in canonical form at least two.
    Or(Vec<Predicate>),
    /// A test of a field alone.
    Unary {
        /// Which test.
        operator: UnaryOperator,
        /// The field.
        reference: Reference,
    },
    /// A field against one literal.
    Comparison {
        /// Which comparison, field first.
        operator: ComparisonOperator,
        /// The field.
        reference: Reference,
        /// The literal, of the field's type.
        literal: Literal,
    },
    /// A field against a set of literals.
    Set {
        /// Inside or outside the set.
        operator: SetOperator,
        /// The field.
        reference: Reference,
        /// Literals of the field's type; in canonical form at least two, sorted and unique.
        literals: Vec<Literal>,
    },
}

impl Predicate {
    /// The ids of all fields that the predicate reads.
    pub fn field_ids(&self) -> BTreeSet<i32> {
        match self {
            Self::Constant(_) => BTreeSet::new(),
            Self::And(children) | Self::Or(children) => children.iter().flat_map(Self::field_ids).collect(),
            Self::Unary { reference, .. }
            | Self::Comparison { reference, .. }
            | Self::Set { reference, .. } => BTreeSet::from([reference.id]),
        }
    }
}

/// A bound top-level field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The field id.
    pub id: i32,
    /// Whether the field is required, so that no null guard is needed.
    pub required: bool,
}

/// Tests of a field alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOperator {
    /// `is-null`
    IsNull,
    /// `not-null`
    NotNull,
    /// `is-nan`
    IsNan,
    /// `not-nan`
    NotNan,
}

/// Comparisons of a field with a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComparisonOperator {
    /// `lt`
    Lt,
    /// `lt-eq`
    LtEq,
    /// `gt`
    Gt,
    /// `gt-eq`
    GtEq,
    /// `eq`
    Eq,
    /// `not-eq`
    NotEq,
}

/// Comparisons of a field with a set of literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetOperator {
    /// `in`
    In,
    /// `not-in`
    NotIn,
}

impl UnaryOperator {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::IsNull => "is-null",
            Self::NotNull => "not-null",
            Self::IsNan => "is-nan",
            Self::NotNan => "not-nan",
        }
    }

    /// The operator that is true exactly when this one is false.
    pub fn negated(self) -> Self {
        match self {
            Self::IsNull => Self::NotNull,
            Self::NotNull => Self::IsNull,
            Self::IsNan => Self::NotNan,
            Self::NotNan => Self::IsNan,
        }
    }
}

impl ComparisonOperator {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lt => "lt",
            Self::LtEq => "lt-eq",
            Self::Gt => "gt",
            Self::GtEq => "gt-eq",
            Self::Eq => "eq",
            Self::NotEq => "not-eq",
        }
    }

    /// The operator that is true exactly when this one is false, NaN aside.
    pub fn negated(self) -> Self {
        match self {
            Self::Lt => Self::GtEq,
            Self::LtEq => Self::Gt,
            Self::Gt => Self::LtEq,
            Self::GtEq => Self::Lt,
            Self::Eq => Self::NotEq,
            Self::NotEq => Self::Eq,
        }
    }

    /// Whether this is one of the four that need an order.
    pub fn is_ordering(self) -> bool {
        !matches!(self, Self::Eq | Self::NotEq)
    }
}

impl SetOperator {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::NotIn => "not-in",
        }
    }

    /// The operator that is true exactly when this one is false.
    pub fn negated(self) -> Self {
        match self {
            Self::In => Self::NotIn,
            Self::NotIn => Self::In,
        }
    }

    /// The answer for every row when the set is empty.
    pub(super) fn of_nothing(self) -> bool {
        self == Self::NotIn
    }
}

/// What joins the children of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connective {
    And,
    Or,
}

impl Connective {
    /// The name on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
        }
    }

    /// The constant that adds nothing to a chain, and is an empty one. The other constant is the whole chain.
    pub(super) fn neutral(self) -> bool {
        self == Self::And
    }

    pub(super) fn chain(self, children: Vec<Predicate>) -> Predicate {
        match self {
            Self::And => Predicate::And(children),
            Self::Or => Predicate::Or(children),
        }
    }
}
