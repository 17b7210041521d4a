//! `policy explain`: the promised answers, and that the layer sends exactly what it says.

mod program;
mod support;

use std::{collections::BTreeMap, fs, path::Path};

use program::{Run, example, policy};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{CAPABLE, Inner, governance_of, request, send, table_response};

use iceberg_read_restrictions::{
    layer::ReadRestrictionsLayer,
    resolve::{ConflictRule, UpstreamRestrictions},
};

#[derive(Deserialize)]
struct Fixture {
    tables: BTreeMap<String, String>,
    governances: BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    governance: String,
    table: String,
    subject: String,
    #[serde(default)]
    arguments: Vec<String>,
    exit: u8,
    expected: Option<String>,
}

fn fixture() -> Fixture {
    toml::from_str(include_str!("fixtures/policy/explain.toml")).expect("a valid fixture")
}

/// What one run is about.
struct Load<'a> {
    governance: &'a str,
    load_result: &'a [u8],
    namespace: &'a [&'a str],
    table: &'a str,
    subject: &'a str,
    arguments: &'a [String],
}

impl Load<'_> {
    fn explain(&self) -> Run {
        let folder = tempfile::tempdir().expect("a folder");
        let (governance, load_result) = (folder.path().join("g.toml"), folder.path().join("t.json"));
        fs::write(&governance, self.governance).expect("written");
        fs::write(&load_result, self.load_result).expect("written");
        let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let mut arguments = vec!["explain".to_owned(), "--json".into()];
        arguments.extend([
            "--governance".into(),
            path(&governance),
            "--load-result".into(),
            path(&load_result),
        ]);
        arguments.extend(["--catalog".into(), "prod".into(), "--table".into(), self.table.into()]);
        for level in self.namespace {
            arguments.extend(["--namespace".into(), (*level).into()]);
        }
        arguments.extend(["--subject".into(), self.subject.into()]);
        arguments.extend(self.arguments.iter().cloned());
        policy(arguments)
    }

    /// Loads the table through the layer and holds the answer against the explanation, the member byte by byte.
    async fn assert_layer_agrees(&self, explained: &Run, what: &str) {
        let explanation = explained.json();
        let body = self.body();
        let inner = Inner::new({
            let body = body.clone();
            move |_| table_response(body.clone())
        });
        let has = |word: &str| self.arguments.iter().any(|argument| argument == word);
        let governance = governance_of(self.governance);
        let identity = support::directory(&governance);
        let layer = ReadRestrictionsLayer::builder(governance, identity)
            .catalog("prod")
            .conflict(if has("by-policy") { ConflictRule::ByPolicy } else { ConflictRule::BySignature })
            .upstream_restrictions(match has("conjoin") {
                true => UpstreamRestrictions::Conjoin,
                false => UpstreamRestrictions::Refuse,
            });
        let uri = format!("/v1/namespaces/{}/tables/{}", self.namespace.join("%1F"), self.table);
        let answer = send(&inner.behind(layer), request("GET", &uri, self.subject, &[CAPABLE])).await;
        let outcome = explanation["outcome"].as_str().expect("an outcome");
        match outcome {
            "refused" => assert_eq!(answer.refusal(), explanation["code"], "{what}"),
            "ungoverned" | "unrestricted" => {
                assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &body[..]), "{what}");
                assert_eq!(answer.etag() == "\"inner-1\"", outcome == "ungoverned", "{what}");
            }
            "restricted" => {
                assert_eq!(answer.status, 200, "{what}: {answer:?}");
                assert_eq!(answer.restrictions(), explanation["read-restrictions"], "{what}");
            }
            other => panic!("{what}: unknown outcome {other}"),
        }
        if outcome != "refused" {
            // An empty one of the catalog's own restricts nothing, and is left where it is.
            let sent = member(&answer.body).filter(|member| member != "{}");
            assert_eq!(sent, member(explained.stdout.as_bytes()), "{what}");
        }
    }

    /// The load result, wrapped when it is a metadata document.
    fn body(&self) -> Vec<u8> {
        match serde_json::from_slice::<Value>(self.load_result) {
            Ok(Value::Object(members))
                if members.contains_key("format-version") && !members.contains_key("metadata") =>
            {
                [b"{\"metadata\":", self.load_result, b"}"].concat()
            }
            _ => self.load_result.to_vec(),
        }
    }
}

