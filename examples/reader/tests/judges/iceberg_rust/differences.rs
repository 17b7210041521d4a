//! Every way in which the row filter of iceberg-rust 0.10 departs from the published expression specification, each with a
//! test of its own, and that the conformance kit and generated policies meet no others. Most hide rows or fail the query;
//! those whose names say `shows` show rows that are to be hidden.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use futures_util::TryStreamExt;
use iceberg::{
    Catalog, CatalogBuilder, NamespaceIdent, TableCreation,
    io::LocalFsStorageFactory,
    memory::{MEMORY_CATALOG_WAREHOUSE, MemoryCatalogBuilder},
    spec::{
        DataContentType, DataFileBuilder, DataFileFormat, Literal, Schema, Struct, TableMetadata,
        TableMetadataBuilder, Transform, UnboundPartitionSpec,
    },
    table::Table,
    transaction::{ApplyTransactionAction, Transaction},
};
use iceberg_read_restrictions::restriction::Value;
use reader::warehouse::create_table;
use serde_json::{Value as Json, json};

use super::{predicate, scanned, written};
use crate::{
    cases::cases,
    generate::askers,
    policy::{load_result, resolve, row_filter},
    random::Random,
    rows::batch,
    served,
    values::value,
};

type Rows = BTreeSet<usize>;

/// The rows that a scan with the wire form as it is shows, or why there are none: iceberg-rust fails some queries with
/// an error and some with a panic.
async fn shown(table: &Table, wire: &Json, row_selection: bool) -> Result<Rows, String> {
    let predicate = predicate(wire, table.metadata().current_schema(), false);
    let table = table.clone();
    let scan = tokio::spawn(async move { scanned(&table, predicate, row_selection).await });
    match scan.await {
        Ok(Ok(rows)) => Ok(rows.into_iter().collect()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic.to_string()),
    }
}

/// The rows that this reader shows.
async fn read(table: &Table, wire: &Json) -> Rows {
    let rows = served::read(table, &json!({ "required-row-filter": wire })).await;
    rows.unwrap_or_else(|why| panic!("{wire}: {why}")).into_iter().collect()
}

/// Whether a predicate holds a set with both zeros under this operator.
fn has_both_zeros(wire: &Json, operator: &str) -> bool {
    let here = wire["type"] == operator && wire["values"]["values"].to_string().contains("-0.0,0.0");
    let mut operands = ["left", "right", "child"].iter().filter_map(|name| wire.get(name));
    here || operands.any(|operand| has_both_zeros(operand, operator))
}

