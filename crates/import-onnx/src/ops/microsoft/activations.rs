//! Activations fused with preceding operations: a bias, a split, a mask.

use super::super::elementwise::activate;
use super::super::reductions::softmax_along;
use super::super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "BiasAdd" => bias_add,
        "BiasGelu" | "FastGelu" => bias_gelu,
        "BiasSoftmax" => bias_softmax,
        "BiasSplitGelu" => bias_split_gelu,
        "ExpandDims" => expand_dims,
        "SwiGLU" => swish_gate,
        _ => return None,
    };
    Some(lowering)
}

fn bias_add<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, bias, skip) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let sum = lower.add(&x, &bias)?;
    one(lower.add(&sum, &skip)?)
}

/// GELU of `x + bias`, with `erf`, or with `tanh` for `FastGelu`.
fn bias_gelu<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut x = call.input(0)?;
    if let Some(bias) = call.optional(1) {
        x = lower.add(&x, &bias)?;
    }
    let by_tanh = f64::from(u8::from(call.node.op == "FastGelu"));
    one(activate(lower, "Gelu", &x, Some(by_tanh), None)?)
}

/// The softmax over all dimensions from `axis` on, after adding a bias, in which dimensions before
/// `axis` are missing or have size 1.
fn bias_softmax<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, bias) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(1, x.rank())?;
    let sum = lower.add(&x, &bias)?;
    let axes: Vec<usize> = (axis..x.rank()).collect();
    one(softmax_along(lower, &sum, &axes, false)?)
}

/// The two halves of the last dimension.
fn halves(lower: &mut Lowerer<'_>, x: &Value) -> Result<[Value; 2]> {
    let last = x.rank().checked_sub(1);
    let last = last.ok_or_else(|| {
        Error::input("expected an input with at least one dimension, found a scalar")
    })?;
    let whole = x.dims[last].clone();
    let half = lower.canonical(&whole.floor_div(&Term::constant(2)));
    let zero = Term::constant(0);
    let limit = lower.canonical(&half.add(&half));
    Ok([
        lower.slice(x, last, &zero, &half, 1)?,
        lower.slice(x, last, &half, &limit, 1)?,
    ])
}

fn bias_split_gelu<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = lower.add(&call.input(0)?, &call.input(1)?)?;
    let [left, right] = halves(lower, &x)?;
    let gate = activate(lower, "Gelu", &right, Some(0.0), None)?;
    one(lower.mul(&left, &gate)?)
}

fn expand_dims<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axis = call.ints_or_input("axis", 1)?.unwrap_or_default();
    let axis = axis.first().copied().unwrap_or(0);
    let at = call.axis_of(axis, x.rank() + 1)?;
    one(lower.unsqueeze(&x, at)?)
}

/// `G * sigmoid(alpha * G) * (L + beta)`, with `L` clamped to plus and minus `limit` and `G` only
/// from above.
fn swish_gate<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let [mut gate, mut line] = match (call.input(0)?, call.optional(1)) {
        (gate, Some(line)) => [gate, line],
        (both, None) => halves(lower, &both)?,
    };
    let limit = call.float("limit", 0.0);
    if limit > 0.0 {
        let (low, high) = (lower.like(&gate, -limit)?, lower.like(&gate, limit)?);
        gate = lower.min(&gate, &high)?;
        line = lower.min(&line, &high)?;
        line = lower.max(&line, &low)?;
    }
    let alpha = Some(call.float("activation_alpha", 1.0));
    let gate = activate(lower, "Swish", &gate, alpha, None)?;
    let line = match call.float("activation_beta", 0.0) {
        0.0 => line,
        beta => lower.shifted(&line, beta)?,
    };
    one(lower.mul(&gate, &line)?)
}
