//! `policy simulate`: what a change would make visible, and what it would hide.

mod program;

use std::{collections::BTreeMap, fs};

use bytes::Bytes;
use iceberg_read_restrictions::{
    identity::Subject,
    policy::{Format, Governance, TableIdent},
    resolve::{ResolveRequest, Resolver},
    restriction::{self, Predicate, evaluate},
    source::Revision,
    table::LoadResult,
};
use program::{Run, policy};
use proptest::{prelude::*, sample::select};
use serde_json::Value;

const ORDERS: &str = r#"{"metadata": {"format-version": 2, "current-schema-id": 0, "schemas": [
  {"type": "struct", "schema-id": 0, "fields": [
    {"id": 1, "name": "id", "required": true, "type": "long"},
    {"id": 2, "name": "region", "required": false, "type": "string"},
    {"id": 3, "name": "owner", "required": true, "type": "string"},
    {"id": 4, "name": "score", "required": false, "type": "double"},
    {"id": 5, "name": "day", "required": false, "type": "date"},
    {"id": 6, "name": "price", "required": true, "type": "decimal(3, 1)"},
    {"id": 7, "name": "place", "required": true, "type": "boolean"}]}]}}"#;

/// One policy of a type on the table, or on a column of it.
fn model(policy_type: &str, expression: &str, column: Option<&str>) -> String {
    let column = column.map_or_else(String::new, |column| format!(", column = {column:?}"));
    format!(
        "[[tags]]\nname = \"t\"\n[[policies]]\nname = \"p\"\npolicyType = {policy_type:?}\nenabled = true\n\
         content.expression = '''{expression}'''\ntags = [{{ tag = \"t\" }}]\n[[assignments]]\ntag = \"t\"\n\
         object = {{ catalog = \"prod\", namespace = [\"sales\"], table = \"orders\"{column} }}\n\
         [groups]\nauditors = [\"alice\"]\n"
    )
}

fn filter(expression: &str) -> String {
    model("system_row_filter", &format!("filter := {expression}"), None)
}

fn mask(action: &str, column: &str) -> String {
    model("system_column_mask", &format!("mask := action({action:?})"), Some(column))
}

/// Simulates a change for these subjects on one table.
fn simulate(before: &str, after: &str, subjects: &str, more: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        fs::write(&path, content).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (before, after) = (write("before.toml", before), write("after.toml", after));
    write("tables/prod/sales/orders.json", ORDERS);
    let tables = folder.path().join("tables").to_str().expect("UTF-8").to_owned();
    let arguments =
        ["simulate", "--before", &before, "--after", &after, "--tables", &tables, "--subjects", subjects];
    policy([&arguments[..], more].concat())
}

/// The effect of the one change for one subject, with its reasons.
fn effect(before: &str, after: &str) -> (u8, String, Vec<String>) {
    let run = simulate(before, after, "bob", &["--json"]);
    let report = run.json();
    let changes = report["changes"].as_array().expect("changes");
    assert_eq!(
        (report["tables"].as_u64(), report["changed"].as_u64()),
        (Some(1), Some(changes.len() as u64))
    );
    let [change] = &changes[..] else {
        return (run.code, "none".to_owned(), Vec::new());
    };
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let reasons = change["reasons"].as_array().expect("reasons").iter().map(text).collect();
    (run.code, text(&change["effect"]), reasons)
}

fn assert_filter(before: &str, after: &str, code: u8, expected: &str, reason: &str) {
    let (found_code, found, reasons) = effect(&filter(before), &filter(after));
    assert_eq!((found_code, &*found), (code, expected), "{before} -> {after}: {reasons:?}");
    assert!(
        reason.is_empty() || reasons.iter().any(|found| found.contains(reason)),
        "{before} -> {after}: {reasons:?}"
    );
}

#[test]
fn the_same_result_is_no_change() {
    for (before, after) in [
        ("col(\"id\") == 1", "1 == col(\"id\")"),
        ("col(\"region\") == \"US\"", "not (col(\"region\") != \"US\")"),
        ("true", "true"),
    ] {
        assert_filter(before, after, 0, "none", "");
    }
}

