//! Promise: the reference masks give the published vectors. The vectors are data under
//! `fixtures/restriction`, so that readers can be held to them too.

use iceberg_read_restrictions::{
    restriction::{Action, Value, mask},
    table::{PrimitiveType, Type},
};
use jiff::civil::{Date, date};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    action: String,
    r#type: String,
    input: serde_json::Value,
    output: serde_json::Value,
}

fn value(json: &serde_json::Value, data_type: &PrimitiveType) -> Value {
    let text = || json.as_str().expect("a string");
    let integer = || json.as_i64().expect("an integer");
    match data_type {
        _ if json.is_null() => Value::Null,
        PrimitiveType::String => Value::String(text().into()),
        PrimitiveType::Int => Value::Int(integer().try_into().expect("an int")),
        PrimitiveType::Long => Value::Long(integer()),
        PrimitiveType::Date => {
            let day: Date = text().parse().expect("a date");
            let hours = day.duration_since(date(1970, 1, 1)).as_hours();
            Value::Date((hours / 24).try_into().expect("days"))
        }
        other => panic!("no vector is of type {other}"),
    }
}

#[test]
fn every_vector_comes_out() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("fixtures/restriction/masks.json")).expect("vectors");
    assert!(!vectors.is_empty());
    for vector in &vectors {
        let action: Action = vector.action.parse().expect("an action");
        let data_type = PrimitiveType::parse(&vector.r#type);
        let (input, output) = (value(&vector.input, &data_type), value(&vector.output, &data_type));
        assert_eq!(mask(action, &input, &Type::Primitive(data_type), &[]), Ok(output), "{vector:?}");
    }
}
