//! What holds for every source.

use iceberg_read_restrictions::expression::{
    ActionCall, Branch, Column, ComparisonOperator, Condition, Expression, Group, Literal, LiteralValue,
    Rule, Span,
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::print;

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

/// How tightly a printed condition binds, loosest first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binding {
    Or,
    And,
    Not,
    Comparison,
    Primary,
}

/// Writes a rule with brackets only where they are needed, or at random; in either order, with white space at random.
struct Writer {
    seed: u64,
}

impl Writer {
    fn rule(&mut self, rule: &Rule) -> String {
        let text = match rule {
            Rule::Filter { branches, fallback } => {
                self.choices("filter", branches, fallback, |writer, result| {
                    writer.condition(result, Binding::Or)
                })
            }
            Rule::Mask { branches, fallback } => {
                self.choices("mask", branches, fallback, |writer, action| {
                    let name = writer.string(&action.name);
                    writer.spaced(&["action", "(", &name, ")"])
                })
            }
        };
        format!("{}{text}{}", self.blank(), self.blank())
    }

    fn choices<R>(
        &mut self,
        name: &str,
        branches: &[Branch<R>],
        fallback: &R,
        result: fn(&mut Self, &R) -> String,
    ) -> String {
        let mut text = self.spaced(&[name, ":=", ""]);
        for branch in branches {
            let (result, condition) =
                (result(self, &branch.result), self.condition(&branch.condition, Binding::Or));
            text += &format!("{result} if {condition} ");
            text += &self.spaced(&["else", ":=", ""]);
        }
        text + &result(self, fallback)
    }

    fn condition(&mut self, condition: &Condition, least: Binding) -> String {
        let (text, binding) = match condition {
            Condition::Constant(value) => (value.to_string(), Binding::Primary),
            Condition::Not(operand) => {
                (format!("not {}", self.condition(operand, Binding::Not)), Binding::Not)
            }
            Condition::And(operands) => (self.chain(operands, "and", Binding::Not), Binding::And),
            Condition::Or(operands) => (self.chain(operands, "or", Binding::And), Binding::Or),
            Condition::Compare { column, operator, literal } => {
                let (column, literal) = (self.column(column), self.literal(literal));
                (self.comparison(column, *operator, literal), Binding::Comparison)
            }
            Condition::IsNull(column) => (self.equality(column, false, "null"), Binding::Comparison),
            Condition::NotNull(column) => (self.equality(column, true, "null"), Binding::Comparison),
            Condition::ColumnIsUser { column, negated } => {
                (self.equality(column, *negated, "session_user()"), Binding::Comparison)
            }
            Condition::In { column, values } => {
                let values: Vec<_> = values.iter().map(|value| self.literal(value)).collect();
                let column = self.column(column);
                (self.set(column, &values), Binding::Comparison)
            }
            Condition::UserIs { name, negated } => {
                let operator = if *negated { ComparisonOperator::NotEq } else { ComparisonOperator::Eq };
                let name = self.string(name);
                (self.comparison("session_user()".into(), operator, name), Binding::Comparison)
            }
            Condition::UserIn(names) => {
                let names: Vec<_> = names.iter().map(|name| self.string(name)).collect();
                (self.set("session_user()".into(), &names), Binding::Comparison)
            }
            Condition::IsGroupMember(group) => {
                let name = self.string(&group.name);
                (self.spaced(&["is_group_member", "(", &name, ")"]), Binding::Primary)
            }
        };
        if binding < least { self.spaced(&["(", &text, ")"]) } else { self.bracketed(text) }
    }

    fn chain(&mut self, operands: &[Condition], word: &str, least: Binding) -> String {
        let operands: Vec<_> = operands.iter().map(|operand| self.condition(operand, least)).collect();
        operands.join(&format!(" {word} "))
    }

    fn equality(&mut self, column: &Column, negated: bool, other: &str) -> String {
        let operator = if negated { ComparisonOperator::NotEq } else { ComparisonOperator::Eq };
        let column = self.column(column);
        self.comparison(column, operator, other.into())
    }

    fn comparison(&mut self, left: String, operator: ComparisonOperator, right: String) -> String {
        let (left, right) = (self.bracketed(left), self.bracketed(right));
        match self.choose(2) {
            0 => self.spaced(&[&left, print::symbol(operator), &right]),
            _ => self.spaced(&[&right, print::symbol(mirrored(operator)), &left]),
        }
    }

    fn set(&mut self, left: String, values: &[String]) -> String {
        let comma = self.spaced(&["", ",", ""]);
        let array = self.spaced(&["[", &values.join(&comma), "]"]);
        format!("{} in {}", self.bracketed(left), self.bracketed(array))
    }

    fn column(&mut self, column: &Column) -> String {
        let name = self.string(&column.name);
        self.spaced(&["col", "(", &name, ")"])
    }

    fn literal(&mut self, literal: &Literal) -> String {
        match &literal.value {
            LiteralValue::String(text) => self.string(text),
            _ => print::literal(literal),
        }
    }

    /// Either the short spelling or every unit escaped.
    fn string(&mut self, text: &str) -> String {
        match self.choose(3) {
            0 => format!(
                "\"{}\"",
                text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
            ),
            _ => json!(text).to_string(),
        }
    }

    fn bracketed(&mut self, text: String) -> String {
        match self.choose(6) {
            0 => self.spaced(&["(", &text, ")"]),
            _ => text,
        }
    }

    fn spaced(&mut self, parts: &[&str]) -> String {
        let mut text = String::new();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                text += self.blank();
            }
            text += part;
        }
        text
    }

    fn blank(&mut self) -> &'static str {
        ["", "", " ", "\n", "\t", "\r\n  "][self.choose(6)]
    }

    fn choose(&mut self, among: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % among
    }
}

fn mirrored(operator: ComparisonOperator) -> ComparisonOperator {
    match operator {
        ComparisonOperator::Lt => ComparisonOperator::Gt,
        ComparisonOperator::LtEq => ComparisonOperator::GtEq,
        ComparisonOperator::Gt => ComparisonOperator::Lt,
        ComparisonOperator::GtEq => ComparisonOperator::LtEq,
        other => other,
    }
}
