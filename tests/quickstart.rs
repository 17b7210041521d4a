//! The story that the quickstart tells.

mod gateway_support;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use gateway_support::{CAPABLE, ORDERS, example};
use serde_json::{Value, json};

/// The chapters of the story: each a title and its lines.
fn chapters(story: &str) -> Vec<(&str, Vec<&str>)> {
    story
        .split("\n\n")
        .map(|chapter| {
            let mut lines = chapter.lines();
            (lines.next().unwrap(), lines.collect())
        })
        .collect()
}

/// What stands under a name, the lines that go on with it included.
fn entry(lines: &[&str], name: &str) -> String {
    let begins = |line: &&str| !line[2..20].trim().is_empty();
    let mut rest = lines.iter().skip_while(|line| line[2..20].trim() != name);
    let first = rest.next().unwrap_or_else(|| panic!("no {name} in {lines:#?}"));
    let more = rest.take_while(|line| !begins(line));
    std::iter::once(first).chain(more).map(|line| &line[21..]).collect::<Vec<_>>().join("\n")
}

fn member(lines: &[&str]) -> Value {
    serde_json::from_str(&entry(lines, "read-restrictions")).unwrap()
}

fn equal(field: u32, value: &str) -> Value {
    json!({
        "type": "eq",
        "left": {"type": "reference", "id": field},
        "right": {"type": "literal", "value": value, "data-type": "string"},
    })
}

fn masks(action: &str) -> Value {
    json!([{"action": action, "field-id": 4}, {"action": action, "field-id": 5}])
}

#[test]
fn three_callers_a_304_and_a_policy_change() {
    let output = Command::new(example("quickstart")).output().unwrap();
    let story = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{story}");
    assert!(!story.contains('\x1b'), "colour without a terminal");
    let chapters = chapters(&story);
    let [_, auditor, owner, undeclared, conditional, changed, by_hand] = &chapters[..] else {
        panic!("{} chapters", chapters.len())
    };

    assert!(auditor.0.contains("auditor"));
    assert_eq!(entry(&auditor.1, "status"), "200 OK");
    assert_eq!(
        member(&auditor.1),
        json!({"required-column-projections": masks("show-last-4"), "required-row-filter": equal(2, "US")})
    );
    let why = entry(&auditor.1, "why");
    for reason in [
        "region = 'US'",
        "restrict_orders",
        "data_domain = finance",
        "card_number (dropped",
        "auditors: member",
    ] {
        assert!(why.contains(reason), "{why}");
    }

    assert_eq!(entry(&owner.1, "status"), "200 OK");
    assert_eq!(
        member(&owner.1),
        json!({"required-column-projections": masks("replace-with-null"), "required-row-filter": equal(3, "bob")})
    );
    assert!(entry(&owner.1, "why").contains("owner = 'bob'"));

    assert_eq!(entry(&undeclared.1, "status"), "406 Not Acceptable");
    assert_eq!(entry(&undeclared.1, "entity tag"), "none");
    assert!(entry(&undeclared.1, "error").starts_with("[capability-required]"));

    assert_eq!(entry(&conditional.1, "status"), "304 Not Modified");
    assert_eq!(entry(&conditional.1, "body"), "none");
    assert_eq!(entry(&conditional.1, "entity tag"), entry(&auditor.1, "entity tag"));

    assert_eq!(entry(&changed.1, "status"), "200 OK");
    assert_ne!(entry(&changed.1, "entity tag"), entry(&auditor.1, "entity tag"));
    assert_eq!(member(&changed.1)["required-column-projections"], masks("mask-alphanum"));

    let curl: Vec<_> = by_hand.1.iter().filter(|line| line.trim().starts_with("curl ")).collect();
    assert_eq!(curl.len(), 3, "{by_hand:?}");
}

#[tokio::test]
async fn with_serve_the_catalog_keeps_running() {
    let mut child =
        Command::new(example("quickstart")).arg("--serve").stdout(Stdio::piped()).spawn().unwrap();
    let mut story = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let curl = story.find(|line| line.trim().starts_with("curl ")).unwrap();
    let url: http::Uri = curl.rsplit(' ').next().unwrap().parse().unwrap();
    let address = url.authority().unwrap().as_str().parse().unwrap();
    let headers = [("x-user", "alice"), CAPABLE];
    let request = gateway_support::request(http::Method::GET, ORDERS, &headers, axum::body::Body::empty());
    let answer = gateway_support::fetch(address, request).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.restrictions().is_some());
}

#[test]
fn other_arguments_are_wrong_use() {
    let output = Command::new(example("quickstart")).arg("serve").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
