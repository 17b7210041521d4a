//! What the tests of restrictions share: a column of every type with some values, and filters as an author
//! thinks of them, with the meaning that the language gives them.

use std::{cmp::Ordering, collections::BTreeMap, sync::LazyLock};

use iceberg_read_restrictions::{
    restriction::{ComparisonOperator, Literal, Predicate, Reference, SetOperator, UnaryOperator, Value},
    table::PrimitiveType,
};
use proptest::{prelude::*, sample};

/// A value that is not null as a reader holds it, in the order of its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    Boolean(bool),
    /// An int, a long, or the unscaled value of a decimal.
    Integer(i128),
    /// A float or a double.
    Float(f64),
    /// A string; or a date, time or timestamp, which in the form of the wire have the order of their text.
    Text(String),
}

/// A value in the two forms that the tests compare.
#[derive(Clone, Debug)]
pub struct Cell {
    pub value: Value,
    /// `None` for null.
    pub datum: Option<Datum>,
}

pub struct Column {
    pub reference: Reference,
    pub data_type: PrimitiveType,
    pub literals: Vec<Literal>,
    pub cells: Vec<Cell>,
}

impl Column {
    /// Whether the language lets `<` and its like stand here.
    pub fn is_ordered(&self) -> bool {
        self.data_type != PrimitiveType::Boolean
    }
}

/// An optional and a required column of every type that literals fit, with ids from 1.
pub static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let mut columns = Vec::new();
    for (data_type, literals, cells) in domains() {
        for required in [false, true] {
            let null = (!required).then_some(Cell { value: Value::Null, datum: None });
            columns.push(Column {
                reference: Reference { id: columns.len() as i32 + 1, required },
                data_type: data_type.clone(),
                literals: literals.clone(),
                cells: cells.iter().cloned().chain(null).collect(),
            });
        }
    }
    columns
});

fn domains() -> Vec<(PrimitiveType, Vec<Literal>, Vec<Cell>)> {
    fn of(data_type: &str, texts: &[&str]) -> (PrimitiveType, Vec<Literal>) {
        let data_type = PrimitiveType::parse(data_type);
        let literal = |text: &&str| match data_type {
            PrimitiveType::Boolean => Literal::from_boolean(*text == "true", &data_type),
            PrimitiveType::String | PrimitiveType::Date | PrimitiveType::Time | PrimitiveType::Timestamp => {
                Literal::from_string(text, &data_type)
            }
            _ => Literal::from_number(text, &data_type),
        };
        let literals = texts.iter().map(|text| literal(text).expect("fits")).collect();
        (data_type, literals)
    }
    fn cells<T: Copy>(values: &[T], cell: impl Fn(T) -> (Value, Datum)) -> Vec<Cell> {
        values
            .iter()
            .map(|&value| cell(value))
            .map(|(value, datum)| Cell { value, datum: Some(datum) })
            .collect()
    }
    fn text(text: &str) -> Datum {
        Datum::Text(text.into())
    }

    let decimal = |unscaled| (Value::Decimal { unscaled, precision: 9, scale: 2 }, Datum::Integer(unscaled));
    let floats = [f32::NEG_INFINITY, -1.5, -0.0, 0.0, 0.1, 2.0, f32::INFINITY, f32::NAN, -f32::NAN];
    let doubles = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 0.1, 2.0, f64::INFINITY, f64::NAN, -f64::NAN];
    let dates = [(-719_162, "0001-01-01"), (-1, "1969-12-31"), (0, "1970-01-01"), (19_782, "2024-02-29")];
    let times = [(0, "00:00:00.000000"), (1, "00:00:00.000001"), (86_399_999_999, "23:59:59.999999")];
    let timestamps = [
        (-1, "1969-12-31T23:59:59.999999"),
        (0, "1970-01-01T00:00:00.000000"),
        (1_721_046_896_500_000, "2024-07-15T12:34:56.500000"),
    ];
    let strings = ["", "US", "us", "O'Neill \"\\\n", "\u{ffff}", "\u{10000}"];
    [
        (
            of("boolean", &["false", "true"]),
            cells(&[false, true], |value| (Value::Boolean(value), Datum::Boolean(value))),
        ),
        (
            of("int", &["-1", "0", "9", "10", "2147483647"]),
            cells(&[-1, 0, 9, 10, i32::MAX], |value| (Value::Int(value), Datum::Integer(value.into()))),
        ),
        (
            of("long", &["-9223372036854775808", "0", "9007199254740993", "9007199254740992"]),
            cells(&[i64::MIN, 0, 9_007_199_254_740_993, 9_007_199_254_740_992], |value| {
                (Value::Long(value), Datum::Integer(value.into()))
            }),
        ),
        (
            of("float", &["-1.5", "0", "-0.0", "0.1", "2"]),
            cells(&floats, |value| (Value::Float(value), Datum::Float(value.into()))),
        ),
        (
            of("double", &["-1.5", "0", "-0.0", "0.1", "2"]),
            cells(&doubles, |value| (Value::Double(value), Datum::Float(value))),
        ),
        (of("decimal(9, 2)", &["-0.05", "0", "1.5", "10"]), cells(&[-5, 0, 150, 1000], decimal)),
        (
            of("date", &dates.map(|(_, text)| text)),
            cells(&dates, |(days, date)| (Value::Date(days), text(date))),
        ),
        (
            of("time", &times.map(|(_, text)| text)),
            cells(&times, |(micros, time)| (Value::Time(micros), text(time))),
        ),
        (
            of("timestamp", &timestamps.map(|(_, text)| text)),
            cells(&timestamps, |(micros, timestamp)| (Value::Timestamp(micros), text(timestamp))),
        ),
        (of("string", &strings), cells(&strings, |value| (Value::String(value.into()), text(value)))),
    ]
    .into_iter()
    .map(|((data_type, literals), cells)| (data_type, literals, cells))
    .collect()
}

