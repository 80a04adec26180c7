//! Operations on the CPU's [vectors](crate::vectors) for transforms: sums and products lane by
//! lane, separation of complex numbers into parts, and transposition of square tiles.

use crate::vectors::Vector;

/// Vectors of numbers of one type, and operations on their complex numbers.
pub trait Lanes<R>: Vector<R> {
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn add(a: Self::Value, b: Self::Value) -> Self::Value;
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn sub(a: Self::Value, b: Self::Value) -> Self::Value;
    /// # Safety
    /// The CPU has these vectors.
    unsafe fn mul(a: Self::Value, b: Self::Value) -> Self::Value;
    /// Loads complex numbers, separated into real and imaginary parts.
    ///
    /// # Safety
    /// The CPU has these vectors; as many complex numbers as a vector has lanes can be read.
    unsafe fn load_pairs(from: *const R) -> [Self::Value; 2];
    /// Stores complex numbers, given their real and imaginary parts.
    ///
    /// # Safety
    /// The CPU has these vectors; as many complex numbers as a vector has lanes can be written.
    unsafe fn store_pairs(to: *mut R, parts: [Self::Value; 2]);
    /// Transposes a square tile with as many rows as a vector has numbers. `from_row` and
    /// `to_row` are the distances between rows, in numbers.
    ///
    /// # Safety
    /// The CPU has these vectors; the rows may be read and written, and do not overlap.
    unsafe fn transpose(from: *const R, from_row: usize, to: *mut R, to_row: usize);
}

#[cfg(target_arch = "aarch64")]
use core::arch::aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64 as arch;

/// The lane-by-lane operations, each given by its instruction, and the functions for the rest.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! lanes {
    ($name:ident $($ty:ident: $add:ident $sub:ident $mul:ident
        $load_pairs:path, $store_pairs:path, $transpose:path);*) => {$(
        impl Lanes<$ty> for $name {
            #[inline(always)]
            unsafe fn add(a: Self::Value, b: Self::Value) -> Self::Value {
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe { arch::$add(a, b) }
            }
            #[inline(always)]
            unsafe fn sub(a: Self::Value, b: Self::Value) -> Self::Value {
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe { arch::$sub(a, b) }
            }
            #[inline(always)]
            unsafe fn mul(a: Self::Value, b: Self::Value) -> Self::Value {
                // SAFETY: the caller promises a CPU with these vector instructions.
                unsafe { arch::$mul(a, b) }
            }
            #[inline(always)]
            unsafe fn load_pairs(from: *const $ty) -> [Self::Value; 2] {
                // SAFETY: the caller promises a CPU with these vector instructions, and that the
                // numbers can be accessed.
                unsafe { $load_pairs(from) }
            }
            #[inline(always)]
            unsafe fn store_pairs(to: *mut $ty, parts: [Self::Value; 2]) {
                // SAFETY: the caller promises a CPU with these vector instructions, and that the
                // numbers can be accessed.
                unsafe { $store_pairs(to, parts) }
            }
            #[inline(always)]
            unsafe fn transpose(from: *const $ty, from_row: usize, to: *mut $ty, to_row: usize) {
                // SAFETY: the caller promises a CPU with these vector instructions, and that the
                // rows exist.
                unsafe { $transpose(from, from_row, to, to_row) }
            }
        }
    )*};
}

/// Transposes rows in registers, by stages that each combine pairs of rows at a distance: a bit of
/// the row number is exchanged with a bit of the position in a vector. `$order` permutes the rows
/// that the last stage writes.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! transpose {
    ($name:ident $ty:ident $value:ident $count:literal $load:ident $store:ident $order:ident;
        $($distance:literal |$a:ident, $b:ident| $low:expr, $high:expr);*) => {
        /// # Safety
        /// As [`Lanes::transpose`].
        #[inline(always)]
        unsafe fn $name(from: *const $ty, from_row: usize, to: *mut $ty, to_row: usize) {
            // SAFETY: the caller promises a CPU with these vector instructions, and that the rows
            // exist.
            unsafe {
                let mut rows = [arch::$load(from); $count];
                for (i, row) in rows.iter_mut().enumerate().skip(1) {
                    *row = arch::$load(from.add(i * from_row));
                }
                $(
                    for i in 0..$count {
                        if i & $distance == 0 {
                            let ($a, $b) = (rows[i], rows[i + $distance]);
                            rows[i] = $low;
                            rows[i + $distance] = $high;
                        }
                    }
                )*
                for (i, row) in rows.into_iter().enumerate() {
                    arch::$store(to.add($order(i) * to_row), row);
                }
            }
        }
    };
}

