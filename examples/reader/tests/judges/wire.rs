//! Row filters in the wire form.

use serde_json::{Value as Json, json};

pub fn reference(id: i32) -> Json {
    json!({"type": "reference", "id": id})
}

pub fn comparison(operator: &str, id: i32, value: Json, data_type: &str) -> Json {
    let literal = json!({"type": "literal", "value": value, "data-type": data_type});
    json!({"type": operator, "left": reference(id), "right": literal})
}

pub fn set(operator: &str, id: i32, values: Json, data_type: &str) -> Json {
    let literals = json!({"type": "literals", "values": values, "data-type": data_type});
    json!({"type": operator, "child": reference(id), "values": literals})
}

pub fn either(left: Json, right: Json) -> Json {
    json!({"type": "or", "left": left, "right": right})
}

pub fn is_null(id: i32) -> Json {
    json!({"type": "is-null", "child": reference(id)})
}

pub fn not_null(id: i32) -> Json {
    json!({"type": "not-null", "child": reference(id)})
}

/// Whether a predicate holds a set with both zeros under this operator.
pub fn has_both_zeros(wire: &Json, operator: &str) -> bool {
    let here = wire["type"] == operator && wire["values"]["values"].to_string().contains("-0.0,0.0");
    let mut operands = ["left", "right", "child"].iter().filter_map(|name| wire.get(name));
    here || operands.any(|operand| has_both_zeros(operand, operator))
}
