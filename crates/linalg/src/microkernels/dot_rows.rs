//! Dot products along the rows of a matrix, read in place: for products whose left operand has few
//! rows and whose right one is contiguous along the depth.
//!
//! Each of a few columns is multiplied by each of a few rows; every pair has accumulator vectors of
//! its own, whose lanes are added at the end.

#[cfg(any(target_arch = "aarch64", feature = "std"))]
mod neon;

use super::{CpuFeatures, VectorWidth};
use half::{bf16, f16};
use tegula_ir::ElementType;

/// The maximum number of rows of the left operand that are used together.
pub(crate) const MAX_ROWS: usize = 4;
/// Columns that are computed together.
pub(crate) const COLUMNS: usize = 4;

/// A product of some rows and some columns.
pub(crate) struct Dots<'a> {
    /// 1 to [`MAX_ROWS`] rows of `depth` numbers of the sums' type.
    pub(crate) rows: &'a [*const u8],
    pub(crate) depth: usize,
    /// The right operand; column offsets count from here, in elements.
    pub(crate) rhs: *const u8,
    /// The offsets of the columns.
    pub(crate) columns: &'a [isize],
    /// The sums: those of a row are contiguous.
    pub(crate) sums: *mut u8,
    /// The distance between rows of sums.
    pub(crate) stride: usize,
    /// Whether columns are read one after the other rather than side by side.
    pub(crate) sequential: bool,
}

