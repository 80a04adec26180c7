//! Providers: sources of numbers, separated from the computations on them.
//!
//! The shape of an operation is computed by one piece of code, generic over a [`Provider`]. There
//! are four:
//!
//! | provider | a number is | for |
//! |---|---|---|
//! | [`Symbols`] | a [`Term`](crate::Term) | analyses |
//! | [`Numbers`] | a value, or why there is none | run-time systems |
//! | [`Emitting`] over [`CText`] | an expression in C | backends that print C or CUDA |
//! | [`Emitting`] over a backend's own emitter | a machine value | backends that generate code |
//!
//! The providers agree. Where [`Numbers`] yields a value, so do the others, and the same one; where
//! it yields an error, so does emitted code. A term may have a value although an intermediate step
//! has none, because terms are simplified.

mod c;
mod emit;
mod extract;
mod numbers;
mod symbols;
mod watched;

pub use c::{CFunction, CText};
pub use emit::{Emitted, Emitter, Emitting, emit_term};
pub use extract::Extract;
pub use numbers::{Number, Numbers, Values, numbers};
pub use symbols::{NoOperands, Symbols, terms};
pub use watched::Watched;

use crate::term::Cmp;
use std::fmt::Display;

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b` rounded towards negative infinity.
    FloorDiv,
    /// `a / b` rounded towards positive infinity.
    CeilDiv,
    /// `a - floor_div(a, b) * b`.
    Mod,
    /// The smaller of two.
    Min,
    /// The larger of two.
    Max,
    /// 1 if the comparison holds, else 0.
    Cmp(Cmp),
}

/// A source of numbers, with arithmetic on them.
///
/// `operand` is the number of an operand of the operation whose shape is computed; `flat` counts
/// the elements of an operand in row-major order. Three functions define where numbers come from:
/// [`constant`](Provider::constant), [`value`](Provider::value) and [`shape`](Provider::shape).
/// [`Extract`] is based on them.
pub trait Provider {
    /// A number: a term, a value, a register.
    type Index: Clone;

    /// A number that is known now.
    fn literal(&mut self, value: i64) -> Self::Index;
    /// An operation on two numbers.
    fn arithmetic(&mut self, op: Arithmetic, a: &Self::Index, b: &Self::Index) -> Self::Index;
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
    /// Records that the code relies on `a op b`, described by `what`, if the two are not both
    /// known. A provider that cannot check it later ignores this.
    fn require(&mut self, op: Cmp, a: &Self::Index, b: &Self::Index, what: &dyn Display) {
        let _ = (op, a, b, what);
    }

    /// `a + b`.
    fn add(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index {
        self.arithmetic(Arithmetic::Add, a, b)
    }
    /// `a - b`.
    fn sub(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index {
        self.arithmetic(Arithmetic::Sub, a, b)
    }
    /// `a * b`.
    fn mul(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index {
        self.arithmetic(Arithmetic::Mul, a, b)
    }
    /// `a / b` rounded towards negative infinity.
    fn floor_div(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index {
        self.arithmetic(Arithmetic::FloorDiv, a, b)
    }
    /// `a / b` rounded towards positive infinity.
    fn ceil_div(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index {
        self.arithmetic(Arithmetic::CeilDiv, a, b)
    }
    /// `a - floor_div(a, b) * b`.
    fn modulo(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index {
        self.arithmetic(Arithmetic::Mod, a, b)
    }
    /// The smaller of two.
    fn min(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index {
        self.arithmetic(Arithmetic::Min, a, b)
    }
    /// The larger of two.
    fn max(&mut self, a: &Self::Index, b: &Self::Index) -> Self::Index {
        self.arithmetic(Arithmetic::Max, a, b)
    }
    /// 1 if `a op b`, else 0.
    fn cmp(&mut self, op: Cmp, a: &Self::Index, b: &Self::Index) -> Self::Index {
        self.arithmetic(Arithmetic::Cmp(op), a, b)
    }
}

/// The operands of an operation, as seen by the providers of this crate.
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

/// What is known about an operand before a program runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownOperand {
    /// The sizes of its dimensions; `None` for one that is known only at run time.
    pub dims: Vec<Option<i64>>,
    /// Its elements in row-major order, if it is a constant.
    pub elements: Option<Vec<i64>>,
}

impl KnownOperand {
    /// The size of a dimension, if it is known.
    pub fn dim(&self, dim: usize) -> Option<i64> {
        self.dims.get(dim).copied().flatten()
    }

    /// An element, if the operand is a constant.
    pub fn element(&self, flat: usize) -> Option<i64> {
        self.elements.as_ref()?.get(flat).copied()
    }
}

/// A computation of sizes that every provider can run: the shape of an operation, and other sizes
/// needed to lower it.
///
/// An operation outside of this compiler gets its shape by implementing this trait.
pub trait ShapeHelper {
    /// The results, with numbers of one provider.
    type Shapes<I: Clone>;
    /// The reason why the operation has no shape.
    type Error;

    /// Computes the sizes with a provider's numbers.
    ///
    /// # Errors
    /// The operation is invalid for all sizes.
    fn compute<P: Provider>(&self, provider: &mut P)
    -> Result<Self::Shapes<P::Index>, Self::Error>;

    /// All resulting numbers in one list; the sizes of the results come first.
    fn numbers<I: Clone>(shapes: Self::Shapes<I>) -> Vec<I>;
}
