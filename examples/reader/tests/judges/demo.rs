//! The demonstration: real Parquet files, a real catalog behind the layer, three subjects.

use std::process::Command;

use arrow_array::{
    Array, RecordBatch,
    cast::AsArray,
    types::{Date32Type, Int64Type},
};
use iceberg::TableIdent;
use reader::{
    Reader,
    demo::{Demo, GOVERNANCE},
};

use crate::served::served;

async fn read(demo: &Demo, subject: &str) -> Result<RecordBatch, reader::Refusal> {
    Reader::new(&demo.url, subject).read(&TableIdent::from_strs(["sales", "orders"]).expect("a name")).await
}

fn ids(rows: &RecordBatch) -> Vec<i64> {
    rows["id"].as_primitive::<Int64Type>().values().to_vec()
}

fn phones(rows: &RecordBatch) -> Vec<Option<String>> {
    rows["phone"].as_string::<i32>().iter().map(|phone| phone.map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_subject_sees_its_own_rows() {
    let demo = Demo::start(GOVERNANCE).await.expect("the demonstration");

    let administrator = read(&demo, "admin").await.expect("rows");
    assert_eq!(ids(&administrator), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(phones(&administrator)[0].as_deref(), Some("(555) 010-4477"));

    let auditor = read(&demo, "alice").await.expect("rows");
    assert_eq!(ids(&auditor), [1, 4, 6]);
    assert_eq!(phones(&auditor), [Some("(nnn)xnnn-4477".into()), None, Some("nnnn-1111".into())]);
    // The first of January, April and May 2024.
    assert_eq!(auditor["placed"].as_primitive::<Date32Type>().values().to_vec(), [19_723, 19_814, 19_844]);

    let owner = read(&demo, "olga").await.expect("rows");
    assert_eq!(ids(&owner), [1, 3, 7]);
    assert_eq!(owner["phone"].null_count(), 3);

    let nobody_in_particular = read(&demo, "zoe").await.expect("no rows, which is an answer");
    assert_eq!(nobody_in_particular.num_rows(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_catalog_is_a_refusal_of_the_query() {
    let demo = Demo::start(GOVERNANCE).await.expect("the demonstration");
    let error = read(&demo, " ").await.expect_err("nobody asks").to_string();
    assert!(error.contains("subject-missing"), "{error}");

    let unknown = GOVERNANCE.replace("auditors = [", "others = [");
    let demo = Demo::start(&unknown).await.expect("the demonstration");
    let error = read(&demo, "olga").await.expect_err("nobody defined the auditors").to_string();
    assert!(error.contains("restrictions-unresolvable"), "{error}");

    let table = TableIdent::from_strs(["sales", "no such table"]).expect("a name");
    let error = Reader::new(&demo.url, "olga").read(&table).await.expect_err("no such table").to_string();
    assert!(error.contains("404"), "{error}");
}

#[test]
fn the_program_shows_three_views_side_by_side() {
    let output = Command::new(env!("CARGO_BIN_EXE_reader")).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).expect("UTF-8"), include_str!("demo.txt"));
}

/// A catalog that answers every load with the demonstration's own load result and this text behind its opening brace.
async fn catalog_with(demo: &Demo, members: &str) -> String {
    let url = format!("{}/v1/namespaces/sales/tables/orders", demo.url);
    let load =
        reqwest::Client::new().get(url).header("X-Forwarded-User", "admin").send().await.expect("an answer");
    let body = load.text().await.expect("a load result");
    let body = format!("{{{members},{}", body.strip_prefix('{').expect("an object"));
    served(body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restriction_that_is_not_understood_fails_the_query() {
    let demo = Demo::start(GOVERNANCE).await.expect("the demonstration");
    let orders = TableIdent::from_strs(["sales", "orders"]).expect("a name");
    let mask = r#"{"required-column-projections": [{"field-id": 4, "action": "mask-alphanum"}]}"#;
    for (members, expected) in [
        (
            r#""read-restrictions": {"required-column-projections": [{"field-id": 4, "action": "hide"}]}"#
                .to_owned(),
            "`hide`",
        ),
        (r#""read-restrictions": {"required-rows": true}"#.to_owned(), "`required-rows`"),
        (format!(r#""read-restrictions": {mask}, "read-restrictions": {{}}"#), "twice"),
        (format!(r#""read-restrictions": {mask}, "read-\u0072estrictions": {{}}"#), "twice"),
    ] {
        let url = catalog_with(&demo, &members).await;
        let error = Reader::new(url, "zoe").read(&orders).await.expect_err(&members).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let url = catalog_with(&demo, &format!(r#""read-restrictions": {mask}"#)).await;
    let rows = Reader::new(url, "zoe").read(&orders).await.expect("a restriction that is understood");
    assert_eq!(phones(&rows)[2].as_deref(), Some("nnn"));
}
