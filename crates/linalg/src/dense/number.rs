//! The numbers that factorisations compute with, and lanes of them. Products of lanes use the CPU's
//! [`vectors`]; other loops over lanes have constant lengths, which the compiler vectorises.

use super::vectors::{self, LANES, Vectors};
use core::ops::{Add, Mul, Neg, Sub};

/// A complex number in the memory layout of arrays.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Complex<R> {
    /// The real part.
    pub re: R,
    /// The imaginary part.
    pub im: R,
}

/// A real number.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// Not a number.
    const NAN: Self;
    /// The product plus `add`, fused (rounded once) on CPUs with such an instruction.
    ///
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn multiply_add<V: Vectors>(self, by: Self, add: Self) -> Self;
    /// Subtracts the products of a number and lanes from lanes.
    ///
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn subtract<V: Vectors>(from: &mut [Self; LANES], by: Self, lanes: &[Self; LANES]);
    /// Subtracts the lane-by-lane products from lanes.
    ///
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn subtract_each<V: Vectors>(
        from: &mut [Self; LANES],
        by: &[Self; LANES],
        lanes: &[Self; LANES],
    );
    /// The reciprocal.
    fn reciprocal(self) -> Self;
    /// The square root.
    fn root(self) -> Self;
    /// The absolute value.
    fn magnitude(self) -> Self;
    /// Whether it is neither infinite nor NaN.
    fn is_finite(self) -> bool;
}

