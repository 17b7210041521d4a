use super::literal::Literal;

/// A resolved row predicate: field ids and typed literals only. There is no negation; it was pushed down
/// to the leaves.
///
/// Chains are flat here. The canonical record and the wire form write a chain as a balanced binary tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// Every row, or none.
    Constant(bool),
    /// All of at least two.
    And(Vec<Predicate>),
    /// Any of at least two.
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
        /// At least two literals of the field's type; sorted and unique in canonical form.
        literals: Vec<Literal>,
    },
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
