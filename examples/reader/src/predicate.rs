//! The row filter: parsed strictly, bound to the schema that is read, evaluated over Arrow arrays.

use std::cmp::Ordering::{self, Equal, Greater, Less};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, RecordBatch,
    cast::AsArray,
    types::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
        TimestampMicrosecondType, TimestampNanosecondType,
    },
};
use arrow_schema::{DataType, TimeUnit};
use iceberg::spec::{NestedFieldRef, PrimitiveType, Schema, Type};
use serde_json::{Map, Value};

use crate::{
    Refusal, column,
    json::{member, object},
    literal::Literal,
};

/// A row filter over the top-level fields of one schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// Every row, or none.
    Constant(bool),
    /// Both.
    And(Box<Predicate>, Box<Predicate>),
    /// One or the other, or both.
    Or(Box<Predicate>, Box<Predicate>),
    /// Not so.
    Not(Box<Predicate>),
    /// A test of a field.
    Test {
        /// The field id.
        field_id: i32,
        /// What it is tested for.
        test: Test,
    },
}

/// A test of a value. A null is what [`IsNull`](Self::IsNull) says and fails every other test; the predicates whose name
/// begins with `not` are their plain negation, so that they hold for it, as in the published expression specification.
/// Floats compare as in IEEE 754: a NaN equals nothing and is neither above nor below anything, and both zeros are one
/// value.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `is-null`
    IsNull,
    /// `is-nan`
    IsNan,
    /// `lt`
    Lt(Literal),
    /// `lt-eq`
    LtEq(Literal),
    /// `gt`
    Gt(Literal),
    /// `gt-eq`
    GtEq(Literal),
    /// `eq`
    Eq(Literal),
    /// `in`
    In(Vec<Literal>),
}

impl Predicate {
    /// Reads the wire form and binds it to the fields of `schema`.
    ///
    /// # Errors
    ///
    /// On everything that is not exactly one of the forms that this reader applies: an unknown predicate or member, a
    /// reference by name (and with it the deprecated `term`), to a nested field or to none, and a literal that does not
    /// fit the field. The deprecated objects for `true` and `false` are refused too: nobody has to send them.
    pub fn parse(value: &Value, schema: &Schema) -> Result<Self, Refusal> {
        if let Value::Bool(constant) = value {
            return Ok(Self::Constant(*constant));
        }
        let name = value.get("type").and_then(Value::as_str);
        let name =
            name.ok_or_else(|| Refusal::new(format!("the filter has what is no predicate: {value}")))?;
        let parse = |members: &Map<String, Value>, operand| {
            Self::parse(member(members, name, operand)?, schema).map(Box::new)
        };
        match name {
            "and" | "or" => {
                let members = object(value, name, &["type", "left", "right"])?;
                let (left, right) = (parse(members, "left")?, parse(members, "right")?);
                Ok(if name == "and" { Self::And(left, right) } else { Self::Or(left, right) })
            }
            "not" => Ok(Self::Not(parse(object(value, name, &["type", "child"])?, "child")?)),
            "is-null" | "not-null" | "is-nan" | "not-nan" => {
                let members = object(value, name, &["type", "child"])?;
                let field = field(member(members, name, "child")?, schema)?;
                unary(name, field)
            }
            "lt" | "lt-eq" | "gt" | "gt-eq" | "eq" | "not-eq" => {
                let members = object(value, name, &["type", "left", "right"])?;
                let field = field(member(members, name, "left")?, schema)?;
                let literal = literal(member(members, name, "right")?, primitive(field)?)?;
                Ok(comparison(name, field.id, literal))
            }
            "in" | "not-in" => {
                let members = object(value, name, &["type", "child", "values"])?;
                let field = field(member(members, name, "child")?, schema)?;
                let literals = literals(member(members, name, "values")?, primitive(field)?)?;
                let within = Self::Test { field_id: field.id, test: Test::In(literals) };
                Ok(if name == "in" { within } else { within.negate() })
            }
            unknown => Err(Refusal::new(format!(
                "the filter has a predicate that this reader does not know: `{unknown}`"
            ))),
        }
    }

    fn negate(self) -> Self {
        Self::Not(Box::new(self))
    }

    /// The ids of the fields that the predicate looks at.
    pub fn field_ids(&self) -> Vec<i32> {
        match self {
            Self::Constant(_) => Vec::new(),
            Self::And(left, right) | Self::Or(left, right) => [left.field_ids(), right.field_ids()].concat(),
            Self::Not(child) => child.field_ids(),
            Self::Test { field_id, .. } => vec![*field_id],
        }
    }

