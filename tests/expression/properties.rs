//! What holds for every source.

use iceberg_read_restrictions::expression::{
    ActionCall, Branch, Column, ComparisonOperator, Condition, Expression, ExpressionError, Group, Literal,
    LiteralValue, Rule, Span,
};
use proptest::{collection::vec, prelude::*, sample::select};

use super::{grammar, print, write::Writer};

const HERE: Span = Span { start: 0, end: 0 };

proptest! {
    #[test]
    fn a_written_rule_reads_as_itself(rule in rule(), seed: u64) {
        let source = Writer { seed }.rule(&rule);
        let expression = match Expression::parse(&source) {
            Ok(expression) => expression,
            Err(error) => panic!("{source}\n{}", error.render()),
        };
        prop_assert_eq!(print::rule(expression.rule()), print::rule(&rule));
        for (text, start) in spans(expression.rule()).into_iter().map(|(span, start)| (&source[span.start..span.end], start)) {
            prop_assert!(text.starts_with(&start), "{text} for {start} in {source}");
        }
    }

    #[test]
    fn any_text_is_answered(source in ".*") {
        answered(&source)?;
    }

    #[test]
    fn any_bytes_are_answered(bytes: Vec<u8>) {
        answered(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn any_words_of_the_language_are_answered(words in vec(select(WORDS), 0..30), rule in select(&["filter := ", "mask := ", ""][..])) {
        answered(&format!("{rule}{}", words.join(" ")))?;
    }

    #[test]
    fn one_changed_byte_is_answered(rule in rule(), seed: u64, at: prop::sample::Index, byte in 0_u8..128) {
        let mut bytes = Writer { seed }.rule(&rule).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        answered(&String::from_utf8_lossy(&bytes))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nothing_outside_the_grammar_is_accepted(words in sentence()) {
        let parsed = Expression::parse(&words.join(" "));
        if grammar::accepts(&words) {
            let too_deep = |error: &ExpressionError| error.message().contains("operations inside one another");
            let only_boolean = !words.iter().any(|word| COMPARED.contains(word));
            prop_assert!(!only_boolean || parsed.as_ref().map_or_else(too_deep, |_| true), "{parsed:?}");
        } else {
            prop_assert!(parsed.is_err(), "{words:?}");
        }
    }
}

/// What the checks may refuse although the grammar allows it.
const COMPARED: &[&str] = &["==", "in", "col(\"a\")", "1", "[1]"];

/// Words in an order that is often, but not always, right.
fn sentence() -> impl Strategy<Value = Vec<&'static str>> {
    let before = vec(select(&["not", "("][..]), 0..3);
    let operand = select(&["true", "false", "is_group_member(\"g\")", "col(\"a\")", "1", "[1]"][..]);
    let behind = vec(Just(")"), 0..3);
    let join = select(&["and", "or", "==", "in", "if", "else :="][..]);
    let part = (before, operand, behind, join)
        .prop_map(|(before, operand, behind, join)| [before, vec![operand], behind, vec![join]].concat());
    vec(part, 1..6).prop_map(|parts| {
        let mut words = vec!["filter :="];
        words.extend(parts.concat());
        words.pop();
        words
    })
}

const WORDS: &[&str] = &[
    "filter",
    "mask",
    ":=",
    "if",
    "else",
    "else :=",
    "and",
    "or",
    "not",
    "in",
    "true",
    "false",
    "null",
    "(",
    ")",
    "[",
    "]",
    ",",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "1",
    "-2.5",
    "\"x\"",
    "\"\"",
    "col(\"a\")",
    "col",
    "session_user()",
    "is_group_member(\"g\")",
    "action(\"a\")",
    "[1, 2]",
    "[\"x\"]",
    "word",
];

/// A refusal has its place inside the source; what is accepted reads the same when it is written anew.
fn answered(source: &str) -> Result<(), TestCaseError> {
    match Expression::parse(source) {
        Ok(expression) => {
            let printed = print::rule(expression.rule());
            let again = Expression::parse(&printed).map_err(|error| TestCaseError::fail(error.render()))?;
            prop_assert_eq!(print::rule(again.rule()), printed);
        }
        Err(error) => {
            let span = error.span();
            prop_assert!(source.get(span.start..span.end).is_some());
            prop_assert!(!error.to_string().contains(char::is_control), "{error}");
            prop_assert_eq!(error.render().split('\n').count(), 4);
        }
    }
    Ok(())
}

/// Every span of a rule, and how its text begins.
fn spans(rule: &Rule) -> Vec<(Span, String)> {
    let mut spans = Vec::new();
    match rule {
        Rule::Filter { branches, fallback } => {
            branches.iter().for_each(|branch| {
                condition_spans(&branch.result, &mut spans);
                condition_spans(&branch.condition, &mut spans);
            });
            condition_spans(fallback, &mut spans);
        }
        Rule::Mask { branches, fallback } => {
            branches.iter().for_each(|branch| {
                spans.push((branch.result.span, "action".into()));
                condition_spans(&branch.condition, &mut spans);
            });
            spans.push((fallback.span, "action".into()));
        }
    }
    spans
}

fn condition_spans(condition: &Condition, spans: &mut Vec<(Span, String)>) {
    let column = |column: &Column| (column.span, "col".into());
    let literal = |literal: &Literal| {
        let start = match &literal.value {
            LiteralValue::String(_) => "\"".into(),
            _ => print::literal(literal),
        };
        (literal.span, start)
    };
    match condition {
        Condition::And(operands) | Condition::Or(operands) => {
            operands.iter().for_each(|operand| condition_spans(operand, spans));
        }
        Condition::Not(operand) => condition_spans(operand, spans),
        Condition::Compare { column: name, literal: value, .. } => {
            spans.extend([column(name), literal(value)])
        }
        Condition::In { column: name, values } => {
            spans.push(column(name));
            spans.extend(values.iter().map(literal));
        }
        Condition::IsNull(name) | Condition::NotNull(name) | Condition::ColumnIsUser { column: name, .. } => {
            spans.push(column(name));
        }
        Condition::IsGroupMember(group) => spans.push((group.span, "is_group_member".into())),
        Condition::Constant(_) | Condition::UserIs { .. } | Condition::UserIn(_) => {}
    }
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        (vec((condition(row_atom()), condition(row_atom())), 0..3), condition(row_atom())).prop_map(
            |(branches, fallback)| Rule::Filter {
                branches: branches.into_iter().map(branch).collect(),
                fallback
            }
        ),
        (vec((action(), condition(atom())), 0..4), action()).prop_map(|(branches, fallback)| Rule::Mask {
            branches: branches.into_iter().map(branch).collect(),
            fallback
        }),
    ]
}

fn branch<R>((result, condition): (R, Condition)) -> Branch<R> {
    Branch { result, condition }
}

fn action() -> impl Strategy<Value = ActionCall> {
    name().prop_map(|name| ActionCall { name: name.into(), span: HERE })
}

/// Small enough for every limit: depth 4, at most 9 leaves.
fn condition(atom: impl Strategy<Value = Condition> + 'static) -> impl Strategy<Value = Condition> {
    atom.prop_recursive(3, 9, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|operand| Condition::Not(Box::new(operand))),
            vec(inner.clone(), 2..4).prop_map(Condition::And),
            vec(inner, 2..4).prop_map(Condition::Or),
        ]
    })
}

