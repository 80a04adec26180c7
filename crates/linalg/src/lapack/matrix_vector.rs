//! Products of a matrix and a vector, and rank-one updates, by four columns at a time: the vector is
//! then loaded a fourth as often.

use crate::lapack::isa::Isa;
use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::Scalar;

/// Adds `a u` to a vector, where `a` consists of a matrix's columns from `first` on.
#[inline(always)]
pub(crate) fn add_columns<I: Isa, T: Scalar>(
    a: &Matrix<'_, T>,
    first: usize,
    u: &[T],
    sum: &mut [T],
) {
    let (quads, rest) = u.as_chunks::<4>();
    for (quad, u) in quads.iter().enumerate() {
        let columns = std::array::from_fn(|i| a.column(first + 4 * quad + i));
        T::axpy_four::<I>(*u, columns, sum);
    }
    for (j, &u) in rest.iter().enumerate() {
        T::axpy::<I>(u, a.column(first + 4 * quads.len() + j), sum);
    }
}

/// Subtracts `tau x v^H` from a matrix.
#[inline(always)]
pub(crate) fn subtract_product<I: Isa, T: Scalar>(a: &mut Matrix<'_, T>, x: &[T], tau: T, v: &[T]) {
    let (quads, rest) = v.as_chunks::<4>();
    for (quad, v) in quads.iter().enumerate() {
        let by = v.map(|v| tau * v.conj());
        T::subtract_from_four::<I>(by, x, a.four_columns(4 * quad));
    }
    for (j, &v) in rest.iter().enumerate() {
        T::axpy::<I>(-(tau * v.conj()), x, a.column_mut(4 * quads.len() + j));
    }
}
