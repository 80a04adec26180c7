//! Singular values and vectors.

mod divide;
mod qd_iteration;
mod qr_iteration;

use crate::lapack::NotConverged;
use crate::lapack::bidiagonal::{Bidiagonal, gebrd, ormbr};
use crate::lapack::isa::{Isa, Routine, dispatch};
use crate::lapack::matrix::Matrix;
use crate::lapack::qr::{Multiplication, geqrf, ormqr};
use crate::lapack::scalar::{Real, Scalar};
use crate::lapack::scaling::scale_general;
use divide::{Work, bdsdc, lower_to_upper};
use qd_iteration::qd_values;
use qr_iteration::{Turns, Vectors, bdsqr};

/// The method that computes the singular vectors of the bidiagonal matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SvdMethod {
    /// Divide and conquer: LAPACK's `gesdd`.
    DivideAndConquer,
    /// QR iteration: LAPACK's `gesvd`.
    QrIteration,
}

impl SvdMethod {
    /// Whether the matrix is so oblong that it is first reduced to a square one by a QR
    /// factorisation.
    fn is_oblong(self, is_complex: bool, more: usize, less: usize) -> bool {
        match (self, is_complex) {
            (Self::DivideAndConquer, false) => more >= less * 11 / 6,
            (Self::DivideAndConquer, true) => more >= less * 17 / 9,
            (Self::QrIteration, _) => more >= less * 8 / 5,
        }
    }
}

