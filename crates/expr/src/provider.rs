//! Where numbers come from, apart from what is computed with them.
//!
//! The shape of an operation is computed by one piece of code, generic over a
//! [`Provider`]. With [`Symbols`] the numbers are terms and the result is a
//! symbolic shape; with [`Numbers`] they are values and the result is what a
//! run-time system needs; a backend's own provider emits machine code.

use crate::eval::EvalError;
use crate::number;
use crate::term::{Cmp, Term};
use std::fmt::Display;

/// A source of numbers and the arithmetic on them.
///
/// An `operand` is numbered as in the operation whose shape is computed; `flat`
/// counts the elements of an operand in row-major order.
pub trait Provider {
    /// A number: a term, a value, a register.
    type Index: Clone;

    /// A number that is known now.
    fn literal(&mut self, value: i64) -> Self::Index;
    /// `a + b`.
    fn add(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// `a - b`.
    fn sub(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// `a * b`.
    fn mul(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// `a / b` rounded towards negative infinity.
    fn floor_div(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// `a / b` rounded towards positive infinity.
    fn ceil_div(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// `a - floor_div(a, b) * b`.
    fn modulo(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// The smaller of two.
    fn min(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// The larger of two.
    fn max(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// 1 if `a op b`, else 0.
    fn cmp(&mut self, op: Cmp, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// `a` where `condition` is not 0, else `b`.
    fn select(&mut self, condition: &Self::Index, a: &Self::Index, b: &Self::Index) -> Self::Index;
    /// The number, if it is known now.
    fn as_literal(&self, index: &Self::Index) -> Option<i64>;
    /// The extent of a dimension of an operand, in elements.
    fn shape(&mut self, operand: usize, dim: usize) -> Self::Index;
    /// An element of an integer operand, if it is known now.
    fn constant(&mut self, operand: usize, flat: usize) -> Option<i64>;
    /// An element of an integer operand, known now or not.
    fn value(&mut self, operand: usize, flat: usize) -> Self::Index;
    /// Notes that the code relies on `a op b`, which `what` names in words, though
    /// the two are not both known. A provider that cannot check it later ignores it.
    fn require(&mut self, op: Cmp, a: &Self::Index, b: &Self::Index, what: &dyn Display) {
        let _ = (op, a, b, what);
    }
}

/// What an operation's operands look like to a provider of this crate.
pub trait Operands {
    /// A number: a term or a value.
    type Index;

    /// The extent of a dimension of an operand, in elements.
    fn shape(&mut self, operand: usize, dim: usize) -> Self::Index;
    /// An element of an integer operand, if it is known now.
    fn constant(&mut self, operand: usize, flat: usize) -> Option<i64>;
    /// An element of an integer operand, known now or not.
    fn value(&mut self, operand: usize, flat: usize) -> Self::Index;
}

/// The provider of analyses: numbers are terms.
#[derive(Debug)]
pub struct Symbols<O>(pub O);

impl<O: Operands<Index = Term>> Provider for Symbols<O> {
    type Index = Term;

    fn literal(&mut self, value: i64) -> Term {
        Term::constant(value)
    }
    fn add(&mut self, a: &Term, b: &Term) -> Term {
        a.add(b)
    }
    fn sub(&mut self, a: &Term, b: &Term) -> Term {
        a.sub(b)
    }
    fn mul(&mut self, a: &Term, b: &Term) -> Term {
        a.mul(b)
    }
    fn floor_div(&mut self, a: &Term, b: &Term) -> Term {
        a.floor_div(b)
    }
    fn ceil_div(&mut self, a: &Term, b: &Term) -> Term {
        a.ceil_div(b)
    }
    fn modulo(&mut self, a: &Term, b: &Term) -> Term {
        a.modulo(b)
    }
    fn min(&mut self, a: &Term, b: &Term) -> Term {
        a.min(b)
    }
    fn max(&mut self, a: &Term, b: &Term) -> Term {
        a.max(b)
    }
    fn cmp(&mut self, op: Cmp, a: &Term, b: &Term) -> Term {
        Term::cmp(op, a, b)
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

/// The provider of evaluators: numbers are values, or the reason why there is
/// none (kept as data, so that shape code has no error paths of its own).
#[derive(Debug)]
pub struct Numbers<O>(pub O);

/// A value, or why there is none.
pub type Number = Result<i64, EvalError>;

fn checked(a: &Number, b: &Number, f: impl Fn(i64, i64) -> Option<i64>) -> Number {
    f((*a)?, (*b)?).ok_or(EvalError::Overflow)
}

fn checked_division(a: &Number, b: &Number, f: impl Fn(i64, i64) -> Option<i64>) -> Number {
    match (*a, *b) {
        (Ok(_), Ok(0)) => Err(EvalError::DivisionByZero),
        _ => checked(a, b, f),
    }
}

impl<O: Operands<Index = Number>> Provider for Numbers<O> {
    type Index = Number;

    fn literal(&mut self, value: i64) -> Number {
        Ok(value)
    }
    fn add(&mut self, a: &Number, b: &Number) -> Number {
        checked(a, b, i64::checked_add)
    }
    fn sub(&mut self, a: &Number, b: &Number) -> Number {
        checked(a, b, i64::checked_sub)
    }
    fn mul(&mut self, a: &Number, b: &Number) -> Number {
        checked(a, b, i64::checked_mul)
    }
    fn floor_div(&mut self, a: &Number, b: &Number) -> Number {
        checked_division(a, b, number::floor_div)
    }
    fn ceil_div(&mut self, a: &Number, b: &Number) -> Number {
        checked_division(a, b, number::ceil_div)
    }
    fn modulo(&mut self, a: &Number, b: &Number) -> Number {
        checked_division(a, b, number::floor_mod)
    }
    fn min(&mut self, a: &Number, b: &Number) -> Number {
        checked(a, b, |a, b| Some(a.min(b)))
    }
    fn max(&mut self, a: &Number, b: &Number) -> Number {
        checked(a, b, |a, b| Some(a.max(b)))
    }
    fn cmp(&mut self, op: Cmp, a: &Number, b: &Number) -> Number {
        checked(a, b, |a, b| Some(i64::from(op.holds(a, b))))
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
