//! PyIceberg's `expression_evaluator`, in a process of its own.

use std::{env, fs::File, io::Write, path::Path, process::Command};

use serde_json::{Value as Json, json};

use crate::{cases::cases, random::Random, values::to_json};

/// The Python that has PyIceberg: the environment's `READERS_PYTHON`, else `python3`. Without one there is nothing to
/// judge with, which `READERS_REQUIRED` makes a failure.
fn python() -> Option<Command> {
    let python = env::var_os("READERS_PYTHON").unwrap_or_else(|| "python3".into());
    let version = Command::new(&python).args(["-c", "import pyiceberg"]).output();
    let why = match version {
        Ok(output) if output.status.success() => return Some(Command::new(python)),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    assert!(env::var_os("READERS_REQUIRED").is_none(), "PyIceberg is required and does not run: {why}");
    eprintln!("SKIPPED: PyIceberg judges nothing, because it does not run: {why}");
    None
}

#[test]
fn pyiceberg_keeps_the_rows_that_the_source_says() {
    let Some(mut python) = python() else { return };
    let mut random = Random::for_test("PyIceberg");
    let cases = cases(&mut random, 40, 40, 25);

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cases.jsonl");
    let mut file = File::create(&path).expect("a file");
    for case in &cases {
        let rows: Vec<Vec<_>> = case.table.rows.iter().map(|row| row.iter().map(to_json).collect()).collect();
        let filters: Vec<_> = case.filters.iter().map(|filter| filter.wire()).collect();
        writeln!(file, "{}", json!({"fields": case.fields, "rows": rows, "filters": filters}))
            .expect("written");
    }
    drop(file);

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/with_pyiceberg.py");
    let output =
        python.arg(script).stdin(File::open(&path).expect("the cases")).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Json> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect();
    assert_eq!(answers.len(), cases.len());
    for (case, answers) in cases.iter().zip(&answers) {
        for (filter, kept) in case.filters.iter().zip(answers.as_array().expect("one answer for each filter"))
        {
            let kept: Vec<_> = kept
                .as_array()
                .expect("rows")
                .iter()
                .map(|kept| kept.as_bool().expect("a Boolean"))
                .collect();
            filter.check("PyIceberg", case, &kept);
        }
    }
}

/// PyIceberg compares a float, widened to a double, with the double that the literal's text names, so that no float is equal
/// to 0.1. A reader of the wire form has to round the literal to the column's 32 bits, as the script does.
#[test]
fn difference_it_does_not_round_literals_to_floats() {
    let Some(mut python) = python() else { return };
    let script = "
import struct
from pyiceberg.expressions import EqualTo
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import FloatType, NestedField

schema = Schema(NestedField(1, 'x', FloatType(), required=False))
stored = struct.unpack('<f', struct.pack('<f', 0.1))[0]
for literal in (0.1, stored):
    print(expression_evaluator(schema, EqualTo('x', literal), True)(Record(stored)))
";
    let output = python.args(["-c", script]).output().expect("Python runs");
    let answers = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        answers.split_whitespace().collect::<Vec<_>>(),
        ["False", "True"],
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
