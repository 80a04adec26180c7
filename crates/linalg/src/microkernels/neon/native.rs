//! The vectors of [`vector`](super::vector) as AArch64 instructions.

use super::lanes::{Numbers, Vector};
use core::arch::aarch64::*;
use core::arch::asm;

/// Four `f32`.
#[derive(Clone, Copy)]
pub(crate) struct F32(float32x4_t);
/// Two `f64`.
#[derive(Clone, Copy)]
pub(crate) struct F64(float64x2_t);
/// Four `i32`, with arithmetic modulo 2^32.
#[derive(Clone, Copy)]
pub(crate) struct I32(int32x4_t);
/// Four `f32`; the right operand is bf16 in memory.
#[derive(Clone, Copy)]
pub(crate) struct F32ByBf16(float32x4_t);
/// Four `f32`; the right operand is f16 in memory.
#[derive(Clone, Copy)]
pub(crate) struct F32ByF16(float32x4_t);
/// Four pairs of bf16, summed in `f32` (FEAT_BF16).
#[derive(Clone, Copy)]
pub(crate) struct Bf16Pairs(float32x4_t);
/// Four groups of four `i8`, summed in `i32` (FEAT_DotProd).
#[derive(Clone, Copy)]
pub(crate) struct I8Quads(int32x4_t);
/// Like [`I8Quads`], with `u8` on the left (FEAT_I8MM).
#[derive(Clone, Copy)]
pub(crate) struct U8Quads(int32x4_t);

/// Loads the first `count` of four 32-bit numbers.
///
/// # Safety
/// The first `count` can be read.
#[inline(always)]
unsafe fn load_words(from: *const u32, count: usize) -> uint32x4_t {
    // SAFETY: the caller promises `count` numbers; vectors are part of the architecture.
    unsafe {
        let zero = vdupq_n_u32(0);
        match count {
            0 => zero,
            1 => vld1q_lane_u32::<0>(from, zero),
            2 => vcombine_u32(vld1_u32(from), vdup_n_u32(0)),
            3 => vld1q_lane_u32::<2>(from.add(2), vcombine_u32(vld1_u32(from), vdup_n_u32(0))),
            _ => vld1q_u32(from),
        }
    }
}

/// Stores the first `count` of four 32-bit numbers.
///
/// # Safety
/// The first `count` can be written.
#[inline(always)]
unsafe fn store_words(to: *mut u32, count: usize, words: uint32x4_t) {
    // SAFETY: the caller promises room for `count` numbers; vectors are part of the architecture.
    unsafe {
        match count {
            0 => {}
            1 => vst1q_lane_u32::<0>(to, words),
            2 => vst1_u32(to, vget_low_u32(words)),
            3 => {
                vst1_u32(to, vget_low_u32(words));
                vst1q_lane_u32::<2>(to.add(2), words);
            }
            _ => vst1q_u32(to, words),
        }
    }
}

/// Loads the first `count` of four 16-bit numbers.
///
/// # Safety
/// The first `count` can be read.
#[inline(always)]
unsafe fn load_halves(from: *const u16, count: usize) -> uint16x4_t {
    // SAFETY: the caller promises `count` numbers; vectors are part of the architecture.
    unsafe {
        if count >= 4 {
            return vld1_u16(from);
        }
        let mut halves = vdup_n_u16(0);
        if count > 0 {
            halves = vld1_lane_u16::<0>(from, halves);
        }
        if count > 1 {
            halves = vld1_lane_u16::<1>(from.add(1), halves);
        }
        if count > 2 {
            halves = vld1_lane_u16::<2>(from.add(2), halves);
        }
        halves
    }
}

/// A vector with four lanes of 32 bits: its name, its register, the types of units and of the right
/// operand's elements; the conversions between a register and words; how it loads elements of the
/// right operand, multiplies units, and adds sums.
macro_rules! words {
    ($($name:ident, $register:ty, $unit:ty, $right:ty, $of:ident, $words:ident,
       |$from:ident, $count:ident| $load:expr, |$sum:ident, $by:ident, $times:ident| $multiply_add:expr,
       $add:ident $(, lanes: $lane:ident)?;)*) => {$(
        impl Vector for $name {
            type Unit = $unit;
            type Right = $right;
            const LANES: usize = 4;

            #[inline(always)]
            fn zero() -> Self {
                // SAFETY: vectors are part of the architecture.
                unsafe { Self($of(vdupq_n_u32(0))) }
            }

            #[inline(always)]
            unsafe fn right($from: *const $right, $count: usize) -> Self {
                // SAFETY: the caller promises this many elements; vectors are part of the
                // architecture.
                unsafe { Self($load) }
            }

            #[inline(always)]
            unsafe fn load(from: *const $unit, count: usize) -> Self {
                // SAFETY: the caller promises that the address has this many units.
                unsafe { Self($of(load_words(from.cast(), count))) }
            }

            $(
                #[inline(always)]
                unsafe fn units<const M: usize>(from: *const $unit) -> [$unit; M] {
                    core::array::from_fn(|m| {
                        let first = m / 4 * 4;
                        // SAFETY: the caller promises that the address has this many units; vectors
                        // are part of the architecture.
                        unsafe {
                            let Self(units) = Self::load(from.add(first), (M - first).min(4));
                            match m - first {
                                0 => $lane::<0>(units),
                                1 => $lane::<1>(units),
                                2 => $lane::<2>(units),
                                _ => $lane::<3>(units),
                            }
                        }
                    })
                }
            )?

            #[inline(always)]
            unsafe fn store(self, to: *mut $unit, count: usize) {
                // SAFETY: the caller promises room for this many elements.
                unsafe { store_words(to.cast(), count, $words(self.0)) }
            }

            #[inline(always)]
            unsafe fn multiply_add(self, $times: $unit, right: Self) -> Self {
                let ($sum, $by): ($register, $register) = (self.0, right.0);
                // SAFETY: the caller promises a CPU with these instructions.
                unsafe { Self($multiply_add) }
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                // SAFETY: vectors are part of the architecture.
                unsafe { Self($add(self.0, other.0)) }
            }
        }
    )*};
}

