//! Loop versioning: splits the outer dimensions of a kernel where a branch changes, so that the
//! branch is the same for all lanes of a row.
//!
//! The branches of a concatenation, padding or rotation along an outer dimension are the same for
//! all lanes of a row. Each row uses the version of the loop in which the branches are decided,
//! selected by comparing outer indices with constants.

use crate::analysis::known_branches::{factors, resolved};
use smallvec::SmallVec;
use tegula_expr::{Interval, Term, Var, VarRanges, canonicalize};
use tegula_fusion::kernel::{Block, IndexVar, ScalarOp, Statement};
use tegula_fusion::{Kernel, KernelRanges, Rename};

/// A decision tree: comparisons of indices with constants select a leaf.
#[derive(Clone, Debug)]
pub(crate) enum Version<T> {
    /// A leaf.
    Leaf(T),
    /// Selects by whether an index is below a constant.
    Split {
        /// A domain variable.
        var: Var,
        /// The first index that is not below.
        bound: i64,
        /// The subtree for indices below `bound`.
        below: Box<Version<T>>,
        /// The subtree for all others.
        above: Box<Version<T>>,
    },
}

impl<T> Version<T> {
    /// Maps the leaves; `None` if the function gives that for one.
    pub(crate) fn map<U>(self, to: &mut impl FnMut(T) -> Option<U>) -> Option<Version<U>> {
        Some(match self {
            Self::Leaf(leaf) => Version::Leaf(to(leaf)?),
            Self::Split {
                var,
                bound,
                below,
                above,
            } => Version::Split {
                var,
                bound,
                below: Box::new(below.map(to)?),
                above: Box::new(above.map(to)?),
            },
        })
    }

    /// Calls a function for each leaf.
    pub(crate) fn for_each<'a>(&'a self, visit: &mut impl FnMut(&'a T)) {
        match self {
            Self::Leaf(leaf) => visit(leaf),
            Self::Split { below, above, .. } => {
                below.for_each(visit);
                above.for_each(visit);
            }
        }
    }
}

/// The maximum number of versions: each is compiled, except if its body equals another one's, as
/// for many parts of a concatenation.
const MAX_VERSIONS: usize = 128;
/// The share of the lanes' operations that versions must save to pay.
pub(crate) const MIN_SAVED: f64 = 0.3;
/// The cost of a function that lanes compute as a polynomial, in operations.
const FUNCTION: f64 = 10.0;

/// The versions of a kernel, selected by some of its domain variables; `None` if that saves less
/// than the share `least_saved` of its operations.
pub(crate) fn versions(
    kernel: &Kernel,
    outer: &[Var],
    least_saved: f64,
) -> Option<Version<Kernel>> {
    let whole = operations(&kernel.body);
    let mut maker = Maker {
        outer,
        ranges: Narrowed {
            vars: &kernel.vars,
            within: SmallVec::new(),
        },
        made: 0,
        expected: 0.0,
    };
    let made = maker.split(kernel.clone(), 1.0)?;
    let pays = maker.made > 1 && maker.expected <= (1.0 - least_saved) * whole;
    pays.then_some(made)
}

/// The ranges of a kernel's variables, some of them narrowed.
struct Narrowed<'a> {
    vars: &'a [IndexVar],
    within: SmallVec<[(Var, Interval); 4]>,
}

impl VarRanges for Narrowed<'_> {
    fn range(&self, var: Var) -> Interval {
        let last = self.within.iter().rev().find(|(v, _)| *v == var);
        last.map_or_else(|| KernelRanges(self.vars).range(var), |(_, i)| *i)
    }
}

struct Maker<'a> {
    outer: &'a [Var],
    ranges: Narrowed<'a>,
    made: usize,
    /// The expected number of operations at a point.
    expected: f64,
}

impl Maker<'_> {
    /// Splits a kernel that has `share` of all points. `None` if there are too many versions.
    fn split(&mut self, kernel: Kernel, share: f64) -> Option<Version<Kernel>> {
        let Some((var, bound)) = self.boundary(&kernel.body) else {
            self.made += 1;
            self.expected += share * operations(&kernel.body);
            return (self.made <= MAX_VERSIONS).then_some(Version::Leaf(kernel));
        };
        let Interval { lower, upper } = self.ranges.range(var);
        let length = (upper - lower + 1) as f64;
        let mut side = |lower: i64, upper: i64| {
            self.ranges.within.push((var, Interval { lower, upper }));
            let mut part = kernel.clone();
            part.body = resolved(&kernel.body, &mut Rename::default(), &self.ranges);
            let made = self.split(part, share * (upper - lower + 1) as f64 / length);
            self.ranges.within.pop();
            made
        };
        Some(Version::Split {
            var,
            bound,
            below: Box::new(side(lower, bound - 1)?),
            above: Box::new(side(bound, upper)?),
        })
    }

    /// The first constant inside an outer variable's range at which a condition changes.
    fn boundary(&self, block: &Block) -> Option<(Var, i64)> {
        block
            .statements
            .iter()
            .find_map(|statement| match statement {
                Statement::If {
                    condition,
                    then,
                    otherwise,
                    ..
                } => self
                    .inside(condition)
                    .or_else(|| self.boundary(then))
                    .or_else(|| self.boundary(otherwise)),
                Statement::Loop { body, .. } => self.boundary(body),
                _ => None,
            })
    }

    fn inside(&self, condition: &Term) -> Option<(Var, i64)> {
        let condition = canonicalize(condition, &self.ranges);
        self.outer.iter().find_map(|&var| {
            let Interval { lower, upper } = self.ranges.range(var);
            if upper == i64::MAX {
                return None;
            }
            let mut bounds = Vec::new();
            factors(&condition, var, &mut bounds);
            let inside = bounds.into_iter().find(|&b| lower < b && b <= upper);
            inside.map(|bound| (var, bound))
        })
    }
}

/// The operations of lanes in a block, including both branches of conditionals.
pub(crate) fn operations(block: &Block) -> f64 {
    let of = |statement: &Statement| match statement {
        Statement::Compute { op, .. } => match op {
            ScalarOp::Constant(_) => 0.0,
            op if crate::simd::mathlib::is_call(op) => FUNCTION,
            _ => 1.0,
        },
        Statement::Load { .. } | Statement::Store { .. } => 2.0,
        Statement::Bind { .. } => 1.0,
        Statement::Loop { body, .. } => FUNCTION * operations(body),
        Statement::If {
            then, otherwise, ..
        } => 1.0 + operations(then) + operations(otherwise),
    };
    block.statements.iter().map(of).sum()
}
