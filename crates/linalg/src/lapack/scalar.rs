//! The numbers that matrices are made of: `f32`, `f64`, and complex numbers of these.

use crate::dense::vectors::Products;
use crate::lapack::complex_vectors;
use crate::lapack::isa::Isa;
use num_complex::Complex;
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

/// The number of accumulators in sums of products.
const LANES: usize = 32;

#[inline(always)]
fn real_dot<I: Isa, R: Real>(x: &[R], y: &[R]) -> R {
    let mut sums = [R::ZERO; LANES];
    let (x_chunks, x_rest) = x.as_chunks::<LANES>();
    let (y_chunks, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for i in 0..LANES {
            sums[i] = multiply_add::<I, R>(x[i], y[i], sums[i]);
        }
    }
    let (x_chunks, x_rest) = x_rest.as_chunks::<8>();
    let (y_chunks, y_rest) = y_rest.as_chunks::<8>();
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for i in 0..8 {
            sums[i] = multiply_add::<I, R>(x[i], y[i], sums[i]);
        }
    }
    let mut last = R::ZERO;
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        last = multiply_add::<I, R>(x, y, last);
    }
    last + total(sums)
}

/// Four independent dot products at once: adding up the lanes of one takes longer than the products
/// of a short vector. Uses the CPU's vectors explicitly, because the compiler vectorises one sum,
/// but not four.
#[inline(always)]
fn real_dot_four<V: Products<R>, I: Isa, R: Real>(x: &[R], y: [&[R]; 4]) -> [R; 4] {
    let y = y.map(|y| &y[..x.len()]);
    let whole = x.len() - x.len() % V::COUNT;
    let mut totals = [R::ZERO; 4];
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read are
    // elements of the vectors.
    unsafe {
        let mut sums = [V::splat(R::ZERO); 4];
        for at in (0..whole).step_by(V::COUNT) {
            let x = V::load(x.as_ptr().add(at));
            for (sum, y) in sums.iter_mut().zip(y) {
                *sum = V::less_product(*sum, x, V::load(y.as_ptr().add(at)));
            }
        }
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total = -V::total(sum);
        }
    }
    for at in whole..x.len() {
        for (sum, y) in totals.iter_mut().zip(y) {
            *sum = multiply_add::<I, R>(x[at], y[at], *sum);
        }
    }
    totals
}

/// Subtracts multiples of a vector from four vectors.
#[inline(always)]
fn real_subtract_from_four<V: Products<R>, I: Isa, R: Real>(by: [R; 4], x: &[R], y: [&mut [R]; 4]) {
    let whole = x.len() - x.len() % V::COUNT;
    for (by, y) in by.into_iter().zip(y) {
        let y = &mut y[..x.len()];
        // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
        // written are elements of the vectors.
        unsafe {
            let by = V::splat(by);
            for at in (0..whole).step_by(V::COUNT) {
                let own = V::load(y.as_ptr().add(at));
                let rest = V::less_product(own, by, V::load(x.as_ptr().add(at)));
                V::store(y.as_mut_ptr().add(at), rest);
            }
        }
        for at in whole..x.len() {
            y[at] = multiply_add::<I, R>(-by, x[at], y[at]);
        }
    }
}

/// [`Scalar::reflect`] of real numbers.
#[inline(always)]
fn real_reflect<V: Products<R>, I: Isa, R: Real>([t1, u]: [R; 2], t2: R, x: &mut [R], y: &mut [R]) {
    let y = &mut y[..x.len()];
    let whole = x.len() - x.len() % V::COUNT;
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
    // written are elements of the vectors.
    unsafe {
        let (zero, minus_one) = (V::splat(R::ZERO), V::splat(-R::ONE));
        let (t1, t2, minus_u) = (V::splat(t1), V::splat(t2), V::splat(-u));
        for at in (0..whole).step_by(V::COUNT) {
            let (own, other) = (V::load(x.as_ptr().add(at)), V::load(y.as_ptr().add(at)));
            let minus_d = V::less_product(V::less_product(zero, t1, own), t2, other);
            let own = V::less_product(own, minus_one, minus_d);
            V::store(x.as_mut_ptr().add(at), own);
            let other = V::less_product(other, minus_u, minus_d);
            V::store(y.as_mut_ptr().add(at), other);
        }
    }
    for at in whole..x.len() {
        let d = multiply_add::<I, R>(t2, y[at], t1 * x[at]);
        x[at] -= d;
        y[at] = multiply_add::<I, R>(-d, u, y[at]);
    }
}