/// A row filter as an author writes it, over [`COLUMNS`].
#[derive(Clone, Debug)]
pub enum Filter {
    Constant(bool),
    IsNull { column: usize, negated: bool },
    Compare { column: usize, operator: ComparisonOperator, literal: usize },
    In { column: usize, literals: Vec<usize> },
    Not(Box<Filter>),
    And(Vec<Filter>),
    Or(Vec<Filter>),
}

impl Filter {
    pub fn not(self) -> Self {
        Self::Not(Box::new(self))
    }

    /// The resolved predicate, as the resolver lowers it.
    pub fn lowered(&self) -> Predicate {
        let reference = |column: usize| COLUMNS[column].reference;
        let literal = |column: usize, index: usize| COLUMNS[column].literals[index].clone();
        match self {
            Self::Constant(value) => Predicate::Constant(*value),
            &Self::IsNull { column, negated } => {
                let operator = if negated { UnaryOperator::NotNull } else { UnaryOperator::IsNull };
                Predicate::Unary { operator, reference: reference(column) }
            }
            &Self::Compare { column, operator, literal: index } => Predicate::Comparison {
                operator,
                reference: reference(column),
                literal: literal(column, index),
            },
            Self::In { column, literals } => Predicate::Set {
                operator: SetOperator::In,
                reference: reference(*column),
                literals: literals.iter().map(|index| literal(*column, *index)).collect(),
            },
            Self::Not(child) => child.lowered().negate(),
            Self::And(children) => Predicate::And(children.iter().map(Self::lowered).collect()),
            Self::Or(children) => Predicate::Or(children.iter().map(Self::lowered).collect()),
        }
    }

    /// What the language says: plain two-valued logic over the tables of its section 7.
    pub fn keeps(&self, row: &[Cell]) -> bool {
        match self {
            Self::Constant(value) => *value,
            Self::IsNull { column, negated } => row[*column].datum.is_none() != *negated,
            Self::Compare { column, operator, literal } => {
                use ComparisonOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
                let Some(datum) = &row[*column].datum else { return matches!(operator, NotEq | Lt | LtEq) };
                let order = order(datum, &literal_datum(*column, *literal));
                match operator {
                    Lt => order == Some(Ordering::Less),
                    LtEq => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    Gt => order == Some(Ordering::Greater),
                    GtEq => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                    Eq => order == Some(Ordering::Equal),
                    NotEq => order != Some(Ordering::Equal),
                }
            }
            Self::In { column, literals } => row[*column].datum.as_ref().is_some_and(|datum| {
                let equals = |index: &usize| {
                    order(datum, &literal_datum(*column, *index)).is_some_and(Ordering::is_eq)
                };
                literals.iter().any(equals)
            }),
            Self::Not(child) => !child.keeps(row),
            Self::And(children) => children.iter().all(|child| child.keeps(row)),
            Self::Or(children) => children.iter().any(|child| child.keeps(row)),
        }
    }
}