words! {
    F32, float32x4_t, f32, f32, vreinterpretq_f32_u32, vreinterpretq_u32_f32,
        |p, n| vreinterpretq_f32_u32(load_words(p.cast(), n)),
        |sum, right, unit| vfmaq_n_f32(sum, right, unit), vaddq_f32, lanes: vgetq_lane_f32;
    F32ByBf16, float32x4_t, f32, u16, vreinterpretq_f32_u32, vreinterpretq_u32_f32,
        |p, n| vreinterpretq_f32_u32(vshll_n_u16::<16>(load_halves(p, n))),
        |sum, right, unit| vfmaq_n_f32(sum, right, unit), vaddq_f32;
    F32ByF16, float32x4_t, f32, u16, vreinterpretq_f32_u32, vreinterpretq_u32_f32,
        |p, n| widened(load_halves(p, n)),
        |sum, right, unit| vfmaq_n_f32(sum, right, unit), vaddq_f32;
    I32, int32x4_t, i32, i32, vreinterpretq_s32_u32, vreinterpretq_u32_s32,
        |p, n| vreinterpretq_s32_u32(load_words(p.cast(), n)),
        |sum, right, unit| vmlaq_n_s32(sum, right, unit), vaddq_s32, lanes: vgetq_lane_s32;
    Bf16Pairs, float32x4_t, f32, f32, vreinterpretq_f32_u32, vreinterpretq_u32_f32,
        |p, n| vreinterpretq_f32_u32(load_words(p.cast(), n)),
        |sum, right, unit| bf16_pairs(sum, right, unit), vaddq_f32;
    I8Quads, int32x4_t, i32, i32, vreinterpretq_s32_u32, vreinterpretq_u32_s32,
        |p, n| vreinterpretq_s32_u32(load_words(p.cast(), n)),
        |sum, right, unit| i8_quads(sum, right, unit), vaddq_s32;
    U8Quads, int32x4_t, i32, i32, vreinterpretq_s32_u32, vreinterpretq_u32_s32,
        |p, n| vreinterpretq_s32_u32(load_words(p.cast(), n)),
        |sum, right, unit| u8_quads(sum, right, unit), vaddq_s32;
}

