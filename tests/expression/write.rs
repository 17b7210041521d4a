//! Rules as people might write them.

use iceberg_read_restrictions::expression::{
    Branch, Column, ComparisonOperator, Condition, Literal, LiteralValue, Rule,
};
use serde_json::json;

use super::print;

/// How tightly a printed condition binds, loosest first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binding {
    Or,
    And,
    Not,
    Comparison,
    Primary,
}

/// Writes a rule with brackets only where they are needed, or at random; in either order, with white space at random.
pub struct Writer {
    pub seed: u64,
}

impl Writer {
    pub fn rule(&mut self, rule: &Rule) -> String {
        let text = match rule {
            Rule::Filter { branches, fallback } => {
                self.choices("filter", branches, fallback, |writer, result| {
                    writer.condition(result, Binding::Or)
                })
            }
            Rule::Mask { branches, fallback } => {
                self.choices("mask", branches, fallback, |writer, action| {
                    let name = writer.string(&action.name);
                    writer.spaced(&["action", "(", &name, ")"])
                })
            }
        };
        format!("{}{text}{}", self.blank(), self.blank())
    }

    fn choices<R>(
        &mut self,
        name: &str,
        branches: &[Branch<R>],
        fallback: &R,
        result: fn(&mut Self, &R) -> String,
    ) -> String {
        let mut text = self.spaced(&[name, ":=", ""]);
        for branch in branches {
            let (result, condition) =
                (result(self, &branch.result), self.condition(&branch.condition, Binding::Or));
            text += &format!("{result} if {condition} ");
            text += &self.spaced(&["else", ":=", ""]);
        }
        text + &result(self, fallback)
    }

    fn condition(&mut self, condition: &Condition, least: Binding) -> String {
        let (text, binding) = match condition {
            Condition::Constant(value) => (value.to_string(), Binding::Primary),
            Condition::Not(operand) => {
                (format!("not {}", self.condition(operand, Binding::Not)), Binding::Not)
            }
            Condition::And(operands) => (self.chain(operands, "and", Binding::Not), Binding::And),
            Condition::Or(operands) => (self.chain(operands, "or", Binding::And), Binding::Or),
            Condition::Compare { column, operator, literal } => {
                let (column, literal) = (self.column(column), self.literal(literal));
                (self.comparison(column, *operator, literal), Binding::Comparison)
            }
            Condition::IsNull(column) => (self.equality(column, false, "null"), Binding::Comparison),
            Condition::NotNull(column) => (self.equality(column, true, "null"), Binding::Comparison),
            Condition::ColumnIsUser { column, negated } => {
                (self.equality(column, *negated, "session_user()"), Binding::Comparison)
            }
            Condition::In { column, values } => {
                let values: Vec<_> = values.iter().map(|value| self.literal(value)).collect();
                let column = self.column(column);
                (self.set(column, &values), Binding::Comparison)
            }
            Condition::UserIs { name, negated } => {
                let operator = if *negated { ComparisonOperator::NotEq } else { ComparisonOperator::Eq };
                let name = self.string(name);
                (self.comparison("session_user()".into(), operator, name), Binding::Comparison)
            }
            Condition::UserIn(names) => {
                let names: Vec<_> = names.iter().map(|name| self.string(name)).collect();
                (self.set("session_user()".into(), &names), Binding::Comparison)
            }
            Condition::IsGroupMember(group) => {
                let name = self.string(&group.name);
                (self.spaced(&["is_group_member", "(", &name, ")"]), Binding::Primary)
            }
        };
        if binding < least { self.spaced(&["(", &text, ")"]) } else { self.bracketed(text) }
    }

    fn chain(&mut self, operands: &[Condition], word: &str, least: Binding) -> String {
        let operands: Vec<_> = operands.iter().map(|operand| self.condition(operand, least)).collect();
        operands.join(&format!(" {word} "))
    }

    fn equality(&mut self, column: &Column, negated: bool, other: &str) -> String {
        let operator = if negated { ComparisonOperator::NotEq } else { ComparisonOperator::Eq };
        let column = self.column(column);
        self.comparison(column, operator, other.into())
    }

    fn comparison(&mut self, left: String, operator: ComparisonOperator, right: String) -> String {
        let (left, right) = (self.bracketed(left), self.bracketed(right));
        match self.choose(2) {
            0 => self.spaced(&[&left, print::symbol(operator), &right]),
            _ => self.spaced(&[&right, print::symbol(mirrored(operator)), &left]),
        }
    }

    fn set(&mut self, left: String, values: &[String]) -> String {
        let comma = self.spaced(&["", ",", ""]);
        let array = self.spaced(&["[", &values.join(&comma), "]"]);
        format!("{} in {}", self.bracketed(left), self.bracketed(array))
    }

    fn column(&mut self, column: &Column) -> String {
        let name = self.string(&column.name);
        self.spaced(&["col", "(", &name, ")"])
    }

    fn literal(&mut self, literal: &Literal) -> String {
        match &literal.value {
            LiteralValue::String(text) => self.string(text),
            _ => print::literal(literal),
        }
    }

    /// Either the short spelling or every unit escaped.
    fn string(&mut self, text: &str) -> String {
        match self.choose(3) {
            0 => format!(
                "\"{}\"",
                text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
            ),
            _ => json!(text).to_string(),
        }
    }

    fn bracketed(&mut self, text: String) -> String {
        match self.choose(6) {
            0 => self.spaced(&["(", &text, ")"]),
            _ => text,
        }
    }

    fn spaced(&mut self, parts: &[&str]) -> String {
        let mut text = String::new();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                text += self.blank();
            }
            text += part;
        }
        text
    }

    fn blank(&mut self) -> &'static str {
        ["", "", " ", "\n", "\t", "\r\n  "][self.choose(6)]
    }

    fn choose(&mut self, among: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % among
    }
}

fn mirrored(operator: ComparisonOperator) -> ComparisonOperator {
    match operator {
        ComparisonOperator::Lt => ComparisonOperator::Gt,
        ComparisonOperator::LtEq => ComparisonOperator::GtEq,
        ComparisonOperator::Gt => ComparisonOperator::Lt,
        ComparisonOperator::GtEq => ComparisonOperator::LtEq,
        other => other,
    }
}
