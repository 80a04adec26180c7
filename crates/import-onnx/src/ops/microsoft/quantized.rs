//! Operators on quantized tensors, with a scale and a zero point for each operand and the result.

use super::super::elementwise::activate;
use super::super::integers::product_of;
use super::super::products::without_zero;
use super::super::quantization::{dynamically_quantized, rounded};
use super::super::recurrent::dynamic_lstm;
use super::super::{Lowering, one, standard};
use super::NEWEST;
use super::products::{channels_first, channels_last, only};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_ir::ElementType;

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "QLinearAdd" | "QLinearMul" => binary,
        "QLinearSigmoid" | "QLinearLeakyRelu" => activation,
        "QLinearSoftmax" => softmax,
        "QLinearAveragePool" | "QLinearGlobalAveragePool" => pool,
        "QLinearReduceMean" => mean,
        "QLinearConcat" => concat,
        "QLinearWhere" => choose,
        "QLinearConv" => convolution,
        "QGemm" => gemm,
        "DynamicQuantizeMatMul" => dynamic_mat_mul,
        "MatMulIntegerToFloat" => mat_mul_to_float,
        "DynamicQuantizeLSTM" => dynamic_lstm,
        "MulInteger" => multiply,
        "ReduceSumInteger" => sum,
        _ => return None,
    };
    Some(lowering)
}

/// A scale as an f32 scalar.
fn scale_at(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, at: usize) -> Result<Value> {
    let scale = lower.convert(&call.input(at)?, ElementType::F32)?;
    match scale.count() {
        Some(1) => lower.reshape(&scale, &[]),
        _ => Ok(scale),
    }
}

fn zero_at(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, at: usize) -> Result<Option<Value>> {
    match call.optional(at) {
        Some(zero) if zero.count() == Some(1) => Ok(Some(lower.reshape(&zero, &[])?)),
        zero => Ok(zero),
    }
}

/// Dequantizes the operand `at`; its scale and zero point are the next inputs.
fn real(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, at: usize) -> Result<Value> {
    let x = call.input(at)?;
    let wide = lower.convert(&x, ElementType::F32)?;
    let wide = match zero_at(lower, call, at + 2)? {
        Some(zero) => {
            let zero = lower.convert(&zero, ElementType::F32)?;
            lower.sub(&wide, &zero)?
        }
        None => wide,
    };
    let scale = scale_at(lower, call, at + 1)?;
    lower.mul(&wide, &scale)
}

/// Quantizes a tensor; the scale is the input `at`, the zero point the next one.
fn stored(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    y: &Value,
    at: usize,
    ty: ElementType,
) -> Result<Value> {
    let scale = scale_at(lower, call, at)?;
    let zero = zero_at(lower, call, at + 1)?;
    rounded(lower, y, &scale, zero.as_ref(), ty)
}

fn binary<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (real(lower, call, 0)?, real(lower, call, 3)?);
    let y = match call.node.op {
        "QLinearAdd" => lower.add(&a, &b)?,
        _ => lower.mul(&a, &b)?,
    };
    one(stored(lower, call, &y, 6, call.input(0)?.ty)?)
}

fn activation<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = real(lower, call, 0)?;
    let y = match call.node.op {
        "QLinearSigmoid" => activate(lower, "Sigmoid", &x, None, None)?,
        _ => activate(
            lower,
            "LeakyRelu",
            &x,
            Some(call.float("alpha", 0.01)),
            None,
        )?,
    };
    one(stored(lower, call, &y, 3, call.input(0)?.ty)?)
}

fn softmax<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = real(lower, call, 0)?;
    let version = call.int("opset", 13);
    let y = only(standard(lower, call, "Softmax", version, vec![x.into()])?)?;
    one(stored(lower, call, &y, 3, call.input(0)?.ty)?)
}

fn pool<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut x = real(lower, call, 0)?;
    let is_last = call.int("channels_last", 0) != 0;
    if is_last {
        x = channels_first(lower, &x)?;
    }
    let op = match call.node.op {
        "QLinearAveragePool" => "AveragePool",
        _ => "GlobalAveragePool",
    };
    let mut y = only(standard(lower, call, op, NEWEST, vec![x.into()])?)?;
    if is_last {
        y = channels_last(lower, &y)?;
    }
    one(stored(lower, call, &y, 3, call.input(0)?.ty)?)
}

