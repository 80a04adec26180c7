//! Schur form, eigenvalues and eigenvectors of square matrices that need not be symmetric.

mod balance;
mod complex;
mod real;
mod vectors;

use crate::lapack::NotConverged;
use crate::lapack::hessenberg::{gehrd, orghr};
use crate::lapack::householder::norm;
use crate::lapack::isa::{Isa, Routine, dispatch};
use crate::lapack::matrix::Matrix;
use crate::lapack::rotation::{rotate, rotation};
use crate::lapack::scalar::{Real, Scalar};
use crate::lapack::scaling::scale_general;
use balance::{Balance, gebal};
use num_complex::Complex;
use std::ops::Range;
use vectors::Side;

/// The arguments of the QR iteration.
#[derive(Debug)]
pub struct Hqr<'a, 'm, T> {
    h: &'a mut Matrix<'m, T>,
    z: Option<Matrix<'a, T>>,
    /// Whether the Schur form is wanted, rather than only the eigenvalues.
    whole: bool,
    active: Range<usize>,
}

/// A number type whose matrices' eigenvalues can be computed here.
pub trait Eigen: Scalar {
    #[doc(hidden)]
    fn hqr<I: Isa>(
        call: Hqr<'_, '_, Self>,
        values: [&mut [Self::Real]; 2],
    ) -> Result<(), NotConverged>;

    #[doc(hidden)]
    fn vectors<I: Isa>(
        left: bool,
        t: &Matrix<'_, Self>,
        values: [&[Self::Real]; 2],
        q: &Matrix<'_, Self>,
        v: &mut Matrix<'_, Self>,
    );

    #[doc(hidden)]
    fn normalise<I: Isa>(values_im: &[Self::Real], v: &mut Matrix<'_, Self>);
}

macro_rules! eigen {
    ($ty:ty) => {
        impl Eigen for $ty {
            #[inline(always)]
            fn hqr<I: Isa>(
                call: Hqr<'_, '_, Self>,
                values: [&mut [Self]; 2],
            ) -> Result<(), NotConverged> {
                real::lahqr::<I, Self>(call, values)
            }

            #[inline(always)]
            fn vectors<I: Isa>(
                left: bool,
                t: &Matrix<'_, Self>,
                values: [&[Self]; 2],
                q: &Matrix<'_, Self>,
                v: &mut Matrix<'_, Self>,
            ) {
                let side = if left { Side::Left } else { Side::Right };
                vectors::of_real::<I, Self>(side, t, values, q, v);
            }

            #[inline(always)]
            fn normalise<I: Isa>(values_im: &[Self], v: &mut Matrix<'_, Self>) {
                normalise_packed::<I, Self>(values_im, v);
            }
        }

        impl Eigen for Complex<$ty> {
            #[inline(always)]
            fn hqr<I: Isa>(
                call: Hqr<'_, '_, Self>,
                [re, im]: [&mut [$ty]; 2],
            ) -> Result<(), NotConverged> {
                let mut values = vec![Self::ZERO; re.len()];
                complex::lahqr::<I, Self>(call, &mut values)?;
                for ((re, im), value) in re.iter_mut().zip(im).zip(values) {
                    (*re, *im) = (value.re, value.im);
                }
                Ok(())
            }

            #[inline(always)]
            fn vectors<I: Isa>(
                left: bool,
                t: &Matrix<'_, Self>,
                _: [&[$ty]; 2],
                q: &Matrix<'_, Self>,
                v: &mut Matrix<'_, Self>,
            ) {
                let side = if left { Side::Left } else { Side::Right };
                vectors::of_complex::<I, Self>(side, t, q, v);
            }

            #[inline(always)]
            fn normalise<I: Isa>(_: &[$ty], v: &mut Matrix<'_, Self>) {
                normalise_complex::<I, Self>(v);
            }
        }
    };
}

eigen!(f32);
eigen!(f64);

/// LAPACK's `gees` without sorting: replaces `a` by its Schur form and writes the Schur vectors to
/// `vectors`, if requested. The Schur form of a real matrix has 2x2 blocks for conjugate
/// eigenvalues. Writes the real and imaginary parts of the eigenvalues, in the order of the
/// diagonal.
///
/// # Errors
/// The iteration does not converge, or a number is not finite; results are then meaningless.
pub fn gees<T: Eigen>(
    a: Matrix<'_, T>,
    vectors: Option<Matrix<'_, T>>,
    values: [&mut [T::Real]; 2],
) -> Result<(), NotConverged> {
    dispatch(Schur { a, vectors, values })
}

struct Schur<'a, T: Scalar> {
    a: Matrix<'a, T>,
    vectors: Option<Matrix<'a, T>>,
    values: [&'a mut [T::Real]; 2],
}

impl<T: Eigen> Routine for Schur<'_, T> {
    type Output = Result<(), NotConverged>;

    #[inline(always)]
    fn run<I: Isa>(self) -> Self::Output {
        let Self {
            mut a,
            mut vectors,
            values: [re, im],
        } = self;
        if a.rows() == 0 {
            return Ok(());
        }
        let exponent = scale_general(&mut a)?;
        let balance = gebal::<I, T>(&mut a, false);
        let z = vectors
            .as_mut()
            .map(|z| z.part(0, 0, z.rows(), z.columns()));
        schur_form::<I, T>(&mut a, z, true, &balance, [&mut *re, &mut *im])?;
        if let Some(vectors) = &mut vectors {
            balance.undo(false, vectors);
        }
        let factor = T::Real::power_of_two(exponent);
        for column in 0..a.columns() {
            a.column_mut(column)
                .iter_mut()
                .for_each(|x| *x = x.scale(factor));
        }
        re.iter_mut().chain(im).for_each(|x| *x *= factor);
        Ok(())
    }
}