#[test]
fn rows_that_become_visible_are_shown() {
    for (before, after, row) in [
        ("col(\"region\") == \"US\"", "true", "region is null"),
        ("col(\"region\") == \"US\"", "col(\"region\") in [\"CA\", \"US\"]", "region = 'CA'"),
        ("col(\"region\") > \"B\"", "col(\"region\") > \"A\"", "region between 'A' and 'B'"),
        ("col(\"region\") > \"A\"", "col(\"region\") < \"A\"", "region is null"),
        (
            "col(\"region\") != \"US\" and col(\"region\") != null",
            "col(\"region\") != \"US\"",
            "region is null",
        ),
        ("col(\"id\") < 5", "col(\"id\") < 6", "id = 5"),
        ("col(\"id\") < 5", "col(\"id\") < 7", "id = 5"),
        (
            "col(\"id\") == 5 or col(\"id\") == 7",
            "col(\"id\") >= 5 and col(\"id\") <= 7",
            "id between 5 and 7",
        ),
        ("col(\"score\") < 0.5", "not (col(\"score\") >= 0.5)", "score is NaN"),
        ("false", "col(\"day\") < \"2024-01-01\"", "day is null"),
        ("col(\"price\") < 99.9", "true", "price = 99.9"),
        ("col(\"owner\") == session_user()", "true", "owner below 'bob'"),
        ("col(\"place\") == true", "col(\"place\") in [true, false]", "place = false"),
    ] {
        assert_filter(before, after, 1, "widens", row);
    }
}

#[test]
fn what_only_looks_wider_is_not() {
    // Between neighbouring integers lies nothing, and nothing is below the least text.
    for (before, after) in [
        ("col(\"id\") < 6", "col(\"id\") <= 5"),
        ("col(\"id\") > 4 and col(\"id\") < 6", "col(\"id\") == 5"),
        ("col(\"owner\") == \"\"", "col(\"owner\") <= \"\""),
        ("col(\"day\") > \"2023-12-31\"", "col(\"day\") >= \"2024-01-01\""),
        ("col(\"price\") > 99.8", "col(\"price\") == 99.9"),
        ("col(\"place\") != true", "col(\"place\") == false"),
    ] {
        assert_filter(before, after, 0, "same", "");
    }
}

#[test]
fn rows_that_are_hidden_are_shown() {
    for (before, after, row) in [
        ("true", "false", "every one"),
        (
            "col(\"region\") != \"US\"",
            "col(\"region\") != \"US\" and col(\"region\") != null",
            "region is null",
        ),
        ("col(\"id\") <= 5", "col(\"id\") <= 5 and col(\"owner\") == session_user()", "hidden"),
        ("true", "col(\"id\") == 1", "id below 1"),
    ] {
        assert_filter(before, after, 0, "narrows", row);
    }
}

#[test]
fn rows_can_become_visible_and_hidden_at_once() {
    let (code, effect, reasons) = effect(&filter("col(\"id\") == 1"), &filter("col(\"id\") == 2"));
    assert_eq!((code, &*effect), (1, "widens"));
    assert_eq!(
        reasons,
        ["WIDENS: rows become visible, such as id = 2", "narrows: rows are hidden, such as id = 1"]
    );
}

/// Twenty different regions, of which more combinations with other columns exist than are tried.
fn wide(last: &str) -> String {
    let regions: Vec<_> = (10..90).map(|number| format!("\"r{number}\"")).collect();
    let regions = regions.join(", ");
    let owners = regions.replace('r', "o");
    let ids: Vec<_> = (10..90).map(|number| (number * 2).to_string()).collect();
    format!(
        "col(\"region\") in [{regions}] and not (col(\"owner\") in [{owners}]) and not (col(\"id\") in [{}]) and {last}",
        ids.join(", ")
    )
}

