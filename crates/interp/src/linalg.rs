//! Cholesky, triangular solve, LU and QR, for real and complex matrices.
//!
//! Everything is computed in complex `f64` and rounded once at the end; a real matrix has zero
//! imaginary parts.

mod backward;
mod lapack;
mod qr;

use crate::dot::{load_complex, load_floats, store_complex};
use crate::error::{OpError, invalid, unsupported};
use crate::numbers::{from_f64s, from_i64s};
use crate::strided::{Sizes, product, sizes, to_i64s};
use tegula_ir::{ArrayShape, Category, ElementType, Lapack, Literal, TransposeA};
use tegula_scalar::{C64, divide};

pub(crate) use backward::magnitudes;
pub(crate) use lapack::lapack;

/// A matrix, row-major.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    entries: Vec<C64>,
}

impl Matrix {
    fn at(&self, row: usize, column: usize) -> C64 {
        self.entries[row * self.columns + column]
    }

    fn at_mut(&mut self, row: usize, column: usize) -> &mut C64 {
        &mut self.entries[row * self.columns + column]
    }

    /// The transpose, with `f` applied to each entry.
    fn transposed(&self, f: impl Fn(C64) -> C64) -> Self {
        let mut entries = Vec::with_capacity(self.entries.len());
        for column in 0..self.columns {
            entries.extend((0..self.rows).map(|row| f(self.at(row, column))));
        }
        Self {
            rows: self.columns,
            columns: self.rows,
            entries,
        }
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        for column in 0..self.columns {
            self.entries
                .swap(a * self.columns + column, b * self.columns + column);
        }
    }
}

/// The matrices in an array's last two dimensions.
fn matrices(x: &Literal) -> Result<(Sizes, Vec<Matrix>), OpError> {
    let dims = sizes(x);
    let [batch @ .., rows, columns] = dims.as_slice() else {
        return Err(unsupported(
            "expected operands with at least two dimensions",
        ));
    };
    let entries = match x.element_type().category() {
        Category::Complex => load_complex(x),
        Category::Float => (load_floats(x).into_iter())
            .map(|x| C64::new(x, 0.0))
            .collect(),
        _ => {
            return Err(unsupported(
                "expected operands of a floating-point or complex type",
            ));
        }
    };
    let size = rows * columns;
    let matrix = |b: usize| Matrix {
        rows: *rows,
        columns: *columns,
        entries: entries[b * size..(b + 1) * size].to_vec(),
    };
    Ok((batch.into(), (0..product(batch)).map(matrix).collect()))
}

/// An array that consists of the matrices.
fn store(ty: ElementType, dims: &[usize], matrices: &[Matrix]) -> Result<Literal, OpError> {
    let shape = ArrayShape::new(ty, &to_i64s(dims));
    let entries: Vec<C64> = matrices
        .iter()
        .flat_map(|m| m.entries.iter().copied())
        .collect();
    if ty.is_complex() {
        return store_complex(&shape, &entries);
    }
    from_f64s(&shape, &entries.iter().map(|x| x.re).collect::<Vec<_>>())
}

fn conjugate(x: C64) -> C64 {
    C64::new(x.re, -x.im)
}

/// Evaluates `cholesky(a)`: the triangular `l` with `l * adjoint(l) = a`, or `u` with `adjoint(u) *
/// u = a`. Only the named triangle of `a` is read; the other triangle of the result is zero. The
/// result is all NaN if `a` is not positive definite.
pub(crate) fn cholesky(a: &Literal, lower: bool) -> Result<Literal, OpError> {
    let (_, inputs) = matrices(a)?;
    let factor = |matrix: &Matrix| {
        if lower {
            return cholesky_lower(matrix);
        }
        cholesky_lower(&matrix.transposed(conjugate)).transposed(conjugate)
    };
    if inputs.iter().any(|matrix| matrix.rows != matrix.columns) {
        return Err(invalid("expected a square matrix"));
    }
    let factors: Vec<Matrix> = inputs.iter().map(factor).collect();
    store(a.element_type(), &sizes(a), &factors)
}

/// The Cholesky-Banachiewicz algorithm, row by row.
fn cholesky_lower(a: &Matrix) -> Matrix {
    let n = a.rows;
    let zero = C64::default();
    let mut l = Matrix {
        entries: vec![zero; n * n],
        ..*a
    };
    for i in 0..n {
        for j in 0..=i {
            let known: C64 = (0..j).map(|k| l.at(i, k) * conjugate(l.at(j, k))).sum();
            let rest = a.at(i, j) - known;
            *l.at_mut(i, j) = if i != j {
                rest / l.at(j, j).re
            } else if rest.re > 0.0 {
                C64::new(rest.re.sqrt(), 0.0)
            } else {
                l.entries.fill(C64::new(f64::NAN, 0.0));
                return l;
            };
        }
    }
    l
}

