//! Quantization: small integers with a scale and a zero point.

use super::{Lowering, integers, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Quantized, Result, Value};
use crate::tensor::element_type;
use std::sync::Arc;
use tegula_expr::Term;
use tegula_ir::{ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "QuantizeLinear" => quantize,
        "DequantizeLinear" => dequantize,
        "DynamicQuantizeLinear" => dynamic,
        "QLinearMatMul" => q_mat_mul,
        "QLinearConv" => q_conv,
        "ConvInteger" => conv_integer,
        _ => return None,
    };
    Some(lowering)
}

/// A scale or zero point broadcast to the sizes of the array: it is a single number, one for each
/// slice along an axis, or one for each block along it.
fn spread<'a>(
    lower: &mut Lowerer<'a>,
    call: &Call<'_, 'a>,
    value: &Value,
    dims: &[Term],
) -> Result<Value> {
    if value.count() == Some(1) {
        let scalar = lower.reshape(value, &[])?;
        return lower.broadcast_to(&scalar, dims);
    }
    let axis = call.axis(1, dims.len())?;
    if value.rank() == 1 {
        return lower.broadcast_in(value, &[axis], dims);
    }
    let block = call.int("block_size", 0);
    if value.rank() != dims.len() || block < 1 {
        return Err(Error::input(
            "expected one scale, one for each slice, or one for each block",
        ));
    }
    // The dimension of blocks comes before that of positions within a block.
    let mut wide = value.dims.clone();
    wide.insert(axis + 1, Term::constant(block));
    let places: Vec<usize> = (0..value.rank())
        .map(|at| at + usize::from(at > axis))
        .collect();
    let repeated = lower.broadcast_in(value, &places, &wide)?;
    let mut whole = value.dims.clone();
    whole[axis] = whole[axis].mul(&Term::constant(block));
    let repeated = lower.reshape(&repeated, &whole)?;
    lower.slice(&repeated, axis, &Term::constant(0), &dims[axis], 1)
}

/// The smallest and the largest value of an integer type, as constants of the wider type.
fn bounds(lower: &Lowerer<'_>, ty: ElementType, wide: ElementType) -> Result<[Value; 2]> {
    let bound = |largest: bool| -> Result<Value> {
        let value = lower.extreme(ty, largest)?;
        let number = value.floats().unwrap_or_default();
        lower.scalar(wide, number.first().copied().unwrap_or_default())
    };
    Ok([bound(false)?, bound(true)?])
}

/// `saturate(round(x / scale) + zero)`.
pub(super) fn rounded(
    lower: &mut Lowerer<'_>,
    x: &Value,
    scale: &Value,
    zero: Option<&Value>,
    ty: ElementType,
) -> Result<Value> {
    let quotient = lower.div(x, scale)?;
    if ty.is_float() {
        return lower.convert(&quotient, ty);
    }
    let mut whole = lower.unary(Unary::RoundNearestEven, &quotient)?;
    if let Some(zero) = zero {
        let zero = lower.convert(zero, whole.ty)?;
        whole = lower.add(&whole, &zero)?;
    }
    let [low, high] = bounds(lower, ty, whole.ty)?;
    let whole = lower.max(&whole, &low)?;
    let whole = lower.min(&whole, &high)?;
    lower.convert(&whole, ty)
}

fn quantize<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let zero = call.optional(2);
    let ty = match (&zero, call.int("output_dtype", 0)) {
        (Some(zero), _) => zero.ty,
        (None, 0) => ElementType::U8,
        (None, number) => element_type(number)?,
    };
    let scale = lower.convert(&scale, x.ty)?;
    let scale = spread(lower, call, &scale, &x.dims)?;
    let zero = match zero {
        Some(zero) => Some(spread(lower, call, &zero, &x.dims)?),
        None => None,
    };
    one(rounded(lower, &x, &scale, zero.as_ref(), ty)?)
}

