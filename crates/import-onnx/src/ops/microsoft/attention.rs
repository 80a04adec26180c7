//! `Attention`, `MultiHeadAttention`, `QAttention` and `RotaryEmbedding`, as in encoders and
//! decoders of the BERT and GPT families.

use super::super::integers::product_of;
use super::super::products::product;
use super::super::reductions::softmax_along;
use super::super::rotary::turned;
use super::super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "Attention" => attention,
        "QAttention" => quantized_attention,
        "MultiHeadAttention" => multi_head,
        "RotaryEmbedding" => rotary_embedding,
        _ => return None,
    };
    Some(lowering)
}

/// Modifications of the scores before the softmax.
pub(super) struct Scores {
    pub(super) scale: Option<f64>,
    pub(super) softcap: f64,
    /// Biases that are broadcast and added to the scores.
    pub(super) bias: Vec<Value>,
    /// An additional score for each head, `[heads]`, which belongs to no key but takes part in the
    /// softmax.
    pub(super) sink: Option<Value>,
}

/// The results of attention.
pub(super) struct Attended {
    /// The output, `[batch, positions, heads * size]`
    pub(super) y: Value,
    /// The weights, `[batch, heads, positions, keys]`
    pub(super) weights: Value,
    /// The scores before the softmax.
    pub(super) scores: Value,
}

/// `softmax(q k^T * scale + bias) v` of arrays `[batch, heads, positions, size]`, computed in f32
/// or wider.
pub(super) fn attended(
    lower: &mut Lowerer<'_>,
    q: &Value,
    k: &Value,
    v: &Value,
    how: &Scores,
) -> Result<Attended> {
    let ty = q.ty;
    let wide = super::normalization::wide(ty);
    let [q, k, v] = [q, k, v].map(|x| lower.convert(x, wide));
    let (q, k, v) = (q?, k?, v?);
    let scale = match how.scale {
        Some(scale) => lower.like(&q, scale)?,
        None => {
            let size = lower.size_number(&q.dims[3])?;
            let root = lower.unary(Unary::Sqrt, &size)?;
            let one_ = lower.like(&root, 1.0)?;
            let inverse = lower.div(&one_, &root)?;
            lower.convert(&inverse, wide)?
        }
    };
    let q = lower.mul(&q, &scale)?;
    let mut scores = lower.dot(&q, &k, &[(0, 0), (1, 1)], &[(3, 3)])?;
    if how.softcap > 0.0 {
        let inner = lower.scaled(&scores, 1.0 / how.softcap)?;
        let inner = lower.unary(Unary::Tanh, &inner)?;
        scores = lower.scaled(&inner, how.softcap)?;
    }
    for bias in &how.bias {
        let bias = lower.convert(bias, wide)?;
        scores = lower.add(&scores, &bias)?;
    }
    let weights = match &how.sink {
        Some(sink) => {
            let sink = lower.convert(sink, wide)?;
            softmax_with_sink(lower, &scores, &sink)?
        }
        None => softmax_along(lower, &scores, &[3], false)?,
    };
    let y = lower.dot(&weights, &v, &[(0, 0), (1, 1)], &[(3, 2)])?;
    let y = lower.transpose(&y, &[0, 2, 1, 3])?;
    let [b, s, h, d] = [0, 1, 2, 3].map(|at| y.dims[at].clone());
    let y = lower.reshape(&y, &[b, s, h.mul(&d)])?;
    Ok(Attended {
        y: lower.convert(&y, ty)?,
        weights: lower.convert(&weights, ty)?,
        scores: lower.convert(&scores, ty)?,
    })
}

/// The softmax over the last dimension and one additional score for each head, whose weight is
/// dropped.
fn softmax_with_sink(lower: &mut Lowerer<'_>, scores: &Value, sink: &Value) -> Result<Value> {
    use crate::lower::Fold;
    let mut dims = vec![Term::constant(1); 4];
    if let Some(heads) = sink.dims.first() {
        dims[1] = heads.clone();
    }
    let sink = lower.reshape(sink, &dims)?;
    let largest = lower.reduce(scores, Fold::Max, &[3], true)?;
    let largest = lower.max(&largest, &sink)?;
    let rest = lower.sub(scores, &largest)?;
    let exp = lower.unary(Unary::Exp, &rest)?;
    let sum = lower.reduce(&exp, Fold::Sum, &[3], true)?;
    let own = lower.sub(&sink, &largest)?;
    let own = lower.unary(Unary::Exp, &own)?;
    let sum = lower.add(&sum, &own)?;
    lower.div(&exp, &sum)
}