    /// Which rows of a batch the predicate is true for: one Boolean a row, never null.
    ///
    /// # Errors
    ///
    /// When the batch lacks a field, or has it in another type than the literal's.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray, Refusal> {
        match self {
            Self::Constant(value) => Ok(BooleanArray::from(vec![*value; batch.num_rows()])),
            Self::And(left, right) => Ok(zip(&left.evaluate(batch)?, &right.evaluate(batch)?, |l, r| l && r)),
            Self::Or(left, right) => Ok(zip(&left.evaluate(batch)?, &right.evaluate(batch)?, |l, r| l || r)),
            Self::Not(child) => {
                Ok(child.evaluate(batch)?.values().iter().map(|value| !value).collect::<Vec<_>>().into())
            }
            Self::Test { field_id, test } => test.evaluate(column(batch, *field_id)?),
        }
    }
}

fn zip(left: &BooleanArray, right: &BooleanArray, combine: impl Fn(bool, bool) -> bool) -> BooleanArray {
    left.values()
        .iter()
        .zip(right.values())
        .map(|(left, right)| combine(left, right))
        .collect::<Vec<_>>()
        .into()
}

/// The top-level field that a reference means.
fn field<'a>(value: &Value, schema: &'a Schema) -> Result<&'a NestedFieldRef, Refusal> {
    let members = object(value, "a reference", &["type", "id"])?;
    if members.get("type").and_then(Value::as_str) != Some("reference") {
        return Err(Refusal::new(format!("the filter wants a reference by field id here: {value}")));
    }
    let id = member(members, "a reference", "id")?.as_i64().and_then(|id| i32::try_from(id).ok());
    let id = id.ok_or_else(|| Refusal::new(format!("the filter has what is no field id: {value}")))?;
    schema.as_struct().field_by_id(id).ok_or_else(|| {
        Refusal::new(format!("the filter looks at field {id}, which is no top-level field of the table"))
    })
}

fn primitive(field: &NestedFieldRef) -> Result<&PrimitiveType, Refusal> {
    match &*field.field_type {
        Type::Primitive(primitive) => Ok(primitive),
        _ => {
            Err(Refusal::new(format!("the filter compares the field {}, which has fields inside", field.id)))
        }
    }
}

fn unary(name: &str, field: &NestedFieldRef) -> Result<Predicate, Refusal> {
    let of = |test| Predicate::Test { field_id: field.id, test };
    let floating =
        matches!(&*field.field_type, Type::Primitive(PrimitiveType::Float | PrimitiveType::Double));
    match name {
        "is-null" => Ok(of(Test::IsNull)),
        "not-null" => Ok(of(Test::IsNull).negate()),
        "is-nan" if floating => Ok(of(Test::IsNan)),
        "not-nan" if floating => Ok(of(Test::IsNan).negate()),
        _ => Err(Refusal::new(format!(
            "the filter tests the field {} for NaN, which its type lacks",
            field.id
        ))),
    }
}

fn comparison(name: &str, field_id: i32, literal: Literal) -> Predicate {
    let of = |test| Predicate::Test { field_id, test };
    match name {
        "lt" => of(Test::Lt(literal)),
        "lt-eq" => of(Test::LtEq(literal)),
        "gt" => of(Test::Gt(literal)),
        "gt-eq" => of(Test::GtEq(literal)),
        "eq" => of(Test::Eq(literal)),
        _ => of(Test::Eq(literal)).negate(),
    }
}

/// A literal: an object with or without a data type, or the bare value.
fn literal(value: &Value, field_type: &PrimitiveType) -> Result<Literal, Refusal> {
    if !value.is_object() {
        return Literal::parse(value, field_type);
    }
    let members = object(value, "a literal", &["type", "value", "data-type"])?;
    expect_type(members, "literal", field_type)?;
    Literal::parse(member(members, "a literal", "value")?, field_type)
}

/// The literals of a set: an object with a data type, or an array of literals.
fn literals(value: &Value, field_type: &PrimitiveType) -> Result<Vec<Literal>, Refusal> {
    if let Value::Array(values) = value {
        return values.iter().map(|value| literal(value, field_type)).collect();
    }
    let members = object(value, "a set of literals", &["type", "values", "data-type"])?;
    expect_type(members, "literals", field_type)?;
    member(members, "a set of literals", "data-type")?;
    let values = member(members, "a set of literals", "values")?.as_array();
    let values = values.ok_or_else(|| Refusal::new(format!("the values of a set are no array: {value}")))?;
    values.iter().map(|value| Literal::parse(value, field_type)).collect()
}