/// Computes the Schur form of a balanced matrix, through its Hessenberg form.
#[inline(always)]
fn schur_form<I: Isa, T: Eigen>(
    a: &mut Matrix<'_, T>,
    mut z: Option<Matrix<'_, T>>,
    whole: bool,
    balance: &Balance<T::Real>,
    values: [&mut [T::Real]; 2],
) -> Result<(), NotConverged> {
    let n = a.rows();
    let mut tau = vec![T::ZERO; n - 1];
    let active = balance.active.clone();
    let mut work = vec![T::ZERO; 2 * n];
    gehrd(a.part(0, 0, n, n), active.clone(), &mut tau, &mut work);
    if let Some(z) = &mut z {
        orghr(a, active.clone(), &tau, z.part(0, 0, n, n));
    }
    for column in 0..n {
        let below = (column + 2).min(n);
        a.column_mut(column)[below..].fill(T::ZERO);
    }
    let call = Hqr {
        h: a,
        z,
        whole,
        active,
    };
    T::hqr::<I>(call, values)
}

/// LAPACK's `geev`: writes the real and imaginary parts of a matrix's eigenvalues, and its left and
/// right eigenvectors, if requested. Those of a real matrix are packed: for two conjugate
/// eigenvalues, of which the one with positive imaginary part comes first, one column has the real
/// part and the next the imaginary part of the first one's vector. Vectors have length 1, and their
/// largest element is real. `a` is destroyed.
///
/// # Errors
/// The iteration does not converge, or a number is not finite; results are then meaningless.
pub fn geev<T: Eigen>(
    a: Matrix<'_, T>,
    left: Option<Matrix<'_, T>>,
    right: Option<Matrix<'_, T>>,
    values: [&mut [T::Real]; 2],
) -> Result<(), NotConverged> {
    dispatch(General {
        a,
        left,
        right,
        values,
    })
}

struct General<'a, T: Scalar> {
    a: Matrix<'a, T>,
    left: Option<Matrix<'a, T>>,
    right: Option<Matrix<'a, T>>,
    values: [&'a mut [T::Real]; 2],
}

impl<T: Eigen> Routine for General<'_, T> {
    type Output = Result<(), NotConverged>;

    #[inline(always)]
    fn run<I: Isa>(self) -> Self::Output {
        let Self {
            mut a,
            left,
            right,
            values: [re, im],
        } = self;
        let n = a.rows();
        if n == 0 {
            return Ok(());
        }
        let exponent = scale_general(&mut a)?;
        let balance = gebal::<I, T>(&mut a, true);
        let wants_vectors = left.is_some() || right.is_some();
        let mut q = vec![T::ZERO; if wants_vectors { n * n } else { 0 }];
        let z = wants_vectors.then(|| Matrix::new(&mut q, n, n));
        schur_form::<I, T>(&mut a, z, wants_vectors, &balance, [&mut *re, &mut *im])?;
        for (side, vectors) in [(true, left), (false, right)] {
            let Some(mut vectors) = vectors else {
                continue;
            };
            let q = Matrix::new(&mut q, n, n);
            T::vectors::<I>(side, &a, [&*re, &*im], &q, &mut vectors);
            balance.undo(side, &mut vectors);
            T::normalise::<I>(im, &mut vectors);
        }
        let factor = T::Real::power_of_two(exponent);
        re.iter_mut().chain(im).for_each(|x| *x *= factor);
        Ok(())
    }
}

/// Normalises packed vectors to length 1, complex ones so that their largest element is real.
#[inline(always)]
fn normalise_packed<I: Isa, R: Real>(values_im: &[R], v: &mut Matrix<'_, R>) {
    let mut at = 0;
    while at < v.columns() {
        if values_im[at] == R::ZERO {
            let x = v.column_mut(at);
            let by = R::ONE / norm::<I, R>(x);
            x.iter_mut().for_each(|x| *x *= by);
            at += 1;
            continue;
        }
        let [x, y] = v.two_columns(at, at + 1);
        let by = R::ONE / norm::<I, R>(x).hypot(norm::<I, R>(y));
        x.iter_mut().chain(y.iter_mut()).for_each(|x| *x *= by);
        let mut largest = 0;
        let size = |x: &[R], y: &[R], i: usize| x[i] * x[i] + y[i] * y[i];
        for i in 1..x.len() {
            if size(x, y, i) > size(x, y, largest) {
                largest = i;
            }
        }
        let (c, s, _) = rotation(x[largest], y[largest]);
        rotate::<I, R>(x, y, c, s);
        y[largest] = R::ZERO;
        at += 2;
    }
}

/// Normalises vectors to length 1, such that their largest element is real and positive.
#[inline(always)]
fn normalise_complex<I: Isa, T: Scalar>(v: &mut Matrix<'_, T>) {
    for column in 0..v.columns() {
        let x = v.column_mut(column);
        let by = T::Real::ONE / norm::<I, T>(x);
        x.iter_mut().for_each(|x| *x = x.scale(by));
        let mut largest = 0;
        for i in 1..x.len() {
            if x[i].abs_sqr() > x[largest].abs_sqr() {
                largest = i;
            }
        }
        let size = x[largest].abs_sqr().sqrt();
        let turn = x[largest].conj().scale(T::Real::ONE / size);
        x.iter_mut().for_each(|x| *x *= turn);
        x[largest] = T::from_real(x[largest].re());
    }
}