/// [`Real::reflect_three`].
#[inline(always)]
fn real_reflect_three<V: Products<R>, I: Isa, R: Real>(
    [v2, v3]: [R; 2],
    [t1, t2, t3]: [R; 3],
    [x, y, w]: [&mut [R]; 3],
) {
    let (y, w) = (&mut y[..x.len()], &mut w[..x.len()]);
    let whole = x.len() - x.len() % V::COUNT;
    // SAFETY: a routine runs for an instruction set that the machine has; all that is read and
    // written are elements of the vectors.
    unsafe {
        let (minus_v2, minus_v3) = (V::splat(-v2), V::splat(-v3));
        let (t1, t2, t3) = (V::splat(t1), V::splat(t2), V::splat(t3));
        for at in (0..whole).step_by(V::COUNT) {
            let own = [
                V::load(x.as_ptr().add(at)),
                V::load(y.as_ptr().add(at)),
                V::load(w.as_ptr().add(at)),
            ];
            let d = V::less_product(V::less_product(own[0], minus_v2, own[1]), minus_v3, own[2]);
            V::store(x.as_mut_ptr().add(at), V::less_product(own[0], t1, d));
            V::store(y.as_mut_ptr().add(at), V::less_product(own[1], t2, d));
            V::store(w.as_mut_ptr().add(at), V::less_product(own[2], t3, d));
        }
    }
    for at in whole..x.len() {
        let d = multiply_add::<I, R>(v3, w[at], multiply_add::<I, R>(v2, y[at], x[at]));
        x[at] = multiply_add::<I, R>(-d, t1, x[at]);
        y[at] = multiply_add::<I, R>(-d, t2, y[at]);
        w[at] = multiply_add::<I, R>(-d, t3, w[at]);
    }
}

/// The sum of all elements, by repeated halving.
#[inline(always)]
fn total<R: Real>(mut sums: [R; LANES]) -> R {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0]
}