/// The kit's table of a suite, in three files, so that whole files are pruned as well; none where iceberg-rust does not
/// know the type.
async fn written_suite(suite: &Json, folder: &Path) -> Option<Table> {
    let schema = renumbered(serde_json::from_value(suite["schema"].clone()).ok()?);
    let loaded = load_result(&suite["schema"]["fields"]);
    let row = |row: &Json| -> Vec<Value> {
        let values = row.as_array().expect("a row").iter().zip(loaded.schema().fields());
        values.map(|(json, field)| value(json, field.r#type)).collect()
    };
    let rows: Vec<_> = suite["rows"].as_array().expect("rows").iter().map(row).collect();
    let batches = rows.chunks(rows.len().div_ceil(3)).map(|rows| batch(rows, &schema)).collect();
    Some(create_table(folder, "judged", schema, batches).await.expect("a table"))
}

/// The schema that a new table gets. iceberg-rust numbers the fields itself, breadth first, which is the kit's order at the
/// top level.
fn renumbered(schema: Schema) -> Schema {
    let creation = TableCreation::builder().name("judged".into()).location("nowhere".into()).schema(schema);
    let metadata = TableMetadataBuilder::from_table_creation(creation.build()).expect("a table").build();
    metadata.expect("metadata").metadata.current_schema().as_ref().clone()
}

/// Every predicate on every type and awkward value, as it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn on_the_kit_it_shows_what_is_to_be_hidden_only_where_both_zeros_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/reader/filters.json");
    let suites: Vec<Json> = serde_json::from_slice(&fs::read(path).expect("the kit")).expect("suites");
    let (mut right, mut fewer, mut more, mut failed) = (0, 0, 0, 0);
    for suite in &suites {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(table) = written_suite(suite, folder.path()).await else { continue };
        let data_type = &suite["schema"]["fields"][1]["type"];
        let is = |prefix: &str| data_type.as_str().is_some_and(|name| name.starts_with(prefix));
        for case in suite["cases"].as_array().expect("cases") {
            let name = &case["name"];
            let wire = &case["read-restrictions"]["required-row-filter"];
            let number = |row: &Json| usize::try_from(row[0].as_u64().expect("a number")).expect("a row");
            let meant: Rows = case["result"].as_array().expect("rows").iter().map(number).collect();
            for row_selection in [false, true] {
                let excludes_both_zeros = has_both_zeros(wire, "not-in");
                match shown(&table, wire, row_selection).await {
                    Err(why) => {
                        let unindexed = ["decimal(38", "uuid", "fixed", "binary"].into_iter().any(is);
                        assert!(
                            is("time") || !data_type.is_string() || row_selection && unindexed,
                            "{name}: {why}"
                        );
                        failed += 1;
                    }
                    Ok(rows) if excludes_both_zeros => {
                        assert!(rows.is_superset(&meant) && rows != meant, "{name}: {rows:?}");
                        more += 1;
                    }
                    Ok(rows) if rows == meant => right += 1,
                    Ok(rows) => {
                        let misread = row_selection && is("decimal");
                        assert!(wire["type"] == "not-eq" || has_both_zeros(wire, "in") || misread, "{name}");
                        assert!(rows.is_subset(&meant), "{name}: {rows:?} in place of {meant:?}");
                        fewer += 1;
                    }
                }
            }
        }
    }
    assert!(right > 500 && fewer > 50 && more == 16 && failed > 50, "{right} {fewer} {more} {failed}");
}

/// What it shows of generated policies, as they are sent, is among the rows that the source keeps.
#[tokio::test(flavor = "multi_thread")]
async fn of_generated_policies_it_shows_what_is_to_be_hidden_only_where_both_zeros_are() {
    let mut random = Random::for_test("iceberg-rust's row filter as it is");
    let mut judged = 0;
    for case in cases(&mut random, 12, 60, 15) {
        let folder = tempfile::tempdir().expect("a folder");
        let table = written(&case, folder.path()).await;
        for filter in case.filters.iter().filter(|filter| !has_both_zeros(&filter.wire(), "not-in")) {
            for row_selection in [false, true] {
                for row in shown(&table, &filter.wire(), row_selection).await.unwrap_or_default() {
                    assert!(
                        filter.keeps[row],
                        "{}\n{:?}\n{}",
                        filter.source,
                        case.table.rows[row],
                        filter.wire()
                    );
                    judged += 1;
                }
            }
        }
    }
    assert!(judged > 1_000, "{judged} rows");
}

fn reference(id: i32) -> Json {
    json!({"type": "reference", "id": id})
}

fn comparison(operator: &str, id: i32, value: Json, data_type: &str) -> Json {
    let literal = json!({"type": "literal", "value": value, "data-type": data_type});
    json!({"type": operator, "left": reference(id), "right": literal})
}

fn set(operator: &str, id: i32, values: Json, data_type: &str) -> Json {
    let literals = json!({"type": "literals", "values": values, "data-type": data_type});
    json!({"type": operator, "child": reference(id), "values": literals})
}

fn either(left: Json, right: Json) -> Json {
    json!({"type": "or", "left": left, "right": right})
}

fn is_null(id: i32) -> Json {
    json!({"type": "is-null", "child": reference(id)})
}

fn not_null(id: i32) -> Json {
    json!({"type": "not-null", "child": reference(id)})
}

fn row() -> Json {
    json!({"id": 1, "name": "row", "type": "int", "required": true})
}

fn optional_x(data_type: &str) -> Json {
    json!({"id": 2, "name": "x", "type": data_type, "required": false})
}

fn schema(fields: &Json) -> Schema {
    let schema = json!({"type": "struct", "schema-id": 0, "fields": fields});
    serde_json::from_value(schema).expect("a schema")
}

/// A table with the number of each row and one optional column `x`.
async fn one_column<const N: usize>(folder: &Path, data_type: &str, values: [Value; N]) -> Table {
    let schema = schema(&json!([row(), optional_x(data_type)]));
    let rows: Vec<_> = (0..).map(Value::Int).zip(values).map(|(number, value)| vec![number, value]).collect();
    create_table(folder, "one_column", schema.clone(), vec![batch(&rows, &schema)]).await.expect("a table")
}

/// Null, both zeros, one and NaN.
async fn doubles(folder: &Path) -> Table {
    let values = [-0.0, 0.0, 1.0, f64::NAN].map(Value::Double);
    let [negative_zero, zero, one, nan] = values;
    one_column(folder, "double", [Value::Null, negative_zero, zero, one, nan]).await
}

/// Two rows in a file that has nothing but their numbers.
async fn numbers(folder: &Path) -> Table {
    let schema = schema(&json!([row()]));
    let rows = [0, 1].map(|number| vec![Value::Int(number)]);
    create_table(folder, "numbers", schema.clone(), vec![batch(&rows, &schema)]).await.expect("a table")
}

/// The same data files after a change of the table's schema.
fn evolved(table: &Table, fields: &[Json]) -> Table {
    let mut metadata = serde_json::to_value(table.metadata()).expect("JSON");
    let schema = json!({"type": "struct", "schema-id": 1, "fields": fields});
    metadata["schemas"].as_array_mut().expect("schemas").push(schema);
    metadata["current-schema-id"] = json!(1);
    metadata["last-column-id"] = json!(fields.len());
    for snapshot in metadata["snapshots"].as_array_mut().expect("snapshots") {
        snapshot["schema-id"] = json!(1);
    }
    let metadata: TableMetadata = serde_json::from_value(metadata).expect("metadata");
    let table = Table::builder()
        .identifier(table.identifier().clone())
        .file_io(table.file_io().clone())
        .metadata(metadata);
    table
        .runtime(iceberg::Runtime::try_current().expect("a runtime"))
        .readonly(true)
        .build()
        .expect("a table")
}

/// A table of one data file, in a partition where the column `x` is 5; the file has no such column, as after a
/// migration from Hive.
async fn migrated(folder: &Path) -> Table {
    let files = numbers(folder).await.scan().build().expect("a scan").plan_files().await.expect("a plan");
    let files: Vec<_> = files.try_collect().await.expect("a plan");
    let [file] = &files[..] else { panic!("one file, not {files:?}") };
    let location = [(MEMORY_CATALOG_WAREHOUSE.to_owned(), folder.join("migrated").display().to_string())];
    let catalog = MemoryCatalogBuilder::default().with_storage_factory(Arc::new(LocalFsStorageFactory));
    let catalog = catalog.load("judged", location.into()).await.expect("a catalog");
    let namespace = NamespaceIdent::new("sales".to_owned());
    catalog.create_namespace(&namespace, [].into()).await.expect("a namespace");
    let spec = UnboundPartitionSpec::builder().with_spec_id(0);
    let spec = spec.add_partition_field(2, "x", Transform::Identity).expect("a partition field").build();
    let schema = schema(&json!([row(), optional_x("int")]));
    let creation =
        TableCreation::builder().name("migrated".into()).schema(schema).partition_spec(spec).build();
    let table = catalog.create_table(&namespace, creation).await.expect("a table");
    let file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(file.data_file_path.clone())
        .file_format(DataFileFormat::Parquet)
        .file_size_in_bytes(file.file_size_in_bytes)
        .record_count(2)
        .partition_spec_id(table.metadata().default_partition_spec_id())
        .partition(Struct::from_iter([Some(Literal::int(5))]))
        .build()
        .expect("a data file");
    let transaction = Transaction::new(&table);
    let append = transaction.fast_append().add_data_files([file]);
    append.apply(transaction).expect("an append").commit(&catalog).await.expect("a commit")
}

#[track_caller]
fn assert_rows(what: &Json, rows: &Rows, expected: &[usize]) {
    assert_eq!(*rows, expected.iter().copied().collect(), "{what}");
}

/// What iceberg-rust shows under each filter, and what is meant, which is what this reader shows.
async fn assert_differences<const N: usize>(table: &Table, cases: [(Json, &[usize], &[usize]); N]) {
    for (wire, shows, meant) in cases {
        assert_rows(&wire, &shown(table, &wire, false).await.expect("rows"), shows);
        assert_rows(&wire, &read(table, &wire).await, meant);
    }
}

/// iceberg-rust keeps the values of a set in a hash set, in which both zeros are one, and its row filter then compares
/// bit by bit with the one that was left, `-0.0`. `col("x") != 0` shows the ordinary zero. What says the same without a
/// set is evaluated as it is meant.
#[tokio::test(flavor = "multi_thread")]
async fn difference_it_shows_a_zero_that_a_set_excludes() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = doubles(folder.path()).await;
    let zeros = || json!([-0.0, 0.0]);
    let cases: [(Json, &[usize], &[usize]); 4] = [
        (either(is_null(2), set("not-in", 2, zeros(), "double")), &[0, 2, 3, 4], &[0, 3, 4]),
        (either(is_null(2), set("not-in", 2, json!([-0.0, 0.0, 1.0]), "double")), &[0, 2, 4], &[0, 4]),
        (set("in", 2, zeros(), "double"), &[1], &[1, 2]),
        (set("in", 2, json!([-0.0, 0.0, 1.0]), "double"), &[1, 3], &[1, 2, 3]),
    ];
    assert_differences(&table, cases).await;
}

