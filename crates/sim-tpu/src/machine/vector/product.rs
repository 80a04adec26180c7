//! Matrix products of vectors.

use super::super::matrix;
use super::shape;
use super::value::{Lanes, PADDING, Vector, rounded};
use tegula_mosaic::ir::{DotDims, Precision};
use tegula_mosaic::types::Element;

/// A product added to an accumulator, and whether it sums padding with other elements.
///
/// If one operand is of integers and the other of floating-point numbers, the integers are
/// converted to f32 first, as Mosaic does. Products of floating-point numbers are summed in f32.
/// With `rounds` an f32 operand is first rounded to bf16, as the matrix units do at the default
/// precision; interpreters of kernels do not round.
pub(super) fn matmul(
    dims: &DotDims,
    precision: Precision,
    [(a, a_element, a_dims), (b, b_element, b_dims)]: [(&Vector, Element, &[i64]); 2],
    accumulator: &Vector,
    element: Element,
    rounds: bool,
) -> Result<(Vector, bool), String> {
    let free = |rank: usize, batch: &[i64], contracting: &[i64]| -> Vec<i64> {
        let all = 0..rank as i64;
        all.filter(|d| !batch.contains(d) && !contracting.contains(d))
            .collect()
    };
    let a_free = free(a_dims.len(), &dims.lhs_batch, &dims.lhs_contracting);
    let b_free = free(b_dims.len(), &dims.rhs_batch, &dims.rhs_contracting);
    let size = |of: &[i64], which: &[i64]| -> usize {
        which
            .iter()
            .map(|d| of[*d as usize].max(0) as usize)
            .product()
    };
    let (batch, m, k, n) = (
        size(a_dims, &dims.lhs_batch),
        size(a_dims, &a_free),
        size(a_dims, &dims.lhs_contracting),
        size(b_dims, &b_free),
    );
    // The operands as `[batch, m, k]` and `[batch, k, n]`.
    let left = turned(
        a,
        a_dims,
        &[&dims.lhs_batch, &a_free, &dims.lhs_contracting],
    );
    let right = turned(
        b,
        b_dims,
        &[&dims.rhs_batch, &dims.rhs_contracting, &b_free],
    );
    let mixed = a_element.is_float() != b_element.is_float();
    let (left, a_element) = extended(left, a_element, mixed);
    let (right, b_element) = extended(right, b_element, mixed);
    let lanes = match (&*left.lanes, &*right.lanes) {
        (Lanes::Float(x), Lanes::Float(y)) => {
            let cut = rounds && precision == Precision::Default;
            let single = |values: &Vec<f32>, element: Element| match cut && element == Element::F32
            {
                true => values.iter().map(|v| narrow(*v)).collect(),
                false => values.clone(),
            };
            let (x, y) = (single(x, a_element), single(y, b_element));
            let mut out = vec![0f32; batch * m * n];
            for i in 0..batch {
                if m * n * k > 0 {
                    let (x, y) = (
                        &x[i * m * k..(i + 1) * m * k],
                        &y[i * k * n..(i + 1) * k * n],
                    );
                    matrix::multiply(x, y, &mut out[i * m * n..(i + 1) * m * n], k, n);
                }
            }
            Lanes::Float(out)
        }
        (Lanes::Int(x), Lanes::Int(y)) => {
            let mut out = vec![0i32; batch * m * n];
            for i in 0..batch {
                for (row, out) in out[i * m * n..(i + 1) * m * n]
                    .chunks_mut(n.max(1))
                    .enumerate()
                {
                    for j in 0..k {
                        let factor = x[(i * m + row) * k + j];
                        let other = &y[(i * k + j) * n..(i * k + j + 1) * n];
                        for (sum, value) in out.iter_mut().zip(other) {
                            *sum = sum.wrapping_add(factor.wrapping_mul(*value));
                        }
                    }
                }
            }
            Lanes::Int(out)
        }
        _ => {
            return Err(
                "a product of integers and floating-point numbers is not supported".to_owned(),
            );
        }
    };
    let (marks, mixed) = marks(&left, &right, [batch, m, k, n]);
    let product = Vector::new(lanes).marked(marks);
    let product = ordered(dims, product, a_dims, b_dims, &a_free, &b_free);
    let sum = match (&*product.lanes, &*accumulator.lanes) {
        (Lanes::Float(x), Lanes::Float(y)) => {
            let sums = x.iter().zip(y).map(|(x, y)| x + y);
            Lanes::Float(rounded(element, sums.collect()))
        }
        (Lanes::Int(x), Lanes::Int(y)) => {
            Lanes::Int(x.iter().zip(y).map(|(x, y)| x.wrapping_add(*y)).collect())
        }
        _ => return Err("expected an accumulator of the product's kind".to_owned()),
    };
    let marks = super::elementwise::joined(&[&product, accumulator]);
    Ok((Vector::new(sum).marked(marks), mixed))
}

