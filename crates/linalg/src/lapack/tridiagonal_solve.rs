//! Systems of linear equations with a tridiagonal matrix.

use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::Scalar;

/// LAPACK's `gtsv`: replaces `b` by the solution of `a x = b`, by Gaussian elimination that exchanges
/// a row with the next one where that has the larger entry. `below[i]`, `diagonal[i]` and `above[i]`
/// are the elements of row `i`; the first of `below` and the last of `above` are not read. They are
/// replaced by the factored triangle: its diagonal, the one above, and the one above that, an element
/// further on, in `below`.
///
/// # Errors
/// A pivot is zero: its row, from 1 on. `b` has no meaning then.
pub fn gtsv<T: Scalar>(
    below: &mut [T],
    diagonal: &mut [T],
    above: &mut [T],
    mut b: Matrix<'_, T>,
) -> Result<(), usize> {
    let n = diagonal.len();
    for row in 0..n.saturating_sub(1) {
        let next = row + 1;
        if diagonal[row].abs1() >= below[next].abs1() {
            if diagonal[row] == T::ZERO {
                return Err(row + 1);
            }
            let factor = below[next].divide(diagonal[row]);
            diagonal[next] -= factor * above[row];
            for column in 0..b.columns() {
                let b = b.column_mut(column);
                b[next] -= factor * b[row];
            }
            below[next] = T::ZERO;
        } else {
            let factor = diagonal[row].divide(below[next]);
            let under = diagonal[next];
            diagonal[row] = below[next];
            diagonal[next] = above[row] - factor * under;
            above[row] = under;
            let beyond = if next + 1 < n { above[next] } else { T::ZERO };
            below[next] = beyond;
            if next + 1 < n {
                above[next] = -(factor * beyond);
            }
            for column in 0..b.columns() {
                let b = b.column_mut(column);
                b.swap(row, next);
                b[next] -= factor * b[row];
            }
        }
    }
    match diagonal.last() {
        Some(&last) if last == T::ZERO => return Err(n),
        _ => {}
    }
    for column in 0..b.columns() {
        let b = b.column_mut(column);
        for row in (0..n).rev() {
            let mut rest = b[row];
            if row + 1 < n {
                rest -= above[row] * b[row + 1];
            }
            if row + 2 < n {
                rest -= below[row + 1] * b[row + 2];
            }
            b[row] = rest.divide(diagonal[row]);
        }
    }
    Ok(())
}
