//! The provider for evaluators.

use super::{Arithmetic, Operands, Provider};
use crate::eval::EvalError;
use crate::number;

/// The provider for evaluators. A number is a value, or the reason why there is none; it is kept as
/// data, so that shape code needs no error handling.
#[derive(Debug)]
pub struct Numbers<O>(pub O);

/// A value, or the reason why there is none.
pub type Number = Result<i64, EvalError>;

impl Arithmetic {
    /// Applies the operation to two values. If neither operand has a value, the first one's reason
    /// is returned.
    ///
    /// # Errors
    /// An operand has no value, the divisor is zero, or the result does not fit.
    pub fn apply(self, a: Number, b: Number) -> Number {
        let (a, b) = (a?, b?);
        let divides = matches!(self, Self::FloorDiv | Self::CeilDiv | Self::Mod);
        if divides && b == 0 {
            return Err(EvalError::DivisionByZero);
        }
        let value = match self {
            Self::Add => a.checked_add(b),
            Self::Sub => a.checked_sub(b),
            Self::Mul => a.checked_mul(b),
            Self::FloorDiv => number::floor_div(a, b),
            Self::CeilDiv => number::ceil_div(a, b),
            Self::Mod => number::floor_mod(a, b),
            Self::Min => Some(a.min(b)),
            Self::Max => Some(a.max(b)),
            Self::Cmp(op) => Some(i64::from(op.holds(a, b))),
        };
        value.ok_or(EvalError::Overflow)
    }
}

impl<O: Operands<Index = Number>> Provider for Numbers<O> {
    type Index = Number;

    fn literal(&mut self, value: i64) -> Number {
        Ok(value)
    }
    fn arithmetic(&mut self, op: Arithmetic, a: &Number, b: &Number) -> Number {
        op.apply(*a, *b)
    }
    fn select(&mut self, condition: &Number, a: &Number, b: &Number) -> Number {
        if (*condition)? != 0 { *a } else { *b }
    }
    fn as_literal(&self, index: &Number) -> Option<i64> {
        index.ok()
    }
    fn shape(&mut self, operand: usize, dim: usize) -> Number {
        self.0.shape(operand, dim)
    }
    fn constant(&mut self, operand: usize, flat: usize) -> Option<i64> {
        self.0.constant(operand, flat)
    }
    fn value(&mut self, operand: usize, flat: usize) -> Number {
        self.0.value(operand, flat)
    }
}

/// Operands whose sizes and elements are all known, as in a run.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The sizes of each operand.
    pub dims: &'a [Vec<i64>],
    /// The elements of each operand in row-major order; empty for an operand that is not of
    /// integers.
    pub elements: &'a [Vec<i64>],
}

/// A provider of values without operands.
pub fn numbers() -> Numbers<Values<'static>> {
    Numbers(Values {
        dims: &[],
        elements: &[],
    })
}

fn at(lists: &[Vec<i64>], operand: usize, index: usize) -> Number {
    let value = lists.get(operand).and_then(|list| list.get(index));
    value.copied().ok_or(EvalError::Overflow)
}

impl Operands for Values<'_> {
    type Index = Number;

    fn shape(&mut self, operand: usize, dim: usize) -> Number {
        at(self.dims, operand, dim)
    }
    fn constant(&mut self, operand: usize, flat: usize) -> Option<i64> {
        at(self.elements, operand, flat).ok()
    }
    fn value(&mut self, operand: usize, flat: usize) -> Number {
        at(self.elements, operand, flat)
    }
}