/// The text of the `read-restrictions` member, which an object has at most once.
fn member(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow, rename = "read-restrictions")]
        member: Option<&'a serde_json::value::RawValue>,
    }
    let Object { member } = serde_json::from_slice(json).expect("an object");
    member.map(|member| member.get().to_owned())
}

/// Whether each member of `expected` is there and equal; arrays must have the same length.
fn assert_contains(found: &Value, expected: &Value, what: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (name, value) in expected {
                let found = found.get(name).unwrap_or_else(|| panic!("{what}: no `{name}` in {found:?}"));
                assert_contains(found, value, &format!("{what}: {name}"));
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{what}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert_contains(found, expected, what);
            }
        }
        _ => assert_eq!(found, expected, "{what}"),
    }
}

#[tokio::test]
async fn explanations_are_as_promised_and_the_layer_agrees() {
    let Fixture { tables, governances, cases } = fixture();
    for case in &cases {
        let load = Load {
            governance: &governances[&case.governance],
            load_result: tables[&case.table].as_bytes(),
            namespace: &["sales"],
            table: "orders",
            subject: &case.subject,
            arguments: &case.arguments,
        };
        let run = load.explain();
        assert_eq!(run.code, case.exit, "{}: {run:?}", case.name);
        let Some(expected) = &case.expected else {
            assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{}: {run:?}", case.name);
            continue;
        };
        let explanation = run.json();
        assert_contains(&explanation, &serde_json::from_str(expected).expect("JSON"), &case.name);
        assert_eq!(explanation["outcome"] == "refused", explanation["message"].is_string(), "{}", case.name);
        load.assert_layer_agrees(&run, &case.name).await;
    }
}

/// A file of `fixtures/binding`, whose README tells the form.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Binding {
    schema: Value,
    #[serde(default)]
    older_schemas: Vec<Value>,
    subject: String,
    groups: BTreeMap<String, bool>,
    cases: Vec<BindingCase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BindingCase {
    name: String,
    schema: Option<Value>,
    older_schemas: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "present")]
    subject: Option<Value>,
    groups: Option<BTreeMap<String, bool>>,
    conflict: Option<String>,
    filter: Option<String>,
    #[serde(default)]
    filters: Vec<String>,
    mask: Option<String>,
    column: Option<String>,
    #[serde(default)]
    masks: Vec<Mask>,
    restrictions: Option<Value>,
    error: Option<String>,
}

/// Tells `null` from an absent member.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

#[derive(Clone, Deserialize)]
struct Mask {
    column: Option<String>,
    source: String,
}

impl BindingCase {
    fn masks(&self) -> Vec<Mask> {
        let one = self.mask.iter().map(|source| Mask { column: self.column.clone(), source: source.clone() });
        one.chain(self.masks.iter().cloned()).collect()
    }

    /// The case as a governance file: each policy has a tag of its own, on the table or on its column.
    fn governance(&self, subject: &str, groups: &BTreeMap<String, bool>) -> String {
        let filters =
            self.filter.iter().chain(&self.filters).map(|source| ("system_row_filter", None, source.clone()));
        let masks = self.masks().into_iter().map(|mask| ("system_column_mask", mask.column, mask.source));
        let (mut tags, mut policies, mut assignments) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (policy_type, column, source)) in filters.chain(masks).enumerate() {
            let tag = format!("t{index}");
            let mut object = json!({"catalog": "prod", "namespace": ["sales"], "table": "orders"});
            if let Some(column) = column {
                object["column"] = column.into();
            }
            tags.push(json!({"name": tag}));
            policies.push(json!({
                "name": format!("p{}", index + 1), "policyType": policy_type, "enabled": true,
                "content": {"expression": source}, "tags": [{"tag": tag}],
            }));
            assignments.push(json!({"object": object, "tag": tag}));
        }
        let groups: BTreeMap<_, _> =
            groups.iter().map(|(group, member)| (group, Vec::from_iter(member.then_some(subject)))).collect();
        let model = json!({"tags": tags, "policies": policies, "assignments": assignments, "groups": groups});
        toml::to_string(&model).expect("TOML")
    }
}

