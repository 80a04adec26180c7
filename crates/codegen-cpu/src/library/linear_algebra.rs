//! Cholesky, triangular solves and LU through the `faer` library, one matrix of
//! the batch after the other.

use faer::linalg::solvers::PartialPivLu;
use faer::linalg::triangular_solve as solve;
use faer::traits::ComplexField;
use faer::traits::ext::ComplexFieldExt;
use faer::{MatMut, MatRef, Par, Side};
use tegula_ir::TransposeA;

/// A scalar that matrices here are made of; all its bits are its value.
pub(crate) trait Scalar: ComplexField + Copy {
    /// What a factor of a matrix that has none is filled with.
    const NAN: Self;
    const ZERO: Self;
}

impl Scalar for f32 {
    const NAN: Self = f32::NAN;
    const ZERO: Self = 0.0;
}

impl Scalar for f64 {
    const NAN: Self = f64::NAN;
    const ZERO: Self = 0.0;
}

impl Scalar for faer::c32 {
    const NAN: Self = Self::new(f32::NAN, 0.0);
    const ZERO: Self = Self::new(0.0, 0.0);
}

impl Scalar for faer::c64 {
    const NAN: Self = Self::new(f64::NAN, 0.0);
    const ZERO: Self = Self::new(0.0, 0.0);
}

/// The triangular factor of each `n` by `n` matrix; the other triangle is zero.
/// NaN throughout for a matrix that is not positive definite.
pub(crate) fn cholesky<T: Scalar>(n: usize, lower: bool, input: &[T], output: &mut [T]) {
    if n == 0 {
        return;
    }
    for (a, out) in input
        .chunks_exact(n * n)
        .zip(output.chunks_exact_mut(n * n))
    {
        let a = MatRef::from_row_major_slice(a, n, n);
        let side = if lower { Side::Lower } else { Side::Upper };
        match a.llt(side) {
            Ok(factor) => {
                let l = factor.L();
                for i in 0..n {
                    for j in 0..n {
                        // The upper factor is the adjoint of the lower one.
                        out[i * n + j] = match (lower, i.cmp(&j)) {
                            (true, std::cmp::Ordering::Less) => T::ZERO,
                            (false, std::cmp::Ordering::Greater) => T::ZERO,
                            (true, _) => l[(i, j)],
                            (false, _) => l[(j, i)].conj(),
                        };
                    }
                }
            }
            Err(_) => out.fill(T::NAN),
        }
    }
}

/// The flags of a triangular solve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SolveFlags {
    pub left_side: bool,
    pub lower: bool,
    pub unit_diagonal: bool,
    pub transpose_a: TransposeA,
}

/// Solves `op(a) x = b` or `x op(a) = b` for each pair of the batch; `b` has `rows`
/// by `columns` elements and is replaced by the solution.
pub(crate) fn triangular_solve<T: Scalar>(
    rows: usize,
    columns: usize,
    flags: SolveFlags,
    a: &[T],
    b: &mut [T],
) {
    let n = if flags.left_side { rows } else { columns };
    if rows == 0 || columns == 0 {
        return;
    }
    for (a, b) in a
        .chunks_exact(n * n)
        .zip(b.chunks_exact_mut(rows * columns))
    {
        // An adjoint is a transpose of conjugates.
        let conjugated: Vec<T>;
        let a = if flags.transpose_a == TransposeA::Adjoint {
            conjugated = a.iter().map(T::conj).collect();
            &conjugated
        } else {
            a
        };
        let mut matrix = MatRef::from_row_major_slice(a, n, n);
        let mut lower = flags.lower;
        if flags.transpose_a != TransposeA::NoTranspose {
            (matrix, lower) = (matrix.transpose(), !lower);
        }
        let mut right = MatMut::from_row_major_slice_mut(b, rows, columns);
        if !flags.left_side {
            // x a = b is transpose(a) transpose(x) = transpose(b).
            (matrix, lower) = (matrix.transpose(), !lower);
            right = right.transpose_mut();
        }
        match (lower, flags.unit_diagonal) {
            (true, true) => solve::solve_unit_lower_triangular_in_place(matrix, right, Par::Seq),
            (true, false) => solve::solve_lower_triangular_in_place(matrix, right, Par::Seq),
            (false, true) => solve::solve_unit_upper_triangular_in_place(matrix, right, Par::Seq),
            (false, false) => solve::solve_upper_triangular_in_place(matrix, right, Par::Seq),
        }
    }
}