macro_rules! real {
    ($ty:ty, $element_type:ident, $safe_min:expr) => {
        impl Scalar for $ty {
            type Real = Self;

            const IS_COMPLEX: bool = false;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn from_real(re: Self) -> Self {
                re
            }
            #[inline(always)]
            fn from_parts(re: Self, _: Self) -> Self {
                re
            }
            #[inline(always)]
            fn re(self) -> Self {
                self
            }
            #[inline(always)]
            fn im(self) -> Self {
                0.0
            }
            #[inline(always)]
            fn conj(self) -> Self {
                self
            }
            #[inline(always)]
            fn scale(self, by: Self) -> Self {
                self * by
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn divide(self, by: Self) -> Self {
                self / by
            }
            #[inline(always)]
            fn dotc<I: Isa>(x: &[Self], y: &[Self]) -> Self {
                real_dot::<I, Self>(x, y)
            }
            #[inline(always)]
            fn dotc_four<I: Isa>(x: &[Self], y: [&[Self]; 4]) -> [Self; 4] {
                real_dot_four::<I::Vectors, I, Self>(x, y)
            }
            #[inline(always)]
            fn axpy<I: Isa>(a: Self, x: &[Self], y: &mut [Self]) {
                for (&x, y) in x.iter().zip(y) {
                    *y = multiply_add::<I, Self>(a, x, *y);
                }
            }
            #[inline(always)]
            fn subtract_from_four<I: Isa>(by: [Self; 4], x: &[Self], y: [&mut [Self]; 4]) {
                real_subtract_from_four::<I::Vectors, I, Self>(by, x, y);
            }
            #[inline(always)]
            fn axpy_four<I: Isa>(a: [Self; 4], x: [&[Self]; 4], y: &mut [Self]) {
                let [x0, x1, x2, x3] = x;
                let rest = x0.iter().zip(x1).zip(x2).zip(x3);
                for ((((&x0, &x1), &x2), &x3), y) in rest.zip(y) {
                    let first = multiply_add::<I, Self>(a[1], x1, a[0] * x0);
                    let second = multiply_add::<I, Self>(a[3], x3, a[2] * x2);
                    *y += first + second;
                }
            }
            #[inline(always)]
            fn update_column<I: Isa>(
                column: &mut [Self],
                [(a, v), (b, w)]: [(Self, &[Self]); 2],
                x: &[Self],
                x_j: Self,
                y: &mut [Self],
            ) -> Self {
                real_update_column::<I, Self>(column, [(a, v), (b, w)], x, x_j, y)
            }
            #[inline(always)]
            fn reflect<I: Isa>(by: [Self; 2], t2: Self, x: &mut [Self], y: &mut [Self]) {
                real_reflect::<I::Vectors, I, Self>(by, t2, x, y);
            }
            #[inline(always)]
            fn parts(x: &[Self]) -> &[Self] {
                x
            }
            #[inline(always)]
            fn parts_mut(x: &mut [Self]) -> &mut [Self] {
                x
            }
        }

        impl Real for $ty {
            const ELEMENT_TYPE: ElementType = ElementType::$element_type;
            const ROUNDING: Self = <$ty>::EPSILON / 2.0;
            const PRECISION: Self = <$ty>::EPSILON;
            const SAFE_MIN: Self = $safe_min;
            const NAN: Self = <$ty>::NAN;
            const LARGEST_EXPONENT: i32 = -(<$ty>::MIN_EXP - 1);

            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $ty
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn hypot(self, y: Self) -> Self {
                let (x, y) = (self.abs(), y.abs());
                let (large, small) = if x < y { (y, x) } else { (x, y) };
                if small == 0.0 || !large.is_finite() {
                    return large + small;
                }
                let ratio = small / large;
                large * (1.0 + ratio * ratio).sqrt()
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                self.copysign(sign)
            }
            #[inline(always)]
            fn is_finite_real(self) -> bool {
                self.is_finite()
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn fused(self, a: Self, b: Self) -> Self {
                self.mul_add(a, b)
            }
            #[inline(always)]
            fn reflect_three<I: Isa>(v: [Self; 2], t: [Self; 3], columns: [&mut [Self]; 3]) {
                real_reflect_three::<I::Vectors, I, Self>(v, t, columns);
            }
            #[inline(always)]
            fn power_of_two(exponent: i32) -> Self {
                (2.0 as $ty).powi(exponent)
            }
        }

        impl Scalar for Complex<$ty> {
            type Real = $ty;

            const IS_COMPLEX: bool = true;
            const ZERO: Self = Self::new(0.0, 0.0);
            const ONE: Self = Self::new(1.0, 0.0);

            #[inline(always)]
            fn from_real(re: $ty) -> Self {
                Self::new(re, 0.0)
            }
            #[inline(always)]
            fn from_parts(re: $ty, im: $ty) -> Self {
                Self::new(re, im)
            }
            #[inline(always)]
            fn re(self) -> $ty {
                self.re
            }
            #[inline(always)]
            fn im(self) -> $ty {
                self.im
            }
            #[inline(always)]
            fn conj(self) -> Self {
                Self::new(self.re, -self.im)
            }
            #[inline(always)]
            fn scale(self, by: $ty) -> Self {
                Self::new(self.re * by, self.im * by)
            }
            #[inline(always)]
            fn abs(self) -> $ty {
                Real::hypot(self.re, self.im)
            }
            // Smith's method.
            #[inline(always)]
            fn divide(self, by: Self) -> Self {
                if by.re.abs() >= by.im.abs() {
                    let ratio = by.im / by.re;
                    let below = by.re + by.im * ratio;
                    Self::new(
                        (self.re + self.im * ratio) / below,
                        (self.im - self.re * ratio) / below,
                    )
                } else {
                    let ratio = by.re / by.im;
                    let below = by.im + by.re * ratio;
                    Self::new(
                        (self.re * ratio + self.im) / below,
                        (self.im * ratio - self.re) / below,
                    )
                }
            }
            #[inline(always)]
            fn dotc<I: Isa>(x: &[Self], y: &[Self]) -> Self {
                complex_vectors::dot::<I::Vectors, I, $ty>(Self::parts(x), Self::parts(y))
            }
            #[inline(always)]
            fn dotc_four<I: Isa>(x: &[Self], y: [&[Self]; 4]) -> [Self; 4] {
                let y = y.map(Self::parts);
                complex_vectors::dot_four::<I::Vectors, I, $ty>(Self::parts(x), y)
            }
            #[inline(always)]
            fn axpy<I: Isa>(a: Self, x: &[Self], y: &mut [Self]) {
                let y = [Self::parts_mut(y)];
                complex_vectors::subtract::<I::Vectors, I, $ty, 1>([-a], Self::parts(x), y);
            }
            #[inline(always)]
            fn subtract_from_four<I: Isa>(by: [Self; 4], x: &[Self], y: [&mut [Self]; 4]) {
                let y = y.map(Self::parts_mut);
                complex_vectors::subtract::<I::Vectors, I, $ty, 4>(by, Self::parts(x), y);
            }
            #[inline(always)]
            fn axpy_four<I: Isa>(a: [Self; 4], x: [&[Self]; 4], y: &mut [Self]) {
                let (x, y) = (x.map(Self::parts), Self::parts_mut(y));
                complex_vectors::add_four::<I::Vectors, I, $ty>(a, x, y);
            }
            #[inline(always)]
            fn update_column<I: Isa>(
                column: &mut [Self],
                [(a, v), (b, w)]: [(Self, &[Self]); 2],
                x: &[Self],
                x_j: Self,
                y: &mut [Self],
            ) -> Self {
                complex_vectors::update_column::<I::Vectors, I, $ty>(
                    Self::parts_mut(column),
                    [(a, Self::parts(v)), (b, Self::parts(w))],
                    Self::parts(x),
                    x_j,
                    Self::parts_mut(y),
                )
            }
            #[inline(always)]
            fn reflect<I: Isa>(by: [Self; 2], t2: $ty, x: &mut [Self], y: &mut [Self]) {
                let (x, y) = (Self::parts_mut(x), Self::parts_mut(y));
                complex_vectors::reflect::<I::Vectors, I, $ty>(by, t2, x, y);
            }
            #[inline(always)]
            fn parts(x: &[Self]) -> &[$ty] {
                // SAFETY: a complex number is two parts without padding (`repr(C)`), so as many
                // bytes at the same address are twice as many parts.
                unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), 2 * x.len()) }
            }
            #[inline(always)]
            fn parts_mut(x: &mut [Self]) -> &mut [$ty] {
                // SAFETY: as in `parts`; the new slice borrows `x` mutably for its whole lifetime.
                unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), 2 * x.len()) }
            }
        }
    };
}

