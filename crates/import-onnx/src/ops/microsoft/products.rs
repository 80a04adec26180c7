//! Matrix products and convolutions fused with surrounding operations, and with channels as the
//! last dimension.

use super::super::elementwise::activate;
use super::super::products::{factored, product};
use super::super::{Lowering, one, standard};
use super::NEWEST;
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_ir::{Direction, ElementType, Op, TransposeA};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "FusedMatMul" | "TransposeMatMul" | "FusedMatMulActivation" => fused_mat_mul,
        "FusedGemm" => fused_gemm,
        "GemmFastGelu" => gemm_fast_gelu,
        "FusedConv" | "NhwcConv" | "NhwcFusedConv" => fused_convolution,
        "NhwcMaxPool" => max_pool,
        "Inverse" => inverse,
        "CDist" => distances,
        _ => return None,
    };
    Some(lowering)
}

/// An operand of a matrix product, transposed as the attributes say: batch dimensions moved before
/// the rows, and rows and columns swapped.
fn operand(
    lower: &mut Lowerer<'_>,
    x: &Value,
    batch_is_inside: bool,
    transposed: bool,
) -> Result<Value> {
    let rank = x.rank();
    let mut order: Vec<usize> = (0..rank).collect();
    if batch_is_inside && rank > 2 {
        order[..rank - 1].rotate_left(1);
    }
    if transposed && rank > 1 {
        order.swap(rank - 2, rank - 1);
    }
    lower.transpose(x, &order)
}

fn fused_mat_mul<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let is_set = |name: &str| call.int(name, 0) != 0;
    let (a, b) = (call.input(0)?, call.input(1)?);
    let a = operand(lower, &a, is_set("transBatchA"), is_set("transA"))?;
    let b = operand(lower, &b, is_set("transBatchB"), is_set("transB"))?;
    let mut y = product(lower, &a, &b)?;
    let alpha = call.float("alpha", 1.0);
    if alpha != 1.0 {
        y = lower.scaled(&y, alpha)?;
    }
    one(activated(lower, call, &y)?)
}

/// Applies the activation that the attributes name, with its parameters.
fn activated(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, y: &Value) -> Result<Value> {
    let name = call.text("activation", "");
    let params = call
        .attribute("activation_params")
        .map(|a| a.floats.clone());
    let number = |own: &str, at: usize| {
        let single = call.attribute(own).and_then(|a| a.float);
        let listed = params.as_ref().and_then(|list| list.get(at).copied());
        single.or(listed).map(f64::from)
    };
    let (alpha, beta) = (number("activation_alpha", 0), number("activation_beta", 1));
    match name {
        "" => Ok(y.clone()),
        "Clip" => {
            let (low, high) = (alpha.unwrap_or(f64::MIN), beta.unwrap_or(f64::MAX));
            let (low, high) = (lower.like(y, low)?, lower.like(y, high)?);
            let y = lower.max(y, &low)?;
            lower.min(&y, &high)
        }
        name => activate(lower, name, y, alpha, beta),
    }
}

fn fused_gemm<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let y = only(standard(lower, call, "Gemm", NEWEST, call.inputs.clone())?)?;
    let leaky = call.attribute("leaky_relu_alpha").and_then(|a| a.float);
    one(match (call.text("activation", ""), leaky) {
        ("LeakyRelu", Some(alpha)) => {
            activate(lower, "LeakyRelu", &y, Some(f64::from(alpha)), None)?
        }
        _ => activated(lower, call, &y)?,
    })
}

fn gemm_fast_gelu<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut y = product(lower, &call.input(0)?, &call.input(1)?)?;
    if let Some(bias) = call.optional(2) {
        y = lower.add(&y, &bias)?;
    }
    one(activate(lower, "Gelu", &y, Some(1.0), None)?)
}

/// The single tensor among a node's results.
pub(super) fn only(items: Vec<Item>) -> Result<Value> {
    match items.into_iter().next() {
        Some(Item::Tensor(value)) => Ok(value),
        _ => Err(Error::input("expected a tensor as the result")),
    }
}

/// Moves the last dimension to position 1.
pub(super) fn channels_first(lower: &mut Lowerer<'_>, x: &Value) -> Result<Value> {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    if x.rank() > 2 {
        order[1..].rotate_right(1);
    }
    lower.transpose(x, &order)
}

/// Moves the dimension at position 1 to the end.
pub(super) fn channels_last(lower: &mut Lowerer<'_>, x: &Value) -> Result<Value> {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    if x.rank() > 2 {
        order[1..].rotate_left(1);
    }
    lower.transpose(x, &order)
}

/// A convolution, followed by the addition of a fourth input and an activation.
fn fused_convolution<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let is_last = call.node.op != "FusedConv";
    let mut inputs: Vec<Item> = call.inputs.iter().take(3).cloned().collect();
    if is_last {
        inputs[0] = channels_first(lower, &call.input(0)?)?.into();
    }
    let mut y = only(standard(lower, call, "Conv", NEWEST, inputs)?)?;
    if let Some(more) = call.optional(3) {
        let more = match is_last {
            true => channels_first(lower, &more)?,
            false => more,
        };
        y = lower.add(&y, &more)?;
    }
    let y = activated(lower, call, &y)?;
    one(match is_last {
        true => channels_last(lower, &y)?,
        false => y,
    })
}

fn max_pool<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = channels_first(lower, &call.input(0)?)?;
    let y = only(standard(lower, call, "MaxPool", NEWEST, vec![x.into()])?)?;
    one(channels_last(lower, &y)?)
}

/// The inverse by the factorisation `P A = L U`: solves `L U X = P`.
fn inverse<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let factors = factored(lower, &x)?;
    let lead = x.rank() - 2;
    let places = &factors.matrix.dims;
    let column = lower.iota(ElementType::S32, places, lead + 1)?;
    let own: Vec<usize> = (0..=lead).collect();
    let row = lower.broadcast_in(&factors.permutation, &own, places)?;
    let is_one = lower.compare(Direction::Eq, &row, &column)?;
    let mut y = lower.convert(&is_one, factors.matrix.ty)?;
    for (is_lower, unit) in [(true, true), (false, false)] {
        let op = Op::TriangularSolve {
            left_side: true,
            lower: is_lower,
            unit_diagonal: unit,
            transpose_a: TransposeA::NoTranspose,
        };
        let operands = [lower.local(&factors.matrix)?, lower.local(&y)?];
        let (ty, dims) = (y.ty, y.dims.clone());
        y = lower.push(op, &operands, ty, &dims)?;
    }
    one(lower.convert(&y, x.ty)?)
}

/// Distances between the rows of two matrices.
fn distances<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err(Error::input("expected two matrices"));
    }
    let metric = call.text("metric", "sqeuclidean");
    let (a, b) = (lower.unsqueeze(&a, 1)?, lower.unsqueeze(&b, 0)?);
    let difference = lower.sub(&a, &b)?;
    one(match metric {
        "sqeuclidean" => {
            super::super::reductions::reduced(lower, "ReduceSumSquare", &difference, &[2], false)?
        }
        "euclidean" => {
            super::super::reductions::reduced(lower, "ReduceL2", &difference, &[2], false)?
        }
        other => {
            return Err(Error::unsupported(format!(
                "the metric `{other}` is not supported"
            )));
        }
    })
}
