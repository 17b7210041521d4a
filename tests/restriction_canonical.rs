//! Promise: a filter has one canonical form and one signature, however it is written.

mod restriction;

use std::collections::BTreeMap;

use iceberg_read_restrictions::{
    restriction::{
        Action, ComparisonOperator, Literal, Predicate, Projection, Reference, SetOperator, evaluate,
    },
    table::PrimitiveType,
};
use proptest::{prelude::*, test_runner::TestRng};
use restriction::{COLUMNS, Filter, filters, leaves, rows, values};
use sha2::{Digest, Sha256};

/// The same filter written in another way.
fn rewritten(filter: Filter, rng: &mut TestRng) -> Filter {
    let below = |limit: usize, rng: &mut TestRng| rng.next_u32() as usize % limit;
    let filter = match filter {
        Filter::And(children) => chain(children, true, rng),
        Filter::Or(children) => chain(children, false, rng),
        Filter::Not(child) => rewritten(*child, rng).not(),
        Filter::In { column, mut literals } => {
            literals.push(literals[below(literals.len(), rng)]);
            let turn = below(literals.len(), rng);
            literals.rotate_left(turn);
            Filter::In { column, literals }
        }
        // An ordering of floats and its opposite are both false for NaN.
        Filter::Compare { column, operator, literal }
            if !(operator.is_ordering() && is_floating(column)) && below(2, rng) == 0 =>
        {
            Filter::Compare { column, operator: operator.negated(), literal }.not()
        }
        Filter::IsNull { column, negated } if below(2, rng) == 0 => {
            Filter::IsNull { column, negated: !negated }.not()
        }
        leaf => leaf,
    };
    if below(4, rng) == 0 { filter.not().not() } else { filter }
}

fn is_floating(column: usize) -> bool {
    matches!(COLUMNS[column].data_type, PrimitiveType::Float | PrimitiveType::Double)
}

/// Permuted, with a repeated child and a neutral constant, partly grouped, and sometimes as De Morgan has it.
fn chain(children: Vec<Filter>, and: bool, rng: &mut TestRng) -> Filter {
    let of = |and: bool, children| if and { Filter::And(children) } else { Filter::Or(children) };
    let mut children: Vec<_> = children.into_iter().map(|child| rewritten(child, rng)).collect();
    let mut below = |limit: usize| rng.next_u32() as usize % limit;
    children.push(children[below(children.len())].clone());
    children.push(Filter::Constant(and));
    for index in (1..children.len()).rev() {
        children.swap(index, below(index + 1));
    }
    let group = children.split_off(below(children.len()));
    children.push(of(and, group));
    if below(3) == 0 {
        of(!and, children.into_iter().map(Filter::not).collect()).not()
    } else {
        of(and, children)
    }
}

fn rewritings() -> impl Strategy<Value = (Filter, Filter)> {
    filters().prop_perturb(|filter, mut rng| (filter.clone(), rewritten(filter, &mut rng)))
}

proptest! {
    #[test]
    fn the_canonical_form_is_its_own_canonical_form(filter in filters()) {
        let canonical = filter.lowered().canonical();
        prop_assert_eq!(canonical.clone().canonical(), canonical);
    }

    #[test]
    fn a_filter_written_in_another_way_has_the_same_signature((filter, other) in rewritings()) {
        let (canonical, other) = (filter.lowered().canonical(), other.lowered().canonical());
        prop_assert_eq!(&canonical, &other);
        prop_assert_eq!(canonical.signature(), other.signature());
        prop_assert_eq!(canonical.depth(), other.depth());
    }

    #[test]
    fn negation_is_plain_negation(filter in filters(), row in rows()) {
        let hidden = Ok(!filter.keeps(&row));
        let (predicate, row) = (filter.lowered(), values(&row));
        prop_assert_eq!(&evaluate(&predicate.clone().negate(), &row), &hidden);
        // Also of the canonical form, in which a guard no longer stands beside its own ordering.
        prop_assert_eq!(&evaluate(&predicate.canonical().negate(), &row), &hidden);
    }
}

#[test]
fn different_leaves_have_different_signatures() {
    let mut seen = BTreeMap::new();
    for leaf in leaves() {
        let predicate = leaf.lowered().canonical();
        if let Some(other) = seen.insert(predicate.signature(), predicate.clone()) {
            assert_eq!(other, predicate);
        }
    }
    assert!(seen.len() > 300, "{}", seen.len());
}

fn digest(record: &str) -> String {
    let digest = Sha256::digest(record).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256:{digest}")
}

fn field(id: i32) -> Reference {
    Reference { id, required: false }
}

fn lt(id: i32, literal: Literal) -> Predicate {
    Predicate::Comparison { operator: ComparisonOperator::Lt, reference: field(id), literal }
}

/// The records spelled out: a change to any of them changes every signature that was ever logged.
#[test]
fn signatures_are_those_of_the_records_of_the_specification() {
    use PrimitiveType::{Date, Double, Float, Int, String, Time, Timestamp};

    let number = |text, data_type| Literal::from_number(text, &data_type).unwrap();
    let string = |text, data_type| Literal::from_string(text, &data_type).unwrap();
    let decimal = PrimitiveType::Decimal { precision: 9, scale: 2 };
    for (literal, value, data_type) in [
        (number("5", Int), "5", "int"),
        (number("0.1", Float), r#""3dcccccd""#, "float"),
        (number("-1.5", Double), r#""bff8000000000000""#, "double"),
        (number("1.5", decimal), r#""1.50""#, "decimal(9, 2)"),
        (string("2024-02-29", Date), r#""2024-02-29""#, "date"),
        (string("12:34:56.5", Time), r#""12:34:56.500000""#, "time"),
        (string("2024-02-29T12:34:56", Timestamp), r#""2024-02-29T12:34:56.000000""#, "timestamp"),
        (string("O'Neill \"\\ é", String), r#""O'Neill \"\\ é""#, "string"),
    ] {
        let record = format!(
            r#"{{"profile":"iceberg-read-restrictions-v1","predicate":{{"type":"lt","left":{{"type":"reference","id":7}},"right":{{"type":"literal","value":{value},"data-type":"{data_type}"}}}}}}"#
        );
        assert_eq!(lt(7, literal).signature().to_string(), digest(&record), "{record}");
    }

    let set = Predicate::Set {
        operator: SetOperator::NotIn,
        reference: field(2),
        literals: vec![string("US", String), string("CA", String)],
    };
    let chain = Predicate::And(vec![set, lt(1, number("5", Int)), Predicate::Constant(true)]);
    assert_eq!(
        chain.canonical().signature().to_string(),
        digest(
            r#"{"profile":"iceberg-read-restrictions-v1","predicate":{"type":"and","left":{"type":"lt","left":{"type":"reference","id":1},"right":{"type":"literal","value":5,"data-type":"int"}},"right":{"type":"not-in","child":{"type":"reference","id":2},"values":{"type":"literals","values":["CA","US"],"data-type":"string"}}}}"#
        )
    );
    assert_eq!(
        Projection { field_id: 4, action: Action::ReplaceWithNull }.signature().to_string(),
        digest(r#"{"profile":"iceberg-read-restrictions-v1","field-id":4,"action":"replace-with-null"}"#)
    );
}
