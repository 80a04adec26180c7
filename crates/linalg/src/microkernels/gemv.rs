//! Vector-matrix products (one row times a matrix) for matrices outside the caches, along the
//! matrix's rows: several rows at a time are scaled by one element each and added to the result,
//! which stays in a cache. Memory is thus read in order from few places, whereas panels of columns
//! would return to each memory page many times.

use super::long_rows::{LongRows, LongRowsFn, NEAR, Order};
use super::{CpuFeatures, VectorWidth};
use tegula_ir::ElementType;

/// Bytes of a page. A load waits for an earlier store with the same offset in another page.
const PAGE: usize = 4096;

/// The function for a row and a matrix of one type, if the instruction set has one.
#[inline(always)]
pub(crate) fn long_rows_function(
    isa: CpuFeatures,
    [row, matrix, out]: [ElementType; 3],
) -> Option<LongRowsFn> {
    #[cfg(any(target_arch = "aarch64", feature = "std"))]
    if isa.width == VectorWidth::Neon {
        return super::neon::gemv::function([row, matrix, out]);
    }
    #[cfg(target_arch = "x86_64")]
    match (isa.width, matrix) {
        _ if row != matrix => {}
        (VectorWidth::Avx512, ElementType::BF16 | ElementType::F16) => {
            return super::gemv_f16::function(matrix, out);
        }
        (_, ElementType::F32) if out != matrix => {}
        (VectorWidth::Avx512, ElementType::F32) => return Some(avx512::long_rows),
        (VectorWidth::Avx2, ElementType::F32) => return Some(avx2::long_rows),
        _ => {}
    }
    let _ = (isa, VectorWidth::Portable, row, matrix, out);
    None
}

