//! Symbolic dimensions in kernels: the module's symbols become index variables, and comparisons
//! that always hold are removed.
//!
//! The bounds of a domain or loop variable with a run-time extent are not useful as numbers. To
//! decide whether `d0 < n` always holds, its largest value `n - 1` is substituted for `d0`.

use super::Emitter;
use crate::kernel::{IndexVar, Kernel, KernelRanges, ScalarId, ScalarOp};
use crate::program::ValueId;
use tegula_expr::{Cmp, Node, Term, Var, canonicalize, range_of};
use tegula_ir::{Dim, ElementType};

impl Emitter<'_> {
    /// Rewrites a size over the module's symbols as one over this kernel's variables.
    pub(crate) fn size(&mut self, size: &Term) -> Term {
        let mut wanted = Vec::new();
        size.for_each_var(&mut |var| wanted.push(var));
        for var in wanted {
            self.symbol(var);
        }
        size.substitute(&mut |var| self.symbols.get(&var).map(|&own| Term::var(own)))
    }

    fn symbol(&mut self, symbol: Var) {
        if self.symbols.contains_key(&symbol) {
            return;
        }
        let known = self.module.symbols.get(symbol.0 as usize);
        let own = self.kernel.push_var(IndexVar::Symbol {
            symbol: symbol.0,
            lower: known.map_or(0, |s| s.lower),
            upper: known.map_or(i64::MAX, |s| s.upper),
        });
        self.symbols.insert(symbol, own);
    }

    /// The sizes of a value's dimensions.
    pub(crate) fn dims(&mut self, value: ValueId) -> Vec<Term> {
        let program = self.program;
        let dims = &program.values[value].shape.dims;
        dims.iter()
            .map(|dim| match dim {
                Dim::Static(size) => Term::constant(*size),
                Dim::Symbolic(size) | Dim::Bounded { size, .. } => {
                    let size = self.size(size);
                    self.simplify(&size)
                }
            })
            .collect()
    }

    /// An index variable for an integer scalar, clamped to `0..=most`.
    pub(crate) fn bind_up_to(&mut self, value: ScalarId, most: &Term) -> Term {
        let most = self.simplify(most);
        if let Some(most) = most.as_constant() {
            return self.bind(value, 0, most);
        }
        let range = range_of(&most, &KernelRanges(&self.kernel.vars));
        let wide = self.index(value);
        let zero = self.compute(ElementType::S64, ScalarOp::Constant(0), &[]);
        let most = self.compute(ElementType::S64, ScalarOp::Index(most), &[]);
        let clamped = self.compute(ElementType::S64, ScalarOp::Clamp, &[zero, wide, most]);
        self.bind_exact(clamped, 0, range.upper.max(0))
    }
}

/// Simplifies a truth value by removing comparisons that hold at every point of a kernel with
/// run-time extents.
pub(crate) fn without_certain(kernel: &Kernel, term: &Term) -> Term {
    match term.node() {
        Node::Mul(a, b) => {
            let (a, b) = (without_certain(kernel, a), without_certain(kernel, b));
            a.mul(&b)
        }
        Node::Cmp(Cmp::Le, a, b) if never_negative(kernel, &b.sub(a)) => Term::constant(1),
        Node::Cmp(Cmp::Lt, a, b) if never_negative(kernel, &b.sub(a).sub(&Term::constant(1))) => {
            Term::constant(1)
        }
        _ => term.clone(),
    }
}

/// Whether a term is at least 0 wherever a kernel evaluates it. Each variable with a run-time
/// extent is replaced by the end of its range at which the term is smallest.
fn never_negative(kernel: &Kernel, term: &Term) -> bool {
    let ranges = KernelRanges(&kernel.vars);
    let mut smallest = canonicalize(term, &ranges);
    // There are finitely many variables, and each round replaces at least one.
    for _ in 0..=kernel.vars.len() {
        let Some((terms, constant)) = smallest.as_linear() else {
            break;
        };
        let mut changed = false;
        let mut sum = Term::constant(constant);
        for (atom, factor) in &terms {
            let replaced = replace_one(kernel, atom, *factor < 0);
            changed |= replaced.is_some();
            let atom = replaced.unwrap_or_else(|| atom.clone());
            sum = sum.add(&atom.mul(&Term::constant(*factor)));
        }
        if !changed {
            break;
        }
        smallest = canonicalize(&sum, &ranges);
    }
    range_of(&smallest, &ranges).lower >= 0
}

/// Replaces the variable in an atom that is a product of sizes and one variable with a run-time
/// extent, by its largest or smallest value.
fn replace_one(kernel: &Kernel, atom: &Term, largest: bool) -> Option<Term> {
    let extent_of = |var: Var| match kernel.var(var) {
        Some(IndexVar::Domain(extent) | IndexVar::Loop(extent))
            if extent.as_constant().is_none() =>
        {
            Some(extent.clone())
        }
        _ => None,
    };
    let mut found = Vec::new();
    let mut is_product = true;
    let mut stack = vec![atom];
    while let Some(term) = stack.pop() {
        match term.node() {
            Node::Mul(a, b) => stack.extend([a, b]),
            Node::Var(var) => found.push(*var),
            Node::Const(value) => is_product &= *value >= 0,
            _ => is_product = false,
        }
    }
    let not_negative = |var: &Var| match kernel.var(*var) {
        Some(IndexVar::Symbol { lower, .. } | IndexVar::Runtime { lower, .. }) => *lower >= 0,
        Some(_) => true,
        None => false,
    };
    if !is_product || !found.iter().all(not_negative) {
        return None;
    }
    let (var, extent) = found.iter().find_map(|&v| Some((v, extent_of(v)?)))?;
    let value = match largest {
        true => extent.sub(&Term::constant(1)),
        false => Term::constant(0),
    };
    Some(atom.substitute(&mut |v| (v == var).then(|| value.clone())))
}