/// Converts `[batch, positions, heads * size]` to `[batch, heads, positions, size]`.
pub(super) fn by_heads(lower: &mut Lowerer<'_>, x: &Value, heads: i64) -> Result<Value> {
    if x.rank() != 3 || heads < 1 {
        return Err(Error::input(
            "expected queries, keys and values of three dimensions, and the number of heads",
        ));
    }
    let heads = Term::constant(heads);
    let size = lower.canonical(&x.dims[2].floor_div(&heads));
    let dims = [x.dims[0].clone(), x.dims[1].clone(), heads, size];
    let parts = lower.reshape(x, &dims)?;
    lower.transpose(&parts, &[0, 2, 1, 3])
}

/// A bias that is 0 where a condition is true, and a given number where it is false.
pub(super) fn where_not(
    lower: &mut Lowerer<'_>,
    allowed: &Value,
    number: f64,
    ty: ElementType,
) -> Result<Value> {
    let (on, off) = (lower.scalar(ty, 0.0)?, lower.scalar(ty, number)?);
    lower.select(allowed, &on, &off)
}

/// The bias that excludes padding. The mask has one of three forms: a truth value for each key (of
/// a batch, or of a query); the number of keys of each batch; or the ends and then the starts of
/// the keys of each batch.
fn padding(
    lower: &mut Lowerer<'_>,
    mask: &Value,
    keys: &Term,
    batch: &Term,
    number: f64,
    ty: ElementType,
) -> Result<Value> {
    let one_ = Term::constant(1);
    let allowed = match mask.rank() {
        1 => {
            let key = lower.iota(mask.ty, std::slice::from_ref(keys), 0)?;
            let bound = |lower: &mut Lowerer<'_>, list: &Value| {
                lower.reshape(
                    list,
                    &[
                        list.dims[0].clone(),
                        one_.clone(),
                        one_.clone(),
                        one_.clone(),
                    ],
                )
            };
            let two = lower.canonical(&batch.add(batch));
            let has_starts = lower.canonical(&mask.dims[0].sub(&two)).as_constant() == Some(0)
                && two.as_constant() != Some(0);
            match has_starts {
                true => {
                    let ends = lower.slice(mask, 0, &Term::constant(0), batch, 1)?;
                    let starts = lower.slice(mask, 0, batch, &two, 1)?;
                    let (ends, starts) = (bound(lower, &ends)?, bound(lower, &starts)?);
                    let before = lower.compare(Direction::Lt, &key, &ends)?;
                    let after = lower.compare(Direction::Ge, &key, &starts)?;
                    lower.binary(Binary::And, &before, &after)?
                }
                false => {
                    let ends = bound(lower, mask)?;
                    lower.compare(Direction::Lt, &key, &ends)?
                }
            }
        }
        2 | 3 => {
            let mut mask = lower.unsqueeze(mask, 1)?;
            if mask.rank() == 3 {
                mask = lower.unsqueeze(&mask, 1)?;
            }
            let zero = lower.like(&mask, 0.0)?;
            lower.compare(Direction::Gt, &mask, &zero)?
        }
        other => {
            return Err(Error::unsupported(format!(
                "a mask of {other} dimensions is not supported: expected 1, 2 or 3 dimensions"
            )));
        }
    };
    where_not(lower, &allowed, number, ty)
}

/// The bias that excludes keys after each query; the last query is at the position of the last key.
fn causal(lower: &mut Lowerer<'_>, places: &Term, keys: &Term, ty: ElementType) -> Result<Value> {
    let dims = [places.clone(), keys.clone()];
    let own = lower.iota(ElementType::S64, &dims, 0)?;
    let key = lower.iota(ElementType::S64, &dims, 1)?;
    let before = lower.of_terms(ElementType::S64, &[], &[keys.sub(places)])?;
    let place = lower.add(&own, &before)?;
    let allowed = lower.compare(Direction::Le, &key, &place)?;
    where_not(lower, &allowed, f64::from(f32::MIN), ty)
}

/// The biases of `Attention` and `MultiHeadAttention`.
fn biases(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    q: &Value,
    k: &Value,
    mask: Option<Value>,
    bias: Option<Value>,
) -> Result<Vec<Value>> {
    let ty = super::normalization::wide(q.ty);
    let mut all = Vec::new();
    let (places, keys) = (q.dims[2].clone(), k.dims[2].clone());
    if let Some(mask) = mask {
        let number = call.float("mask_filter_value", -10000.0);
        all.push(padding(lower, &mask, &keys, &q.dims[0], number, ty)?);
    }
    if call.int("unidirectional", 0) != 0 {
        all.push(causal(lower, &places, &keys, ty)?);
    }
    all.extend(bias);
    Ok(all)
}

