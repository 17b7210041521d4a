//! Generated rules with what they say and what is sent for them.

use iceberg::spec::Schema;
use serde_json::{Value as Json, json};

use crate::{
    generate::{Asker, Rule, Table, askers, domains},
    naive::Meaning,
    policy::{load_result, resolve, row_filter},
    random::Random,
};

/// A table and the row filters that were sent for it.
pub struct Case {
    pub table: Table,
    /// The fields in the JSON of the table specification.
    pub fields: Json,
    pub filters: Vec<Filter>,
}

/// What one asker gets of one rule.
pub struct Filter {
    pub source: String,
    pub asker: &'static str,
    /// The text of `read-restrictions`.
    pub member: String,
    /// Which rows the rule keeps.
    pub keeps: Vec<bool>,
}

impl Case {
    pub fn schema(&self) -> Schema {
        let schema = json!({"type": "struct", "schema-id": 0, "fields": self.fields});
        serde_json::from_value(schema).expect("a schema")
    }

    /// The schema with a column `row` behind the others, for the number of each row, and the id of that column.
    pub fn numbered_schema(&self) -> (Schema, usize) {
        let id = self.table.columns.len() + 1;
        let mut fields = self.fields.clone();
        let row = json!({"id": id, "name": "row", "type": "int", "required": true});
        fields.as_array_mut().expect("fields").push(row);
        let schema = json!({"type": "struct", "schema-id": 0, "fields": fields});
        (serde_json::from_value(schema).expect("a schema"), id)
    }
}

impl Filter {
    /// The row filter in the wire form.
    pub fn wire(&self) -> Json {
        let member: Json = serde_json::from_str(&self.member).expect("JSON");
        member.get("required-row-filter").cloned().unwrap_or(json!(true))
    }

    /// Panics with what it takes to understand why, unless these are the rows that the rule keeps.
    pub fn check(&self, judge: &str, case: &Case, kept: &[bool]) {
        assert_eq!(kept.len(), self.keeps.len(), "{judge}");
        for (index, row) in case.table.rows.iter().enumerate() {
            assert_eq!(
                kept[index],
                self.keeps[index],
                "{judge}\n{}\n{}\n{}\n{row:?}\n{}",
                self.source,
                self.asker,
                case.fields,
                self.wire()
            );
        }
    }
}

pub fn cases(random: &mut Random, tables: usize, rows: usize, rules: usize) -> Vec<Case> {
    let (domains, askers) = (domains(), askers());
    let case = |_| {
        let table = Table::random(random, &domains, rows);
        let fields = table.fields(&domains);
        let loaded = load_result(&fields);
        let filter = |_| {
            let rule = Rule::random(random, &table, &domains, 2);
            let source = rule.source(&table, &domains);
            let asker: &Asker = random.choose(&askers);
            let resolution = resolve(&row_filter(&source), &loaded, asker);
            let keeps = |row: &Vec<_>| Meaning { table: &table, domains: &domains, asker, row }.keeps(&rule);
            Filter {
                source,
                asker: asker.name,
                member: resolution.member().unwrap_or("{}").to_owned(),
                keeps: table.rows.iter().map(keeps).collect(),
            }
        };
        let filters = (0..rules).map(filter).collect();
        Case { table, fields, filters }
    };
    (0..tables).map(case).collect()
}