// In both types, the reciprocal of the smallest normal number is finite.
real!(f32, F32, f32::MIN_POSITIVE);
real!(f64, F64, f64::MIN_POSITIVE);

/// [`Scalar::update_column`] in one pass.
#[inline(always)]
fn real_update_column<I: Isa, R: Real>(
    column: &mut [R],
    [(a, v), (b, w)]: [(R, &[R]); 2],
    x: &[R],
    x_j: R,
    y: &mut [R],
) -> R {
    const WIDTH: usize = 16;
    let n = column.len();
    let whole = n - n % WIDTH;
    let (c_whole, c_rest) = column.split_at_mut(whole);
    let (y_whole, y_rest) = y[..n].split_at_mut(whole);
    let mut sums = [R::ZERO; WIDTH];
    let written = c_whole
        .as_chunks_mut()
        .0
        .iter_mut()
        .zip(y_whole.as_chunks_mut().0);
    let read = v
        .as_chunks()
        .0
        .iter()
        .zip(w.as_chunks().0)
        .zip(x.as_chunks().0);
    for ((c, y), ((v, w), x)) in written.zip(read) {
        let (v, w, x): (&[R; WIDTH], &[R; WIDTH], &[R; WIDTH]) = (v, w, x);
        // A whole chunk is read before any of it is written, so that it stays in registers.
        let mut new: [R; WIDTH] = *c;
        let mut sum: [R; WIDTH] = *y;
        for i in 0..WIDTH {
            new[i] = multiply_add::<I, R>(-b, w[i], new[i]);
        }
        for i in 0..WIDTH {
            new[i] = multiply_add::<I, R>(-a, v[i], new[i]);
        }
        for i in 0..WIDTH {
            sum[i] = multiply_add::<I, R>(x_j, new[i], sum[i]);
        }
        for i in 0..WIDTH {
            sums[i] = multiply_add::<I, R>(x[i], new[i], sums[i]);
        }
        *c = new;
        *y = sum;
    }
    let (v, w, x) = (&v[whole..n], &w[whole..n], &x[whole..n]);
    R::axpy::<I>(-a, v, c_rest);
    R::axpy::<I>(-b, w, c_rest);
    R::axpy::<I>(x_j, c_rest, y_rest);
    let last = R::dotc::<I>(x, c_rest);
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0] + last
}
