//! The numbers that matrices are made of: `f32`, `f64`, and complex numbers of these.

use crate::lapack::isa::Isa;
use crate::lapack::scalar::{Real, Scalar, multiply_add};
use crate::lapack::{complex_vectors, real_vectors};
use num_complex::Complex;
use tegula_ir::ElementType;

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
                real_vectors::dot::<I, Self>(x, y)
            }
            #[inline(always)]
            fn dotc_four<I: Isa>(x: &[Self], y: [&[Self]; 4]) -> [Self; 4] {
                real_vectors::dot_four::<I::Vectors, I, Self>(x, y)
            }
            #[inline(always)]
            fn axpy<I: Isa>(a: Self, x: &[Self], y: &mut [Self]) {
                for (&x, y) in x.iter().zip(y) {
                    *y = multiply_add::<I, Self>(a, x, *y);
                }
            }
            #[inline(always)]
            fn subtract_from_four<I: Isa>(by: [Self; 4], x: &[Self], y: [&mut [Self]; 4]) {
                real_vectors::subtract_from_four::<I::Vectors, I, Self>(by, x, y);
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
                real_vectors::update_column::<I, Self>(column, [(a, v), (b, w)], x, x_j, y)
            }
            #[inline(always)]
            fn reflect<I: Isa>(by: [Self; 2], t2: Self, x: &mut [Self], y: &mut [Self]) {
                real_vectors::reflect::<I::Vectors, I, Self>(by, t2, x, y);
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
                real_vectors::reflect_three::<I::Vectors, I, Self>(v, t, columns);
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
