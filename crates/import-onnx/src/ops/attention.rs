//! Attention: scaled dot products of queries and keys, their softmax, and the weighted mean of the
//! values.

use super::Lowering;
use super::reductions::softmax_along;
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use crate::tensor::element_type;
use tegula_expr::Term;
use tegula_ir::{Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    (op == "Attention").then_some(attention as Lowering)
}

/// The operators of `ai.onnx.preview`.
pub(super) fn find_preview(op: &str) -> Option<Lowering> {
    (op == "FlexAttention").then_some(flex_attention as Lowering)
}

/// Attention with score modifications that are subgraphs of the model.
fn flex_attention<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let [q, k, v] = [call.input(0)?, call.input(1)?, call.input(2)?];
    if [&q, &k, &v].iter().any(|x| x.rank() != 4) {
        return Err(Error::input("expected [batch, heads, places, size]"));
    }
    let root = match call.attribute("scale").and_then(|a| a.float) {
        Some(scale) => lower.like(&q, f64::from(scale).sqrt())?,
        None => {
            let size = lower.size_number(&q.dims[3])?;
            let size = lower.unary(Unary::Sqrt, &size)?;
            let root = lower.unary(Unary::Rsqrt, &size)?;
            lower.convert(&root, q.ty)?
        }
    };
    let (scaled_q, scaled_k) = (lower.mul(&q, &root)?, lower.mul(&k, &root)?);
    let repeated_k = for_all_queries(lower, &scaled_k, &q)?;
    let repeated_v = for_all_queries(lower, &v, &q)?;
    let batch = [(0, 0), (1, 1)];
    let scores = lower.dot(&scaled_q, &repeated_k, &batch, &[(3, 3)])?;
    let precise = match (call.int("softmax_precision", 0), q.ty) {
        (0, ElementType::F64) => ElementType::F64,
        (0, _) => ElementType::F32,
        (number, _) => element_type(number)?,
    };
    let scores = lower.convert(&scores, precise)?;
    let changed = |lower: &mut Lowerer<'a>, name: &str, value: Value| -> Result<Value> {
        let Some(graph) = call.attribute(name).and_then(|a| a.graph.as_ref()) else {
            return Ok(value);
        };
        let results = lower.subgraph(graph, call, call.scope, vec![value.into()])?;
        match results.into_iter().next() {
            Some(Item::Tensor(value)) => lower.convert(&value, precise),
            _ => Err(Error::input(format!(
                "the graph `{name}` must return a tensor"
            ))),
        }
    };
    let scores = changed(lower, "score_mod", scores)?;
    let weights = softmax_along(lower, &scores, &[3], false)?;
    let weights = changed(lower, "prob_mod", weights)?;
    let wide_v = lower.convert(&repeated_v, precise)?;
    let y = lower.dot(&weights, &wide_v, &batch, &[(3, 2)])?;
    Ok(vec![lower.convert(&y, v.ty)?.into()])
}

fn attention<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let given = [call.input(0)?, call.input(1)?, call.input(2)?];
    let is_flat = given[0].rank() == 3;
    let [q, k, v] = given;
    let q = by_heads(lower, &q, call.int("q_num_heads", 0))?;
    let k = by_heads(lower, &k, call.int("kv_num_heads", 0))?;
    let v = by_heads(lower, &v, call.int("kv_num_heads", 0))?;
    let past = call.optional(4).map(|past| past.dims.get(2).cloned());
    let k = after_past(lower, call.optional(4), k)?;
    let v = after_past(lower, call.optional(5), v)?;
    let bias = bias(lower, call, &q, &k, past.flatten())?;

    let scale = match call.attribute("scale").and_then(|a| a.float) {
        Some(scale) => lower.like(&q, f64::from(scale).sqrt())?,
        None => {
            // The scale is 1 / sqrt(size of a head); its square root is applied to either operand.
            let size = lower.of_terms(ElementType::S64, &[], &[q.dims[3].clone()])?;
            let size = lower.convert(&size, ElementType::F32)?;
            let root = lower.unary(Unary::Sqrt, &size)?;
            let root = lower.unary(Unary::Sqrt, &root)?;
            let one = lower.like(&root, 1.0)?;
            let scale = lower.div(&one, &root)?;
            lower.convert(&scale, q.ty)?
        }
    };
    let scaled_q = lower.mul(&q, &scale)?;
    let scaled_k = lower.mul(&k, &scale)?;
    let repeated_k = for_all_queries(lower, &scaled_k, &q)?;
    let repeated_v = for_all_queries(lower, &v, &q)?;
    let batch = [(0, 0), (1, 1)];
    let raw = lower.dot(&scaled_q, &repeated_k, &batch, &[(3, 3)])?;
    let capped = match call.float("softcap", 0.0) {
        cap if cap > 0.0 => {
            let inner = lower.scaled(&raw, 1.0 / cap)?;
            let inner = lower.unary(Unary::Tanh, &inner)?;
            lower.scaled(&inner, cap)?
        }
        _ => raw.clone(),
    };
    let biased = match &bias {
        Some(bias) => lower.add(&capped, bias)?,
        None => capped.clone(),
    };
    let precise = match call.int("softmax_precision", 0) {
        0 => biased.clone(),
        number => lower.convert(&biased, element_type(number)?)?,
    };
    let weights = match &bias {
        Some(bias) => masked_softmax(lower, &precise, bias)?,
        None => softmax_along(lower, &precise, &[3], false)?,
    };
    let weights = lower.convert(&weights, q.ty)?;
    let mut y = lower.dot(&weights, &repeated_v, &batch, &[(3, 2)])?;
    if is_flat {
        let moved = lower.transpose(&y, &[0, 2, 1, 3])?;
        let [b, s, h, d] = [0, 1, 2, 3].map(|at| moved.dims[at].clone());
        y = lower.reshape(&moved, &[b, s, h.mul(&d)])?;
    }
    let shown = match call.int("qk_matmul_output_mode", 0) {
        0 => raw,
        1 => capped,
        2 => biased,
        3 => weights,
        other => {
            return Err(Error::input(format!(
                "`qk_matmul_output_mode` is {other}: expected 0, 1, 2 or 3"
            )));
        }
    };
    Ok(vec![y.into(), k.into(), v.into(), shown.into()])
}

