//! Affine access: the address of an element as a sum of indices times strides.

use tegula_expr::{Interval, Node, Term, Var, VarRanges, canonicalize};
use tegula_fusion::kernel::{Block, IndexVar, ScalarOp, Statement};
use tegula_fusion::{Kernel, KernelRanges};

/// The ranges of a kernel's variables, with a separate one for the lane variable.
#[derive(Clone, Copy)]
pub(crate) struct Ranges<'a> {
    pub(crate) vars: &'a [IndexVar],
    /// The lane variable, and the maximum number of lanes if domain dimensions were merged into it.
    pub(crate) lanes: Option<(Var, i64)>,
}

impl VarRanges for Ranges<'_> {
    fn range(&self, var: Var) -> Interval {
        match self.lanes {
            Some((lane, extent)) if lane == var => Interval {
                lower: 0,
                upper: extent.saturating_sub(1),
            },
            _ => KernelRanges(self.vars).range(var),
        }
    }
}

/// Splits `term` into `coefficient * var + rest`, where neither part mentions the variable. A
/// factor of a product may itself be such a sum: element offsets have this form if sizes are open.
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
            let (side, other) = match (a.mentions(var), b.mentions(var)) {
                (true, false) => (a, b),
                (false, true) => (b, a),
                _ => return None,
            };
            let other = other.mul(&factor);
            let (of_side, without) = split(side, var)?;
            coefficient = coefficient.add(&of_side.mul(&other));
            rest = rest.add(&without.mul(&other));
        }
    }
    Some((coefficient, rest))
}

/// The offset of an element in its array, in elements.
pub(crate) fn linear_index(
    kernel: &Kernel,
    param: usize,
    index: &[Term],
    ranges: &Ranges<'_>,
) -> Term {
    canonicalize(&kernel.params[param].elements_before(index), ranges)
}

/// The number of innermost domain dimensions that can form one vector loop: all accesses go through
/// them as through one dimension, and nothing else depends on their indices. Also gives the number
/// of lanes, as a term over symbols if sizes are open.
pub(crate) fn merged(kernel: &Kernel) -> (usize, Term) {
    let Some(&lane) = kernel.domain.last() else {
        return (0, Term::constant(1));
    };
    let Some(extent) = kernel.extent(lane) else {
        return (1, Term::constant(i64::MAX));
    };
    let ranges = Ranges {
        vars: &kernel.vars,
        lanes: None,
    };
    let mut uses = Uses::default();
    uses.block(kernel, &kernel.body);
    let is_used = |var: Var| uses.terms.iter().any(|term| term.mentions(var));
    let mut lanes = canonicalize(extent, &ranges);
    let mut count = 1;
    for &var in kernel.domain.iter().rev().skip(1) {
        let fits = |linear: &Term| {
            let (Some((inner, _)), Some((outer, _))) = (split(linear, lane), split(linear, var))
            else {
                return false;
            };
            canonicalize(&inner.mul(&lanes), &ranges) == canonicalize(&outer, &ranges)
        };
        let Some(size) = kernel.extent(var) else {
            break;
        };
        let product = canonicalize(&lanes.mul(size), &ranges);
        if is_used(var) || is_used(lane) || !uses.linear.iter().all(fits) {
            break;
        }
        lanes = product;
        count += 1;
    }
    (count, lanes)
}

/// An access of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The parameter.
    pub param: usize,
    /// Whether it is a store.
    pub is_store: bool,
    /// Its stride along a dimension in elements, if that is a constant.
    pub step: Option<i64>,
}

/// The stride of each access of a block along a dimension.
pub(crate) fn steps_along(kernel: &Kernel, block: &Block, var: Var) -> Vec<Step> {
    let mut uses = Uses::default();
    uses.block(kernel, block);
    let step = |linear: &Term| split(linear, var)?.0.as_constant();
    let places = uses.places.iter().zip(&uses.linear);
    places
        .map(|(&(param, is_store), linear)| Step {
            param,
            is_store,
            step: step(linear),
        })
        .collect()
}

/// The uses of index variables in a body.
#[derive(Default)]
struct Uses {
    /// Terms in addresses.
    linear: Vec<Term>,
    /// For each of these, the parameter, and whether it is the address of a store.
    places: Vec<(usize, bool)>,
    /// Terms elsewhere.
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
                    self.places.push((*param, statement.is_store()));
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
