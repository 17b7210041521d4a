//! The table of the demonstration.

use serde_json::{Value, json};

/// The body of the request that creates the namespace `sales`.
pub fn namespace() -> Value {
    json!({"namespace": ["sales"], "properties": {}})
}

/// The body of the request that creates the table `orders` in it.
pub fn table() -> Value {
    json!({
        "name": "orders",
        "schema": {
            "type": "struct",
            "schema-id": 0,
            "fields": [
                {"id": 1, "name": "id", "type": "long", "required": true},
                {"id": 2, "name": "region", "type": "string", "required": false},
                {"id": 3, "name": "owner", "type": "string", "required": false},
                {"id": 4, "name": "phone", "type": "string", "required": false},
                {"id": 5, "name": "card", "type": "string", "required": false}
            ]
        }
    })
}
