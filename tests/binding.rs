//! Promise: a policy, a schema and a subject give exactly the restrictions of the specification, or exactly
//! its refusal. The cases are data under `fixtures/binding`, so that others can reuse them.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use iceberg_read_restrictions::{
    expression::Expression,
    identity::{Membership, Memberships, Subject},
    policy::{ContentError, EffectivePolicies, EffectivePolicy, ObjectName, Policy, PolicyType, Selection},
    resolve::{ConflictRule, ExplainRequest, Outcome, ResolveRequest, Resolver},
    source::Revision,
    table::LoadResult,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    schema: Value,
    #[serde(default)]
    older_schemas: Vec<Value>,
    subject: String,
    groups: BTreeMap<String, bool>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Case {
    name: String,
    schema: Option<Value>,
    older_schemas: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "present")]
    subject: Option<Option<String>>,
    groups: Option<BTreeMap<String, bool>>,
    conflict: Option<String>,
    filter: Option<String>,
    #[serde(default)]
    filters: Vec<String>,
    mask: Option<String>,
    column: Option<String>,
    #[serde(default)]
    masks: Vec<Mask>,
    restrictions: Option<Box<RawValue>>,
    error: Option<String>,
    message: Option<String>,
}

/// Without a column, the mask is inherited by every column.
#[derive(Deserialize)]
struct Mask {
    column: Option<String>,
    source: String,
}

/// Tells `null` from an absent member.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

fn run(file: &str) {
    let file: File = serde_json::from_str(file).expect("the file has the form that its README describes");
    assert!(!file.cases.is_empty());
    for case in &file.cases {
        check(&file, case);
    }
}

fn check(file: &File, case: &Case) {
    let table = table(
        case.schema.as_ref().unwrap_or(&file.schema),
        case.older_schemas.as_ref().unwrap_or(&file.older_schemas),
    );
    let revision = Revision::new("identity-1");
    let name = case.subject.clone().unwrap_or_else(|| Some(file.subject.clone()));
    let subject = name.map(|name| Subject::new(name, revision.clone()));
    let policies = policies(case);
    let groups = case.groups.as_ref().unwrap_or(&file.groups);
    let memberships = Memberships::new(
        revision,
        Resolver::groups(&policies).into_iter().map(|group| (group.to_owned(), answer(groups.get(group)))),
    );
    let resolver = Resolver::new().with_conflict(match case.conflict.as_deref() {
        Some("by-policy") => ConflictRule::ByPolicy,
        None => ConflictRule::BySignature,
        Some(other) => panic!("{}: no such conflict rule: {other}", case.name),
    });
    let (subject, memberships) = (subject.as_ref(), Some(&memberships));
    let result =
        resolver.resolve(ResolveRequest { policies: &policies, subject, memberships, table: &table });
    let explanation =
        resolver.explain(ExplainRequest { policies: &policies, subject, memberships, table: Ok(&table) });
    match (&case.error, result) {
        (None, Ok(resolution)) => {
            let expected = case.restrictions.as_ref().map(|raw| raw.get());
            assert_same_json(&case.name, resolution.member(), expected);
            let explained = explanation.read_restrictions.as_ref().map(|raw| raw.get());
            assert_eq!(explained, resolution.member(), "{}: explain tells what is sent", case.name);
            let outcome = if expected.is_some() { Outcome::Restricted } else { Outcome::Unrestricted };
            assert_eq!(explanation.outcome, outcome, "{}", case.name);
        }
        (Some(code), Err(error)) => {
            let message = error.to_string();
            assert_eq!(error.code(), code, "{}: {message}", case.name);
            let part = case.message.as_deref().expect("an error case has a part of the message");
            assert!(message.contains(part), "{}: `{message}` lacks `{part}`", case.name);
            assert_eq!(explanation.outcome, Outcome::Refused, "{}", case.name);
            assert_eq!(explanation.code, Some(code.as_str()), "{}", case.name);
        }
        (None, Err(error)) => panic!("{}: refused: {error}", case.name),
        (Some(code), Ok(resolution)) => {
            panic!("{}: {code} expected, got {:?}", case.name, resolution.member())
        }
    }
}

/// Equal text but for white space: number spellings such as `-0.0` and `1.0` count.
fn assert_same_json(name: &str, actual: Option<&str>, expected: Option<&str>) {
    let expected = expected.filter(|text| *text != "null").map(without_blanks);
    assert_eq!(actual.map(without_blanks), expected, "{name}");
}

/// The text without white space outside strings, and with raw characters instead of escapes inside.
fn without_blanks(text: &str) -> String {
    let mut compact = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        compact.extend(rest[..start].split_whitespace());
        let mut strings = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<String>();
        let string = strings.next().expect("a string").expect("a whole string");
        compact.push_str(&format!("{string:?}"));
        rest = &rest[start + strings.byte_offset()..];
    }
    compact.extend(rest.split_whitespace());
    compact
}

fn answer(member: Option<&bool>) -> Membership {
    match member {
        Some(true) => Membership::Member,
        Some(false) => Membership::NotMember,
        None => Membership::UnknownGroup,
    }
}

fn table(schema: &Value, older: &[Value]) -> LoadResult {
    let schemas: Vec<_> = older
        .iter()
        .chain([schema])
        .enumerate()
        .map(|(id, fields)| json!({"type": "struct", "schema-id": id, "fields": fields}))
        .collect();
    let body = json!({
        "metadata-location": "s3://bucket/metadata/v1.json",
        "metadata": {
            "format-version": 3,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "current-schema-id": older.len(),
            "schemas": schemas,
        },
        "config": {},
    });
    LoadResult::read(Bytes::from(body.to_string())).expect("a load result")
}

fn policies(case: &Case) -> EffectivePolicies {
    let mut policies = EffectivePolicies::none(Revision::new("policy-1"));
    let mut count = 0;
    let mut policy = |policy_type, source: &str, column: Option<&str>| {
        count += 1;
        effective(&format!("p{count}"), policy_type, source, column)
    };
    for source in case.filter.iter().chain(&case.filters) {
        policies.row_filters.push(policy(PolicyType::RowFilter, source, None));
    }
    let one = case.mask.as_deref().map(|source| (case.column.as_deref(), source));
    let masks = case.masks.iter().map(|mask| (mask.column.as_deref(), mask.source.as_str()));
    for (column, source) in one.into_iter().chain(masks) {
        let effective = policy(PolicyType::ColumnMask, source, column);
        match column {
            Some(column) => policies.columns.entry(column.into()).or_default().push(effective),
            None => policies.column_masks.push(effective),
        }
    }
    assert!(count > 0, "{}: no policy", case.name);
    policies
}

fn effective(name: &str, policy_type: PolicyType, source: &str, column: Option<&str>) -> EffectivePolicy {
    let from = ObjectName {
        catalog: "prod".into(),
        namespace: vec!["sales".into()],
        table: Some("orders".into()),
        column: column.map(str::to_owned),
    };
    EffectivePolicy {
        policy: Arc::new(Policy {
            name: name.into(),
            revision: Revision::new("1"),
            policy_type,
            enforce: true,
            expression: Expression::parse(source).map_err(ContentError::Expression),
        }),
        selections: vec![Selection {
            tag: "pii".into(),
            values: [].into(),
            from: Arc::new(from),
            except: None,
        }],
    }
}

macro_rules! files {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            run(include_str!(concat!("fixtures/binding/", stringify!($name), ".json")));
        }
    )+};
}

files!(literals, wire, context, lowering, masks, past_columns, conflicts);