/// A module with the product for one kind of vector: its number of lanes, and its operations:
/// broadcast, load, store, multiply-add, partial load and partial store.
#[cfg(target_arch = "x86_64")]
macro_rules! long_rows {
    (
        $module:ident, $features:literal, $lanes:literal, $splat:ident,
        $load:ident, $store:ident, $multiply_add:ident, $mask:expr, $read:expr, $write:expr
    ) => {
        mod $module {
            use super::{LongRows, NEAR, Order, PAGE};
            use core::arch::x86_64::*;
            use core::mem::MaybeUninit;
            /// Lanes of a vector.
            const LANES: usize = $lanes;

            /// # Safety
            /// As [`super::LongRowsFn`], on a CPU with these features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn long_rows(product: &LongRows) {
                // SAFETY: the caller promises that every element of the operands can be read and
                // every element of the result written, and that the result and the sums overlap
                // nothing, and a CPU with these features.
                unsafe {
                    match product.order {
                        Order::Sequential => near(product, NEAR, 0, through::<1, 4>),
                        Order::Pages => near(product, PAGE / 4, PAGE / 2, through::<6, 2>),
                        Order::Eight => through::<8, 2>(product),
                        Order::Sixteen => through::<16, 2>(product),
                    }
                }
            }

            /// Multiplies in chunks of columns. The sums of a chunk are in separate memory, at a
            /// given distance from the position in its page at which the chunk begins: vectors that
            /// are loaded ahead never have the page offset of those that are stored.
            ///
            /// # Safety
            /// As [`long_rows`](fn@long_rows).
            #[target_feature(enable = $features)]
            unsafe fn near(
                product: &LongRows,
                most: usize,
                apart: usize,
                through: super::LongRowsFn,
            ) {
                let mut memory = MaybeUninit::<[f32; NEAR + PAGE / 4]>::uninit();
                let memory = memory.as_mut_ptr().cast::<f32>();
                for start in (0..product.columns).step_by(most.min(NEAR)) {
                    let matrix = product.matrix.wrapping_add(4 * start);
                    let ahead = (matrix.addr() + apart).wrapping_sub(memory.addr()) % PAGE;
                    let sums = memory.wrapping_byte_add(ahead);
                    let part = LongRows {
                        matrix,
                        columns: most.min(NEAR).min(product.columns - start),
                        out: sums.cast(),
                        add: false,
                        ..*product
                    };
                    // SAFETY: the caller promises that every element of the operands can be read
                    // and every element of the result written, and that the result and the sums
                    // overlap nothing; the memory has room for the sums, which start less than a
                    // page after its beginning.
                    unsafe {
                        through(&part);
                        let out = product.out.cast::<f32>().add(start);
                        for i in 0..part.columns {
                            let (out, sum) = (out.add(i), *sums.add(i));
                            *out = if product.add { *out + sum } else { sum };
                        }
                    }
                }
            }

            /// Processes `R` rows at a time, `V` vectors of each.
            ///
            /// # Safety
            /// As [`long_rows`](fn@long_rows).
            #[target_feature(enable = $features)]
            unsafe fn through<const R: usize, const V: usize>(product: &LongRows) {
                let mut at = 0;
                // SAFETY: the caller promises that every element of the operands can be read and
                // every element of the result written, and that the result and the sums overlap
                // nothing; only rows below `depth` are used.
                unsafe {
                    if !product.add {
                        product.out.cast::<f32>().write_bytes(0, product.columns);
                    }
                    while at + R <= product.depth {
                        rows::<R, V>(product, at);
                        at += R;
                    }
                    while R > 1 && at < product.depth {
                        rows::<1, V>(product, at);
                        at += 1;
                    }
                }
            }

            /// Adds the products with `R` rows of the matrix, from row `at` on, to the result so
            /// far.
            ///
            /// # Safety
            /// As [`long_rows`](fn@long_rows); the matrix has these rows.
            #[target_feature(enable = $features)]
            unsafe fn rows<const R: usize, const V: usize>(product: &LongRows, at: usize) {
                // SAFETY: the caller promises that every element of the operands can be read and
                // every element of the result written, and that the result and the sums overlap
                // nothing; masks select only existing columns.
                unsafe {
                    let out = product.out.cast::<f32>();
                    let (row, matrix) = (product.row.cast::<f32>(), product.matrix.cast::<f32>());
                    let factors: [_; R] = core::array::from_fn(|r| {
                        $splat(*row.offset((at + r) as isize * product.step))
                    });
                    let rows: [_; R] =
                        core::array::from_fn(|r| matrix.offset((at + r) as isize * product.stride));
                    let part = |column: usize, count: usize| {
                        let mask = $mask(count);
                        let place = out.add(column);
                        let mut sum = $read(place, mask);
                        for (&factor, row) in factors.iter().zip(&rows) {
                            let numbers = $read(row.add(column), mask);
                            sum = $multiply_add(factor, numbers, sum);
                        }
                        $write(place, mask, sum);
                    };
                    let mut column = 0;
                    // From here on the vectors of one row, or of all rows, are aligned.
                    let lead = rows[0].align_offset(4 * LANES).min(product.columns);
                    if lead > 0 && (R == 1 || product.stride % LANES as isize == 0) {
                        part(0, lead);
                        column = lead;
                    }
                    while column + V * LANES <= product.columns {
                        let place = out.add(column);
                        let mut sums: [_; V] =
                            core::array::from_fn(|v| $load(place.add(v * LANES)));
                        for (&factor, row) in factors.iter().zip(&rows) {
                            let from = row.add(column);
                            for (v, sum) in sums.iter_mut().enumerate() {
                                let numbers = $load(from.add(v * LANES));
                                *sum = $multiply_add(factor, numbers, *sum);
                            }
                        }
                        for (v, &sum) in sums.iter().enumerate() {
                            $store(place.add(v * LANES), sum);
                        }
                        column += V * LANES;
                    }
                    while column < product.columns {
                        let count = (product.columns - column).min(LANES);
                        part(column, count);
                        column += count;
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

#[cfg(test)]
mod tests {
    use super::super::long_rows::sums_bytes;
    use super::{LongRows, Order, long_rows_function};
    use crate::microkernels::CpuFeatures;
    use half::{bf16, f16};
    use tegula_ir::ElementType;
    use tegula_target::IsaLevel;
    /// A type of the operands or the result.
    trait Number: Copy {
        const TYPE: ElementType;
        fn of(x: f32) -> Self;
        fn value(self) -> f32;
    }

    impl Number for f32 {
        const TYPE: ElementType = ElementType::F32;
        fn of(x: f32) -> Self {
            x
        }
        fn value(self) -> f32 {
            self
        }
    }

    impl Number for bf16 {
        const TYPE: ElementType = ElementType::BF16;
        fn of(x: f32) -> Self {
            Self::from_f32(x)
        }
        fn value(self) -> f32 {
            self.to_f32()
        }
    }

    impl Number for f16 {
        const TYPE: ElementType = ElementType::F16;
        fn of(x: f32) -> Self {
            Self::from_f32(x)
        }
        fn value(self) -> f32 {
            self.to_f32()
        }
    }

    /// Small dyadic numbers, exact in all the types.
    fn numbers<T: Number>(count: usize, seed: usize) -> Vec<T> {
        let number = |i: usize| T::of(((i * 7919 + seed * 31) % 15) as f32 / 4.0 - 1.75);
        (0..count).map(number).collect()
    }

    /// Tests rows times matrices whose first element, stride and columns are not multiples of a
    /// vector, or are all multiples of a page.
    fn check<T: Number, O: Number>(isa: CpuFeatures) {
        let Some(function) = long_rows_function(isa, [T::TYPE, T::TYPE, O::TYPE]) else {
            return;
        };
        let shapes = [
            (1, 1, 0, 1),
            (7, 33, 3, 1),
            (19, 1024, 0, 0),
            (18, 1203, 8, 5),
            (41, 3072, 2, 0),
        ];
        let orders = [
            Order::Sequential,
            Order::Pages,
            Order::Eight,
            Order::Sixteen,
        ];
        for (depth, columns, lead, more) in shapes {
            let stride = columns + more;
            let row: Vec<T> = numbers(2 * depth, 1);
            let mut matrix = vec![T::of(f32::NAN); lead];
            matrix.extend(numbers::<T>(stride * depth, 2));
            for (order, add) in orders.into_iter().flat_map(|o| [(o, false), (o, true)]) {
                let before = if add { 1.5 } else { f32::NAN };
                let mut out = vec![O::of(before); columns + 1];
                let mut sums =
                    vec![[0u64; 8]; sums_bytes(T::TYPE.storage_bytes(), columns) / 64 + 1];
                let product = LongRows {
                    row: row.as_ptr().cast(),
                    step: 2,
                    matrix: matrix[lead..].as_ptr().cast(),
                    stride: stride as isize,
                    depth,
                    columns,
                    out: out.as_mut_ptr().cast(),
                    sums: sums.as_mut_ptr().cast(),
                    add,
                    order,
                };
                // SAFETY: the vectors have this many elements; sums need no alignment for
                // correctness.
                unsafe { function(&product) };
                for (j, &out) in out.iter().enumerate() {
                    let term =
                        |d: usize| row[2 * d].value() * matrix[lead + d * stride + j].value();
                    let expected = match (j < columns, add) {
                        (true, true) => (0..depth).map(term).sum::<f32>() + before,
                        (true, false) => (0..depth).map(term).sum(),
                        (false, _) => before,
                    };
                    let (got, expected) = (out.value(), O::of(expected).value());
                    let same = got == expected || got.is_nan() && expected.is_nan();
                    let types = [T::TYPE, O::TYPE];
                    assert!(same, "{types:?} {order:?} {depth}x{columns} at {j}");
                }
            }
        }
    }

    #[test]
    fn every_order_gives_the_sum() {
        for isa in [IsaLevel::Native, IsaLevel::X86V3, IsaLevel::ArmV8].map(CpuFeatures::up_to) {
            check::<f32, f32>(isa);
            check::<bf16, f32>(isa);
            check::<bf16, bf16>(isa);
            check::<f16, f32>(isa);
            check::<f16, f16>(isa);
        }
    }
}