/// Checks the `type` of a literal and, where there is one, that its `data-type` is the field's.
fn expect_type(members: &Map<String, Value>, kind: &str, field_type: &PrimitiveType) -> Result<(), Refusal> {
    if members.get("type").and_then(Value::as_str) != Some(kind) {
        return Err(Refusal::new(format!(
            "the filter wants `{kind}` as the type here: {}",
            Value::from(members.clone())
        )));
    }
    let Some(data_type) = members.get("data-type") else { return Ok(()) };
    match serde_json::from_value::<PrimitiveType>(data_type.clone()) {
        Ok(data_type) if data_type == *field_type => Ok(()),
        _ => Err(Refusal::new(format!(
            "a literal of the type {data_type} is compared with a field of the type {field_type}"
        ))),
    }
}

impl Test {
    fn evaluate(&self, array: &ArrayRef) -> Result<BooleanArray, Refusal> {
        match self {
            Self::IsNull => Ok((0..array.len()).map(|row| array.is_null(row)).collect::<Vec<_>>().into()),
            Self::IsNan => is_nan(array),
            Self::Lt(literal) => compare(array, literal, |order| order == Less),
            Self::LtEq(literal) => compare(array, literal, |order| order != Greater),
            Self::Gt(literal) => compare(array, literal, |order| order == Greater),
            Self::GtEq(literal) => compare(array, literal, |order| order != Less),
            Self::Eq(literal) => compare(array, literal, |order| order == Equal),
            Self::In(literals) => {
                let none = BooleanArray::from(vec![false; array.len()]);
                literals.iter().try_fold(none, |found, literal| {
                    Ok(zip(&found, &compare(array, literal, |order| order == Equal)?, |before, now| {
                        before || now
                    }))
                })
            }
        }
    }
}

fn is_nan(array: &ArrayRef) -> Result<BooleanArray, Refusal> {
    let nan: Vec<_> = match array.data_type() {
        DataType::Float32 => {
            array.as_primitive::<Float32Type>().iter().map(|v| v.is_some_and(f32::is_nan)).collect()
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().iter().map(|v| v.is_some_and(f64::is_nan)).collect()
        }
        other => return Err(Refusal::new(format!("{other} has no NaN"))),
    };
    Ok(nan.into())
}

/// Where a value and the literal have an order that `holds`. A null and a NaN have none.
fn compare(
    array: &ArrayRef,
    literal: &Literal,
    holds: impl Fn(Ordering) -> bool,
) -> Result<BooleanArray, Refusal> {
    fn primitive<T: ArrowPrimitiveType<Native: PartialOrd>>(
        array: &ArrayRef,
        literal: &T::Native,
        holds: impl Fn(Ordering) -> bool,
    ) -> Vec<bool> {
        let holds = |value: T::Native| value.partial_cmp(literal).is_some_and(&holds);
        array.as_primitive::<T>().iter().map(|value| value.is_some_and(holds)).collect()
    }

    use DataType as D;
    let held = match (literal, array.data_type()) {
        (Literal::Boolean(literal), D::Boolean) => array
            .as_boolean()
            .iter()
            .map(|value| value.is_some_and(|value| holds(value.cmp(literal))))
            .collect(),
        (Literal::Int(literal), D::Int32) => primitive::<Int32Type>(array, literal, holds),
        (Literal::Int(literal), D::Date32) => primitive::<Date32Type>(array, literal, holds),
        (Literal::Long(literal), D::Int64) => primitive::<Int64Type>(array, literal, holds),
        (Literal::Long(literal), D::Time64(TimeUnit::Microsecond)) => {
            primitive::<Time64MicrosecondType>(array, literal, holds)
        }
        (Literal::Long(literal), D::Timestamp(TimeUnit::Microsecond, _)) => {
            primitive::<TimestampMicrosecondType>(array, literal, holds)
        }
        (Literal::Long(literal), D::Timestamp(TimeUnit::Nanosecond, _)) => {
            primitive::<TimestampNanosecondType>(array, literal, holds)
        }
        (Literal::Float(literal), D::Float32) => primitive::<Float32Type>(array, literal, holds),
        (Literal::Double(literal), D::Float64) => primitive::<Float64Type>(array, literal, holds),
        (Literal::Decimal(literal), D::Decimal128(..)) => primitive::<Decimal128Type>(array, literal, holds),
        // UTF-8 bytes sort as code points do.
        (Literal::String(literal), D::Utf8) => array
            .as_string::<i32>()
            .iter()
            .map(|value| value.is_some_and(|value| holds(value.cmp(literal.as_str()))))
            .collect(),
        (literal, other) => {
            return Err(Refusal::new(format!("a column of {other} is compared with {literal:?}")));
        }
    };
    Ok(held.into())
}
