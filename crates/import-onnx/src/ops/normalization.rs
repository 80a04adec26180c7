//! Normalizations.

use super::reductions::{mean, reduced};
use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use crate::tensor::element_type;
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType, Unary, WindowDim};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "BatchNormalization" => batch,
        "InstanceNormalization" => instance,
        "LayerNormalization" => layer,
        "GroupNormalization" => group,
        "RMSNormalization" | "SimplifiedLayerNormalization" => root_mean_square,
        "LpNormalization" => lp_normalization,
        "LRN" => local_response,
        "MeanVarianceNormalization" => mean_variance,
        "Dropout" => dropout,
        _ => return None,
    };
    Some(lowering)
}

/// `(x - mean) / sqrt(variance + epsilon)`.
pub(super) fn normalized(
    lower: &mut Lowerer<'_>,
    x: &Value,
    mean: &Value,
    variance: &Value,
    epsilon: f64,
) -> Result<Value> {
    let centred = lower.sub(x, mean)?;
    let variance = lower.shifted(variance, epsilon)?;
    let deviation = lower.unary(Unary::Sqrt, &variance)?;
    lower.div(&centred, &deviation)
}

/// The mean and the variance over dimensions, which are kept with size 1.
pub(super) fn moments(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axes: &[usize],
) -> Result<(Value, Value)> {
    let centre = mean(lower, x, axes, true)?;
    let centred = lower.sub(x, &centre)?;
    let square = lower.mul(&centred, &centred)?;
    let variance = mean(lower, &square, axes, true)?;
    Ok((centre, variance))
}

/// A value with one number for each channel, reshaped to the rank of an array.
pub(super) fn by_channel(lower: &mut Lowerer<'_>, value: &Value, rank: usize) -> Result<Value> {
    let mut dims = vec![Term::constant(1); rank];
    dims[1] = value.dims.first().cloned().unwrap_or(Term::constant(1));
    lower.reshape(value, &dims)
}

/// Multiplies each channel by a scale and adds an offset.
fn scaled_by_channel(
    lower: &mut Lowerer<'_>,
    x: &Value,
    scale: &Value,
    offset: &Value,
) -> Result<Value> {
    let (scale, offset) = (lower.convert(scale, x.ty)?, lower.convert(offset, x.ty)?);
    let scale = by_channel(lower, &scale, x.rank())?;
    let offset = by_channel(lower, &offset, x.rank())?;
    let scaled = lower.mul(x, &scale)?;
    lower.add(&scaled, &offset)
}

fn batch<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    if x.rank() < 2 {
        return Err(Error::input("expected at least two dimensions"));
    }
    let (scale, offset) = (call.input(1)?, call.input(2)?);
    let (own_mean, own_variance) = (call.input(3)?, call.input(4)?);
    let epsilon = call.float("epsilon", 1e-5);
    if call.int("training_mode", 0) == 0 {
        let (m, v) = (
            lower.convert(&own_mean, x.ty)?,
            lower.convert(&own_variance, x.ty)?,
        );
        let m = by_channel(lower, &m, x.rank())?;
        let v = by_channel(lower, &v, x.rank())?;
        let plain = normalized(lower, &x, &m, &v, epsilon)?;
        return one(scaled_by_channel(lower, &plain, &scale, &offset)?);
    }
    let axes: Vec<usize> = (0..x.rank()).filter(|at| *at != 1).collect();
    let (m, v) = moments(lower, &x, &axes)?;
    let plain = normalized(lower, &x, &m, &v, epsilon)?;
    let y = scaled_by_channel(lower, &plain, &scale, &offset)?;
    let momentum = call.float("momentum", 0.9);
    let mut results = vec![y.into()];
    for (running, current) in [(own_mean, m), (own_variance, v)] {
        let current = lower.reshape(&current, &running.dims)?;
        let current = lower.convert(&current, running.ty)?;
        let old = lower.scaled(&running, momentum)?;
        let new = lower.scaled(&current, 1.0 - momentum)?;
        results.push(lower.add(&old, &new)?.into());
    }
    Ok(results)
}

fn instance<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, scale, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let axes: Vec<usize> = (2..x.rank()).collect();
    let (m, v) = moments(lower, &x, &axes)?;
    let plain = normalized(lower, &x, &m, &v, call.float("epsilon", 1e-5))?;
    one(scaled_by_channel(lower, &plain, &scale, &offset)?)
}

fn layer<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(-1, x.rank())?;
    let axes: Vec<usize> = (axis..x.rank()).collect();
    let wide = element_type(call.int("stash_type", 1))?;
    let inner = lower.convert(&x, wide)?;
    let (m, v) = moments(lower, &inner, &axes)?;
    let epsilon = call.float("epsilon", 1e-5);
    let plain = normalized(lower, &inner, &m, &v, epsilon)?;
    let plain = lower.convert(&plain, x.ty)?;
    let mut y = lower.mul(&plain, &scale)?;
    if let Some(offset) = call.optional(2) {
        y = lower.add(&y, &offset)?;
    }
    let v = lower.shifted(&v, epsilon)?;
    let inverse = lower.unary(Unary::Rsqrt, &v)?;
    Ok(vec![y.into(), m.into(), inverse.into()])
}