/// The rows of a transposed tile, in order.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
fn same(row: usize) -> usize {
    row
}

#[cfg(target_arch = "x86_64")]
pub(super) use crate::vectors::{Avx2, Avx512, Sse2};

#[cfg(target_arch = "x86_64")]
mod x64 {
    use super::{Avx2, Avx512, Lanes, Sse2, arch, same};
    use core::arch::x86_64::*;

    lanes! {
        Sse2
        f32: _mm_add_ps _mm_sub_ps _mm_mul_ps
            load_4, store_4, transpose_4;
        f64: _mm_add_pd _mm_sub_pd _mm_mul_pd
            load_2_of_64, store_2_of_64, transpose_2_of_64
    }

    lanes! {
        Avx2
        f32: _mm256_add_ps _mm256_sub_ps _mm256_mul_ps
            load_8, store_8, transpose_8;
        f64: _mm256_add_pd _mm256_sub_pd _mm256_mul_pd
            load_4_of_64, store_4_of_64, transpose_4_of_64
    }

    lanes! {
        Avx512
        f32: _mm512_add_ps _mm512_sub_ps _mm512_mul_ps
            load_16, store_16, transpose_16;
        f64: _mm512_add_pd _mm512_sub_pd _mm512_mul_pd
            load_8_of_64, store_8_of_64, transpose_8_of_64
    }

    /// Separates pairs in two vectors into two parts, and back.
    macro_rules! pairs {
        ($($load_name:ident $store_name:ident $ty:ident $value:ident $count:literal $load:ident $store:ident
            |$a:ident, $b:ident| $re:expr, $im:expr; $low:expr, $high:expr;)*) => {$(
            /// # Safety
            /// As [`Lanes::load_pairs`].
            #[inline(always)]
            unsafe fn $load_name(from: *const $ty) -> [$value; 2] {
                // SAFETY: the caller promises a CPU with these vector instructions, and that the
                // numbers can be accessed.
                unsafe {
                    let ($a, $b) = ($load(from), $load(from.add($count)));
                    [$re, $im]
                }
            }

            /// # Safety
            /// As [`Lanes::store_pairs`].
            #[inline(always)]
            unsafe fn $store_name(to: *mut $ty, [$a, $b]: [$value; 2]) {
                // SAFETY: the caller promises a CPU with these vector instructions, and that the
                // numbers can be accessed.
                unsafe {
                    $store(to, $low);
                    $store(to.add($count), $high);
                }
            }
        )*};
    }

    /// The indices of a permutation of two vectors.
    macro_rules! places {
        ($set:ident $($place:literal)*) => {
            $set($($place),*)
        };
    }