fn dequantize<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let mut wide = lower.convert(&x, scale.ty)?;
    if let Some(zero) = call.optional(2) {
        let zero = lower.convert(&zero, scale.ty)?;
        let zero = spread(lower, call, &zero, &x.dims)?;
        wide = lower.sub(&wide, &zero)?;
    }
    let ty = match call.int("output_dtype", 0) {
        0 => scale.ty,
        number => element_type(number)?,
    };
    let spread_scale = spread(lower, call, &scale, &x.dims)?;
    let whole = lower.mul(&wide, &spread_scale)?;
    let mut whole = lower.convert(&whole, ty)?;
    let axis = match scale.count() {
        Some(1) => Some(None),
        _ if scale.rank() == 1 => Some(Some(call.axis(1, x.rank())?)),
        _ => None,
    };
    // Products are computed on the integers.
    let is_small = matches!(x.ty, ElementType::U8 | ElementType::S8);
    if let (Some(axis), true, ElementType::F32) = (axis, is_small, ty) {
        let quantized = Quantized {
            zero: call.optional(2),
            value: x,
            scale,
            axis,
        };
        whole.quantized = Some(Arc::new(quantized));
    }
    one(whole)
}

fn dynamic<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let parts = dynamically_quantized(lower, &call.input(0)?)?;
    Ok(parts.into_iter().map(Item::from).collect())
}

/// Quantizes to bytes over the actual range of the elements. Returns the bytes, the scale and the
/// zero point.
pub(super) fn dynamically_quantized(lower: &mut Lowerer<'_>, x: &Value) -> Result<[Value; 3]> {
    let axes: Vec<usize> = (0..x.rank()).collect();
    let none = lower.like(x, 0.0)?;
    let low = lower.reduce(x, Fold::Min, &axes, false)?;
    let low = lower.min(&low, &none)?;
    let high = lower.reduce(x, Fold::Max, &axes, false)?;
    let high = lower.max(&high, &none)?;
    let width = lower.sub(&high, &low)?;
    let steps = lower.like(x, 255.0)?;
    let scale = lower.div(&width, &steps)?;
    let negative = lower.unary(Unary::Negate, &low)?;
    let zero = rounded(lower, &negative, &scale, None, ElementType::U8)?;
    let y = rounded(lower, x, &scale, Some(&zero), ElementType::U8)?;
    Ok([y, scale, zero])
}

/// The scales of a product's operands divided by that of the result, in f32.
fn product_scale(lower: &mut Lowerer<'_>, a: &Value, b: &Value, y: &Value) -> Result<Value> {
    let wide = ElementType::F32;
    let (a, b) = (lower.convert(a, wide)?, lower.convert(b, wide)?);
    let both = lower.mul(&a, &b)?;
    let y = lower.convert(y, wide)?;
    lower.div(&both, &y)
}

/// Converts a sum of products of integers to the result's scale and zero point.
fn requantized(
    lower: &mut Lowerer<'_>,
    sum: &Value,
    factor: &Value,
    zero: &Value,
) -> Result<Value> {
    let sum = lower.convert(sum, ElementType::F32)?;
    let y = lower.mul(&sum, factor)?;
    let one_ = lower.like(&y, 1.0)?;
    let zero_value = match zero.count() {
        Some(1) => lower.reshape(zero, &[])?,
        _ => zero.clone(),
    };
    rounded(lower, &y, &one_, Some(&zero_value), zero.ty)
}

fn q_mat_mul<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(3)?);
    let sum = integers::product_of(lower, &a, call.optional(2), &b, call.optional(5))?;
    let factor = product_scale(lower, &call.input(1)?, &call.input(4)?, &call.input(6)?)?;
    let zero = call.input(7)?;
    one(requantized(lower, &sum, &factor, &zero)?)
}

fn conv_integer<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let zeros = [call.optional(2), call.optional(3)];
    one(integers::convolution_of(lower, call, &x, &w, zeros)?)
}

fn q_conv<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, w) = (call.input(0)?, call.input(3)?);
    let zeros = [call.optional(2), call.optional(5)];
    let mut sum = integers::convolution_of(lower, call, &x, &w, zeros)?;
    if let Some(bias) = call.optional(8) {
        let bias = lower.convert(&bias, ElementType::S32)?;
        sum = super::windows::with_bias(lower, &sum, &bias)?;
    }
    let mut factor = product_scale(lower, &call.input(1)?, &call.input(4)?, &call.input(6)?)?;
    if factor.count() != Some(1) {
        // The factors are one per output channel.
        let all = factor
            .dims
            .iter()
            .fold(Term::constant(1), |n, size| n.mul(size));
        factor = lower.reshape(&factor, &[all])?;
        factor = lower.broadcast_in(&factor, &[1], &sum.dims)?;
    } else {
        factor = lower.reshape(&factor, &[])?;
    }
    let zero = call.input(7)?;
    one(requantized(lower, &sum, &factor, &zero)?)
}