fn scale_of(call: &Call<'_, '_>) -> Option<f64> {
    let scale = call.attribute("scale").and_then(|a| a.float);
    scale.filter(|scale| *scale != 0.0).map(f64::from)
}

/// Splits the last dimension into parts of these sizes.
fn parts(lower: &mut Lowerer<'_>, x: &Value, sizes: &[Term]) -> Result<Vec<Value>> {
    let last = x.rank().saturating_sub(1);
    let mut start = Term::constant(0);
    let mut all = Vec::new();
    for size in sizes {
        let limit = lower.canonical(&start.add(size));
        all.push(lower.slice(x, last, &start, &limit, 1)?);
        start = limit;
    }
    Ok(all)
}

fn refuse(call: &Call<'_, '_>, attribute: &str) -> Result<()> {
    match call.int(attribute, 0) {
        0 => Ok(()),
        _ => Err(Error::unsupported(format!(
            "the attribute `{attribute}` is not supported"
        ))),
    }
}

/// Attention whose queries, keys and values are projections of one input by merged weights.
fn attention<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    refuse(call, "past_present_share_buffer")?;
    let mut whole = product(lower, &call.input(0)?, &call.input(1)?)?;
    if let Some(bias) = call.optional(2) {
        whole = lower.add(&whole, &bias)?;
    }
    of_projections(
        lower,
        call,
        &whole,
        call.optional(3),
        call.optional(4),
        call.optional(5),
    )
}

/// Attention whose queries, keys and values are projections of one quantized input by merged
/// quantized weights.
fn quantized_attention<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    refuse(call, "past_present_share_buffer")?;
    let (x, w) = (call.input(0)?, call.input(1)?);
    let sum = product_of(lower, &x, call.optional(6), &w, call.optional(7))?;
    let sum = lower.convert(&sum, ElementType::F32)?;
    let scale = lower.mul(&call.input(3)?, &call.input(4)?)?;
    let whole = lower.mul(&sum, &scale)?;
    let whole = lower.add(&whole, &call.input(2)?)?;
    of_projections(
        lower,
        call,
        &whole,
        call.optional(5),
        call.optional(8),
        None,
    )
}

fn of_projections(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    whole: &Value,
    mask: Option<Value>,
    past: Option<Value>,
    bias: Option<Value>,
) -> Result<Vec<Item>> {
    refuse(call, "do_rotary")?;
    if whole.rank() != 3 {
        return Err(Error::input("expected an input of three dimensions"));
    }
    let sizes: Vec<Term> = match call.ints("qkv_hidden_sizes") {
        Some(list) if list.len() == 3 => list.into_iter().map(Term::constant).collect(),
        _ => {
            let size = whole.dims[2].floor_div(&Term::constant(3));
            vec![lower.canonical(&size); 3]
        }
    };
    let heads = call.int("num_heads", 0);
    let mut heads_of = Vec::new();
    for part in parts(lower, whole, &sizes)? {
        heads_of.push(by_heads(lower, &part, heads)?);
    }
    let [q, mut k, mut v] = <[Value; 3]>::try_from(heads_of)
        .map_err(|_| Error::input("expected queries, keys and values"))?;
    if let Some(past) = past {
        if past.rank() != 5 {
            return Err(Error::input("expected `past` of five dimensions"));
        }
        let mut of_past = Vec::new();
        for at in 0..2 {
            let part = lower.slice(&past, 0, &Term::constant(at), &Term::constant(at + 1), 1)?;
            of_past.push(lower.squeeze(&part, 0)?);
        }
        k = lower.concat(&[of_past[0].clone(), k], 2)?;
        v = lower.concat(&[of_past[1].clone(), v], 2)?;
    }
    let how = Scores {
        scale: scale_of(call),
        softcap: 0.0,
        bias: biases(lower, call, &q, &k, mask, bias)?,
        sink: None,
    };
    let done = attended(lower, &q, &k, &v, &how)?;
    let is_wanted = call
        .node
        .outputs
        .get(1)
        .is_some_and(|name| !name.is_empty());
    if !is_wanted {
        return one(done.y);
    }
    let (k, v) = (lower.unsqueeze(&k, 0)?, lower.unsqueeze(&v, 0)?);
    Ok(vec![done.y.into(), lower.concat(&[k, v], 0)?.into()])
}

/// One of several arrays that are packed along dimension 3 of five, transposed so that heads come
/// before positions.
fn packed(lower: &mut Lowerer<'_>, x: &Value, at: i64) -> Result<Value> {
    let part = lower.slice(x, 3, &Term::constant(at), &Term::constant(at + 1), 1)?;
    let part = lower.squeeze(&part, 3)?;
    lower.transpose(&part, &[0, 2, 1, 3])
}

