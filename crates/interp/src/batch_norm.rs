//! `batch-norm-training`, `-inference` and `-grad`, over all dimensions but one.
//!
//! The results are computed in `f64` and rounded once. The formulas are those of XLA's operation
//! semantics, with the biased variance.

use crate::error::{OpError, invalid};
use crate::movement::position;
use crate::numbers::{from_f64s, to_f64s};
use crate::strided::{product, sizes};
use tegula_ir::{ArrayShape, Literal};

/// An array whose elements each belong to a feature.
struct Features<'a> {
    array: &'a Literal,
    values: Vec<f64>,
    count: usize,
    /// The number of adjacent elements of the same feature.
    inner: usize,
}

impl<'a> Features<'a> {
    fn new(array: &'a Literal, feature_index: i64) -> Result<Self, OpError> {
        let dims = sizes(array);
        let dimension = position(feature_index, dims.len())?;
        if !array.element_type().is_float() {
            return Err(invalid("expected an operand of a floating-point type"));
        }
        Ok(Self {
            array,
            values: to_f64s(array),
            count: dims[dimension],
            inner: product(&dims[dimension + 1..]),
        })
    }

    fn feature(&self, i: usize) -> usize {
        i / self.inner % self.count
    }

    /// The number of elements of each feature.
    fn elements(&self) -> f64 {
        self.values.len() as f64 / self.count as f64
    }

    /// For each feature, the sum of `f(feature, position)` over its elements.
    fn sums(&self, f: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.count];
        for i in 0..self.values.len() {
            let feature = self.feature(i);
            sums[feature] += f(feature, i);
        }
        sums
    }

    /// An array whose elements are `f(feature, position)`.
    fn map(&self, f: impl Fn(usize, usize) -> f64) -> Result<Literal, OpError> {
        let values: Vec<f64> = (0..self.values.len())
            .map(|i| f(self.feature(i), i))
            .collect();
        from_f64s(self.array.shape(), &values)
    }

    /// The values of an operand that has one element for each feature.
    fn operand(&self, x: &Literal) -> Result<Vec<f64>, OpError> {
        if x.len() != self.count || !x.element_type().is_float() {
            return Err(invalid(
                "expected a floating-point operand with one element per feature",
            ));
        }
        Ok(to_f64s(x))
    }

    /// A vector with one element for each feature, of the scale's type.
    fn result(&self, scale: &Literal, values: &[f64]) -> Result<Literal, OpError> {
        let shape = ArrayShape::new(scale.element_type(), &[self.count as i64]);
        from_f64s(&shape, values)
    }
}

