//! Vector-matrix products along the matrix's rows: see [`gemv`](crate::microkernels::gemv).

use super::vector::{F32, F32ByBf16, F32ByF16, Numbers};
use crate::microkernels::long_rows::{LongRows, LongRowsFn, Order};
use half::{bf16, f16};
use tegula_ir::ElementType;

/// Columns whose sums stay in the cache while the rows of the matrix stream through.
const NEAR: usize = 2048;
/// Vectors that are computed together: two cache lines of sums.
const TOGETHER: usize = 4;

/// The function for a row, a matrix and a result of these types, if there is one.
#[inline(always)]
pub(crate) fn function([row, matrix, out]: [ElementType; 3]) -> Option<LongRowsFn> {
    use ElementType::{BF16, F16, F32 as Single};
    match [row, matrix, out] {
        [Single, Single, Single] => Some(long_rows::<F32, f32, f32>),
        [BF16, BF16, Single] => Some(long_rows::<F32ByBf16, bf16, f32>),
        [BF16, BF16, BF16] => Some(long_rows::<F32ByBf16, bf16, bf16>),
        [F16, F16, Single] => Some(long_rows::<F32ByF16, f16, f32>),
        [F16, F16, F16] => Some(long_rows::<F32ByF16, f16, f16>),
        _ => None,
    }
}

/// An element of the row or the result.
trait Number: Copy {
    fn to_single(self) -> f32;
    fn of_single(number: f32) -> Self;
}

impl Number for f32 {
    #[inline(always)]
    fn to_single(self) -> f32 {
        self
    }
    #[inline(always)]
    fn of_single(number: f32) -> Self {
        number
    }
}

macro_rules! halves {
    ($($ty:ident)*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn to_single(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn of_single(number: f32) -> Self {
                Self::from_f32(number)
            }
        }
    )*};
}

halves!(bf16 f16);

/// # Safety
/// As [`LongRowsFn`].
unsafe fn long_rows<V: Numbers<Unit = f32>, R: Number, O: Number>(product: &LongRows) {
    let mut sums = [0f32; NEAR];
    for start in (0..product.columns).step_by(NEAR) {
        let sums = &mut sums[..(product.columns - start).min(NEAR)];
        sums.fill(0.0);
        // SAFETY: the caller promises a row, a matrix and a result with this many elements.
        unsafe {
            match product.order {
                Order::Sequential => through::<V, R, 1>(product, start, sums),
                Order::Pages | Order::Eight => through::<V, R, 4>(product, start, sums),
                Order::Sixteen => through::<V, R, 8>(product, start, sums),
            }
            let out = product.out.cast::<O>().add(start);
            for (i, &sum) in sums.iter().enumerate() {
                let place = out.add(i);
                let before = if product.add {
                    (*place).to_single()
                } else {
                    0.0
                };
                *place = O::of_single(if product.add { before + sum } else { sum });
            }
        }
    }
}

/// Processes `ROWS` rows of the matrix at a time.
///
/// # Safety
/// As [`long_rows`]; the matrix has these columns from `start` on.
#[inline(always)]
unsafe fn through<V: Numbers<Unit = f32>, R: Number, const ROWS: usize>(
    product: &LongRows,
    start: usize,
    sums: &mut [f32],
) {
    let mut at = 0;
    // SAFETY: the caller promises that every element of the operands can be read and every element
    // of the result written, and that the result and the sums overlap nothing; only rows below
    // `depth` are read.
    unsafe {
        while at + ROWS <= product.depth {
            rows::<V, R, ROWS>(product, at, start, sums);
            at += ROWS;
        }
        while at < product.depth {
            rows::<V, R, 1>(product, at, start, sums);
            at += 1;
        }
    }
}

/// Adds the products with `ROWS` rows of the matrix, from row `at` on, to the sums.
///
/// # Safety
/// As [`through`]; the matrix has these rows.
#[inline(always)]
unsafe fn rows<V: Numbers<Unit = f32>, R: Number, const ROWS: usize>(
    product: &LongRows,
    at: usize,
    start: usize,
    sums: &mut [f32],
) {
    // SAFETY: the caller promises these rows, each with as many columns from `start` on as there
    // are sums.
    unsafe {
        let factors: [f32; ROWS] = core::array::from_fn(|r| {
            let place = (at + r) as isize * product.step;
            (*product.row.cast::<R>().offset(place)).to_single()
        });
        let rows: [*const V::Right; ROWS] = core::array::from_fn(|r| {
            let place = (at + r) as isize * product.stride + start as isize;
            product.matrix.cast::<V::Right>().offset(place)
        });
        let mut column = 0;
        while column + TOGETHER * V::LANES <= sums.len() {
            let place = sums.as_mut_ptr().add(column);
            let mut vectors: [V; TOGETHER] =
                core::array::from_fn(|v| V::load(place.add(v * V::LANES), V::LANES));
            for (&factor, row) in factors.iter().zip(&rows) {
                for (v, sum) in vectors.iter_mut().enumerate() {
                    let numbers = V::right(row.add(column + v * V::LANES), V::LANES);
                    *sum = sum.multiply_add(factor, numbers);
                }
            }
            for (v, sum) in vectors.into_iter().enumerate() {
                sum.store(place.add(v * V::LANES), V::LANES);
            }
            column += TOGETHER * V::LANES;
        }
        while column < sums.len() {
            let count = (sums.len() - column).min(V::LANES);
            let place = sums.as_mut_ptr().add(column);
            let mut sum = V::load(place, count);
            for (&factor, row) in factors.iter().zip(&rows) {
                sum = sum.multiply_add(factor, V::right(row.add(column), count));
            }
            sum.store(place, count);
            column += count;
        }
    }
}