fn multi_head<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    if call.optional(8).is_some() || call.optional(9).is_some() {
        return Err(Error::unsupported(
            "caches that share a buffer (`past_sequence_length`, `cache_indirection`) are not supported",
        ));
    }
    let heads = call.int("num_heads", 0);
    let query = call.input(0)?;
    // The biases of queries, keys and values. Keys that are split into heads have no bias to add.
    let (q, k, v) = match (query.rank(), call.optional(1), call.optional(2)) {
        (5, ..) => (
            packed(lower, &query, 0)?,
            packed(lower, &query, 1)?,
            packed(lower, &query, 2)?,
        ),
        (_, Some(key), value) => {
            let bias = match call.optional(3) {
                Some(bias) => {
                    let own = query.size(2)?.clone();
                    let rest = bias.size(0)?.sub(&own).sub(&own);
                    let sizes = [own.clone(), own, lower.canonical(&rest)];
                    parts(lower, &bias, &sizes)?.into_iter().map(Some).collect()
                }
                None => vec![None; 3],
            };
            let projected = |lower: &mut Lowerer<'a>, x: &Value, at: usize| -> Result<Value> {
                match (x.rank(), &bias[at]) {
                    (4, _) => Ok(x.clone()),
                    (_, Some(bias)) => {
                        let x = lower.add(x, bias)?;
                        by_heads(lower, &x, heads)
                    }
                    (_, None) => by_heads(lower, x, heads),
                }
            };
            let q = projected(lower, &query, 0)?;
            match (key.rank(), value) {
                (5, _) => (q, packed(lower, &key, 0)?, packed(lower, &key, 1)?),
                (_, Some(value)) => (q, projected(lower, &key, 1)?, projected(lower, &value, 2)?),
                _ => return Err(Error::input("`value` is missing")),
            }
        }
        _ => return Err(Error::input("`key` is missing")),
    };
    let after = |lower: &mut Lowerer<'a>, past: Option<Value>, new: Value| match past {
        Some(past) if past.rank() == 4 => lower.concat(&[past, new], 2),
        Some(_) => Err(Error::input("expected a cache of four dimensions")),
        None => Ok(new),
    };
    let k = after(lower, call.optional(6), k)?;
    let v = after(lower, call.optional(7), v)?;
    let how = Scores {
        scale: scale_of(call),
        softcap: 0.0,
        bias: biases(lower, call, &q, &k, call.optional(4), call.optional(5))?,
        sink: None,
    };
    let done = attended(lower, &q, &k, &v, &how)?;
    Ok(vec![done.y.into(), k.into(), v.into(), done.scores.into()])
}

/// Rotates pairs of elements of each head. `position_ids` has the position of each element, or that
/// of the first element of all batches.
fn rotary_embedding<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    refuse(call, "is_packed_batching")?;
    let given = call.input(0)?;
    let (cos, sin) = (call.input(2)?, call.input(3)?);
    let turns = cos.size(1)?.mul(&Term::constant(2));
    // Batch, positions, heads, elements.
    let x = match given.rank() {
        4 => lower.transpose(&given, &[0, 2, 1, 3])?,
        3 => {
            let size = match call.int("num_heads", 0) {
                heads @ 1.. => given.dims[2].floor_div(&Term::constant(heads)),
                _ => turns.clone(),
            };
            let size = lower.canonical(&size);
            let heads = lower.canonical(&given.dims[2].floor_div(&size));
            let dims = [given.dims[0].clone(), given.dims[1].clone(), heads, size];
            lower.reshape(&given, &dims)?
        }
        other => {
            return Err(Error::input(format!(
                "expected an array of three or four dimensions, found {other}"
            )));
        }
    };
    let places = call.input(1)?;
    let places = lower.convert(&places, ElementType::S64)?;
    let places = match places.rank() {
        1 => {
            let own = lower.iota(ElementType::S64, &x.dims[..2], 1)?;
            lower.add(&own, &places)?
        }
        _ => places,
    };
    let rows = |lower: &mut Lowerer<'a>, cache: &Value| -> Result<Value> {
        let rows = lower.take(cache, &places, 0)?;
        lower.unsqueeze(&rows, 2)
    };
    let (cos, sin) = (rows(lower, &cos)?, rows(lower, &sin)?);
    let y = turned(
        lower,
        &x,
        &cos,
        &sin,
        &turns,
        call.int("interleaved", 0) != 0,
    )?;
    match given.rank() {
        3 => one(lower.reshape(&y, &given.dims)?),
        _ => one(lower.transpose(&y, &[0, 2, 1, 3])?),
    }
}
