//! Affine access: the address of an element as a sum of indices times strides.

use tegula_expr::{Interval, Node, Term, Var, VarRanges, canonicalize};
use tegula_fusion::kernel::{Block, IndexVar, ScalarOp, Statement};
use tegula_fusion::{Kernel, var_range};

/// The ranges of a kernel's variables, with another one for the lane variable.
#[derive(Clone, Copy)]
pub(crate) struct Ranges<'a> {
    pub(crate) vars: &'a [IndexVar],
    /// The lane variable, and how many lanes there are where domain dimensions
    /// were merged.
    pub(crate) lanes: Option<(Var, i64)>,
}

impl VarRanges for Ranges<'_> {
    fn range(&self, var: Var) -> Interval {
        match self.lanes {
            Some((lane, extent)) if lane == var => Interval {
                lower: 0,
                upper: extent.saturating_sub(1),
            },
            _ => var_range(self.vars.get(var.0 as usize)),
        }
    }
}

/// `term = coefficient * var + rest`, neither of which mentions the variable.
pub(crate) fn split(term: &Term, var: Var) -> Option<(Term, Term)> {
    if !term.mentions(var) {
        return Some((Term::constant(0), term.clone()));
    }
    let (terms, constant) = term.as_linear()?;
    let mut coefficient = Term::constant(0);
    let mut rest = Term::constant(constant);
    for (atom, factor) in terms {
        let factor = Term::constant(factor);
        if !atom.mentions(var) {
            rest = rest.add(&atom.mul(&factor));
        } else if atom.as_var() == Some(var) {
            coefficient = coefficient.add(&factor);
        } else {
            let Node::Mul(a, b) = atom.node() else {
                return None;
            };
            let other = match (a.as_var() == Some(var), b.as_var() == Some(var)) {
                (true, false) => b,
                (false, true) => a,
                _ => return None,
            };
            if other.mentions(var) {
                return None;
            }
            coefficient = coefficient.add(&other.mul(&factor));
        }
    }
    Some((coefficient, rest))
}

/// The number of elements before the one at an index.
pub(crate) fn linear_index(
    kernel: &Kernel,
    param: usize,
    index: &[Term],
    ranges: &Ranges<'_>,
) -> Term {
    canonicalize(&kernel.params[param].elements_before(index), ranges)
}

/// How many of the innermost domain dimensions can be one run of lanes: all
/// accesses go through them as through one dimension, and nothing else depends
/// on where in them a point lies. Gives their number and the lanes.
pub(crate) fn merged(kernel: &Kernel) -> (usize, Option<i64>) {
    let extent = |var: Var| kernel.constant_extent(var);
    let Some(&lane) = kernel.domain.last() else {
        return (0, None);
    };
    let Some(mut lanes) = extent(lane) else {
        return (1, None);
    };
    let mut uses = Uses::default();
    uses.block(kernel, &kernel.body);
    let mut count = 1;
    for &var in kernel.domain.iter().rev().skip(1) {
        let fits = |linear: &Term| {
            let (Some((inner, _)), Some((outer, _))) = (split(linear, lane), split(linear, var))
            else {
                return false;
            };
            match (inner.as_constant(), outer.as_constant()) {
                (Some(inner), Some(outer)) => inner.checked_mul(lanes) == Some(outer),
                _ => false,
            }
        };
        let other = uses
            .terms
            .iter()
            .any(|term| term.mentions(var) || term.mentions(lane));
        let Some(size) = extent(var) else { break };
        let Some(product) = lanes.checked_mul(size) else {
            break;
        };
        if other || !uses.linear.iter().all(fits) {
            break;
        }
        lanes = product;
        count += 1;
    }
    (count, Some(lanes))
}

/// How far each access of a block goes with a step of a dimension, if that is a constant.
pub(crate) fn steps_along(kernel: &Kernel, block: &Block, var: Var) -> Vec<Option<i64>> {
    let mut uses = Uses::default();
    uses.block(kernel, block);
    let step = |linear: &Term| split(linear, var)?.0.as_constant();
    uses.linear.iter().map(step).collect()
}

/// Where a body uses index variables.
#[derive(Default)]
struct Uses {
    /// In addresses.
    linear: Vec<Term>,
    /// Elsewhere.
    terms: Vec<Term>,
}

impl Uses {
    fn block(&mut self, kernel: &Kernel, block: &Block) {
        let ranges = Ranges {
            vars: &kernel.vars,
            lanes: None,
        };
        for statement in &block.statements {
            match statement {
                Statement::Compute { op, .. } => {
                    if let ScalarOp::Index(term) = op {
                        self.terms.push(term.clone());
                    }
                }
                Statement::Load { param, index, .. } | Statement::Store { param, index, .. } => {
                    self.linear
                        .push(linear_index(kernel, *param, index, &ranges));
                }
                Statement::Bind { .. } => {}
                Statement::Loop { var, body, .. } => {
                    if let Some(IndexVar::Loop(extent)) = kernel.var(*var) {
                        self.terms.push(extent.clone());
                    }
                    self.block(kernel, body);
                }
                Statement::If {
                    condition,
                    then,
                    otherwise,
                    ..
                } => {
                    self.terms.push(condition.clone());
                    self.block(kernel, then);
                    self.block(kernel, otherwise);
                }
            }
        }
    }
}
