//! Promise: what is emitted has the shape of the Iceberg REST schema and nothing beside it, and shows the
//! same rows in every reader, however readers disagree about nulls, NaN and the sign of zero.

mod restriction;

use std::{cmp::Ordering, sync::LazyLock};

use iceberg_read_restrictions::restriction::{
    Action, Predicate, Projection, ReadRestrictions, Reference, UnaryOperator, evaluate,
};
use jsonschema::Validator;
use proptest::prelude::*;
use restriction::{COLUMNS, Cell, Datum, filters, leaves, order, rows, values};
use serde_json::{Value, json};

/// What the REST schema allows.
static REST_SCHEMA: LazyLock<Validator> =
    LazyLock::new(|| validator(include_str!("fixtures/openapi/read-restrictions.json")));

/// What of it this crate emits.
static EMITTED: LazyLock<Validator> =
    LazyLock::new(|| validator(include_str!("fixtures/openapi/emitted.json")));

fn validator(schema: &str) -> Validator {
    jsonschema::validator_for(&serde_json::from_str(schema).expect("JSON")).expect("a JSON Schema")
}

fn restrictions(filter: Predicate) -> ReadRestrictions {
    ReadRestrictions::new(Some(filter), []).expect("no projections")
}

fn emitted(restrictions: &ReadRestrictions) -> Value {
    serde_json::from_str(&restrictions.to_json()).expect("JSON")
}

#[track_caller]
fn assert_shape(restrictions: &ReadRestrictions) {
    let emitted = emitted(restrictions);
    if let Some(error) = REST_SCHEMA.iter_errors(&emitted).chain(EMITTED.iter_errors(&emitted)).next() {
        panic!("{error} at {}: {emitted:#}", error.instance_path());
    }
}

#[test]
fn every_leaf_on_every_type_has_the_shape() {
    for leaf in leaves() {
        assert_shape(&restrictions(leaf.lowered()));
        assert_shape(&restrictions(leaf.lowered().negate()));
    }
    for operator in
        [UnaryOperator::IsNull, UnaryOperator::NotNull, UnaryOperator::IsNan, UnaryOperator::NotNan]
    {
        let reference = Reference { id: i32::MAX, required: false };
        assert_shape(&restrictions(Predicate::Unary { operator, reference }));
    }
}

#[test]
fn every_action_has_the_shape() {
    let projections =
        Action::ALL.into_iter().zip(0..).map(|(action, field_id)| Projection { field_id, action });
    let filter = leaves().swap_remove(0).lowered();
    assert_shape(&ReadRestrictions::new(Some(filter), projections.clone()).unwrap());
    assert_shape(&ReadRestrictions::new(Some(Predicate::Constant(false)), projections.clone()).unwrap());
    assert_shape(&ReadRestrictions::new(None, projections).unwrap());
    assert_shape(&restrictions(Predicate::Constant(false)));
}

#[test]
fn chains_of_any_length_are_binary() {
    for length in 2..40 {
        let children = leaves().into_iter().take(length).map(|leaf| leaf.lowered()).collect();
        assert_shape(&restrictions(Predicate::And(children)));
    }
}

