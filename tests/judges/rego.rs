//! The same rules run by a Rego engine, `regorus`.
//!
//! Most source texts of the language are Rego and run as they are, below a prelude that defines the names of the
//! language. What is no Rego is the infix `and` and `or`, and `not` anywhere but in front of a whole condition. A rule
//! with one of these is printed anew, operand by operand: `a and b` as `all_of([a, b])`, `a or b` as `any_of([a, b])`,
//! `not a` as `negation(a)`, functions that the prelude writes in Rego.
//!
//! Each difference in meaning has a test of its own below; the rules that are generated keep clear of them.

use iceberg_read_restrictions::restriction::{Action, Value};
use regorus::Engine;
use serde_json::{Map, Value as Json, json};

use super::{
    generate::{Asker, Domain, Leaf, Rule, Table, Tree, askers, domains},
    naive::Meaning,
    policy::{column_mask, load_result, resolve},
    random::Random,
    values::to_json,
};

const PRELUDE: &str = r#"
package policy

import rego.v1

col(name) := input.row[name]

session_user() := input.user

is_group_member(group) := input.groups[group]

action(name) := name

all_of(operands) if {
    every operand in operands { operand }
} else := false

any_of(operands) if {
    some operand in operands
    operand
} else := false

negation(operand) := operand == false
"#;

/// A rule below the prelude; the error is that of the engine's parser.
fn engine(rule: &str) -> Result<Engine, String> {
    let mut engine = Engine::new();
    match engine.add_policy("policy.rego".into(), format!("{PRELUDE}\n{rule}\n")) {
        Ok(_) => Ok(engine),
        Err(error) => Err(error.to_string()),
    }
}

/// What the rule says, as JSON; `null` where Rego has no answer at all.
fn answer(engine: &mut Engine, rule: &str, input: &Json) -> Json {
    engine.set_input(regorus::Value::from_json_str(&input.to_string()).expect("JSON"));
    let value = engine.eval_rule(format!("data.policy.{rule}")).expect("a rule that runs");
    match value {
        regorus::Value::Undefined => Json::Null,
        value => serde_json::from_str(&value.to_string()).expect("JSON"),
    }
}

fn input(asker: &Asker, row: Json) -> Json {
    let groups: Map<_, _> =
        asker.groups.iter().map(|(group, member)| ((*group).to_owned(), json!(member))).collect();
    json!({"user": asker.name, "groups": groups, "row": row})
}

/// A value as Rego holds it: decimals are numbers there.
fn rego_value(value: &Value) -> Json {
    match value {
        Value::Decimal { .. } => {
            serde_json::from_str(to_json(value).as_str().expect("digits")).expect("a number")
        }
        other => to_json(other),
    }
}

/// The domains without what Rego sees otherwise.
fn rego_domains() -> Vec<Domain> {
    let mut domains = domains();
    domains.retain(|domain| domain.data_type != "decimal(38, 10)");
    for domain in &mut domains {
        domain.values.retain(|value| match value {
            Value::Float(value) => value.is_finite(),
            Value::Double(value) => value.is_finite(),
            _ => true,
        });
    }
    domains
}

/// A rule in real Rego.
struct Printer<'a> {
    table: &'a Table,
    domains: &'a [Domain],
}

impl Printer<'_> {
    fn rule(&self, rule: &Rule) -> String {
        let branch =
            |(result, condition)| format!("{} if {}\nelse := ", self.tree(result), self.tree(condition));
        let branches: String =
            rule.branches.iter().map(|(result, condition)| branch((result, condition))).collect();
        format!("filter := {branches}{}", self.tree(&rule.fallback))
    }

    fn tree(&self, tree: &Tree) -> String {
        let all =
            |children: &[Tree]| children.iter().map(|child| self.tree(child)).collect::<Vec<_>>().join(", ");
        match tree {
            Tree::Constant(value) => value.to_string(),
            Tree::Not(child) => format!("negation({})", self.tree(child)),
            Tree::And(children) => format!("all_of([{}])", all(children)),
            Tree::Or(children) => format!("any_of([{}])", all(children)),
            Tree::Leaf(leaf) => {
                format!("({})", leaf.source_with(self.table, |column, literal| self.literal(column, literal)))
            }
        }
    }

    /// Typed by the column, so that a time has its six digits and an `int` no fraction.
    fn literal(&self, column: usize, literal: usize) -> String {
        rego_value(&self.domains[self.table.columns[column].domain].literals[literal].1).to_string()
    }

    /// Whether the source text is Rego and means the same there.
    fn is_rego(&self, rule: &Rule) -> bool {
        let condition = |tree: &Tree| match tree {
            Tree::Not(child) => self.is_plain(child),
            other => self.is_plain(other),
        };
        self.is_plain(&rule.fallback)
            && rule.branches.iter().all(|(result, when)| self.is_plain(result) && condition(when))
    }

    /// A constant, or a leaf whose literals are strings of the column's own spelling, or numbers.
    fn is_plain(&self, tree: &Tree) -> bool {
        let plain = |column: usize, literal: usize| {
            let domain = &self.domains[self.table.columns[column].domain];
            let (text, _) = &domain.literals[literal];
            !text.starts_with('"') || *text == self.literal(column, literal)
        };
        match tree {
            Tree::Constant(_) => true,
            Tree::Not(_) | Tree::And(_) | Tree::Or(_) => false,
            Tree::Leaf(Leaf::Compare { column, literal, .. }) => plain(*column, *literal),
            Tree::Leaf(Leaf::In { column, literals }) => {
                literals.iter().all(|literal| plain(*column, *literal))
            }
            Tree::Leaf(_) => true,
        }
    }
}

