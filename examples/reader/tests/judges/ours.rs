//! This reader's own evaluation.

use std::{collections::HashMap, fs::File, path::Path, sync::Arc};

use arrow_array::{Array, Int32Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use reader::Restrictions;

use crate::{cases::cases, iceberg_rust::partitioned, random::Random, rows::batch, served::read};

#[test]
fn this_reader_keeps_the_rows_that_the_source_says() {
    let mut random = Random::for_test("this reader");
    for case in cases(&mut random, 60, 40, 20) {
        let schema = case.schema();
        let rows = batch(&case.table.rows, &schema);
        for filter in &case.filters {
            let restrictions =
                Restrictions::parse(&filter.member, &schema).expect("a form that the reader knows");
            let kept = restrictions.row_filter().evaluate(&rows).expect("rows of the schema");
            assert_eq!(kept.null_count(), 0);
            filter.check("this reader", &case, &kept.values().iter().collect::<Vec<_>>());
        }
    }
}

/// A Parquet file of one row that has nothing but its number, in a field with this id.
fn write_number(path: &Path, field_id: usize, number: usize) {
    let id = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), field_id.to_string())]);
    let field = Field::new("row", DataType::Int32, false).with_metadata(id);
    let numbers = Int32Array::from(vec![i32::try_from(number).expect("a row's number")]);
    let rows = RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field])), vec![Arc::new(numbers)]);
    let rows = rows.expect("one column");
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, rows.schema(), None).expect("a writer");
    writer.write(&rows).expect("written");
    writer.close().expect("closed");
}

/// As after a migration from Hive: the data files lack the columns that they are partitioned by.
#[tokio::test(flavor = "multi_thread")]
async fn this_reader_keeps_the_rows_that_the_source_says_where_partitions_have_the_values() {
    let mut random = Random::for_test("this reader and partitions");
    let mut judged = 0;
    for case in cases(&mut random, 6, 20, 10) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |row: usize| folder.path().join(format!("{row}.parquet"));
        let (schema, row_id) = case.numbered_schema();
        (0..case.table.rows.len()).for_each(|row| write_number(&path(row), row_id, row));
        let table = partitioned(&case, schema, folder.path(), |row| path(row).display().to_string()).await;
        for filter in &case.filters {
            let restrictions = serde_json::from_str(&filter.member).expect("JSON");
            let rows = match read(&table, &restrictions).await {
                Ok(rows) => rows,
                // iceberg-rust can make no column of nulls out of a time.
                Err(why) => {
                    assert!(why.to_string().contains("unexpected target column type Time64"), "{why}");
                    continue;
                }
            };
            let mut kept = vec![false; case.table.rows.len()];
            rows.into_iter().for_each(|row| kept[row] = true);
            filter.check("this reader, from partitions", &case, &kept);
            judged += 1;
        }
    }
    assert!(judged > 10, "{judged} filters");
}
