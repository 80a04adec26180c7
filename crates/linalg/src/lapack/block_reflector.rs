//! Block reflectors: several reflectors applied at once, by matrix products (LAPACK's `larft` and
//! `larfb`).

use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::Scalar;
use crate::thread_pool::is_stopped;

/// The minimum number of reflectors that are applied as a block: fewer are applied one by one.
const SMALLEST_BLOCK: usize = 8;
/// The minimum product of rows, reflectors and columns: below it, applying reflectors one by one is
/// faster. (QR with 64 rows and columns takes 15 us one by one and 27 us in blocks; with 96 rows 39
/// and 47; with 128 rows 85 and 73; `f32`, AMD EPYC (Zen 5), 27 November 2026.)
const SMALLEST_PRODUCT: usize = 80 * 80 * 80;
/// The number of reflectors in a block.
const BLOCK: usize = 32;

/// Replaces `c` by `Q c`, or by `Q^H c` if `adjoint` is true, where `Q` is the product of the
/// reflectors `I - tau v v^H` whose vectors are the columns of `v`: zero above the diagonal, one on
/// it, and below it what the matrix has (Bischof and Van Loan's representation `I - V T V^H`). If
/// `is_identity` is true, `c` is the first columns of the identity and `adjoint` is false.
pub(crate) fn reflect_in_blocks<T: Scalar>(
    v: &Matrix<'_, T>,
    tau: &[T],
    adjoint: bool,
    is_identity: bool,
    c: &mut Matrix<'_, T>,
) {
    let (rows, columns) = (c.rows(), c.columns());
    let count = tau.len();
    let size = BLOCK.min(count);
    let mut memory = vec![T::ZERO; 2 * rows * size + size * size + 2 * size * columns];
    let starts = (0..count).step_by(BLOCK);
    let mut apply = |first: usize| {
        if is_stopped() {
            return;
        }
        let size = BLOCK.min(count - first);
        let below = rows - first;
        let (own, rest) = memory.split_at_mut(below * size);
        let (own_adjoint, rest) = rest.split_at_mut(below * size);
        let (triangle, rest) = rest.split_at_mut(size * size);
        // The columns of the identity before these are zero in these rows.
        let before = if is_identity { first } else { 0 };
        let columns = columns - before;
        let (product, other) = rest.split_at_mut(size * columns);
        let mut own = Matrix::new(own, below, size);
        for j in 0..size {
            let column = own.column_mut(j);
            column[..j].fill(T::ZERO);
            column[j] = T::ONE;
            column[j + 1..].copy_from_slice(&v.column(first + j)[first + j + 1..]);
        }
        // Products read a left operand fastest along its columns.
        let mut own_adjoint = Matrix::new(own_adjoint, size, below);
        own_adjoint.set_adjoint(&own);
        let mut triangle = Matrix::new(triangle, size, size);
        triangle.set_product(&own_adjoint, &own);
        triangular_factor(&tau[first..][..size], adjoint, &mut triangle);
        let mut product = Matrix::new(product, size, columns);
        let mut other = Matrix::new(&mut other[..size * columns], size, columns);
        let mut c = c.part(first, before, below, columns);
        product.set_product(&own_adjoint, &c);
        other.set_product(&triangle, &product);
        other.negate();
        c.add_product(&own, &other);
    };
    // `Q c` applies the last reflectors first.
    if adjoint {
        starts.for_each(&mut apply);
    } else {
        starts.rev().for_each(&mut apply);
    }
}

/// Whether applying reflectors in blocks pays.
pub(crate) fn is_worth_blocks(rows: usize, count: usize, columns: usize) -> bool {
    count >= SMALLEST_BLOCK
        && columns >= SMALLEST_BLOCK
        && rows * count * columns >= SMALLEST_PRODUCT
}

/// Replaces `V^H V` by the triangular `T` with `H_1 H_2 ... = I - V T V^H`, or by its adjoint.
fn triangular_factor<T: Scalar>(tau: &[T], adjoint: bool, factor: &mut Matrix<'_, T>) {
    let size = tau.len();
    // The products of the vectors are above the diagonal; each column is replaced by the factor's.
    for (j, &tau) in tau.iter().enumerate() {
        for i in 0..j {
            // Multiplies the rows of the factor so far by this column's products.
            let mut sum = T::ZERO;
            for k in i..j {
                sum += factor.at(i, k) * factor.at(k, j);
            }
            // This may be overwritten: later iterations read only the rows of this column below it.
            factor.set(i, j, -(sum * tau));
        }
        factor.set(j, j, tau);
        factor.column_mut(j)[j + 1..].fill(T::ZERO);
    }
    if adjoint {
        for j in 0..size {
            for i in 0..j {
                let x = factor.at(i, j);
                factor.set(j, i, x.conj());
                factor.set(i, j, T::ZERO);
            }
            let x = factor.at(j, j);
            factor.set(j, j, x.conj());
        }
    }
}
