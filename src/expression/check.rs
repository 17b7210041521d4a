//! The meaning of forms: a source tree to the checked rule, or why a form must not stand where it does.

use std::sync::Arc;

use super::{
    ast::{Choices, Form, Node, NodeId, Operator, Program, Scalar, Tree},
    error::Refusal,
    rule::{
        ActionCall, Branch, Column, ComparisonOperator, Condition, Group, Literal, LiteralValue, Rule, Span,
    },
};

/// Checks a program that keeps the [limits](super::limits): the walk goes as deep as the tree.
pub(super) fn rule(program: Program) -> Result<Rule, Refusal> {
    Ok(match program {
        Program::Filter(choices) => {
            let (branches, fallback) = all(choices, |tree| filter_condition(&tree), filter_condition)?;
            Rule::Filter { branches, fallback }
        }
        Program::Mask(choices) => {
            let (branches, fallback) = all(choices, action, mask_condition)?;
            Rule::Mask { branches, fallback }
        }
    })
}

/// Checks every result and every condition.
fn all<R, T>(
    choices: Choices<R>,
    result: impl Fn(R) -> Result<T, Refusal>,
    condition: impl Fn(&Tree) -> Result<Condition, Refusal>,
) -> Result<(Vec<Branch<T>>, T), Refusal> {
    let branches = choices
        .branches
        .into_iter()
        .map(|(value, tree)| Ok(Branch { result: result(value)?, condition: condition(&tree)? }))
        .collect::<Result<_, _>>()?;
    Ok((branches, result(choices.fallback)?))
}

fn action(call: ActionCall) -> Result<ActionCall, Refusal> {
    let name = name(&call.name, call.span, "an action name")?;
    Ok(ActionCall { name, ..call })
}

fn filter_condition(tree: &Tree) -> Result<Condition, Refusal> {
    condition(tree, tree.root())
}

/// What a mask does must not depend on the row: nobody could say then whether a column is masked.
fn mask_condition(tree: &Tree) -> Result<Condition, Refusal> {
    let column = tree.nodes().iter().find(|node| matches!(node.form, Form::Column(_)));
    match column {
        Some(node) => refuse(
            node.span,
            "the condition of a mask reads no column; expected `session_user()` or `is_group_member(\"…\")`",
        ),
        None => condition(tree, tree.root()),
    }
}

fn condition(tree: &Tree, id: NodeId) -> Result<Condition, Refusal> {
    let Node { form, span } = tree.node(id);
    let each = |operands: &[NodeId]| operands.iter().map(|id| condition(tree, *id)).collect::<Result<_, _>>();
    Ok(match form {
        Form::And(operands) => Condition::And(each(operands)?),
        Form::Or(operands) => Condition::Or(each(operands)?),
        Form::Not(operand) => Condition::Not(Box::new(condition(tree, *operand)?)),
        Form::Compare { left, operator: Operator::In, right } => set(tree.node(*left), tree.node(*right))?,
        Form::Compare { left, operator: Operator::Compare(operator), right } => {
            comparison(tree.node(*left), *operator, tree.node(*right), *span)?
        }
        Form::IsGroupMember(group) => {
            Condition::IsGroupMember(Group { name: name(group, *span, "a group name")?, span: *span })
        }
        Form::Scalar(Some(LiteralValue::Boolean(value))) => Condition::Constant(*value),
        Form::Column(name) => {
            let name = quoted(name);
            return refuse(*span, format!("a bare column is not a predicate; write `col({name}) == true`"));
        }
        Form::SessionUser | Form::Scalar(_) | Form::Array(_) => {
            return refuse(*span, format!("expected a Boolean expression, found {}", describe(form)));
        }
    })
}

/// `left operator right`, read with the column first, or `session_user()` if there is no column.
fn comparison(
    left: &Node,
    operator: ComparisonOperator,
    right: &Node,
    span: Span,
) -> Result<Condition, Refusal> {
    use Form::{Column as Col, Scalar, SessionUser};

    let swapped =
        matches!((&left.form, &right.form), (Scalar(_) | SessionUser, Col(_)) | (Scalar(_), SessionUser));
    let (first, operator, second) =
        if swapped { (right, operator.mirrored(), left) } else { (left, operator, right) };

    match (&first.form, &second.form) {
        (Col(name), Scalar(Some(value))) => Ok(Condition::Compare {
            column: column(name, first.span)?,
            operator,
            literal: Literal { value: value.clone(), span: second.span },
        }),
        (Col(name), Scalar(None)) => {
            let column = column(name, first.span)?;
            let negated = negated(operator, "`null`", span)?;
            Ok(if negated { Condition::NotNull(column) } else { Condition::IsNull(column) })
        }
        (Col(name), SessionUser) => Ok(Condition::ColumnIsUser {
            column: column(name, first.span)?,
            negated: negated(operator, "`session_user()`", span)?,
        }),
        (SessionUser, Scalar(Some(LiteralValue::String(name)))) => Ok(Condition::UserIs {
            name: name.clone(),
            negated: negated(operator, "`session_user()`", span)?,
        }),
        _ => refuse(span, incomparable(left, right)),
    }
}

