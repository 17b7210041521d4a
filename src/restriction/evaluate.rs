//! The reference meaning of predicates, in two-valued logic: what a row filter in canonical form promises,
//! and what its wire form must give in every reader.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    fmt,
    hash::BuildHasher,
};

use super::{
    literal::Literal,
    predicate::{ComparisonOperator, Predicate, Reference, SetOperator, UnaryOperator},
    value::Value,
};

/// Where a predicate finds the values of one row.
pub trait Row {
    /// The value of a top-level field, [`Value::Null`] when it has none; `None` when the row does not know
    /// the field.
    fn value(&self, field_id: i32) -> Option<&Value>;
}

impl Row for BTreeMap<i32, Value> {
    fn value(&self, field_id: i32) -> Option<&Value> {
        self.get(&field_id)
    }
}

impl<S: BuildHasher> Row for HashMap<i32, Value, S> {
    fn value(&self, field_id: i32) -> Option<&Value> {
        self.get(&field_id)
    }
}

/// Whether the row passes the filter.
///
/// On a null value `is-null`, `not-eq`, `not-in`, `lt` and `lt-eq` are true and `not-null`, `eq`, `in`, `gt`
/// and `gt-eq` false. On NaN `not-eq` and `not-in` are true and `eq`, `in` and every ordering false; null is
/// not NaN. Both zeros are one value. Strings are compared by Unicode code points.
///
/// ```
/// use std::collections::BTreeMap;
/// use iceberg_read_restrictions::restriction::{
///     ComparisonOperator, Literal, Predicate, Reference, Value, evaluate,
/// };
/// use iceberg_read_restrictions::table::PrimitiveType;
///
/// let predicate = Predicate::Comparison {
///     operator: ComparisonOperator::NotEq,
///     reference: Reference { id: 3, required: false },
///     literal: Literal::from_string("US", &PrimitiveType::String)?,
/// };
/// assert!(evaluate(&predicate, &BTreeMap::from([(3, Value::String("DE".into()))]))?);
/// assert!(evaluate(&predicate, &BTreeMap::from([(3, Value::Null)]))?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When the row lacks a field of the predicate or has a value of another type, also where the answer would
/// not depend on it.
pub fn evaluate(predicate: &Predicate, row: &impl Row) -> Result<bool, EvaluateError> {
    match predicate {
        Predicate::Constant(value) => Ok(*value),
        Predicate::And(children) => {
            children.iter().try_fold(true, |all, child| Ok(evaluate(child, row)? && all))
        }
        Predicate::Or(children) => {
            children.iter().try_fold(false, |any, child| Ok(evaluate(child, row)? || any))
        }
        Predicate::Unary { operator, reference } => {
            let value = lookup(row, *reference)?;
            Ok(match operator {
                UnaryOperator::IsNull => *value == Value::Null,
                UnaryOperator::NotNull => *value != Value::Null,
                UnaryOperator::IsNan => is_nan(value, *reference)?,
                UnaryOperator::NotNan => !is_nan(value, *reference)?,
            })
        }
        Predicate::Comparison { operator, reference, literal } => {
            let value = lookup(row, *reference)?;
            if *value == Value::Null {
                return Ok(compare_null(*operator));
            }
            Ok(compare(*operator, order(value, literal, *reference)?))
        }
        Predicate::Set { operator, reference, literals } => {
            let value = lookup(row, *reference)?;
            let among = *value != Value::Null
                && literals.iter().try_fold(false, |any, literal| {
                    Ok(order(value, literal, *reference)? == Some(Ordering::Equal) || any)
                })?;
            Ok(match operator {
                SetOperator::In => among,
                SetOperator::NotIn => !among,
            })
        }
    }
}

fn lookup(row: &impl Row, reference: Reference) -> Result<&Value, EvaluateError> {
    row.value(reference.id).ok_or(EvaluateError::MissingField { field_id: reference.id })
}

fn is_nan(value: &Value, reference: Reference) -> Result<bool, EvaluateError> {
    match value {
        Value::Null => Ok(false),
        Value::Float(value) => Ok(value.is_nan()),
        Value::Double(value) => Ok(value.is_nan()),
        _ => Err(EvaluateError::WrongType { field_id: reference.id, expected: "float or double".into() }),
    }
}

fn compare_null(operator: ComparisonOperator) -> bool {
    match operator {
        ComparisonOperator::Lt | ComparisonOperator::LtEq | ComparisonOperator::NotEq => true,
        ComparisonOperator::Gt | ComparisonOperator::GtEq | ComparisonOperator::Eq => false,
    }
}

