//! Backward errors: the magnitudes of the terms that sum to the entries of an operand.
//!
//! Another correct implementation computes factors and solutions that are exact for an operand that
//! differs by the errors of these sums (Higham, "Accuracy and Stability of Numerical Algorithms",
//! theorems 8.5, 9.3, 10.3 and 19.4). The factors themselves may differ by more: by a factor of the
//! operand's condition number.

use super::{C64, Matrix, Solve, cholesky, conjugate, lu, matrices, qr, triangular_solve};
use crate::error::{OpError, invalid};
use crate::numbers::to_i64s as numbers;
use tegula_ir::{Lapack, Literal, TransposeA};

/// For each entry of a routine's last operand, the sum of the absolute values of its terms (zero
/// for a solution that is not finite), and the number of terms.
pub(crate) fn magnitudes(
    routine: Lapack,
    operands: &[&Literal],
) -> Result<(Vec<f64>, usize), OpError> {
    let products: Vec<Matrix> = match (routine, operands) {
        (Lapack::Cholesky { lower }, [a]) => {
            let (_, factors) = matrices(&cholesky(a, lower)?)?;
            let product = |factor: &Matrix| {
                let other = factor.transposed(conjugate);
                match lower {
                    true => absolute_product(factor, &other),
                    false => absolute_product(&other, factor),
                }
            };
            factors.iter().map(product).collect()
        }
        (_, [a, b]) if let Some(flags) = Solve::of(routine) => {
            let (_, solutions) = matrices(&triangular_solve(a, b, flags)?)?;
            let (_, triangles) = matrices(a)?;
            let product = |(a, x): (&Matrix, &Matrix)| {
                let a = triangle(a, flags.lower, flags.unit_diagonal);
                let a = match flags.transpose_a {
                    TransposeA::NoTranspose => a,
                    TransposeA::Transpose | TransposeA::Adjoint => a.transposed(|x| x),
                };
                match flags.left_side {
                    true => absolute_product(&a, x),
                    false => absolute_product(x, &a),
                }
            };
            triangles.iter().zip(&solutions).map(product).collect()
        }
        (Lapack::Lu, [a]) => {
            let [factors, _, permutations] = lu(a)?;
            let (_, factors) = matrices(&factors)?;
            let permutations = numbers(&permutations);
            let rows = factors.first().map_or(1, |m| m.rows.max(1));
            let pairs = factors.iter().zip(permutations.chunks(rows));
            pairs
                .map(|(lu, rows)| product_of_factors(lu, rows))
                .collect()
        }
        (Lapack::Qr, [a]) => matrices(a)?.1.iter().map(qr::norms_of_columns).collect(),
        (Lapack::Reflections, [a, tau]) => return qr::sizes_of_reflections(a, tau),
        _ => return Err(invalid("the number of operands is not that of the routine")),
    };
    let terms = products.first().map_or(1, |m| m.rows.max(m.columns) + 1);
    let finite = |x: &C64| if x.re.is_finite() { x.re } else { 0.0 };
    let entries = products.iter().flat_map(|m| m.entries.iter().map(finite));
    Ok((entries.collect(), terms))
}

/// The named triangle, with ones on its diagonal if `unit_diagonal`.
fn triangle(a: &Matrix, lower: bool, unit_diagonal: bool) -> Matrix {
    let mut triangle = a.clone();
    for row in 0..a.rows {
        for column in 0..a.columns {
            if row == column && unit_diagonal {
                *triangle.at_mut(row, column) = C64::new(1.0, 0.0);
            } else if row != column && (column < row) != lower {
                *triangle.at_mut(row, column) = C64::default();
            }
        }
    }
    triangle
}

/// `|a| |b|`.
fn absolute_product(a: &Matrix, b: &Matrix) -> Matrix {
    let mut entries = Vec::with_capacity(a.rows * b.columns);
    for row in 0..a.rows {
        for column in 0..b.columns {
            let term = |k: usize| a.at(row, k).norm() * b.at(k, column).norm();
            entries.push(C64::new((0..a.columns).map(term).sum(), 0.0));
        }
    }
    Matrix {
        rows: a.rows,
        columns: b.columns,
        entries,
    }
}

/// `|l| |u|` of two factors stored in one matrix, with the rows permuted back.
fn product_of_factors(factors: &Matrix, rows: &[i64]) -> Matrix {
    let mut products = factors.clone();
    for (row, &from) in rows.iter().enumerate() {
        for column in 0..factors.columns {
            let term = |k: usize| {
                let left = match k == row {
                    true => 1.0,
                    false => factors.at(row, k).norm(),
                };
                left * factors.at(k, column).norm()
            };
            let sum = (0..=row.min(column)).map(term).sum();
            *products.at_mut(from as usize, column) = C64::new(sum, 0.0);
        }
    }
    products
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With positive matrices nothing cancels, so the magnitudes are the operand itself.
    #[test]
    fn of_positive_factors_the_magnitudes_are_the_operand() {
        let a = Literal::from_f32s(&[2, 2], &[4.0, 2.0, 2.0, 5.0]).unwrap();
        let b = Literal::from_f32s(&[2, 2], &[4.0, 8.0, 16.0, 20.0]).unwrap();
        let own = |routine, operands: &[&Literal]| magnitudes(routine, operands).unwrap().0;
        let close = |got: Vec<f64>, expected: [f64; 4]| {
            let same = got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5);
            assert!(same && got.len() == 4, "{got:?} {expected:?}");
        };
        for lower in [true, false] {
            close(own(Lapack::Cholesky { lower }, &[&a]), [4.0, 2.0, 2.0, 5.0]);
        }
        close(own(Lapack::Lu, &[&b]), [4.0, 8.0, 16.0, 20.0]);
        let solve = |left_side, lower, transpose_a| Lapack::TriangularSolve {
            left_side,
            lower,
            unit_diagonal: false,
            transpose_a,
        };
        close(
            own(solve(true, true, TransposeA::NoTranspose), &[&a, &b]),
            [4.0, 8.0, 16.0, 20.0],
        );
        close(
            own(solve(false, true, TransposeA::Transpose), &[&a, &b]),
            [4.0, 8.0, 16.0, 20.0],
        );
    }
}
