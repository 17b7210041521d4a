//! Which policies apply to a table and its columns, and which models are refused: the cases in
//! `fixtures/policy_on_tag`, revisions, and a comparison with a naive reading of the rules.

use std::{collections::BTreeMap, sync::Arc};

use iceberg_read_restrictions::policy::{
    Columns, EffectivePolicies, EffectivePolicy, Format, Governance, ObjectName, PolicySource, Selection,
    TableIdent, TableRequest,
};
use serde::Deserialize;

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

fn ask(source: &dyn PolicySource, table: &TableIdent) -> Arc<EffectivePolicies> {
    let request = TableRequest { table, uuid: None, columns: Columns::Unknown };
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
                let got = ask(source, &table);
                assert_eq!(Answer::from(&*got), answer, "{says}: {table:?}");
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
