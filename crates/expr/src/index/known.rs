//! Operands of which some numbers are known, as inputs of a scope.

use super::{IndexError, Role, Scope};
use crate::interval::{Interval, Residue};
use crate::provider::{KnownOperand, Operands};
use crate::term::Term;

/// What numbers that are not known yet are: whether code for them can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Shapes are inferred: there is no code, so elements of operands are question
    /// marks.
    Analysis,
    /// Code is generated: elements of operands are symbols.
    Lowering,
}

/// Operands as inputs of a scope: an extent that is not known is the dim
/// `pN_dK`, element `K` of operand `N` the symbol or question mark `pN_K`.
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
                self.input(&format!("p{operand}_d{dim}"), Role::Dim, range)
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