/// Guards the other tests: a schema that takes everything would make them promise nothing.
#[test]
fn what_is_not_to_be_emitted_does_not_have_the_shape() {
    let reference = json!({"type": "reference", "id": 1});
    let literal = json!({"type": "literal", "value": 1, "data-type": "int"});
    let eq = json!({"type": "eq", "left": reference, "right": literal});
    let filters = [
        json!(true),
        json!(null),
        json!({"type": "true"}),
        json!({"type": "false"}),
        json!({"type": "not", "child": eq}),
        json!({"type": "and", "left": eq, "right": false}),
        json!({"type": "and", "left": eq}),
        json!({"type": "and", "left": eq, "right": eq, "third": eq}),
        json!({"type": "eq", "term": "region", "value": 1}),
        json!({"type": "eq", "left": {"type": "reference", "name": "region"}, "right": literal}),
        json!({"type": "eq", "left": reference, "right": 1}),
        json!({"type": "eq", "left": reference, "right": {"type": "literal", "value": 1}}),
        json!({"type": "eq", "left": reference, "right": {"type": "literal", "value": null, "data-type": "int"}}),
        json!({"type": "eq", "left": reference, "right": {"type": "literal", "value": "1", "data-type": "int"}}),
        json!({"type": "eq", "left": reference, "right": {"type": "literal", "value": 1.5, "data-type": "int"}}),
        json!({"type": "eq", "left": reference, "right": {"type": "literal", "value": 1.5, "data-type": "decimal(9, 2)"}}),
        json!({"type": "eq", "left": reference, "right": {"type": "literal", "value": "1.50", "data-type": "decimal(9,2)"}}),
        json!({"type": "eq", "left": reference, "right": {"type": "literal", "value": "12:00:00", "data-type": "time"}}),
        json!({"type": "in", "child": reference, "values": [1, 2]}),
        json!({"type": "in", "child": reference, "values": {"type": "literals", "values": [1, "2"], "data-type": "int"}}),
        json!({"type": "is-null", "child": reference, "term": "region"}),
    ];
    for filter in filters {
        let restrictions = json!({"required-row-filter": filter});
        assert!(!EMITTED.is_valid(&restrictions), "{restrictions:#}");
    }
    for restrictions in [
        json!({}),
        json!({"required-column-projections": []}),
        json!({"required-column-projections": [{"action": "mask-alphanum"}]}),
        json!({"required-column-projections": [{"action": "apply-expression", "field-id": 1}]}),
        json!({"required-column-projections": [{"action": "mask-alphanum", "field-id": 1, "salt": 1}]}),
        json!({"required-row-filter": false, "more": 1}),
    ] {
        assert!(!EMITTED.is_valid(&restrictions), "{restrictions:#}");
    }
    for filter in [
        json!({"type": "eq", "left": reference, "right": {"type": "literal", "value": null}}),
        json!({"type": "eq", "left": reference, "right": literal, "third": 1}),
        json!({"type": "is-null", "child": {"type": "reference"}}),
        json!({"type": "and", "left": eq}),
    ] {
        assert!(!REST_SCHEMA.is_valid(&json!({"required-row-filter": filter})), "{filter:#}");
    }
}

/// How one reader answers where readers disagree.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// Null is below every value, so that `lt` and `lt-eq` are true for it; otherwise every ordering is false.
    null_is_lowest: bool,
    /// NaN is above every number; otherwise every ordering with it is false.
    nan_is_highest: bool,
    /// `-0.0` is below `0.0`; otherwise they are equal.
    zeros_differ: bool,
    /// `not-in` is true for null.
    null_is_not_in: bool,
    /// `not-nan` is true for null.
    null_is_not_nan: bool,
}

/// The classic Java evaluator.
const NULLS_FIRST_NAN_LAST: Reader = Reader {
    null_is_lowest: true,
    nan_is_highest: true,
    zeros_differ: true,
    null_is_not_in: true,
    null_is_not_nan: true,
};

/// The published expression specification.
const SPECIFICATION: Reader = Reader {
    null_is_lowest: false,
    nan_is_highest: false,
    zeros_differ: false,
    null_is_not_in: true,
    null_is_not_nan: true,
};

impl Reader {
    /// All ways to disagree, the two above among them.
    fn all() -> impl Iterator<Item = Self> {
        let others = (0..32).map(|bits| Self {
            null_is_lowest: bits & 1 != 0,
            nan_is_highest: bits & 2 != 0,
            zeros_differ: bits & 4 != 0,
            null_is_not_in: bits & 8 != 0,
            null_is_not_nan: bits & 16 != 0,
        });
        [NULLS_FIRST_NAN_LAST, SPECIFICATION].into_iter().chain(others)
    }

    /// Evaluates the wire form of a row filter.
    fn keeps(self, filter: &Value, row: &[Cell]) -> bool {
        if let Value::Bool(value) = filter {
            return *value;
        }
        match filter["type"].as_str().expect("a type") {
            "and" => self.keeps(&filter["left"], row) && self.keeps(&filter["right"], row),
            "or" => self.keeps(&filter["left"], row) || self.keeps(&filter["right"], row),
            "is-null" => field(&filter["child"], row).is_none(),
            "not-null" => field(&filter["child"], row).is_some(),
            "is-nan" => field(&filter["child"], row).as_ref().is_some_and(is_nan),
            "not-nan" => {
                field(&filter["child"], row).as_ref().map_or(self.null_is_not_nan, |datum| !is_nan(datum))
            }
            "in" => self.is_among(filter, row),
            "not-in" if field(&filter["child"], row).is_none() => self.null_is_not_in,
            "not-in" => !self.is_among(filter, row),
            comparison => {
                let literal = datum(&filter["right"]["value"], &filter["right"]["data-type"]);
                let order = self.order(field(&filter["left"], row), &literal);
                match comparison {
                    "lt" => order == Some(Ordering::Less),
                    "lt-eq" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    "gt" => order == Some(Ordering::Greater),
                    "gt-eq" => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                    "eq" => order == Some(Ordering::Equal),
                    "not-eq" => order != Some(Ordering::Equal),
                    other => panic!("there is no predicate of type {other:?}"),
                }
            }
        }
    }

