//! Optimiser steps (`ai.onnx.preview.training`).

use super::Lowering;
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_ir::{Binary, Direction, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "Adagrad" => adagrad,
        "Adam" => adam,
        "Momentum" => momentum,
        _ => return None,
    };
    Some(lowering)
}

/// Applies a step to each parameter. `of` takes the parameter's value, its gradient and its
/// optimiser state, and returns the new value and state.
fn each<'a>(
    lower: &mut Lowerer<'a>,
    call: &Call<'_, 'a>,
    kept: usize,
    of: impl Fn(&mut Lowerer<'a>, &[Value]) -> Result<Vec<Value>>,
) -> Result<Vec<Item>> {
    let parts = kept + 2;
    let count = call.inputs.len().saturating_sub(2);
    if count == 0 || !count.is_multiple_of(parts) {
        return Err(Error::input(format!(
            "expected a rate, a count and {parts} lists of tensors of one length"
        )));
    }
    let count = count / parts;
    let mut results = vec![Vec::new(); kept + 1];
    for at in 0..count {
        let own: Result<Vec<Value>> = (0..parts)
            .map(|part| call.input(2 + part * count + at))
            .collect();
        for (list, value) in results.iter_mut().zip(of(lower, &own?)?) {
            list.push(Item::from(value));
        }
    }
    Ok(results.into_iter().flatten().collect())
}

/// The gradient plus that of an L2 penalty.
fn regularized(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    g: &Value,
) -> Result<Value> {
    let penalty = lower.scaled(x, call.float("norm_coefficient", 0.0))?;
    lower.add(&penalty, g)
}

fn adagrad<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (rate, count) = (call.input(0)?, call.input(1)?);
    let count = lower.convert(&count, rate.ty)?;
    let slower = lower.scaled(&count, call.float("decay_factor", 0.0))?;
    let slower = lower.shifted(&slower, 1.0)?;
    let rate = lower.div(&rate, &slower)?;
    each(lower, call, 1, |lower, own| {
        let [x, g, h] = own else {
            return Err(Error::input("expected three tensors"));
        };
        let g = regularized(lower, call, x, g)?;
        let square = lower.mul(&g, &g)?;
        let h = lower.add(h, &square)?;
        let root = lower.unary(Unary::Sqrt, &h)?;
        let root = lower.shifted(&root, call.float("epsilon", 0.0))?;
        let step = lower.mul(&rate, &g)?;
        let step = lower.div(&step, &root)?;
        Ok(vec![lower.sub(x, &step)?, h])
    })
}

/// `old * factor + new * (1 - factor)`.
fn mixed(lower: &mut Lowerer<'_>, old: &Value, new: &Value, factor: f64) -> Result<Value> {
    let (old, new) = (lower.scaled(old, factor)?, lower.scaled(new, 1.0 - factor)?);
    lower.add(&old, &new)
}

fn adam<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (rate, count) = (call.input(0)?, call.input(1)?);
    let (alpha, beta) = (call.float("alpha", 0.9), call.float("beta", 0.999));
    let zero = lower.like(&count, 0.0)?;
    let started = lower.compare(Direction::Gt, &count, &zero)?;
    let times = lower.convert(&count, rate.ty)?;
    let missing = |lower: &mut Lowerer<'a>, factor: f64| -> Result<Value> {
        let base = lower.like(&rate, factor)?;
        let base = lower.broadcast_to(&base, &times.dims)?;
        let power = lower.binary(Binary::Power, &base, &times)?;
        let one = lower.like(&power, 1.0)?;
        lower.sub(&one, &power)
    };
    let (first, second) = (missing(lower, alpha)?, missing(lower, beta)?);
    let root = lower.unary(Unary::Sqrt, &second)?;
    let corrected = lower.mul(&rate, &root)?;
    let corrected = lower.div(&corrected, &first)?;
    let rate = lower.select(&started, &corrected, &rate)?;
    each(lower, call, 2, |lower, own| {
        let [x, g, v, h] = own else {
            return Err(Error::input("expected four tensors"));
        };
        let g = regularized(lower, call, x, g)?;
        let v = mixed(lower, v, &g, alpha)?;
        let square = lower.mul(&g, &g)?;
        let h = mixed(lower, h, &square, beta)?;
        let root = lower.unary(Unary::Sqrt, &h)?;
        let root = lower.shifted(&root, call.float("epsilon", 0.0))?;
        let step = lower.div(&v, &root)?;
        let step = lower.mul(&rate, &step)?;
        let x = lower.sub(x, &step)?;
        let x = lower.scaled(&x, 1.0 - call.float("norm_coefficient_post", 0.0))?;
        Ok(vec![x, v, h])
    })
}

fn momentum<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (rate, count) = (call.input(0)?, call.input(1)?);
    let alpha = call.float("alpha", 0.0);
    let zero = lower.like(&count, 0.0)?;
    let started = lower.compare(Direction::Gt, &count, &zero)?;
    let (beta, one) = (
        lower.like(&rate, call.float("beta", 0.0))?,
        lower.like(&rate, 1.0)?,
    );
    // The first step uses the whole gradient.
    let beta = lower.select(&started, &beta, &one)?;
    let nesterov = match call.text("mode", "standard") {
        "standard" => false,
        "nesterov" => true,
        other => {
            return Err(Error::input(format!(
                "`mode` is `{other}`: expected standard or nesterov"
            )));
        }
    };
    each(lower, call, 1, |lower, own| {
        let [x, g, v] = own else {
            return Err(Error::input("expected three tensors"));
        };
        let g = regularized(lower, call, x, g)?;
        let (old, new) = (lower.scaled(v, alpha)?, lower.mul(&beta, &g)?);
        let v = lower.add(&old, &new)?;
        let step = match nesterov {
            true => {
                let ahead = lower.scaled(&v, alpha)?;
                lower.add(&g, &ahead)?
            }
            false => v.clone(),
        };
        let step = lower.mul(&rate, &step)?;
        Ok(vec![lower.sub(x, &step)?, v])
    })
}
