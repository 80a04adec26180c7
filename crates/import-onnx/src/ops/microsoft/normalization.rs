//! Normalisations of sums, with a residual connection, embeddings, or a bias before the norm.

use super::super::normalization::{by_channel, moments, normalized};
use super::super::reductions::mean;
use super::super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "SkipLayerNormalization" => skip_layer,
        "SkipSimplifiedLayerNormalization" => skip_root_mean_square,
        "EmbedLayerNormalization" => embed_layer,
        "GroupNorm" | "SkipGroupNorm" => group,
        _ => return None,
    };
    Some(lowering)
}

/// The element type in which a norm is computed.
pub(super) fn wide(ty: ElementType) -> ElementType {
    match ty {
        ElementType::F64 => ty,
        _ => ElementType::F32,
    }
}

/// The results `[output, mean, deviation, sum]`, of which only the first and the last are computed.
fn with_sum(y: Value, sum: Value) -> Vec<Item> {
    vec![y.into(), Item::Nothing, Item::Nothing, sum.into()]
}

/// Layer normalisation of the last dimension with scale and offset, in the type of `x`.
fn layer(
    lower: &mut Lowerer<'_>,
    x: &Value,
    scale: &Value,
    offset: Option<&Value>,
    epsilon: f64,
) -> Result<Value> {
    let last = last_of(x)?;
    let inner = lower.convert(x, wide(x.ty))?;
    let (m, v) = moments(lower, &inner, &[last])?;
    let plain = normalized(lower, &inner, &m, &v, epsilon)?;
    let scale = lower.convert(scale, inner.ty)?;
    let mut y = lower.mul(&plain, &scale)?;
    if let Some(offset) = offset {
        let offset = lower.convert(offset, inner.ty)?;
        y = lower.add(&y, &offset)?;
    }
    lower.convert(&y, x.ty)
}

/// `x` divided by its root mean square along the last dimension, times a scale.
pub(super) fn root_mean_square(
    lower: &mut Lowerer<'_>,
    x: &Value,
    scale: &Value,
    epsilon: f64,
) -> Result<Value> {
    let last = last_of(x)?;
    let inner = lower.convert(x, wide(x.ty))?;
    let square = lower.mul(&inner, &inner)?;
    let square = mean(lower, &square, &[last], true)?;
    let square = lower.shifted(&square, epsilon)?;
    let root = lower.unary(Unary::Sqrt, &square)?;
    let plain = lower.div(&inner, &root)?;
    let scale = lower.convert(scale, inner.ty)?;
    let y = lower.mul(&plain, &scale)?;
    lower.convert(&y, x.ty)
}

fn last_of(x: &Value) -> Result<usize> {
    let last = x.rank().checked_sub(1);
    last.ok_or_else(|| {
        Error::input("expected an input with at least one dimension, found a scalar")
    })
}

/// The sum of the input, the residual connection and a bias.
fn skip_sum(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, bias: Option<Value>) -> Result<Value> {
    let (x, skip) = (call.input(0)?, call.input(1)?);
    let sum = lower.add(&x, &skip)?;
    match bias {
        Some(bias) => lower.add(&sum, &bias),
        None => Ok(sum),
    }
}

fn skip_layer<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let sum = skip_sum(lower, call, call.optional(4))?;
    let epsilon = call.float("epsilon", 1e-12);
    let offset = call.optional(3);
    let y = layer(lower, &sum, &call.input(2)?, offset.as_ref(), epsilon)?;
    Ok(with_sum(y, sum))
}

fn skip_root_mean_square<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let sum = skip_sum(lower, call, call.optional(3))?;
    let epsilon = call.float("epsilon", 1e-12);
    let y = root_mean_square(lower, &sum, &call.input(2)?, epsilon)?;
    Ok(with_sum(y, sum))
}