/// Widens four f16 to f32.
#[inline(always)]
fn widened(halves: uint16x4_t) -> float32x4_t {
    let wide: float32x4_t;
    // SAFETY: the instruction is part of the architecture, and touches no memory.
    unsafe {
        asm!(
            "fcvtl {wide:v}.4s, {halves:v}.4h",
            wide = lateout(vreg) wide,
            halves = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    wide
}

/// Functions that add the products of a unit's parts and each lane's parts to sums, by an
/// instruction of an architecture extension.
macro_rules! products_of_parts {
    ($($(#[$what:meta])* $name:ident, $register:ty, $unit:ty, $extension:literal, $instruction:literal;)*) => {$(
        $(#[$what])*
        #[inline(always)]
        unsafe fn $name(mut sum: $register, right: $register, unit: $unit) -> $register {
            // SAFETY: the caller promises the instruction, which touches no memory.
            unsafe {
                asm!(
                    concat!(".arch_extension ", $extension),
                    $instruction,
                    sum = inlateout(vreg) sum,
                    right = in(vreg) right,
                    unit = in(vreg) unit,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            sum
        }
    )*};
}

products_of_parts! {
    /// Adds to each sum the products of a pair of bf16 and the lane's pair.
    ///
    /// # Safety
    /// The CPU has FEAT_BF16.
    bf16_pairs, float32x4_t, f32, "bf16", "bfdot {sum:v}.4s, {right:v}.8h, {unit:v}.2h[0]";
    /// Adds to each sum the products of four `i8` and the lane's four.
    ///
    /// # Safety
    /// The CPU has FEAT_DotProd.
    i8_quads, int32x4_t, i32, "dotprod", "sdot {sum:v}.4s, {right:v}.16b, {unit:v}.4b[0]";
    /// Adds to each sum the products of four `u8` and the lane's four `i8`.
    ///
    /// # Safety
    /// The CPU has FEAT_I8MM.
    u8_quads, int32x4_t, i32, "i8mm", "sudot {sum:v}.4s, {right:v}.16b, {unit:v}.4b[0]";
}

impl Vector for F64 {
    type Unit = f64;
    type Right = f64;
    const LANES: usize = 2;

    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: vectors are part of the architecture.
        unsafe { Self(vdupq_n_f64(0.0)) }
    }

    #[inline(always)]
    unsafe fn right(from: *const f64, count: usize) -> Self {
        // SAFETY: the caller promises that the address has this many elements.
        unsafe { Self::load(from, count) }
    }

    #[inline(always)]
    unsafe fn units<const M: usize>(from: *const f64) -> [f64; M] {
        core::array::from_fn(|m| {
            let first = m / 2 * 2;
            // SAFETY: the caller promises that the address has this many units; vectors are part of
            // the architecture.
            unsafe {
                let Self(units) = Self::load(from.add(first), (M - first).min(2));
                match m - first {
                    0 => vgetq_lane_f64::<0>(units),
                    _ => vgetq_lane_f64::<1>(units),
                }
            }
        })
    }

    #[inline(always)]
    unsafe fn load(from: *const f64, count: usize) -> Self {
        // SAFETY: the caller promises this many; vectors are part of the architecture.
        unsafe {
            Self(match count {
                0 => vdupq_n_f64(0.0),
                1 => vcombine_f64(vld1_f64(from), vdup_n_f64(0.0)),
                _ => vld1q_f64(from),
            })
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64, count: usize) {
        // SAFETY: the caller promises room for this many; vectors are part of the architecture.
        unsafe {
            match count {
                0 => {}
                1 => vst1_f64(to, vget_low_f64(self.0)),
                _ => vst1q_f64(to, self.0),
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, unit: f64, right: Self) -> Self {
        // SAFETY: vectors are part of the architecture.
        unsafe { Self(vfmaq_n_f64(self.0, right.0, unit)) }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: vectors are part of the architecture.
        unsafe { Self(vaddq_f64(self.0, other.0)) }
    }
}

macro_rules! singles {
    ($($name:ident)*) => {$(
        impl Numbers for $name {
            #[inline(always)]
            fn multiply_add_lanes(self, left: Self, right: Self) -> Self {
                // SAFETY: vectors are part of the architecture.
                unsafe { Self(vfmaq_f32(self.0, left.0, right.0)) }
            }

            #[inline(always)]
            fn totals([a, b, c, d]: [Self; 4]) -> [f32; 4] {
                let mut totals = [0.0; 4];
                // SAFETY: vectors are part of the architecture; there is room for four.
                unsafe {
                    let (ab, cd) = (vpaddq_f32(a.0, b.0), vpaddq_f32(c.0, d.0));
                    vst1q_f32(totals.as_mut_ptr(), vpaddq_f32(ab, cd));
                }
                totals
            }
        }
    )*};
}

singles!(F32 F32ByBf16 F32ByF16);

impl Numbers for F64 {
    #[inline(always)]
    fn multiply_add_lanes(self, left: Self, right: Self) -> Self {
        // SAFETY: vectors are part of the architecture.
        unsafe { Self(vfmaq_f64(self.0, left.0, right.0)) }
    }

    #[inline(always)]
    fn totals([a, b, c, d]: [Self; 4]) -> [f64; 4] {
        let mut totals = [0.0; 4];
        // SAFETY: vectors are part of the architecture; there is room for four.
        unsafe {
            vst1q_f64(totals.as_mut_ptr(), vpaddq_f64(a.0, b.0));
            vst1q_f64(totals.as_mut_ptr().add(2), vpaddq_f64(c.0, d.0));
        }
        totals
    }
}

/// Transposes four vectors of four units.
#[inline(always)]
pub(crate) fn turned([a, b, c, d]: [F32; 4]) -> [F32; 4] {
    // SAFETY: vectors are part of the architecture.
    unsafe {
        let pairs = |a, b| {
            let (low, high) = (vtrn1q_f32(a, b), vtrn2q_f32(a, b));
            (vreinterpretq_f64_f32(low), vreinterpretq_f64_f32(high))
        };
        let ((ab0, ab1), (cd0, cd1)) = (pairs(a.0, b.0), pairs(c.0, d.0));
        [
            vtrn1q_f64(ab0, cd0),
            vtrn1q_f64(ab1, cd1),
            vtrn2q_f64(ab0, cd0),
            vtrn2q_f64(ab1, cd1),
        ]
        .map(|row| F32(vreinterpretq_f32_f64(row)))
    }
}