#[test]
fn generated_filters_keep_the_rows_that_rego_keeps() {
    let mut random = Random::for_test("rego");
    let (domains, askers) = (rego_domains(), askers());
    let (mut as_they_are, mut printed_anew) = (0, 0);
    for round in 0..400 {
        let table = Table::random(&mut random, &domains, 6);
        // Every other rule has no connectives, so that its text has a chance to be Rego.
        let rule = Rule::random(&mut random, &table, &domains, (round % 2) * 2);
        let printer = Printer { table: &table, domains: &domains };
        let source = rule.source(&table, &domains);
        let text = if printer.is_rego(&rule) { source.clone() } else { printer.rule(&rule) };
        *(if text == source { &mut as_they_are } else { &mut printed_anew }) += 1;
        let mut engine = engine(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        for row in &table.rows {
            let names = table.columns.iter().map(|column| column.name.clone());
            let row_json: Json = names.zip(row.iter().map(rego_value)).collect::<Map<_, _>>().into();
            let asker = random.choose(&askers);
            let expected = Meaning { table: &table, domains: &domains, asker, row }.keeps(&rule);
            let input = input(asker, row_json);
            assert_eq!(answer(&mut engine, "filter", &input), json!(expected), "{source}\n{text}\n{input}");
        }
    }
    assert!(as_they_are > 50 && printed_anew > 100, "{as_they_are} as they are, {printed_anew} printed anew");
}

#[test]
fn masks_pick_the_action_that_rego_picks() {
    let fields = json!([{"id": 1, "name": "phone", "type": "string", "required": false}]);
    let table = load_result(&fields);
    for source in [
        r#"mask := action("show-last-4")"#,
        r#"mask := action("show-last-4") if is_group_member("auditors") else := action("replace-with-null")"#,
        r#"mask := action("show-first-4") if not is_group_member("auditors") else := action("sha-256-global")"#,
        r#"mask := action("mask-alphanum") if session_user() == "alice"
           else := action("show-last-4") if is_group_member("owners")
           else := action("mask-to-fixed-value")"#,
        r#"mask := action("mask-alphanum") if session_user() in ["bob", "US"] else := action("show-first-4") if true else := action("sha-256-query-local")"#,
    ] {
        let mut engine = engine(source).expect("Rego as it is");
        for asker in askers() {
            let resolution = resolve(&column_mask("phone", source), &table, &asker);
            let [projection] = resolution.restrictions().projections() else { panic!("{source}: one mask") };
            let picked: Action = answer(&mut engine, "mask", &input(&asker, json!({})))
                .as_str()
                .expect("a name")
                .parse()
                .expect("an action");
            assert_eq!(projection.action, picked, "{source} {} {:?}", asker.name, asker.groups);
        }
    }
}

/// The answer of Rego to a filter over one column `x`, asked by nobody in particular.
fn rego(filter: &str, x: &str) -> Json {
    let mut engine =
        engine(&format!("filter := {filter}")).unwrap_or_else(|error| panic!("{filter}\n{error}"));
    let input = format!(r#"{{"user": "alice", "groups": {{"auditors": false}}, "row": {{"x": {x}}}}}"#);
    answer(&mut engine, "filter", &serde_json::from_str(&input).expect("JSON"))
}

/// What this crate keeps of a column `x` with one value, under the same filter.
fn ours(filter: &str, data_type: &str, x: Value) -> Json {
    let fields = json!([{"id": 1, "name": "x", "type": data_type, "required": false}]);
    let policies = super::policy::row_filter(&format!("filter := {filter}"));
    let asker = Asker { name: "alice", groups: [("auditors", false), ("owners", false)] };
    let resolution = resolve(&policies, &load_result(&fields), &asker);
    let predicate = &resolution.row_filter().expect("a row filter").predicate;
    let row = std::collections::BTreeMap::from([(1, x)]);
    json!(iceberg_read_restrictions::restriction::evaluate(predicate, &row).expect("a value of the type"))
}

#[test]
fn difference_infix_and_or_and_inner_not_are_no_rego() {
    for filter in [
        r#"col("x") == 1 and true"#,
        r#"col("x") == 1 or true"#,
        r#"not col("x") == 1"#,
        r#"true if is_group_member("auditors") and true else := false"#,
        r#"true if (not true) else := false"#,
    ] {
        assert!(engine(&format!("filter := {filter}")).is_err(), "{filter}");
    }
    // In front of a whole condition `not` is Rego's own, with the meaning that it has here.
    assert_eq!(rego(r#"true if not col("x") == 1 else := false"#, "2"), json!(true));
    assert_eq!(rego(r#"true if not (col("x") == 1) else := false"#, "1"), json!(false));
}

/// No difference, though not a matter of course: Rego orders values of all types, null before every other, which is
/// what the language says of `<` and `<=` on a null. The published expression specification does not.
#[test]
fn no_difference_null_is_below_everything() {
    for (filter, expected) in [
        (r#"col("x") < 5"#, true),
        (r#"col("x") <= 5"#, true),
        (r#"col("x") > 5"#, false),
        (r#"col("x") >= 5"#, false),
        (r#"col("x") == 5"#, false),
        (r#"col("x") != 5"#, true),
        (r#"5 > col("x")"#, true),
        (r#"col("x") in [5, 6]"#, false),
        (r#"col("x") == null"#, true),
        (r#"col("x") != null"#, false),
    ] {
        assert_eq!(rego(filter, "null"), json!(expected), "{filter}");
        assert_eq!(ours(filter, "int", Value::Null), json!(expected), "{filter}");
    }
}

/// Rego's numbers are JSON's, so that there is no NaN and no infinity for it to judge. The dialects and the readers
/// judge those.
#[test]
fn difference_rego_has_no_nan() {
    for text in ["NaN", "Infinity", "-Infinity"] {
        assert!(regorus::Value::from_json_str(text).is_err(), "{text}");
    }
    assert_eq!(ours(r#"not (col("x") < 0.5)"#, "double", Value::Double(f64::NAN)), json!(true));
    assert_eq!(ours(r#"col("x") < 0.5"#, "double", Value::Double(f64::NAN)), json!(false));
}

/// No difference: both zeros are one number.
#[test]
fn no_difference_both_zeros_are_one() {
    for (filter, expected) in [
        (r#"col("x") == 0"#, true),
        (r#"col("x") == -0.0"#, true),
        (r#"col("x") < 0"#, false),
        (r#"col("x") >= 0.0"#, true),
        (r#"col("x") in [0]"#, true),
    ] {
        assert_eq!(rego(filter, "-0.0"), json!(expected), "{filter}");
        assert_eq!(ours(filter, "double", Value::Double(-0.0)), json!(expected), "{filter}");
    }
}

/// Rego knows no times: texts are equal when they are the same text.
#[test]
fn difference_rego_compares_times_as_text() {
    let filter = r#"col("x") == "12:30:00""#;
    assert_eq!(rego(filter, r#""12:30:00.000000""#), json!(false));
    assert_eq!(ours(filter, "time", Value::Time(45_000_000_000)), json!(true));
}

/// The engine's numbers with a fraction are doubles.
#[test]
fn difference_rego_rounds_long_decimals() {
    let filter = r#"col("x") == 1234567890123456789012345678.1234567891"#;
    let other = Value::Decimal {
        unscaled: 12_345_678_901_234_567_890_123_456_781_234_567_890,
        precision: 38,
        scale: 10,
    };
    assert_eq!(rego(filter, "1234567890123456789012345678.1234567890"), json!(true));
    assert_eq!(ours(filter, "decimal(38, 10)", other), json!(false));
}

/// A float is compared as the number that people write for it, not as the double that it widens to.
#[test]
fn difference_rego_does_not_round_literals_to_floats() {
    let filter = r#"col("x") == 0.1"#;
    assert_eq!(rego(filter, &format!("{}", f64::from(0.1_f32))), json!(false));
    assert_eq!(ours(filter, "float", Value::Float(0.1)), json!(true));
}

/// What does not exist is undefined in Rego, and a condition that is undefined is not true: the rule goes on to the next
/// branch. Here a group that nobody defined, or a column that is not there, refuses the load.
#[test]
fn difference_rego_goes_on_where_something_is_missing() {
    assert_eq!(rego(r#"false if is_group_member("nobody") else := true"#, "1"), json!(true));
    assert_eq!(rego(r#"false if col("y") == 1 else := true"#, "1"), json!(true));
    assert_eq!(rego(r#"col("y") == 1"#, "1"), Json::Null);
}

/// Rego orders a number before every text, so that a wrong literal is a comparison like any other. Here it is refused.
#[test]
fn difference_rego_compares_values_of_different_types() {
    assert_eq!(rego(r#"col("x") < "US""#, "5"), json!(true));
}