/// What is sent for a policy on these fields.
fn sent(source: &str, fields: &Json) -> Json {
    let resolution = resolve(&row_filter(source), &load_result(fields), &askers()[0]);
    let member: Json = serde_json::from_str(resolution.member().expect("a row filter")).expect("JSON");
    member["required-row-filter"].clone()
}

/// The advice of the documentation: what says the same as `== 0` and `!= 0` without a set.
#[tokio::test(flavor = "multi_thread")]
async fn no_difference_zeros_can_be_told_apart_by_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = doubles(folder.path()).await;
    let fields = json!([row(), optional_x("double")]);
    let apart = r#"filter := not (col("x") >= 0 and col("x") <= 0)"#;
    let same = r#"filter := col("x") >= 0 and col("x") <= 0"#;
    for (source, set, meant) in
        [(apart, r#"filter := col("x") != 0"#, &[0, 3, 4][..]), (same, r#"filter := col("x") == 0"#, &[1, 2])]
    {
        let wire = sent(source, &fields);
        assert_rows(&wire, &shown(&table, &wire, false).await.expect("rows"), meant);
        assert_rows(&wire, &read(&table, &wire).await, meant);
        assert_rows(&wire, &read(&table, &sent(set, &fields)).await, meant);
    }
}

/// A column that a data file lacks has its initial default there. iceberg-rust's row filter takes it for null, and then
/// shows the default, which the filter has not seen.
#[tokio::test(flavor = "multi_thread")]
async fn difference_it_shows_an_initial_default_that_a_filter_hides() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut x = optional_x("int");
    x["initial-default"] = json!(5);
    let table = evolved(&numbers(folder.path()).await, &[row(), x]);
    let cases: [(Json, &[usize], &[usize]); 5] = [
        (is_null(2), &[0, 1], &[]),
        (either(is_null(2), comparison("lt", 2, json!(3), "int")), &[0, 1], &[]),
        (either(is_null(2), set("not-in", 2, json!([4, 5]), "int")), &[0, 1], &[]),
        (comparison("eq", 2, json!(5), "int"), &[], &[0, 1]),
        (not_null(2), &[], &[0, 1]),
    ];
    assert_differences(&table, cases).await;
}

