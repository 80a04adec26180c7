//! Dot products along the rows of a matrix as it lies in memory: what is left of a
//! product whose left operand has few rows, and whose right one is contiguous along
//! the depth.
//!
//! Each of a few columns is multiplied by each of a few rows; every such pair has
//! vectors of sums of its own, which are added at the end.

use super::{Isa, Width};
use half::{bf16, f16};
use tegula_ir::ElementType;

/// The most rows of the left operand that are used together.
pub(crate) const MAX_ROWS: usize = 4;
/// Columns that are computed together.
pub(crate) const COLUMNS: usize = 4;

/// Some rows times some columns.
pub(crate) struct Dots<'a> {
    /// Rows of `depth` numbers of the sums' type: 1 to [`MAX_ROWS`].
    pub(crate) rows: &'a [*const u8],
    pub(crate) depth: usize,
    /// The right operand, from which columns are counted in elements.
    pub(crate) rhs: *const u8,
    /// At most [`COLUMNS`].
    pub(crate) columns: &'a [isize],
    /// Where the sums go: those of a row one after the other.
    pub(crate) sums: *mut u8,
    /// From one row of sums to the next.
    pub(crate) stride: usize,
}

/// Computes dot products.
///
/// # Safety
/// Every row and column has `depth` elements that can be read, the sums can be
/// written, and the CPU has what the function was made for.
pub(crate) type DotsFn = unsafe fn(&Dots<'_>);

/// The function for a right operand of a type, whose left operand and sums are f64
/// or, for other types, f32.
pub(crate) fn dots_function(isa: Isa, rhs: ElementType) -> Option<DotsFn> {
    #[cfg(target_arch = "x86_64")]
    if isa.width == Width::Avx512 {
        match rhs {
            ElementType::F32 => return Some(avx512::dots::<avx512::F32>),
            ElementType::F64 => return Some(avx512::dots::<avx512::F64>),
            ElementType::BF16 => return Some(avx512::dots::<avx512::Bf16>),
            ElementType::F16 => return Some(avx512::dots::<avx512::F16>),
            _ => {}
        }
    }
    #[cfg(target_arch = "x86_64")]
    if isa.width == Width::Avx2 {
        match rhs {
            ElementType::F32 => return Some(avx2::<f32, f32>),
            ElementType::F64 => return Some(avx2::<f64, f64>),
            ElementType::BF16 => return Some(avx2::<bf16, f32>),
            _ => {}
        }
    }
    let _ = (isa, Width::Portable);
    match rhs {
        ElementType::F32 => Some(portable::<f32, f32>),
        ElementType::F64 => Some(portable::<f64, f64>),
        ElementType::BF16 => Some(portable::<bf16, f32>),
        ElementType::F16 => Some(portable::<f16, f32>),
        _ => None,
    }
}

/// The portable loop in wider vectors.
///
/// # Safety
/// As [`DotsFn`], on a CPU with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<S, T>(dots: &Dots<'_>)
where
    S: Copy + super::pack::Convert<T>,
    T: Copy + Default + std::ops::Add<Output = T> + std::ops::Mul<Output = T>,
{
    // SAFETY: the caller's promise.
    unsafe { portable::<S, T>(dots) };
}

/// # Safety
/// As [`DotsFn`].
#[inline(always)]
unsafe fn portable<S, T>(dots: &Dots<'_>)
where
    S: Copy + super::pack::Convert<T>,
    T: Copy + Default + std::ops::Add<Output = T> + std::ops::Mul<Output = T>,
{
    const LANES: usize = 16;
    let rhs = dots.rhs.cast::<S>();
    for (row, left) in dots.rows.iter().enumerate() {
        for (i, &column) in dots.columns.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let left = std::slice::from_raw_parts(left.cast::<T>(), dots.depth);
                let right = std::slice::from_raw_parts(rhs.offset(column), dots.depth);
                let mut sums = [T::default(); LANES];
                let (left, left_rest) = left.as_chunks::<LANES>();
                let (right, right_rest) = right.as_chunks::<LANES>();
                for (left, right) in left.iter().zip(right) {
                    let products: [T; LANES] =
                        std::array::from_fn(|i| left[i] * right[i].convert());
                    sums = std::array::from_fn(|i| sums[i] + products[i]);
                }
                for ((sum, &a), &b) in sums.iter_mut().zip(left_rest).zip(right_rest) {
                    *sum = *sum + a * b.convert();
                }
                let sum = sums.iter().fold(T::default(), |a, &b| a + b);
                *dots.sums.cast::<T>().add(row * dots.stride + i) = sum;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{COLUMNS, Dots};
    use std::arch::x86_64::*;

    /// Vectors of an element type as numbers that are summed.
    pub(super) trait Vector {
        type Element;
        type Number: Copy;
        type Numbers: Copy;
        const LANES: usize;
        /// # Safety
        /// AVX-512 F, BW and VL.
        unsafe fn zero() -> Self::Numbers;
        /// # Safety
        /// The elements of the mask can be read; AVX-512 F, BW and VL.
        unsafe fn load(from: *const Self::Element, mask: u16) -> Self::Numbers;
        /// # Safety
        /// The numbers of the mask can be read; AVX-512 F, BW and VL.
        unsafe fn numbers(from: *const Self::Number, mask: u16) -> Self::Numbers;
        /// # Safety
        /// AVX-512 F, BW and VL.
        unsafe fn multiply_add(
            a: Self::Numbers,
            b: Self::Numbers,
            c: Self::Numbers,
        ) -> Self::Numbers;
        /// The sum of the lanes of a sum.
        ///
        /// # Safety
        /// AVX-512 F, BW and VL.
        unsafe fn total(a: Self::Numbers, b: Self::Numbers) -> Self::Number;
        /// The sums of the lanes of each of [`COLUMNS`] sums, added side by side: a third
        /// of the instructions of one after the other.
        ///
        /// # Safety
        /// So many numbers can be written; AVX-512 F, BW and VL.
        unsafe fn totals(sums: [Self::Numbers; COLUMNS], to: *mut Self::Number);
    }

    /// The sums of the lanes of four vectors.
    ///
    /// # Safety
    /// Four numbers can be written; AVX-512 F.
    #[target_feature(enable = "avx512f")]
    unsafe fn totals_f32([a, b, c, d]: [__m512; COLUMNS], to: *mut f32) {
        let pairs = |a, b| _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let (ab, cd) = (pairs(a, b), pairs(c, d));
        // Each quarter has a sum for each of the four.
        let low = _mm512_shuffle_ps::<0b01_00_01_00>(ab, cd);
        let quarters = _mm512_add_ps(low, _mm512_shuffle_ps::<0b11_10_11_10>(ab, cd));
        let upper = _mm512_shuffle_f32x4::<0b11_10_11_10>(quarters, quarters);
        let halves = _mm512_castps512_ps256(_mm512_add_ps(quarters, upper));
        let upper = _mm256_extractf128_ps::<1>(halves);
        // SAFETY: the caller's promise.
        unsafe { _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(halves), upper)) };
    }

    /// The sums of the lanes of four vectors.
    ///
    /// # Safety
    /// Four numbers can be written; AVX-512 F.
    #[target_feature(enable = "avx512f")]
    unsafe fn totals_f64([a, b, c, d]: [__m512d; COLUMNS], to: *mut f64) {
        let pairs = |a, b| _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
        let (ab, cd) = (pairs(a, b), pairs(c, d));
        // The first two quarters of both, and the last two.
        let low = _mm512_shuffle_f64x2::<0b01_00_01_00>(ab, cd);
        let both = _mm512_add_pd(low, _mm512_shuffle_f64x2::<0b11_10_11_10>(ab, cd));
        let first = _mm512_shuffle_f64x2::<0b10_00_10_00>(both, both);
        let sums = _mm512_add_pd(first, _mm512_shuffle_f64x2::<0b11_01_11_01>(both, both));
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_pd(to, _mm512_castpd512_pd256(sums)) };
    }

    macro_rules! vectors {
        ($($name:ident, $element:ty, $number:ty, $numbers:ty, $lanes:literal,
           $zero:expr, $load:expr, $own:expr, $multiply_add:expr, $total:expr,
           $totals:ident;)*) => {$(
            pub(super) struct $name;
            impl Vector for $name {
                type Element = $element;
                type Number = $number;
                type Numbers = $numbers;
                const LANES: usize = $lanes;
                #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
                unsafe fn zero() -> $numbers {
                    $zero
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
                unsafe fn load(from: *const $element, mask: u16) -> $numbers {
                    // SAFETY: the caller's promise.
                    unsafe { $load(mask, from) }
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
                unsafe fn numbers(from: *const $number, mask: u16) -> $numbers {
                    // SAFETY: the caller's promise.
                    unsafe { $own(mask, from) }
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
                unsafe fn multiply_add(a: $numbers, b: $numbers, c: $numbers) -> $numbers {
                    $multiply_add(a, b, c)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
                unsafe fn total(a: $numbers, b: $numbers) -> $number {
                    $total(a, b)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
                unsafe fn totals(sums: [$numbers; COLUMNS], to: *mut $number) {
                    // SAFETY: the caller's promise.
                    unsafe { $totals(sums, to) };
                }
            }
        )*};
    }

    vectors! {
        F32, f32, f32, __m512, 16, _mm512_setzero_ps(),
            |m, p| _mm512_maskz_loadu_ps(m, p), |m, p| _mm512_maskz_loadu_ps(m, p),
            |a, b, c| _mm512_fmadd_ps(a, b, c),
            |a, b| _mm512_reduce_add_ps(_mm512_add_ps(a, b)), totals_f32;
        Bf16, i16, f32, __m512, 16, _mm512_setzero_ps(),
            |m, p| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(
                _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)))),
            |m, p| _mm512_maskz_loadu_ps(m, p),
            |a, b, c| _mm512_fmadd_ps(a, b, c),
            |a, b| _mm512_reduce_add_ps(_mm512_add_ps(a, b)), totals_f32;
        F16, i16, f32, __m512, 16, _mm512_setzero_ps(),
            |m, p| _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p)),
            |m, p| _mm512_maskz_loadu_ps(m, p),
            |a, b, c| _mm512_fmadd_ps(a, b, c),
            |a, b| _mm512_reduce_add_ps(_mm512_add_ps(a, b)), totals_f32;
        F64, f64, f64, __m512d, 8, _mm512_setzero_pd(),
            |m, p| _mm512_maskz_loadu_pd(m as u8, p), |m, p| _mm512_maskz_loadu_pd(m as u8, p),
            |a, b, c| _mm512_fmadd_pd(a, b, c),
            |a, b| _mm512_reduce_add_pd(_mm512_add_pd(a, b)), totals_f64;
    }

    /// # Safety
    /// As [`super::DotsFn`], on a CPU with AVX-512 F, BW and VL.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn dots<V: Vector>(dots: &Dots<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            match (dots.rows.len(), dots.columns.len()) {
                (1, COLUMNS) => tile::<V, 1, COLUMNS, 2>(dots, 0),
                (2, COLUMNS) => tile::<V, 2, COLUMNS, 1>(dots, 0),
                (3, COLUMNS) => tile::<V, 3, COLUMNS, 1>(dots, 0),
                (4, COLUMNS) => tile::<V, 4, COLUMNS, 1>(dots, 0),
                (rows, columns) => {
                    for column in 0..columns {
                        match rows {
                            1 => tile::<V, 1, 1, 2>(dots, column),
                            2 => tile::<V, 2, 1, 2>(dots, column),
                            3 => tile::<V, 3, 1, 2>(dots, column),
                            _ => tile::<V, 4, 1, 2>(dots, column),
                        }
                    }
                }
            }
        }
    }

    /// `M` rows times `N` columns from `start` on, `U` vectors of each at a time.
    ///
    /// # Safety
    /// As [`dots`]; there are so many rows and columns.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn tile<V: Vector, const M: usize, const N: usize, const U: usize>(
        dots: &Dots<'_>,
        start: usize,
    ) {
        let depth = dots.depth;
        // SAFETY: the caller's promise; masks have elements below `depth` alone.
        unsafe {
            let lhs: [*const V::Number; M] =
                std::array::from_fn(|m| dots.rows.get_unchecked(m).cast());
            let rhs: [*const V::Element; N] = std::array::from_fn(|n| {
                dots.rhs
                    .cast::<V::Element>()
                    .offset(dots.columns[start + n])
            });
            // With several rows there is time to fetch the next columns, whose rows are too
            // short for the CPU to foresee them.
            let ahead = match dots.columns {
                [first, .., last] if M > 2 && N > 1 => {
                    (last - first) / (dots.columns.len() as isize - 1) * COLUMNS as isize
                }
                _ => 0,
            };
            let mut sums = [[[V::zero(); U]; N]; M];
            let mut step = |at: usize, u: usize, mask: u16| {
                if M > 2 && N > 1 {
                    for right in rhs {
                        let next = right.wrapping_offset(ahead).wrapping_add(at);
                        _mm_prefetch::<_MM_HINT_T0>(next.cast());
                    }
                }
                let left: [_; M] = std::array::from_fn(|m| V::numbers(lhs[m].add(at), mask));
                for n in 0..N {
                    let right = V::load(rhs[n].add(at), mask);
                    for m in 0..M {
                        sums[m][n][u] = V::multiply_add(left[m], right, sums[m][n][u]);
                    }
                }
            };
            let all = ((1u32 << V::LANES) - 1) as u16;
            let mut at = 0;
            while at + U * V::LANES <= depth {
                for u in 0..U {
                    step(at + u * V::LANES, u, all);
                }
                at += U * V::LANES;
            }
            while at < depth {
                let rest = (depth - at).min(V::LANES);
                step(at, 0, ((1u32 << rest) - 1) as u16);
                at += rest;
            }
            for (m, sums) in sums.iter().enumerate() {
                let row = dots.sums.cast::<V::Number>().add(m * dots.stride + start);
                if let (1, Ok(sums)) = (U, <&[[_; U]; COLUMNS]>::try_from(&sums[..])) {
                    V::totals(std::array::from_fn(|n| sums[n][0]), row);
                    continue;
                }
                for (n, sum) in sums.iter().enumerate() {
                    let second = if U > 1 { sum[U - 1] } else { V::zero() };
                    *row.add(n) = V::total(sum[0], second);
                }
            }
        }
    }
}