/// Computes dot products.
///
/// # Safety
/// Every row and column has `depth` elements that can be read, the sums can be written, and the CPU
/// has the features that the function was compiled for.
pub(crate) type DotsFn = unsafe fn(&Dots<'_>);

/// The function for a right operand of this type. The left operand and the sums are f64 if it is
/// f64, otherwise f32.
#[inline(always)]
pub(crate) fn dots_function(isa: CpuFeatures, rhs: ElementType) -> Option<DotsFn> {
    #[cfg(target_arch = "x86_64")]
    if isa.width == VectorWidth::Avx512 {
        match rhs {
            ElementType::F32 => return Some(avx512::dots::<avx512::F32>),
            ElementType::F64 => return Some(avx512::dots::<avx512::F64>),
            ElementType::BF16 => return Some(avx512::dots::<avx512::Bf16>),
            ElementType::F16 => return Some(avx512::dots::<avx512::F16>),
            _ => {}
        }
    }
    #[cfg(target_arch = "x86_64")]
    if isa.width == VectorWidth::Avx2 {
        match rhs {
            ElementType::F32 => return Some(avx2::dots::<avx2::F32>),
            ElementType::F64 => return Some(avx2::dots::<avx2::F64>),
            ElementType::BF16 => return Some(avx2::dots::<avx2::Bf16>),
            _ => {}
        }
    }
    #[cfg(any(target_arch = "aarch64", feature = "std"))]
    if isa.width == VectorWidth::Neon {
        return neon::function(rhs);
    }
    let _ = (isa, VectorWidth::Portable);
    match rhs {
        ElementType::F32 => Some(portable::<f32, f32>),
        ElementType::F64 => Some(portable::<f64, f64>),
        ElementType::BF16 => Some(portable::<bf16, f32>),
        ElementType::F16 => Some(portable::<f16, f32>),
        _ => None,
    }
}

/// # Safety
/// As [`DotsFn`].
unsafe fn portable<S, T>(dots: &Dots<'_>)
where
    S: Copy + super::pack::Convert<T>,
    T: Copy + Default + core::ops::Add<Output = T> + core::ops::Mul<Output = T>,
{
    const LANES: usize = 16;
    let rhs = dots.rhs.cast::<S>();
    for (row, left) in dots.rows.iter().enumerate() {
        for (i, &column) in dots.columns.iter().enumerate() {
            // SAFETY: the caller promises that every row and column has `depth` elements that can
            // be read, and that the sums can be written.
            unsafe {
                let left = core::slice::from_raw_parts(left.cast::<T>(), dots.depth);
                let right = core::slice::from_raw_parts(rhs.offset(column), dots.depth);
                let mut sums = [T::default(); LANES];
                let (left, left_rest) = left.as_chunks::<LANES>();
                let (right, right_rest) = right.as_chunks::<LANES>();
                for (left, right) in left.iter().zip(right) {
                    let products: [T; LANES] =
                        core::array::from_fn(|i| left[i] * right[i].convert());
                    sums = core::array::from_fn(|i| sums[i] + products[i]);
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

/// Vectors of an element type, converted to the type in which sums are computed.
#[cfg(target_arch = "x86_64")]
trait Vector {
    type Element;
    type Number: Copy;
    type Numbers: Copy;
    const LANES: usize;
    /// # Safety
    /// The CPU has the type's instructions.
    unsafe fn zero() -> Self::Numbers;
    /// # Safety
    /// The elements of the mask can be read; the CPU has the type's instructions.
    unsafe fn load(from: *const Self::Element, mask: u16) -> Self::Numbers;
    /// # Safety
    /// The numbers of the mask can be read; the CPU has the type's instructions.
    unsafe fn numbers(from: *const Self::Number, mask: u16) -> Self::Numbers;
    /// # Safety
    /// The CPU has the type's instructions.
    unsafe fn multiply_add(a: Self::Numbers, b: Self::Numbers, c: Self::Numbers) -> Self::Numbers;
    /// # Safety
    /// The CPU has the type's instructions.
    unsafe fn sum(a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    /// The horizontal sum of the lanes.
    ///
    /// # Safety
    /// The CPU has the type's instructions.
    unsafe fn total(a: Self::Numbers) -> Self::Number;
    /// The horizontal sums of [`COLUMNS`] vectors, computed together: this takes a third of the
    /// instructions of computing one after the other.
    ///
    /// # Safety
    /// [`COLUMNS`] numbers can be written; the CPU has the type's instructions.
    unsafe fn totals(sums: [Self::Numbers; COLUMNS], to: *mut Self::Number);
}

/// The vectors of the element types, for one instruction set.
#[cfg(target_arch = "x86_64")]
macro_rules! vectors {
    ($features:literal; $($name:ident, $element:ty, $number:ty, $numbers:ty, $lanes:literal,
       $zero:expr, $load:expr, $own:expr, $multiply_add:expr, $sum:expr, $total:expr,
       $totals:ident;)*) => {$(
        pub(super) struct $name;
        impl Vector for $name {
            type Element = $element;
            type Number = $number;
            type Numbers = $numbers;
            const LANES: usize = $lanes;
            #[target_feature(enable = $features)]
            unsafe fn zero() -> $numbers {
                $zero
            }
            #[target_feature(enable = $features)]
            unsafe fn load(from: *const $element, mask: u16) -> $numbers {
                // SAFETY: the caller promises that the elements of the mask can be read, and that
                // the CPU has the instructions.
                unsafe { $load(mask, from) }
            }
            #[target_feature(enable = $features)]
            unsafe fn numbers(from: *const $number, mask: u16) -> $numbers {
                // SAFETY: the caller promises that the elements of the mask can be read, and that
                // the CPU has the instructions.
                unsafe { $own(mask, from) }
            }
            #[target_feature(enable = $features)]
            unsafe fn multiply_add(a: $numbers, b: $numbers, c: $numbers) -> $numbers {
                $multiply_add(a, b, c)
            }
            #[target_feature(enable = $features)]
            unsafe fn sum(a: $numbers, b: $numbers) -> $numbers {
                $sum(a, b)
            }
            #[target_feature(enable = $features)]
            unsafe fn total(a: $numbers) -> $number {
                $total(a)
            }
            #[target_feature(enable = $features)]
            unsafe fn totals(sums: [$numbers; COLUMNS], to: *mut $number) {
                // SAFETY: the caller promises room for the totals.
                unsafe { $totals(sums, to) };
            }
        }
    )*};
}

/// The dot products for one instruction set: its features, and the number of rows whose sums with
/// [`COLUMNS`] columns fit the registers.
#[cfg(target_arch = "x86_64")]
macro_rules! dots_in_registers {
    ($features:literal, $rows:literal) => {
        /// # Safety
        /// As [`super::DotsFn`], on a CPU with these features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn dots<V: Vector>(dots: &Dots<'_>) {
            for row in (0..dots.rows.len()).step_by($rows) {
                let rows = (dots.rows.len() - row).min($rows);
                // SAFETY: the caller promises that every row and column has `depth` elements that
                // can be read, and that the sums can be written, and a CPU with these features.
                unsafe {
                    let columns = dots.columns.len();
                    let whole = columns - columns % COLUMNS;
                    for column in (0..whole).step_by(COLUMNS) {
                        match rows {
                            1 if dots.sequential => in_turn::<V>(dots, row, column),
                            1 => tile::<V, 1, COLUMNS, 2>(dots, row, column),
                            2 => tile::<V, 2, COLUMNS, 1>(dots, row, column),
                            3 => tile::<V, 3, COLUMNS, 1>(dots, row, column),
                            _ => tile::<V, 4, COLUMNS, 1>(dots, row, column),
                        }
                    }
                    for column in whole..columns {
                        match rows {
                            1 => tile::<V, 1, 1, 2>(dots, row, column),
                            2 => tile::<V, 2, 1, 2>(dots, row, column),
                            3 => tile::<V, 3, 1, 2>(dots, row, column),
                            _ => tile::<V, 4, 1, 2>(dots, row, column),
                        }
                    }
                }
            }
        }

        /// Multiplies a row by [`COLUMNS`] columns from `start` on, one after the other.
        ///
        /// # Safety
        /// As [`dots`]; this row and these columns exist.
        #[target_feature(enable = $features)]
        unsafe fn in_turn<V: Vector>(dots: &Dots<'_>, row: usize, start: usize) {
            /// Vectors processed together, with independent sums.
            const U: usize = 4;
            // SAFETY: the caller promises that every row and column has `depth` elements that can
            // be read, and that the sums can be written; masks select only elements below `depth`.
            unsafe {
                let lhs: *const V::Number = dots.rows.get_unchecked(row).cast();
                let mut sums = [V::zero(); COLUMNS];
                for (n, sum) in sums.iter_mut().enumerate() {
                    let column = *dots.columns.get_unchecked(start + n);
                    let rhs = dots.rhs.cast::<V::Element>().offset(column);
                    let mut parts = [V::zero(); U];
                    let mut step = |at: usize, u: usize, mask: u16| {
                        let (left, right) =
                            (V::numbers(lhs.add(at), mask), V::load(rhs.add(at), mask));
                        parts[u] = V::multiply_add(left, right, parts[u]);
                    };
                    let all = ((1u32 << V::LANES) - 1) as u16;
                    let mut at = 0;
                    while at + U * V::LANES <= dots.depth {
                        for u in 0..U {
                            step(at + u * V::LANES, u, all);
                        }
                        at += U * V::LANES;
                    }
                    while at < dots.depth {
                        let rest = (dots.depth - at).min(V::LANES);
                        step(at, 0, ((1u32 << rest) - 1) as u16);
                        at += rest;
                    }
                    let [a, b, c, d] = parts;
                    *sum = V::sum(V::sum(a, b), V::sum(c, d));
                }
                let place = row * dots.stride + start;
                V::totals(sums, dots.sums.cast::<V::Number>().add(place));
            }
        }

        /// Multiplies `M` rows from `first` on by `N` columns from `start` on, `U` vectors of each
        /// at a time.
        ///
        /// # Safety
        /// As [`dots`]; these rows and columns exist.
        #[target_feature(enable = $features)]
        unsafe fn tile<V: Vector, const M: usize, const N: usize, const U: usize>(
            dots: &Dots<'_>,
            first: usize,
            start: usize,
        ) {
            let depth = dots.depth;
            // SAFETY: the caller promises that every row and column has `depth` elements that can
            // be read, and that the sums can be written; masks select only elements below `depth`.
            unsafe {
                let lhs: [*const V::Number; M] =
                    core::array::from_fn(|m| dots.rows.get_unchecked(first + m).cast());
                let rhs: [*const V::Element; N] = core::array::from_fn(|n| {
                    dots.rhs
                        .cast::<V::Element>()
                        .offset(dots.columns[start + n])
                });
                // With several rows there is time to prefetch the next columns, whose rows are too
                // short for the hardware prefetcher.
                let ahead = match dots.columns {
                    [start, .., end] if M > 2 && N > 1 => {
                        (end - start) / (dots.columns.len() as isize - 1) * COLUMNS as isize
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
                    let left: [_; M] = core::array::from_fn(|m| V::numbers(lhs[m].add(at), mask));
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
                    let row = (first + m) * dots.stride + start;
                    let row = dots.sums.cast::<V::Number>().add(row);
                    let all = |sum: &[V::Numbers; U]| match U {
                        1 => sum[0],
                        _ => V::sum(sum[0], sum[U - 1]),
                    };
                    if let Ok(sums) = <&[[_; U]; COLUMNS]>::try_from(&sums[..]) {
                        V::totals(core::array::from_fn(|n| all(&sums[n])), row);
                        continue;
                    }
                    for (n, sum) in sums.iter().enumerate() {
                        *row.add(n) = V::total(all(sum));
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{COLUMNS, Dots, Vector};
    use core::arch::x86_64::*;
    /// The horizontal sums of four vectors.
    ///
    /// # Safety
    /// Four numbers can be written; AVX-512 F.
    #[target_feature(enable = "avx512f")]
    unsafe fn totals_f32([a, b, c, d]: [__m512; COLUMNS], to: *mut f32) {
        let pairs = |a, b| _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let (ab, cd) = (pairs(a, b), pairs(c, d));
        // Each 128-bit quarter has a partial sum of each of the four vectors.
        let low = _mm512_shuffle_ps::<0b01_00_01_00>(ab, cd);
        let quarters = _mm512_add_ps(low, _mm512_shuffle_ps::<0b11_10_11_10>(ab, cd));
        let upper = _mm512_shuffle_f32x4::<0b11_10_11_10>(quarters, quarters);
        let halves = _mm512_castps512_ps256(_mm512_add_ps(quarters, upper));
        let upper = _mm256_extractf128_ps::<1>(halves);
        // SAFETY: the caller promises: four numbers can be written; AVX-512 F.
        unsafe { _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(halves), upper)) };
    }

    /// The horizontal sums of four vectors.
    ///
    /// # Safety
    /// Four numbers can be written; AVX-512 F.
    #[target_feature(enable = "avx512f")]
    unsafe fn totals_f64([a, b, c, d]: [__m512d; COLUMNS], to: *mut f64) {
        let pairs = |a, b| _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
        let (ab, cd) = (pairs(a, b), pairs(c, d));
        // The first two quarters of both vectors, and the last two.
        let low = _mm512_shuffle_f64x2::<0b01_00_01_00>(ab, cd);
        let both = _mm512_add_pd(low, _mm512_shuffle_f64x2::<0b11_10_11_10>(ab, cd));
        let first = _mm512_shuffle_f64x2::<0b10_00_10_00>(both, both);
        let sums = _mm512_add_pd(first, _mm512_shuffle_f64x2::<0b11_01_11_01>(both, both));
        // SAFETY: the caller promises: four numbers can be written; AVX-512 F.
        unsafe { _mm256_storeu_pd(to, _mm512_castpd512_pd256(sums)) };
    }

    vectors! {
        "avx512f,avx512bw,avx512vl";
        F32, f32, f32, __m512, 16, _mm512_setzero_ps(),
            |m, p| _mm512_maskz_loadu_ps(m, p), |m, p| _mm512_maskz_loadu_ps(m, p),
            |a, b, c| _mm512_fmadd_ps(a, b, c),
            |a, b| _mm512_add_ps(a, b), |a| _mm512_reduce_add_ps(a), totals_f32;
        Bf16, i16, f32, __m512, 16, _mm512_setzero_ps(),
            |m, p| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(
                _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)))),
            |m, p| _mm512_maskz_loadu_ps(m, p),
            |a, b, c| _mm512_fmadd_ps(a, b, c),
            |a, b| _mm512_add_ps(a, b), |a| _mm512_reduce_add_ps(a), totals_f32;
        F16, i16, f32, __m512, 16, _mm512_setzero_ps(),
            |m, p| _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p)),
            |m, p| _mm512_maskz_loadu_ps(m, p),
            |a, b, c| _mm512_fmadd_ps(a, b, c),
            |a, b| _mm512_add_ps(a, b), |a| _mm512_reduce_add_ps(a), totals_f32;
        F64, f64, f64, __m512d, 8, _mm512_setzero_pd(),
            |m, p| _mm512_maskz_loadu_pd(m as u8, p), |m, p| _mm512_maskz_loadu_pd(m as u8, p),
            |a, b, c| _mm512_fmadd_pd(a, b, c),
            |a, b| _mm512_add_pd(a, b), |a| _mm512_reduce_add_pd(a), totals_f64;
    }

    dots_in_registers!("avx512f,avx512bw,avx512vl", 4);
}

/// AVX2: a mask selects as many first lanes as it has bits set.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{COLUMNS, Dots, Vector};
    use core::arch::x86_64::*;
    /// The 32-bit lanes that the mask selects.
    #[target_feature(enable = "avx2,fma")]
    fn lanes(mask: u16) -> __m256i {
        let count = _mm256_set1_epi32(mask.count_ones().cast_signed());
        _mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
    }

    /// The 64-bit lanes that the mask selects.
    #[target_feature(enable = "avx2,fma")]
    fn wide_lanes(mask: u16) -> __m256i {
        let count = _mm256_set1_epi64x(i64::from(mask.count_ones()));
        _mm256_cmpgt_epi64(count, _mm256_setr_epi64x(0, 1, 2, 3))
    }

    /// # Safety
    /// The numbers of the mask can be read; AVX2.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load_f32(mask: u16, from: *const f32) -> __m256 {
        // SAFETY: the caller promises: the numbers of the mask can be read; AVX2.
        unsafe {
            match mask {
                0xff => _mm256_loadu_ps(from),
                _ => _mm256_maskload_ps(from, lanes(mask)),
            }
        }
    }

    /// # Safety
    /// The numbers of the mask can be read; AVX2.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load_f64(mask: u16, from: *const f64) -> __m256d {
        // SAFETY: the caller promises: the numbers of the mask can be read; AVX2.
        unsafe {
            match mask {
                0xf => _mm256_loadu_pd(from),
                _ => _mm256_maskload_pd(from, wide_lanes(mask)),
            }
        }
    }

    /// # Safety
    /// The elements of the mask can be read; AVX2.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn load_bf16(mask: u16, from: *const i16) -> __m256 {
        // SAFETY: the caller promises: the elements of the mask can be read; AVX2; there is room
        // for eight elements.
        let bits = unsafe {
            match mask {
                0xff => _mm_loadu_si128(from.cast()),
                _ => {
                    let mut some = [0i16; 8];
                    let count = mask.count_ones() as usize;
                    core::ptr::copy_nonoverlapping(from, some.as_mut_ptr(), count.min(8));
                    _mm_loadu_si128(some.as_ptr().cast())
                }
            }
        };
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
    }

    /// The horizontal sums of four vectors.
    #[target_feature(enable = "avx2,fma")]
    fn sums_f32([a, b, c, d]: [__m256; COLUMNS]) -> __m128 {
        let halves = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
        let upper = _mm256_extractf128_ps::<1>(halves);
        _mm_add_ps(_mm256_castps256_ps128(halves), upper)
    }

    /// The horizontal sums of four vectors.
    #[target_feature(enable = "avx2,fma")]
    fn sums_f64([a, b, c, d]: [__m256d; COLUMNS]) -> __m256d {
        let (ab, cd) = (_mm256_hadd_pd(a, b), _mm256_hadd_pd(c, d));
        let lower = _mm256_permute2f128_pd::<0x20>(ab, cd);
        _mm256_add_pd(lower, _mm256_permute2f128_pd::<0x31>(ab, cd))
    }

    /// # Safety
    /// Four numbers can be written; AVX2.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn totals_f32(sums: [__m256; COLUMNS], to: *mut f32) {
        // SAFETY: the caller promises: four numbers can be written; AVX2.
        unsafe { _mm_storeu_ps(to, sums_f32(sums)) };
    }

    /// # Safety
    /// Four numbers can be written; AVX2.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn totals_f64(sums: [__m256d; COLUMNS], to: *mut f64) {
        // SAFETY: the caller promises: four numbers can be written; AVX2.
        unsafe { _mm256_storeu_pd(to, sums_f64(sums)) };
    }

    vectors! {
        "avx2,fma";
        F32, f32, f32, __m256, 8, _mm256_setzero_ps(),
            |m, p| load_f32(m, p), |m, p| load_f32(m, p),
            |a, b, c| _mm256_fmadd_ps(a, b, c),
            |a, b| _mm256_add_ps(a, b), |a| _mm_cvtss_f32(sums_f32([a; COLUMNS])), totals_f32;
        Bf16, i16, f32, __m256, 8, _mm256_setzero_ps(),
            |m, p| load_bf16(m, p), |m, p| load_f32(m, p),
            |a, b, c| _mm256_fmadd_ps(a, b, c),
            |a, b| _mm256_add_ps(a, b), |a| _mm_cvtss_f32(sums_f32([a; COLUMNS])), totals_f32;
        F64, f64, f64, __m256d, 4, _mm256_setzero_pd(),
            |m, p| load_f64(m, p), |m, p| load_f64(m, p),
            |a, b, c| _mm256_fmadd_pd(a, b, c),
            |a, b| _mm256_add_pd(a, b), |a| _mm256_cvtsd_f64(sums_f64([a; COLUMNS])), totals_f64;
    }

    dots_in_registers!("avx2,fma", 2);
}