/// A column that a data file lacks may have its value from the file's partition. iceberg-rust's row filter takes it for
/// null. A filter on this column alone is saved by the pruning of partitions.
#[tokio::test(flavor = "multi_thread")]
async fn difference_it_shows_a_partition_that_a_filter_hides() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = migrated(folder.path()).await;
    let second = || comparison("gt", 1, json!(0), "int");
    let cases: [(Json, &[usize], &[usize]); 4] = [
        (is_null(2), &[], &[]),
        (either(is_null(2), second()), &[0, 1], &[1]),
        (either(either(is_null(2), comparison("lt", 2, json!(3), "int")), second()), &[0, 1], &[1]),
        (comparison("eq", 2, json!(5), "int"), &[], &[0, 1]),
    ];
    assert_differences(&table, cases).await;
}

/// A column that was widened is narrow in older files, and iceberg-rust casts the literal to the file's type. A double
/// is rounded to the nearest float and then equals what it does not equal; what is out of range becomes null, which
/// hides rows.
#[tokio::test(flavor = "multi_thread")]
async fn difference_it_shows_a_float_that_a_double_does_not_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let floats = one_column(&folder.path().join("floats"), "float", [Value::Null, Value::Float(0.1)]).await;
    let doubles = evolved(&floats, &[row(), optional_x("double")]);
    let cases: [(Json, &[usize], &[usize]); 2] = [
        (comparison("eq", 2, json!(0.1), "double"), &[1], &[]),
        (comparison("not-eq", 2, json!(0.1), "double"), &[], &[0, 1]),
    ];
    assert_differences(&doubles, cases).await;

    let ints = one_column(&folder.path().join("ints"), "int", [Value::Null, Value::Int(1)]).await;
    let longs = evolved(&ints, &[row(), optional_x("long")]);
    let big = || json!(3_000_000_000_i64);
    let cases: [(Json, &[usize], &[usize]); 2] = [
        (comparison("not-eq", 2, big(), "long"), &[], &[0, 1]),
        (either(is_null(2), comparison("lt", 2, big(), "long")), &[0], &[0, 1]),
    ];
    assert_differences(&longs, cases).await;
}

