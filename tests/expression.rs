//! Promise: a source is read as the language says, or refused with the place and the reason.
//!
//! The cases are data, one file per section: a `source` and either what it `means` (the checked rule, printed with
//! all brackets), or that it is `accepted`, or the `error` and the line and column it is `at`.

use std::thread;

use iceberg_read_restrictions::expression::{Expression, ExpressionError};
use serde::Deserialize;

#[path = "expression/grammar.rs"]
mod grammar;
#[path = "expression/print.rs"]
mod print;
#[path = "expression/properties.rs"]
mod properties;
#[path = "expression/write.rs"]
mod write;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    source: Source,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Source {
    Whole(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Once(String),
    Times(String, usize),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Outcome {
    Means { means: String },
    Accepted { accepted: bool },
    Refused { error: String, at: (usize, usize) },
}

impl Source {
    fn text(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Parts(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Once(text) => text.clone(),
                    Part::Times(text, times) => text.repeat(*times),
                })
                .collect(),
        }
    }
}

fn run(cases: &str) {
    let cases: Cases = toml::from_str(cases).unwrap_or_else(|error| panic!("{}", error.message()));
    let failures: Vec<String> = cases
        .case
        .iter()
        .filter_map(|case| failure(case).map(|why| format!("{}: {why}", case.name)))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn failure(case: &Case) -> Option<String> {
    let source = case.source.text();
    match (&case.outcome, Expression::parse(&source)) {
        (Outcome::Accepted { accepted: true }, Ok(_)) => None,
        (Outcome::Means { means }, Ok(expression)) => {
            let printed = print::rule(expression.rule());
            (printed != *means).then(|| format!("means {printed}"))
        }
        (Outcome::Refused { error, at }, Err(refused)) => {
            let met = refused.message().contains(error.as_str()) && refused.position() == *at;
            (!met || !is_well_formed(&refused, &source)).then(|| refused.render())
        }
        (_, Ok(expression)) => Some(format!("accepted as {}", print::rule(expression.rule()))),
        (_, Err(refused)) => Some(refused.render()),
    }
}

/// One line for a log; and for people a caret under the column that the position names.
fn is_well_formed(error: &ExpressionError, source: &str) -> bool {
    let (line, column) = error.position();
    let display = error.to_string();
    let rendered = error.render();
    let lines: Vec<&str> = rendered.split('\n').collect();
    let [first, _, shown, carets] = lines[..] else { return false };
    let margin = line.to_string().len() + " | ".len();
    let under = |column: usize| carets.chars().position(|c| c == '^') == Some(margin + column - 1);
    let whole = source.split('\n').nth(line - 1).is_some_and(|line| line.chars().count() <= 100);
    display == format!("line {line}, column {column}: {}", error.message())
        && !display.contains(char::is_control)
        && first == display
        && shown.starts_with(&format!("{line} | "))
        && (under(column) || !whole)
}

#[test]
fn grammar() {
    run(include_str!("fixtures/expression/grammar.toml"));
}

#[test]
fn lexical() {
    run(include_str!("fixtures/expression/lexical.toml"));
}

#[test]
fn forms() {
    run(include_str!("fixtures/expression/forms.toml"));
}

#[test]
fn limits() {
    run(include_str!("fixtures/expression/limits.toml"));
}

#[test]
fn no_nesting_overflows_a_small_stack() {
    let nested = |open: &str, times, leaf: &str, close: &str| {
        format!("filter := {}{leaf}{}", open.repeat(times), close.repeat(times))
    };
    let sources = [
        (nested("(", 256, "true", ")"), true),
        (nested("(", 257, "true", ")"), false),
        (nested("(", 8_000, "true", ")"), false),
        (nested("(", 8_000, "", ""), false),
        (nested("", 8_000, "true", ")"), false),
        (nested("not ", 4_000, "true", ""), false),
        (nested("not(", 3_000, "true", ")"), false),
        (nested("not (", 255, "true", ")"), false),
        (nested("[", 8_000, "1", "]"), false),
        (nested("true and ", 1_800, "true", ""), false),
        (nested("(true or ", 200, "true", ")"), false),
        (nested("false if true else := ", 700, "true", ""), false),
        (nested("false if true else := ", 127, "true", ""), true),
    ];
    for (source, accepted) in sources {
        let small = thread::Builder::new().stack_size(512 * 1024);
        let parse_twice = move || {
            let (one, other) = (Expression::parse(&source), Expression::parse(&source));
            assert_eq!(one, other);
            one.is_ok()
        };
        assert_eq!(small.spawn(parse_twice).unwrap().join().unwrap(), accepted);
    }
}

#[test]
fn an_error_in_a_long_line_shows_the_part_around_it() {
    let source =
        format!("filter := col(\"a\") == \"{}\" and 5 and {}true", "é".repeat(500), "true and ".repeat(20));
    let rendered = Expression::parse(&source).unwrap_err().render();
    let [_, _, shown, carets] = rendered.split('\n').collect::<Vec<_>>()[..] else { panic!("{rendered}") };
    let at = carets.chars().position(|c| c == '^').unwrap();
    assert_eq!(shown.chars().skip(at).take(5).collect::<String>(), "5 and");
    assert!(shown.starts_with("1 | …ééé") && shown.ends_with('…') && shown.chars().count() < 120);
}