/// LAPACK's `gesdd` and `gesvd`: writes the singular values of a matrix in descending order to
/// `values` and, if requested, its left and right singular vectors to the columns of two matrices.
/// These are either thin (as many columns as there are singular values) or square. `a` is
/// destroyed.
///
/// # Errors
/// An iteration does not converge, or a number is not finite; results are then meaningless.
pub fn gesdd<T: Scalar>(
    method: SvdMethod,
    mut a: Matrix<'_, T>,
    values: &mut [T::Real],
    vectors: Option<[Matrix<'_, T>; 2]>,
) -> Result<(), NotConverged> {
    let (rows, columns) = (a.rows(), a.columns());
    if rows == 0 || columns == 0 {
        if let Some(both) = vectors {
            both.into_iter().for_each(|mut x| x.set_identity());
        }
        return Ok(());
    }
    let exponent = scale_general(&mut a)?;
    let less = rows.min(columns);
    let more = rows.max(columns);
    if method.is_oblong(T::IS_COMPLEX, more, less) {
        oblong(method, a, values, vectors)?;
    } else {
        bidiagonalised(method, a, values, vectors)?;
    }
    let factor = T::Real::power_of_two(exponent);
    values.iter_mut().for_each(|x| *x *= factor);
    match values.iter().all(|x| x.is_finite_real()) {
        true => Ok(()),
        false => Err(NotConverged(1)),
    }
}

/// Computes the decomposition through a QR factorisation of the matrix or its adjoint, and the
/// decomposition of the square factor.
fn oblong<T: Scalar>(
    method: SvdMethod,
    mut a: Matrix<'_, T>,
    values: &mut [T::Real],
    vectors: Option<[Matrix<'_, T>; 2]>,
) -> Result<(), NotConverged> {
    let (rows, columns) = (a.rows(), a.columns());
    let is_wide = rows < columns;
    let (more, less) = (rows.max(columns), rows.min(columns));
    let mut tau = vec![T::ZERO; less];
    let mut adjoint = Vec::new();
    let mut tall = if is_wide {
        adjoint.resize(rows * columns, T::ZERO);
        let mut adjoint = Matrix::new(&mut adjoint, columns, rows);
        for j in 0..rows {
            for (i, x) in adjoint.column_mut(j).iter_mut().enumerate() {
                *x = a.at(j, i).conj();
            }
        }
        adjoint
    } else {
        a.part(0, 0, rows, columns)
    };
    geqrf(tall.part(0, 0, more, less), &mut tau);
    let mut square = vec![T::ZERO; less * less];
    let mut square = Matrix::new(&mut square, less, less);
    for j in 0..less {
        for i in 0..=j {
            match is_wide {
                true => square.set(j, i, tall.at(i, j).conj()),
                false => square.set(i, j, tall.at(i, j)),
            }
        }
    }
    let Some([mut u, mut v]) = vectors else {
        return bidiagonalised(method, square, values, None);
    };
    let (long, short) = if is_wide {
        (&mut v, &mut u)
    } else {
        (&mut u, &mut v)
    };
    long.set_identity();
    let mut within = long.part(0, 0, less, less);
    let inner = short.part(0, 0, less, less);
    let both = if is_wide {
        [inner, within.part(0, 0, less, less)]
    } else {
        [within.part(0, 0, less, less), inner]
    };
    bidiagonalised(method, square, values, Some(both))?;
    let how = Multiplication {
        left: true,
        adjoint: false,
    };
    let columns = long.columns();
    let all = long.part(0, 0, more, columns);
    ormqr(how, tall, &tau, all, &mut vec![T::ZERO; more]);
    Ok(())
}

/// Computes the decomposition through a bidiagonal form.
fn bidiagonalised<T: Scalar>(
    method: SvdMethod,
    mut a: Matrix<'_, T>,
    values: &mut [T::Real],
    vectors: Option<[Matrix<'_, T>; 2]>,
) -> Result<(), NotConverged> {
    let (rows, columns) = (a.rows(), a.columns());
    let less = rows.min(columns);
    let is_lower = rows < columns;
    let mut beside = vec![T::Real::ZERO; less];
    let mut factors = vec![T::ZERO; 2 * less];
    let mut right = vec![T::ZERO; columns * less];
    let mut right = Matrix::new(&mut right, columns, less);
    let (tau_q, tau_p) = factors.split_at_mut(less);
    let form = Bidiagonal {
        diagonal: values,
        beside: &mut beside,
        tau_q,
        tau_p,
        right: right.part(0, 0, columns, less),
    };
    gebrd(a.part(0, 0, rows, columns), form, &mut vec![T::ZERO; rows]);
    let beside = &mut beside[..less - 1];
    // The transposed matrix has the same values; its off-diagonal is on the other side.
    if vectors.is_none() && qd_values(values, beside) {
        return Ok(());
    }
    let mut rotations = Vec::new();
    if is_lower {
        rotations.resize(less, (T::Real::ZERO, T::Real::ZERO));
        lower_to_upper(values, beside, &mut rotations);
        rotations.truncate(less - 1);
    }
    let Some([mut u, mut v]) = vectors else {
        return dispatch(Values {
            d: values,
            e: beside,
        });
    };
    let mut memory = vec![T::Real::ZERO; 2 * less * less];
    let (for_u, for_v) = memory.split_at_mut(less * less);
    let mut found = Vectors {
        u: Matrix::new(for_u, less, less),
        v: Matrix::new(for_v, less, less),
    };
    dispatch(Decompose {
        method,
        d: values,
        e: beside,
        vectors: &mut found,
    })?;
    for (i, &(c, s)) in rotations.iter().enumerate().rev() {
        for j in 0..less {
            let column = found.u.column_mut(j);
            let (x, y) = (column[i], column[i + 1]);
            column[i] = c * x - s * y;
            column[i + 1] = s * x + c * y;
        }
    }
    for (to, from) in [(&mut u, &found.u), (&mut v, &found.v)] {
        to.set_identity();
        for j in 0..less {
            for (to, &x) in to.column_mut(j).iter_mut().zip(from.column(j)) {
                *to = T::from_real(x);
            }
        }
    }
    let offset = usize::from(is_lower);
    ormbr(&mut a, tau_q, offset, u);
    ormbr(&mut right, tau_p, 1 - offset, v);
    Ok(())
}

struct Decompose<'a, 'v, R> {
    method: SvdMethod,
    d: &'a mut [R],
    e: &'a mut [R],
    vectors: &'a mut Vectors<'v, R>,
}

impl<R: Real> Routine for Decompose<'_, '_, R> {
    type Output = Result<(), NotConverged>;

    #[inline(always)]
    fn run<I: Isa>(self) -> Self::Output {
        let n = self.d.len();
        match self.method {
            SvdMethod::DivideAndConquer => {
                bdsdc::<I, R>(self.d, self.e, self.vectors, &mut Work::new(n))
            }
            SvdMethod::QrIteration => {
                self.vectors.u.set_identity();
                self.vectors.v.set_identity();
                bdsqr::<I, R>(self.d, self.e, self.vectors, &mut Turns::new(n))
            }
        }
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
        let n = self.d.len();
        // Matrices of vectors without elements.
        let mut vectors = Vectors {
            u: Matrix::new(&mut [], 0, n),
            v: Matrix::new(&mut [], 0, n),
        };
        bdsqr::<I, R>(self.d, self.e, &mut vectors, &mut Turns::new(n))
    }
}
