//! The limits of a source. All are checked before anything is folded, so that what is too large stays refused.

use super::{
    ast::{Form, Program, Tree},
    error::Refusal,
    rule::Span,
    token::{Kind, Token},
};

const SOURCE_BYTES: usize = 16 * 1024;
const STRING_BYTES: usize = 4 * 1024;
const NUMBER_BYTES: usize = 256;
const ARRAY_ELEMENTS: usize = 256;
const NODES: usize = 256;
const DEPTH: usize = 8;
const OPEN_BRACKETS: usize = 256;

/// The size of the source itself.
pub(super) fn source(source: &str) -> Result<(), Refusal> {
    at_most(SOURCE_BYTES, source.len(), "bytes in the source", Span::default())
}

/// The size of every string, names included, and of every number.
pub(super) fn tokens(tokens: &[Token]) -> Result<(), Refusal> {
    tokens.iter().try_for_each(|Token { kind, span }| match kind {
        Kind::String(text) => at_most(STRING_BYTES, text.len(), "bytes in a decoded string", *span),
        Kind::Number(text) => at_most(NUMBER_BYTES, text.len(), "bytes in a number", *span),
        _ => Ok(()),
    })
}

/// The grouping brackets open at once, the one at `span` included.
pub(super) fn open_brackets(open: usize, span: Span) -> Result<(), Refusal> {
    at_most(OPEN_BRACKETS, open, "open brackets at once", span)
}

/// The size of the arrays, and the number and depth of the nodes.
pub(super) fn program(program: &Program) -> Result<(), Refusal> {
    let trees = program.trees();
    let nodes = || trees.iter().flat_map(|tree| tree.nodes());
    for node in nodes() {
        if let Form::Array(elements) = &node.form {
            at_most(ARRAY_ELEMENTS, elements.len(), "elements in an array", node.span)?;
        }
    }
    let count = nodes().count() + program.actions().len();
    at_most(NODES, count, "operators, calls, literals and arrays in the source", Span::default())?;
    trees.iter().try_for_each(|tree| depth(tree))
}

/// Operands stand before their operators, so one pass from the leaves up knows every depth.
fn depth(tree: &Tree) -> Result<(), Refusal> {
    let mut depths: Vec<usize> = Vec::with_capacity(tree.nodes().len());
    for node in tree.nodes() {
        let depth = match &node.form {
            Form::Not(operand) => 1 + depths[*operand],
            Form::And(operands) | Form::Or(operands) => {
                1 + operands.iter().map(|operand| depths[*operand]).max().unwrap_or(0)
            }
            Form::Column(_)
            | Form::SessionUser
            | Form::IsGroupMember(_)
            | Form::Scalar(_)
            | Form::Array(_)
            | Form::Compare { .. } => 1,
        };
        at_most(DEPTH, depth, "operations inside one another", node.span)?;
        depths.push(depth);
    }
    Ok(())
}

fn at_most(limit: usize, count: usize, what: &str, span: Span) -> Result<(), Refusal> {
    if count <= limit {
        return Ok(());
    }
    Err(Refusal::new(span, format!("{count} {what}; expected at most {limit}")))
}
