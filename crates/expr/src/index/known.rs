//! Partially known operands as inputs of a scope.

use super::{IndexError, Role, Scope};
use crate::interval::{Interval, Residue};
use crate::provider::{KnownOperand, Operands};
use crate::term::Term;

/// How numbers that are not known yet are represented, depending on whether code can compute them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Shapes are inferred and there is no code, so unknown numbers are question marks. Each is a
    /// separate variable, so arithmetic on it loses no information.
    Analysis,
    /// Code is generated: sizes of operands are dims, elements are symbols.
    Lowering,
}

/// Operands as inputs of a scope. An unknown extent `K` of operand `N` becomes `pN_dK`, a dim or a
/// question mark; element `K` becomes `pN_K`, a symbol or a question mark.
#[derive(Debug)]
pub struct KnownInScope<'a> {
    scope: &'a mut Scope,
    operands: &'a [KnownOperand],
    phase: Phase,
    misuse: Option<IndexError>,
}

impl<'a> KnownInScope<'a> {
    /// Declares operands as inputs of `scope` when they are first used.
    pub fn new(scope: &'a mut Scope, operands: &'a [KnownOperand], phase: Phase) -> Self {
        Self {
            scope,
            operands,
            phase,
            misuse: None,
        }
    }

    /// The error for the first input that could not be declared, if any.
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
