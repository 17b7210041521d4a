//! Promise: what an explanation says is what holds for the table as it is, with every tag that led there.

use bytes::Bytes;
use iceberg_read_restrictions::{
    identity::{Membership, Memberships, Subject},
    policy::{Format, Governance, TableIdent},
    resolve::{ExplainRequest, Resolver, UpstreamRestrictions},
    table::LoadResult,
};
use serde_json::{Value, json};

const TAGS: &str = r#"tags = [{ name = "m" }, { name = "f" }]"#;

/// A mask that tag `m` with the value `v` selects.
const MASK_OF_V: &str = r#"
    [[policies]]
    name = "p"
    policyType = "system_column_mask"
    enabled = true
    content.expression = 'mask := action("show-last-4")'
    tags = [{ tag = "m", selector = { type = "TAG_VALUE", value = "v" } }]
"#;

/// A mask that tag `m` selects, whatever its values.
const MASK: &str = r#"
    [[policies]]
    name = "p"
    policyType = "system_column_mask"
    enabled = true
    content.expression = 'mask := action("show-last-4")'
    tags = [{ tag = "m" }]
"#;

/// A filter that tag `f` selects.
const FILTER: &str = r#"
    [[policies]]
    name = "q"
    policyType = "system_row_filter"
    enabled = true
    content.expression = 'filter := col("s") == "x"'
    tags = [{ tag = "f" }]
"#;

fn assign(tag: &str, column: Option<&str>, values: &[&str]) -> String {
    let column = column.map(|column| format!(", column = {column:?}")).unwrap_or_default();
    format!(
        "[[assignments]]\nobject = {{ catalog = \"prod\", namespace = [\"sales\"], table = \"orders\"{column} }}\ntag = {tag:?}\nvalues = {values:?}\n"
    )
}

fn field(id: i32, name: &str) -> Value {
    json!({"id": id, "name": name, "type": "string", "required": false})
}

/// The schemas in list order, the last one current.
fn load(schemas: &[Value], upstream: Option<Value>) -> LoadResult {
    let listed: Vec<_> = schemas
        .iter()
        .enumerate()
        .map(|(id, fields)| json!({"type": "struct", "schema-id": id, "fields": fields}))
        .collect();
    let mut body =
        json!({"metadata": {"format-version": 2, "current-schema-id": schemas.len() - 1, "schemas": listed}});
    if let Some(upstream) = upstream {
        body["read-restrictions"] = upstream;
    }
    LoadResult::read(Bytes::from(body.to_string())).expect("a load result")
}

fn explain(governance: &[String], table: &LoadResult, subject: Option<&str>, resolver: Resolver) -> Value {
    let governance = Governance::parse(&governance.join("\n"), Format::Toml).expect("a valid file");
    let policies = governance.effective_policies_of(&TableIdent::new("prod", ["sales"], "orders"));
    let revision = governance.identity_revision().clone();
    let subject = subject.map(|name| Subject::new(name, revision.clone()));
    let groups =
        Resolver::groups(&policies).into_iter().map(|group| (group.to_owned(), Membership::UnknownGroup));
    let memberships = Memberships::new(revision, groups);
    let explanation = resolver.explain(ExplainRequest {
        policies: &policies,
        subject: subject.as_ref(),
        memberships: Some(&memberships),
        table: Ok(table),
    });
    serde_json::to_value(explanation).expect("JSON")
}

fn alice(governance: &[String], table: &LoadResult) -> Value {
    explain(governance, table, Some("alice"), Resolver::new())
}

#[test]
fn a_mask_that_every_column_shakes_off_governs_nothing() {
    let governance =
        [TAGS.to_owned(), MASK_OF_V.to_owned(), assign("m", None, &["v"]), assign("m", Some("s"), &["w"])];
    let table = load(&[json!([field(1, "s")])], None);
    let explained = explain(&governance, &table, None, Resolver::new());
    assert_eq!(explained["outcome"], "ungoverned");
    assert_eq!(explained["not-selected"], json!([{"policy": "p", "reason": "selector"}]));

    let with_another_column = load(&[json!([field(1, "s"), field(2, "t")])], None);
    assert_eq!(alice(&governance, &with_another_column)["column-masks"][0]["field-id"], 2);
}

