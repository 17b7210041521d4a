//! Promise: however a policy is written, equal meaning in the ways that the language names has one signature,
//! and every branch counts.

use std::sync::Arc;

use bytes::Bytes;
use iceberg_read_restrictions::{
    expression::Expression,
    identity::{Membership, Memberships, Subject},
    policy::{ContentError, EffectivePolicies, EffectivePolicy, Policy, PolicyType},
    resolve::{ResolveError, ResolveRequest, Resolver},
    source::Revision,
    table::LoadResult,
};
use proptest::prelude::*;

/// A condition of the language, to be spelled in many ways.
#[derive(Clone, Debug)]
enum Spelled {
    Constant(bool),
    Compare(&'static str, &'static str, String),
    In(&'static str, Vec<String>),
    Member(&'static str),
    Not(Box<Spelled>),
    Chain(&'static str, Vec<Spelled>),
}

impl Spelled {
    fn source(&self) -> String {
        match self {
            Self::Constant(value) => value.to_string(),
            Self::Compare(column, operator, literal) => format!("col(\"{column}\") {operator} {literal}"),
            Self::In(column, values) => format!("col(\"{column}\") in [{}]", values.join(", ")),
            Self::Member(group) => format!("is_group_member(\"{group}\")"),
            Self::Not(child) => format!("not ({})", child.source()),
            Self::Chain(word, children) => {
                let children: Vec<_> = children.iter().map(|child| format!("({})", child.source())).collect();
                children.join(&format!(" {word} "))
            }
        }
    }

    /// The same meaning in another spelling: operands swapped, clauses reversed and repeated, values
    /// permuted and repeated, and at the leaves a double negation.
    fn respelled(&self) -> String {
        match self {
            Self::Constant(value) => format!("not not {value}"),
            Self::Compare(column, operator, literal) => {
                format!("not not {literal} {} (col(\"{column}\"))", mirrored(operator))
            }
            Self::In(column, values) => {
                let values: Vec<_> = values.iter().rev().chain(values).cloned().collect();
                format!("(col(\"{column}\")) in [{}]", values.join(","))
            }
            Self::Member(group) => format!("( is_group_member ( \"{group}\" ) )"),
            Self::Not(child) => format!("not({})", child.respelled()),
            Self::Chain(word, children) => {
                let mut spelled: Vec<_> =
                    children.iter().rev().map(|child| format!("({})", child.respelled())).collect();
                spelled.push(format!("({})", children[0].source()));
                spelled.join(&format!("\n{word}\t"))
            }
        }
    }
}

fn mirrored(operator: &str) -> &str {
    match operator {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        same => same,
    }
}

fn condition() -> impl Strategy<Value = Spelled> {
    let operator = || prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let number = || (-3i8..3).prop_map(|number| format!("{number}.0"));
    let text = || prop::sample::select(vec!["\"a\"", "\"\\u0061\"", "\"b\""]).prop_map(str::to_owned);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Spelled::Constant),
        (prop::sample::select(vec!["n", "m", "d"]), operator(), number())
            .prop_map(|(column, operator, literal)| Spelled::Compare(column, operator, literal)),
        (operator(), text()).prop_map(|(operator, literal)| Spelled::Compare("s", operator, literal)),
        (prop::sample::select(vec!["==", "!="])).prop_map(|operator| Spelled::Compare(
            "s",
            operator,
            "null".into()
        )),
        prop::collection::vec(number(), 1..4).prop_map(|values| Spelled::In("d", values)),
        prop::collection::vec(text(), 1..4).prop_map(|values| Spelled::In("s", values)),
        prop::sample::select(vec!["in", "out"]).prop_map(Spelled::Member),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|child| Spelled::Not(Box::new(child))),
            (prop::sample::select(vec!["and", "or"]), prop::collection::vec(inner, 2..4))
                .prop_map(|(word, children)| Spelled::Chain(word, children)),
        ]
    })
}

/// The signature of a filter for a fixed subject and table.
fn signature(source: &str) -> Result<String, ResolveError> {
    let body = r#"{"metadata":{"format-version":2,"current-schema-id":0,"schemas":[{"type":"struct","schema-id":0,"fields":[
        {"id":1,"name":"n","required":false,"type":"int"},{"id":2,"name":"m","required":true,"type":"long"},
        {"id":3,"name":"d","required":false,"type":"double"},{"id":4,"name":"s","required":false,"type":"string"}]}]}}"#;
    let table = LoadResult::read(Bytes::from_static(body.as_bytes())).expect("a load result");
    let revision = Revision::new("1");
    let mut policies = EffectivePolicies::none(revision.clone());
    policies.row_filters.push(EffectivePolicy {
        policy: Arc::new(Policy {
            name: "p".into(),
            revision: revision.clone(),
            policy_type: PolicyType::RowFilter,
            enforce: true,
            expression: Expression::parse(source).map_err(ContentError::Expression),
        }),
        selections: Vec::new(),
    });
    let subject = Subject::new("alice", revision.clone());
    let answers = [("in".to_owned(), Membership::Member), ("out".to_owned(), Membership::NotMember)];
    let memberships = Memberships::new(revision, answers);
    let resolution = Resolver::new().resolve(ResolveRequest {
        policies: &policies,
        subject: Some(&subject),
        memberships: Some(&memberships),
        table: &table,
    })?;
    Ok(resolution.row_filter().expect("one filter").signature().to_string())
}

proptest! {
    #[test]
    fn respelling_a_condition_keeps_its_signature(condition in condition()) {
        let plain = format!("filter := {}", condition.source());
        let respelled = format!("filter:={}", condition.respelled());
        match (signature(&plain), signature(&respelled)) {
            (Ok(plain), Ok(respelled)) => prop_assert_eq!(plain, respelled),
            // A double negation may bring a source over the depth limit; nothing else may differ.
            (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("deep"), "{}", error),
            (Err(error), _) => prop_assert!(false, "{plain}: {error}"),
        }
    }

    #[test]
    fn a_double_negation_of_the_whole_keeps_the_signature(condition in condition()) {
        let source = condition.source();
        let (plain, negated) = (signature(&format!("filter := {source}")), signature(&format!("filter := not not ({source})")));
        match (plain, negated) {
            (Ok(plain), Ok(negated)) => prop_assert_eq!(plain, negated),
            (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("deep"), "{}", error),
            (Err(error), _) => prop_assert!(false, "{source}: {error}"),
        }
    }

    #[test]
    fn a_decision_list_is_its_disjunction(c1 in condition(), r1 in condition(), c2 in condition(), r2 in condition(), f in condition()) {
        let [c1, r1, c2, r2, f] = [c1, r1, c2, r2, f].map(|condition| format!("({})", condition.source()));
        let list = format!("filter := {r1} if {c1} else := {r2} if {c2} else := {f}");
        let lowered = format!("filter := {c1} and {r1} or not {c1} and {c2} and {r2} or not {c1} and not {c2} and {f}");
        match (signature(&list), signature(&lowered)) {
            (Ok(list), Ok(lowered)) => prop_assert_eq!(list, lowered),
            (list, lowered) => {
                // Written out, the same rule may exceed a limit of the source; as a list, that of the result.
                let mut errors = list.err().into_iter().chain(lowered.err());
                prop_assert!(errors.all(|error| error.to_string().contains("deep") || error.to_string().contains("nodes")));
            }
        }
    }
}