/// Converts to `[batch, heads, positions, size]`. In a three-dimensional array, the last dimension
/// is split.
fn by_heads(lower: &mut Lowerer<'_>, x: &Value, heads: i64) -> Result<Value> {
    match (x.rank(), heads) {
        (4, _) => Ok(x.clone()),
        (3, 1..) => {
            let heads = Term::constant(heads);
            let size = x.dims[2].floor_div(&heads);
            let dims = [x.dims[0].clone(), x.dims[1].clone(), heads, size];
            let parts = lower.reshape(x, &dims)?;
            lower.transpose(&parts, &[0, 2, 1, 3])
        }
        _ => Err(Error::input(
            "expected queries, keys and values of four dimensions, or of three with the numbers \
             of heads",
        )),
    }
}

/// Concatenates the cache and the new values.
fn after_past(lower: &mut Lowerer<'_>, past: Option<Value>, new: Value) -> Result<Value> {
    match past {
        Some(past) if past.rank() == 4 => lower.concat(&[past, new], 2),
        Some(_) => Err(Error::input("expected a cache of four dimensions")),
        None => Ok(new),
    }
}

/// Repeats each head of keys or values for all heads of queries that share it.
pub(super) fn for_all_queries(lower: &mut Lowerer<'_>, x: &Value, q: &Value) -> Result<Value> {
    let (own, wanted) = (x.dims[1].as_constant(), q.dims[1].as_constant());
    let (Some(own @ 1..), Some(wanted)) = (own, wanted) else {
        return Ok(x.clone());
    };
    if own == wanted {
        return Ok(x.clone());
    }
    if wanted % own != 0 {
        return Err(Error::input(format!(
            "the number of query heads, {wanted}, must be a multiple of the number of key heads, {own}"
        )));
    }
    let mut wide = x.dims.clone();
    wide.insert(2, Term::constant(wanted / own));
    let repeated = lower.broadcast_in(x, &[0, 1, 3, 4], &wide)?;
    let mut whole = x.dims.clone();
    whole[1] = Term::constant(wanted);
    lower.reshape(&repeated, &whole)
}

