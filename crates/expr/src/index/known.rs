//! Operands of which some numbers are known, as inputs of a scope.

use super::{IndexError, Role, Scope};
use crate::interval::{Interval, Residue};
use crate::provider::{KnownOperand, Operands};
use crate::term::Term;

/// What numbers that are not known yet are: whether code for them can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Shapes are inferred: there is no code, so what is not known is a question mark.
    /// Each is one of its own, and arithmetic on it forgets nothing.
    Analysis,
    /// Code is generated: sizes of operands are dims, elements are symbols.
    Lowering,
}

/// Operands as inputs of a scope: an extent that is not known is `pN_dK`, a dim or a
/// question mark, element `K` of operand `N` is `pN_K`, a symbol or a question mark.
#[derive(Debug)]
pub struct KnownInScope<'a> {
    scope: &'a mut Scope,
    operands: &'a [KnownOperand],
    phase: Phase,
    misuse: Option<IndexError>,
}

impl<'a> KnownInScope<'a> {
    /// Operands that become inputs of `scope` as they are asked for.
    pub fn new(scope: &'a mut Scope, operands: &'a [KnownOperand], phase: Phase) -> Self {
        Self {
            scope,
            operands,
            phase,
            misuse: None,
        }
    }

    /// The first input that the scope would not take.
    pub fn misuse(&self) -> Option<&IndexError> {
        self.misuse.as_ref()
    }

    fn input(&mut self, name: &str, role: Role, range: Interval) -> Term {
        let input = self.scope.declare(name, role, range, Residue::ANY);
        match input.map(|expr| expr.term().cloned()) {
            Ok(term) => term.unwrap_or_default(),
            Err(error) => {
                self.misuse.get_or_insert(error);
                Term::default()
            }
        }
    }
}

impl Operands for KnownInScope<'_> {
    type Index = Term;

    fn shape(&mut self, operand: usize, dim: usize) -> Term {
        match self.operands.get(operand).and_then(|known| known.dim(dim)) {
            Some(size) => Term::constant(size),
            None => {
                let range = Interval::new(0, i64::MAX);
                let role = match self.phase {
                    Phase::Analysis => Role::QuestionMark,
                    Phase::Lowering => Role::Dim,
                };
                self.input(&format!("p{operand}_d{dim}"), role, range)
            }
        }
    }

    fn constant(&mut self, operand: usize, flat: usize) -> Option<i64> {
        self.operands.get(operand)?.element(flat)
    }

    fn value(&mut self, operand: usize, flat: usize) -> Term {
        if let Some(value) = self.constant(operand, flat) {
            return Term::constant(value);
        }
        let role = match self.phase {
            Phase::Analysis => Role::QuestionMark,
            Phase::Lowering => Role::Symbol,
        };
        self.input(&format!("p{operand}_{flat}"), role, Interval::FULL)
    }
}
