//! The source tree: what was written, before it is known whether it makes sense.
//!
//! A tree is a list of nodes, children before their parents. So no depth of nesting costs stack when it is
//! walked, compared or dropped.

use std::{mem, sync::Arc};

use super::rule::{ActionCall, ComparisonOperator, LiteralValue, Span};

/// A whole source.
#[derive(Debug, PartialEq)]
pub(super) enum Program {
    Filter(Choices<Tree>),
    Mask(Choices<ActionCall>),
}

/// `result if condition else := result if condition … else := fallback`.
#[derive(Debug, PartialEq)]
pub(super) struct Choices<R> {
    pub(super) branches: Vec<(R, Tree)>,
    pub(super) fallback: R,
}

/// One expression; its last node is the root.
#[derive(Debug, PartialEq)]
pub(super) struct Tree {
    nodes: Vec<Node>,
}

/// The index of a node in its tree.
pub(super) type NodeId = usize;

/// One operator, call, scalar literal or array.
#[derive(Debug, PartialEq)]
pub(super) struct Node {
    pub(super) form: Form,
    pub(super) span: Span,
}

#[derive(Debug, PartialEq)]
pub(super) enum Form {
    Column(Arc<str>),
    SessionUser,
    IsGroupMember(Arc<str>),
    Scalar(Scalar),
    Array(Vec<(Scalar, Span)>),
    Compare { left: NodeId, operator: Operator, right: NodeId },
    Not(NodeId),
    And(Vec<NodeId>),
    Or(Vec<NodeId>),
}

/// A literal; `None` is `null`.
pub(super) type Scalar = Option<LiteralValue>;

/// What may stand between two primaries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Compare(ComparisonOperator),
    In,
}

impl<R> Choices<R> {
    pub(super) fn new(fallback: R) -> Self {
        Self { branches: Vec::new(), fallback }
    }

    /// Appends `if condition else := fallback`.
    pub(super) fn push(&mut self, condition: Tree, fallback: R) {
        let result = mem::replace(&mut self.fallback, fallback);
        self.branches.push((result, condition));
    }

    fn conditions(&self) -> impl Iterator<Item = &Tree> {
        self.branches.iter().map(|(_, condition)| condition)
    }

    fn results(&self) -> impl Iterator<Item = &R> {
        self.branches.iter().map(|(result, _)| result).chain([&self.fallback])
    }
}

impl Program {
    /// Every result and condition that is an expression.
    pub(super) fn trees(&self) -> Vec<&Tree> {
        match self {
            Self::Filter(choices) => choices.results().chain(choices.conditions()).collect(),
            Self::Mask(choices) => choices.conditions().collect(),
        }
    }

    /// Every result that is an action.
    pub(super) fn actions(&self) -> Vec<&ActionCall> {
        match self {
            Self::Filter(_) => Vec::new(),
            Self::Mask(choices) => choices.results().collect(),
        }
    }
}

impl Tree {
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        Self { nodes }
    }

    /// Every node, children before their parents.
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn root(&self) -> NodeId {
        self.nodes.len() - 1
    }
}