/// `(normalised, mean, variance)` of `x`.
pub(crate) fn training(
    x: &Literal,
    scale: &Literal,
    offset: &Literal,
    epsilon: f32,
    feature_index: i64,
) -> Result<[Literal; 3], OpError> {
    let x = Features::new(x, feature_index)?;
    let ty = scale;
    let (scale, offset) = (x.operand(scale)?, x.operand(offset)?);
    let n = x.elements();
    let means: Vec<f64> = x
        .sums(|_, i| x.values[i])
        .iter()
        .map(|sum| sum / n)
        .collect();
    let squares = x.sums(|f, i| (x.values[i] - means[f]).powi(2));
    let variances: Vec<f64> = squares.iter().map(|sum| sum / n).collect();
    let normalised = x.map(|f, i| {
        (x.values[i] - means[f]) / (variances[f] + f64::from(epsilon)).sqrt() * scale[f] + offset[f]
    })?;
    Ok([normalised, x.result(ty, &means)?, x.result(ty, &variances)?])
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + offset`.
pub(crate) fn inference(
    operands: [&Literal; 5],
    epsilon: f32,
    feature_index: i64,
) -> Result<Literal, OpError> {
    let [x, scale, offset, mean, variance] = operands;
    let x = Features::new(x, feature_index)?;
    let (scale, offset) = (x.operand(scale)?, x.operand(offset)?);
    let (mean, variance) = (x.operand(mean)?, x.operand(variance)?);
    x.map(|f, i| {
        (x.values[i] - mean[f]) / (variance[f] + f64::from(epsilon)).sqrt() * scale[f] + offset[f]
    })
}

/// The magnitude of the terms of each element of a normalised array (the scaled part and the
/// offset, which may cancel), and a number of terms for which the error of such a sum is that of
/// the scaled part: four operations before the sum, each rounded.
pub(crate) fn magnitudes(
    normalised: &Literal,
    offset: &Literal,
    feature_index: i64,
) -> Result<(Vec<f64>, usize), OpError> {
    let x = Features::new(normalised, feature_index)?;
    let offset = x.operand(offset)?;
    let of = |(i, value): (usize, &f64)| {
        let offset = offset[x.feature(i)];
        (value - offset).abs() + offset.abs()
    };
    Ok((x.values.iter().enumerate().map(of).collect(), 16))
}

/// The magnitude of the terms that the mean and the variance of each feature sum, and their number.
pub(crate) fn moment_magnitudes(
    x: &Literal,
    mean: &Literal,
    feature_index: i64,
) -> Result<([Vec<f64>; 2], usize), OpError> {
    let x = Features::new(x, feature_index)?;
    let mean = x.operand(mean)?;
    let n = x.elements();
    let of_mean = x.sums(|_, i| x.values[i].abs() / n);
    let of_variance = x.sums(|f, i| (x.values[i].abs() + mean[f].abs()).powi(2) / n);
    Ok(([of_mean, of_variance], n as usize))
}

/// The gradients with respect to the operand, the scale and the offset.
pub(crate) fn gradient(
    operands: [&Literal; 5],
    epsilon: f32,
    feature_index: i64,
) -> Result<[Literal; 3], OpError> {
    let [x, scale, mean, variance, grad] = operands;
    let x = Features::new(x, feature_index)?;
    let ty = scale;
    let (scale, mean, variance) = (x.operand(scale)?, x.operand(mean)?, x.operand(variance)?);
    if grad.shape() != x.array.shape() {
        return Err(invalid("expected a gradient of the first operand's shape"));
    }
    let grad = to_f64s(grad);
    let n = x.elements();
    let spread: Vec<f64> = variance.iter().map(|v| v + f64::from(epsilon)).collect();
    let grad_sums = x.sums(|_, i| grad[i]);
    let moments = x.sums(|f, i| grad[i] * (x.values[i] - mean[f]));
    let grad_x = x.map(|f, i| {
        let centred = x.values[i] - mean[f];
        let rest = n * grad[i] - grad_sums[f] - centred / spread[f] * moments[f];
        scale[f] / spread[f].sqrt() / n * rest
    })?;
    let grad_scale: Vec<f64> = (moments.iter().zip(&spread))
        .map(|(m, s)| m / s.sqrt())
        .collect();
    Ok([
        grad_x,
        x.result(ty, &grad_scale)?,
        x.result(ty, &grad_sums)?,
    ])
}

/// The magnitude of the terms that each gradient's elements sum, and their number: the elements of
/// a feature, each computed by a few operations.
pub(crate) fn gradient_magnitudes(
    operands: [&Literal; 5],
    epsilon: f32,
    feature_index: i64,
) -> Result<([Vec<f64>; 3], usize), OpError> {
    let [x, scale, mean, variance, grad] = operands;
    let x = Features::new(x, feature_index)?;
    let (scale, mean, variance) = (x.operand(scale)?, x.operand(mean)?, x.operand(variance)?);
    let grad = to_f64s(grad);
    let n = x.elements();
    let spread: Vec<f64> = variance.iter().map(|v| v + f64::from(epsilon)).collect();
    let centred = |f: usize, i: usize| x.values[i].abs() + mean[f].abs();
    let grad_sums = x.sums(|_, i| grad[i].abs());
    let moments = x.sums(|f, i| grad[i].abs() * centred(f, i));
    let of = |i: usize| {
        let f = x.feature(i);
        let rest = n * grad[i].abs() + grad_sums[f] + centred(f, i) / spread[f] * moments[f];
        (scale[f] / spread[f].sqrt() / n).abs() * rest
    };
    let grad_x = (0..x.values.len()).map(of).collect();
    let grad_scale = moments.iter().zip(&spread).map(|(m, s)| m / s.sqrt());
    Ok(([grad_x, grad_scale.collect(), grad_sums], n as usize + 8))
}
