//! Operator precedence: the flat reading of an expression to its tree, without recursion.

use std::mem;

use super::{
    ast::{Form, Node, NodeId, Operator, Tree},
    error::Refusal,
    limits,
    rule::Span,
};

/// A leaf with all that opens before it and closes behind it.
pub(super) struct Operand {
    pub(super) prefixes: Vec<Prefix>,
    pub(super) leaf: Node,
    pub(super) closes: Vec<Span>,
}

pub(super) enum Prefix {
    Not(Span),
    Open(Span),
}

pub(super) enum Infix {
    Compare(Operator),
    And,
    Or,
}

/// Builds the tree of `first rest₁ rest₂ …`.
pub(super) fn tree(first: Operand, rest: Vec<((Infix, Span), Operand)>) -> Result<Tree, Refusal> {
    let mut builder = Builder { nodes: Vec::new(), outer: Vec::new(), level: Level::default() };
    let mut value = builder.operand(first)?;
    for ((infix, span), operand) in rest {
        builder.infix(value, infix, span)?;
        value = builder.operand(operand)?;
    }
    builder.finish(value)
}

/// A finished operand: its node, and its place with the brackets round it.
#[derive(Clone, Copy)]
struct Part {
    node: NodeId,
    span: Span,
}

/// What waits for its right side between one pair of brackets.
#[derive(Default)]
struct Level {
    or: Vec<Part>,
    and: Vec<Part>,
    nots: Vec<Span>,
    comparison: Option<(Part, Operator)>,
}

struct Builder {
    nodes: Vec<Node>,
    /// The levels outside of the open brackets, each with the bracket that interrupts it.
    outer: Vec<(Level, Span)>,
    level: Level,
}

impl Builder {
    fn operand(&mut self, operand: Operand) -> Result<Part, Refusal> {
        for prefix in operand.prefixes {
            match prefix {
                Prefix::Not(span) => self.not(span)?,
                Prefix::Open(span) => self.open(span)?,
            }
        }
        let Node { form, span } = operand.leaf;
        let leaf = self.push(form, span);
        operand.closes.into_iter().try_fold(leaf, |value, span| self.close(value, span))
    }

    fn infix(&mut self, value: Part, infix: Infix, span: Span) -> Result<(), Refusal> {
        match infix {
            Infix::Compare(_) if self.level.comparison.is_some() => {
                return Err(Refusal::new(
                    span,
                    "comparisons cannot be chained; expected `and`, `or` or the end",
                ));
            }
            Infix::Compare(operator) => self.level.comparison = Some((value, operator)),
            Infix::And => {
                let term = self.term(value);
                self.level.and.push(term);
            }
            Infix::Or => {
                let chain = self.and_chain(value);
                self.level.or.push(chain);
            }
        }
        Ok(())
    }

    fn not(&mut self, span: Span) -> Result<(), Refusal> {
        if self.level.comparison.is_some() {
            return Err(Refusal::new(span, "expected an operand, found `not`: a comparison binds tighter"));
        }
        self.level.nots.push(span);
        Ok(())
    }

    fn open(&mut self, span: Span) -> Result<(), Refusal> {
        self.outer.push((mem::take(&mut self.level), span));
        limits::open_brackets(self.outer.len(), span)
    }

    fn close(&mut self, value: Part, end: Span) -> Result<Part, Refusal> {
        let Part { node, .. } = self.or_chain(value);
        let (level, start) = self
            .outer
            .pop()
            .ok_or_else(|| Refusal::new(end, "this `)` closes nothing; expected an operator"))?;
        self.level = level;
        Ok(Part { node, span: start.to(end) })
    }

    fn finish(mut self, value: Part) -> Result<Tree, Refusal> {
        if let Some((_, span)) = self.outer.last() {
            return Err(Refusal::new(*span, "this `(` is never closed; expected `)`"));
        }
        self.or_chain(value);
        Ok(Tree::new(self.nodes))
    }

    fn or_chain(&mut self, last: Part) -> Part {
        let last = self.and_chain(last);
        let before = mem::take(&mut self.level.or);
        self.chain(before, last, Form::Or)
    }

    fn and_chain(&mut self, last: Part) -> Part {
        let last = self.term(last);
        let before = mem::take(&mut self.level.and);
        self.chain(before, last, Form::And)
    }

    /// An operand of `and`: the comparison that `last` ends, if one is open, under the `not`s before it.
    fn term(&mut self, last: Part) -> Part {
        let compared = match self.level.comparison.take() {
            Some((left, operator)) => {
                let form = Form::Compare { left: left.node, operator, right: last.node };
                self.push(form, left.span.to(last.span))
            }
            None => last,
        };
        let nots = mem::take(&mut self.level.nots);
        nots.into_iter()
            .rev()
            .fold(compared, |value, not| self.push(Form::Not(value.node), not.to(value.span)))
    }

    /// One operator over all its operands, or the only operand itself.
    fn chain(&mut self, before: Vec<Part>, last: Part, form: fn(Vec<NodeId>) -> Form) -> Part {
        let Some(first) = before.first() else { return last };
        let span = first.span.to(last.span);
        let operands = before.iter().chain([&last]).map(|part| part.node).collect();
        self.push(form(operands), span)
    }

    fn push(&mut self, form: Form, span: Span) -> Part {
        self.nodes.push(Node { form, span });
        Part { node: self.nodes.len() - 1, span }
    }
}
