//! A checked rule as source text with all its brackets: one text for each meaning.

use iceberg_read_restrictions::expression::{
    ActionCall, Branch, ComparisonOperator, Condition, Literal, LiteralValue, Rule,
};
use serde_json::json;

pub fn rule(rule: &Rule) -> String {
    match rule {
        Rule::Filter { branches, fallback } => choices("filter", branches, fallback, condition),
        Rule::Mask { branches, fallback } => {
            choices("mask", branches, fallback, |ActionCall { name, .. }| {
                format!("action({})", json!(name.as_ref()))
            })
        }
    }
}

fn choices<R>(name: &str, branches: &[Branch<R>], fallback: &R, result: fn(&R) -> String) -> String {
    let branches: String = branches
        .iter()
        .map(|branch| format!("{} if {} else := ", result(&branch.result), condition(&branch.condition)))
        .collect();
    format!("{name} := {branches}{}", result(fallback))
}

pub fn condition(tree: &Condition) -> String {
    let chain = |operands: &[Condition], word: &str| {
        let operands: Vec<_> = operands.iter().map(condition).collect();
        format!("({})", operands.join(word))
    };
    let equality = |negated: &bool| if *negated { "!=" } else { "==" };
    match tree {
        Condition::Constant(value) => value.to_string(),
        Condition::Not(operand) => format!("(not {})", condition(operand)),
        Condition::And(operands) => chain(operands, " and "),
        Condition::Or(operands) => chain(operands, " or "),
        Condition::Compare { column, operator, literal: value } => {
            format!("(col({}) {} {})", json!(column.name.as_ref()), symbol(*operator), literal(value))
        }
        Condition::IsNull(column) => format!("(col({}) == null)", json!(column.name.as_ref())),
        Condition::NotNull(column) => format!("(col({}) != null)", json!(column.name.as_ref())),
        Condition::In { column, values } => {
            let values: Vec<_> = values.iter().map(literal).collect();
            format!("(col({}) in [{}])", json!(column.name.as_ref()), values.join(", "))
        }
        Condition::ColumnIsUser { column, negated } => {
            format!("(col({}) {} session_user())", json!(column.name.as_ref()), equality(negated))
        }
        Condition::UserIs { name, negated } => {
            format!("(session_user() {} {})", equality(negated), json!(name.as_ref()))
        }
        Condition::UserIn(names) => {
            let names: Vec<_> = names.iter().map(|name| json!(name.as_ref()).to_string()).collect();
            format!("(session_user() in [{}])", names.join(", "))
        }
        Condition::IsGroupMember(group) => format!("is_group_member({})", json!(group.name.as_ref())),
    }
}

pub fn literal(literal: &Literal) -> String {
    match &literal.value {
        LiteralValue::Boolean(value) => value.to_string(),
        LiteralValue::Number(text) => text.to_string(),
        LiteralValue::String(text) => json!(text.as_ref()).to_string(),
    }
}

pub fn symbol(operator: ComparisonOperator) -> &'static str {
    match operator {
        ComparisonOperator::Eq => "==",
        ComparisonOperator::NotEq => "!=",
        ComparisonOperator::Lt => "<",
        ComparisonOperator::LtEq => "<=",
        ComparisonOperator::Gt => ">",
        ComparisonOperator::GtEq => ">=",
    }
}
