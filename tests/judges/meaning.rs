//! The source, branch by branch, by a naive evaluator, against everything that is made of it.

use std::{cmp::Ordering, collections::BTreeMap};

use iceberg_read_restrictions::restriction::{Value, evaluate};
use serde_json::Value as Json;

use super::{
    dialect::{Dialect, NULLS_FIRST, SPECIFICATION, Wire, order},
    generate::{Asker, Domain, Leaf, Operator, Rule, Table, Tree, askers, domains},
    policy::{load_result, resolve, row_filter},
    random::Random,
};

/// What the language says about a rule: the first branch whose condition is true, and plain logic on the tables
/// for null and NaN.
pub struct Meaning<'a> {
    pub table: &'a Table,
    pub domains: &'a [Domain],
    pub asker: &'a Asker,
    pub row: &'a [Value],
}

impl Meaning<'_> {
    pub fn keeps(&self, rule: &Rule) -> bool {
        let first = rule.branches.iter().find(|(_, condition)| self.holds(condition));
        self.holds(first.map_or(&rule.fallback, |(result, _)| result))
    }

    fn holds(&self, tree: &Tree) -> bool {
        match tree {
            Tree::Constant(value) => *value,
            Tree::Not(child) => !self.holds(child),
            Tree::And(children) => children.iter().all(|child| self.holds(child)),
            Tree::Or(children) => children.iter().any(|child| self.holds(child)),
            Tree::Leaf(leaf) => self.leaf(leaf),
        }
    }

    fn leaf(&self, leaf: &Leaf) -> bool {
        match leaf {
            Leaf::Compare { column, operator, literal, .. } => {
                self.compare(*column, *operator, self.literal(*column, *literal))
            }
            Leaf::IsNull { column, negated, .. } => (self.row[*column] == Value::Null) != *negated,
            Leaf::In { column, literals } => {
                let equals =
                    |literal: &usize| self.compare(*column, Operator::Eq, self.literal(*column, *literal));
                literals.iter().any(equals)
            }
            Leaf::ColumnIsUser { column, negated, .. } => {
                let operator = if *negated { Operator::NotEq } else { Operator::Eq };
                self.compare(*column, operator, &Value::String(self.asker.name.into()))
            }
            Leaf::UserIs { name, negated, .. } => (self.asker.name == *name) != *negated,
            Leaf::UserIn(names) => names.contains(&self.asker.name),
            Leaf::Member(group) => self.asker.groups.iter().any(|(name, member)| name == group && *member),
        }
    }

    fn literal(&self, column: usize, literal: usize) -> &Value {
        &self.domains[self.table.columns[column].domain].literals[literal].1
    }

    fn compare(&self, column: usize, operator: Operator, literal: &Value) -> bool {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let value = &self.row[column];
        if *value == Value::Null {
            return matches!(operator, NotEq | Lt | LtEq);
        }
        let Some(order) = order(value, literal) else { return operator == NotEq };
        match operator {
            Eq => order == Ordering::Equal,
            NotEq => order != Ordering::Equal,
            Lt => order == Ordering::Less,
            LtEq => order != Ordering::Greater,
            Gt => order == Ordering::Greater,
            GtEq => order != Ordering::Less,
        }
    }
}

const RULES: usize = 700;
const ROWS: usize = 24;

#[test]
fn a_hundred_thousand_cases_keep_the_same_rows_in_source_predicate_and_every_reader() {
    let mut random = Random::for_test("meaning");
    let (domains, askers) = (domains(), askers());
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