/// The attributes of a triangular solve.
#[derive(Clone, Copy)]
pub(crate) struct Solve {
    pub(crate) left_side: bool,
    pub(crate) lower: bool,
    pub(crate) unit_diagonal: bool,
    pub(crate) transpose_a: TransposeA,
}

impl Solve {
    /// The attributes of a LAPACK routine that solves.
    fn of(routine: Lapack) -> Option<Self> {
        match routine {
            Lapack::TriangularSolve {
                left_side,
                lower,
                unit_diagonal,
                transpose_a,
            } => Some(Self {
                left_side,
                lower,
                unit_diagonal,
                transpose_a,
            }),
            Lapack::Cholesky { .. } | Lapack::Lu | Lapack::Qr | Lapack::Reflections => None,
        }
    }

    pub(crate) fn routine(self) -> Lapack {
        let Self {
            left_side,
            lower,
            unit_diagonal,
            transpose_a,
        } = self;
        Lapack::TriangularSolve {
            left_side,
            lower,
            unit_diagonal,
            transpose_a,
        }
    }
}

/// Evaluates `triangular-solve(a, b)`: `x` with `op(a) x = b`, or `x op(a) = b`. Only the named
/// triangle of `a` is read, without its diagonal if that is ones.
pub(crate) fn triangular_solve(a: &Literal, b: &Literal, flags: Solve) -> Result<Literal, OpError> {
    let (a_batch, a_matrices) = matrices(a)?;
    let (b_batch, b_matrices) = matrices(b)?;
    let mut solutions = Vec::with_capacity(b_matrices.len());
    for (a, b) in a_matrices.iter().zip(&b_matrices) {
        let side = if flags.left_side { b.rows } else { b.columns };
        if a.rows != a.columns || a.rows != side || a_batch != b_batch {
            return Err(invalid(
                "expected a square coefficient matrix with the size and batch dimensions of the right-hand side",
            ));
        }
        solutions.push(solve(a, b, flags));
    }
    store(b.element_type(), &sizes(b), &solutions)
}

fn solve(a: &Matrix, b: &Matrix, flags: Solve) -> Matrix {
    let (a, mut lower) = match flags.transpose_a {
        TransposeA::NoTranspose => (a.clone(), flags.lower),
        TransposeA::Transpose => (a.transposed(|x| x), !flags.lower),
        TransposeA::Adjoint => (a.transposed(conjugate), !flags.lower),
    };
    if flags.left_side {
        return substitute(&a, b, lower, flags.unit_diagonal);
    }
    // x a = b is equivalent to transpose(a) transpose(x) = transpose(b).
    lower = !lower;
    let solution = substitute(
        &a.transposed(|x| x),
        &b.transposed(|x| x),
        lower,
        flags.unit_diagonal,
    );
    solution.transposed(|x| x)
}

/// Solves by forward or backward substitution.
fn substitute(a: &Matrix, b: &Matrix, lower: bool, unit_diagonal: bool) -> Matrix {
    let n = a.rows;
    let mut x = b.clone();
    for step in 0..n {
        let i = if lower { step } else { n - 1 - step };
        let known = if lower { 0..i } else { i + 1..n };
        for column in 0..x.columns {
            let sum: C64 = known.clone().map(|k| a.at(i, k) * x.at(k, column)).sum();
            let rest = x.at(i, column) - sum;
            *x.at_mut(i, column) = if unit_diagonal {
                rest
            } else {
                divide(rest, a.at(i, i))
            };
        }
    }
    x
}

/// Evaluates the custom call `LuDecomposition`: both factors in one array (the lower factor's unit
/// diagonal is left out), the row that each step swapped with, and the permutation of the rows that
/// all swaps make together: row `i` of `l * u` is row `permutation[i]` of `a`.
///
/// The pivot is the entry of largest `|re| + |im|`, the first one of equals, as in LAPACK's getrf.
pub(crate) fn lu(a: &Literal) -> Result<[Literal; 3], OpError> {
    let (batch, inputs) = matrices(a)?;
    let (rows, columns) = match sizes(a).as_slice() {
        [.., rows, columns] => (*rows, *columns),
        _ => return Err(invalid("expected an operand with at least two dimensions")),
    };
    let (mut factors, mut pivots, mut permutations) = (Vec::new(), Vec::new(), Vec::new());
    for mut matrix in inputs {
        let mut permutation: Vec<i64> = (0..rows as i64).collect();
        for step in 0..rows.min(columns) {
            let pivot = eliminate(&mut matrix, step);
            permutation.swap(step, pivot);
            pivots.push(pivot as i64);
        }
        permutations.extend(permutation);
        factors.push(matrix);
    }
    let integers = |size: usize, values: &[i64]| {
        let mut dims = to_i64s(&batch);
        dims.push(size as i64);
        from_i64s(&ArrayShape::new(ElementType::S32, &dims), values)
    };
    Ok([
        store(a.element_type(), &sizes(a), &factors)?,
        integers(rows.min(columns), &pivots)?,
        integers(rows, &permutations)?,
    ])
}

