//! The parts of a rule that are not made of other conditions.

use iceberg_read_restrictions::expression::{ActionCall, Condition, Rule, Span};

/// The atoms of every condition and result, in source order.
pub fn leaves(rule: &Rule) -> Vec<&Condition> {
    let mut found = Vec::new();
    match rule {
        Rule::Filter { branches, fallback } => {
            for branch in branches {
                collect(&branch.result, &mut found);
                collect(&branch.condition, &mut found);
            }
            collect(fallback, &mut found);
        }
        Rule::Mask { branches, .. } => {
            for branch in branches {
                collect(&branch.condition, &mut found);
            }
        }
    }
    found
}

fn collect<'a>(condition: &'a Condition, found: &mut Vec<&'a Condition>) {
    match condition {
        Condition::Not(child) => collect(child, found),
        Condition::And(children) | Condition::Or(children) => {
            for child in children {
                collect(child, found);
            }
        }
        leaf => found.push(leaf),
    }
}

/// The column of the atom that a place in the source belongs to.
pub fn column_at(rule: &Rule, place: Span) -> Option<&str> {
    leaves(rule).into_iter().find_map(|leaf| {
        let (column, last) = match leaf {
            Condition::Compare { column, literal, .. } => (column, literal.span),
            Condition::In { column, values } => {
                (column, values.last().map_or(column.span, |value| value.span))
            }
            Condition::IsNull(column) | Condition::NotNull(column) => (column, column.span),
            Condition::ColumnIsUser { column, .. } => (column, column.span),
            _ => return None,
        };
        let (start, end) = (column.span.start.min(last.start), column.span.end.max(last.end));
        (start <= place.start && place.end <= end).then_some(&*column.name)
    })
}

/// The actions of every branch, in source order.
pub fn actions(rule: &Rule) -> Vec<&ActionCall> {
    match rule {
        Rule::Filter { .. } => Vec::new(),
        Rule::Mask { branches, fallback } => {
            branches.iter().map(|branch| &branch.result).chain([fallback]).collect()
        }
    }
}
