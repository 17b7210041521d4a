//! Which policies apply to a table and its columns, and which models are refused: the cases in
//! `fixtures/policy_on_tag`, revisions, and a comparison with a naive reading of the rules.

use std::{collections::BTreeMap, sync::Arc};

use iceberg_read_restrictions::policy::{
    Assignment, Columns, ContentError, EffectivePolicies, EffectivePolicy, Except, Format, Governance,
    ObjectName, PolicyObject, PolicySource, PolicyType, Relation, Selection, Selector, TableIdent,
    TableRequest, Tag, compile,
};
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
};
use serde::Deserialize;
use serde_json::json;

// ---- effective policies -------------------------------------------------------------------------

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EffectiveCases {
    cases: Vec<EffectiveCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EffectiveCase {
    says: String,
    governance: String,
    loads: Vec<Load>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    table: Table,
    governed: Option<bool>,
    #[serde(flatten)]
    answer: Answer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    catalog: String,
    namespace: Vec<String>,
    name: String,
}

/// An answer of the source, as the cases write it.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Answer {
    row_filters: Vec<Effective>,
    column_masks: Vec<Effective>,
    columns: BTreeMap<String, Vec<Effective>>,
    not_selected: Vec<Left>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Effective {
    policy: String,
    #[serde(default = "yes")]
    enforce: bool,
    tags: Vec<Via>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Via {
    name: String,
    #[serde(default)]
    values: Vec<String>,
    from: Object,
    #[serde(default)]
    except: Names,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Names {
    users: Vec<String>,
    groups: Vec<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    catalog: String,
    #[serde(default)]
    namespace: Vec<String>,
    table: Option<String>,
    column: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Left {
    policy: String,
    reason: String,
}

impl From<&EffectivePolicies> for Answer {
    fn from(answer: &EffectivePolicies) -> Self {
        let all = |policies: &[EffectivePolicy]| policies.iter().map(Effective::from).collect();
        Self {
            row_filters: all(&answer.row_filters),
            column_masks: all(&answer.column_masks),
            columns: answer.columns.iter().map(|(name, masks)| (name.to_string(), all(masks))).collect(),
            not_selected: (answer.not_selected.iter())
                .map(|left| Left { policy: left.policy.to_string(), reason: left.reason.as_str().to_owned() })
                .collect(),
        }
    }
}

impl From<&EffectivePolicy> for Effective {
    fn from(effective: &EffectivePolicy) -> Self {
        let via = |selection: &Selection| {
            let except = selection.except.as_deref().cloned().unwrap_or_default();
            let ObjectName { catalog, namespace, table, column } = (*selection.from).clone();
            Via {
                name: selection.tag.to_string(),
                values: selection.values.to_vec(),
                from: Object { catalog, namespace, table, column },
                except: Names { users: except.users, groups: except.groups },
            }
        };
        Self {
            policy: effective.policy.name.to_string(),
            enforce: effective.policy.enforce,
            tags: effective.selections.iter().map(via).collect(),
        }
    }
}

fn ask(source: &dyn PolicySource, table: &TableIdent, columns: Columns<'_>) -> Arc<EffectivePolicies> {
    let request = TableRequest { table, uuid: None, columns };
    futures_util::future::FutureExt::now_or_never(source.effective_policies(request)).unwrap().unwrap()
}

/// The JSON of a model that is written in TOML.
fn as_json(toml: &str) -> String {
    serde_json::to_string_pretty(&toml::from_str::<toml::Value>(toml).unwrap()).unwrap()
}

#[test]
fn effective_policies() {
    let cases: EffectiveCases =
        toml::from_str(include_str!("fixtures/policy_on_tag/effective.toml")).unwrap();
    for EffectiveCase { says, governance, loads } in cases.cases {
        let toml = Governance::parse(&governance, Format::Toml)
            .unwrap_or_else(|error| panic!("{says}:\n{}", error.render()));
        let json = Governance::parse(&as_json(&governance), Format::Json)
            .unwrap_or_else(|error| panic!("{says}, as JSON:\n{}", error.render()));
        assert_eq!(toml.revision(), json.revision(), "{says}");
        assert_eq!(toml.identity_revision(), json.identity_revision(), "{says}");
        for Load { table, governed, answer } in loads {
            let table = TableIdent::new(table.catalog, table.namespace, table.name);
            for source in [&toml, &json] {
                let got = ask(source, &table, Columns::Unknown);
                assert_eq!(Answer::from(&*got), answer, "{says}: {table:?}");
                // Columns that are assigned for are in the answer, whichever were asked about.
                let of_one = ask(source, &table, Columns::Known(&["no_such_column"]));
                assert_eq!(Answer::from(&*of_one), answer, "{says}: {table:?}");
                assert_eq!(&got.revision, source.revision(), "{says}");
                let governs = governed.unwrap_or(got.all().next().is_some());
                assert_eq!(got.is_governed(), governs, "{says}: {table:?}");
            }
        }
    }
}

// ---- invalid models -----------------------------------------------------------------------------

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidCases {
    cases: Vec<InvalidCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidCase {
    says: String,
    #[serde(default)]
    format: Notation,
    text: String,
    #[serde(default)]
    problems: Vec<String>,
    /// How each problem starts, where the rest are a parser's own words.
    #[serde(default)]
    starts: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Notation {
    #[default]
    Toml,
    Json,
}

#[test]
fn invalid_models() {
    let cases: InvalidCases = toml::from_str(include_str!("fixtures/policy_on_tag/invalid.toml")).unwrap();
    for InvalidCase { says, format, text, problems, starts } in cases.cases {
        let parsed_as = match format {
            Notation::Toml => Format::Toml,
            Notation::Json => Format::Json,
        };
        let error = Governance::parse(&text, parsed_as).expect_err(&says);
        let lines = error.to_string();
        if starts.is_empty() {
            assert_eq!(lines, problems.join("\n"), "{says}:\n{error}\n");
        } else {
            assert_eq!(error.problems().len(), starts.len(), "{says}: {error}");
            for (line, start) in lines.lines().zip(&starts) {
                assert!(line.starts_with(start), "{says}: {error}");
            }
        }
        if format == Notation::Toml && toml::from_str::<toml::Value>(&text).is_ok() {
            let json = Governance::parse(&as_json(&text), Format::Json).expect_err(&says);
            assert_eq!(json.problems().len(), error.problems().len(), "{says}, as JSON: {json}");
        }
    }
}

#[test]
fn an_error_in_an_expression_is_placed_in_the_text() {
    let before = r#"policies = [{ name = "p", policyType = "system_row_filter", content.expression = "#;
    let position = |string: &str| {
        let error = Governance::parse(&format!("{before}{string} }}]"), Format::Toml).unwrap_err();
        let [problem] = error.problems() else { panic!("{error}") };
        (problem.position().unwrap(), problem.expression().unwrap().position())
    };
    let start = before.len() + 1;
    assert_eq!(position("'filter := 1'"), ((1, start + 1 + 10), (1, 11)));
    assert_eq!(position("\"filter := 1\""), ((1, start + 1 + 10), (1, 11)));
    assert_eq!(position("\'\'\'\nfilter :=\n  1\'\'\'"), ((3, 3), (2, 3)));
    assert_eq!(position("\'\'\'\r\nfilter :=\r\n  1\'\'\'"), ((3, 3), (2, 3)));
    assert_eq!(position("\"\"\"\n\nfilter := 1\"\"\""), ((3, 11), (2, 11)), "the first line break is TOML's");
    assert_eq!(position("\"filter := \\u0031\""), ((1, start), (1, 11)), "an escape");
    assert_eq!(position("''"), ((1, start + 2), (1, 1)), "empty");
}

#[test]
fn deep_nesting_is_an_ordinary_error() {
    for (open, format) in [("tags = ", Format::Toml), ("{\"tags\": ", Format::Json)] {
        let text = open.to_owned() + &"[".repeat(200_000);
        assert!(Governance::parse(&text, format).is_err());
    }
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let other = format!(r#"{{"policies": [{{"name": "p", "policyType": "custom", "content": {deep}}}]}}"#);
    assert!(Governance::parse(&other, Format::Json).is_ok(), "the content of other types is not looked at");
    let filter = other.replace("custom", "system_row_filter");
    assert!(Governance::parse(&filter, Format::Json).is_err());
}

#[test]
fn a_long_error_is_cut_in_a_line_and_rendered_whole() {
    let tags = (0..30).map(|_| "{ name = \"\" }").collect::<Vec<_>>().join(",\n");
    let error = Governance::parse(&format!("tags = [{tags}]"), Format::Toml).unwrap_err();
    assert_eq!(error.problems().len(), 59, "30 are blank, 29 are repeated");
    assert_eq!(error.to_string().lines().count(), 21);
    assert!(error.to_string().ends_with("and 39 more problems"));
    assert_eq!(error.render().lines().count(), 59);
}

#[test]
fn an_empty_exemption_exempts_nobody() {
    let model =
        MODEL.replace("except = { users = [\"u\", \"v\"], groups = [\"g\"] }", "except = { users = [] }");
    let answer = parse(&model).effective_policies_of(&TableIdent::new("c", ["n", "m"], "t"));
    assert!(!answer.row_filters[0].may_exempt());
}

#[test]
fn effective_tags_can_be_asked_for() {
    let governance = parse(
        r#"
        tags = [{ name = "a" }, { name = "b" }]
        assignments = [
            { object = { catalog = "c" }, tag = "a", values = ["outer"] },
            { object = { catalog = "c" }, tag = "b" },
            { object = { catalog = "c", namespace = ["n"], table = "t", column = "x" }, tag = "a", values = ["inner"] },
        ]
        "#,
    );
    let table = TableIdent::new("c", ["n"], "t");
    let tags = |column| -> Vec<_> {
        let tags = governance.effective_tags(&table, column);
        tags.iter().map(|tag| (tag.tag.to_string(), tag.values.to_vec(), tag.object.to_string())).collect()
    };
    let on = |tag: &str, values: &[&str], object: &str| {
        (tag.to_owned(), values.iter().map(|value| value.to_string()).collect(), object.to_owned())
    };
    let catalog = "catalog \"c\"";
    let column = "column \"x\" of table \"t\" in namespace [\"n\"] of catalog \"c\"";
    assert_eq!(tags(None), [on("a", &["outer"], catalog), on("b", &[], catalog)]);
    assert_eq!(tags(Some("y")), tags(None));
    assert_eq!(tags(Some("x")), [on("a", &["inner"], column), on("b", &[], catalog)]);
}

#[test]
fn a_value_has_at_most_256_characters() {
    let model = |value: &str| {
        Governance::builder()
            .tag(Tag::new("t"))
            .assignment(Assignment::new(ObjectName::catalog("c"), "t").with_values([value]))
            .build()
    };
    assert!(model(&"v".repeat(256)).is_ok());
    assert!(model(&"ü".repeat(256)).is_ok(), "characters, not bytes");
    for long in ["v".repeat(257), "ü".repeat(257)] {
        let error = model(&long).unwrap_err().to_string();
        assert!(error.ends_with("is longer than 256 characters"), "{error}");
    }
}

#[test]
fn a_model_from_a_builder_is_checked_as_well() {
    let expression = "filter := true";
    let error = Governance::builder()
        .tag(Tag::new("t").with_allowed_values(["a"]))
        .tag(Tag::new("t"))
        .policy(PolicyObject::row_filter("p", "filter := col(\"active\")"))
        .policy(PolicyObject::column_mask("q", expression))
        .relation(Relation::new("p", "t"))
        .relation(Relation::new("p", "t"))
        .relation(Relation::new("absent", "u"))
        .assignment(Assignment::new(ObjectName::catalog("c"), "u"))
        .group("g", ["alice"])
        .group("g", ["bob"])
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy `p`: expression line 1, column 11: a bare column is not a predicate; write `col(\"active\") == true`\n\
         policy `q`: expression line 1, column 1: a system_column_mask policy takes a `mask` rule\n\
         tag `t` is declared twice\n\
         policy `p`: the policy has two relations to tag `t`\n\
         policy `absent`: this policy has a relation and is not declared\n\
         policy `absent`: tag `u` is not declared\n\
         tag `u` is not declared\n\
         group `g` is defined twice"
    );
}

#[test]
fn content_of_other_sources_is_compiled_by_the_same_rules() {
    let compile = |content: serde_json::Value| compile(PolicyType::RowFilter, &content);
    let expression = compile(json!({ "expression": "filter := true" })).unwrap();
    assert_eq!(&**expression.source(), "filter := true");
    let error = compile(json!({ "function": { "reference": "f", "arguments": [] } })).unwrap_err();
    assert!(error.to_string().contains("reserved and not supported"), "{error}");
    for shape in [json!(null), json!("filter := true"), json!({}), json!({ "expression": null })] {
        assert!(matches!(compile(shape.clone()), Err(ContentError::Shape(_))), "{shape}");
    }
    let error = compile(json!({ "expression": "filter := 1" })).unwrap_err();
    assert!(matches!(error, ContentError::Expression(_)), "{error}");
}

// ---- revisions ----------------------------------------------------------------------------------

const MODEL: &str = r#"
[[tags]]
name = "a"
comment = "first"

[[tags]]
name = "b"
allowedValues = ["x", "y"]

[[policies]]
name = "p"
policyType = "system_row_filter"
enabled = true
content.expression = "filter := true"
tags = [
    { tag = "a" },
    { tag = "b", selector = { type = "TAG_VALUE", value = "x" }, except = { users = ["u", "v"], groups = ["g"] } },
]

[[policies]]
name = "q"
policyType = "custom"

[[assignments]]
object = { catalog = "c" }
tag = "a"

[[assignments]]
object = { catalog = "c", namespace = ["n", "m"], table = "t" }
tag = "b"
values = ["x", "y"]

[groups]
g = ["alice", "bob"]
h = []
"#;

/// The same, in another order and with the defaults written out.
const REORDERED: &str = r#"
groups = { h = [], g = ["bob", "alice"] }
assignments = [
    { values = ["y", "x"], tag = "b", object = { table = "t", namespace = ["n", "m"], catalog = "c" } },
    { values = [], tag = "a", object = { catalog = "c", namespace = [] } },
]
policies = [
    { policyType = "custom", name = "q", enabled = false, enforce = true, content = { any = "thing" } },
    { policyType = "system_row_filter", name = "p", enabled = true, enforce = true, comment = "new", content.expression = "filter := true", tags = [
        { selector = { value = "x", type = "TAG_VALUE" }, tag = "b", except = { groups = ["g"], users = ["v", "u"] } },
        { selector = { type = "ALL_VALUES" }, tag = "a", except = {} },
    ] },
]
tags = [{ allowedValues = ["y", "x"], name = "b" }, { name = "a" }]
"#;

fn parse(toml: &str) -> Governance {
    Governance::parse(toml, Format::Toml).unwrap_or_else(|error| panic!("{}", error.render()))
}

#[test]
fn equal_content_has_equal_revisions() {
    let model = parse(MODEL);
    let built = Governance::builder()
        .group("h", [""; 0])
        .group("g", ["bob", "alice"])
        .assignment(Assignment::new(ObjectName::table("c", ["n", "m"], "t"), "b").with_values(["x", "y"]))
        .assignment(Assignment::new(ObjectName::catalog("c"), "a"))
        .relation(
            Relation::new("p", "b")
                .with_value("x")
                .with_except(Except { users: vec!["u".into(), "v".into()], groups: vec!["g".into()] }),
        )
        .relation(Relation::new("p", "a"))
        .policy(PolicyObject::new("q", "custom", json!({})))
        .policy(PolicyObject::row_filter("p", "filter := true").enabled())
        .tag(Tag::new("b").with_allowed_values(["x", "y"]))
        .tag(Tag::new("a"))
        .build()
        .unwrap();
    let json = Governance::parse(&as_json(MODEL), Format::Json).unwrap();
    for same in [parse(REORDERED), json, built] {
        assert_eq!(same.revision(), model.revision());
        assert_eq!(same.identity_revision(), model.identity_revision());
        let policy = |model: &Governance| {
            let p = model.policies().iter().find(|policy| &*policy.name == "p").unwrap();
            p.compiled.as_ref().unwrap().revision.clone()
        };
        assert_eq!(policy(&same), policy(&model));
    }
    // The same in every process: a change of the layout takes a new domain.
    assert_eq!(
        model.revision().as_str(),
        "sha256:234cb6bb45e906058a719b7f2ec5ffb1719d7c7442c3b3b4fbe6141dfbea0405"
    );
}

#[test]
fn whatever_an_answer_depends_on_is_in_the_revision() {
    let model = parse(MODEL);
    let changes = [
        (r#"allowedValues = ["x", "y"]"#, r#"allowedValues = ["x", "y", "z"]"#),
        (r#"allowedValues = ["x", "y"]"#, ""),
        (r#"name = "q""#, r#"name = "r""#),
        ("custom", "other"),
        ("enabled = true", ""),
        ("enabled = true", "enabled = true\nenforce = false"),
        ("filter := true", "filter := false"),
        ("filter := true", "filter  := true"),
        (r#"{ tag = "a" },"#, ""),
        (r#"value = "x" }"#, r#"value = "y" }"#),
        (r#"selector = { type = "TAG_VALUE", value = "x" },"#, ""),
        (r#"users = ["u", "v"], groups = ["g"]"#, r#"users = ["u"], groups = ["g"]"#),
        (r#"users = ["u", "v"], groups = ["g"]"#, r#"users = ["u", "v", "g"], groups = []"#),
        (r#"users = ["u", "v"], groups = ["g"]"#, r#"groups = ["u", "v"], users = ["g"]"#),
        (r#"object = { catalog = "c" }"#, r#"object = { catalog = "d" }"#),
        (r#"["n", "m"]"#, r#"["nm"]"#),
        (r#"["n", "m"], table = "t""#, r#"["n"], table = "m", column = "t""#),
        (r#"["n", "m"], table = "t""#, r#"["n", "m", "t"]"#),
        ("values = [\"x\", \"y\"]\n\n[groups]", "values = [\"x\"]\n\n[groups]"),
    ];
    let mut revisions = vec![model.revision().clone()];
    for (from, to) in changes {
        assert!(MODEL.contains(from), "{from}");
        let changed = parse(&MODEL.replacen(from, to, 1));
        assert!(!revisions.contains(changed.revision()), "{from} -> {to}");
        assert_eq!(changed.identity_revision(), model.identity_revision(), "{from} -> {to}");
        revisions.push(changed.revision().clone());
    }
    for (from, to) in [(r#""alice", "bob""#, r#""alice""#), ("h = []", ""), ("h = []", r#"h = ["alice"]"#)] {
        let changed = parse(&MODEL.replacen(from, to, 1));
        assert_eq!(changed.revision(), model.revision(), "{from} -> {to}");
        assert_ne!(changed.identity_revision(), model.identity_revision(), "{from} -> {to}");
    }
}

#[test]
fn comments_are_in_no_revision() {
    let model = parse(MODEL);
    let changed = parse(&MODEL.replace("first", "second").replace("[groups]", "[groups] # members"));
    assert_eq!(changed.revision(), model.revision());
    assert_eq!(changed.tags()[0].comment.as_deref(), Some("second"));
}

// ---- a naive reading of the rules ---------------------------------------------------------------

const LEVELS: [&str; 2] = ["a", "b"];
const TAGS: [&str; 3] = ["t0", "t1", "t2"];
const VALUES: [&str; 2] = ["u", "v"];
const POLICIES: [&str; 4] = ["p0", "p1", "p2", "p3"];

#[derive(Clone, Debug)]
struct Model {
    assignments: Vec<Assignment>,
    policies: Vec<PolicyObject>,
    relations: Vec<Relation>,
}

fn namespaces() -> impl Strategy<Value = Vec<String>> {
    vec(prop::sample::select(&LEVELS[..]), 0..3)
        .prop_map(|levels| levels.iter().map(|level| level.to_string()).collect())
}

fn objects() -> impl Strategy<Value = ObjectName> {
    (namespaces(), option::of(0..2_usize), option::of(0..2_usize)).prop_map(|(namespace, table, column)| {
        let table = table.filter(|_| !namespace.is_empty()).map(|index| LEVELS[index].to_owned());
        let column = column.filter(|_| table.is_some()).map(|index| LEVELS[index].to_owned());
        ObjectName { catalog: "c".to_owned(), namespace, table, column }
    })
}

fn values() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(&VALUES[..], 0..=2)
}

fn policies() -> impl Strategy<Value = Vec<PolicyObject>> {
    let policy = (0..3, prop::bool::weighted(0.8), any::<bool>()).prop_map(|(kind, enabled, enforce)| {
        let mut policy = match kind {
            0 => PolicyObject::row_filter("", "filter := true"),
            1 => PolicyObject::column_mask("", "mask := action(\"show-last-4\")"),
            _ => PolicyObject::new("", "other", json!(null)),
        };
        (policy.enabled, policy.enforce) = (enabled, enforce);
        policy
    });
    vec(policy, POLICIES.len()).prop_map(|mut policies| {
        for (policy, name) in policies.iter_mut().zip(POLICIES) {
            policy.name = name.into();
        }
        policies
    })
}

fn models() -> impl Strategy<Value = Model> {
    let tag = || prop::sample::select(&TAGS[..]);
    let assignments = btree_map((objects(), tag()), values(), 0..12);
    let selectors = option::of(prop::sample::select(&VALUES[..]));
    let relations = btree_map((prop::sample::select(&POLICIES[..]), tag()), selectors, 0..8);
    (assignments, policies(), relations).prop_map(|(assignments, policies, relations)| Model {
        assignments: (assignments.into_iter())
            .map(|((object, tag), values)| Assignment::new(object, tag).with_values(values))
            .collect(),
        policies,
        relations: (relations.into_iter())
            .map(|((policy, tag), value)| match value {
                None => Relation::new(policy, tag),
                Some(value) => Relation::new(policy, tag).with_value(value),
            })
            .collect(),
    })
}

impl Model {
    /// The winning assignment of each tag on a chain that is given from the innermost object outwards.
    fn effective_tags(&self, chain: &[ObjectName]) -> Vec<&Assignment> {
        let nearest = |tag: &str| {
            chain.iter().find_map(|object| {
                self.assignments.iter().find(|it| *it.object == *object && &*it.tag == tag)
            })
        };
        TAGS.into_iter().filter_map(nearest).collect()
    }

    /// The assignments that lead to a policy.
    fn selecting(&self, policy: &str, tags: &[&Assignment]) -> Vec<Via> {
        let selects = |winner: &&Assignment| {
            self.relations.iter().any(|relation| {
                *relation.policy == *policy
                    && relation.tag == winner.tag
                    && match &relation.selector {
                        Selector::AllValues => true,
                        Selector::TagValue(value) => winner.values.iter().any(|it| it == value),
                    }
            })
        };
        let via = |winner: &Assignment| {
            let ObjectName { catalog, namespace, table, column } = (*winner.object).clone();
            Via {
                name: winner.tag.to_string(),
                values: winner.values.to_vec(),
                from: Object { catalog, namespace, table, column },
                except: Names::default(),
            }
        };
        tags.iter().copied().filter(selects).map(via).collect()
    }

    fn effective(&self, policy_type: &str, chain: &[ObjectName]) -> Vec<Effective> {
        let tags = self.effective_tags(chain);
        (self.policies.iter().filter(|policy| policy.policy_type == policy_type && policy.enabled))
            .map(|policy| Effective {
                policy: policy.name.to_string(),
                enforce: policy.enforce,
                tags: self.selecting(&policy.name, &tags),
            })
            .filter(|effective| !effective.tags.is_empty())
            .collect()
    }

    fn answer(&self, table: &TableIdent) -> Answer {
        let TableIdent { catalog, namespace, name } = table;
        let mut chain = vec![ObjectName::table(catalog, namespace, name)];
        chain.extend(
            (0..=namespace.len()).rev().map(|depth| ObjectName::namespace(catalog, &namespace[..depth])),
        );
        let column_chain = |column: &str| {
            let column = ObjectName::column(catalog, namespace, name, column);
            std::iter::once(column).chain(chain.clone()).collect::<Vec<_>>()
        };
        let assigned_columns: Vec<&str> = (self.assignments.iter())
            .filter(|it| ObjectName { column: None, ..(*it.object).clone() } == chain[0])
            .filter_map(|it| it.object.column.as_deref())
            .collect();
        Answer {
            row_filters: self.effective("system_row_filter", &chain),
            column_masks: self.effective("system_column_mask", &chain),
            columns: (assigned_columns.iter())
                .map(|column| {
                    (column.to_string(), self.effective("system_column_mask", &column_chain(column)))
                })
                .collect(),
            not_selected: Vec::new(),
        }
    }
}

proptest! {
    #[test]
    fn the_answer_is_that_of_a_naive_reading(model in models(), namespace in namespaces(), name in 0..2_usize) {
        let mut builder = Governance::builder();
        for tag in TAGS {
            builder = builder.tag(Tag::new(tag));
        }
        builder = model.policies.iter().cloned().fold(builder, |builder, policy| builder.policy(policy));
        builder = model.relations.iter().cloned().fold(builder, |builder, relation| builder.relation(relation));
        builder = model.assignments.iter().cloned().fold(builder, |builder, it| builder.assignment(it));
        let governance = builder.build().unwrap();

        let table = TableIdent::new("c", namespace, LEVELS[name]);
        let mut got = Answer::from(&*ask(&governance, &table, Columns::Unknown));
        let reached: Vec<_> = got.row_filters.iter().chain(&got.column_masks).chain(got.columns.values().flatten())
            .map(|effective| effective.policy.clone()).collect();
        for left in std::mem::take(&mut got.not_selected) {
            prop_assert!(!reached.contains(&left.policy), "{left:?} is effective");
            let policy = model.policies.iter().find(|policy| *policy.name == *left.policy).unwrap();
            let reason = match (policy.policy_type.as_str(), policy.enabled) {
                ("other", _) => "other-type",
                (_, false) => "disabled",
                (_, true) => "selector",
            };
            prop_assert_eq!(left.reason, reason);
        }
        prop_assert_eq!(got, model.answer(&table));
    }
}