macro_rules! real {
    ($ty:ident $bits:ident $set:ident $get:ident $fused:ident $root:ident $lane:ident $dup:ident) => {
        impl Real for $ty {
            const ZERO: Self = 0.0;
            const NAN: Self = $ty::NAN;

            #[inline(always)]
            unsafe fn multiply_add<V: Vectors>(self, by: Self, add: Self) -> Self {
                #[cfg(target_arch = "x86_64")]
                if V::FUSED {
                    use core::arch::x86_64::{$fused, $get, $set};
                    // SAFETY: the caller promises that the CPU has the instruction.
                    return unsafe { $get($fused($set(self), $set(by), $set(add))) };
                }
                #[cfg(target_arch = "aarch64")]
                if V::FUSED {
                    use core::arch::aarch64::{$dup, $lane};
                    // SAFETY: every CPU of this architecture that has vectors has it.
                    return unsafe { $lane::<0>(add, self, $dup(by)) };
                }
                self * by + add
            }

            #[inline(always)]
            unsafe fn subtract<V: Vectors>(
                from: &mut [Self; LANES],
                by: Self,
                lanes: &[Self; LANES],
            ) {
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe { vectors::subtract::<Self, V>(from, by, lanes) }
            }

            #[inline(always)]
            unsafe fn subtract_each<V: Vectors>(
                from: &mut [Self; LANES],
                by: &[Self; LANES],
                lanes: &[Self; LANES],
            ) {
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe { vectors::subtract_each::<Self, V>(from, by, lanes) }
            }

            #[inline(always)]
            fn reciprocal(self) -> Self {
                1.0 / self
            }

            #[inline(always)]
            fn root(self) -> Self {
                square_root!($ty, $set, $get, $root, self)
            }

            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                $ty::is_finite(self)
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! square_root {
    ($ty:ident, $set:ident, $get:ident, $root:ident, $x:expr) => {{
        use core::arch::x86_64::{$get, $root, $set};
        // SAFETY: every CPU of this architecture has the instruction.
        unsafe { square_root!(@ $ty, $set, $get, $root, $x) }
    }};
    (@ f32, $set:ident, $get:ident, $root:ident, $x:expr) => {
        $get($root($set($x)))
    };
    (@ f64, $set:ident, $get:ident, $root:ident, $x:expr) => {{
        let x = $set($x);
        $get($root(x, x))
    }};
}

#[cfg(target_arch = "aarch64")]
macro_rules! square_root {
    (f32, $set:ident, $get:ident, $root:ident, $x:expr) => {{
        use core::arch::aarch64::{vdup_n_f32, vget_lane_f32, vsqrt_f32};
        // SAFETY: every CPU of this architecture that has vectors has the instruction.
        unsafe { vget_lane_f32::<0>(vsqrt_f32(vdup_n_f32($x))) }
    }};
    (f64, $set:ident, $get:ident, $root:ident, $x:expr) => {{
        use core::arch::aarch64::{vdup_n_f64, vget_lane_f64, vsqrt_f64};
        // SAFETY: every CPU of this architecture that has vectors has the instruction.
        unsafe { vget_lane_f64::<0>(vsqrt_f64(vdup_n_f64($x))) }
    }};
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! square_root {
    ($ty:ident, $set:ident, $get:ident, $root:ident, $x:expr) => {
        $x.sqrt()
    };
}

real! { f32 u32 _mm_set_ss _mm_cvtss_f32 _mm_fmadd_ss _mm_sqrt_ss vfmas_lane_f32 vdup_n_f32 }
real! { f64 u64 _mm_set_sd _mm_cvtsd_f64 _mm_fmadd_sd _mm_sqrt_sd vfmad_lane_f64 vdup_n_f64 }

/// An element of a matrix, real or complex.
pub trait Number: Copy {
    /// The type of its parts.
    type Real: Real;
    /// Several numbers, with separate real and imaginary parts.
    type Lanes: Copy;
    /// 0.
    const ZERO: Self;
    /// Lanes of zeros.
    const ZEROS: Self::Lanes;

    /// A real number as this type.
    fn of(real: Self::Real) -> Self;
    /// The real part.
    fn real(self) -> Self::Real;
    /// The conjugate.
    fn conjugate(self) -> Self;
    /// The reciprocal.
    fn reciprocal(self) -> Self;
    /// The sum of the magnitudes of its parts.
    fn size(self) -> Self::Real;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The negative.
    fn negative(self) -> Self;
    /// The difference.
    fn minus(self, other: Self) -> Self;
    /// The quotient, without intermediate overflow.
    fn over(self, by: Self) -> Self;
    /// The product.
    fn times(self, by: Self) -> Self;
    /// This number minus a product.
    ///
    /// # Safety
    /// As [`Real::multiply_add`].
    unsafe fn less_product<V: Vectors>(self, by: Self, x: Self) -> Self;
    /// One lane.
    fn lane(lanes: &Self::Lanes, lane: usize) -> Self;
    /// Sets one lane.
    fn set_lane(lanes: &mut Self::Lanes, lane: usize, to: Self);
    /// Subtracts the products of a number and lanes from lanes.
    ///
    /// # Safety
    /// As [`Real::multiply_add`].
    unsafe fn subtract<V: Vectors>(from: &mut Self::Lanes, by: Self, lanes: &Self::Lanes);
    /// Subtracts the lane-by-lane products from lanes.
    ///
    /// # Safety
    /// As [`Real::multiply_add`].
    unsafe fn subtract_each<V: Vectors>(
        from: &mut Self::Lanes,
        by: &Self::Lanes,
        lanes: &Self::Lanes,
    );
    /// The conjugate of each lane.
    fn conjugate_each(lanes: &mut Self::Lanes);
    /// The sum of all lanes.
    fn sum(lanes: &Self::Lanes) -> Self;
    /// Multiplies lanes by a number.
    fn scale(lanes: &mut Self::Lanes, by: Self);
}

/// The sum of lanes, by repeated halving.
#[inline(always)]
fn sum<R: Real>(lanes: &[R; LANES]) -> R {
    let mut lanes = *lanes;
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = lanes[lane] + lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

macro_rules! numbers {
    ($($real:ident)*) => {$(
        impl Number for $real {
            type Real = $real;
            type Lanes = [$real; LANES];
            const ZERO: Self = 0.0;
            const ZEROS: Self::Lanes = [0.0; LANES];

            #[inline(always)]
            fn of(real: Self) -> Self {
                real
            }
            #[inline(always)]
            fn real(self) -> Self {
                self
            }
            #[inline(always)]
            fn conjugate(self) -> Self {
                self
            }
            #[inline(always)]
            fn reciprocal(self) -> Self {
                Real::reciprocal(self)
            }
            #[inline(always)]
            fn size(self) -> Self {
                self.magnitude()
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn negative(self) -> Self {
                -self
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn over(self, by: Self) -> Self {
                self / by
            }
            #[inline(always)]
            fn times(self, by: Self) -> Self {
                self * by
            }
            #[inline(always)]
            unsafe fn less_product<V: Vectors>(self, by: Self, x: Self) -> Self {
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe { (-by).multiply_add::<V>(x, self) }
            }
            #[inline(always)]
            fn lane(lanes: &Self::Lanes, lane: usize) -> Self {
                lanes[lane]
            }
            #[inline(always)]
            fn set_lane(lanes: &mut Self::Lanes, lane: usize, to: Self) {
                lanes[lane] = to;
            }
            #[inline(always)]
            unsafe fn subtract<V: Vectors>(
                from: &mut Self::Lanes,
                by: Self,
                lanes: &Self::Lanes,
            ) {
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe { Real::subtract::<V>(from, by, lanes) }
            }
            #[inline(always)]
            unsafe fn subtract_each<V: Vectors>(
                from: &mut Self::Lanes,
                by: &Self::Lanes,
                lanes: &Self::Lanes,
            ) {
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe { Real::subtract_each::<V>(from, by, lanes) }
            }
            #[inline(always)]
            fn conjugate_each(_: &mut Self::Lanes) {}
            #[inline(always)]
            fn sum(lanes: &Self::Lanes) -> Self {
                sum(lanes)
            }
            #[inline(always)]
            fn scale(lanes: &mut Self::Lanes, by: Self) {
                lanes.iter_mut().for_each(|x| *x *= by);
            }
        }

        impl Number for Complex<$real> {
            type Real = $real;
            type Lanes = [[$real; LANES]; 2];
            const ZERO: Self = Self { re: 0.0, im: 0.0 };
            const ZEROS: Self::Lanes = [[0.0; LANES]; 2];

            #[inline(always)]
            fn of(re: $real) -> Self {
                Self { re, im: 0.0 }
            }
            #[inline(always)]
            fn real(self) -> $real {
                self.re
            }
            #[inline(always)]
            fn conjugate(self) -> Self {
                Self { re: self.re, im: -self.im }
            }
            /// Smith's method: scales by the larger part.
            #[inline(always)]
            fn reciprocal(self) -> Self {
                if self.re.magnitude() >= self.im.magnitude() {
                    let ratio = self.im / self.re;
                    let scale = self.re + self.im * ratio;
                    Self { re: 1.0 / scale, im: -ratio / scale }
                } else {
                    let ratio = self.re / self.im;
                    let scale = self.re * ratio + self.im;
                    Self { re: ratio / scale, im: -1.0 / scale }
                }
            }
            #[inline(always)]
            fn size(self) -> $real {
                self.re.magnitude() + self.im.magnitude()
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                Self { re: self.re + other.re, im: self.im + other.im }
            }
            #[inline(always)]
            fn negative(self) -> Self {
                Self { re: -self.re, im: -self.im }
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                Self { re: self.re - other.re, im: self.im - other.im }
            }
            /// Smith's method, as in the reciprocal.
            #[inline(always)]
            fn over(self, by: Self) -> Self {
                if by.re.magnitude() >= by.im.magnitude() {
                    let ratio = by.im / by.re;
                    let below = by.re + by.im * ratio;
                    Self {
                        re: (self.re + self.im * ratio) / below,
                        im: (self.im - self.re * ratio) / below,
                    }
                } else {
                    let ratio = by.re / by.im;
                    let below = by.im + by.re * ratio;
                    Self {
                        re: (self.re * ratio + self.im) / below,
                        im: (self.im * ratio - self.re) / below,
                    }
                }
            }
            #[inline(always)]
            fn times(self, by: Self) -> Self {
                Self {
                    re: self.re * by.re - self.im * by.im,
                    im: self.re * by.im + self.im * by.re,
                }
            }
            #[inline(always)]
            unsafe fn less_product<V: Vectors>(self, by: Self, x: Self) -> Self {
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe {
                    let real = (-by.re).multiply_add::<V>(x.re, self.re);
                    let imaginary = (-by.re).multiply_add::<V>(x.im, self.im);
                    Self {
                        re: by.im.multiply_add::<V>(x.im, real),
                        im: (-by.im).multiply_add::<V>(x.re, imaginary),
                    }
                }
            }
            #[inline(always)]
            fn lane(lanes: &Self::Lanes, lane: usize) -> Self {
                Self { re: lanes[0][lane], im: lanes[1][lane] }
            }
            #[inline(always)]
            fn set_lane(lanes: &mut Self::Lanes, lane: usize, to: Self) {
                (lanes[0][lane], lanes[1][lane]) = (to.re, to.im);
            }
            #[inline(always)]
            unsafe fn subtract<V: Vectors>(
                from: &mut Self::Lanes,
                by: Self,
                lanes: &Self::Lanes,
            ) {
                let [re, im] = from;
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe {
                    Real::subtract::<V>(re, by.re, &lanes[0]);
                    Real::subtract::<V>(re, -by.im, &lanes[1]);
                    Real::subtract::<V>(im, by.re, &lanes[1]);
                    Real::subtract::<V>(im, by.im, &lanes[0]);
                }
            }
            #[inline(always)]
            unsafe fn subtract_each<V: Vectors>(
                from: &mut Self::Lanes,
                by: &Self::Lanes,
                lanes: &Self::Lanes,
            ) {
                // Numbers come from memory with adjacent parts, which the compiler separates better
                // when it vectorises.
                for lane in 0..LANES {
                    let (own, by) = (Self::lane(from, lane), Self::lane(by, lane));
                    // SAFETY: the caller promises a CPU with these vector instructions.
                    let less = unsafe { own.less_product::<V>(by, Self::lane(lanes, lane)) };
                    Self::set_lane(from, lane, less);
                }
            }
            #[inline(always)]
            fn conjugate_each(lanes: &mut Self::Lanes) {
                lanes[1].iter_mut().for_each(|im| *im = -*im);
            }
            #[inline(always)]
            fn sum(lanes: &Self::Lanes) -> Self {
                Self { re: sum(&lanes[0]), im: sum(&lanes[1]) }
            }
            #[inline(always)]
            fn scale(lanes: &mut Self::Lanes, by: Self) {
                let [re, im] = lanes;
                for (re, im) in re.iter_mut().zip(im) {
                    (*re, *im) = (*re * by.re - *im * by.im, *re * by.im + *im * by.re);
                }
            }
        }
    )*};
}

numbers! { f32 f64 }
