//! The nodes of the e-graph.
//!
//! Sums have any number of terms, and their constant and coefficients are part of
//! the node, as constant divisors are: addition needs no commutativity and
//! associativity rules, which alone would fill the graph.

use egg::{Id, Language};
use smallvec::SmallVec;
use tegula_expr::Cmp;

/// Numbers of a sum.
pub(super) type Coefficients = SmallVec<[i64; 4]>;
/// Classes that a node stands on.
pub(super) type Children = SmallVec<[Id; 4]>;

/// What a node does with its children.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// A constant.
    Num(i64),
    /// A variable of the graph's domain.
    Var(u32),
    /// `constant + sum of coefficient * child`.
    Sum(i64, Coefficients),
    /// Floor quotient by a constant above one.
    Div(i64),
    /// Remainder by a constant above one.
    Mod(i64),
    /// Product of two.
    Mul,
    /// Floor quotient of two.
    FloorDiv,
    /// Ceiling quotient of two.
    CeilDiv,
    /// Remainder of two.
    ModBy,
    /// The smaller of two.
    Min,
    /// The larger of two.
    Max,
    /// A comparison of two.
    Compare(Cmp),
    /// The second where the first is not zero, else the third.
    Select,
}

/// A node: what it does, and with which classes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) children: Children,
}

impl Node {
    pub(super) fn new(kind: Kind, children: impl IntoIterator<Item = Id>) -> Self {
        Self {
            kind,
            children: children.into_iter().collect(),
        }
    }

    /// The terms of a sum: coefficient and class.
    pub(super) fn sum_terms(&self) -> Option<(i64, Vec<(Id, i64)>)> {
        match &self.kind {
            Kind::Sum(constant, coefficients) => {
                let terms = self
                    .children
                    .iter()
                    .copied()
                    .zip(coefficients.iter().copied());
                Some((*constant, terms.collect()))
            }
            _ => None,
        }
    }
}

impl Language for Node {
    type Discriminant = Kind;

    fn discriminant(&self) -> Kind {
        self.kind.clone()
    }

    fn matches(&self, other: &Self) -> bool {
        self.kind == other.kind && self.children.len() == other.children.len()
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}