#[tokio::test]
async fn the_layer_sends_what_explain_says_for_every_conformance_case() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/binding");
    let mut run = 0;
    for entry in fs::read_dir(folder).expect("fixtures") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let file: Binding = serde_json::from_slice(&fs::read(&path).expect("readable")).expect("a fixture");
        for case in &file.cases {
            let what = format!("{}: {}", path.display(), case.name);
            let inherited = case.masks().iter().filter(|mask| mask.column.is_none()).count();
            if inherited > 0 && inherited < case.masks().len() {
                // There, what is inherited is left out of a column's own list, which no file can say.
                continue;
            }
            let schemas = case.older_schemas.as_ref().unwrap_or(&file.older_schemas).iter();
            let schemas: Vec<_> = schemas
                .chain([case.schema.as_ref().unwrap_or(&file.schema)])
                .enumerate()
                .map(|(id, fields)| json!({"type": "struct", "schema-id": id, "fields": fields}))
                .collect();
            let metadata =
                json!({"format-version": 3, "current-schema-id": schemas.len() - 1, "schemas": schemas});
            let subject =
                case.subject.as_ref().map_or(Some(&*file.subject), Value::as_str).unwrap_or_default();
            let governance = case.governance(subject, case.groups.as_ref().unwrap_or(&file.groups));
            let load_result = json!({"metadata": metadata}).to_string();
            let conflict = case.conflict.as_ref().map(|rule| ["--conflict".to_owned(), rule.clone()]);
            let load = Load {
                governance: &governance,
                load_result: load_result.as_bytes(),
                namespace: &["sales"],
                table: "orders",
                subject,
                arguments: &conflict.map(Vec::from).unwrap_or_default(),
            };
            let explained = load.explain();
            if explained.code == 2 {
                // An expression that is none, or a group without a name: no governance file has it.
                assert!(case.error.is_some(), "{what}: {explained:?}");
                continue;
            }
            let explanation = explained.json();
            match &case.error {
                Some(code) => assert_eq!(&explanation["code"], code, "{what}: {explanation}"),
                None => {
                    let expected = case.restrictions.clone().unwrap_or(Value::Null);
                    assert_eq!(explanation["read-restrictions"], expected, "{what}: {explanation}");
                }
            }
            load.assert_layer_agrees(&explained, &what).await;
            run += 1;
        }
    }
    assert!(run > 400, "{run}");
}

/// Policies that reach every table of the catalog, whatever its columns are.
const ANY_TABLE: &str = r#"
tags = [{ name = "t" }, { name = "u" }]
policies = [
  { name = "rows", policyType = "system_row_filter", enabled = true, tags = [{ tag = "t", except = { users = ["etl"] } }],
    content.expression = 'filter := is_group_member("readers") or session_user() in ["alice"]' },
  { name = "nulls", policyType = "system_column_mask", enabled = true, tags = [{ tag = "u", except = { users = ["etl"] } }],
    content.expression = 'mask := action("mask-to-fixed-value") if is_group_member("readers") else := action("replace-with-null")' }]
assignments = [{ object = { catalog = "prod" }, tag = "t" }, { object = { catalog = "prod", namespace = ["masked"] }, tag = "u" }]
groups = { readers = ["bob"] }
"#;