    pairs! {
        load_4 store_4 f32 __m128 4 _mm_loadu_ps _mm_storeu_ps
        |a, b| _mm_shuffle_ps::<0x88>(a, b), _mm_shuffle_ps::<0xdd>(a, b);
            _mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b);
        load_2_of_64 store_2_of_64 f64 __m128d 2 _mm_loadu_pd _mm_storeu_pd
        |a, b| _mm_unpacklo_pd(a, b), _mm_unpackhi_pd(a, b);
            _mm_unpacklo_pd(a, b), _mm_unpackhi_pd(a, b);
        load_8 store_8 f32 __m256 8 _mm256_loadu_ps _mm256_storeu_ps
        |a, b| in_order(_mm256_shuffle_ps::<0x88>(a, b)), in_order(_mm256_shuffle_ps::<0xdd>(a, b));
            _mm256_permute2f128_ps::<0x20>(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)),
            _mm256_permute2f128_ps::<0x31>(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        load_4_of_64 store_4_of_64 f64 __m256d 4 _mm256_loadu_pd _mm256_storeu_pd
        |a, b| _mm256_permute4x64_pd::<0xd8>(_mm256_unpacklo_pd(a, b)),
            _mm256_permute4x64_pd::<0xd8>(_mm256_unpackhi_pd(a, b));
            _mm256_permute2f128_pd::<0x20>(_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b)),
            _mm256_permute2f128_pd::<0x31>(_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        load_16 store_16 f32 __m512 16 _mm512_loadu_ps _mm512_storeu_ps
        |a, b|
            _mm512_permutex2var_ps(a, places!(_mm512_setr_epi32 0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30), b),
            _mm512_permutex2var_ps(a, places!(_mm512_setr_epi32 1 3 5 7 9 11 13 15 17 19 21 23 25 27 29 31), b);
            _mm512_permutex2var_ps(a, places!(_mm512_setr_epi32 0 16 1 17 2 18 3 19 4 20 5 21 6 22 7 23), b),
            _mm512_permutex2var_ps(a, places!(_mm512_setr_epi32 8 24 9 25 10 26 11 27 12 28 13 29 14 30 15 31), b);
        load_8_of_64 store_8_of_64 f64 __m512d 8 _mm512_loadu_pd _mm512_storeu_pd
        |a, b|
            _mm512_permutex2var_pd(a, places!(_mm512_setr_epi64 0 2 4 6 8 10 12 14), b),
            _mm512_permutex2var_pd(a, places!(_mm512_setr_epi64 1 3 5 7 9 11 13 15), b);
            _mm512_permutex2var_pd(a, places!(_mm512_setr_epi64 0 8 1 9 2 10 3 11), b),
            _mm512_permutex2var_pd(a, places!(_mm512_setr_epi64 4 12 5 13 6 14 7 15), b);
    }

    /// Reorders the 64-bit halves of both 128-bit halves.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn in_order(x: __m256) -> __m256 {
        // SAFETY: the caller promises a CPU with these instructions.
        unsafe { _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(x))) }
    }

    /// An instruction on pairs of 32-bit numbers.
    macro_rules! as_64 {
        (128 $shuffle:ident $a:ident $b:ident) => {
            _mm_castpd_ps($shuffle(_mm_castps_pd($a), _mm_castps_pd($b)))
        };
        (512 $shuffle:ident $a:ident $b:ident) => {
            _mm512_castpd_ps($shuffle(_mm512_castps_pd($a), _mm512_castps_pd($b)))
        };
        (256 $shuffle:ident $a:ident $b:ident) => {
            _mm256_castpd_ps($shuffle(_mm256_castps_pd($a), _mm256_castps_pd($b)))
        };
    }

    /// Stages on pairs of numbers come before those on single numbers: the two lowest bits of a row
    /// number are swapped.
    #[inline(always)]
    fn swapped(row: usize) -> usize {
        row & !3 | (row & 1) << 1 | (row >> 1) & 1
    }

    transpose! {
        transpose_4 f32 __m128 4 _mm_loadu_ps _mm_storeu_ps swapped;
        1 |a, b| as_64!(128 _mm_unpacklo_pd a b), as_64!(128 _mm_unpackhi_pd a b);
        2 |a, b| _mm_shuffle_ps::<0x88>(a, b), _mm_shuffle_ps::<0xdd>(a, b)
    }
    transpose! {
        transpose_8 f32 __m256 8 _mm256_loadu_ps _mm256_storeu_ps swapped;
        1 |a, b| as_64!(256 _mm256_unpacklo_pd a b), as_64!(256 _mm256_unpackhi_pd a b);
        2 |a, b| _mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xdd>(a, b);
        4 |a, b| _mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b)
    }
    transpose! {
        transpose_16 f32 __m512 16 _mm512_loadu_ps _mm512_storeu_ps swapped;
        1 |a, b| as_64!(512 _mm512_unpacklo_pd a b), as_64!(512 _mm512_unpackhi_pd a b);
        2 |a, b| _mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xdd>(a, b);
        4 |a, b| _mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b);
        8 |a, b| _mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b)
    }
    transpose! {
        transpose_2_of_64 f64 __m128d 2 _mm_loadu_pd _mm_storeu_pd same;
        1 |a, b| _mm_unpacklo_pd(a, b), _mm_unpackhi_pd(a, b)
    }
    transpose! {
        transpose_4_of_64 f64 __m256d 4 _mm256_loadu_pd _mm256_storeu_pd same;
        1 |a, b| _mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b);
        2 |a, b| _mm256_permute2f128_pd::<0x20>(a, b), _mm256_permute2f128_pd::<0x31>(a, b)
    }
    transpose! {
        transpose_8_of_64 f64 __m512d 8 _mm512_loadu_pd _mm512_storeu_pd same;
        1 |a, b| _mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b);
        2 |a, b| _mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0xdd>(a, b);
        4 |a, b| _mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0xdd>(a, b)
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) use crate::vectors::Neon;