#[test]
fn what_cannot_be_tried_is_proved_or_may_widen() {
    // One more operand of an `and` can only hide.
    let (code, found, _) = effect(&filter(&wide("true")), &filter(&wide("col(\"score\") > 0.5")));
    assert_eq!((code, &*found), (0, "narrows"));
    let (code, found, reasons) =
        effect(&filter(&wide("col(\"score\") > 0.5")), &filter(&wide("col(\"score\") > 0.75")));
    assert_eq!((code, &*found), (1, "may-widen"), "{reasons:?}");
}

#[test]
fn removing_or_weakening_a_mask_widens() {
    // The weaker one first: it shows what the stronger one hides.
    for (weak, strong, column) in [
        ("show-last-4", "replace-with-null", "region"),
        ("show-last-4", "mask-alphanum", "region"),
        ("show-first-4", "mask-alphanum", "region"),
        ("sha-256-global", "mask-to-fixed-value", "region"),
        ("truncate-to-month", "truncate-to-year", "day"),
        ("truncate-to-year", "replace-with-null", "day"),
    ] {
        for (before, after, code, expected) in [(strong, weak, 1, "widens"), (weak, strong, 0, "narrows")] {
            let (found_code, found, reasons) = effect(&mask(before, column), &mask(after, column));
            assert_eq!((found_code, &*found), (code, expected), "{before} -> {after}");
            assert!(reasons[0].ends_with(&format!("column {column}: {before} -> {after}")), "{reasons:?}");
        }
    }
    for action in ["mask-alphanum", "sha-256-query-local", "mask-to-fixed-value", "replace-with-null"] {
        let masked = mask(action, "region");
        let none = masked.replace("enabled = true", "");
        let (code, found, reasons) = effect(&masked, &none);
        assert_eq!((code, &*found), (1, "widens"));
        assert_eq!(reasons, [format!("WIDENS: column region: {action} -> in clear")]);
        assert_eq!(effect(&none, &masked).1, "narrows");
    }
}

#[test]
fn masks_that_show_different_things_may_widen_and_constants_are_the_same() {
    for (one, other, code, expected) in [
        ("show-last-4", "show-first-4", 1, "may-widen"),
        ("sha-256-global", "mask-alphanum", 1, "may-widen"),
        ("sha-256-global", "sha-256-query-local", 1, "may-widen"),
        ("replace-with-null", "mask-to-fixed-value", 0, "same"),
    ] {
        for (before, after) in [(one, other), (other, one)] {
            let (found_code, found, _) = effect(&mask(before, "region"), &mask(after, "region"));
            assert_eq!((found_code, &*found), (code, expected), "{before} -> {after}");
        }
    }
}

#[test]
fn a_mask_on_a_table_without_rows_hides_nothing() {
    let masked = r#"
tags = [{ name = "t" }, { name = "u" }]
policies = [
  { name = "p", policyType = "system_row_filter", enabled = true, tags = [{ tag = "t" }],
    content.expression = 'filter := false' },
  { name = "q", policyType = "system_column_mask", enabled = true, tags = [{ tag = "u" }],
    content.expression = 'mask := action("mask-alphanum")' }]
assignments = [
  { object = { catalog = "prod" }, tag = "t" },
  { object = { catalog = "prod", namespace = ["sales"], table = "orders", column = "region" }, tag = "u" }]
"#;
    let unmasked = masked.replace(
        "policyType = \"system_column_mask\", enabled = true",
        "policyType = \"system_column_mask\"",
    );
    let (code, found, _) = effect(masked, &unmasked);
    assert_eq!((code, &*found), (0, "same"));
}

#[test]
fn refusals_hide_everything() {
    let refused = filter("col(\"no\") == 1");
    assert_eq!(effect(&filter("false"), &refused).1, "narrows");
    let (code, found, reasons) = effect(&refused, &filter("false"));
    assert_eq!((code, &*found), (1, "widens"));
    assert_eq!(reasons, ["WIDENS: the table was refused, and can be loaded"]);
    assert_eq!(effect(&refused, &filter("col(\"never\") == 1")).1, "none", "why it is refused is not sent");
}

