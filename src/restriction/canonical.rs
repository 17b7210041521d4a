//! The canonical form: one predicate for all the ways to write it, as the language fixes it in its section 6.

use super::{
    literal::Literal,
    predicate::{ComparisonOperator, Connective, Predicate, Reference, SetOperator, UnaryOperator},
    signature::Record,
};

impl Predicate {
    /// The canonical form: constants folded, chains flat, their children sorted by their canonical bytes
    /// without duplicates, sets sorted without duplicates, and a set of one a plain comparison.
    ///
    /// Deterministic and idempotent.
    pub fn canonical(self) -> Self {
        match self {
            Self::And(children) => canonical_chain(Connective::And, children),
            Self::Or(children) => canonical_chain(Connective::Or, children),
            Self::Set { operator, reference, mut literals } => {
                literals.sort();
                literals.dedup();
                match literals.len() {
                    0 => Self::Constant(operator.of_nothing()),
                    1 => Self::Comparison {
                        operator: match operator {
                            SetOperator::In => ComparisonOperator::Eq,
                            SetOperator::NotIn => ComparisonOperator::NotEq,
                        },
                        reference,
                        literal: literals.remove(0),
                    },
                    _ => Self::Set { operator, reference, literals },
                }
            }
            Self::Constant(_) | Self::Unary { .. } | Self::Comparison { .. } => self,
        }
    }

    /// The predicate that is true exactly when this one is false, negation pushed down to the leaves.
    ///
    /// Every ordering of NaN is false, so `not (a < v)` on a float or double is `a >= v or is-nan(a)`; and
    /// that negated is `a < v` again. Negate first and take the [canonical form](Self::canonical) then: in a
    /// flat chain a guard no longer says which ordering it came with, and the result, though it is true for
    /// the same rows, may not have the same canonical form.
    pub fn negate(self) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(!value),
            Self::And(children) => Self::Or(children.into_iter().map(Self::negate).collect()),
            Self::Or(children) => negate_or(children),
            Self::Unary { operator, reference } => Self::Unary { operator: operator.negated(), reference },
            Self::Set { operator, reference, literals } => {
                Self::Set { operator: operator.negated(), reference, literals }
            }
            Self::Comparison { operator, reference, literal } => {
                let guard = is_nan_blind(operator, &literal).then(|| is_nan(reference));
                let opposite = Self::Comparison { operator: operator.negated(), reference, literal };
                match guard {
                    Some(guard) => Self::Or(vec![opposite, guard]),
                    None => opposite,
                }
            }
        }
    }

    /// Levels from here to the deepest leaf: a comparison or an atom is 1 and a chain one more than its
    /// deepest child, however long it is.
    ///
    /// The `is-nan` that negation puts beside an ordering is a guard, which nobody can write, and is not
    /// counted: `a >= v or is-nan(a)` has the depth of `a >= v`.
    pub fn depth(&self) -> usize {
        match self {
            Self::And(children) => 1 + deepest(children.iter()),
            Self::Or(children) => {
                let written = children.iter().filter(|child| child.nan_tested().is_none());
                let chained = written.clone().count() > 1;
                usize::from(chained) + deepest(written)
            }
            Self::Constant(_) | Self::Unary { .. } | Self::Comparison { .. } | Self::Set { .. } => 1,
        }
    }

    /// The field of an `is-nan`.
    fn nan_tested(&self) -> Option<Reference> {
        match self {
            Self::Unary { operator: UnaryOperator::IsNan, reference } => Some(*reference),
            _ => None,
        }
    }

    /// The field of an ordering that is false for NaN, as its opposite is.
    fn nan_blind(&self) -> Option<Reference> {
        match self {
            Self::Comparison { operator, reference, literal } if is_nan_blind(*operator, literal) => {
                Some(*reference)
            }
            _ => None,
        }
    }
}

fn canonical_chain(connective: Connective, children: Vec<Predicate>) -> Predicate {
    let mut flat = Vec::with_capacity(children.len());
    for child in children {
        match (connective, child.canonical()) {
            (_, Predicate::Constant(value)) if value == connective.neutral() => {}
            (_, Predicate::Constant(value)) => return Predicate::Constant(value),
            (Connective::And, Predicate::And(inner)) | (Connective::Or, Predicate::Or(inner)) => {
                flat.extend(inner);
            }
            (_, child) => flat.push(child),
        }
    }
    match flat.len() {
        0 => return Predicate::Constant(connective.neutral()),
        1 => return flat.remove(0),
        _ => {}
    }
    let mut children: Vec<_> = flat.into_iter().map(|child| (Record(&child).to_string(), child)).collect();
    children.sort_by(|(a, _), (b, _)| a.cmp(b));
    children.dedup_by(|(a, _), (b, _)| a == b);
    let mut children: Vec<_> = children.into_iter().map(|(_, child)| child).collect();
    match children.len() {
        1 => children.remove(0),
        _ => connective.chain(children),
    }
}

