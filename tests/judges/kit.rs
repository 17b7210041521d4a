//! The reference evaluator and the reference masks on the conformance kit, `fixtures/reader`.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use iceberg_read_restrictions::{
    restriction::{
        Action, ComparisonOperator, Literal, Predicate, Reference, SetOperator, UnaryOperator, Value,
        evaluate, mask,
    },
    table::{Field, PrimitiveType, Schema, Type},
};
use serde::Deserialize;
use serde_json::Value as Json;

use super::{policy::load_result, values::value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suite {
    suite: String,
    schema: Json,
    rows: Vec<Vec<Json>>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Case {
    name: String,
    read_restrictions: Option<Json>,
    read_restrictions_text: Option<String>,
    salt: Option<String>,
    result: Option<Vec<Vec<Json>>>,
    refused: Option<String>,
    or_refused: Option<String>,
}

fn suites(file: &str) -> Vec<Suite> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reader").join(file);
    serde_json::from_slice(&fs::read(path).expect("the kit"))
        .expect("the form that the kit's README describes")
}

/// Runs every case of a file and gives the number of cases that were answered.
fn run(file: &str) -> usize {
    let mut answered = 0;
    for suite in suites(file) {
        let table = load_result(&suite.schema["fields"]);
        let rows: Vec<_> = suite.rows.iter().map(|row| typed(row, table.schema())).collect();
        for case in &suite.cases {
            let name = format!("{}: {}", suite.suite, case.name);
            let answer = reference(case, table.schema(), &rows);
            match (answer, &case.result, &case.refused) {
                (Ok(rows), Some(expected), None) => {
                    let expected: Vec<_> = expected.iter().map(|row| typed(row, table.schema())).collect();
                    // NaN is not equal to itself; its text is.
                    assert_eq!(format!("{rows:?}"), format!("{expected:?}"), "{name}");
                    answered += 1;
                }
                (Err(why), Some(_), None) => assert!(case.or_refused.is_some(), "{name}: refused: {why}"),
                (Err(_), None, Some(_)) => answered += 1,
                (Ok(rows), None, Some(why)) => panic!("{name}: to be refused, {why}, but gave {rows:?}"),
                _ => panic!("{name}: either `result` or `refused`"),
            }
        }
    }
    answered
}

fn typed(row: &[Json], schema: &Schema) -> Vec<Value> {
    assert_eq!(row.len(), schema.fields().len());
    row.iter().zip(schema.fields()).map(|(json, field)| value(json, field.r#type)).collect()
}

/// What the reference makes of a case. It reads no wire form, so what stands for the form here is only as strict
/// as it has to be for forms that are right.
fn reference(case: &Case, schema: &Schema, rows: &[Vec<Value>]) -> Result<Vec<Vec<Value>>, String> {
    let restrictions = case.read_restrictions.as_ref().ok_or("the reference reads no text")?;
    let salt = case.salt.as_deref().map(hex).unwrap_or_default();
    let mut actions = BTreeMap::new();
    for projection in restrictions["required-column-projections"].as_array().into_iter().flatten() {
        let id =
            projection["field-id"].as_i64().and_then(|id| i32::try_from(id).ok()).ok_or("no field id")?;
        let action = projection["action"].as_str().ok_or("no action")?;
        let action: Action = action.parse().map_err(|error| format!("{error}"))?;
        if actions.insert(id, action).is_some() {
            return Err("two actions on one field".into());
        }
    }
    for field in schema.fields() {
        if let Some(action) = actions.get(&field.id) {
            action.check(field).map_err(|error| error.to_string())?;
        }
    }
    let filter = restrictions
        .get("required-row-filter")
        .filter(|filter| !filter.is_null())
        .unwrap_or(&Json::Bool(true));
    let mut result = Vec::new();
    for row in rows {
        let by_id = schema.fields().map(|field| field.id).zip(row.iter().cloned()).collect();
        if keeps(filter, schema, &by_id)? {
            let masked = schema.fields().zip(row).map(|(field, value)| masked(field, value, &actions, &salt));
            result.push(masked.collect::<Result<_, _>>()?);
        }
    }
    Ok(result)
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

/// Connectives are plain logic; the leaves are the reference's to judge.
fn keeps(filter: &Json, schema: &Schema, row: &BTreeMap<i32, Value>) -> Result<bool, String> {
    if let Json::Bool(constant) = filter {
        return Ok(*constant);
    }
    let operand = |name: &str| keeps(&filter[name], schema, row);
    match filter["type"].as_str().unwrap_or_default() {
        "and" => Ok(operand("left")? & operand("right")?),
        "or" => Ok(operand("left")? | operand("right")?),
        "not" => Ok(!operand("child")?),
        name => evaluate(&leaf(name, filter, schema)?, row).map_err(|error| error.to_string()),
    }
}

fn leaf(name: &str, wire: &Json, schema: &Schema) -> Result<Predicate, String> {
    let comparison = |operator| {
        let (reference, field_type) = reference_to(&wire["left"], schema)?;
        Ok(Predicate::Comparison {
            operator,
            reference,
            literal: literal(&wire["right"], primitive(field_type)?)?,
        })
    };
    let unary = |operator| {
        let (reference, _) = reference_to(&wire["child"], schema)?;
        Ok(Predicate::Unary { operator, reference })
    };
    let set = |operator| {
        let (reference, field_type) = reference_to(&wire["child"], schema)?;
        let data_type = primitive(field_type)?;
        let values = wire["values"].get("values").unwrap_or(&wire["values"]).as_array().ok_or("no values")?;
        let literals = values.iter().map(|value| literal(value, data_type)).collect::<Result<_, _>>()?;
        Ok(Predicate::Set { operator, reference, literals })
    };
    match name {
        "is-null" => unary(UnaryOperator::IsNull),
        "not-null" => unary(UnaryOperator::NotNull),
        "is-nan" => unary(UnaryOperator::IsNan),
        "not-nan" => unary(UnaryOperator::NotNan),
        "lt" => comparison(ComparisonOperator::Lt),
        "lt-eq" => comparison(ComparisonOperator::LtEq),
        "gt" => comparison(ComparisonOperator::Gt),
        "gt-eq" => comparison(ComparisonOperator::GtEq),
        "eq" => comparison(ComparisonOperator::Eq),
        "not-eq" => comparison(ComparisonOperator::NotEq),
        "in" => set(SetOperator::In),
        "not-in" => set(SetOperator::NotIn),
        other => Err(format!("no predicate of the reference: {other:?}")),
    }
}

fn reference_to<'a>(reference: &Json, schema: &'a Schema) -> Result<(Reference, &'a Type), String> {
    let id = reference["id"].as_i64().and_then(|id| i32::try_from(id).ok()).ok_or("no field id")?;
    let field = schema.field_by_id(id).ok_or("no such top-level field")?;
    Ok((Reference { id, required: field.required }, field.r#type))
}

fn primitive(field_type: &Type) -> Result<&PrimitiveType, String> {
    match field_type {
        Type::Primitive(data_type) => Ok(data_type),
        nested => Err(format!("a literal for a field of the type {nested}")),
    }
}

fn literal(json: &Json, data_type: &PrimitiveType) -> Result<Literal, String> {
    let literal = match json.get("value").unwrap_or(json) {
        Json::Bool(value) => Literal::from_boolean(*value, data_type),
        Json::String(text) if matches!(data_type, PrimitiveType::Decimal { .. }) => {
            Literal::from_number(text, data_type)
        }
        Json::String(text) => Literal::from_string(text, data_type),
        // Plain digits, which is what literals of the language have: `1e-45` is none.
        Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(double) => Literal::from_number(&format!("{double}"), data_type),
            None => Literal::from_number(&number.to_string(), data_type),
        },
        other => return Err(format!("no literal: {other}")),
    };
    literal.map_err(|error| error.to_string())
}

/// A value after the action on its field, or those on fields inside it.
fn masked(
    field: Field<'_>,
    value: &Value,
    actions: &BTreeMap<i32, Action>,
    salt: &[u8],
) -> Result<Value, String> {
    masked_field(field.id, field.r#type, value, actions, salt)
}

fn masked_field(
    id: i32,
    r#type: &Type,
    value: &Value,
    actions: &BTreeMap<i32, Action>,
    salt: &[u8],
) -> Result<Value, String> {
    if let Some(action) = actions.get(&id) {
        return mask(*action, value, r#type, salt).map_err(|error| error.to_string());
    }
    match (r#type, value) {
        (Type::Struct(fields), Value::Struct(values)) => {
            let values = fields.iter().zip(values);
            let values =
                values.map(|(field, value)| masked_field(field.id, &field.r#type, value, actions, salt));
            values.collect::<Result<_, _>>().map(Value::Struct)
        }
        (Type::List(element), Value::List(values)) => {
            let values =
                values.iter().map(|value| masked_field(element.id, &element.r#type, value, actions, salt));
            values.collect::<Result<_, _>>().map(Value::List)
        }
        _ => Ok(value.clone()),
    }
}

/// The cases are derived by a program of their own, from the tables and texts of the specification.
#[test]
fn the_kit_is_what_its_program_writes() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reader/make.py");
    let python = std::env::var_os("READERS_PYTHON").unwrap_or_else(|| "python3".into());
    match Command::new(&python).arg(program).arg("--check").output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) if std::env::var_os("READERS_REQUIRED").is_none() => {
            eprintln!("SKIPPED: {} does not run: {error}", python.display());
        }
        Err(error) => panic!("{} does not run: {error}", python.display()),
    }
}

#[test]
fn the_reference_filters_as_the_kit_says() {
    assert!(run("filters.json") > 500);
}

#[test]
fn the_reference_masks_as_the_kit_says() {
    assert!(run("actions.json") > 400);
}

#[test]
fn the_reference_filters_first_and_then_masks() {
    assert!(run("together.json") > 30);
}

/// Of what readers must refuse, the reference has a form for wrong actions only; wrong wire forms are its readers' to
/// refuse. A new reason has to be put into one of the two lists.
#[test]
fn the_reference_refuses_what_it_can_be_told() {
    let judged = ["unknown action", "duplicate field id", "the action does not fit the type"];
    let of_the_wire = [
        "map key",
        "parent and child",
        "replace-with-null on a required field",
        "not the shape of the object",
        "unknown member",
        "a member twice",
        "reference by name",
        "a field that the table does not have",
        "not a predicate",
        "the literal does not fit the column",
        "NaN test of a type without NaN",
    ];
    let mut seen = 0;
    for suite in suites("refused.json") {
        let table = load_result(&suite.schema["fields"]);
        let rows: Vec<_> = suite.rows.iter().map(|row| typed(row, table.schema())).collect();
        for case in &suite.cases {
            let why = case.refused.as_deref().expect("every case is to be refused");
            if judged.contains(&why) {
                let answer = reference(case, table.schema(), &rows);
                assert!(answer.is_err(), "{}: {answer:?}", case.name);
                seen += 1;
            } else {
                assert!(of_the_wire.contains(&why), "{}: {why}", case.name);
                assert!(
                    case.read_restrictions.is_some() || case.read_restrictions_text.is_some(),
                    "{}",
                    case.name
                );
            }
        }
    }
    assert!(seen > 10, "{seen}");
}