#[test]
fn only_those_change_whom_it_concerns() {
    let before = filter("is_group_member(\"auditors\")");
    let after = before.replace("auditors = [\"alice\"]", "auditors = [\"bob\"]");
    let run = simulate(&before, &after, "alice,bob,eve", &["--json"]);
    let effects: Vec<_> = run.json()["changes"]
        .as_array()
        .expect("changes")
        .iter()
        .map(|change| (change["subject"].to_string(), change["effect"].to_string()))
        .collect();
    let quoted = |text: &str| format!("{text:?}");
    assert_eq!(effects, [(quoted("alice"), quoted("narrows")), (quoted("bob"), quoted("widens"))]);
}

#[test]
fn people_see_before_and_after() {
    let run = simulate(&filter("col(\"id\") == 1"), &filter("true"), "bob", &[]);
    assert_eq!(
        run.stdout,
        "WIDENS: table prod.sales.orders, subject bob\n\
         \x20 WIDENS: rows become visible, such as id below 1\n\
         \x20 before: restricted, rows where id = 1\n\
         \x20 after:  unrestricted\n\
         1 table: 1 result changes\n"
    );
}

#[test]
fn a_table_that_cannot_be_read_does_not_stop_the_simulation() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::create_dir_all(path("tables/prod/sales")).expect("created");
    fs::write(path("tables/prod/sales/broken.json"), "{").expect("written");
    fs::write(path("tables/prod/sales/orders.json"), ORDERS).expect("written");
    fs::write(path("tables/stray.json"), "{}").expect("written");
    fs::write(path("before.toml"), filter("true")).expect("written");
    fs::write(path("after.toml"), filter("false")).expect("written");
    let (before, after, tables) = (path("before.toml"), path("after.toml"), path("tables"));
    let run = policy([
        "simulate",
        "--before",
        &before,
        "--after",
        &after,
        "--tables",
        &tables,
        "--subjects",
        "bob",
        "--json",
    ]);
    let report = run.json();
    assert_eq!((run.code, &report["tables"], &report["changed"]), (2, &1.into(), &1.into()), "{run:?}");
    let skipped = report["skipped"].to_string();
    assert!(skipped.contains("broken.json is not JSON") && skipped.contains("stray.json"), "{skipped}");
}

#[test]
fn a_folder_without_tables_is_no_change_without_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::create_dir_all(path("tables/sales")).expect("created");
    fs::write(path("g.toml"), filter("true")).expect("written");
    let (governance, tables) = (path("g.toml"), path("tables"));
    let arguments = [
        "simulate",
        "--before",
        &governance,
        "--after",
        &governance,
        "--tables",
        &tables,
        "--subjects",
        "bob",
    ];
    let run = policy(arguments);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stdout.contains("no table in the folder"), "{run:?}");
    // One level of folders is missing: it lies in the catalog's folder.
    fs::write(path("tables/sales/orders.json"), ORDERS).expect("written");
    let run = policy(arguments);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.stdout.contains("a table lies at") && run.stdout.contains("no table in the folder"),
        "{run:?}"
    );
}

#[test]
fn subjects_may_be_listed_as_people_write_lists() {
    let (before, after) = (filter("true"), filter("col(\"owner\") == session_user()"));
    let run = simulate(&before, &after, "alice, bob ", &[]);
    assert_eq!(run.stdout, simulate(&before, &after, "alice,bob", &[]).stdout);
    assert!(run.stdout.contains("rows where owner = 'bob'"), "{run:?}");
}

#[test]
fn wrong_use_and_invalid_files() {
    assert_eq!(simulate(&filter("true"), "[[tags]]\nnam = 1", "bob", &[]).code, 2);
    assert_eq!(simulate(&filter("true"), &filter("true"), "bob,,eve", &[]).code, 2);
    assert_eq!(simulate(&filter("true"), &filter("true"), " ", &[]).code, 2);
}

