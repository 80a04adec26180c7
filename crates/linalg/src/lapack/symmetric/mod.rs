//! Eigenvalues and eigenvectors of symmetric and Hermitian matrices.

mod divide;
mod ql;

use crate::lapack::NotConverged;
use crate::lapack::isa::{Isa, Routine, dispatch};
use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::{Real, Scalar};
use crate::lapack::scaling::scale_lower;
use crate::lapack::tridiagonal::{Tridiagonal, hetrd, ormtr};
use divide::{Work, stedc};
use ql::sterf;

/// LAPACK's `syevd` and `heevd`: writes the eigenvalues of a matrix in ascending order to `values`
/// and, if `vectors` is true, overwrites `a` by its eigenvectors. Only one triangle of `a` is read:
/// the lower one if `lower` is true.
///
/// # Errors
/// An iteration does not converge, or a number is not finite; `a` and `values` are then
/// meaningless.
pub fn heevd<T: Scalar>(
    mut a: Matrix<'_, T>,
    lower: bool,
    vectors: bool,
    values: &mut [T::Real],
) -> Result<(), NotConverged> {
    let n = a.rows();
    if n == 0 {
        return Ok(());
    }
    if !lower {
        reverse(&mut a);
    }
    let exponent = scale_lower(&mut a)?;
    let mut beside = vec![T::Real::ZERO; n];
    let mut tau = vec![T::ZERO; n - 1];
    let form = Tridiagonal {
        diagonal: values,
        beside: &mut beside[..n - 1],
        tau: &mut tau,
    };
    hetrd(a.part(0, 0, n, n), form, &mut vec![T::ZERO; 4 * n]);
    let beside = &mut beside[..n - 1];
    if vectors {
        if !lower {
            values.reverse();
            beside.reverse();
        }
        let mut z = vec![T::Real::ZERO; n * n];
        dispatch(Divide {
            d: values,
            e: beside,
            z: Matrix::new(&mut z, n, n),
        })?;
        back_transform(&mut a, &tau, &z, lower);
    } else {
        dispatch(Values {
            d: values,
            e: beside,
        })?;
    }
    let factor = T::Real::power_of_two(exponent);
    values.iter_mut().for_each(|x| *x *= factor);
    match values.iter().all(|x| x.is_finite_real()) {
        true => Ok(()),
        false => Err(NotConverged(1)),
    }
}

/// Reverses the order of rows and columns.
fn reverse<T: Scalar>(a: &mut Matrix<'_, T>) {
    let n = a.rows();
    for column in 0..n.div_ceil(2) {
        let other = n - 1 - column;
        a.swap_columns(column, other);
        a.column_mut(column).reverse();
        if column != other {
            a.column_mut(other).reverse();
        }
    }
}

/// Replaces the reflectors in `a` by the eigenvectors `Q z`.
fn back_transform<T: Scalar>(a: &mut Matrix<'_, T>, tau: &[T], z: &[T::Real], lower: bool) {
    let n = a.rows();
    let mut product: Vec<T> = z.iter().map(|&x| T::from_real(x)).collect();
    let mut product = Matrix::new(&mut product, n, n);
    if !lower {
        (0..n).for_each(|j| product.column_mut(j).reverse());
    }
    ormtr(a, tau, product.part(0, 0, n, n));
    for j in 0..n {
        a.column_mut(j).copy_from_slice(product.column(j));
        if !lower {
            a.column_mut(j).reverse();
        }
    }
}

struct Divide<'a, R> {
    d: &'a mut [R],
    e: &'a mut [R],
    z: Matrix<'a, R>,
}

impl<R: Real> Routine for Divide<'_, R> {
    type Output = Result<(), NotConverged>;

    #[inline(always)]
    fn run<I: Isa>(mut self) -> Self::Output {
        let mut work = Work::new(self.d.len());
        stedc::<I, R>(self.d, self.e, &mut self.z, &mut work)
    }
}

struct Values<'a, R> {
    d: &'a mut [R],
    e: &'a mut [R],
}

impl<R: Real> Routine for Values<'_, R> {
    type Output = Result<(), NotConverged>;

    #[inline(always)]
    fn run<I: Isa>(self) -> Self::Output {
        sterf(self.d, self.e)
    }
}