fn compare(operator: ComparisonOperator, order: Option<Ordering>) -> bool {
    match operator {
        ComparisonOperator::Lt => order.is_some_and(Ordering::is_lt),
        ComparisonOperator::LtEq => order.is_some_and(Ordering::is_le),
        ComparisonOperator::Gt => order.is_some_and(Ordering::is_gt),
        ComparisonOperator::GtEq => order.is_some_and(Ordering::is_ge),
        ComparisonOperator::Eq => order.is_some_and(Ordering::is_eq),
        ComparisonOperator::NotEq => !order.is_some_and(Ordering::is_eq),
    }
}

/// The order of a value that is not null and a literal of the same type; `None` for NaN.
fn order(value: &Value, literal: &Literal, reference: Reference) -> Result<Option<Ordering>, EvaluateError> {
    match (value, literal) {
        (Value::Boolean(value), Literal::Boolean(literal)) => Ok(Some(value.cmp(literal))),
        (Value::Int(value), Literal::Int(literal)) => Ok(Some(value.cmp(literal))),
        (Value::Long(value), Literal::Long(literal)) => Ok(Some(value.cmp(literal))),
        (Value::Float(value), Literal::Float(literal)) => Ok(value.partial_cmp(literal)),
        (Value::Double(value), Literal::Double(literal)) => Ok(value.partial_cmp(literal)),
        (
            Value::Decimal { unscaled: value, precision: value_precision, scale: value_scale },
            Literal::Decimal { unscaled: literal, precision, scale },
        ) if (value_precision, value_scale) == (precision, scale) => Ok(Some(value.cmp(literal))),
        (Value::Date(value), Literal::Date(literal)) => Ok(Some(value.cmp(literal))),
        (Value::Time(value), Literal::Time(literal)) => Ok(Some(value.cmp(literal))),
        (Value::Timestamp(value), Literal::Timestamp(literal)) => Ok(Some(value.cmp(literal))),
        (Value::String(value), Literal::String(literal)) => Ok(Some(value.as_str().cmp(literal))),
        _ => {
            let expected = literal.data_type().to_string();
            Err(EvaluateError::WrongType { field_id: reference.id, expected })
        }
    }
}

/// Why a predicate has no answer for a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvaluateError {
    /// The row does not know the field.
    MissingField {
        /// The field id.
        field_id: i32,
    },
    /// The value in the row is of another type than the literal.
    WrongType {
        /// The field id.
        field_id: i32,
        /// The type that the predicate is for.
        expected: String,
    },
}

impl fmt::Display for EvaluateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingField { field_id } => write!(f, "the row has no field {field_id}"),
            Self::WrongType { field_id, expected } => {
                write!(f, "the value of field {field_id} is not of type {expected}")
            }
        }
    }
}

impl std::error::Error for EvaluateError {}

