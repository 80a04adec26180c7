//! Loop versioning: splits the outer dimensions of a kernel where a branch changes, so that the
//! branch is the same for all lanes of a row.
//!
//! A concatenation, padding or rotation along an outer dimension asks the same of all lanes of a
//! row. Each row uses the version of the loop in which the answer is known, chosen by comparing
//! outer indices with constants.

use crate::analysis::known_branches::{factors, resolved};
use smallvec::SmallVec;
use tegula_expr::{Interval, Term, Var, VarRanges, canonicalize};
use tegula_fusion::kernel::{Block, IndexVar, ScalarOp, Statement};
use tegula_fusion::{Kernel, KernelRanges, Rename};

/// What is chosen by comparing indices with constants.
#[derive(Clone, Debug)]
pub(crate) enum Version<T> {
    /// For whatever gets here.
    Leaf(T),
    /// By whether an index is below a constant.
    Split {
        /// A domain variable.
        var: Var,
        /// The first index that is not below.
        bound: i64,
        /// Where it is below.
        below: Box<Version<T>>,
        /// Elsewhere.
        above: Box<Version<T>>,
    },
}

impl<T> Version<T> {
    /// The same choice among other things; `None` if one of them is.
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

    /// Calls a function for everything that is chosen among.
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

/// The most versions: each is compiled, but for those of equal bodies, as the parts of a
/// concatenation are.
const MAX_VERSIONS: usize = 128;
/// Of all operations that lanes would do, so much must not be done for versions to pay.
pub(crate) const MIN_SAVED: f64 = 0.3;
/// What a function that lanes compute as a polynomial counts, in operations.
const FUNCTION: f64 = 10.0;

/// The versions of a kernel by some of its domain variables, its body that of each; `None`
/// if it is better left whole: if less than a share of its operations would not be done.
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
    /// Operations at a point, over all points.
    expected: f64,
}

impl Maker<'_> {
    /// `share` of the kernel's points are where we are. `None` if there are too many versions.
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

    /// The first constant inside an outer variable's range on which a choice depends.
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

/// Operations of lanes in a block, of both branches of a choice.
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
