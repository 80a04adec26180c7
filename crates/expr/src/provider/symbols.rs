//! The provider for analyses.

use super::{Arithmetic, Operands, Provider};
use crate::term::Term;

/// The provider for analyses: numbers are terms.
#[derive(Debug)]
pub struct Symbols<O>(pub O);

/// A provider of terms without operands.
pub fn terms() -> Symbols<NoOperands> {
    Symbols(NoOperands)
}

/// No operands: every extent and element is 0.
#[derive(Clone, Copy, Debug)]
pub struct NoOperands;

impl Operands for NoOperands {
    type Index = Term;

    fn shape(&mut self, _operand: usize, _dim: usize) -> Term {
        Term::constant(0)
    }
    fn constant(&mut self, _operand: usize, _flat: usize) -> Option<i64> {
        None
    }
    fn value(&mut self, _operand: usize, _flat: usize) -> Term {
        Term::constant(0)
    }
}

impl<O: Operands<Index = Term>> Provider for Symbols<O> {
    type Index = Term;

    fn literal(&mut self, value: i64) -> Term {
        Term::constant(value)
    }
    fn arithmetic(&mut self, op: Arithmetic, a: &Term, b: &Term) -> Term {
        Term::arithmetic(op, a, b)
    }
    fn select(&mut self, condition: &Term, a: &Term, b: &Term) -> Term {
        Term::select(condition, a, b)
    }
    fn as_literal(&self, index: &Term) -> Option<i64> {
        index.as_constant()
    }
    fn shape(&mut self, operand: usize, dim: usize) -> Term {
        self.0.shape(operand, dim)
    }
    fn constant(&mut self, operand: usize, flat: usize) -> Option<i64> {
        self.0.constant(operand, flat)
    }
    fn value(&mut self, operand: usize, flat: usize) -> Term {
        self.0.value(operand, flat)
    }
}

impl Term {
    /// An operation on two terms.
    #[must_use]
    pub fn arithmetic(op: Arithmetic, a: &Self, b: &Self) -> Self {
        match op {
            Arithmetic::Add => a.add(b),
            Arithmetic::Sub => a.sub(b),
            Arithmetic::Mul => a.mul(b),
            Arithmetic::FloorDiv => a.floor_div(b),
            Arithmetic::CeilDiv => a.ceil_div(b),
            Arithmetic::Mod => a.modulo(b),
            Arithmetic::Min => Self::min(a, b),
            Arithmetic::Max => Self::max(a, b),
            Arithmetic::Cmp(op) => Self::cmp(op, a, b),
        }
    }
}
