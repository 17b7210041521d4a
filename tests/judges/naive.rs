//! What a rule says about a row, read as simply as its page is written: no binding, no lowering, no canonical form.

use std::cmp::Ordering;

use iceberg_read_restrictions::restriction::Value;

use super::generate::{Asker, Domain, Leaf, Operator, Rule, Table, Tree};

/// What the language says about a rule: the first branch whose condition is true, and plain logic on the tables
/// for null and NaN.
pub struct Meaning<'a> {
    pub table: &'a Table,
    pub domains: &'a [Domain],
    pub asker: &'a Asker,
    pub row: &'a [Value],
}

impl Meaning<'_> {
    pub fn keeps(&self, rule: &Rule) -> bool {
        let first = rule.branches.iter().find(|(_, condition)| self.holds(condition));
        self.holds(first.map_or(&rule.fallback, |(result, _)| result))
    }

    fn holds(&self, tree: &Tree) -> bool {
        match tree {
            Tree::Constant(value) => *value,
            Tree::Not(child) => !self.holds(child),
            Tree::And(children) => children.iter().all(|child| self.holds(child)),
            Tree::Or(children) => children.iter().any(|child| self.holds(child)),
            Tree::Leaf(leaf) => self.leaf(leaf),
        }
    }

    fn leaf(&self, leaf: &Leaf) -> bool {
        match leaf {
            Leaf::Compare { column, operator, literal, .. } => {
                self.compare(*column, *operator, self.literal(*column, *literal))
            }
            Leaf::IsNull { column, negated, .. } => (self.row[*column] == Value::Null) != *negated,
            Leaf::In { column, literals } => {
                let equals =
                    |literal: &usize| self.compare(*column, Operator::Eq, self.literal(*column, *literal));
                literals.iter().any(equals)
            }
            Leaf::ColumnIsUser { column, negated, .. } => {
                let operator = if *negated { Operator::NotEq } else { Operator::Eq };
                self.compare(*column, operator, &Value::String(self.asker.name.into()))
            }
            Leaf::UserIs { name, negated, .. } => (self.asker.name == *name) != *negated,
            Leaf::UserIn(names) => names.contains(&self.asker.name),
            Leaf::Member(group) => self.asker.groups.iter().any(|(name, member)| name == group && *member),
        }
    }

    fn literal(&self, column: usize, literal: usize) -> &Value {
        &self.domains[self.table.columns[column].domain].literals[literal].1
    }

    fn compare(&self, column: usize, operator: Operator, literal: &Value) -> bool {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let value = &self.row[column];
        if *value == Value::Null {
            return matches!(operator, NotEq | Lt | LtEq);
        }
        let Some(order) = order(value, literal) else { return operator == NotEq };
        match operator {
            Eq => order == Ordering::Equal,
            NotEq => order != Ordering::Equal,
            Lt => order == Ordering::Less,
            LtEq => order != Ordering::Greater,
            Gt => order == Ordering::Greater,
            GtEq => order != Ordering::Less,
        }
    }
}

/// The order of two values of one type, neither null. Floats as in IEEE 754.
pub fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Int(b)) | (Value::Date(a), Value::Date(b)) => Some(a.cmp(b)),
        (Value::Long(a), Value::Long(b))
        | (Value::Time(a), Value::Time(b))
        | (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Decimal { unscaled: a, .. }, Value::Decimal { unscaled: b, .. }) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => panic!("{a:?} and {b:?} are of different types"),
    }
}