fn root_mean_square<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(-1, x.rank())?;
    let axes: Vec<usize> = (axis..x.rank()).collect();
    let wide = element_type(call.int("stash_type", 1))?;
    let inner = lower.convert(&x, wide)?;
    let square = lower.mul(&inner, &inner)?;
    let square = mean(lower, &square, &axes, true)?;
    let square = lower.shifted(&square, call.float("epsilon", 1e-5))?;
    let root = lower.unary(Unary::Sqrt, &square)?;
    let plain = lower.div(&inner, &root)?;
    let plain = lower.convert(&plain, scale.ty)?;
    one(lower.mul(&plain, &scale)?)
}

fn group<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, scale, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let groups = Term::constant(call.int("num_groups", 1).max(1));
    if x.rank() < 2 {
        return Err(Error::input("expected at least two dimensions"));
    }
    let mut dims = vec![
        x.dims[0].clone(),
        groups.clone(),
        x.dims[1].floor_div(&groups),
    ];
    dims.extend_from_slice(&x.dims[2..]);
    let inner = lower.convert(&x, element_type(call.int("stash_type", 1))?)?;
    let parts = lower.reshape(&inner, &dims)?;
    let axes: Vec<usize> = (2..parts.rank()).collect();
    let (m, v) = moments(lower, &parts, &axes)?;
    let plain = normalized(lower, &parts, &m, &v, call.float("epsilon", 1e-5))?;
    let plain = lower.convert(&plain, x.ty)?;
    if call.version >= 21 {
        let plain = lower.reshape(&plain, &x.dims)?;
        return one(scaled_by_channel(lower, &plain, &scale, &offset)?);
    }
    // There is one scale and offset for each group.
    let y = scaled_by_channel(lower, &plain, &scale, &offset)?;
    one(lower.reshape(&y, &x.dims)?)
}

/// Divides by the sum of magnitudes (`p` of 1) or the root of the sum of squares (2) along an axis;
/// zeros where that is zero.
fn lp_normalization<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axis = call.axis(-1, x.rank())?;
    let norm = match call.int("p", 2) {
        1 => reduced(lower, "ReduceL1", &x, &[axis], true)?,
        2 => reduced(lower, "ReduceL2", &x, &[axis], true)?,
        other => {
            return Err(Error::input(format!(
                "expected a `p` of 1 or 2, found {other}"
            )));
        }
    };
    let zero = lower.like(&norm, 0.0)?;
    let is_zero = lower.compare(Direction::Eq, &norm, &zero)?;
    let plain = lower.div(&x, &norm)?;
    one(lower.select(&is_zero, &zero, &plain)?)
}

/// Divides by a power of the sum of squares over neighbouring channels.
fn local_response<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let size = call.int("size", 0);
    if x.rank() < 2 || size < 1 {
        return Err(Error::input(
            "expected at least two dimensions, and a `size` above 0",
        ));
    }
    let square = lower.mul(&x, &x)?;
    let mut window = vec![WindowDim::TRIVIAL; x.rank()];
    window[1].size = size;
    window[1].padding_low = (size - 1) / 2;
    window[1].padding_high = size / 2;
    let zero = lower.like(&x, 0.0)?;
    let sum = lower.window(&square, &zero, Fold::Sum, window)?;
    let sum = lower.scaled(&sum, call.float("alpha", 0.0001) / size as f64)?;
    let sum = lower.shifted(&sum, call.float("bias", 1.0))?;
    let power = lower.like(&x, call.float("beta", 0.75))?;
    let divisor = lower.binary(Binary::Power, &sum, &power)?;
    one(lower.div(&x, &divisor)?)
}

fn mean_variance<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let list = call.ints("axes").unwrap_or(vec![0, 2, 3]);
    let axes: Result<Vec<usize>> = list
        .iter()
        .map(|axis| call.axis_of(*axis, x.rank()))
        .collect();
    let (m, v) = moments(lower, &x, &axes?)?;
    let centred = lower.sub(&x, &m)?;
    let deviation = lower.unary(Unary::Sqrt, &v)?;
    let deviation = lower.shifted(&deviation, 1e-9)?;
    one(lower.div(&centred, &deviation)?)
}

/// Dropout. In inference it is the identity; in training mode, it sets random elements to zero and
/// scales the others.
fn dropout<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let trains = match call.optional(2) {
        None => None,
        Some(mode) => match mode.integers() {
            Some(known) if known.first() == Some(&0) => None,
            _ => Some(lower.reshape(&mode, &[])?),
        },
    };
    let all = lower.splat(ElementType::Pred, 1.0, &x.dims)?;
    let Some(trains) = trains else {
        return Ok(vec![x.into(), all.into()]);
    };
    let ratio = match call.optional(1) {
        Some(ratio) => {
            let ratio = lower.reshape(&ratio, &[])?;
            lower.convert(&ratio, ElementType::F32)?
        }
        None => lower.scalar(ElementType::F32, 0.5)?,
    };
    let zero = lower.like(&ratio, 0.0)?;
    let ratio = lower.select(&trains, &ratio, &zero)?;
    let number = super::random::uniform(lower, call, &x.dims, 0)?;
    let kept = lower.compare(Direction::Ge, &number, &ratio)?;
    let one_ = lower.like(&ratio, 1.0)?;
    let rest = lower.sub(&one_, &ratio)?;
    let scale = lower.div(&one_, &rest)?;
    let scale = lower.convert(&scale, x.ty)?;
    let (scaled, none) = (lower.mul(&x, &scale)?, lower.like(&x, 0.0)?);
    let y = lower.select(&kept, &scaled, &none)?;
    Ok(vec![y.into(), kept.into()])
}
