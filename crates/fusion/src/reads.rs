//! What fusion asks of the indexing analysis: the one map by which an operation
//! reads an operand, as terms that can be put at a kernel's indices.

use crate::error::Error;
use tegula_expr::{Cmp, Interval, Term, Var};
use tegula_ir::{InstructionId, Module};

/// A run-time variable of a map: which operand holds it, and where.
pub(crate) struct RuntimeRead {
    pub operand: usize,
    /// Over the map's dimensions and ranges.
    pub index: Vec<Term>,
    pub bounds: Interval,
}

/// A map from a result's index to an operand's. Variables are numbered
/// dimensions first, then ranges, then run-time variables.
pub(crate) struct ReadMap {
    /// The extent of each range.
    pub ranges: Vec<Term>,
    pub runtime: Vec<RuntimeRead>,
    results: Vec<Term>,
    constraints: Vec<(Term, Interval)>,
}

/// A read at one place of a kernel.
pub(crate) struct Read {
    /// The operand's index.
    pub index: Vec<Term>,
    /// Not zero where the operand is read at all.
    pub condition: Term,
}

/// Replaces the variable of number `i` by `known[i]`.
pub(crate) fn substitute(term: &Term, known: &[Term]) -> Term {
    term.substitute(&mut |var: Var| known.get(var.0 as usize).cloned())
}

impl ReadMap {
    /// The map of an instruction for one operand.
    pub(crate) fn new(module: &Module, id: InstructionId, operand: usize) -> Result<Self, Error> {
        todo!()
    }

    /// The read with every variable known.
    pub(crate) fn at(&self, known: &[Term]) -> Read {
        let mut condition = Term::constant(1);
        for (term, interval) in &self.constraints {
            let term = substitute(term, known);
            for holds in [
                Term::cmp(Cmp::Le, &Term::constant(interval.lower), &term),
                Term::cmp(Cmp::Le, &term, &Term::constant(interval.upper)),
            ] {
                condition = condition.mul(&holds);
            }
        }
        let index = self.results.iter().map(|t| substitute(t, known)).collect();
        Read { index, condition }
    }
}
