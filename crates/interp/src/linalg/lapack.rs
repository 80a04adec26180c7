//! LAPACK routines as custom calls.

use super::{Matrix, Solve, cholesky, lu, matrices, qr, store, triangular_solve};
use crate::error::{OpError, invalid};
use crate::numbers::{from_i64s, to_i64s as numbers};
use crate::strided::{sizes, to_i64s};
use tegula_ir::{ArrayShape, ElementType, Lapack, Literal};

/// Evaluates a LAPACK routine; returns its results.
pub(crate) fn lapack(routine: Lapack, operands: &[&Literal]) -> Result<Vec<Literal>, OpError> {
    match (routine, operands) {
        (_, [a, b]) if let Some(flags) = Solve::of(routine) => {
            Ok(vec![triangular_solve(a, b, flags)?])
        }
        (Lapack::Cholesky { lower }, [a]) => potrf(a, lower),
        (Lapack::Lu, [a]) => getrf(a),
        (Lapack::Qr, [a]) => qr::decomposition(a),
        (Lapack::Reflections, [a, tau]) => qr::reflections(a, tau),
        _ => Err(invalid("the number of operands is not that of the routine")),
    }
}

/// Cholesky: the factor is stored in `a`; `info` is 1 if the matrix has no factor (LAPACK returns
/// the number of the failing minor).
fn potrf(a: &Literal, lower: bool) -> Result<Vec<Literal>, OpError> {
    let (batch, mut inside) = matrices(a)?;
    let (_, factors) = matrices(&cholesky(a, lower)?)?;
    let mut info = Vec::new();
    for (matrix, factor) in inside.iter_mut().zip(&factors) {
        let rows = matrix.rows;
        for (row, column) in (0..rows).flat_map(|i| (0..rows).map(move |j| (i, j))) {
            if if lower { row >= column } else { row <= column } {
                *matrix.at_mut(row, column) = factor.at(row, column);
            }
        }
        let is_none = |i: usize| factor.at(i, i).re.is_nan();
        info.push(i64::from((0..rows).any(is_none)));
    }
    let factor = store(a.element_type(), &sizes(a), &inside)?;
    Ok(vec![factor, of_batch(&batch, &info)?])
}

fn getrf(a: &Literal) -> Result<Vec<Literal>, OpError> {
    let [factors, pivots, _] = lu(a)?;
    let (batch, matrices) = matrices(&factors)?;
    let exchanged: Vec<i64> = numbers(&pivots).iter().map(|row| row + 1).collect();
    let exchanged = from_i64s(pivots.shape(), &exchanged)?;
    let first_zero = |m: &Matrix| {
        let zero =
            (0..m.rows.min(m.columns)).find(|&i| m.at(i, i).re == 0.0 && m.at(i, i).im == 0.0);
        zero.map_or(0, |i| i as i64 + 1)
    };
    let info: Vec<i64> = matrices.iter().map(first_zero).collect();
    Ok(vec![factors, exchanged, of_batch(&batch, &info)?])
}

fn of_batch(batch: &[usize], values: &[i64]) -> Result<Literal, OpError> {
    from_i64s(&ArrayShape::new(ElementType::S32, &to_i64s(batch)), values)
}