/// The specification's two-valued logic keeps a null under `not-eq`, as iceberg-rust's own evaluator does. Its row filter
/// computes with SQL's three values, in which the comparison is unknown, and hides the row. The wire form has no guard
/// here.
#[tokio::test(flavor = "multi_thread")]
async fn difference_it_hides_a_null_under_not_eq() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = doubles(folder.path()).await;
    let wire = comparison("not-eq", 2, json!(1.0), "double");
    assert_differences(&table, [(wire.clone(), &[1, 2, 4], &[0, 1, 2, 4])]).await;
    let corrected = predicate(&wire, table.metadata().current_schema(), true);
    assert_eq!(scanned(&table, corrected, false).await.expect("rows"), [0, 1, 2, 4]);
}

/// With row selection, which is off by default, iceberg-rust reads the page index of a decimal as of another type, and
/// skips pages that hold rows.
#[tokio::test(flavor = "multi_thread")]
async fn difference_its_row_selection_misreads_decimals() {
    let folder = tempfile::tempdir().expect("a folder");
    let decimal = |unscaled| Value::Decimal { unscaled, precision: 9, scale: 2 };
    let values = [Value::Null, decimal(0), decimal(150), decimal(999)];
    let table = one_column(folder.path(), "decimal(9, 2)", values).await;
    let wire = comparison("gt", 2, json!("1.50"), "decimal(9, 2)");
    assert_rows(&wire, &shown(&table, &wire, false).await.expect("rows"), &[3]);
    assert_rows(&wire, &shown(&table, &wire, true).await.expect("rows"), &[]);
}

/// iceberg-rust fails the query where it has no Arrow scalar for a literal, no accessor for a type with fields inside and,
/// with row selection, where it cannot read the page index. Some of these failures are panics.
#[tokio::test(flavor = "multi_thread")]
async fn difference_it_fails_where_it_has_no_form_for_the_filter() {
    async fn assert_fails(table: &Table, wire: Json, row_selection: bool, why: &str) {
        let failure = shown(table, &wire, row_selection).await.expect_err("a failure");
        assert!(failure.contains(why), "{wire}: {failure}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name| folder.path().join(name);
    let midnight = "00:00:00.000000";
    let times = one_column(&at("times"), "time", [Value::Time(0)]).await;
    let unsupported = "Converting datum from type Time";
    assert_fails(&times, comparison("eq", 2, json!(midnight), "time"), false, unsupported).await;
    let two = json!([midnight, "23:59:59.999999"]);
    assert_fails(&times, set("not-in", 2, two, "time"), false, unsupported).await;

    let mut list = optional_x("int");
    list["type"] = json!({"type": "list", "element-id": 3, "element": "int", "element-required": false});
    let lists = evolved(&numbers(folder.path()).await, &[row(), list]);
    assert_fails(&lists, is_null(2), false, "Accessor for Field x not found").await;

    let wide = Value::Decimal { unscaled: 1, precision: 38, scale: 10 };
    let decimals = one_column(&at("decimals"), "decimal(38, 10)", [wide]).await;
    assert_fails(&decimals, not_null(2), true, "FIXED_LEN_BYTE_ARRAY").await;

    let binaries = one_column(&at("binaries"), "binary", [Value::Binary(vec![0xff])]).await;
    assert_fails(&binaries, not_null(2), true, "FromUtf8Error").await;
}
