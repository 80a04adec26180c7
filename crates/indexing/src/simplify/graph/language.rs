//! The nodes of the e-graph.
//!
//! Sums have any number of terms, and their constant and coefficients are part of the node; so are
//! constant divisors. Addition therefore needs no rules for commutativity and associativity, which
//! alone would fill the graph.

use egg::{Id, Language};
use smallvec::SmallVec;
use tegula_expr::Cmp;

/// The coefficients of a sum.
pub(super) type Coefficients = SmallVec<[i64; 4]>;
/// The e-classes of a node's operands.
pub(super) type Children = SmallVec<[Id; 4]>;

/// The operation of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// A constant.
    Num(i64),
    /// A variable of the graph's domain.
    Var(u32),
    /// `constant + sum of coefficient * child`.
    Sum(i64, Coefficients),
    /// Floor quotient by a constant greater than one.
    Div(i64),
    /// Remainder by a constant greater than one.
    Mod(i64),
    /// Product of two children.
    Mul,
    /// Floor quotient of two children.
    FloorDiv,
    /// Ceiling quotient of two children.
    CeilDiv,
    /// Remainder of two children.
    ModBy,
    /// The smaller of two children.
    Min,
    /// The larger of two children.
    Max,
    /// Comparison of two children.
    Compare(Cmp),
    /// The second child if the first is not zero, else the third.
    Select,
}

/// A node: an operation and the e-classes that it applies to.
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

    /// The constant and terms of a sum: for each term its e-class and coefficient.
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