/// Integers as f32, if they are multiplied by floating-point numbers.
fn extended(x: Vector, element: Element, mixed: bool) -> (Vector, Element) {
    match &*x.lanes {
        Lanes::Int(values) if mixed => {
            let values = values.iter().map(|value| *value as f32).collect();
            let marks = x.marks.as_deref().cloned();
            (Vector::floats(values).marked(marks), Element::F32)
        }
        _ => (x, element),
    }
}

fn narrow(value: f32) -> f32 {
    f32::from_bits(u32::from(matrix::to_bf16(value)) << 16)
}

fn turned(x: &Vector, dims: &[i64], groups: &[&[i64]]) -> Vector {
    let order: Vec<i64> = groups
        .iter()
        .flat_map(|group| group.iter().copied())
        .collect();
    if order.iter().enumerate().all(|(i, d)| i as i64 == *d) {
        return x.clone();
    }
    shape::transpose(x, dims, &order)
}

/// The product `[batch, m, n]` with its dimensions in the order of the result.
fn ordered(
    dims: &DotDims,
    product: Vector,
    a_dims: &[i64],
    b_dims: &[i64],
    a_free: &[i64],
    b_free: &[i64],
) -> Vector {
    let batch = dims.lhs_batch.iter().map(|d| (0, *d, a_dims[*d as usize]));
    let rows = a_free.iter().map(|d| (0, *d, a_dims[*d as usize]));
    let columns = b_free.iter().map(|d| (1, *d, b_dims[*d as usize]));
    let have: Vec<(i64, i64, i64)> = batch.chain(rows).chain(columns).collect();
    let place = |&(operand, dim): &(i64, i64)| {
        // Either operand may name a batch dimension.
        let (operand, dim) = match dims
            .rhs_batch
            .iter()
            .position(|d| operand == 1 && *d == dim)
        {
            Some(at) => (0, dims.lhs_batch[at]),
            None => (operand, dim),
        };
        have.iter().position(|(o, d, _)| (*o, *d) == (operand, dim))
    };
    let order: Option<Vec<i64>> = dims
        .output
        .iter()
        .map(|pair| place(pair).map(|at| at as i64))
        .collect();
    let order = order.unwrap_or_default();
    if order.iter().enumerate().all(|(i, d)| i as i64 == *d) {
        return product;
    }
    let sizes: Vec<i64> = have.iter().map(|(_, _, size)| *size).collect();
    shape::transpose(&product, &sizes, &order)
}

/// The marks of the result, and whether an element sums padding with other elements.
fn marks(left: &Vector, right: &Vector, [batch, m, k, n]: [usize; 4]) -> (Option<Vec<u8>>, bool) {
    if left.marks.is_none() && right.marks.is_none() {
        return (None, false);
    }
    let mut mixed = false;
    let mut of = |vector: &Vector, rows: usize, place: &dyn Fn(usize, usize, usize) -> usize| {
        let mut all = vec![0u8; batch * rows];
        let Some(marks) = &vector.marks else {
            return all;
        };
        for i in 0..batch {
            for row in 0..rows {
                let run = (0..k).map(|j| marks[place(i, row, j)]);
                let padding = run.clone().filter(|m| m & PADDING != 0).count();
                mixed |= padding != 0 && padding != k;
                all[i * rows + row] = run.fold(0, |all, m| all | m);
            }
        }
        all
    };
    let rows = of(left, m, &|i, row, j| (i * m + row) * k + j);
    let columns = of(right, n, &|i, column, j| (i * k + j) * n + column);
    let mut all = Vec::with_capacity(batch * m * n);
    for i in 0..batch {
        for row in 0..m {
            for column in 0..n {
                all.push(rows[i * m + row] | columns[i * n + column]);
            }
        }
    }
    (Some(all), mixed)
}
