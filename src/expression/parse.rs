//! The grammar: tokens to a source tree.
//!
//! Only a flat reading is left to `combine`: it takes `(`, `not` and `)` in whatever number they come, and
//! [`precedence`](super::precedence) pairs them on a stack of its own. So no source can exhaust the stack of the thread.

use std::{fmt::Display, sync::Arc};

use combine::{
    EasyParser, Parser, choice, eof,
    error::Format,
    many, parser, satisfy_map, sep_by1,
    stream::{SliceStream, easy, position},
};

use super::{
    ast::{Choices, Form, Node, Operator, Program, Scalar, Tree},
    error::{Refusal, expectation},
    precedence::{Infix, Operand, Prefix, tree},
    rule::{ActionCall, ComparisonOperator, LiteralValue, Span},
    token::{END, Kind, Token},
};

type Tokens<'t> = easy::Stream<position::Stream<SliceStream<'t, Token>, position::IndexPositioner>>;

// What is expected where more than one parser could go on. `combine` would gather it from all that were tried, the
// bracket that cannot be closed included.
const OPERAND: &str = "a column, `session_user()`, `is_group_member(…)`, a literal, an array, `not` or `(`";
const BEHIND_RESULT: &str = "an operator, `if` or the end of the expression";
const BEHIND_CONDITION: &str = "an operator or `else`";
const BEHIND_ACTION: &str = "`if` or the end of the expression";

/// Reads the tokens of a source of `length` bytes.
pub(super) fn program(tokens: &[Token], length: usize) -> Result<Program, Refusal> {
    let stream = position::Stream::with_positioner(SliceStream(tokens), position::IndexPositioner::new());
    let filter = start("filter").with(choices(expr)).map(|choices| choices.map(Program::Filter));
    let mask = start("mask").with(choices(action)).map(|choices| choices.map(Program::Mask));
    let mut program =
        choice((filter.skip(eof().expected(BEHIND_RESULT)), mask.skip(eof().expected(BEHIND_ACTION))));
    program.easy_parse(stream).map_or_else(
        |error| {
            let expectation = |found: &dyn Display| expectation(&error.errors, found);
            Err(match tokens.get(error.position) {
                Some(Token { kind: Kind::Broken(refusal), .. }) => refusal.clone(),
                Some(token) => Refusal::new(token.span, expectation(&token.kind)),
                None => Refusal::new(Span { start: length, end: length }, expectation(&END)),
            })
        },
        |(program, _)| program,
    )
}

fn start<'t>(rule: &'static str) -> impl Parser<Tokens<'t>, Output = Span> {
    fixed(rule).skip(fixed(":="))
}

/// `result ("if" condition "else" ":=" result)*`: the last result is the fallback.
fn choices<'t, R, P>(result: fn() -> P) -> impl Parser<Tokens<'t>, Output = Result<Choices<R>, Refusal>>
where
    P: Parser<Tokens<'t>, Output = Result<R, Refusal>>,
{
    let condition = fixed("if").with(expr());
    let next = fixed("else").expected(BEHIND_CONDITION).skip(fixed(":=")).with(result());
    (result(), many(quiet((condition, next)))).map(|(first, rest): (_, Vec<_>)| {
        let mut choices = Choices::new(first?);
        for (condition, next) in rest {
            choices.push(condition?, next?);
        }
        Ok(choices)
    })
}

/// A part that may be missing, and then does not say so: what is expected there has its own label.
fn quiet<'t, P: Parser<Tokens<'t>>>(mut part: P) -> impl Parser<Tokens<'t>, Output = P::Output> {
    parser(move |input| part.parse_stream(input).into_result())
}

fn action<'t>() -> impl Parser<Tokens<'t>, Output = Result<ActionCall, Refusal>> {
    call("action").map(|(name, span)| Ok(ActionCall { name, span }))
}

fn expr<'t>() -> impl Parser<Tokens<'t>, Output = Result<Tree, Refusal>> {
    (operand(), many(quiet((infix(), operand())))).map(|(first, rest): (_, Vec<_>)| tree(first, rest))
}

fn operand<'t>() -> impl Parser<Tokens<'t>, Output = Operand> {
    let prefix = choice((fixed("not").map(Prefix::Not), fixed("(").map(Prefix::Open)));
    (many(quiet(prefix)), leaf().expected(OPERAND), many(quiet(fixed(")"))))
        .map(|(prefixes, leaf, closes)| Operand { prefixes, leaf, closes })
}

fn infix<'t>() -> impl Parser<Tokens<'t>, Output = (Infix, Span)> {
    let comparison = satisfy_map(|token: &Token| {
        use ComparisonOperator::*;
        let operator = match token.kind {
            Kind::Fixed("==") => Operator::Compare(Eq),
            Kind::Fixed("!=") => Operator::Compare(NotEq),
            Kind::Fixed("<") => Operator::Compare(Lt),
            Kind::Fixed("<=") => Operator::Compare(LtEq),
            Kind::Fixed(">") => Operator::Compare(Gt),
            Kind::Fixed(">=") => Operator::Compare(GtEq),
            Kind::Fixed("in") => Operator::In,
            _ => return None,
        };
        Some((Infix::Compare(operator), token.span))
    });
    choice((
        comparison,
        fixed("and").map(|span| (Infix::And, span)),
        fixed("or").map(|span| (Infix::Or, span)),
    ))
}

/// A primary without the bracketed expression.
fn leaf<'t>() -> impl Parser<Tokens<'t>, Output = Node> {
    let node = |form: fn(Arc<str>) -> Form| move |(name, span)| Node { form: form(name), span };
    choice((
        call("col").map(node(Form::Column)),
        call("is_group_member").map(node(Form::IsGroupMember)),
        (fixed("session_user"), fixed("("), fixed(")"))
            .map(|(start, _, end)| Node { form: Form::SessionUser, span: start.to(end) }),
        scalar().map(|(scalar, span)| Node { form: Form::Scalar(scalar), span }),
        array(),
    ))
}

fn array<'t>() -> impl Parser<Tokens<'t>, Output = Node> {
    (fixed("["), sep_by1(scalar(), fixed(",")), fixed("]"))
        .map(|(start, elements, end)| Node { form: Form::Array(elements), span: start.to(end) })
}

fn scalar<'t>() -> impl Parser<Tokens<'t>, Output = (Scalar, Span)> {
    satisfy_map(|token: &Token| {
        let scalar = match &token.kind {
            Kind::String(text) => Some(LiteralValue::String(text.clone())),
            Kind::Number(text) => Some(LiteralValue::Number(text.clone())),
            Kind::Fixed("true") => Some(LiteralValue::Boolean(true)),
            Kind::Fixed("false") => Some(LiteralValue::Boolean(false)),
            Kind::Fixed("null") => None,
            _ => return None,
        };
        Some((scalar, token.span))
    })
    .expected("a literal")
}

/// `name("text")`.
fn call<'t>(name: &'static str) -> impl Parser<Tokens<'t>, Output = (Arc<str>, Span)> {
    let text = satisfy_map(|token: &Token| match &token.kind {
        Kind::String(text) => Some(text.clone()),
        _ => None,
    });
    (fixed(name), fixed("("), text.expected("a string"), fixed(")"))
        .map(|(start, _, text, end)| (text, start.to(end)))
}

fn fixed<'t>(spelling: &'static str) -> impl Parser<Tokens<'t>, Output = Span> {
    satisfy_map(move |token: &Token| (token.kind == Kind::Fixed(spelling)).then_some(token.span))
        .expected(Format(Kind::Fixed(spelling)))
}