/// The layer normalisation of the sum of word, position and segment embeddings; the number of words
/// in each row of the mask; and the sum.
fn embed_layer<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let ids = call.input(0)?;
    if ids.rank() != 2 {
        return Err(Error::input("expected `input_ids` of two dimensions"));
    }
    let rows = |lower: &mut Lowerer<'a>, table: &Value, ids: &Value| -> Result<Value> {
        let ids = lower.counted_indices(ids, table.size(0)?)?;
        lower.take(table, &ids, 0)
    };
    let words = rows(lower, &call.input(2)?, &ids)?;
    let places = call.input(3)?;
    let places = match call.optional(8) {
        Some(ids) => rows(lower, &places, &ids)?,
        None => lower.slice(&places, 0, &Term::constant(0), &ids.dims[1], 1)?,
    };
    let mut sum = lower.add(&words, &places)?;
    if let (Some(segments), Some(table)) = (call.optional(1), call.optional(4)) {
        let segments = rows(lower, &table, &segments)?;
        sum = lower.add(&sum, &segments)?;
    }
    let epsilon = call.float("epsilon", 1e-12);
    let offset = call.input(6)?;
    let y = layer(lower, &sum, &call.input(5)?, Some(&offset), epsilon)?;
    let counts = match call.optional(7) {
        Some(mask) => {
            let one_ = lower.like(&mask, 1.0)?;
            let is_word = lower.compare(Direction::Eq, &mask, &one_)?;
            let is_word = lower.convert(&is_word, ElementType::S32)?;
            lower.reduce(&is_word, Fold::Sum, &[1], false)?
        }
        None => lower.splat(ElementType::S32, 0.0, &ids.dims[..1])?,
    };
    Ok(vec![y.into(), counts.into(), sum.into()])
}

/// Group normalisation of the input, or of its sum with a residual connection and a bias, followed
/// by a swish if `activation` is 1. Channels are the last dimension unless `channels_last` is 0.
fn group<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut x = call.input(0)?;
    if x.rank() != 4 {
        return Err(Error::input("expected four dimensions"));
    }
    let is_last = call.int("channels_last", 1) != 0;
    let channel = if is_last { 3 } else { 1 };
    let has_skip = call.node.op == "SkipGroupNorm";
    if has_skip {
        let mut skip = call.input(3)?;
        if skip.rank() == 2 {
            let mut dims = vec![Term::constant(1); 4];
            dims[0] = skip.dims[0].clone();
            dims[channel] = skip.dims[1].clone();
            skip = lower.reshape(&skip, &dims)?;
        }
        x = lower.add(&x, &skip)?;
        if let Some(bias) = call.optional(4) {
            let bias = lower.broadcast_in(&bias, &[channel], &x.dims)?;
            x = lower.add(&x, &bias)?;
        }
    }
    let inner = lower.convert(&x, wide(x.ty))?;
    let inner = match is_last {
        true => lower.transpose(&inner, &[0, 3, 1, 2])?,
        false => inner,
    };
    let groups = Term::constant(call.int("groups", 1).max(1));
    let size = inner.dims[1].floor_div(&groups);
    let parts = [&[inner.dims[0].clone(), groups, size], &inner.dims[2..]].concat();
    let parts = lower.reshape(&inner, &parts)?;
    let (m, v) = moments(lower, &parts, &[2, 3, 4])?;
    let plain = normalized(lower, &parts, &m, &v, call.float("epsilon", 1e-5))?;
    let plain = lower.reshape(&plain, &inner.dims)?;
    let [scale, offset] = [call.input(1)?, call.input(2)?];
    let scale = lower.convert(&scale, inner.ty)?;
    let offset = lower.convert(&offset, inner.ty)?;
    let (scale, offset) = (
        by_channel(lower, &scale, 4)?,
        by_channel(lower, &offset, 4)?,
    );
    let y = lower.mul(&plain, &scale)?;
    let mut y = lower.add(&y, &offset)?;
    if call.int("activation", 0) == 1 {
        y = super::super::elementwise::activate(lower, "Swish", &y, None, None)?;
    }
    if is_last {
        y = lower.transpose(&y, &[0, 2, 3, 1])?;
    }
    let y = lower.convert(&y, x.ty)?;
    match has_skip {
        true => Ok(vec![y.into(), x.into()]),
        false => one(y),
    }
}