    fn is_among(self, filter: &Value, row: &[Cell]) -> bool {
        let values = filter["values"]["values"].as_array().expect("values");
        let equals = |value| {
            let literal = datum(value, &filter["values"]["data-type"]);
            self.order(field(&filter["child"], row), &literal) == Some(Ordering::Equal)
        };
        values.iter().any(equals)
    }

    fn order(self, value: &Option<Datum>, literal: &Datum) -> Option<Ordering> {
        match (value, literal) {
            (None, _) => self.null_is_lowest.then_some(Ordering::Less),
            (Some(value), _) if is_nan(value) => self.nan_is_highest.then_some(Ordering::Greater),
            (Some(Datum::Float(value)), Datum::Float(literal)) if self.zeros_differ => {
                Some(value.total_cmp(literal))
            }
            (Some(value), literal) => order(value, literal),
        }
    }
}

fn is_nan(datum: &Datum) -> bool {
    matches!(datum, Datum::Float(value) if value.is_nan())
}

fn field<'a>(reference: &Value, row: &'a [Cell]) -> &'a Option<Datum> {
    let id = reference["id"].as_i64().expect("a field id");
    let column = COLUMNS.iter().position(|column| i64::from(column.reference.id) == id);
    &row[column.expect("a column")].datum
}

/// Reads a single value of the wire.
fn datum(value: &Value, data_type: &Value) -> Datum {
    match data_type.as_str().expect("a type") {
        "boolean" => Datum::Boolean(value.as_bool().expect("a Boolean")),
        "int" | "long" => Datum::Integer(value.as_i64().expect("an integer").into()),
        "float" => Datum::Float((value.as_f64().expect("a number") as f32).into()),
        "double" => Datum::Float(value.as_f64().expect("a number")),
        "decimal(9, 2)" => {
            let digits = value.as_str().expect("a string").replace('.', "");
            Datum::Integer(digits.parse().expect("digits"))
        }
        "date" | "time" | "timestamp" | "string" => Datum::Text(value.as_str().expect("a string").into()),
        other => panic!("there are no literals of type {other}"),
    }
}

fn assert_same_rows(filter: &restriction::Filter, row: &[Cell]) {
    let expected = filter.keeps(row);
    let lowered = filter.lowered();
    assert_eq!(evaluate(&lowered, &values(row)), Ok(expected), "{lowered:?}");
    let restrictions = restrictions(lowered);
    let Some(canonical) = restrictions.row_filter() else {
        assert!(expected, "no filter at all shows every row");
        return;
    };
    assert_eq!(evaluate(canonical, &values(row)), Ok(expected), "{canonical:?}");
    let wire = &emitted(&restrictions)["required-row-filter"];
    for reader in Reader::all() {
        assert_eq!(reader.keeps(wire, row), expected, "{reader:?} {wire}");
    }
}

#[test]
fn every_leaf_on_every_value_shows_the_same_rows_in_every_reader() {
    let most = COLUMNS.iter().map(|column| column.cells.len()).max().expect("columns");
    for index in 0..most {
        let row: Vec<Cell> =
            COLUMNS.iter().map(|column| column.cells[index % column.cells.len()].clone()).collect();
        for leaf in leaves() {
            for filter in [leaf.clone(), leaf.clone().not(), leaf.not().not()] {
                assert_same_rows(&filter, &row);
            }
        }
    }
}

proptest! {
    #[test]
    fn every_filter_has_the_shape(filter in filters()) {
        let restrictions = restrictions(filter.lowered());
        if restrictions.is_empty() {
            prop_assert_eq!(restrictions.to_json(), "{}");
        } else {
            assert_shape(&restrictions);
        }
    }

    #[test]
    fn every_filter_shows_the_same_rows_in_every_reader(
        filter in filters(),
        rows in prop::collection::vec(rows(), 8),
    ) {
        for row in &rows {
            assert_same_rows(&filter, row);
        }
    }
}
