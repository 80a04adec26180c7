//! Dot products along the rows of a matrix: see [`dot_rows`](crate::microkernels::dot_rows).

use crate::microkernels::dot_rows::{COLUMNS, Dots, DotsFn};
use crate::microkernels::neon::vector::{F32, F32ByBf16, F32ByF16, F64, Numbers};
use tegula_ir::ElementType;

/// The number of rows whose sums with [`COLUMNS`] columns fit the registers.
const ROWS: usize = 4;

/// The function for a right operand of a type.
#[inline(always)]
pub(crate) fn function(rhs: ElementType) -> Option<DotsFn> {
    match rhs {
        ElementType::F32 => Some(dots::<F32>),
        ElementType::F64 => Some(dots::<F64>),
        ElementType::BF16 => Some(dots::<F32ByBf16>),
        ElementType::F16 => Some(dots::<F32ByF16>),
        _ => None,
    }
}

/// # Safety
/// As [`DotsFn`].
unsafe fn dots<V: Numbers>(dots: &Dots<'_>) {
    let columns = dots.columns.len();
    let whole = columns - columns % COLUMNS;
    for row in (0..dots.rows.len()).step_by(ROWS) {
        let rows = (dots.rows.len() - row).min(ROWS);
        // SAFETY: the caller promises that every row and column has `depth` elements that can be
        // read, and that the sums can be written.
        unsafe {
            for column in (0..whole).step_by(COLUMNS) {
                match rows {
                    // Reads each column alone, from its beginning to its end.
                    1 if dots.sequential => {
                        for column in column..column + COLUMNS {
                            tile::<V, 1, 1, 8>(dots, row, column);
                        }
                    }
                    1 => tile::<V, 1, COLUMNS, 4>(dots, row, column),
                    2 => tile::<V, 2, COLUMNS, 2>(dots, row, column),
                    3 => tile::<V, 3, COLUMNS, 1>(dots, row, column),
                    _ => tile::<V, 4, COLUMNS, 1>(dots, row, column),
                }
            }
            for column in whole..columns {
                match rows {
                    1 => tile::<V, 1, 1, 8>(dots, row, column),
                    2 => tile::<V, 2, 1, 4>(dots, row, column),
                    3 => tile::<V, 3, 1, 4>(dots, row, column),
                    _ => tile::<V, 4, 1, 4>(dots, row, column),
                }
            }
        }
    }
}

/// Multiplies `M` rows from `first` on by `N` columns from `start` on, `U` vectors of each at a
/// time with independent sums.
///
/// # Safety
/// As [`dots`]; these rows and columns exist.
#[inline(always)]
unsafe fn tile<V: Numbers, const M: usize, const N: usize, const U: usize>(
    dots: &Dots<'_>,
    first: usize,
    start: usize,
) {
    let depth = dots.depth;
    let mut sums = [[[V::zero(); U]; N]; M];
    // SAFETY: the caller promises that every row and column has `depth` elements that can be read,
    // and that the sums can be written; only elements below `depth` are read.
    unsafe {
        let lhs: [*const V::Unit; M] =
            core::array::from_fn(|m| dots.rows.get_unchecked(first + m).cast());
        let rhs: [*const V::Right; N] = core::array::from_fn(|n| {
            let column = *dots.columns.get_unchecked(start + n);
            dots.rhs.cast::<V::Right>().offset(column)
        });
        let mut step = |at: usize, u: usize, count: usize| {
            let left: [V; M] = core::array::from_fn(|m| V::load(lhs[m].add(at), count));
            for (n, rhs) in rhs.iter().enumerate() {
                let right = V::right(rhs.add(at), count);
                for (m, left) in left.iter().enumerate() {
                    sums[m][n][u] = sums[m][n][u].multiply_add_lanes(*left, right);
                }
            }
        };
        let mut at = 0;
        while at + U * V::LANES <= depth {
            for u in 0..U {
                step(at + u * V::LANES, u, V::LANES);
            }
            at += U * V::LANES;
        }
        while at < depth {
            let rest = (depth - at).min(V::LANES);
            step(at, 0, rest);
            at += rest;
        }
        for (m, sums) in sums.iter().enumerate() {
            let row = (first + m) * dots.stride + start;
            let row = dots.sums.cast::<V::Unit>().add(row);
            let mut all = [V::zero(); COLUMNS];
            for (all, sums) in all.iter_mut().zip(sums) {
                *all = added(*sums);
            }
            let totals = V::totals(all);
            for (n, &total) in totals.iter().enumerate().take(N) {
                *row.add(n) = total;
            }
        }
    }
}

/// The sum of a power of two of vectors, added pairwise.
#[inline(always)]
fn added<V: Numbers, const U: usize>(mut sums: [V; U]) -> V {
    let mut half = U / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] = sums[i].plus(sums[i + half]);
        }
        half /= 2;
    }
    sums[0]
}
