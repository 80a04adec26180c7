//! `GroupQueryAttention`: groups of query heads share a head of keys and values, with a cache in
//! which each batch has its own length, and with rotary embeddings.

use super::super::Lowering;
use super::super::attention::for_all_queries;
use super::super::rotary::turned;
use super::attention::{Scores, attended, by_heads, where_not};
use super::normalization::wide;
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType};

pub(super) fn find(op: &str) -> Option<Lowering> {
    (op == "GroupQueryAttention").then_some(group_query as Lowering)
}

/// The element type of positions.
const PLACE: ElementType = ElementType::S64;

fn group_query<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    refuse_rare(call)?;
    let total = call.input(6)?;
    let total = lower.reshape(&total, &[])?;
    let (total, _) = lower.sizes_from_data(&[total], &[])?;
    let total = total.first().cloned().unwrap_or(Term::constant(0));
    let [mut q, mut k, v] = projections(lower, call)?;
    let places = q.dims[2].clone();
    let before = tokens_before(lower, call, &places, &total)?;
    if call.int("do_rotary", 0) != 0 {
        let at = turn_places(lower, call, &q, &before)?;
        q = rotated(lower, call, &q, &at)?;
        k = rotated(lower, call, &k, &at)?;
    }
    let k = cached(lower, call.optional(3), &k, &before, &total)?;
    let v = cached(lower, call.optional(4), &v, &before, &total)?;

    let (all_k, all_v) = (
        for_all_queries(lower, &k, &q)?,
        for_all_queries(lower, &v, &q)?,
    );
    let keys = k.dims[2].clone();
    let mut bias = Vec::new();
    if let Some(given) = call.optional(10) {
        bias.push(over_all_keys(lower, &given, &keys)?);
    }
    bias.push(reach(lower, call, &q, &keys, &before)?);
    let sink = match (call.optional(11), call.int("smooth_softmax", 0)) {
        (Some(sink), _) => Some(sink),
        (None, 1) => Some(lower.splat(wide(q.ty), 0.0, &q.dims[1..2])?),
        (None, _) => None,
    };
    let how = Scores {
        scale: (call.attribute("scale").and_then(|a| a.float))
            .filter(|scale| *scale != 0.0)
            .map(f64::from),
        softcap: call.float("softcap", 0.0),
        bias,
        sink,
    };
    let done = attended(lower, &q, &all_k, &all_v, &how)?;
    let shown = match call.int("qk_output", 0) {
        1 => done.scores,
        _ => done.weights,
    };
    Ok(vec![done.y.into(), k.into(), v.into(), shown.into()])
}

fn refuse_rare(call: &Call<'_, '_>) -> Result<()> {
    let inputs = [
        (12, "k_scale"),
        (13, "v_scale"),
        (14, "q_norm_weight"),
        (15, "k_norm_weight"),
        (16, "query_seqlens"),
    ];
    if let Some((_, name)) = inputs.iter().find(|(at, _)| call.optional(*at).is_some()) {
        return Err(Error::unsupported(format!(
            "the input `{name}` is not supported"
        )));
    }
    if call.int("sliding_window_cache", 0) != 0 {
        return Err(Error::unsupported(
            "`sliding_window_cache` is not supported",
        ));
    }
    Ok(())
}

/// Queries, keys and values as `[batch, heads, positions, size]`, from three inputs or packed in
/// one.
fn projections(lower: &mut Lowerer<'_>, call: &Call<'_, '_>) -> Result<[Value; 3]> {
    let (heads, own) = (call.int("num_heads", 0), call.int("kv_num_heads", 0));
    let query = call.input(0)?;
    let counts = 1..=i64::from(i32::MAX);
    if query.rank() != 3 || !counts.contains(&heads) || !counts.contains(&own) {
        return Err(Error::input(
            "expected a query of three dimensions, and the numbers of heads",
        ));
    }
    let three = match (call.optional(1), call.optional(2)) {
        (Some(key), Some(value)) => [query, key, value],
        _ => {
            let size = query.dims[2].floor_div(&Term::constant(heads + 2 * own));
            let of = |count: i64| size.mul(&Term::constant(count));
            let ends = [of(0), of(heads), of(heads + own), of(heads + 2 * own)];
            let mut parts = Vec::new();
            for pair in ends.windows(2) {
                parts.push(lower.slice(&query, 2, &pair[0], &pair[1], 1)?);
            }
            <[Value; 3]>::try_from(parts).map_err(|_| Error::input("expected three parts"))?
        }
    };
    let [q, k, v] = three;
    Ok([
        by_heads(lower, &q, heads)?,
        by_heads(lower, &k, own)?,
        by_heads(lower, &v, own)?,
    ])
}

/// The number of tokens of each batch before the new ones, `[batch]`; `None` if there are only new
/// ones.
fn tokens_before(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    places: &Term,
    total: &Term,
) -> Result<Value> {
    let last = call.input(5)?;
    let last = match last.rank() {
        1 => last,
        _ => {
            let all = last
                .dims
                .iter()
                .fold(Term::constant(1), |n, size| n.mul(size));
            lower.reshape(&last, &[all])?
        }
    };
    let last = lower.convert(&last, PLACE)?;
    let new = lower.of_terms(PLACE, &[], &[places.sub(&Term::constant(1))])?;
    let before = lower.sub(&last, &new)?;
    let is_first = lower.compare_terms(Direction::Eq, places, total);
    let is_first = lower.of_terms(ElementType::Pred, &[], &[is_first])?;
    let zero = lower.like(&before, 0.0)?;
    lower.select(&is_first, &zero, &before)
}

