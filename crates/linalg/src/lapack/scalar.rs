//! The traits of the numbers that matrices are made of, which [`super::numbers`] implements.

use crate::lapack::isa::Isa;
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};
use tegula_ir::ElementType;

/// A real or complex floating-point number.
pub trait Scalar:
    Copy
    + Debug
    + Default
    + PartialEq
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Send
    + Sync
    + 'static
{
    /// The type of real and imaginary parts.
    type Real: Real;

    /// Whether numbers have an imaginary part.
    const IS_COMPLEX: bool;
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// A real number as this type.
    fn from_real(re: Self::Real) -> Self;
    /// A number with these parts; real types ignore the imaginary part.
    fn from_parts(re: Self::Real, im: Self::Real) -> Self;
    /// The real part.
    fn re(self) -> Self::Real;
    /// The imaginary part.
    fn im(self) -> Self::Real;
    /// The complex conjugate.
    fn conj(self) -> Self;
    /// The product with a real number.
    fn scale(self, by: Self::Real) -> Self;
    /// The absolute value, without intermediate overflow.
    fn abs(self) -> Self::Real;

    /// The quotient, without intermediate overflow.
    fn divide(self, by: Self) -> Self;

    /// `|re| + |im|`, the magnitude that LAPACK compares pivots by.
    #[inline(always)]
    fn abs1(self) -> Self::Real {
        self.re().abs() + self.im().abs()
    }

    /// The square of the absolute value.
    #[inline(always)]
    fn abs_sqr(self) -> Self::Real {
        self.re() * self.re() + self.im() * self.im()
    }

    /// Whether both parts are finite.
    #[inline(always)]
    fn is_finite(self) -> bool {
        self.re().is_finite_real() && self.im().is_finite_real()
    }

    /// The sum of `conj(x[i]) * y[i]`.
    fn dotc<I: Isa>(x: &[Self], y: &[Self]) -> Self;

    /// [`Self::dotc`] of one vector with each of four vectors of its length.
    fn dotc_four<I: Isa>(x: &[Self], y: [&[Self]; 4]) -> [Self; 4];

    /// `y += a * x`.
    fn axpy<I: Isa>(a: Self, x: &[Self], y: &mut [Self]);

    /// Subtracts multiples of a vector from four vectors of its length.
    fn subtract_from_four<I: Isa>(by: [Self; 4], x: &[Self], y: [&mut [Self]; 4]);

    /// Adds multiples of four vectors to `y`.
    fn axpy_four<I: Isa>(a: [Self; 4], x: [&[Self]; 4], y: &mut [Self]);

    /// One column's part of a symmetric or Hermitian rank-two update and matrix-vector product:
    /// `c -= a v + b w`, then `y += x_j c`; returns the sum of `conj(c[i]) * x[i]`.
    fn update_column<I: Isa>(
        column: &mut [Self],
        update: [(Self, &[Self]); 2],
        x: &[Self],
        x_j: Self,
        y: &mut [Self],
    ) -> Self;

    /// Applies a reflection to two columns: with `d = t1 x + t2 y`, replaces `x` by `x - d` and `y`
    /// by `y - d u`.
    fn reflect<I: Isa>(by: [Self; 2], t2: Self::Real, x: &mut [Self], y: &mut [Self]);

    /// The parts of numbers, as one slice.
    fn parts(x: &[Self]) -> &[Self::Real];
    /// [`Self::parts`], mutable.
    fn parts_mut(x: &mut [Self]) -> &mut [Self::Real];
}

/// A real floating-point number.
pub trait Real: Scalar<Real = Self> + PartialOrd {
    /// The type in programs.
    const ELEMENT_TYPE: ElementType;
    /// The maximum relative rounding error, `2^-24` for `f32` (LAPACK's `eps`).
    const ROUNDING: Self;
    /// The distance from 1 to the next number, `2^-23` for `f32` (LAPACK's `precision`).
    const PRECISION: Self;
    /// The smallest number whose reciprocal is finite.
    const SAFE_MIN: Self;
    /// Not a number.
    const NAN: Self;
    /// The largest `n` for which `2^n` and `2^-n` are normal numbers.
    const LARGEST_EXPONENT: i32;

    /// The nearest number.
    fn from_f64(x: f64) -> Self;
    /// The value, exactly.
    fn to_f64(self) -> f64;
    /// The square root.
    fn sqrt(self) -> Self;
    /// `sqrt(x^2 + y^2)` without intermediate overflow.
    fn hypot(self, y: Self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// Whether the number is neither infinite nor NaN.
    fn is_finite_real(self) -> bool;
    /// Whether the number is NaN.
    fn is_nan(self) -> bool;
    /// `self * a + b`, rounded once; slow on machines without such an instruction.
    fn fused(self, a: Self, b: Self) -> Self;
    /// Applies a reflection to three columns: with `d = x + v2 y + v3 w`, replaces them by
    /// `x - t1 d`, `y - t2 d` and `w - t3 d`.
    fn reflect_three<I: Isa>(v: [Self; 2], t: [Self; 3], columns: [&mut [Self]; 3]);
    /// Two to the power `exponent`.
    fn power_of_two(exponent: i32) -> Self;

    /// The larger of two numbers.
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        if self < other { other } else { self }
    }

    /// The smaller of two numbers.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        if other < self { other } else { self }
    }
}

/// `a * b + c`, fused if the instruction set has that.
#[inline(always)]
pub(crate) fn multiply_add<I: Isa, R: Real>(a: R, b: R, c: R) -> R {
    if I::FUSED { a.fused(b, c) } else { a * b + c }
}