/// A condition on the columns `id`, `region`, `score` and `place`.
fn condition() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (select(vec!["==", "!=", "<", "<=", ">", ">="]), 0..4)
            .prop_map(|(op, id)| format!("col(\"id\") {op} {id}")),
        (select(vec!["==", "!=", "<", ">="]), select(vec!["", "A", "B"]))
            .prop_map(|(op, region)| format!("col(\"region\") {op} {region:?}")),
        (select(vec!["<", ">", "<=", "=="]), select(vec!["0.25", "0.5"]))
            .prop_map(|(op, score)| format!("col(\"score\") {op} {score}")),
        select(vec!["col(\"region\") == null", "col(\"score\") != null", "col(\"place\") == true"])
            .prop_map(str::to_owned),
        select(vec!["col(\"id\") in [1, 3]", "col(\"region\") in [\"A\", \"B\"]", "true"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|one| format!("not ({one})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one} and {other})")),
            (inner.clone(), inner).prop_map(|(one, other)| format!("({one} or {other})")),
        ]
    })
}

/// The row filter as the layer would send it.
fn predicate(governance: &str) -> Predicate {
    let governance = Governance::parse(governance, Format::Toml).expect("valid");
    let policies = governance.effective_policies_of(&TableIdent::new("prod", ["sales"], "orders"));
    let table = LoadResult::read(Bytes::from_static(ORDERS.as_bytes())).expect("a load result");
    let subject = Subject::new("bob", Revision::new("1"));
    let request =
        ResolveRequest { policies: &policies, subject: Some(&subject), memberships: None, table: &table };
    let resolution = Resolver::new().resolve(request).expect("resolved");
    resolution.row_filter().expect("a filter").predicate.clone()
}

/// More values than the conditions can tell apart.
fn rows() -> impl Iterator<Item = BTreeMap<i32, restriction::Value>> {
    use restriction::Value::{Boolean, Double, Long, Null, String};
    let regions = ["", "\0", "A", "A\0", "AA", "B", "B\0", "C"].map(|region| String(region.to_owned()));
    let regions: Vec<_> = [Null].into_iter().chain(regions).collect();
    let numbers = [f64::NEG_INFINITY, -0.0, 0.25, 0.3, 0.5, 0.6, f64::INFINITY, f64::NAN].map(Double);
    let scores: Vec<_> = [Null].into_iter().chain(numbers).collect();
    (-1..6).flat_map(move |id| {
        let (regions, scores) = (regions.clone(), scores.clone());
        regions.into_iter().flat_map(move |region| {
            scores.clone().into_iter().flat_map(move |score| {
                let region = region.clone();
                [true, false].map(|place| {
                    BTreeMap::from([
                        (1, Long(id)),
                        (2, region.clone()),
                        (4, score.clone()),
                        (7, Boolean(place)),
                    ])
                })
            })
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// With so few values the filters can be compared row by row, and the answer must be exactly that.
    #[test]
    fn filters_are_compared_exactly(before in condition(), after in condition()) {
        let (before, after) = (filter(&before), filter(&after));
        let (was, is) = (predicate(&before), predicate(&after));
        let mut differences = [false; 2];
        for row in rows() {
            match (evaluate(&was, &row).unwrap(), evaluate(&is, &row).unwrap()) {
                (false, true) => differences[0] = true,
                (true, false) => differences[1] = true,
                _ => {}
            }
        }
        let (code, found, reasons) = effect(&before, &after);
        let expected = match differences {
            [true, _] => &["widens"][..],
            [false, true] => &["narrows"],
            [false, false] => &["same", "none"],
        };
        prop_assert!(expected.contains(&&*found), "{found}, and row by row {expected:?}: {reasons:?}");
        prop_assert_eq!(code, u8::from(differences[0]));
        prop_assert_eq!(reasons.iter().any(|reason| reason.starts_with("narrows: rows are hidden")), differences[1]);
    }
}