/// IEEE order for floats, so none with NaN and both zeros equal.
pub fn order(a: &Datum, b: &Datum) -> Option<Ordering> {
    match (a, b) {
        (Datum::Boolean(a), Datum::Boolean(b)) => Some(a.cmp(b)),
        (Datum::Integer(a), Datum::Integer(b)) => Some(a.cmp(b)),
        (Datum::Float(a), Datum::Float(b)) => a.partial_cmp(b),
        (Datum::Text(a), Datum::Text(b)) => Some(a.cmp(b)),
        _ => panic!("{a:?} and {b:?} are of different types"),
    }
}

fn literal_datum(column: usize, literal: usize) -> Datum {
    match &COLUMNS[column].literals[literal] {
        Literal::Boolean { 0: value, .. } => Datum::Boolean(*value),
        Literal::Int { 0: value, .. } => Datum::Integer((*value).into()),
        Literal::Long { 0: value, .. } => Datum::Integer((*value).into()),
        Literal::Float { 0: value, .. } => Datum::Float((*value).into()),
        Literal::Double { 0: value, .. } => Datum::Float(*value),
        Literal::Decimal { unscaled, .. } => Datum::Integer(*unscaled),
        Literal::String { 0: value, .. } => Datum::Text(value.to_string()),
        temporal => Datum::Text(temporal.to_string().trim_matches('\'').to_owned()),
    }
}

pub const COMPARISONS: [ComparisonOperator; 6] = [
    ComparisonOperator::Lt,
    ComparisonOperator::LtEq,
    ComparisonOperator::Gt,
    ComparisonOperator::GtEq,
    ComparisonOperator::Eq,
    ComparisonOperator::NotEq,
];

/// Every null test, every comparison and some sets, of every column.
pub fn leaves() -> Vec<Filter> {
    let mut leaves = Vec::new();
    for (index, column) in COLUMNS.iter().enumerate() {
        if !column.reference.required {
            leaves.extend([false, true].map(|negated| Filter::IsNull { column: index, negated }));
        }
        for literal in 0..column.literals.len() {
            let operators =
                COMPARISONS.into_iter().filter(|operator| column.is_ordered() || !operator.is_ordering());
            leaves.extend(operators.map(|operator| Filter::Compare { column: index, operator, literal }));
        }
        let set = Filter::In { column: index, literals: (0..column.literals.len()).rev().collect() };
        leaves.extend([set.clone(), set.not()]);
    }
    leaves
}

pub fn filters() -> impl Strategy<Value = Filter> {
    let leaves = leaves();
    let sets = (0..COLUMNS.len()).prop_flat_map(|column| {
        let literals = prop::collection::vec(0..COLUMNS[column].literals.len(), 1..5);
        literals.prop_map(move |literals| Filter::In { column, literals })
    });
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Filter::Constant),
        16 => sample::select(leaves),
        4 => sets,
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let children = prop::collection::vec(inner.clone(), 2..5);
        prop_oneof![
            inner.prop_map(Filter::not),
            children.clone().prop_map(Filter::And),
            children.prop_map(Filter::Or),
        ]
    })
}

/// A row with a value for every column, in their order.
pub fn rows() -> impl Strategy<Value = Vec<Cell>> {
    prop::collection::vec(any::<sample::Index>(), COLUMNS.len()).prop_map(|choices| {
        let choose = |(column, choice): (&Column, &sample::Index)| choice.get(&column.cells).clone();
        COLUMNS.iter().zip(&choices).map(choose).collect()
    })
}

/// The row by field id.
pub fn values(row: &[Cell]) -> BTreeMap<i32, Value> {
    COLUMNS.iter().zip(row).map(|(column, cell)| (column.reference.id, cell.value.clone())).collect()
}