#[tokio::test]
async fn the_layer_sends_what_explain_says_for_every_fixture() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tables");
    let mut tables: Vec<_> = fs::read_dir(folder)
        .expect("fixtures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    tables.sort();
    assert!(tables.len() >= 15, "{tables:?}");
    let mut seen = BTreeMap::new();
    for path in &tables {
        for namespace in ["plain", "masked"] {
            for subject in ["alice", "bob", "etl", "eve", ""] {
                let load = Load {
                    governance: ANY_TABLE,
                    load_result: &fs::read(path).expect("readable"),
                    namespace: &[namespace],
                    table: "t",
                    subject,
                    arguments: &[],
                };
                let what = format!("{} {namespace} {subject:?}", path.display());
                let explained = load.explain();
                load.assert_layer_agrees(&explained, &what).await;
                *seen.entry(explained.json()["outcome"].to_string()).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(seen.len(), 3, "every outcome of a governed load is met: {seen:?}");
}

#[tokio::test]
async fn the_layer_sends_what_explain_says_for_the_worked_example() {
    let governance = fs::read_to_string(example("governance.toml")).expect("readable");
    for (namespace, table) in [
        (&["sales"][..], "orders"),
        (&["sales"], "customers"),
        (&["sales"], "refunds"),
        (&["hr", "payroll"], "salaries"),
        (&["reference"], "countries"),
    ] {
        let path = example("tables/prod").join(namespace.join("/")).join(format!("{table}.json"));
        for subject in ["alice", "sam", "rita", "paul", "nightly", "eve", ""] {
            let load_result = fs::read(&path).expect("readable");
            let load = Load {
                governance: &governance,
                load_result: &load_result,
                namespace,
                table,
                subject,
                arguments: &[],
            };
            load.assert_layer_agrees(&load.explain(), &format!("{table} {subject:?}")).await;
        }
    }
}

#[test]
fn people_read_everything_that_led_to_the_answer() {
    let table = example("tables/prod/sales/orders.json");
    let run = policy([
        "explain".as_ref(),
        "--governance".as_ref(),
        example("governance.toml").as_os_str(),
        "--load-result".as_ref(),
        table.as_os_str(),
        "--catalog".as_ref(),
        "prod".as_ref(),
        "--namespace".as_ref(),
        "sales".as_ref(),
        "--table".as_ref(),
        "orders".as_ref(),
        "--subject".as_ref(),
        "alice".as_ref(),
    ]);
    assert_eq!((run.code, &*run.stderr), (0, ""));
    for line in [
        "restricted: the load result carries restrictions",
        "subject: alice",
        "  group auditors: member",
        "row filter: region = 'US'",
        "  reads column region (field 2)",
        "  because of policy own_region, branch 1",
        r#"    tag data_domain = ["finance"] from namespace ["sales"] of catalog "prod""#,
        "column phone (field 4): mask-alphanum",
        "column card_number (field 7, dropped, in older snapshots only): replace-with-null",
        "  risk_desk_only: selector",
        r#"  {"required-column-projections":[{"action":"mask-alphanum","field-id":4},{"action":"replace-with-null","field-id":7}],"required-row-filter":{"type":"eq","left":{"type":"reference","id":2},"right":{"type":"literal","value":"US","data-type":"string"}}}"#,
    ] {
        assert!(run.stdout.lines().any(|found| found == line), "no line `{line}` in\n{}", run.stdout);
    }
    for digest in ["policy revision: sha256:", "identity revision: sha256:", "  signature sha256:"] {
        assert!(run.stdout.contains(digest), "no `{digest}` in\n{}", run.stdout);
    }
}

#[test]
fn wrong_use_and_unreadable_input_are_told_apart_from_a_refusal() {
    for (arguments, complaint) in [
        (&["explain"][..], "--governance"),
        (&["explain", "--no-such-option"], "--no-such-option"),
        (&["nonsense"], "nonsense"),
        (&[], "Usage"),
        (
            &[
                "explain",
                "--governance",
                "no-such.toml",
                "--load-result",
                "x",
                "--catalog",
                "c",
                "--namespace",
                "n",
                "--table",
                "t",
            ],
            "no-such.toml",
        ),
        (
            &[
                "explain",
                "--governance",
                "Cargo.lock",
                "--load-result",
                "x",
                "--catalog",
                "c",
                "--namespace",
                "n",
                "--table",
                "t",
            ],
            ".toml or .json",
        ),
    ] {
        let run = policy(arguments);
        assert_eq!(run.code, 2, "{arguments:?}: {run:?}");
        assert!(run.stdout.is_empty() && run.stderr.contains(complaint), "{arguments:?}: {run:?}");
    }
    let help = policy(["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.stdout.contains("explain") && help.stderr.is_empty(), "{help:?}");
}
