//! The decompositions of one matrix by the library, in `f64`.

use super::super::{Matrix, conjugate};
use super::Found;
use crate::scalar::C64;
use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, EvdError, evd_cplx, evd_real, evd_scratch};
use faer::linalg::solvers::{SelfAdjointEigen, Svd};
use faer::prelude::default;
use faer::traits::ComplexField;
use faer::{Mat, MatMut, MatRef, Par, Side};

/// A routine with its options. Vectors that are not asked for are zero: LAPACK leaves something
/// there that nobody may read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    /// Of a matrix of which only one triangle is read.
    SelfAdjoint { lower: bool, vectors: bool },
    /// With so many left and right vectors.
    Singular { counts: [usize; 2], vectors: bool },
    /// With left vectors, and with right ones.
    General([bool; 2]),
}

/// A number as the library has it.
pub(super) trait Number: ComplexField {
    fn of(x: C64) -> Self;
    fn get(&self) -> C64;
    /// The parts of results that values of any matrix are.
    fn values(values: Vec<C64>) -> Vec<Matrix>;
    /// Values, and left and right vectors, of any matrix.
    fn general(a: &Matrix, wanted: [bool; 2]) -> Option<(Vec<C64>, [Matrix; 2])>;
}

/// What a routine gives for a square matrix, or any if values are singular ones.
pub(super) fn solve<T: Number>(a: &Matrix, request: Request) -> Found {
    let mirrored;
    let a = match request {
        Request::SelfAdjoint { lower, .. } => {
            mirrored = self_adjoint_of(a, lower);
            &mirrored
        }
        _ => a,
    };
    let parts = || a.entries.iter().flat_map(|x| [x.re, x.im]);
    if !parts().all(f64::is_finite) {
        return None;
    }
    // Near 1, so that no square of a number is too large or too small.
    let largest = parts().fold(0.0, |most: f64, x| most.max(x.abs()));
    let exponent = match largest > 0.0 {
        true => libm::ilogb(largest).clamp(-1000, 1000),
        false => 0,
    };
    let times = |x: C64, n: i32| C64::new(libm::ldexp(x.re, n), libm::ldexp(x.im, n));
    let near_one = Matrix {
        entries: a.entries.iter().map(|&x| times(x, -exponent)).collect(),
        ..*a
    };
    let back =
        |values: Vec<C64>| -> Vec<C64> { values.into_iter().map(|x| times(x, exponent)).collect() };
    Some(match request {
        Request::SelfAdjoint { vectors, .. } => {
            let (u, values) = self_adjoint::<T>(&near_one, vectors)?;
            vec![u, row(back(values).into_iter())]
        }
        Request::Singular { counts, vectors } => {
            let (values, [u, v]) = singular::<T>(&near_one, counts, vectors)?;
            vec![a.clone(), row(back(values).into_iter()), u, v]
        }
        Request::General(wanted) => {
            let (values, vectors) = T::general(&near_one, wanted)?;
            let mut parts = T::values(back(values));
            parts.extend(vectors);
            parts
        }
    })
}

/// The matrix that one triangle stands for.
fn self_adjoint_of(a: &Matrix, lower: bool) -> Matrix {
    let adjoint = a.transposed(conjugate);
    let entry = |k: usize| {
        let (i, j) = (k / a.columns, k % a.columns);
        let is_read = if lower { i >= j } else { i <= j };
        if is_read {
            a.at(i, j)
        } else {
            adjoint.at(i, j)
        }
    };
    Matrix {
        entries: (0..a.entries.len()).map(entry).collect(),
        ..*a
    }
}

/// Vectors and values.
fn self_adjoint<T: Number>(a: &Matrix, vectors: bool) -> Option<(Matrix, Vec<C64>)> {
    if a.entries.is_empty() {
        return Some((a.clone(), Vec::new()));
    }
    let found = SelfAdjointEigen::new(load::<T>(a).as_ref(), Side::Lower).ok()?;
    let values = found.S().column_vector().iter().map(T::get).collect();
    let u = match vectors {
        true => matrix(found.U()),
        false => zeros(a.rows, a.columns),
    };
    Some((u, values))
}

/// Values, `u` and the adjoint of `v`.
fn singular<T: Number>(
    a: &Matrix,
    [left, right]: [usize; 2],
    vectors: bool,
) -> Option<(Vec<C64>, [Matrix; 2])> {
    if a.entries.is_empty() {
        let vectors = [identity(a.rows, left), identity(right, a.columns)];
        return Some((Vec::new(), vectors));
    }
    let is_full = left.max(right) > a.rows.min(a.columns);
    let decompose = if is_full { Svd::new } else { Svd::new_thin };
    let found = decompose(load::<T>(a).as_ref()).ok()?;
    let values = found.S().column_vector().iter().map(T::get).collect();
    let vectors = match vectors {
        true => [matrix(found.U()), matrix(found.V()).transposed(conjugate)],
        false => [zeros(a.rows, left), zeros(right, a.columns)],
    };
    Some((values, vectors))
}

impl Number for f64 {
    fn of(x: C64) -> Self {
        x.re
    }

    fn get(&self) -> C64 {
        C64::from(*self)
    }

    fn values(values: Vec<C64>) -> Vec<Matrix> {
        let re = values.iter().map(|x| C64::from(x.re));
        let im = values.iter().map(|x| C64::from(x.im));
        vec![row(re), row(im)]
    }

