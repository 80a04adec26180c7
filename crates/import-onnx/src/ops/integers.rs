//! Contractions of quantized operands.
//!
//! Operands stay 8-bit integers, which processors can multiply efficiently: `sum((a - z) b)` is
//! `sum(a b) - z sum(b)`, and the sums of constant weights are computed once. A zero point of the
//! weights is subtracted from the weights.

use super::products::{product, product_as, without_zero};
use super::windows::{convolve, convolve_as};
use crate::lower::{Call, Fold, Lowerer, Quantized, Result, Value};
use tegula_expr::Term;
use tegula_ir::ElementType;

/// Integers up to this magnitude are exact in f32.
const EXACT: i64 = 1 << 24;

fn is_byte(ty: ElementType) -> bool {
    matches!(ty, ElementType::S8 | ElementType::U8)
}

/// Whether the zero point is missing, or known to be 0.
fn is_zero(zero: Option<&Value>) -> bool {
    zero.is_none_or(|zero| {
        zero.integers()
            .is_some_and(|all| all.iter().all(|x| *x == 0))
    })
}

/// Whether the zero point is missing, or a single number.
fn is_scalar(zero: Option<&Value>) -> bool {
    zero.is_none_or(|zero| zero.count() == Some(1))
}

/// Weights minus their zero point, which is a single number or one for each slice along a
/// dimension. The result has 8-bit integers if the weights are `u8` and all zero points are known
/// to be 128, otherwise 16-bit integers.
fn centred(
    lower: &mut Lowerer<'_>,
    w: &Value,
    zero: Option<&Value>,
    along: usize,
) -> Result<Value> {
    if is_zero(zero) {
        return Ok(w.clone());
    }
    let Some(zero) = zero else {
        return Ok(w.clone());
    };
    let is_middle = zero
        .integers()
        .is_some_and(|all| all.iter().all(|x| *x == 128));
    let wide = lower.convert(w, ElementType::S16)?;
    let zero = lower.convert(zero, ElementType::S16)?;
    let zero = match (zero.rank(), zero.count()) {
        (_, Some(1)) => lower.reshape(&zero, &[])?,
        (1, _) => {
            w.size(along)?;
            let mut dims = vec![Term::constant(1); w.rank()];
            dims[along] = zero.dims[0].clone();
            lower.reshape(&zero, &dims)?
        }
        _ => zero,
    };
    let difference = lower.sub(&wide, &zero)?;
    match is_middle && w.ty == ElementType::U8 {
        true => lower.convert(&difference, ElementType::S8),
        false => Ok(difference),
    }
}

/// `sum - zero * sums`, where `zero` is a single number and `sums` are sums of the weights.
fn corrected(lower: &mut Lowerer<'_>, sum: &Value, zero: &Value, sums: &Value) -> Result<Value> {
    let zero = lower.convert(zero, ElementType::S32)?;
    let zero = lower.reshape(&zero, &[])?;
    let less = lower.mul(sums, &zero)?;
    lower.sub(sum, &less)
}

/// The matrix product of integers over the last two dimensions, with numpy's broadcasting, in s32.
pub(super) fn product_of(
    lower: &mut Lowerer<'_>,
    a: &Value,
    a_zero: Option<Value>,
    b: &Value,
    b_zero: Option<Value>,
) -> Result<Value> {
    let (rows, columns) = (a.rank().saturating_sub(2), b.rank().saturating_sub(1));
    let is_plain = is_byte(a.ty) && is_byte(b.ty) && a.rank() > 1 && b.rank() > 1;
    if !is_plain || !is_scalar(a_zero.as_ref()) {
        let a = without_zero(lower, a, a_zero, rows)?;
        let b = without_zero(lower, b, b_zero, columns)?;
        return product(lower, &a, &b);
    }
    let w = centred(lower, b, b_zero.as_ref(), columns)?;
    let sum = product_as(lower, a, &w, ElementType::S32)?;
    match a_zero {
        Some(zero) if !is_zero(Some(&zero)) => {
            let wide = lower.convert(&w, ElementType::S32)?;
            let sums = lower.reduce(&wide, Fold::Sum, &[columns - 1], true)?;
            corrected(lower, &sum, &zero, &sums)
        }
        _ => Ok(sum),
    }
}

