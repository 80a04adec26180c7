//! Products of matrices.

use crate::isa::Isa;
use crate::matrix::Matrix;
use crate::scalar::{Real, multiply_add};

/// Rows of a block of the result.
const ROWS: usize = 32;
/// Columns of a block of the result.
const COLUMNS: usize = 4;

/// Writes `a b` to `c`, for the first `c.rows()` rows of `a`.
#[inline(always)]
pub(crate) fn multiply<I: Isa, R: Real>(
    a: &Matrix<'_, R>,
    b: &Matrix<'_, R>,
    c: &mut Matrix<'_, R>,
) {
    let (rows, columns, depth) = (c.rows(), c.columns(), b.rows());
    let whole_columns = columns - columns % COLUMNS;
    for column in (0..whole_columns).step_by(COLUMNS) {
        let mut row = 0;
        while row + ROWS <= rows {
            block::<I, R, ROWS>(a, b, c, row, column, depth);
            row += ROWS;
        }
        while row + 8 <= rows {
            block::<I, R, 8>(a, b, c, row, column, depth);
            row += 8;
        }
        while row < rows {
            block::<I, R, 1>(a, b, c, row, column, depth);
            row += 1;
        }
    }
    for column in whole_columns..columns {
        c.column_mut(column).fill(R::ZERO);
        for k in 0..depth {
            R::axpy::<I>(b.at(k, column), &a.column(k)[..rows], c.column_mut(column));
        }
    }
}

/// Computes a block of a product in registers.
#[inline(always)]
fn block<I: Isa, R: Real, const M: usize>(
    a: &Matrix<'_, R>,
    b: &Matrix<'_, R>,
    c: &mut Matrix<'_, R>,
    row: usize,
    column: usize,
    depth: usize,
) {
    let mut sums = [[R::ZERO; M]; COLUMNS];
    let factors: [&[R]; COLUMNS] = std::array::from_fn(|j| &b.column(column + j)[..depth]);
    for k in 0..depth {
        let Some(x) = a.column(k)[row..].first_chunk::<M>() else {
            return;
        };
        for (sums, factors) in sums.iter_mut().zip(factors) {
            let factor = factors[k];
            for i in 0..M {
                sums[i] = multiply_add::<I, R>(x[i], factor, sums[i]);
            }
        }
    }
    for (j, sums) in sums.iter().enumerate() {
        c.column_mut(column + j)[row..][..M].copy_from_slice(sums);
    }
}