    fn general(a: &Matrix, wanted: [bool; 2]) -> Option<(Vec<C64>, [Matrix; 2])> {
        let (mut re, mut im) = (Diag::<f64>::zeros(a.rows), Diag::<f64>::zeros(a.rows));
        let packed = vectors::<f64>(a.rows, wanted, |[left, right], stack| {
            let (re, im) = (re.as_mut(), im.as_mut());
            let a = load::<f64>(a);
            evd_real(a.as_ref(), re, im, left, right, Par::Seq, stack, default())
        })?;
        let parts = re.column_vector().iter().zip(im.column_vector().iter());
        let values: Vec<C64> = parts.map(|(&re, &im)| C64::new(re, im)).collect();
        let vectors = packed.map(|x| normalised(of_pairs(&x, &values)));
        Some((values, vectors))
    }
}

impl Number for C64 {
    fn of(x: C64) -> Self {
        x
    }

    fn get(&self) -> C64 {
        *self
    }

    fn values(values: Vec<C64>) -> Vec<Matrix> {
        vec![row(values.into_iter())]
    }

    fn general(a: &Matrix, wanted: [bool; 2]) -> Option<(Vec<C64>, [Matrix; 2])> {
        let mut values = Diag::<C64>::zeros(a.rows);
        let vectors = vectors::<C64>(a.rows, wanted, |[left, right], stack| {
            let a = load::<C64>(a);
            let values = values.as_mut();
            evd_cplx(a.as_ref(), values, left, right, Par::Seq, stack, default())
        })?;
        let values = values.column_vector().iter().copied().collect();
        Some((values, vectors.map(normalised)))
    }
}

/// The left and the right vectors that a decomposition writes.
fn vectors<T: Number>(
    n: usize,
    wanted: [bool; 2],
    decompose: impl FnOnce([Option<MatMut<'_, T>>; 2], &mut MemStack) -> Result<(), EvdError>,
) -> Option<[Matrix; 2]> {
    let [left, right] = wanted.map(|is| match is {
        true => ComputeEigenvectors::Yes,
        false => ComputeEigenvectors::No,
    });
    let mut scratch = MemBuffer::new(evd_scratch::<T>(n, left, right, Par::Seq, default()));
    let mut written = wanted.map(|is| is.then(|| Mat::<T>::zeros(n, n)));
    let places = written.each_mut().map(|x| x.as_mut().map(Mat::as_mut));
    decompose(places, MemStack::new(&mut scratch)).ok()?;
    Some(written.map(|x| x.map_or_else(|| zeros(n, n), |x| matrix(x.as_ref()))))
}

/// The vectors of a real matrix: the two columns of conjugate values are the real and the
/// imaginary part of the first one's.
fn of_pairs(packed: &Matrix, values: &[C64]) -> Matrix {
    let mut vectors = packed.clone();
    let mut column = 0;
    while column < values.len() {
        if values[column].im == 0.0 || column + 1 == values.len() {
            column += 1;
            continue;
        }
        for i in 0..packed.rows {
            let both = C64::new(packed.at(i, column).re, packed.at(i, column + 1).re);
            *vectors.at_mut(i, column) = both;
            *vectors.at_mut(i, column + 1) = conjugate(both);
        }
        column += 2;
    }
    vectors
}

/// Columns of length 1, whose largest entries are real.
fn normalised(mut vectors: Matrix) -> Matrix {
    for j in 0..vectors.columns {
        let column: Vec<C64> = (0..vectors.rows).map(|i| vectors.at(i, j)).collect();
        let length = column.iter().map(C64::norm_sqr).sum::<f64>().sqrt();
        let largest = column
            .iter()
            .max_by(|a, b| a.norm_sqr().total_cmp(&b.norm_sqr()));
        let Some(&largest) = largest.filter(|x| x.norm_sqr() > 0.0) else {
            continue;
        };
        let turn = if largest.im == 0.0 {
            C64::from(1.0 / length)
        } else {
            conjugate(largest) / (largest.norm() * length)
        };
        for (i, &x) in column.iter().enumerate() {
            *vectors.at_mut(i, j) = x * turn;
        }
    }
    vectors
}

fn load<T: Number>(a: &Matrix) -> Mat<T> {
    Mat::from_fn(a.rows, a.columns, |i, j| T::of(a.at(i, j)))
}

fn matrix<T: Number>(x: MatRef<'_, T>) -> Matrix {
    let (rows, columns) = x.shape();
    let entry = |k: usize| x[(k / columns, k % columns)].get();
    Matrix {
        rows,
        columns,
        entries: (0..rows * columns).map(entry).collect(),
    }
}

/// A vector as a part of a result.
pub(super) fn row(entries: impl Iterator<Item = C64>) -> Matrix {
    let entries: Vec<C64> = entries.collect();
    Matrix {
        rows: 1,
        columns: entries.len(),
        entries,
    }
}

/// The vectors of a matrix without elements: any will do.
fn identity(rows: usize, columns: usize) -> Matrix {
    let mut matrix = zeros(rows, columns);
    for i in 0..rows.min(columns) {
        *matrix.at_mut(i, i) = C64::new(1.0, 0.0);
    }
    matrix
}

fn zeros(rows: usize, columns: usize) -> Matrix {
    Matrix {
        rows,
        columns,
        entries: vec![C64::default(); rows * columns],
    }
}
