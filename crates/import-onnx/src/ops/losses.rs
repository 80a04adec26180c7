//! Classification losses.

use super::Lowering;
use super::reductions::softmax_along;
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use tegula_ir::{Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "NegativeLogLikelihoodLoss" => likelihood,
        "SoftmaxCrossEntropyLoss" => cross_entropy,
        _ => return None,
    };
    Some(lowering)
}

fn likelihood<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    Ok(vec![loss(lower, call, &x)?.into()])
}

fn cross_entropy<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    if x.rank() < 2 {
        return Err(Error::input("expected a dimension of classes"));
    }
    let log = softmax_along(lower, &x, &[1], true)?;
    Ok(vec![loss(lower, call, &log)?.into(), log.into()])
}

/// The negated log-probabilities of the target classes, weighted, and combined as `reduction` says.
fn loss<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>, x: &Value) -> Result<Value> {
    let target = call.input(1)?;
    if x.rank() < 2 || target.rank() + 1 != x.rank() {
        return Err(Error::input("expected a class for each place"));
    }
    let target = lower.convert(&target, ElementType::S64)?;
    let zero = lower.like(&target, 0.0)?;
    let ignored = call.attribute("ignore_index").and_then(|a| a.int);
    let counted = match ignored {
        Some(number) => {
            let number = Value::of_integers(ElementType::S64, &[], &[number])?;
            Some(lower.compare(Direction::Ne, &target, &number)?)
        }
        None => None,
    };
    let class = match &counted {
        Some(counted) => lower.select(counted, &target, &zero)?,
        None => target,
    };
    let column = lower.unsqueeze(&class, 1)?;
    let places = lower.whole_index(x, &column, 1)?;
    let picked = lower.gather_nd(x, &places, 0)?;
    let picked = lower.squeeze(&picked, 1)?;
    let mut weight = match call.optional(2) {
        Some(weight) => lower.take(&weight, &class, 0)?,
        None => lower.splat(x.ty, 1.0, &class.dims)?,
    };
    if let Some(counted) = &counted {
        let none = lower.like(x, 0.0)?;
        weight = lower.select(counted, &weight, &none)?;
    }
    let loss = lower.unary(Unary::Negate, &picked)?;
    let loss = lower.mul(&loss, &weight)?;
    let axes: Vec<usize> = (0..loss.rank()).collect();
    match call.text("reduction", "mean") {
        "none" => Ok(loss),
        "sum" => lower.reduce(&loss, Fold::Sum, &axes, false),
        "mean" => {
            let sum = lower.reduce(&loss, Fold::Sum, &axes, false)?;
            let all = lower.reduce(&weight, Fold::Sum, &axes, false)?;
            lower.div(&sum, &all)
        }
        other => Err(Error::input(format!(
            "`reduction` is `{other}`: expected none, sum or mean"
        ))),
    }
}
