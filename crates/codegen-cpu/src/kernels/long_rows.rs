//! One row times a matrix that no cache holds, along the matrix's rows: several of them are
//! multiplied by a number each and added to the result, which stays near. So memory is read
//! from few places, in order, where panels of columns would come back to each of its pages
//! many times over.

use super::Isa;

/// Rows of the matrix that are read side by side.
const ROWS: usize = 8;

/// One row times a matrix.
pub(crate) struct LongRows {
    /// The row's first number, and from one to the next in numbers.
    pub(crate) row: *const f32,
    pub(crate) step: isize,
    /// The matrix's first number, and from one of its rows to the next in numbers.
    pub(crate) matrix: *const f32,
    pub(crate) stride: isize,
    pub(crate) depth: usize,
    /// Numbers of the result, and of a row of the matrix.
    pub(crate) columns: usize,
    pub(crate) out: *mut f32,
    /// Whether the product is added to what the result holds.
    pub(crate) add: bool,
}

/// Computes the product.
///
/// # Safety
/// Every number of the operands can be read and every one of the result written, the result
/// overlaps neither operand, and the CPU has what the function was made for.
pub(crate) type LongRowsFn = unsafe fn(&LongRows);

/// The function for products of `f32`, if the instructions have one.
pub(crate) fn long_rows_function(isa: Isa) -> Option<LongRowsFn> {
    #[cfg(target_arch = "x86_64")]
    match isa.width {
        super::Width::Avx512 => return Some(avx512::long_rows),
        super::Width::Avx2 => return Some(avx2::long_rows),
        super::Width::Portable => {}
    }
    let _ = (isa, ROWS);
    None
}

/// A module with the product of one kind of vector: its lanes, and how it is made zero, made of
/// one number, loaded, stored, multiplied and added, and loaded and stored in part.
#[cfg(target_arch = "x86_64")]
macro_rules! long_rows {
    (
        $module:ident, $features:literal, $lanes:literal, $zero:ident, $splat:ident,
        $load:ident, $store:ident, $multiply_add:ident, $mask:expr, $read:expr, $write:expr
    ) => {
        mod $module {
            use super::{LongRows, ROWS};
            use std::arch::x86_64::*;

            /// Lanes of a vector.
            const LANES: usize = $lanes;

            /// # Safety
            /// As [`super::LongRowsFn`], on a CPU with these features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn long_rows(product: &LongRows) {
                let mut at = 0;
                // SAFETY: the caller's promise; rows below `depth` alone are asked for.
                unsafe {
                    while at + ROWS <= product.depth {
                        rows::<ROWS>(product, at);
                        at += ROWS;
                    }
                    while at < product.depth {
                        rows::<1>(product, at);
                        at += 1;
                    }
                }
            }

            /// Adds `R` rows of the matrix from one on; the first ones are the result so far.
            ///
            /// # Safety
            /// As [`long_rows`]; there are so many rows.
            #[target_feature(enable = $features)]
            unsafe fn rows<const R: usize>(product: &LongRows, at: usize) {
                let fresh = at == 0 && !product.add;
                // SAFETY: the caller's promise; masks have the columns that there are alone.
                unsafe {
                    let factors: [_; R] = std::array::from_fn(|r| {
                        $splat(*product.row.offset((at + r) as isize * product.step))
                    });
                    let rows: [_; R] = std::array::from_fn(|r| {
                        product.matrix.offset((at + r) as isize * product.stride)
                    });
                    let mut column = 0;
                    // Two vectors at a time: one at a time took as long as panels do.
                    while column + 2 * LANES <= product.columns {
                        let place = product.out.add(column);
                        let mut sums = match fresh {
                            true => [$zero(); 2],
                            false => [$load(place), $load(place.add(LANES))],
                        };
                        for (&factor, row) in factors.iter().zip(&rows) {
                            let from = row.add(column);
                            sums[0] = $multiply_add(factor, $load(from), sums[0]);
                            sums[1] = $multiply_add(factor, $load(from.add(LANES)), sums[1]);
                        }
                        $store(place, sums[0]);
                        $store(place.add(LANES), sums[1]);
                        column += 2 * LANES;
                    }
                    while column < product.columns {
                        let left = (product.columns - column).min(LANES);
                        let mask = $mask(left);
                        let place = product.out.add(column);
                        let mut sum = match fresh {
                            true => $zero(),
                            false => $read(place, mask),
                        };
                        for (&factor, row) in factors.iter().zip(&rows) {
                            let numbers = $read(row.add(column), mask);
                            sum = $multiply_add(factor, numbers, sum);
                        }
                        $write(place, mask, sum);
                        column += left;
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
long_rows!(
    avx512,
    "avx512f",
    16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    |left: usize| ((1u32 << left) - 1) as __mmask16,
    |p, mask| _mm512_maskz_loadu_ps(mask, p),
    |p, mask, x| _mm512_mask_storeu_ps(p, mask, x)
);
#[cfg(target_arch = "x86_64")]
long_rows!(
    avx2,
    "avx2,fma",
    8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    |left: usize| _mm256_cmpgt_epi32(
        _mm256_set1_epi32(left as i32),
        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
    ),
    |p, mask| _mm256_maskload_ps(p, mask),
    |p, mask, x| _mm256_maskstore_ps(p, mask, x)
);
