use std::fmt::{self, Display};

use super::predicate::{ComparisonOperator, Connective, Predicate, SetOperator, UnaryOperator};

impl Predicate {
    /// The predicate for people, with the names that `name` has for the field ids:
    /// `(a > 1 and b is null) or c in (1, 2)`.
    ///
    /// A name that is not a plain identifier comes in double quotes.
    pub fn display<'a, S: Display>(&'a self, name: impl Fn(i32) -> S + 'a) -> impl Display + 'a {
        Readable { predicate: self, name }
    }
}

struct Readable<'a, N> {
    predicate: &'a Predicate,
    name: N,
}

impl<S: Display, N: Fn(i32) -> S> Display for Readable<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_predicate(f, self.predicate, &|id| identifier((self.name)(id).to_string()))
    }
}

type Names<'a> = &'a dyn Fn(i32) -> String;

fn write_predicate(f: &mut fmt::Formatter<'_>, predicate: &Predicate, name: Names<'_>) -> fmt::Result {
    match predicate {
        Predicate::Constant(value) => value.fmt(f),
        Predicate::And(children) => write_chain(f, Connective::And, children, name),
        Predicate::Or(children) => write_chain(f, Connective::Or, children, name),
        Predicate::Unary { operator, reference } => {
            let test = match operator {
                UnaryOperator::IsNull => "is null",
                UnaryOperator::NotNull => "is not null",
                UnaryOperator::IsNan => "is nan",
                UnaryOperator::NotNan => "is not nan",
            };
            write!(f, "{} {test}", name(reference.id))
        }
        Predicate::Comparison { operator, reference, literal } => {
            let operator = match operator {
                ComparisonOperator::Lt => "<",
                ComparisonOperator::LtEq => "<=",
                ComparisonOperator::Gt => ">",
                ComparisonOperator::GtEq => ">=",
                ComparisonOperator::Eq => "=",
                ComparisonOperator::NotEq => "!=",
            };
            write!(f, "{} {operator} {literal}", name(reference.id))
        }
        Predicate::Set { operator, reference, literals } => {
            let operator = match operator {
                SetOperator::In => "in",
                SetOperator::NotIn => "not in",
            };
            write!(f, "{} {operator} (", name(reference.id))?;
            write_separated(f, ", ", literals, |f, literal| literal.fmt(f))?;
            f.write_str(")")
        }
    }
}

fn write_chain(
    f: &mut fmt::Formatter<'_>,
    connective: Connective,
    children: &[Predicate],
    name: Names<'_>,
) -> fmt::Result {
    if children.is_empty() {
        return connective.neutral().fmt(f);
    }
    let separator = format!(" {} ", connective.name());
    write_separated(f, &separator, children, |f, child| match child {
        Predicate::And(_) | Predicate::Or(_) => {
            f.write_str("(")?;
            write_predicate(f, child, name)?;
            f.write_str(")")
        }
        _ => write_predicate(f, child, name),
    })
}

fn write_separated<T>(
    f: &mut fmt::Formatter<'_>,
    separator: &str,
    items: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write(f, item)?;
    }
    Ok(())
}

/// In double quotes, doubled inside, unless the name reads as a name without them.
fn identifier(name: String) -> String {
    const WORDS: [&str; 9] = ["and", "or", "not", "in", "is", "null", "nan", "true", "false"];
    let starts_plain = name.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let plain = name.chars().all(|character| character.is_alphanumeric() || character == '_');
    let word = WORDS.iter().any(|word| name.eq_ignore_ascii_case(word));
    if starts_plain && plain && !word { name } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        restriction::{Literal, Reference},
        table::PrimitiveType,
    };

    fn field(id: i32) -> Reference {
        Reference { id, required: false }
    }

    fn comparison(operator: ComparisonOperator, id: i32, literal: Literal) -> Predicate {
        Predicate::Comparison { operator, reference: field(id), literal }
    }

    fn int(value: i32) -> Literal {
        Literal::from_number(&value.to_string(), &PrimitiveType::Int).unwrap()
    }

    fn string(text: &str) -> Literal {
        Literal::from_string(text, &PrimitiveType::String).unwrap()
    }

    fn shown(predicate: &Predicate) -> String {
        let names = ["a", "b", "c", "due date", "null", "o\"q", "größe", "2nd"];
        predicate.display(|id| names[id as usize]).to_string()
    }

    #[test]
    fn each_leaf_has_its_form() {
        use ComparisonOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        for (operator, text) in [
            (Eq, "a = 1"),
            (NotEq, "a != 1"),
            (Lt, "a < 1"),
            (LtEq, "a <= 1"),
            (Gt, "a > 1"),
            (GtEq, "a >= 1"),
        ] {
            assert_eq!(shown(&comparison(operator, 0, int(1))), text);
        }
        for (operator, text) in [
            (UnaryOperator::IsNull, "b is null"),
            (UnaryOperator::NotNull, "b is not null"),
            (UnaryOperator::IsNan, "b is nan"),
            (UnaryOperator::NotNan, "b is not nan"),
        ] {
            assert_eq!(shown(&Predicate::Unary { operator, reference: field(1) }), text);
        }
        for (operator, text) in [(SetOperator::In, "c in (1, 2)"), (SetOperator::NotIn, "c not in (1, 2)")] {
            let literals = vec![int(1), int(2)];
            assert_eq!(shown(&Predicate::Set { operator, reference: field(2), literals }), text);
        }
        assert_eq!(shown(&Predicate::Constant(false)), "false");
    }

    #[test]
    fn chains_inside_chains_are_bracketed() {
        let predicate = Predicate::Or(vec![
            Predicate::And(vec![
                comparison(ComparisonOperator::Gt, 0, int(1)),
                Predicate::Unary { operator: UnaryOperator::IsNull, reference: field(1) },
            ]),
            Predicate::Set { operator: SetOperator::In, reference: field(2), literals: vec![int(1), int(2)] },
        ]);
        assert_eq!(shown(&predicate), "(a > 1 and b is null) or c in (1, 2)");
    }

    #[test]
    fn single_quotes_in_strings_are_doubled() {
        assert_eq!(shown(&comparison(ComparisonOperator::Eq, 0, string("O'Neill"))), "a = 'O''Neill'");
    }

    #[test]
    fn names_that_are_no_plain_identifiers_are_quoted() {
        for (id, name) in
            [(3, "\"due date\""), (4, "\"null\""), (5, "\"o\"\"q\""), (6, "größe"), (7, "\"2nd\"")]
        {
            let predicate = comparison(ComparisonOperator::Eq, id, string("x"));
            assert_eq!(shown(&predicate), format!("{name} = 'x'"));
        }
    }
}