/// Gaussian elimination of one matrix in its place, as LAPACK does it: a column without
/// a pivot stays as it is.
fn eliminate<T: Scalar>(
    [rows, columns]: [usize; 2],
    a: &mut [T],
    pivots: &mut [i32],
    permutation: &mut [i32],
) {
    (0..).zip(&mut *permutation).for_each(|(i, slot)| *slot = i);
    for (step, slot) in pivots.iter_mut().enumerate() {
        let size = |row: usize| a[row * columns + step].abs1();
        let larger = |best: usize, row| if size(row) > size(best) { row } else { best };
        let pivot = (step + 1..rows).fold(step, larger);
        *slot = pivot as i32;
        permutation.swap(step, pivot);
        for column in 0..columns {
            a.swap(step * columns + column, pivot * columns + column);
        }
        let diagonal = a[step * columns + step];
        if diagonal == T::ZERO {
            continue;
        }
        let inverse = diagonal.recip();
        let (above, below) = a.split_at_mut((step + 1) * columns);
        let pivot_row = &above[step * columns..];
        for row in below.chunks_exact_mut(columns) {
            let factor = row[step] * inverse;
            row[step] = factor;
            for column in step + 1..columns {
                row[column] -= factor * pivot_row[column];
            }
        }
    }
}

/// Both factors of each `rows` by `columns` matrix in one array, the row each step
/// swapped with, and the permutation that all swaps make.
pub(crate) fn lu<T: Scalar>(
    rows: usize,
    columns: usize,
    input: &[T],
    factors: &mut [T],
    pivots: &mut [i32],
    permutations: &mut [i32],
) {
    let steps = rows.min(columns);
    if steps == 0 {
        for permutation in permutations.chunks_exact_mut(rows.max(1)) {
            (0..).zip(permutation).for_each(|(i, slot)| *slot = i);
        }
        return;
    }
    let size = rows * columns;
    for (i, (a, out)) in input
        .chunks_exact(size)
        .zip(factors.chunks_exact_mut(size))
        .enumerate()
    {
        let permutation = &mut permutations[i * rows..][..rows];
        let pivots = &mut pivots[i * steps..][..steps];
        let lu = PartialPivLu::new(MatRef::from_row_major_slice(a, rows, columns));
        // The library divides by a pivot that is zero.
        if (0..steps).any(|i| !lu.U()[(i, i)].is_finite() || lu.U()[(i, i)] == T::ZERO) {
            out.copy_from_slice(a);
            eliminate([rows, columns], out, pivots, permutation);
            continue;
        }
        for row in 0..rows {
            for column in 0..columns {
                out[row * columns + column] = if column < row {
                    lu.L()[(row, column)]
                } else {
                    lu.U()[(row, column)]
                };
            }
        }
        let (forward, _) = lu.P().arrays();
        for (slot, &row) in permutation.iter_mut().zip(forward) {
            *slot = row as i32;
        }
        // The swaps that lead to the permutation are determined by it.
        let mut order: Vec<i32> = (0..rows as i32).collect();
        for (step, pivot) in pivots.iter_mut().enumerate() {
            let at = order
                .iter()
                .position(|&row| row == permutation[step])
                .unwrap_or(step);
            order.swap(step, at);
            *pivot = at as i32;
        }
    }
}