#[cfg(target_arch = "aarch64")]
mod a64 {
    use super::{Lanes, Neon, arch, same};
    use core::arch::aarch64::*;

    lanes! {
        Neon
        f32: vaddq_f32 vsubq_f32 vmulq_f32
            load_4, store_4, transpose_4;
        f64: vaddq_f64 vsubq_f64 vmulq_f64
            load_2, store_2, transpose_2
    }

    macro_rules! pairs {
        ($($load_name:ident $store_name:ident $ty:ident $value:ident $both:ident $load:ident $store:ident)*) => {$(
            /// # Safety
            /// As [`Lanes::load_pairs`].
            #[inline(always)]
            unsafe fn $load_name(from: *const $ty) -> [$value; 2] {
                // SAFETY: the caller promises a CPU with these vector instructions, and that the
                // numbers can be accessed.
                let $both(re, im) = unsafe { $load(from) };
                [re, im]
            }

            /// # Safety
            /// As [`Lanes::store_pairs`].
            #[inline(always)]
            unsafe fn $store_name(to: *mut $ty, [re, im]: [$value; 2]) {
                // SAFETY: the caller promises a CPU with these vector instructions, and that the
                // numbers can be accessed.
                unsafe { $store(to, $both(re, im)) }
            }
        )*};
    }

    pairs! {
        load_4 store_4 f32 float32x4_t float32x4x2_t vld2q_f32 vst2q_f32
        load_2 store_2 f64 float64x2_t float64x2x2_t vld2q_f64 vst2q_f64
    }

    /// An instruction on pairs of 32-bit numbers.
    macro_rules! as_64 {
        ($shuffle:ident $a:ident $b:ident) => {
            vreinterpretq_f32_f64($shuffle(
                vreinterpretq_f64_f32($a),
                vreinterpretq_f64_f32($b),
            ))
        };
    }

    transpose! {
        transpose_4 f32 float32x4_t 4 vld1q_f32 vst1q_f32 same;
        1 |a, b| vtrn1q_f32(a, b), vtrn2q_f32(a, b);
        2 |a, b| as_64!(vtrn1q_f64 a b), as_64!(vtrn2q_f64 a b)
    }
    transpose! {
        transpose_2 f64 float64x2_t 2 vld1q_f64 vst1q_f64 same;
        1 |a, b| vtrn1q_f64(a, b), vtrn2q_f64(a, b)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) use crate::vectors::Portable;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl<R> Lanes<R> for Portable
where
    R: Copy + core::ops::Add<Output = R> + core::ops::Sub<Output = R> + core::ops::Mul<Output = R>,
{
    unsafe fn add(a: R, b: R) -> R {
        a + b
    }
    unsafe fn sub(a: R, b: R) -> R {
        a - b
    }
    unsafe fn mul(a: R, b: R) -> R {
        a * b
    }
    unsafe fn load_pairs(from: *const R) -> [R; 2] {
        // SAFETY: the caller promises that the numbers can be accessed.
        unsafe { [from.read(), from.add(1).read()] }
    }
    unsafe fn store_pairs(to: *mut R, [re, im]: [R; 2]) {
        // SAFETY: the caller promises that the numbers can be accessed.
        unsafe {
            to.write(re);
            to.add(1).write(im);
        }
    }
    unsafe fn transpose(from: *const R, _: usize, to: *mut R, _: usize) {
        // SAFETY: the caller promises that the numbers can be accessed.
        unsafe { to.write(from.read()) }
    }
}