/// De Morgan, except that an ordering with its NaN guard beside it is negated together with the guard.
fn negate_or(children: Vec<Predicate>) -> Predicate {
    let ids = |of: fn(&Predicate) -> Option<Reference>| -> Vec<i32> {
        children.iter().filter_map(of).map(|reference| reference.id).collect()
    };
    let (ordered, guarded) = (ids(Predicate::nan_blind), ids(Predicate::nan_tested));
    let negated = children.into_iter().filter_map(|child| match child {
        Predicate::Unary { operator: UnaryOperator::IsNan, reference } if ordered.contains(&reference.id) => {
            None
        }
        Predicate::Comparison { operator, reference, literal }
            if is_nan_blind(operator, &literal) && guarded.contains(&reference.id) =>
        {
            Some(Predicate::Comparison { operator: operator.negated(), reference, literal })
        }
        child => Some(child.negate()),
    });
    Predicate::And(negated.collect())
}

fn is_nan_blind(operator: ComparisonOperator, literal: &Literal) -> bool {
    operator.is_ordering() && literal.is_floating()
}

fn is_nan(reference: Reference) -> Predicate {
    Predicate::Unary { operator: UnaryOperator::IsNan, reference }
}

fn deepest<'a>(children: impl Iterator<Item = &'a Predicate>) -> usize {
    children.map(Predicate::depth).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::PrimitiveType;

    const A: Reference = Reference { id: 1, required: false };
    const B: Reference = Reference { id: 2, required: false };

    fn int(operator: ComparisonOperator, reference: Reference, value: i32) -> Predicate {
        let literal = Literal::from_number(&value.to_string(), &PrimitiveType::Int).unwrap();
        Predicate::Comparison { operator, reference, literal }
    }

    fn double(operator: ComparisonOperator, reference: Reference, value: &str) -> Predicate {
        let literal = Literal::from_number(value, &PrimitiveType::Double).unwrap();
        Predicate::Comparison { operator, reference, literal }
    }

    fn set(operator: SetOperator, values: &[i32]) -> Predicate {
        let literal = |value: &i32| Literal::from_number(&value.to_string(), &PrimitiveType::Int).unwrap();
        Predicate::Set { operator, reference: A, literals: values.iter().map(literal).collect() }
    }

    fn eq(reference: Reference, value: i32) -> Predicate {
        int(ComparisonOperator::Eq, reference, value)
    }

    #[test]
    fn constants_fold() {
        let (a, b) = (eq(A, 1), eq(B, 2));
        let constant = Predicate::Constant;
        for (predicate, folded) in [
            (Predicate::And(vec![a.clone(), constant(true)]), a.clone()),
            (Predicate::And(vec![a.clone(), constant(false)]), constant(false)),
            (Predicate::Or(vec![a.clone(), constant(false)]), a.clone()),
            (Predicate::Or(vec![a.clone(), constant(true), b]), constant(true)),
            (Predicate::And(vec![constant(true), constant(true)]), constant(true)),
            (Predicate::Or(vec![constant(false), constant(false)]), constant(false)),
            (
                Predicate::Or(vec![
                    Predicate::And(vec![a.clone(), Predicate::Or(vec![constant(true)])]),
                    constant(false),
                ]),
                a,
            ),
            (Predicate::And(vec![]), constant(true)),
            (Predicate::Or(vec![]), constant(false)),
        ] {
            assert_eq!(predicate.clone().canonical(), folded, "{predicate:?}");
        }
    }

    #[test]
    fn chains_are_flat_sorted_and_without_duplicates() {
        let (a1, a2, b) = (eq(A, 1), eq(A, 2), eq(B, 1));
        let nested = Predicate::And(vec![
            b.clone(),
            Predicate::And(vec![a2.clone(), Predicate::And(vec![a1.clone(), b.clone()]), a1.clone()]),
        ]);
        assert_eq!(nested.canonical(), Predicate::And(vec![a1, a2, b]));
    }

    #[test]
    fn a_chain_that_collapses_lets_the_outer_chain_flatten() {
        let (a, b) = (eq(A, 1), eq(B, 1));
        let inner = Predicate::Or(vec![
            Predicate::And(vec![a.clone(), b.clone()]),
            Predicate::And(vec![b.clone(), a.clone()]),
        ]);
        assert_eq!(Predicate::And(vec![inner, a.clone()]).canonical(), Predicate::And(vec![a, b]));
    }

    #[test]
    fn sets_are_sorted_by_value_and_a_set_of_one_is_a_comparison() {
        use SetOperator::{In, NotIn};
        assert_eq!(set(In, &[10, 9, 10]).canonical(), set(In, &[9, 10]));
        assert_eq!(set(In, &[7, 7]).canonical(), eq(A, 7));
        assert_eq!(set(NotIn, &[7]).canonical(), int(ComparisonOperator::NotEq, A, 7));
        assert_eq!(set(In, &[]).canonical(), Predicate::Constant(false));
        assert_eq!(set(NotIn, &[]).canonical(), Predicate::Constant(true));
    }

    #[test]
    fn negation_reaches_every_leaf() {
        use ComparisonOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        for (operator, negated) in [(Lt, GtEq), (LtEq, Gt), (Gt, LtEq), (GtEq, Lt), (Eq, NotEq), (NotEq, Eq)]
        {
            assert_eq!(int(operator, A, 1).negate(), int(negated, A, 1));
        }
        assert_eq!(set(SetOperator::In, &[1, 2]).negate(), set(SetOperator::NotIn, &[1, 2]));
        assert_eq!(Predicate::Constant(true).negate(), Predicate::Constant(false));
        let unary = |operator| Predicate::Unary { operator, reference: A };
        assert_eq!(unary(UnaryOperator::IsNull).negate(), unary(UnaryOperator::NotNull));
        assert_eq!(unary(UnaryOperator::IsNan).negate(), unary(UnaryOperator::NotNan));
        assert_eq!(
            Predicate::And(vec![eq(A, 1), Predicate::Or(vec![eq(B, 1), eq(B, 2)])]).negate(),
            Predicate::Or(vec![int(NotEq, A, 1), Predicate::And(vec![int(NotEq, B, 1), int(NotEq, B, 2)])]),
        );
    }

    #[test]
    fn a_negated_ordering_of_floats_keeps_nan() {
        use ComparisonOperator::{Eq, GtEq, Lt, NotEq};
        assert_eq!(double(Lt, A, "0.5").negate(), Predicate::Or(vec![double(GtEq, A, "0.5"), is_nan(A)]));
        assert_eq!(double(Eq, A, "0.5").negate(), double(NotEq, A, "0.5"));
    }

    #[test]
    fn negating_twice_gives_the_predicate_back() {
        use ComparisonOperator::{Gt, Lt, LtEq};
        for predicate in [
            double(Lt, A, "1"),
            double(Lt, A, "1").negate(),
            Predicate::Or(vec![double(Lt, A, "1"), double(Gt, B, "1"), eq(A, 3)]),
            Predicate::And(vec![double(Lt, A, "1"), double(Gt, A, "1").negate()]),
            Predicate::Or(vec![double(Lt, A, "1").negate(), double(LtEq, B, "2").negate()]).canonical(),
        ] {
            let twice = predicate.clone().negate().negate();
            assert_eq!(twice.canonical(), predicate.clone().canonical(), "{predicate:?}");
        }
    }

    #[test]
    fn depth_takes_chains_as_flat_and_leaves_guards_out() {
        use ComparisonOperator::Lt;
        let chain = Predicate::And(vec![eq(A, 1), eq(A, 2), eq(B, 1)]);
        assert_eq!(eq(A, 1).depth(), 1);
        assert_eq!(Predicate::Constant(false).depth(), 1);
        assert_eq!(chain.depth(), 2);
        assert_eq!(Predicate::Or(vec![chain.clone(), eq(B, 9)]).depth(), 3);
        let guarded = double(Lt, A, "1").negate();
        assert_eq!(guarded.depth(), 1);
        assert_eq!(Predicate::And(vec![guarded.clone(), eq(B, 1)]).depth(), 2);
        assert_eq!(Predicate::Or(vec![guarded, eq(B, 1)]).canonical().depth(), 2);
    }
}
