//! QR decompositions of real matrices by Householder reflections, in the form of LAPACK's `geqrf`
//! and `orgqr`.

use super::{Matrix, matrices, store};
use crate::dot::load_floats;
use crate::error::{OpError, invalid};
use crate::numbers::from_f64s;
use crate::strided::{sizes, to_i64s};
use tegula_ir::{ArrayShape, Literal};
use tegula_scalar::C64;

/// The upper triangle with the reflections' vectors below it, and the factor of each reflection.
pub(super) fn decomposition(a: &Literal) -> Result<Vec<Literal>, OpError> {
    let (batch, mut inside) = matrices(a)?;
    let mut factors = Vec::new();
    for matrix in &mut inside {
        let count = matrix.rows.min(matrix.columns);
        factors.extend((0..count).map(|step| reflect(matrix, step)));
    }
    let [.., rows, columns] = sizes(a)[..] else {
        return Err(invalid("expected an operand with at least two dimensions"));
    };
    let mut dims = to_i64s(&batch);
    dims.push(rows.min(columns) as i64);
    let factors = from_f64s(&ArrayShape::new(a.element_type(), &dims), &factors)?;
    Ok(vec![store(a.element_type(), &sizes(a), &inside)?, factors])
}

/// Makes a column zero below the diagonal; returns the factor of the reflection.
fn reflect(a: &mut Matrix, step: usize) -> f64 {
    let below: f64 = (step + 1..a.rows).map(|i| a.at(i, step).re.powi(2)).sum();
    let alpha = a.at(step, step).re;
    if below == 0.0 {
        return 0.0;
    }
    let length = (alpha * alpha + below).sqrt();
    let beta = if alpha < 0.0 { length } else { -length };
    let factor = (beta - alpha) / beta;
    for row in step + 1..a.rows {
        *a.at_mut(row, step) /= alpha - beta;
    }
    *a.at_mut(step, step) = C64::new(beta, 0.0);
    let vector: Vec<f64> = (step + 1..a.rows).map(|i| a.at(i, step).re).collect();
    apply(a, &vector, factor, step, step + 1);
    factor
}

/// Applies a reflection to the columns from `first` on; its vector is 1 at `step` and `vector`
/// below.
fn apply(a: &mut Matrix, vector: &[f64], factor: f64, step: usize, first: usize) {
    for column in first..a.columns {
        let below = (vector.iter().enumerate()).map(|(i, v)| v * a.at(step + 1 + i, column).re);
        let sum = factor * (a.at(step, column).re + below.sum::<f64>());
        *a.at_mut(step, column) -= sum;
        for (i, v) in vector.iter().enumerate() {
            *a.at_mut(step + 1 + i, column) -= v * sum;
        }
    }
}

/// The first columns of the product of the reflections whose vectors are stored below the diagonal.
pub(super) fn reflections(a: &Literal, factors: &Literal) -> Result<Vec<Literal>, OpError> {
    let (batch, inputs) = matrices(a)?;
    let count = sizes(factors).last().copied().unwrap_or_default();
    let factors = load_floats(factors);
    if inputs.iter().any(|m| count > m.columns.min(m.rows))
        || factors.len() != count * batch.iter().product::<usize>()
    {
        return Err(invalid(
            "expected at most as many reflection factors as rows and columns, for each matrix of the batch",
        ));
    }
    let mut products = Vec::with_capacity(inputs.len());
    for (index, a) in inputs.iter().enumerate() {
        let mut q = Matrix {
            entries: vec![C64::default(); a.entries.len()],
            ..*a
        };
        for i in 0..a.rows.min(a.columns) {
            *q.at_mut(i, i) = C64::new(1.0, 0.0);
        }
        for step in (0..count).rev() {
            let vector: Vec<f64> = (step + 1..a.rows).map(|i| a.at(i, step).re).collect();
            apply(&mut q, &vector, factors[index * count + step], step, 0);
        }
        products.push(q);
    }
    Ok(vec![store(a.element_type(), &sizes(a), &products)?])
}

/// The magnitude that each entry's error of a decomposition is relative to: the length of its
/// column.
pub(super) fn norms_of_columns(a: &Matrix) -> Matrix {
    let length = |column| {
        let squares = (0..a.rows).map(|row| a.at(row, column).norm_sqr());
        C64::new(squares.sum::<f64>().sqrt(), 0.0)
    };
    let lengths: Vec<C64> = (0..a.columns).map(length).collect();
    Matrix {
        entries: lengths.repeat(a.rows),
        ..*a
    }
}

/// The same for the factors of reflections, which are between 0 and 2: how far their product is
/// from orthogonal.
pub(super) fn sizes_of_reflections(
    a: &Literal,
    factors: &Literal,
) -> Result<(Vec<f64>, usize), OpError> {
    let [.., rows, _] = sizes(a)[..] else {
        return Err(invalid("expected an operand with at least two dimensions"));
    };
    let magnitudes = load_floats(factors).iter().map(|tau| tau.abs()).collect();
    Ok((magnitudes, rows + 1))
}