/// One step of Gaussian elimination; returns the row swapped with.
fn eliminate(matrix: &mut Matrix, step: usize) -> usize {
    let size = |x: C64| x.re.abs() + x.im.abs();
    let mut pivot = step;
    for row in step + 1..matrix.rows {
        if size(matrix.at(row, step)) > size(matrix.at(pivot, step)) {
            pivot = row;
        }
    }
    matrix.swap_rows(step, pivot);
    let diagonal = matrix.at(step, step);
    if size(diagonal) == 0.0 {
        return pivot;
    }
    for row in step + 1..matrix.rows {
        let factor = divide(matrix.at(row, step), diagonal);
        *matrix.at_mut(row, step) = factor;
        for column in step + 1..matrix.columns {
            let product = factor * matrix.at(step, column);
            *matrix.at_mut(row, column) -= product;
        }
    }
    pivot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
        let mut entries = Vec::new();
        for i in 0..a.rows {
            for j in 0..b.columns {
                entries.push((0..a.columns).map(|k| a.at(i, k) * b.at(k, j)).sum());
            }
        }
        Matrix {
            rows: a.rows,
            columns: b.columns,
            entries,
        }
    }

    fn sample(rows: usize, columns: usize, seed: f64) -> Matrix {
        let entry = |i: usize| {
            let i = i as f64 + seed;
            C64::new(libm::sin(i * 12.9), libm::cos(i * 7.7))
        };
        Matrix {
            rows,
            columns,
            entries: (0..rows * columns).map(entry).collect(),
        }
    }

    fn assert_close(a: &Matrix, b: &Matrix) {
        for (a, b) in a.entries.iter().zip(&b.entries) {
            assert!((a - b).norm() < 1e-12, "{a} {b}");
        }
    }

    /// `a` with ones or large entries on the diagonal, and zeros outside its triangle.
    fn triangle(a: &Matrix, lower: bool, unit: bool) -> Matrix {
        let mut a = a.clone();
        for i in 0..a.rows {
            for j in 0..a.columns {
                if (lower && j > i) || (!lower && j < i) {
                    *a.at_mut(i, j) = C64::default();
                }
            }
            *a.at_mut(i, i) = if unit { C64::new(1.0, 0.0) } else { a.at(i, i) };
        }
        a
    }

    #[test]
    fn every_combination_of_flags_solves_its_equation() {
        let mut a = sample(4, 4, 0.3);
        for i in 0..4 {
            *a.at_mut(i, i) += C64::new(3.0, 1.0);
        }
        for bits in 0..24 {
            let flags = Solve {
                left_side: bits & 1 != 0,
                lower: bits & 2 != 0,
                unit_diagonal: bits & 4 != 0,
                transpose_a: [
                    TransposeA::NoTranspose,
                    TransposeA::Transpose,
                    TransposeA::Adjoint,
                ][bits >> 3],
            };
            let b = if flags.left_side {
                sample(4, 3, 9.0)
            } else {
                sample(3, 4, 9.0)
            };
            let x = solve(&a, &b, flags);
            let t = triangle(&a, flags.lower, flags.unit_diagonal);
            let t = match flags.transpose_a {
                TransposeA::NoTranspose => t,
                TransposeA::Transpose => t.transposed(|x| x),
                TransposeA::Adjoint => t.transposed(conjugate),
            };
            let product = if flags.left_side {
                multiply(&t, &x)
            } else {
                multiply(&x, &t)
            };
            assert_close(&product, &b);
        }
    }

    #[test]
    fn cholesky_factors_a_hermitian_matrix() {
        let s = sample(5, 5, 1.1);
        let mut a = multiply(&s, &s.transposed(conjugate));
        for i in 0..5 {
            *a.at_mut(i, i) += C64::new(1.0, 0.0);
        }
        let l = cholesky_lower(&a);
        assert_close(&multiply(&l, &l.transposed(conjugate)), &a);
        *a.at_mut(3, 3) = C64::new(-1.0, 0.0);
        assert!(cholesky_lower(&a).entries.iter().all(|x| x.re.is_nan()));
    }

    #[test]
    fn lu_reconstructs_the_permuted_matrix() {
        let a = Literal::from_f64s(&[3, 3], &[0., 2., 1., 4., 0., -2., 1., 1., 1.]).unwrap();
        let [factors, pivots, permutation] = lu(&a).unwrap();
        assert_eq!(factors.as_f64s().unwrap()[..3], [4., 0., -2.]);
        assert_eq!(pivots.as_i32s(), Some(&[1, 1, 2][..]));
        assert_eq!(permutation.as_i32s(), Some(&[1, 0, 2][..]));
        assert_eq!(
            factors.as_f64s().unwrap()[3..],
            [0., 2., 1., 0.25, 0.5, 1.0]
        );
    }
}
