//! One row times a matrix that lies far away, along the matrix's rows: some of them are
//! multiplied by a number each and added to the result, which stays near. So memory is read
//! from few places, in order, where panels of columns would come back to each of its pages
//! many times over.

use super::{Isa, Width};
use tegula_ir::ElementType;

/// In what order a matrix is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// From its beginning to its end, as a loop that only reads would; of at most
    /// [`NEAR`] columns.
    Sequential,
    /// Pages of six rows side by side.
    Pages,
    /// Eight rows side by side.
    Eight,
    /// Sixteen rows side by side.
    Sixteen,
}

/// Sums that stay in a first-level cache of 32 KiB while as many bytes of the matrix pass.
pub(crate) const NEAR: usize = 3 << 10;
/// Columns of 16-bit floats that are computed together.
pub(super) const TOGETHER: usize = 32;
/// Bytes of a page. A load waits for a store before it to the same place of another page.
const PAGE: usize = 4096;

/// One row times a matrix.
pub(crate) struct LongRows {
    /// The row's first element, and from one to the next in elements.
    pub(crate) row: *const u8,
    pub(crate) step: isize,
    /// The matrix's first element, and from one of its rows to the next in elements.
    pub(crate) matrix: *const u8,
    pub(crate) stride: isize,
    pub(crate) depth: usize,
    /// Elements of the result, and of a row of the matrix.
    pub(crate) columns: usize,
    pub(crate) out: *mut u8,
    /// Room for [`sums_bytes`], aligned to 64.
    pub(crate) sums: *mut u8,
    /// Whether the product is added to what the result holds.
    pub(crate) add: bool,
    pub(crate) order: Order,
}

/// Computes the product.
///
/// # Safety
/// Every element of the operands can be read and every one of the result written, the result
/// and the sums overlap nothing, and the CPU has what the function was made for.
pub(crate) type LongRowsFn = unsafe fn(&LongRows);

/// Bytes of sums that are not elements of the result, for so many columns of a matrix whose
/// elements have so many bytes: of 16-bit floats.
pub(crate) fn sums_bytes(element: usize, columns: usize) -> usize {
    match element {
        4 => 0,
        _ => columns.next_multiple_of(TOGETHER) * 4,
    }
}

