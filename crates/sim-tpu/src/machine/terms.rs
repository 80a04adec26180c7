//! Terms and slices prepared for execution: terms as linear sums, slices with their entries
//! resolved.

use crate::program::BufferId;
use smallvec::SmallVec;
use tegula_expr::{Term, Var};

/// The values of the variables; `None` before a variable has one.
pub(super) type Values = Vec<Option<i64>>;

/// A term in a form that is fast to evaluate.
#[derive(Clone, Debug)]
pub(super) enum Index {
    Constant(i64),
    Linear(i64, SmallVec<[(u32, i64); 3]>),
    General(Term),
}

impl Index {
    pub(super) fn new(term: &Term) -> Self {
        if let Some(constant) = term.as_constant() {
            return Self::Constant(constant);
        }
        if term.is_affine()
            && let Some((terms, constant)) = term.as_linear()
        {
            let pairs = terms.iter().map(|(atom, c)| Some((atom.as_var()?.0, *c)));
            if let Some(pairs) = pairs.collect() {
                return Self::Linear(constant, pairs);
            }
        }
        Self::General(term.clone())
    }

    /// The value; `None` where it has none.
    pub(super) fn value(&self, values: &Values) -> Option<i64> {
        let of = |var: u32| values.get(var as usize).copied().flatten();
        match self {
            Self::Constant(constant) => Some(*constant),
            Self::Linear(constant, pairs) => {
                let mut sum = *constant;
                for &(var, coefficient) in pairs {
                    sum = sum.checked_add(of(var)?.checked_mul(coefficient)?)?;
                }
                Some(sum)
            }
            Self::General(term) => fast(term, &of).or_else(|| {
                let env = |var: Var| of(var.0);
                term.eval(&env).ok()
            }),
        }
    }
}

/// The value of a shallow term by plain recursion on small numbers; `None` leaves it to the checked
/// evaluator.
fn fast(term: &Term, of: &impl Fn(u32) -> Option<i64>) -> Option<i64> {
    use tegula_expr::{Node, ceil_div, floor_div, floor_mod};
    if term.depth() > 32 {
        return None;
    }
    let at = |t: &Term| fast(t, of);
    match term.node() {
        Node::Const(value) => Some(*value),
        Node::Var(var) => of(var.0),
        Node::Add(a, b) => at(a)?.checked_add(at(b)?),
        Node::Mul(a, b) => at(a)?.checked_mul(at(b)?),
        Node::FloorDiv(a, b) => floor_div(at(a)?, at(b)?),
        Node::CeilDiv(a, b) => ceil_div(at(a)?, at(b)?),
        Node::Mod(a, b) => floor_mod(at(a)?, at(b)?),
        Node::Min(a, b) => Some(at(a)?.min(at(b)?)),
        Node::Max(a, b) => Some(at(a)?.max(at(b)?)),
        Node::Cmp(cmp, a, b) => Some(i64::from(cmp.holds(at(a)?, at(b)?))),
        Node::Select(c, a, b) => {
            if at(c)? != 0 {
                at(a)
            } else {
                at(b)
            }
        }
    }
}

/// Stands for a size that is known only when the statement runs.
pub(super) const AT_RUN_TIME: i64 = -1;

/// A slice with its sizes.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) buffer: BufferId,
    pub(super) entries: SmallVec<[CutEntry; 4]>,
    /// The dimensions that are kept, and their sizes; only copies have [`AT_RUN_TIME`] among them.
    pub(super) kept: SmallVec<[usize; 4]>,
    pub(super) sizes: SmallVec<[i64; 4]>,
}

impl Cut {
    /// Whether the slice has no elements, wherever it begins.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.iter().any(|entry| entry.size == 0)
    }

    /// Whether some size is known only when the statement runs.
    pub(super) fn is_sized(&self) -> bool {
        self.sizes.contains(&AT_RUN_TIME)
    }
}

#[derive(Clone, Debug)]
pub(super) struct CutEntry {
    pub(super) start: Index,
    pub(super) size: i64,
    pub(super) clipped: bool,
    /// The term for the size, if it is known only when the statement runs.
    pub(super) sized: Option<Box<Index>>,
}

impl CutEntry {
    /// The number of elements; `None` where the term has no value.
    pub(super) fn size(&self, values: &Values) -> Option<i64> {
        match &self.sized {
            None => Some(self.size),
            Some(size) => size.value(values),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Signal {
    pub(super) array: usize,
    pub(super) index: Index,
}