#[test]
fn a_mask_that_only_a_dropped_column_inherits_governs_the_table() {
    let governance =
        [TAGS.to_owned(), MASK_OF_V.to_owned(), assign("m", None, &["v"]), assign("m", Some("s"), &["w"])];
    let table = load(&[json!([field(1, "s"), field(2, "dropped")]), json!([field(1, "s")])], None);
    let explained = alice(&governance, &table);
    assert_eq!(explained["outcome"], "restricted");
    assert_eq!(explained["column-masks"][0]["field-id"], 2);
    assert_eq!(explained["not-selected"], json!([]));
    assert_eq!(explain(&governance, &table, None, Resolver::new())["code"], "subject-missing");
}

#[test]
fn a_dropped_column_keeps_the_tags_of_all_its_names() {
    let governance = [
        TAGS.to_owned(),
        MASK.to_owned(),
        assign("m", Some("c0"), &["one"]),
        assign("m", Some("c1"), &["two"]),
    ];
    let schemas = [
        json!([field(1, "s"), field(5, "c0")]),
        json!([field(1, "s"), field(5, "c1")]),
        json!([field(1, "s")]),
    ];
    let explained = alice(&governance, &load(&schemas, None));
    let mask = &explained["column-masks"][0];
    assert_eq!((&mask["field-id"], &mask["column"]), (&json!(5), &json!("c1")));
    assert_eq!(mask["policies"].as_array().map(Vec::len), Some(1));
    let columns: Vec<_> =
        mask["policies"][0]["tags"].as_array().unwrap().iter().map(|tag| &tag["from"]["column"]).collect();
    assert_eq!(columns, ["c0", "c1"]);
}

#[test]
fn joined_projections_are_never_on_map_keys_or_inside_one_another() {
    let conjoin = Resolver::new().with_upstream_restrictions(UpstreamRestrictions::Conjoin);
    let map = json!({"type": "map", "key-id": 10, "key": "string", "value-id": 11, "value": "string", "value-required": false});
    let inner = json!({"type": "struct", "fields": [field(13, "inner")]});
    let fields = json!([field(1, "s"), {"id": 9, "name": "attrs", "type": map, "required": false}, {"id": 12, "name": "st", "type": inner, "required": false}]);
    let governance = [TAGS.to_owned(), MASK.to_owned(), assign("m", Some("s"), &[])];
    for (ids, refused) in [
        (&[10][..], true),
        (&[12, 13], true),
        (&[9, 11], true),
        (&[11], false),
        (&[12], false),
        (&[13], false),
    ] {
        let projections: Vec<_> =
            ids.iter().map(|id| json!({"action": "mask-to-fixed-value", "field-id": id})).collect();
        let table =
            load(std::slice::from_ref(&fields), Some(json!({"required-column-projections": projections})));
        let explained = explain(&governance, &table, Some("alice"), conjoin);
        let outcome = if refused { "refused" } else { "restricted" };
        assert_eq!(explained["outcome"], outcome, "{ids:?}: {explained}");
    }
}

#[test]
fn joined_filters_are_no_longer_than_they_have_to_be() {
    let conjoin = Resolver::new().with_upstream_restrictions(UpstreamRestrictions::Conjoin);
    let governance = [TAGS.to_owned(), FILTER.to_owned(), assign("f", None, &[])];
    let ours = json!({"type": "eq", "left": {"type": "reference", "id": 1}, "right": {"type": "literal", "value": "x", "data-type": "string"}});
    let other = json!({"type": "not-null", "child": {"type": "reference", "id": 1}});
    for (upstream, joined) in [
        (json!(false), json!(false)),
        (json!({"type": "false"}), json!(false)),
        (ours.clone(), ours.clone()),
        (other.clone(), json!({"type": "and", "left": other, "right": ours})),
    ] {
        let table = load(&[json!([field(1, "s")])], Some(json!({"required-row-filter": upstream})));
        let explained = explain(&governance, &table, Some("alice"), conjoin);
        assert_eq!(explained["read-restrictions"], json!({"required-row-filter": joined}));
    }
}
