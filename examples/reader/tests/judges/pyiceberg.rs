//! PyIceberg's `expression_evaluator` and its scan, in a process of its own.

use std::{
    env,
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
};

use iceberg::table::Table;
use iceberg_read_restrictions::restriction::Value;
use serde_json::{Value as Json, json};

use crate::{
    cases::{Case, Filter, cases},
    random::Random,
    served::read,
    tables::{KitFilter, Rows, doubles, evolved, kit, migrated, numbers, one_column, optional_x, row},
    values::to_json,
    wire::{comparison, either, has_both_zeros, is_null, set},
};

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

/// What the script answers to each line.
fn answers(mut python: Command, lines: &[Json]) -> Vec<Json> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cases.jsonl");
    let mut file = File::create(&path).expect("a file");
    for line in lines {
        writeln!(file, "{line}").expect("written");
    }
    drop(file);

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/with_pyiceberg.py");
    let output =
        python.arg(script).stdin(File::open(&path).expect("the cases")).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<_> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), lines.len());
    answers
}

#[test]
fn pyiceberg_keeps_the_rows_that_the_source_says() {
    let Some(python) = python() else { return };
    let mut random = Random::for_test("PyIceberg");
    let cases = cases(&mut random, 40, 40, 25);
    let line = |case: &Case| {
        let rows: Vec<Vec<_>> = case.table.rows.iter().map(|row| row.iter().map(to_json).collect()).collect();
        let filters: Vec<_> = case.filters.iter().map(Filter::wire).collect();
        json!({"fields": case.fields, "rows": rows, "filters": filters})
    };
    let answers = answers(python, &cases.iter().map(line).collect::<Vec<_>>());
    for (case, answers) in cases.iter().zip(answers) {
        let answers: Vec<Vec<bool>> = serde_json::from_value(answers).expect("Booleans");
        assert_eq!(answers.len(), case.filters.len());
        for (filter, kept) in case.filters.iter().zip(&answers) {
            filter.check("PyIceberg", case, kept);
        }
    }
}

/// The line that asks for scans of a table.
fn scans(table: &Table, folder: &Path, filters: &[&Json]) -> Json {
    let path = folder.join(format!("{}.metadata.json", table.metadata().uuid()));
    fs::write(&path, serde_json::to_vec(table.metadata()).expect("JSON")).expect("written");
    json!({"metadata": path, "filters": filters})
}

/// The rows that a scan shows, or why it fails.
fn shown(answer: &Json) -> Result<Rows, String> {
    match answer {
        Json::String(why) => Err(why.clone()),
        rows => Ok(serde_json::from_value(rows.clone()).expect("rows")),
    }
}

/// Every predicate on every type and awkward value, as it is sent. Other than its evaluator of expressions, its scan
/// filters with Arrow.
#[tokio::test(flavor = "multi_thread")]
async fn on_the_kit_its_scan_shows_what_is_to_be_hidden_only_where_both_zeros_are() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let kit = kit(folder.path()).await;
    let lines = kit.iter().map(|kit| {
        let filters: Vec<_> = kit.filters.iter().map(|filter| &filter.wire).collect();
        scans(&kit.table, folder.path(), &filters)
    });
    let answers = answers(python, &lines.collect::<Vec<_>>());
    let (mut right, mut fewer, mut more) = (0, 0, 0);
    for (kit, answers) in kit.iter().zip(answers) {
        let answers = answers.as_array().expect("answers");
        assert_eq!(answers.len(), kit.filters.len());
        for (KitFilter { name, wire, meant }, answer) in kit.filters.iter().zip(answers) {
            match shown(answer) {
                Err(why) => assert!(!kit.data_type.is_string(), "{name}: {why}"),
                Ok(rows) if rows == *meant => right += 1,
                Ok(rows) if rows.is_subset(meant) => {
                    let of_null = wire["type"] == "not-eq" || wire["type"] == "not-nan";
                    assert!(of_null || has_both_zeros(wire, "in"), "{name}: {rows:?} in place of {meant:?}");
                    fewer += 1;
                }
                Ok(rows) => {
                    assert!(has_both_zeros(wire, "not-in"), "{name}: {rows:?} in place of {meant:?}");
                    more += 1;
                }
            }
        }
    }
    assert!(right > 400 && fewer > 20 && more == 4, "{right} {fewer} {more}");
}

