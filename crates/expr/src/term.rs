//! Terms: immutable trees with shared subterms.
//!
//! A term is a pointer to a node that also stores a hash, a size and a depth. So hashing is free,
//! comparison stops at shared subterms, and every traversal knows whether plain recursion is safe.
//! Nothing here recurses on deep trees: comparison and destruction keep their own stacks.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashSet, FxHasher};
use smallvec::SmallVec;

/// A variable; the owner of the term assigns the numbers.
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

impl Cmp {
    /// Whether the comparison holds between two values.
    pub fn holds<T: Ord + Copy>(self, a: T, b: T) -> bool {
        match self {
            Self::Eq => a == b,
            Self::Ne => a != b,
            Self::Lt => a < b,
            Self::Le => a <= b,
        }
    }
}

/// One node of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The subterms of one node, at most three.
pub(crate) type Children<'a> = SmallVec<[&'a Term; 3]>;

impl Node {
    /// The direct subterms, left to right.
    pub(crate) fn children(&self) -> Children<'_> {
        match self {
            Self::Const(_) | Self::Var(_) => SmallVec::new(),
            Self::Add(a, b)
            | Self::Mul(a, b)
            | Self::FloorDiv(a, b)
            | Self::CeilDiv(a, b)
            | Self::Mod(a, b)
            | Self::Min(a, b)
            | Self::Max(a, b)
            | Self::Cmp(_, a, b) => Children::from_slice(&[a, b]),
            Self::Select(c, a, b) => Children::from_slice(&[c, a, b]),
        }
    }

    fn into_children(self) -> SmallVec<[Term; 3]> {
        match self {
            Self::Const(_) | Self::Var(_) => SmallVec::new(),
            Self::Add(a, b)
            | Self::Mul(a, b)
            | Self::FloorDiv(a, b)
            | Self::CeilDiv(a, b)
            | Self::Mod(a, b)
            | Self::Min(a, b)
            | Self::Max(a, b)
            | Self::Cmp(_, a, b) => SmallVec::from_iter([a, b]),
            Self::Select(c, a, b) => SmallVec::from_iter([c, a, b]),
        }
    }

    /// The place of the node's kind in the order of sum terms: the order in
    /// which index expressions are printed (sums first, constants last).
    fn rank(&self) -> u8 {
        match self {
            Self::Add(..) => 0,
            Self::Mul(..) => 1,
            Self::Mod(..) => 2,
            Self::FloorDiv(..) => 3,
            Self::CeilDiv(..) => 4,
            Self::Max(..) => 5,
            Self::Min(..) => 6,
            Self::Cmp(..) => 7,
            Self::Select(..) => 8,
            Self::Var(_) => 9,
            Self::Const(_) => 10,
        }
    }

    /// Compares everything but the subterms.
    fn compare_shallow(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Const(a), Self::Const(b)) => a.cmp(b),
            (Self::Var(a), Self::Var(b)) => a.cmp(b),
            (Self::Cmp(a, ..), Self::Cmp(b, ..)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

#[derive(Debug)]
struct Inner {
    node: Node,
    hash: u64,
    size: u32,
    depth: u32,
}

/// Trees up to this many nodes (counted without sharing) are walked by plain
/// recursion; larger ones with a stack and a memo.
pub(crate) const SMALL: u32 = 64;

impl Drop for Inner {
    fn drop(&mut self) {
        if self.depth <= SMALL {
            return;
        }
        let mut stack = std::mem::replace(&mut self.node, Node::Const(0)).into_children();
        while let Some(Term(inner)) = stack.pop() {
            if let Some(mut inner) = Arc::into_inner(inner) {
                let node = std::mem::replace(&mut inner.node, Node::Const(0));
                stack.extend(node.into_children());
            }
        }
    }
}

/// An integer term. Cloning shares the tree.
///
/// Terms compare by structure. The order is that of the terms of a printed sum:
/// by kind (sum, product, mod, floor quotient, ceiling quotient, max, min,
/// comparison, select, variable, constant), then operands from the left.
#[derive(Clone)]
pub struct Term(Arc<Inner>);

impl Term {
    /// Wraps a node without folding it.
    pub fn raw(node: Node) -> Self {
        let mut hasher = FxHasher::default();
        node.rank().hash(&mut hasher);
        match &node {
            Node::Const(value) => value.hash(&mut hasher),
            Node::Var(var) => var.hash(&mut hasher),
            Node::Cmp(op, ..) => op.hash(&mut hasher),
            _ => {}
        }
        let (mut size, mut depth) = (1u32, 0u32);
        for child in node.children() {
            child.0.hash.hash(&mut hasher);
            size = size.saturating_add(child.0.size);
            depth = depth.max(child.0.depth);
        }
        Self(Arc::new(Inner {
            node,
            hash: hasher.finish(),
            size,
            depth: depth.saturating_add(1),
        }))
    }

    /// The root node.
    pub fn node(&self) -> &Node {
        &self.0.node
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

    /// The variable, if the term is one.
    pub fn as_var(&self) -> Option<Var> {
        match self.node() {
            Node::Var(var) => Some(*var),
            _ => None,
        }
    }

    /// Nodes on the longest path from the root to a leaf.
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    /// Nodes of the tree, a shared subterm counted at every use; saturates.
    pub fn size(&self) -> u32 {
        self.0.size
    }

    /// The address of the shared node: equal addresses mean equal terms.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

/// Structural comparison.
fn compare(a: &Term, b: &Term) -> Ordering {
    // It goes no deeper than the smaller of the two.
    if a.size().min(b.size()) <= SMALL {
        compare_small(a, b)
    } else {
        compare_large(a, b)
    }
}

fn compare_small(a: &Term, b: &Term) -> Ordering {
    if Arc::ptr_eq(&a.0, &b.0) {
        return Ordering::Equal;
    }
    let order = a.node().compare_shallow(b.node());
    if order != Ordering::Equal {
        return order;
    }
    match (a.node(), b.node()) {
        (Node::Add(a, x), Node::Add(b, y))
        | (Node::Mul(a, x), Node::Mul(b, y))
        | (Node::FloorDiv(a, x), Node::FloorDiv(b, y))
        | (Node::Mod(a, x), Node::Mod(b, y)) => {
            compare_small(a, b).then_with(|| compare_small(x, y))
        }
        (a, b) => {
            let pairs = a.children().into_iter().zip(b.children());
            let orders = pairs.map(|(a, b)| compare_small(a, b));
            orders.fold(Ordering::Equal, Ordering::then)
        }
    }
}

/// Keeps its own stack, and remembers the pairs already found equal, so that two
/// equal graphs with many shared subterms compare in time linear in the graph.
fn compare_large(a: &Term, b: &Term) -> Ordering {
    let mut stack: SmallVec<[(&Term, &Term); 8]> = SmallVec::from_iter([(a, b)]);
    let mut seen = FxHashSet::default();
    while let Some((a, b)) = stack.pop() {
        if Arc::ptr_eq(&a.0, &b.0) {
            continue;
        }
        let order = a.node().compare_shallow(b.node());
        if order != Ordering::Equal {
            return order;
        }
        if !seen.insert((a.address(), b.address())) {
            continue;
        }
        let (left, right) = (a.node().children(), b.node().children());
        stack.extend(left.into_iter().zip(right).rev());
    }
    Ordering::Equal
}

impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.hash == other.0.hash
                && self.0.size == other.0.size
                && compare(self, other) == Ordering::Equal)
    }
}

impl Eq for Term {}

impl PartialOrd for Term {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Term {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

impl Hash for Term {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

impl From<i64> for Term {
    fn from(value: i64) -> Self {
        Self::constant(value)
    }
}

impl From<Var> for Term {
    fn from(var: Var) -> Self {
        Self::var(var)
    }
}
