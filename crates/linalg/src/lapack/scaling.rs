//! Scaling of matrices to norms near 1, so that squares of elements neither overflow nor underflow.

use crate::lapack::NotConverged;
use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::{Real, Scalar};

/// Multiplies a matrix by a power of two such that its largest part is about 1; returns the
/// exponent that undoes this.
///
/// # Errors
/// A number is not finite.
pub(crate) fn scale_general<T: Scalar>(a: &mut Matrix<'_, T>) -> Result<i32, NotConverged> {
    scale_columns(a, |_| 0)
}

/// Like [`scale_general`], for a lower triangle: other elements are ignored.
pub(crate) fn scale_lower<T: Scalar>(a: &mut Matrix<'_, T>) -> Result<i32, NotConverged> {
    scale_columns(a, |column| column)
}

fn scale_columns<T: Scalar>(
    a: &mut Matrix<'_, T>,
    first: impl Fn(usize) -> usize,
) -> Result<i32, NotConverged> {
    let mut largest = T::Real::ZERO;
    for column in 0..a.columns() {
        for x in T::parts(&a.column(column)[first(column)..]) {
            if !x.is_finite_real() {
                return Err(NotConverged(1));
            }
            largest = largest.max(x.abs());
        }
    }
    if largest == T::Real::ZERO {
        return Ok(0);
    }
    let exponent = largest.to_f64().log2().floor() as i32;
    // The power of two and its inverse are normal numbers.
    let bound = T::Real::LARGEST_EXPONENT;
    let exponent = exponent.clamp(-bound, bound);
    let factor = T::Real::power_of_two(-exponent);
    for column in 0..a.columns() {
        for x in &mut a.column_mut(column)[first(column)..] {
            *x = x.scale(factor);
        }
    }
    Ok(exponent)
}
