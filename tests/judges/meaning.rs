//! The source, branch by branch, by the naive evaluator, against everything that is made of it.

use std::collections::BTreeMap;

use iceberg_read_restrictions::restriction::{Value, evaluate};
use jsonschema::Validator;
use serde_json::Value as Json;

use super::{
    dialect::{Dialect, NULLS_FIRST, SPECIFICATION, Wire},
    generate::{Rule, Table, askers, domains},
    naive::Meaning,
    policy::{load_result, resolve, row_filter},
    random::Random,
};

const RULES: usize = 700;
const ROWS: usize = 24;

/// What the REST schema allows, and what of it this crate emits.
fn shapes() -> [Validator; 2] {
    let schemas = [
        include_str!("../fixtures/openapi/read-restrictions.json"),
        include_str!("../fixtures/openapi/emitted.json"),
    ];
    schemas.map(|schema| {
        let schema = serde_json::from_str(schema).expect("JSON");
        jsonschema::validator_for(&schema).expect("a JSON Schema")
    })
}

#[test]
fn a_hundred_thousand_cases_keep_the_same_rows_in_source_predicate_and_every_reader() {
    let mut random = Random::for_test("meaning");
    let (domains, askers, shapes) = (domains(), askers(), shapes());
    let (mut cases, mut kept) = (0, 0);
    for _ in 0..RULES {
        let table = Table::random(&mut random, &domains, ROWS);
        let rule = Rule::random(&mut random, &table, &domains, 2);
        let source = rule.source(&table, &domains);
        let loaded = load_result(&table.fields(&domains));
        let policies = row_filter(&source);
        for asker in &askers {
            let resolution = resolve(&policies, &loaded, asker);
            let member: Json =
                resolution.member().map_or(Json::Null, |member| serde_json::from_str(member).expect("JSON"));
            if !member.is_null() {
                let mut errors = shapes.iter().flat_map(|shape| shape.iter_errors(&member));
                assert!(errors.next().is_none(), "not the shape: {member:#}\n{source}");
            }
            let wire = Wire::read(member.get("required-row-filter").unwrap_or(&Json::Bool(true)));
            let predicate = &resolution.row_filter().expect("a row filter").predicate;
            for row in &table.rows {
                let expected = Meaning { table: &table, domains: &domains, asker, row }.keeps(&rule);
                let context = || format!("{source}\n{} {:?}\n{row:?}\n{member}", asker.name, asker.groups);
                let by_id: BTreeMap<_, _> = (0..).map(Table::id).zip(row.iter().cloned()).collect();
                assert_eq!(evaluate(predicate, &by_id), Ok(expected), "reference\n{}", context());
                for dialect in Dialect::all() {
                    let keeps = wire.keeps(dialect, &|id| &row[id as usize - 1]);
                    assert_eq!(keeps, expected, "{dialect:?}\n{}", context());
                }
                cases += 1;
                kept += usize::from(expected);
            }
        }
    }
    assert!(cases >= 100_000, "only {cases} cases");
    // A generator whose rules are nearly all true or nearly all false would prove little.
    assert!((cases / 4..cases * 3 / 4).contains(&kept), "{kept} of {cases} kept");
}

/// The dialects do differ, or their agreement on what is sent would be no proof.
#[test]
fn the_dialects_disagree_on_bare_comparisons() {
    let bare = |text: &str| Wire::read(&serde_json::from_str(text).expect("JSON"));
    let below = |literal: &str| {
        bare(&format!(
            r#"{{"type":"lt","left":{{"type":"reference","id":1}},"right":{{"type":"literal","value":{literal},"data-type":"double"}}}}"#
        ))
    };
    let above = bare(
        r#"{"type":"gt","left":{"type":"reference","id":1},"right":{"type":"literal","value":0.0,"data-type":"double"}}"#,
    );
    for (wire, value) in
        [(below("0.0"), Value::Null), (below("0.0"), Value::Double(-0.0)), (above, Value::Double(f64::NAN))]
    {
        let keeps = |dialect| wire.keeps(dialect, &|_| &value);
        assert_ne!(keeps(NULLS_FIRST), keeps(SPECIFICATION), "{value:?}");
    }
}
