//! This reader on the conformance kit.

use std::{fs, path::Path};

use arrow_array::RecordBatch;
use iceberg::spec::Schema;
use iceberg_read_restrictions::{restriction::Value, table::LoadResult};
use reader::{Refusal, Restrictions, enforce};
use serde_json::Value as Json;

use crate::{policy::load_result, rows::batch, values::value};

/// Runs a file of the kit and gives the number of cases that were answered, with rows or with a refusal.
fn run(file: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/reader").join(file);
    let suites: Vec<Json> = serde_json::from_slice(&fs::read(path).expect("the kit")).expect("suites");
    let mut answered = 0;
    for suite in &suites {
        let table = load_result(&suite["schema"]["fields"]);
        for case in suite["cases"].as_array().expect("cases") {
            let name = format!("{}: {}", suite["suite"], case["name"]);
            match (query(suite, case, &table), case.get("result"), case.get("refused")) {
                (Ok((rows, schema)), Some(expected), None) => {
                    let expected = batch(&typed(expected, &table), &schema);
                    assert_eq!(rows.columns(), expected.columns(), "{name}");
                    answered += 1;
                }
                (Err(_), None, Some(_)) => answered += 1,
                (Err(why), Some(_), None) => {
                    assert!(case.get("or-refused").is_some(), "{name}: refused: {why}")
                }
                (Ok((rows, _)), None, Some(why)) => panic!("{name}: to be refused, {why}, but gave {rows:?}"),
                _ => panic!("{name}: either `result` or `refused`"),
            }
        }
    }
    answered
}

/// One query, as the reader runs it once it has the table's schema and rows.
fn query(suite: &Json, case: &Json, table: &LoadResult) -> Result<(RecordBatch, Schema), Refusal> {
    let schema: Schema = serde_json::from_value(suite["schema"].clone())
        .map_err(|error| Refusal::new(format!("a type that this reader does not know: {error}")))?;
    let text = match case.get("read-restrictions-text") {
        Some(text) => text.as_str().expect("text").to_owned(),
        None => case["read-restrictions"].to_string(),
    };
    let restrictions = Restrictions::parse(&text, &schema)?;
    let salt = case.get("salt").map(|salt| hex(salt.as_str().expect("hex"))).unwrap_or_default();
    let rows = batch(&typed(&suite["rows"], table), &schema);
    Ok((enforce(&restrictions, &schema, &rows, &salt)?, schema))
}

fn typed(rows: &Json, table: &LoadResult) -> Vec<Vec<Value>> {
    let row = |row: &Json| {
        let values = row.as_array().expect("a row").iter().zip(table.schema().fields());
        values.map(|(json, field)| value(json, field.r#type)).collect()
    };
    rows.as_array().expect("rows").iter().map(row).collect()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

#[test]
fn filters() {
    assert!(run("filters.json") > 500);
}

#[test]
fn actions() {
    assert!(run("actions.json") > 400);
}

#[test]
fn filters_and_actions_together() {
    assert!(run("together.json") > 30);
}

#[test]
fn what_every_reader_must_refuse() {
    assert!(run("refused.json") > 90);
}
