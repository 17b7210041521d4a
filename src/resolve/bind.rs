//! Binds one checked expression to one subject and one schema: names become field ids, literals take the
//! type of their column, and everything about the subject becomes true or false.

use std::sync::Arc;

use super::suggest::did_you_mean;
use crate::{
    expression::{self, ActionCall, Column, Condition, ExpressionError, Group, LiteralValue, Rule, Span},
    identity::{Membership, Memberships},
    restriction::{Action, ComparisonOperator, Literal, Predicate, Reference, SetOperator, UnaryOperator},
    table::{Field, PrimitiveType, Schema, Type},
};

/// Everything about the subject that an expression may ask for.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub subject: &'a str,
    pub memberships: Option<&'a Memberships>,
}

impl Context<'_> {
    pub fn membership(&self, group: &str) -> Membership {
        self.memberships.map_or(Membership::UnknownGroup, |memberships| memberships.of(group))
    }
}

/// Binds the parts of one expression.
pub(super) struct Binder<'a> {
    pub source: &'a Arc<str>,
    pub context: Context<'a>,
    pub schema: &'a Schema,
}

impl Binder<'_> {
    /// Every part is bound, also those that folding will drop: an error anywhere is an error.
    pub fn condition(&self, condition: &Condition) -> Result<Predicate, ExpressionError> {
        Ok(match condition {
            Condition::Constant(value) => Predicate::Constant(*value),
            Condition::Not(child) => self.condition(child)?.negate(),
            Condition::And(children) => Predicate::And(self.conditions(children)?),
            Condition::Or(children) => Predicate::Or(self.conditions(children)?),
            Condition::Compare { column, operator, literal } => {
                self.comparison(column, *operator, literal)?
            }
            Condition::IsNull(column) => self.null_test(column, UnaryOperator::IsNull)?,
            Condition::NotNull(column) => self.null_test(column, UnaryOperator::NotNull)?,
            Condition::In { column, values } => self.set(column, values)?,
            Condition::ColumnIsUser { column, negated } => self.column_is_user(column, *negated)?,
            Condition::UserIs { name, negated } => {
                Predicate::Constant((self.context.subject == &**name) != *negated)
            }
            Condition::UserIn(names) => {
                Predicate::Constant(names.iter().any(|name| self.context.subject == &**name))
            }
            Condition::IsGroupMember(group) => Predicate::Constant(self.is_member(group)?),
        })
    }

    /// The action that a call names. Whether it fits a column is [`Action::check`]'s to say.
    pub fn action(&self, call: &ActionCall) -> Result<Action, ExpressionError> {
        call.name.parse().map_err(|error| self.error(call.span, format!("{error}")))
    }

    /// Everything in a rule that does not bind to the schema, not only the first. Whether a group exists is
    /// left open: it is not a question about the schema.
    pub fn all_errors(&self, rule: &Rule) -> Vec<ExpressionError> {
        let mut errors = Vec::new();
        match rule {
            Rule::Filter { branches, fallback } => {
                for branch in branches {
                    self.collect_errors(&branch.result, &mut errors);
                    self.collect_errors(&branch.condition, &mut errors);
                }
                self.collect_errors(fallback, &mut errors);
            }
            Rule::Mask { branches, fallback } => {
                for branch in branches {
                    errors.extend(self.action(&branch.result).err());
                    self.collect_errors(&branch.condition, &mut errors);
                }
                errors.extend(self.action(fallback).err());
            }
        }
        errors
    }

    fn collect_errors(&self, condition: &Condition, errors: &mut Vec<ExpressionError>) {
        match condition {
            Condition::Not(child) => self.collect_errors(child, errors),
            Condition::And(children) | Condition::Or(children) => {
                for child in children {
                    self.collect_errors(child, errors);
                }
            }
            Condition::In { column, values } => match self.column(column) {
                Ok(field) => {
                    errors.extend(values.iter().filter_map(|value| self.literal(value, field).err()));
                }
                Err(error) => errors.push(error),
            },
            Condition::IsGroupMember(_) => {}
            Condition::Constant(_)
            | Condition::Compare { .. }
            | Condition::IsNull(_)
            | Condition::NotNull(_)
            | Condition::ColumnIsUser { .. }
            | Condition::UserIs { .. }
            | Condition::UserIn(_) => errors.extend(self.condition(condition).err()),
        }
    }

    pub fn error(&self, span: Span, message: impl Into<String>) -> ExpressionError {
        ExpressionError::new(self.source.clone(), span, message)
    }

    fn conditions(&self, conditions: &[Condition]) -> Result<Vec<Predicate>, ExpressionError> {
        conditions.iter().map(|condition| self.condition(condition)).collect()
    }

    fn comparison(
        &self,
        column: &Column,
        operator: expression::ComparisonOperator,
        literal: &expression::Literal,
    ) -> Result<Predicate, ExpressionError> {
        let field = self.column(column)?;
        let operator = comparison_operator(operator);
        let orders = !matches!(operator, ComparisonOperator::Eq | ComparisonOperator::NotEq);
        if orders && matches!(field.r#type, Type::Primitive(PrimitiveType::Boolean)) {
            let message = format!("column `{}` is boolean, which only ==, != and in fit", field.name);
            return Err(self.error(column.span, message));
        }
        let literal = self.literal(literal, field)?;
        Ok(Predicate::Comparison { operator, reference: reference(field), literal })
    }

    fn set(&self, column: &Column, values: &[expression::Literal]) -> Result<Predicate, ExpressionError> {
        let field = self.column(column)?;
        let literals = values.iter().map(|value| self.literal(value, field)).collect::<Result<_, _>>()?;
        Ok(Predicate::Set { operator: SetOperator::In, reference: reference(field), literals })
    }

    fn null_test(&self, column: &Column, operator: UnaryOperator) -> Result<Predicate, ExpressionError> {
        let field = self.column(column)?;
        if field.required {
            let message = format!("column `{}` is required, so it is never null", field.name);
            return Err(self.error(column.span, message));
        }
        Ok(Predicate::Unary { operator, reference: reference(field) })
    }

    fn column_is_user(&self, column: &Column, negated: bool) -> Result<Predicate, ExpressionError> {
        let field = self.column(column)?;
        if !matches!(field.r#type, Type::Primitive(PrimitiveType::String)) {
            let message = format!(
                "column `{}` is {}, and only a string column is compared with session_user()",
                field.name, field.r#type
            );
            return Err(self.error(column.span, message));
        }
        let operator = if negated { ComparisonOperator::NotEq } else { ComparisonOperator::Eq };
        let literal = Literal::String(self.context.subject.into());
        Ok(Predicate::Comparison { operator, reference: reference(field), literal })
    }

    fn is_member(&self, group: &Group) -> Result<bool, ExpressionError> {
        match self.context.membership(&group.name) {
            Membership::Member => Ok(true),
            Membership::NotMember => Ok(false),
            Membership::UnknownGroup => {
                Err(self.error(group.span, format!("group `{}` is unknown", group.name)))
            }
        }
    }

    /// Exactly one top-level field, which no nested path is spelled like.
    fn column(&self, column: &Column) -> Result<Field<'_>, ExpressionError> {
        let name = &*column.name;
        let nested = self.schema.has_nested_path(name);
        let mut found = self.schema.fields_by_name(name);
        match (found.next(), found.next()) {
            (Some(field), None) if !nested => Ok(field),
            (None, _) if nested => {
                Err(self.error(column.span, format!("column `{name}` is nested; only top-level columns fit")))
            }
            (None, _) => {
                let suggestion = did_you_mean(name, self.schema.fields().map(|field| field.name));
                Err(self.error(column.span, format!("the table has no column `{name}`{suggestion}")))
            }
            _ => Err(self.error(column.span, format!("column `{name}` is ambiguous in this table"))),
        }
    }

    fn literal(&self, literal: &expression::Literal, field: Field<'_>) -> Result<Literal, ExpressionError> {
        let Type::Primitive(r#type) = field.r#type else {
            let message = format!("column `{}` is a {}, which no literal fits", field.name, field.r#type);
            return Err(self.error(literal.span, message));
        };
        match &literal.value {
            LiteralValue::Boolean(value) => Literal::from_boolean(*value, r#type),
            LiteralValue::Number(text) => Literal::from_number(text, r#type),
            LiteralValue::String(text) => Literal::from_string(text, r#type),
        }
        .map_err(|error| self.error(literal.span, format!("column `{}`: {error}", field.name)))
    }
}

fn reference(field: Field<'_>) -> Reference {
    Reference { id: field.id, required: field.required }
}

fn comparison_operator(operator: expression::ComparisonOperator) -> ComparisonOperator {
    match operator {
        expression::ComparisonOperator::Eq => ComparisonOperator::Eq,
        expression::ComparisonOperator::NotEq => ComparisonOperator::NotEq,
        expression::ComparisonOperator::Lt => ComparisonOperator::Lt,
        expression::ComparisonOperator::LtEq => ComparisonOperator::LtEq,
        expression::ComparisonOperator::Gt => ComparisonOperator::Gt,
        expression::ComparisonOperator::GtEq => ComparisonOperator::GtEq,
    }
}
