//! Terms: immutable trees with shared subterms.

use std::sync::Arc;

/// A variable, numbered by whoever owns the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(pub u32);

/// A comparison of two terms; its value is 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cmp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less than.
    Lt,
    /// Less than or equal.
    Le,
}

/// One node of a term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A constant.
    Const(i64),
    /// A variable.
    Var(Var),
    /// The sum of two terms.
    Add(Term, Term),
    /// The product of two terms.
    Mul(Term, Term),
    /// The quotient rounded towards negative infinity.
    FloorDiv(Term, Term),
    /// The quotient rounded towards positive infinity.
    CeilDiv(Term, Term),
    /// `a - floordiv(a, b) * b`; has the sign of `b`.
    Mod(Term, Term),
    /// The smaller of two terms.
    Min(Term, Term),
    /// The larger of two terms.
    Max(Term, Term),
    /// 1 if the comparison holds, else 0.
    Cmp(Cmp, Term, Term),
    /// The second term where the first is not zero, else the third.
    Select(Term, Term, Term),
}

/// An integer term. Cloning shares the tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(Arc<Node>);

impl Term {
    /// Wraps a node without folding it.
    pub fn raw(node: Node) -> Self {
        Self(Arc::new(node))
    }

    /// The root node.
    pub fn node(&self) -> &Node {
        &self.0
    }

    /// A constant.
    pub fn constant(value: i64) -> Self {
        Self::raw(Node::Const(value))
    }

    /// A variable.
    pub fn var(var: Var) -> Self {
        Self::raw(Node::Var(var))
    }

    /// The value, if the term is a constant.
    pub fn as_constant(&self) -> Option<i64> {
        match self.node() {
            Node::Const(value) => Some(*value),
            _ => None,
        }
    }
}

impl From<i64> for Term {
    fn from(value: i64) -> Self {
        Self::constant(value)
    }
}