/// Whether an equality is `!=`.
fn negated(operator: ComparisonOperator, what: &str, span: Span) -> Result<bool, Refusal> {
    match operator {
        ComparisonOperator::Eq => Ok(false),
        ComparisonOperator::NotEq => Ok(true),
        _ => refuse(span, format!("{what} has no order; expected `==` or `!=`")),
    }
}

fn incomparable(left: &Node, right: &Node) -> String {
    let either = |test: fn(&Form) -> bool| [left, right].into_iter().find(|node| test(&node.form));
    if let Some(node) = either(is_boolean) {
        return format!(
            "{} is Boolean by itself and never compared; expected `and` or `or`",
            describe(&node.form)
        );
    }
    if either(|form| matches!(form, Form::Array(_))).is_some() {
        return "an array stands only on the right of `in`; expected a literal, a column or `session_user()`"
            .to_owned();
    }
    let (left, right) = (describe(&left.form), describe(&right.form));
    format!(
        "{left} is not compared with {right}; expected a column and a literal, or `session_user()` and a string"
    )
}

/// `left in right`.
fn set(left: &Node, right: &Node) -> Result<Condition, Refusal> {
    let Form::Array(elements) = &right.form else {
        return refuse(right.span, format!("expected an array after `in`, found {}", describe(&right.form)));
    };
    match &left.form {
        Form::Column(name) => {
            Ok(Condition::In { column: column(name, left.span)?, values: literals(elements)? })
        }
        Form::SessionUser => {
            literals(elements)?.into_iter().map(user_name).collect::<Result<_, _>>().map(Condition::UserIn)
        }
        form => refuse(
            left.span,
            format!("expected a column or `session_user()` before `in`, found {}", describe(form)),
        ),
    }
}

/// The elements of an array: no null, and one kind.
fn literals(elements: &[(Scalar, Span)]) -> Result<Vec<Literal>, Refusal> {
    let mut literals: Vec<Literal> = Vec::with_capacity(elements.len());
    for (scalar, span) in elements {
        let Some(value) = scalar else {
            return refuse(
                *span,
                "an array holds no `null`; expected another literal (`== null` tests for null)",
            );
        };
        if let Some(first) = literals.first() {
            let (expected, found) = (kind(&first.value), kind(value));
            if expected != found {
                return refuse(
                    *span,
                    format!("an array holds one kind of literal; expected {expected}, found {found}"),
                );
            }
        }
        literals.push(Literal { value: value.clone(), span: *span });
    }
    Ok(literals)
}

fn user_name(literal: Literal) -> Result<Arc<str>, Refusal> {
    match literal.value {
        LiteralValue::String(name) => Ok(name),
        other => refuse(
            literal.span,
            format!("`session_user()` is a string; expected a string, found {}", kind(&other)),
        ),
    }
}

fn column(text: &Arc<str>, span: Span) -> Result<Column, Refusal> {
    Ok(Column { name: name(text, span, "a column name")?, span })
}

fn name(text: &Arc<str>, span: Span, what: &str) -> Result<Arc<str>, Refusal> {
    if text.is_empty() {
        return refuse(span, format!("expected {what}, found an empty string"));
    }
    Ok(text.clone())
}

/// A string literal for `text`, all on one line.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.chars().fold(String::new(), |quoted, c| match c {
        c if c.is_control() => quoted + &format!("\\u{:04x}", c as u32),
        c => quoted + c.encode_utf8(&mut [0; 4]),
    })
}

fn refuse<T>(span: Span, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(span, message))
}

fn is_boolean(form: &Form) -> bool {
    match form {
        Form::IsGroupMember(_) | Form::Compare { .. } | Form::Not(_) | Form::And(_) | Form::Or(_) => true,
        Form::Column(_) | Form::SessionUser | Form::Scalar(_) | Form::Array(_) => false,
    }
}

fn describe(form: &Form) -> &'static str {
    match form {
        Form::Column(_) => "a column",
        Form::SessionUser => "`session_user()`",
        Form::IsGroupMember(_) => "`is_group_member(…)`",
        Form::Scalar(None) => "`null`",
        Form::Scalar(Some(value)) => kind(value),
        Form::Array(_) => "an array",
        Form::Compare { .. } => "a comparison",
        Form::Not(_) => "`not …`",
        Form::And(_) => "`… and …`",
        Form::Or(_) => "`… or …`",
    }
}

fn kind(value: &LiteralValue) -> &'static str {
    match value {
        LiteralValue::Boolean(_) => "a Boolean",
        LiteralValue::Number(_) => "a number",
        LiteralValue::String(_) => "a string",
    }
}