fn mean<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = real(lower, call, 0)?;
    let y = only(standard(lower, call, "ReduceMean", 13, vec![x.into()])?)?;
    one(stored(lower, call, &y, 3, call.input(0)?.ty)?)
}

fn concat<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let ty = call.input(1)?.ty;
    let mut parts = Vec::new();
    for at in (2..call.inputs.len()).step_by(3) {
        let x = real(lower, call, at)?;
        parts.push(stored(lower, call, &x, 0, ty)?);
    }
    let rank = parts.first().map_or(0, Value::rank);
    let axis = call.axis(0, rank)?;
    one(lower.concat(&parts, axis)?)
}

fn choose<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (real(lower, call, 1)?, real(lower, call, 4)?);
    let y = lower.select(&call.input(0)?, &a, &b)?;
    one(stored(lower, call, &y, 7, call.input(1)?.ty)?)
}

fn convolution<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut inputs = call.inputs.clone();
    let is_last = call.int("channels_last", 0) != 0;
    if is_last {
        inputs[0] = channels_first(lower, &call.input(0)?)?.into();
    }
    let y = only(standard(lower, call, "QLinearConv", NEWEST, inputs)?)?;
    one(match is_last {
        true => channels_last(lower, &y)?,
        false => y,
    })
}

/// Converts a matrix product of integers to f32, with the scales of both operands.
fn scaled_sum(
    lower: &mut Lowerer<'_>,
    sum: &Value,
    a_scale: &Value,
    b_scale: &Value,
) -> Result<Value> {
    let sum = lower.convert(sum, ElementType::F32)?;
    let scale = lower.mul(a_scale, b_scale)?;
    lower.mul(&sum, &scale)
}

fn gemm<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let is_set = |name: &str| call.int(name, 0) != 0;
    let (a, b) = (call.input(0)?, call.input(3)?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err(Error::input("expected two matrices"));
    }
    let order = |transposed: bool| if transposed { [1, 0] } else { [0, 1] };
    let a = lower.transpose(&a, &order(is_set("transA")))?;
    let b = lower.transpose(&b, &order(is_set("transB")))?;
    let mut sum = product_of(lower, &a, call.optional(2), &b, call.optional(5))?;
    if let Some(c) = call.optional(6) {
        sum = lower.add(&sum, &c)?;
    }
    let (a_scale, b_scale) = (scale_at(lower, call, 1)?, scale_at(lower, call, 4)?);
    let mut y = scaled_sum(lower, &sum, &a_scale, &b_scale)?;
    let alpha = call.float("alpha", 1.0);
    if alpha != 1.0 {
        y = lower.scaled(&y, alpha)?;
    }
    match (call.optional(7), call.optional(8)) {
        (Some(_), Some(zero)) => one(stored(lower, call, &y, 7, zero.ty)?),
        _ => one(y),
    }
}

/// The product of a floating-point operand, which is quantized here, with integers.
fn dynamic_mat_mul<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let [a, a_scale, zero] = dynamically_quantized(lower, &call.input(0)?)?;
    let sum = product_of(lower, &a, Some(zero), &call.input(1)?, call.optional(3))?;
    let b_scale = scale_at(lower, call, 2)?;
    let mut y = scaled_sum(lower, &sum, &a_scale, &b_scale)?;
    if let Some(bias) = call.optional(4) {
        y = lower.add(&y, &bias)?;
    }
    one(y)
}

fn mat_mul_to_float<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let sum = product_of(lower, &a, call.optional(4), &b, call.optional(5))?;
    let (a_scale, b_scale) = (scale_at(lower, call, 2)?, scale_at(lower, call, 3)?);
    let mut y = scaled_sum(lower, &sum, &a_scale, &b_scale)?;
    if let Some(bias) = call.optional(6) {
        y = lower.add(&y, &bias)?;
    }
    one(y)
}

fn multiply<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let a = without_zero(lower, &call.input(0)?, call.optional(1), 0)?;
    let b = without_zero(lower, &call.input(2)?, call.optional(3), 0)?;
    one(lower.mul(&a, &b)?)
}

fn sum<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let wide = lower.convert(&call.input(0)?, ElementType::S32)?;
    standard(lower, call, "ReduceSum", 11, vec![wide.into()])
}