/// What does not read the row.
fn atom() -> impl Strategy<Value = Condition> {
    prop_oneof![
        any::<bool>().prop_map(Condition::Constant),
        name().prop_map(|name| Condition::IsGroupMember(Group { name: name.into(), span: HERE })),
        (text(), any::<bool>()).prop_map(|(name, negated)| Condition::UserIs { name: name.into(), negated }),
        vec(text(), 1..4).prop_map(|names| Condition::UserIn(names.into_iter().map(Into::into).collect())),
    ]
}

fn row_atom() -> impl Strategy<Value = Condition> {
    let column = || name().prop_map(|name| Column { name: name.into(), span: HERE });
    let operator = select(vec![
        ComparisonOperator::Eq,
        ComparisonOperator::NotEq,
        ComparisonOperator::Lt,
        ComparisonOperator::LtEq,
        ComparisonOperator::Gt,
        ComparisonOperator::GtEq,
    ]);
    let number = || {
        literal("-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?".prop_map(|text| LiteralValue::Number(text.into())))
    };
    let string = || literal(text().prop_map(|text| LiteralValue::String(text.into())));
    let boolean = || literal(any::<bool>().prop_map(LiteralValue::Boolean));
    let values = prop_oneof![vec(number(), 1..4), vec(string(), 1..4), vec(boolean(), 1..3)];
    prop_oneof![
        (column(), operator, prop_oneof![number(), string(), boolean()])
            .prop_map(|(column, operator, literal)| Condition::Compare { column, operator, literal }),
        column().prop_map(Condition::IsNull),
        column().prop_map(Condition::NotNull),
        (column(), values).prop_map(|(column, values)| Condition::In { column, values }),
        (column(), any::<bool>()).prop_map(|(column, negated)| Condition::ColumnIsUser { column, negated }),
        atom(),
    ]
}

fn literal(value: impl Strategy<Value = LiteralValue>) -> impl Strategy<Value = Literal> {
    value.prop_map(|value| Literal { value, span: HERE })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_.]{1,8}", "[^\\x00]{1,4}"]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z ]{0,8}", "[^\\x00]{0,4}"]
}