#[cfg(test)]
mod tests {
    use ComparisonOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};

    use super::*;
    use crate::table::PrimitiveType;

    const X: Reference = Reference { id: 1, required: false };

    fn on(value: Value) -> BTreeMap<i32, Value> {
        BTreeMap::from([(X.id, value)])
    }

    fn number(text: &str, data_type: PrimitiveType) -> Literal {
        Literal::from_number(text, &data_type).unwrap()
    }

    /// The answers of `<`, `<=`, `>`, `>=`, `==`, `!=`, `in` and `not in`.
    fn answers(value: &Value, literal: &Literal) -> [bool; 8] {
        let row = on(value.clone());
        let compared = |operator| {
            let literal = literal.clone();
            evaluate(&Predicate::Comparison { operator, reference: X, literal }, &row).unwrap()
        };
        let within = |operator| {
            let literals = vec![literal.clone()];
            evaluate(&Predicate::Set { operator, reference: X, literals }, &row).unwrap()
        };
        let [lt, lt_eq, gt, gt_eq, eq, not_eq] = [Lt, LtEq, Gt, GtEq, Eq, NotEq].map(compared);
        [lt, lt_eq, gt, gt_eq, eq, not_eq, within(SetOperator::In), within(SetOperator::NotIn)]
    }

    const LESS: [bool; 8] = [true, true, false, false, false, true, false, true];
    const EQUAL: [bool; 8] = [false, true, false, true, true, false, true, false];
    const GREATER: [bool; 8] = [false, false, true, true, false, true, false, true];
    const NULL: [bool; 8] = [true, true, false, false, false, true, false, true];
    const NAN: [bool; 8] = [false, false, false, false, false, true, false, true];

    fn unary(operator: UnaryOperator, value: Value) -> bool {
        evaluate(&Predicate::Unary { operator, reference: X }, &on(value)).unwrap()
    }

    #[test]
    fn comparisons_with_null_are_the_table_of_the_language() {
        assert_eq!(answers(&Value::Null, &number("5", PrimitiveType::Int)), NULL);
        assert_eq!(answers(&Value::Null, &number("0.5", PrimitiveType::Double)), NULL);
        assert!(unary(UnaryOperator::IsNull, Value::Null) && !unary(UnaryOperator::NotNull, Value::Null));
        assert!(!unary(UnaryOperator::IsNull, Value::Int(0)) && unary(UnaryOperator::NotNull, Value::Int(0)));
    }

    #[test]
    fn nan_differs_from_everything_and_has_no_order() {
        assert_eq!(answers(&Value::Double(f64::NAN), &number("0.5", PrimitiveType::Double)), NAN);
        assert_eq!(answers(&Value::Float(-f32::NAN), &number("0.5", PrimitiveType::Float)), NAN);
        assert!(unary(UnaryOperator::IsNan, Value::Float(f32::NAN)));
        assert!(!unary(UnaryOperator::IsNan, Value::Null), "null is not NaN");
        assert!(unary(UnaryOperator::NotNan, Value::Null));
        assert!(unary(UnaryOperator::NotNull, Value::Double(f64::NAN)), "NaN is not null");
    }

    #[test]
    fn both_zeros_are_one_value() {
        let zero = number("0", PrimitiveType::Double);
        assert_eq!(answers(&Value::Double(-0.0), &zero), EQUAL);
        assert_eq!(answers(&Value::Double(0.0), &zero), EQUAL);
        assert_eq!(answers(&Value::Double(f64::NEG_INFINITY), &zero), LESS);
    }

    #[test]
    fn each_type_has_its_order() {
        let decimal = |unscaled| Value::Decimal { unscaled, precision: 9, scale: 2 };
        let string = |text: &str| Literal::from_string(text, &PrimitiveType::String).unwrap();
        for (value, literal, expected) in [
            (Value::Boolean(false), Literal::from_boolean(true, &PrimitiveType::Boolean).unwrap(), LESS),
            (Value::Int(9), number("10", PrimitiveType::Int), LESS),
            (Value::Long(i64::MAX), number("10", PrimitiveType::Long), GREATER),
            (decimal(150), number("1.5", PrimitiveType::Decimal { precision: 9, scale: 2 }), EQUAL),
            (Value::Date(-1), Literal::from_string("1970-01-01", &PrimitiveType::Date).unwrap(), LESS),
            (Value::Time(1), Literal::from_string("00:00:00", &PrimitiveType::Time).unwrap(), GREATER),
            (
                Value::Timestamp(-1),
                Literal::from_string("1969-12-31T23:59:59.999999", &PrimitiveType::Timestamp).unwrap(),
                EQUAL,
            ),
            (Value::String("\u{ffff}".into()), string("\u{10000}"), LESS),
            (Value::String("a".into()), string("A"), GREATER),
            (Value::String(String::new()), string(""), EQUAL),
        ] {
            assert_eq!(answers(&value, &literal), expected, "{value:?} {literal:?}");
        }
    }

    #[test]
    fn chains_and_constants_are_plain_logic() {
        let [yes, no] = [true, false].map(Predicate::Constant);
        for (predicate, expected) in [
            (Predicate::And(vec![yes.clone(), no.clone()]), false),
            (Predicate::And(vec![yes.clone(), yes.clone()]), true),
            (Predicate::Or(vec![no.clone(), yes.clone()]), true),
            (Predicate::Or(vec![no.clone(), no.clone()]), false),
        ] {
            assert_eq!(evaluate(&predicate, &on(Value::Null)), Ok(expected));
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_never_a_guess() {
        let long =
            Predicate::Comparison { operator: Eq, reference: X, literal: number("1", PrimitiveType::Long) };
        for value in [Value::Int(1), Value::Double(1.0), Value::String("1".into()), Value::Timestamptz(1)] {
            let expected = EvaluateError::WrongType { field_id: 1, expected: "long".into() };
            assert_eq!(evaluate(&long, &on(value)), Err(expected));
        }
        let other_scale = Value::Decimal { unscaled: 1, precision: 9, scale: 3 };
        let decimal = number("1", PrimitiveType::Decimal { precision: 9, scale: 2 });
        let decimal = Predicate::Comparison { operator: Eq, reference: X, literal: decimal };
        assert!(evaluate(&decimal, &on(other_scale)).is_err());
        let nan = Predicate::Unary { operator: UnaryOperator::IsNan, reference: X };
        assert!(evaluate(&nan, &on(Value::Int(1))).is_err());
        let missing = Err(EvaluateError::MissingField { field_id: 1 });
        assert_eq!(evaluate(&long, &BTreeMap::new()), missing);
        let decided = Predicate::Or(vec![Predicate::Constant(true), long]);
        assert_eq!(evaluate(&decided, &BTreeMap::new()), missing, "an answer that is known does not hide it");
    }
}