/// The function for a row and a matrix of one type, if the instructions have one.
pub(crate) fn long_rows_function(
    isa: Isa,
    [row, matrix, out]: [ElementType; 3],
) -> Option<LongRowsFn> {
    #[cfg(target_arch = "x86_64")]
    match (isa.width, matrix) {
        _ if row != matrix => {}
        (Width::Avx512, ElementType::BF16 | ElementType::F16) => {
            return super::long_halves::function(matrix, out);
        }
        (_, ElementType::F32) if out != matrix => {}
        (Width::Avx512, ElementType::F32) => return Some(avx512::long_rows),
        (Width::Avx2, ElementType::F32) => return Some(avx2::long_rows),
        _ => {}
    }
    let _ = (isa, Width::Portable, row, matrix, out);
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
            use super::{LongRows, NEAR, Order, PAGE};
            use std::arch::x86_64::*;
            use std::mem::MaybeUninit;

            /// Lanes of a vector.
            const LANES: usize = $lanes;

            /// # Safety
            /// As [`super::LongRowsFn`], on a CPU with these features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn long_rows(product: &LongRows) {
                // SAFETY: the caller's promise.
                unsafe {
                    match product.order {
                        Order::Sequential => through_near::<1, 4>(product, NEAR, 0),
                        Order::Pages => through_near::<6, 2>(product, PAGE / 4, PAGE / 2),
                        Order::Eight => through::<8, 2>(product),
                        Order::Sixteen => through::<16, 2>(product),
                    }
                }
            }

            /// As [`through`], with sums in memory of their own for so many columns at a time,
            /// so many bytes from the place in its page where the matrix begins in one. The
            /// vectors that are loaded ahead never have the place of those that are stored.
            ///
            /// # Safety
            /// As [`long_rows`].
            #[target_feature(enable = $features)]
            unsafe fn through_near<const R: usize, const V: usize>(
                product: &LongRows,
                most: usize,
                apart: usize,
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
                    // SAFETY: the caller's promise; there is room for the sums, less than a
                    // page behind the memory's beginning.
                    unsafe {
                        through::<R, V>(&part);
                        let out = product.out.cast::<f32>().add(start);
                        for i in 0..part.columns {
                            let (out, sum) = (out.add(i), *sums.add(i));
                            *out = if product.add { *out + sum } else { sum };
                        }
                    }
                }
            }

            /// Goes through `R` rows at a time, `V` vectors of each.
            ///
            /// # Safety
            /// As [`long_rows`].
            #[target_feature(enable = $features)]
            unsafe fn through<const R: usize, const V: usize>(product: &LongRows) {
                let mut at = 0;
                // SAFETY: the caller's promise; rows below `depth` alone are asked for.
                unsafe {
                    while at + R <= product.depth {
                        rows::<R, V>(product, at);
                        at += R;
                    }
                    while at < product.depth {
                        rows::<1, V>(product, at);
                        at += 1;
                    }
                }
            }

            /// Adds `R` rows of the matrix from one on; the first ones are the result so far.
            ///
            /// # Safety
            /// As [`long_rows`]; there are so many rows.
            #[target_feature(enable = $features)]
            unsafe fn rows<const R: usize, const V: usize>(product: &LongRows, at: usize) {
                let fresh = at == 0 && !product.add;
                // SAFETY: the caller's promise; masks have the columns that there are alone.
                unsafe {
                    let out = product.out.cast::<f32>();
                    let (row, matrix) = (product.row.cast::<f32>(), product.matrix.cast::<f32>());
                    let factors: [_; R] = std::array::from_fn(|r| {
                        $splat(*row.offset((at + r) as isize * product.step))
                    });
                    let rows: [_; R] =
                        std::array::from_fn(|r| matrix.offset((at + r) as isize * product.stride));
                    let part = |column: usize, count: usize| {
                        let mask = $mask(count);
                        let place = out.add(column);
                        let mut sum = match fresh {
                            true => $zero(),
                            false => $read(place, mask),
                        };
                        for (&factor, row) in factors.iter().zip(&rows) {
                            let numbers = $read(row.add(column), mask);
                            sum = $multiply_add(factor, numbers, sum);
                        }
                        $write(place, mask, sum);
                    };
                    let mut column = 0;
                    // From here on the vectors of a row, or of all, are aligned.
                    let lead = rows[0].align_offset(4 * LANES).min(product.columns);
                    if lead > 0 && (R == 1 || product.stride % LANES as isize == 0) {
                        part(0, lead);
                        column = lead;
                    }
                    while column + V * LANES <= product.columns {
                        let place = out.add(column);
                        let mut sums: [_; V] = match fresh {
                            true => [$zero(); V],
                            false => std::array::from_fn(|v| $load(place.add(v * LANES))),
                        };
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

#[cfg(test)]
mod tests {
    use super::{LongRows, Order, long_rows_function, sums_bytes};
    use crate::jit::Cpu;
    use crate::kernels::Isa;
    use half::{bf16, f16};
    use tegula_ir::ElementType;

    /// Small dyadic numbers, which all the types have.
    fn numbers<T: Copy>(count: usize, seed: usize, from: fn(f32) -> T) -> Vec<T> {
        let number = |i: usize| from(((i * 7919 + seed * 31) % 15) as f32 / 4.0 - 1.75);
        (0..count).map(number).collect()
    }

    /// Rows times matrices whose first element, whose stride and whose columns are no multiples
    /// of a vector, or all of a page.
    fn check<T: Copy, O: Copy>(
        isa: Isa,
        types: [ElementType; 2],
        [from, zero]: [fn(f32) -> T; 2],
        (to, number): (fn(f32) -> O, fn(O) -> f32),
        value: fn(T) -> f32,
    ) {
        let Some(function) = long_rows_function(isa, [types[0], types[0], types[1]]) else {
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
            let row = numbers(2 * depth, 1, from);
            let mut matrix = numbers(lead, 5, zero);
            matrix.extend(numbers(stride * depth, 2, from));
            for (order, add) in orders.into_iter().flat_map(|o| [(o, false), (o, true)]) {
                let before = to(if add { 1.5 } else { f32::NAN });
                let mut out = vec![before; columns + 1];
                let mut sums =
                    vec![[0u64; 8]; sums_bytes(types[0].storage_bytes(), columns) / 64 + 1];
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
                // SAFETY: the vectors have so many elements; sums need no alignment to be right.
                unsafe { function(&product) };
                for (j, &out) in out.iter().enumerate() {
                    let terms = (0..depth)
                        .map(|d| value(row[2 * d]) * value(matrix[lead + d * stride + j]));
                    let expected = match j < columns {
                        true => number(to(terms.sum::<f32>() + if add { 1.5 } else { 0.0 })),
                        false => number(before),
                    };
                    let same = number(out) == expected || number(out).is_nan() && expected.is_nan();
                    assert!(same, "{types:?} {order:?} {depth}x{columns} at {j}");
                }
            }
        }
    }

    #[test]
    fn every_order_gives_the_sum() {
        use ElementType::{BF16, F16, F32};
        for isa in [Cpu::Native, Cpu::X86V3].map(Isa::new) {
            let same = |x: f32| x;
            let none = |_: f32| f32::NAN;
            check::<f32, f32>(isa, [F32; 2], [same, none], (same, same), same);
            let (from, to) = (
                bf16::from_f32 as fn(f32) -> bf16,
                bf16::to_f32 as fn(bf16) -> f32,
            );
            check(isa, [BF16, F32], [from, |_| bf16::NAN], (same, same), to);
            check(isa, [BF16; 2], [from, |_| bf16::NAN], (from, to), to);
            let (from, to) = (
                f16::from_f32 as fn(f32) -> f16,
                f16::to_f32 as fn(f16) -> f32,
            );
            check(isa, [F16, F32], [from, |_| f16::NAN], (same, same), to);
            check(isa, [F16; 2], [from, |_| f16::NAN], (from, to), to);
        }
    }
}