/// The bias of the scores: the mask, and minus infinity for keys that a query must not attend to.
fn bias(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    q: &Value,
    k: &Value,
    past: Option<Term>,
) -> Result<Option<Value>> {
    let mut bias = match call.optional(3) {
        Some(mask) => Some(additive(lower, &mask, q.ty, &k.dims[2])?),
        None => None,
    };
    let places = [q.dims[2].clone(), k.dims[2].clone()];
    let key = lower.iota(ElementType::S64, &places, 1)?;
    let valid = match call.optional(6) {
        Some(valid) if valid.rank() != 1 => {
            return Err(Error::input("expected one number of keys for each batch"));
        }
        Some(valid) => {
            let valid = lower.convert(&valid, ElementType::S64)?;
            let one = Term::constant(1);
            let dims = [valid.dims[0].clone(), one.clone(), one.clone(), one];
            Some(lower.reshape(&valid, &dims)?)
        }
        None => None,
    };
    let [left, right] = ["left_window_size", "right_window_size"].map(|name| call.int(name, -1));
    let is_causal = call.int("is_causal", 0) != 0;
    if is_causal || left >= 0 || right >= 0 {
        // The position of each query among all keys.
        let own = lower.iota(ElementType::S64, &places, 0)?;
        let before = match (&past, &valid) {
            (None, Some(valid)) => {
                let count = lower.of_terms(ElementType::S64, &[], &[q.dims[2].clone()])?;
                lower.sub(valid, &count)?
            }
            _ => {
                let past = past.unwrap_or(Term::constant(0));
                lower.of_terms(ElementType::S64, &[], &[past])?
            }
        };
        let place = lower.add(&own, &before)?;
        let latest = match (is_causal, right) {
            (true, _) => Some(0),
            (false, 0..) => Some(right),
            (false, _) => None,
        };
        if let Some(latest) = latest {
            let limit = lower.shifted(&place, latest as f64)?;
            let allowed = lower.compare(Direction::Le, &key, &limit)?;
            bias = Some(restricted(lower, bias, &allowed, q.ty)?);
        }
        if left >= 0 {
            let limit = lower.shifted(&place, -(left as f64))?;
            let allowed = lower.compare(Direction::Ge, &key, &limit)?;
            bias = Some(restricted(lower, bias, &allowed, q.ty)?);
        }
    }
    if let Some(valid) = valid {
        let allowed = lower.compare(Direction::Lt, &key, &valid)?;
        bias = Some(restricted(lower, bias, &allowed, q.ty)?);
    }
    Ok(bias)
}

/// Converts a mask to a bias. A mask for fewer keys excludes the others.
fn additive(lower: &mut Lowerer<'_>, mask: &Value, ty: ElementType, keys: &Term) -> Result<Value> {
    let mut mask = match mask.ty {
        ElementType::Pred => {
            let (on, off) = (lower.scalar(ty, 0.0)?, lower.scalar(ty, f64::NEG_INFINITY)?);
            lower.select(mask, &on, &off)?
        }
        _ => lower.convert(mask, ty)?,
    };
    let Some(own) = mask.dims.last() else {
        return Ok(mask);
    };
    let lacking = lower.canonical(&keys.sub(own));
    if lower.range(&lacking).lower > 0 {
        let low = vec![Term::constant(0); mask.rank()];
        let mut high = low.clone();
        high[mask.rank() - 1] = lacking;
        let fill = lower.scalar(ty, f64::NEG_INFINITY)?;
        mask = lower.pad(&mask, &fill, &low, &high)?;
    }
    Ok(mask)
}

/// A bias that excludes disallowed positions as well.
fn restricted(
    lower: &mut Lowerer<'_>,
    bias: Option<Value>,
    allowed: &Value,
    ty: ElementType,
) -> Result<Value> {
    let (on, off) = (lower.scalar(ty, 0.0)?, lower.scalar(ty, f64::NEG_INFINITY)?);
    match bias {
        Some(bias) => lower.select(allowed, &bias, &off),
        None => lower.select(allowed, &on, &off),
    }
}

/// The softmax along the last dimension. A row in which all keys are excluded is zero.
fn masked_softmax(lower: &mut Lowerer<'_>, x: &Value, bias: &Value) -> Result<Value> {
    let last = x.rank() - 1;
    let zero = lower.like(x, 0.0)?;
    let nothing = lower.like(x, f64::NEG_INFINITY)?;
    let largest = lower.reduce(x, Fold::Max, &[last], true)?;
    let none = lower.compare(Direction::Eq, &largest, &nothing)?;
    let largest = lower.select(&none, &zero, &largest)?;
    let rest = lower.sub(x, &largest)?;
    let exp = lower.unary(Unary::Exp, &rest)?;
    let sum = lower.reduce(&exp, Fold::Sum, &[last], true)?;
    let is_empty = lower.compare(Direction::Eq, &sum, &zero)?;
    let one = lower.like(x, 1.0)?;
    let sum = lower.select(&is_empty, &one, &sum)?;
    let weights = lower.div(&exp, &sum)?;
    // If all keys are excluded, the scores may be NaN, so the bias decides.
    let Some(along) = bias.rank().checked_sub(1) else {
        return Ok(weights);
    };
    let most = lower.reduce(bias, Fold::Max, &[along], true)?;
    let nothing = lower.like(&most, f64::NEG_INFINITY)?;
    let none = lower.compare(Direction::Eq, &most, &nothing)?;
    lower.select(&none, &zero, &weights)
}