/// A convolution of integers with a node's attributes, in s32. `zeros` are the zero points of the
/// array (a single number) and of the weights (a single number, or one for each output).
pub(super) fn convolution_of(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    w: &Value,
    zeros: [Option<Value>; 2],
) -> Result<Value> {
    let [x_zero, w_zero] = zeros;
    if !is_byte(x.ty) || !is_byte(w.ty) || !is_scalar(x_zero.as_ref()) || w.rank() < 3 {
        let x = without_zero(lower, x, x_zero, 1)?;
        let w = without_zero(lower, w, w_zero, 0)?;
        return convolve(lower, call, &x, &w);
    }
    let taps = w.dims[1..]
        .iter()
        .try_fold(1i64, |n, size| n.checked_mul(size.as_constant()?));
    let is_exact = taps.is_some_and(|taps| taps <= EXACT / (255 * 255));
    if call.int("group", 1) > 1 && is_exact {
        // A depthwise convolution uses products of floats, whose sums are exact.
        let x = without_zero(lower, x, x_zero, 1)?;
        let w = without_zero(lower, w, w_zero, 0)?;
        let x = lower.convert(&x, ElementType::F32)?;
        let w = lower.convert(&w, ElementType::F32)?;
        let sum = convolve(lower, call, &x, &w)?;
        return lower.convert(&sum, ElementType::S32);
    }
    let w = centred(lower, w, w_zero.as_ref(), 0)?;
    let around = match &x_zero {
        Some(zero) => lower.reshape(zero, &[])?,
        None => lower.like(x, 0.0)?,
    };
    let sum = convolve_as(lower, call, x, &w, &around, ElementType::S32)?;
    if is_zero(x_zero.as_ref()) {
        return Ok(sum);
    }
    let wide = lower.convert(&w, ElementType::S32)?;
    let axes: Vec<usize> = (1..w.rank()).collect();
    let sums = lower.reduce(&wide, Fold::Sum, &axes, false)?;
    let sums = lower.broadcast_in(&sums, &[1], &sum.dims)?;
    corrected(lower, &sum, &around, &sums)
}

/// Converts sums of products to the real numbers that they represent. `along` is the dimension of
/// the sums that the weights' scales belong to.
fn real(
    lower: &mut Lowerer<'_>,
    sum: &Value,
    x: &Quantized,
    w: &Quantized,
    along: usize,
) -> Result<Value> {
    let sum = lower.convert(sum, ElementType::F32)?;
    let x_scale = lower.reshape(&x.scale, &[])?;
    let w_scale = match w.axis {
        None => lower.reshape(&w.scale, &[])?,
        Some(_) => lower.broadcast_in(&w.scale, &[along], &sum.dims)?,
    };
    let scale = lower.mul(&w_scale, &x_scale)?;
    lower.mul(&sum, &scale)
}

/// The quantized forms of both operands, if the first has a single scale, and the second a single
/// one or one for each slice along `outputs`.
fn pair<'v>(a: &'v Value, b: &'v Value, outputs: usize) -> Option<(&'v Quantized, &'v Quantized)> {
    let (a, b) = (a.quantized.as_deref()?, b.quantized.as_deref()?);
    let fits = b.axis.is_none_or(|axis| axis == outputs);
    (a.axis.is_none() && fits).then_some((a, b))
}

/// A matrix product with numpy's broadcasting, computed on quantized operands; `None` if they are
/// not quantized.
pub(super) fn quantized_product(
    lower: &mut Lowerer<'_>,
    a: &Value,
    b: &Value,
) -> Result<Option<Value>> {
    if a.rank() < 2 || b.rank() < 2 {
        return Ok(None);
    }
    let Some((x, w)) = pair(a, b, b.rank() - 1) else {
        return Ok(None);
    };
    let sum = product_of(lower, &x.value, x.zero.clone(), &w.value, w.zero.clone())?;
    let along = sum.rank() - 1;
    real(lower, &sum, x, w, along).map(Some)
}

/// A product of two matrices along these dimensions, computed on quantized operands.
pub(super) fn quantized_dot(
    lower: &mut Lowerer<'_>,
    a: &Value,
    b: &Value,
    (of_a, of_b): (usize, usize),
) -> Result<Option<Value>> {
    let Some((x, w)) = pair(a, b, 1 - of_b) else {
        return Ok(None);
    };
    let order = |along: usize, last: bool| match (along == 1) == last {
        true => [0, 1],
        false => [1, 0],
    };
    let own = lower.transpose(&x.value, &order(of_a, true))?;
    let other = lower.transpose(&w.value, &order(of_b, false))?;
    let sum = product_of(lower, &own, x.zero.clone(), &other, w.zero.clone())?;
    real(lower, &sum, x, w, 1).map(Some)
}

/// A convolution computed on quantized operands. Depthwise convolutions are left to floats.
pub(super) fn quantized_convolution(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    kernel: &Value,
) -> Result<Option<Value>> {
    if call.int("group", 1) != 1 || kernel.rank() < 3 {
        return Ok(None);
    }
    let Some((a, w)) = pair(x, kernel, 0) else {
        return Ok(None);
    };
    let zeros = [a.zero.clone(), w.zero.clone()];
    let sum = convolution_of(lower, call, &a.value, &w.value, zeros)?;
    real(lower, &sum, a, w, 1).map(Some)
}