/// The position of each new token, `[batch, positions]`.
fn turn_places(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    q: &Value,
    before: &Value,
) -> Result<Value> {
    if let Some(given) = call.optional(9) {
        return lower.convert(&given, PLACE);
    }
    let own = lower.iota(PLACE, &[q.dims[0].clone(), q.dims[2].clone()], 1)?;
    let before = lower.unsqueeze(before, 1)?;
    lower.add(&own, &before)
}

fn rotated(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, x: &Value, at: &Value) -> Result<Value> {
    let (cos, sin) = (call.input(7)?, call.input(8)?);
    let turns = cos.size(1)?.mul(&Term::constant(2));
    let x = lower.transpose(x, &[0, 2, 1, 3])?;
    let rows = |lower: &mut Lowerer<'_>, cache: &Value| -> Result<Value> {
        let rows = lower.take(cache, at, 0)?;
        lower.unsqueeze(&rows, 2)
    };
    let (cos, sin) = (rows(lower, &cos)?, rows(lower, &sin)?);
    let is_interleaved = call.int("rotary_interleaved", 0) != 0;
    let y = turned(lower, &x, &cos, &sin, &turns, is_interleaved)?;
    lower.transpose(&y, &[0, 2, 1, 3])
}

/// The cache with the new tokens written after the existing ones of each batch. Its length is that
/// of the old cache or of all tokens, whichever is larger. Positions without a token are unchanged,
/// or zero.
fn cached(
    lower: &mut Lowerer<'_>,
    past: Option<Value>,
    new: &Value,
    before: &Value,
    total: &Term,
) -> Result<Value> {
    let Some(past) = past else {
        let same = lower.canonical(&new.dims[2].sub(total)).as_constant();
        if same == Some(0) {
            return Ok(new.clone());
        }
        let dims = [&new.dims[..2], &[Term::constant(0)], &new.dims[3..]].concat();
        let none = lower.splat(new.ty, 0.0, &dims)?;
        return cached(lower, Some(none), new, before, total);
    };
    if past.rank() != 4 {
        return Err(Error::input("expected a cache of four dimensions"));
    }
    let had = past.dims[2].clone();
    let room = lower.canonical(&Term::max(&had, total));
    // Each position takes its element from the new tokens, the cache, or an additional zero.
    let mut last = new.dims.clone();
    last[2] = Term::constant(1);
    let zero = lower.splat(new.ty, 0.0, &last)?;
    let all = lower.concat(&[new.clone(), past, zero], 2)?;
    let place = lower.iota(PLACE, &[new.dims[0].clone(), room], 1)?;
    let before = lower.unsqueeze(before, 1)?;
    let number = |lower: &mut Lowerer<'_>, term: &Term| {
        lower.of_terms(PLACE, &[], std::slice::from_ref(term))
    };
    let (had_number, new_number) = (number(lower, &had)?, number(lower, &new.dims[2])?);
    let behind = lower.sub(&place, &before)?;
    let none = lower.like(&behind, 0.0)?;
    let is_after = lower.compare(Direction::Ge, &behind, &none)?;
    let is_within = lower.compare(Direction::Lt, &behind, &new_number)?;
    let is_new = lower.binary(Binary::And, &is_after, &is_within)?;
    let is_old = lower.compare(Direction::Lt, &place, &had_number)?;
    let of_zero = number(lower, &had.add(&new.dims[2]))?;
    let of_old = lower.add(&place, &new_number)?;
    let from = lower.select(&is_old, &of_old, &of_zero)?;
    let from = lower.select(&is_new, &behind, &from)?;
    let by_place = lower.transpose(&all, &[0, 2, 1, 3])?;
    let from = lower.unsqueeze(&from, 2)?;
    let taken = lower.gather_nd(&by_place, &from, 1)?;
    lower.transpose(&taken, &[0, 2, 1, 3])
}

/// A bias with a number for each token, extended to all positions of a cache that may be longer.
fn over_all_keys(lower: &mut Lowerer<'_>, bias: &Value, keys: &Term) -> Result<Value> {
    let last = bias.rank().checked_sub(1);
    let last =
        last.ok_or_else(|| Error::input("expected an `attention_bias` of four dimensions"))?;
    let lacking = lower.canonical(&keys.sub(&bias.dims[last]));
    if lower.range(&lacking).upper <= 0 {
        return Ok(bias.clone());
    }
    let low = vec![Term::constant(0); bias.rank()];
    let mut high = low.clone();
    high[last] = Term::max(&lacking, &Term::constant(0));
    let fill = lower.like(bias, 0.0)?;
    lower.pad(bias, &fill, &low, &high)
}

/// The bias that excludes the keys outside of a query's reach: those after it, and those before its
/// window.
fn reach(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    q: &Value,
    keys: &Term,
    before: &Value,
) -> Result<Value> {
    let ty = wide(q.ty);
    let dims = [
        q.dims[0].clone(),
        Term::constant(1),
        q.dims[2].clone(),
        keys.clone(),
    ];
    let key = lower.iota(PLACE, &dims, 3)?;
    let own = lower.iota(PLACE, &dims, 2)?;
    let before = lower.broadcast_in(before, &[0], &dims)?;
    let place = lower.add(&own, &before)?;
    let mut allowed = match call.int("causal", 1) {
        0 => {
            let all = lower.of_terms(PLACE, &[], std::slice::from_ref(&q.dims[2]))?;
            let end = lower.add(&before, &all)?;
            lower.compare(Direction::Lt, &key, &end)?
        }
        _ => lower.compare(Direction::Le, &key, &place)?,
    };
    let window = call.int("local_window_size", -1);
    if window > 0 {
        let first = lower.shifted(&place, -(window as f64))?;
        let near = lower.compare(Direction::Gt, &key, &first)?;
        allowed = lower.binary(Binary::And, &allowed, &near)?;
    }
    where_not(lower, &allowed, f64::NEG_INFINITY, ty)
}
