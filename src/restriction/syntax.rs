//! The JSON shapes that the canonical record and the wire form share. They differ in how a literal's value
//! is written and in the guards round a leaf.

use std::fmt::{self, Display, Formatter};

use super::{
    literal::Literal,
    predicate::{ComparisonOperator, Connective, Predicate, Reference, SetOperator, UnaryOperator},
};

/// `{"type":"and","left":…,"right":…}`
pub(super) fn logical(
    f: &mut Formatter<'_>,
    connective: Connective,
    left: impl Display,
    right: impl Display,
) -> fmt::Result {
    write!(f, r#"{{"type":"{}","left":{left},"right":{right}}}"#, connective.name())
}

/// `{"type":"is-null","child":…}`
pub(super) fn unary(f: &mut Formatter<'_>, operator: UnaryOperator, child: Reference) -> fmt::Result {
    write!(f, r#"{{"type":"{}","child":{}}}"#, operator.name(), Id(child))
}

/// `{"type":"lt","left":…,"right":…}`, with the literal's value as JSON text.
pub(super) fn comparison(
    f: &mut Formatter<'_>,
    operator: ComparisonOperator,
    left: Reference,
    literal: &Literal,
    value: impl Display,
) -> fmt::Result {
    write!(
        f,
        r#"{{"type":"{}","left":{},"right":{{"type":"literal","value":{value},"data-type":"{}"}}}}"#,
        operator.name(),
        Id(left),
        literal.data_type(),
    )
}

/// `{"type":"in","child":…,"values":…}`, with the values as JSON texts and the type of `literal`.
pub(super) fn set<V: Display>(
    f: &mut Formatter<'_>,
    operator: SetOperator,
    child: Reference,
    literal: &Literal,
    values: impl Iterator<Item = V>,
) -> fmt::Result {
    let (name, child) = (operator.name(), Id(child));
    write!(f, r#"{{"type":"{name}","child":{child},"values":{{"type":"literals","values":["#)?;
    for (index, value) in values.enumerate() {
        write!(f, "{}{value}", if index == 0 { "" } else { "," })?;
    }
    write!(f, r#"],"data-type":"{}"}}}}"#, literal.data_type())
}

/// A chain as a balanced binary tree: `n` children are split after `n / 2` of them, again and again.
pub(super) struct Chain<'a, W> {
    pub(super) connective: Connective,
    pub(super) children: &'a [Predicate],
    /// How a child is written.
    pub(super) written: fn(&'a Predicate) -> W,
}

impl<W: Display> Display for Chain<'_, W> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let &Self { connective, children, written } = self;
        match children {
            [] => connective.neutral().fmt(f),
            [child] => written(child).fmt(f),
            _ => {
                let (left, right) = children.split_at(children.len() / 2);
                let half = |children| Self { connective, children, written };
                logical(f, connective, half(left), half(right))
            }
        }
    }
}

/// `{"type":"reference","id":…}`
struct Id(Reference);

impl Display for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, r#"{{"type":"reference","id":{}}}"#, self.0.id)
    }
}
