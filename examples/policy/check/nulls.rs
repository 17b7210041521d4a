//! Comparisons that are true for a row whose column is null. The language defines them so; authors often
//! think of the other rows only.

use std::sync::Arc;

use iceberg_read_restrictions::{
    expression::{ComparisonOperator, Condition, Expression, ExpressionError, Rule, Span},
    table::Schema,
};

/// A comparison that is true where its column is null.
pub struct TrueForNull {
    pub column: Arc<str>,
    /// What that means, and where it stands.
    pub error: ExpressionError,
}

/// Every such comparison of a row filter on an optional column that nothing beside it says must not be null.
pub fn true_for_null(expression: &Expression, schema: &Schema) -> Vec<TrueForNull> {
    let mut walk = Walk { expression, schema, found: Vec::new() };
    if let Rule::Filter { branches, fallback } = expression.rule() {
        let mut guarded = Vec::new();
        for branch in branches {
            walk.condition(&branch.condition, true, &guarded, Consequence::TakesBranch);
            let taken: Vec<_> = guarded.iter().copied().chain(guards(&branch.condition, true)).collect();
            walk.condition(&branch.result, true, &taken, Consequence::KeepsRow);
            guarded.extend(guards(&branch.condition, false));
        }
        walk.condition(fallback, true, &guarded, Consequence::KeepsRow);
    }
    walk.found
}

#[derive(Clone, Copy)]
enum Consequence {
    KeepsRow,
    TakesBranch,
}

struct Walk<'a> {
    expression: &'a Expression,
    schema: &'a Schema,
    found: Vec<TrueForNull>,
}

impl Walk<'_> {
    /// `holds` is false below an odd number of `not`s; `guarded` are the columns that are known not to be
    /// null where the condition matters.
    fn condition(&mut self, condition: &Condition, holds: bool, guarded: &[&str], then: Consequence) {
        match condition {
            Condition::Not(child) => self.condition(child, !holds, guarded, then),
            Condition::And(children) | Condition::Or(children) => {
                let mut guarded = guarded.to_vec();
                guarded.extend(guards(condition, holds));
                for child in children {
                    self.condition(child, holds, &guarded, then);
                }
            }
            Condition::Compare { column, operator, literal } => {
                let true_for_null = match operator {
                    ComparisonOperator::NotEq | ComparisonOperator::Lt | ComparisonOperator::LtEq => true,
                    ComparisonOperator::Eq | ComparisonOperator::Gt | ComparisonOperator::GtEq => false,
                };
                if true_for_null == holds {
                    let span = cover(column.span, literal.span);
                    self.found(&column.name, span, guarded, then);
                }
            }
            Condition::In { column, values } => {
                if !holds {
                    let end = values.last().map_or(column.span, |value| value.span);
                    self.found(&column.name, cover(column.span, end), guarded, then);
                }
            }
            Condition::ColumnIsUser { column, negated } => {
                if *negated == holds {
                    self.found(&column.name, column.span, guarded, then);
                }
            }
            Condition::Constant(_)
            | Condition::IsNull(_)
            | Condition::NotNull(_)
            | Condition::UserIs { .. }
            | Condition::UserIn(_)
            | Condition::IsGroupMember(_) => {}
        }
    }

    fn found(&mut self, column: &Arc<str>, span: Span, guarded: &[&str], then: Consequence) {
        let is_optional = self.schema.fields_by_name(column).any(|field| !field.required);
        if !is_optional || guarded.contains(&&**column) {
            return;
        }
        let consequence = match then {
            Consequence::KeepsRow => "keeps rows",
            Consequence::TakesBranch => "takes this branch for rows",
        };
        let message = format!(
            "{consequence} with a null `{column}`; add `and col({column:?}) != null` if they are not meant"
        );
        let error = ExpressionError::new(self.expression.source().clone(), span, message);
        self.found.push(TrueForNull { column: column.clone(), error });
    }
}

fn cover(a: Span, b: Span) -> Span {
    Span { start: a.start.min(b.start), end: a.end.max(b.end) }
}

/// The columns that cannot be null where the condition is true (`holds`), or where it is false.
fn guards(condition: &Condition, holds: bool) -> Vec<&str> {
    match condition {
        Condition::Not(child) => guards(child, !holds),
        Condition::And(children) if holds => children.iter().flat_map(|child| guards(child, true)).collect(),
        Condition::Or(children) if !holds => children.iter().flat_map(|child| guards(child, false)).collect(),
        Condition::NotNull(column) if holds => vec![&column.name],
        Condition::IsNull(column) if !holds => vec![&column.name],
        // These are false for a null, so whatever stands beside them meets no null either.
        Condition::Compare { column, operator, .. } => {
            let false_for_null = matches!(
                operator,
                ComparisonOperator::Eq | ComparisonOperator::Gt | ComparisonOperator::GtEq
            );
            if false_for_null == holds { vec![&column.name] } else { Vec::new() }
        }
        Condition::In { column, .. } if holds => vec![&column.name],
        Condition::ColumnIsUser { column, negated } if *negated != holds => vec![&column.name],
        _ => Vec::new(),
    }
}
