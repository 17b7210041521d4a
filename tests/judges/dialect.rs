//! Evaluators of the wire form, one for each way in which readers read it.

use std::cmp::Ordering::{self, Equal, Greater, Less};

use iceberg_read_restrictions::{restriction::Value, table::PrimitiveType};
use serde_json::Value as Json;

use super::{naive::order, values::single_value};

/// How a reader answers where readers disagree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dialect {
    /// Null comes before every value, so that it is below the literal. Otherwise nothing is ordered against it.
    pub nulls_first: bool,
    /// NaN comes after every number. Otherwise nothing is ordered against it.
    pub nan_last: bool,
    /// `-0.0` comes before `0.0`. Otherwise they are equal.
    pub zeros_apart: bool,
}

/// The published expression specification.
pub const SPECIFICATION: Dialect = Dialect { nulls_first: false, nan_last: false, zeros_apart: false };

/// The classic Java evaluator.
pub const NULLS_FIRST: Dialect = Dialect { nulls_first: true, nan_last: true, zeros_apart: true };

impl Dialect {
    /// Every combination.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..8).map(|bits| Self {
            nulls_first: bits & 1 != 0,
            nan_last: bits & 2 != 0,
            zeros_apart: bits & 4 != 0,
        })
    }

    fn order(self, value: &Value, literal: &Value) -> Option<Ordering> {
        match (value, literal) {
            (Value::Null, _) => self.nulls_first.then_some(Less),
            (Value::Float(value), Value::Float(literal)) => {
                self.order_floats((*value).into(), (*literal).into())
            }
            (Value::Double(value), Value::Double(literal)) => self.order_floats(*value, *literal),
            _ => order(value, literal),
        }
    }

    fn order_floats(self, value: f64, literal: f64) -> Option<Ordering> {
        if value.is_nan() {
            self.nan_last.then_some(Greater)
        } else if self.zeros_apart {
            Some(value.total_cmp(&literal))
        } else {
            value.partial_cmp(&literal)
        }
    }
}

/// A wire form, read once to be evaluated often.
pub enum Wire {
    Constant(bool),
    And(Box<Wire>, Box<Wire>),
    Or(Box<Wire>, Box<Wire>),
    Not(Box<Wire>),
    IsNull(i64),
    IsNan(i64),
    Ordering(i64, &'static [Ordering], Value),
    In(i64, Vec<Value>),
}

impl Wire {
    pub fn read(wire: &Json) -> Self {
        if let Json::Bool(constant) = wire {
            return Self::Constant(*constant);
        }
        let operand = |name: &str| Box::new(Self::read(&wire[name]));
        let id = |name: &str| wire[name]["id"].as_i64().expect("a field id");
        let not = |wire| Self::Not(Box::new(wire));
        let compared = |holds| {
            let data_type = PrimitiveType::parse(wire["right"]["data-type"].as_str().expect("a data type"));
            Self::Ordering(id("left"), holds, single_value(&wire["right"]["value"], &data_type))
        };
        let within = || {
            let data_type = PrimitiveType::parse(wire["values"]["data-type"].as_str().expect("a data type"));
            let values = wire["values"]["values"].as_array().expect("values");
            Self::In(id("child"), values.iter().map(|value| single_value(value, &data_type)).collect())
        };
        match wire["type"].as_str().expect("a predicate") {
            "and" => Self::And(operand("left"), operand("right")),
            "or" => Self::Or(operand("left"), operand("right")),
            "not" => not(*operand("child")),
            "is-null" => Self::IsNull(id("child")),
            "not-null" => not(Self::IsNull(id("child"))),
            "is-nan" => Self::IsNan(id("child")),
            "not-nan" => not(Self::IsNan(id("child"))),
            "lt" => compared(&[Less]),
            "lt-eq" => compared(&[Less, Equal]),
            "gt" => compared(&[Greater]),
            "gt-eq" => compared(&[Greater, Equal]),
            "eq" => compared(&[Equal]),
            "not-eq" => not(compared(&[Equal])),
            "in" => within(),
            "not-in" => not(within()),
            other => panic!("no predicate is called {other:?}"),
        }
    }

    pub fn keeps<'a>(&self, dialect: Dialect, value: &impl Fn(i64) -> &'a Value) -> bool {
        match self {
            Self::Constant(constant) => *constant,
            Self::And(left, right) => left.keeps(dialect, value) && right.keeps(dialect, value),
            Self::Or(left, right) => left.keeps(dialect, value) || right.keeps(dialect, value),
            Self::Not(child) => !child.keeps(dialect, value),
            Self::IsNull(id) => *value(*id) == Value::Null,
            Self::IsNan(id) => match value(*id) {
                Value::Float(value) => value.is_nan(),
                Value::Double(value) => value.is_nan(),
                _ => false,
            },
            Self::Ordering(id, holds, literal) => {
                dialect.order(value(*id), literal).is_some_and(|order| holds.contains(&order))
            }
            Self::In(id, literals) => {
                literals.iter().any(|literal| dialect.order(value(*id), literal) == Some(Equal))
            }
        }
    }
}
