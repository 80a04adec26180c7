//! A provider that reports what a computation relies on.

use super::{Arithmetic, Provider};
use crate::term::Cmp;
use std::fmt::Display;

/// A provider that forwards everything to another one, and passes requirements to a function.
#[derive(Debug)]
pub struct Watched<P, F> {
    /// The provider that it forwards to.
    pub provider: P,
    /// Called for each `a op b` that the computation relies on, with its description.
    pub required: F,
}

impl<P, F> Provider for Watched<P, F>
where
    P: Provider,
    F: FnMut(Cmp, &P::Index, &P::Index, &dyn Display),
{
    type Index = P::Index;

    fn literal(&mut self, value: i64) -> P::Index {
        self.provider.literal(value)
    }
    fn arithmetic(&mut self, op: Arithmetic, a: &P::Index, b: &P::Index) -> P::Index {
        self.provider.arithmetic(op, a, b)
    }
    fn select(&mut self, condition: &P::Index, a: &P::Index, b: &P::Index) -> P::Index {
        self.provider.select(condition, a, b)
    }
    fn as_literal(&self, index: &P::Index) -> Option<i64> {
        self.provider.as_literal(index)
    }
    fn shape(&mut self, operand: usize, dim: usize) -> P::Index {
        self.provider.shape(operand, dim)
    }
    fn constant(&mut self, operand: usize, flat: usize) -> Option<i64> {
        self.provider.constant(operand, flat)
    }
    fn value(&mut self, operand: usize, flat: usize) -> P::Index {
        self.provider.value(operand, flat)
    }
    fn require(&mut self, op: Cmp, a: &P::Index, b: &P::Index, what: &dyn Display) {
        (self.required)(op, a, b, what);
    }
}
