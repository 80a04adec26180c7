//! Rotary embeddings: pairs of elements of each head are rotated by an angle that depends on the
//! position.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;

pub(super) fn find(op: &str) -> Option<Lowering> {
    (op == "RotaryEmbedding").then_some(rotary_embedding as Lowering)
}

/// `(cos * a - sin * b, sin * a + cos * b)` for each pair `a, b` of the first elements of each
/// head.
fn rotary_embedding<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let given = call.input(0)?;
    let x = by_place(lower, &given, call.int("num_heads", 0))?;
    let size = x.dims[3].clone();
    let turns = match call.int("rotary_embedding_dim", 0) {
        0 => size.clone(),
        count => Term::constant(count),
    };
    let (cos, sin) = (factors(lower, call, 1)?, factors(lower, call, 2)?);
    if lower.range(&lower.canonical(&size.sub(&turns))).upper < 0 || lower.range(&turns).upper < 0 {
        return Err(Error::input(
            "expected a non-negative `rotary_embedding_dim` of at most the head size",
        ));
    }
    let half = lower.canonical(&turns.floor_div(&Term::constant(2)));
    for cache in [&cos, &sin] {
        if let (Some(found), Some(wanted)) = (cache.dims[3].as_constant(), half.as_constant())
            && found != wanted
        {
            return Err(Error::input(format!(
                "expected caches of {wanted} elements, half of those that are turned; found {found}"
            )));
        }
    }
    let is_interleaved = call.int("interleaved", 0) != 0;
    let y = turned(lower, &x, &cos, &sin, &turns, is_interleaved)?;
    match given.rank() {
        3 => one(lower.reshape(&y, &given.dims)?),
        _ => one(lower.transpose(&y, &[0, 2, 1, 3])?),
    }
}

/// Rotates the first `turns` elements of each head in pairs: of adjacent elements, or of elements
/// in the first and the second half. `x` is `[batch, positions, heads, size]`, `cos` and `sin` are
/// `[batch, positions, 1, turns / 2]`.
pub(super) fn turned(
    lower: &mut Lowerer<'_>,
    x: &Value,
    cos: &Value,
    sin: &Value,
    turns: &Term,
    is_interleaved: bool,
) -> Result<Value> {
    let zero = Term::constant(0);
    let turns = lower.canonical(turns);
    let half = lower.canonical(&turns.floor_div(&Term::constant(2)));
    let rest = lower.slice(x, 3, &turns, &x.dims[3], 1)?;
    let front = lower.slice(x, 3, &zero, &turns, 1)?;
    let (a, b) = match is_interleaved {
        true => (
            lower.slice(&front, 3, &zero, &turns, 2)?,
            lower.slice(&front, 3, &Term::constant(1), &turns, 2)?,
        ),
        false => (
            lower.slice(&front, 3, &zero, &half, 1)?,
            lower.slice(&front, 3, &half, &turns, 1)?,
        ),
    };
    let (cos_a, sin_b) = (lower.mul(cos, &a)?, lower.mul(sin, &b)?);
    let (sin_a, cos_b) = (lower.mul(sin, &a)?, lower.mul(cos, &b)?);
    let pair = [lower.sub(&cos_a, &sin_b)?, lower.add(&sin_a, &cos_b)?];
    let front = match is_interleaved {
        true => {
            let [a, b] = [lower.unsqueeze(&pair[0], 4)?, lower.unsqueeze(&pair[1], 4)?];
            let pairs = lower.concat(&[a, b], 4)?;
            lower.reshape(&pairs, &front.dims)?
        }
        false => lower.concat(&pair, 3)?,
    };
    lower.concat(&[front, rest], 3)
}

/// Converts to batch, positions, heads, and elements of each.
fn by_place(lower: &mut Lowerer<'_>, x: &Value, heads: i64) -> Result<Value> {
    match (x.rank(), heads) {
        (4, _) => lower.transpose(x, &[0, 2, 1, 3]),
        (3, 1..) => {
            let heads = Term::constant(heads);
            let size = x.dims[2].floor_div(&heads);
            let dims = [x.dims[0].clone(), x.dims[1].clone(), heads, size];
            lower.reshape(x, &dims)
        }
        _ => Err(Error::input(
            "expected an array of four dimensions, or of three with `num_heads`",
        )),
    }
}

/// A cache of sines or cosines: batch, positions, 1 for all heads, and half of the elements.
/// Without `position_ids`, the cache already has a row for each batch and position.
fn factors(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, at: usize) -> Result<Value> {
    let cache = call.input(at)?;
    let rows = match call.optional(3) {
        Some(places) if cache.rank() == 2 && places.rank() == 2 => {
            let places = lower.counted_indices(&places, &cache.dims[0])?;
            lower.take(&cache, &places, 0)?
        }
        None if cache.rank() == 3 => cache,
        _ => {
            return Err(Error::input(
                "expected caches of two dimensions with `position_ids`, of three without",
            ));
        }
    };
    lower.unsqueeze(&rows, 2)
}