/// A table, a filter, what PyIceberg shows and what is meant.
async fn assert_difference(table: &Table, folder: &Path, wire: Json, shows: &[usize], meant: &[usize]) {
    let Some(python) = python() else { return };
    let answers = answers(python, &[scans(table, folder, &[&wire])]);
    assert_eq!(shown(&answers[0][0]), Ok(shows.iter().copied().collect()), "{wire}");
    let ours = read(table, &json!({ "required-row-filter": wire })).await;
    assert_eq!(ours, Ok(meant.to_vec()), "{wire}");
}

/// As in iceberg-rust, the values of a set are kept in one in which both zeros are one, and Arrow compares bit by bit. A
/// set of nothing but zeros becomes an equality, which is none of bits.
#[tokio::test(flavor = "multi_thread")]
async fn difference_its_scan_shows_a_zero_that_a_set_excludes() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = doubles(folder.path()).await;
    let filter = |operator, values| either(is_null(2), set(operator, 2, values, "double"));
    let zeros = json!([-0.0, 0.0]);
    assert_difference(&table, folder.path(), filter("not-in", zeros), &[0, 3, 4], &[0, 3, 4]).await;
    let more = json!([-0.0, 0.0, 1.0]);
    assert_difference(&table, folder.path(), filter("not-in", more.clone()), &[0, 2, 4], &[0, 4]).await;
    assert_difference(&table, folder.path(), filter("in", more), &[0, 1, 3], &[0, 1, 2, 3]).await;
}

/// As in iceberg-rust, a literal for a column that was widened is rounded to the type in older files.
#[tokio::test(flavor = "multi_thread")]
async fn difference_its_scan_shows_a_float_that_a_double_does_not_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    // The bounds of one value alone would tell that the file has none that is equal.
    let values = [Value::Null, Value::Float(0.1), Value::Float(0.0)];
    let floats = one_column(folder.path(), "float", values).await;
    let doubles = evolved(&floats, &[row(), optional_x("double")]);
    let wire = comparison("eq", 2, json!(0.1), "double");
    assert_difference(&doubles, folder.path(), wire, &[1], &[]).await;
}

/// A column that a data file lacks may have its value from the file's partition. A scan knows that value only if it shows
/// the column; otherwise its filter takes the column for null.
#[tokio::test(flavor = "multi_thread")]
async fn difference_its_scan_shows_a_partition_that_a_filter_hides() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let table = migrated(folder.path()).await;
    let wire = either(is_null(2), comparison("gt", 1, json!(0), "int"));
    assert_difference(&table, folder.path(), wire.clone(), &[0, 1], &[1]).await;
    let mut with_column = scans(&table, folder.path(), &[&wire]);
    with_column["selected"] = json!(["row", "x"]);
    assert_eq!(shown(&answers(python, &[with_column])[0][0]), Ok([1].into()));
}

/// Unlike iceberg-rust, a scan knows the initial default of a column that a file lacks.
#[tokio::test(flavor = "multi_thread")]
async fn no_difference_an_initial_default_is_filtered() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut x = optional_x("int");
    x["initial-default"] = json!(5);
    let table = evolved(&numbers(folder.path()).await, &[row(), x]);
    assert_difference(&table, folder.path(), is_null(2), &[], &[]).await;
    assert_difference(&table, folder.path(), comparison("eq", 2, json!(5), "int"), &[0, 1], &[0, 1]).await;
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
