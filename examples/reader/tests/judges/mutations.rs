//! Every valid object of the conformance kit, changed in one place, is one that this reader refuses.

use std::{fs, path::Path};

use iceberg::spec::Schema;
use reader::Restrictions;
use serde_json::{Map, Value as Json, json};

/// The objects inside a value and the value itself, as JSON pointers.
fn objects(value: &Json, at: &str, found: &mut Vec<String>) {
    match value {
        Json::Object(members) => {
            found.push(at.to_owned());
            members.iter().for_each(|(name, value)| objects(value, &format!("{at}/{name}"), found));
        }
        Json::Array(values) => {
            (0..).zip(values).for_each(|(index, value)| objects(value, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

fn changed(restrictions: &Json, at: &str, change: impl FnOnce(&mut Map<String, Json>)) -> Json {
    let mut changed = restrictions.clone();
    change(changed.pointer_mut(at).and_then(Json::as_object_mut).expect("an object"));
    changed
}

/// Every object that differs from a valid one in one member, in a way that makes it invalid.
fn mutations(restrictions: &Json) -> Vec<Json> {
    let mut places = Vec::new();
    objects(restrictions, "", &mut places);
    let mut mutations = Vec::new();
    for at in &places {
        let object = restrictions.pointer(at).and_then(Json::as_object).expect("an object");
        let mut mutate = |change: &dyn Fn(&mut Map<String, Json>)| {
            mutations.push(changed(restrictions, at, change));
        };
        mutate(&|object| _ = object.insert("more".into(), json!(1)));
        if at.is_empty() {
            continue;
        }
        for name in object.keys() {
            // A literal by itself is typed by its column.
            if !(name == "data-type" && object["type"] == "literal") {
                mutate(&|object| _ = object.remove(name));
            }
            mutate(&|object| object[name] = json!({"unknown": true}));
        }
        for name in ["type", "action", "data-type"].into_iter().filter(|name| object.contains_key(*name)) {
            mutate(&|object| object[name] = json!("unknown"));
        }
        if object.get("type") == Some(&json!("reference")) {
            mutate(&|object| {
                *object = [("type".into(), json!("reference")), ("name".into(), json!("optional"))]
                    .into_iter()
                    .collect()
            });
            mutate(&|object| object["id"] = json!(999));
        }
    }
    mutations
}

/// The ids of the fields inside a type, and those of them that are in the key of a map.
fn ids_inside(r#type: &Json, in_key: bool, found: &mut Vec<(i64, bool)>) {
    for field in r#type["fields"].as_array().into_iter().flatten() {
        found.push((field["id"].as_i64().expect("an id"), in_key));
        ids_inside(&field["type"], in_key, found);
    }
    for (side, in_key) in [("element", in_key), ("key", true), ("value", in_key)] {
        if let Some(id) = r#type[format!("{side}-id")].as_i64() {
            found.push((id, in_key));
            ids_inside(&r#type[side], in_key, found);
        }
    }
}

/// Every object with one projection more, in a way that makes it invalid.
fn additions(restrictions: &Json, schema: &Json) -> Vec<Json> {
    let projections = restrictions["required-column-projections"].as_array().cloned().unwrap_or_default();
    let with = |id: i64, action: &str| {
        let more = json!({"field-id": id, "action": action});
        let projections: Vec<_> = projections.iter().cloned().chain([more]).collect();
        let mut added = restrictions.clone();
        added["required-column-projections"] = json!(projections);
        added
    };
    let acted_on = |id: i64| projections.iter().any(|projection| projection["field-id"] == id);
    let mut additions: Vec<_> = projections
        .iter()
        .map(|twice| with(twice["field-id"].as_i64().expect("an id"), "mask-to-fixed-value"))
        .collect();
    for field in schema["fields"].as_array().expect("fields") {
        let id = field["id"].as_i64().expect("an id");
        if field["required"] == true {
            additions.push(with(id, "replace-with-null"));
        }
        let mut inside = Vec::new();
        ids_inside(&field["type"], false, &mut inside);
        let wrong = inside.into_iter().filter(|(_, in_key)| *in_key || acted_on(id));
        additions.extend(wrong.map(|(id, _)| with(id, "mask-to-fixed-value")));
    }
    additions
}

#[test]
fn a_valid_object_that_is_changed_in_one_place_is_refused() {
    let mut refused = 0;
    for file in ["filters.json", "actions.json", "together.json"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/reader").join(file);
        let suites: Vec<Json> = serde_json::from_slice(&fs::read(path).expect("the kit")).expect("suites");
        for suite in &suites {
            let Ok(schema) = serde_json::from_value::<Schema>(suite["schema"].clone()) else { continue };
            let valid = |case: &&Json| case.get("result").is_some() && case.get("or-refused").is_none();
            for case in suite["cases"].as_array().expect("cases").iter().filter(valid) {
                let valid = &case["read-restrictions"];
                Restrictions::parse(&valid.to_string(), &schema).expect("a valid object");
                for wrong in [mutations(valid), additions(valid, &suite["schema"])].concat() {
                    let answer = Restrictions::parse(&wrong.to_string(), &schema);
                    assert!(answer.is_err(), "{wrong} was taken, which is {valid} changed");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 5_000, "{refused}");
}
