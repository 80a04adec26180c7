//! Functions of complex numbers that generated code does not compute inline: those of
//! `crates/scalar`, on the C library's real functions.
//!
//! Each is given the address of its operands, of 16 bytes each, and overwrites the first with the
//! result.

#[path = "../shared/complex/functions.rs"]
mod functions;
#[path = "../shared/complex/inverse.rs"]
mod inverse;

use core::ops::{Add, Mul, Neg, Sub};

/// A pair of `f64`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct C64 {
    re: f64,
    im: f64,
}

/// A pair of `f32`.
#[derive(Clone, Copy)]
#[repr(C)]
struct C32 {
    re: f32,
    im: f32,
}

impl C64 {
    const fn new(re: f64, im: f64) -> Self {
        Self { re, im }
    }
}

impl From<C32> for C64 {
    fn from(x: C32) -> Self {
        Self::new(x.re.into(), x.im.into())
    }
}

impl From<C64> for C32 {
    fn from(x: C64) -> Self {
        Self {
            re: x.re as f32,
            im: x.im as f32,
        }
    }
}

impl Add for C64 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.re + other.re, self.im + other.im)
    }
}

impl Sub for C64 {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::new(self.re - other.re, self.im - other.im)
    }
}

impl Mul for C64 {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::new(
            self.re * other.re - self.im * other.im,
            self.re * other.im + self.im * other.re,
        )
    }
}

impl Neg for C64 {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(-self.re, -self.im)
    }
}

macro_rules! unary {
    ($($single:ident $double:ident $function:expr;)*) => {$(
        /// # Safety
        /// `slots` points to the operand.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $single(slots: *mut u128) {
            // SAFETY: the caller promises the operand.
            unsafe {
                let x = slots.cast::<C32>().read();
                slots.cast::<C32>().write($function(x.into()).into());
            }
        }

        /// # Safety
        /// `slots` points to the operand.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $double(slots: *mut u128) {
            // SAFETY: the caller promises the operand.
            unsafe {
                let x = slots.cast::<C64>().read();
                slots.cast::<C64>().write($function(x));
            }
        }
    )*};
}

macro_rules! binary {
    ($($single:ident $double:ident $function:expr;)*) => {$(
        /// # Safety
        /// `slots` points to both operands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $single(slots: *mut u128) {
            // SAFETY: the caller promises the operands.
            unsafe {
                let (a, b) = (slots.cast::<C32>().read(), slots.add(1).cast::<C32>().read());
                slots.cast::<C32>().write($function(a.into(), b.into()).into());
            }
        }

        /// # Safety
        /// `slots` points to both operands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $double(slots: *mut u128) {
            // SAFETY: the caller promises the operands.
            unsafe {
                let (a, b) = (slots.cast::<C64>().read(), slots.add(1).cast::<C64>().read());
                slots.cast::<C64>().write($function(a, b));
            }
        }
    )*};
}

binary! {
    tegula_rt_c64_power tegula_rt_c128_power functions::power;
    tegula_rt_c64_atan2 tegula_rt_c128_atan2 functions::atan2;
}

/// The absolute value.
///
/// # Safety
/// `slots` points to the operand.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_c64_abs(slots: *mut u128) {
    // SAFETY: the caller promises the operand.
    unsafe {
        let x = slots.cast::<C32>().read();
        slots.cast::<f32>().write(functions::size(x.into()) as f32);
    }
}

/// The absolute value.
///
/// # Safety
/// `slots` points to the operand.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_c128_abs(slots: *mut u128) {
    // SAFETY: the caller promises the operand.
    unsafe {
        let x = slots.cast::<C64>().read();
        slots.cast::<f64>().write(functions::size(x));
    }
}

unary! {
    tegula_rt_c64_sign tegula_rt_c128_sign functions::sign;
    tegula_rt_c64_exp tegula_rt_c128_exp functions::exp;
    tegula_rt_c64_expm1 tegula_rt_c128_expm1 functions::expm1;
    tegula_rt_c64_log tegula_rt_c128_log functions::log;
    tegula_rt_c64_log1p tegula_rt_c128_log1p functions::log1p;
    tegula_rt_c64_logistic tegula_rt_c128_logistic functions::logistic;
    tegula_rt_c64_sqrt tegula_rt_c128_sqrt functions::sqrt;
    tegula_rt_c64_rsqrt tegula_rt_c128_rsqrt functions::rsqrt;
    tegula_rt_c64_cbrt tegula_rt_c128_cbrt functions::cbrt;
    tegula_rt_c64_sin tegula_rt_c128_sin functions::sin;
    tegula_rt_c64_cos tegula_rt_c128_cos functions::cos;
    tegula_rt_c64_tan tegula_rt_c128_tan functions::tan;
    tegula_rt_c64_tanh tegula_rt_c128_tanh functions::tanh;
    tegula_rt_c64_sinh tegula_rt_c128_sinh functions::sinh;
    tegula_rt_c64_cosh tegula_rt_c128_cosh functions::cosh;
    tegula_rt_c64_asin tegula_rt_c128_asin inverse::asin;
    tegula_rt_c64_acos tegula_rt_c128_acos inverse::acos;
    tegula_rt_c64_asinh tegula_rt_c128_asinh inverse::asinh;
    tegula_rt_c64_acosh tegula_rt_c128_acosh inverse::acosh;
    tegula_rt_c64_atanh tegula_rt_c128_atanh inverse::atanh;
}
