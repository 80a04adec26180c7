//! Linear attention, whose state has a fixed size however long the sequence is, and the causal
//! convolution before it.

use super::{Lowering, windows};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "LinearAttention" => linear_attention,
        "CausalConvWithState" => causal_conv,
        _ => return None,
    };
    Some(lowering)
}

/// Converts `[batch, time, heads * size]` to `[time, batch, heads, size]` of f32.
fn by_time(lower: &mut Lowerer<'_>, x: &Value, heads: &Term) -> Result<Value> {
    if x.rank() != 3 {
        return Err(Error::input("expected [batch, time, heads * size]"));
    }
    let size = lower.canonical(&x.dims[2].floor_div(heads));
    let dims = [x.dims[0].clone(), x.dims[1].clone(), heads.clone(), size];
    let x = lower.convert(x, ElementType::F32)?;
    let x = lower.reshape(&x, &dims)?;
    lower.transpose(&x, &[1, 0, 2, 3])
}

/// At each time, the state becomes `decay * state + k (x) v`, and the output is `q . state`. With
/// `delta`, the state's current output for the key is subtracted from the value first.
fn linear_attention<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let [q, k, v] = [call.input(0)?, call.input(1)?, call.input(2)?];
    let ty = q.ty;
    let heads = |name: &str| {
        let count = call.int(name, 0);
        match count > 0 {
            true => Ok(count),
            false => Err(Error::input(format!("expected `{name}` above 0"))),
        }
    };
    let (query_heads, heads) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    if query_heads % heads != 0 {
        return Err(Error::input(
            "`q_num_heads` is not a multiple of `kv_num_heads`",
        ));
    }
    let repeats = query_heads / heads;
    let heads = Term::constant(heads);
    let rule = call.text("update_rule", "gated_delta");
    let q = by_time(lower, &q, &Term::constant(query_heads))?;
    let k = by_time(lower, &k, &heads)?;
    let v = by_time(lower, &v, &heads)?;
    let (time, batch) = (q.dims[0].clone(), q.dims[1].clone());
    let (of_key, of_value) = (k.dims[3].clone(), v.dims[3].clone());
    let mut read = vec![q, k, v];
    let given = |at: usize| {
        let missing = || Error::input(format!("`{rule}` needs input {at}"));
        call.optional(at).ok_or_else(missing)
    };
    let decay_at = match rule {
        "gated" | "gated_delta" => {
            let decay = by_time(lower, &given(4)?, &heads)?;
            // The decay is one number for each head, or for each key of a head.
            read.push(lower.unary(Unary::Exp, &decay)?);
            Some(read.len() - 1)
        }
        "linear" | "delta" => None,
        other => {
            return Err(Error::input(format!(
                "`update_rule` is `{other}`: expected linear, gated, delta or gated_delta"
            )));
        }
    };
    let beta_at = match rule {
        "delta" | "gated_delta" => {
            let beta = given(5)?;
            let parts = beta.dims.last().cloned().unwrap_or(Term::constant(1));
            read.push(by_time(lower, &beta, &parts)?);
            Some(read.len() - 1)
        }
        _ => None,
    };
    let dims = [
        batch.clone(),
        heads.clone(),
        of_key.clone(),
        of_value.clone(),
    ];
    let (state, state_ty) = match call.optional(3) {
        Some(state) => (lower.convert(&state, ElementType::F32)?, state.ty),
        None => (lower.splat(ElementType::F32, 0.0, &dims)?, ty),
    };
    let scale = match call.float("scale", 0.0) {
        0.0 => {
            let size = lower.size_number(&of_key)?;
            let size = lower.convert(&size, ElementType::F32)?;
            lower.unary(Unary::Rsqrt, &size)?
        }
        scale => lower.scalar(ElementType::F32, scale)?,
    };
    let grouped = [
        batch.clone(),
        heads.clone(),
        Term::constant(repeats),
        of_key.clone(),
    ];
    let (done, rows) =
        lower.collecting_loop(&time, &read, &[state], |lower, step, read, state| {
            let row = |lower: &mut Lowerer<'a>, at: usize| lower.at_index(&read[at], 0, step);
            let (q, k, mut v) = (row(lower, 0)?, row(lower, 1)?, row(lower, 2)?);
            let mut state = state[0].clone();
            if let Some(at) = decay_at {
                let decay = row(lower, at)?;
                let decay = lower.unsqueeze(&decay, 3)?;
                state = lower.mul(&state, &decay)?;
            }
            let both = [(0, 0), (1, 1)];
            if let Some(at) = beta_at {
                let known = lower.dot(&k, &state, &both, &[(2, 2)])?;
                let rest = lower.sub(&v, &known)?;
                let beta = row(lower, at)?;
                v = lower.mul(&rest, &beta)?;
            }
            let (column, line) = (lower.unsqueeze(&k, 3)?, lower.unsqueeze(&v, 2)?);
            let outer = lower.mul(&column, &line)?;
            let state = lower.add(&state, &outer)?;
            // The queries of all heads that share a state.
            let q = lower.reshape(&q, &grouped)?;
            let shown = lower.dot(&q, &state, &both, &[(3, 2)])?;
            Ok((vec![state], vec![shown]))
        })?;
    // [time, batch, heads, repeats, size]
    let y = lower.transpose(&rows[0], &[1, 0, 2, 3, 4])?;
    let wide = of_value.mul(&Term::constant(query_heads));
    let y = lower.reshape(&y, &[batch, time, wide])?;
    let y = lower.mul(&y, &scale)?;
    let y = lower.convert(&y, ty)?;
    let state = lower.convert(&done[0], state_ty)?;
    Ok(vec![y.into(), state.into()])
}

/// A depthwise convolution over preceding elements, some of which are kept from call to call.
fn causal_conv<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    if x.rank() != 3 || w.rank() != 3 {
        return Err(Error::input(
            "expected [batch, channels, time] and [channels, 1, kernel]",
        ));
    }
    let kept = lower.canonical(&w.dims[2].sub(&Term::constant(1)));
    let before = match call.optional(3) {
        Some(before) => before,
        None => {
            let dims = [x.dims[0].clone(), x.dims[1].clone(), kept.clone()];
            lower.splat(x.ty, 0.0, &dims)?
        }
    };
    let whole = lower.concat(&[before, x.clone()], 2)?;
    let mut y = windows::each_channel(lower, &whole, &w)?;
    if let Some(bias) = call.optional(2) {
        y = windows::with_bias(lower, &y, &bias)?;
    }
    y = match call.text("activation", "none") {
        "none" => y,
        "silu" | "swish" => {
            let wide = lower.convert(&y, ElementType::F32)?;
            let gate = lower.unary(Unary::Logistic, &wide)?;
            let y = lower.mul(&wide, &gate)?;
            lower.convert(&y, x.ty)?
        }
        other => {
            return Err(Error::input(format!(
                "`activation` is `{other}`: expected none, silu or swish"
            )));
        }
    };
    let end = whole.dims[2].clone();
    let state = lower.slice(&whole, 2, &end.sub(&kept), &end, 1)?;
    Ok(vec![y.into(), state.into()])
}
