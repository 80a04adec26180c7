//! Operators that reduce dimensions.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use tegula_ir::{Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL1"
        | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceSumSquare" => reduce,
        "Softmax" | "LogSoftmax" | "Hardmax" => softmax,
        "ArgMax" | "ArgMin" => arg_extreme,
        "CumSum" | "CumProd" => running,
        "TopK" => top_k,
        _ => return None,
    };
    Some(lowering)
}

fn reduce<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let keep = call.int("keepdims", 1) != 0;
    let axes = super::shaping::axes(call, 1, x.rank())?.unwrap_or_default();
    if axes.is_empty() && call.int("noop_with_empty_axes", 0) != 0 {
        // Without axes nothing is reduced, but the operator's function still applies to each
        // element.
        return one(reduced(lower, call.node.op, &x, &[], false)?);
    }
    let axes = match axes.is_empty() {
        true => (0..x.rank()).collect(),
        false => axes,
    };
    one(reduced(lower, call.node.op, &x, &axes, keep)?)
}

pub(super) fn reduced(
    lower: &mut Lowerer<'_>,
    op: &str,
    x: &Value,
    axes: &[usize],
    keep: bool,
) -> Result<Value> {
    match op {
        "ReduceSum" => lower.reduce(x, Fold::Sum, axes, keep),
        "ReduceMax" => lower.reduce(x, Fold::Max, axes, keep),
        "ReduceMin" => lower.reduce(x, Fold::Min, axes, keep),
        "ReduceProd" => lower.reduce(x, Fold::Product, axes, keep),
        "ReduceMean" => mean(lower, x, axes, keep),
        "ReduceL1" => {
            let size = lower.unary(Unary::Abs, x)?;
            lower.reduce(&size, Fold::Sum, axes, keep)
        }
        "ReduceL2" | "ReduceSumSquare" => {
            let square = lower.mul(x, x)?;
            let sum = lower.reduce(&square, Fold::Sum, axes, keep)?;
            match op {
                "ReduceL2" => lower.unary(Unary::Sqrt, &sum),
                _ => Ok(sum),
            }
        }
        "ReduceLogSum" => {
            let sum = lower.reduce(x, Fold::Sum, axes, keep)?;
            lower.unary(Unary::Log, &sum)
        }
        _ => {
            // The largest element is subtracted first to avoid overflow, unless it is infinite.
            let largest = lower.reduce(x, Fold::Max, axes, true)?;
            let zero = lower.like(x, 0.0)?;
            let size = lower.unary(Unary::Abs, &largest)?;
            let infinity = lower.like(x, f64::INFINITY)?;
            let infinite = lower.compare(Direction::Eq, &size, &infinity)?;
            let taken = lower.select(&infinite, &zero, &largest)?;
            let rest = lower.sub(x, &taken)?;
            let exp = lower.unary(Unary::Exp, &rest)?;
            let sum = lower.reduce(&exp, Fold::Sum, axes, true)?;
            let log = lower.unary(Unary::Log, &sum)?;
            let whole = lower.add(&log, &taken)?;
            match keep || axes.is_empty() {
                true => Ok(whole),
                false => {
                    let rest = (0..x.rank()).filter(|at| !axes.contains(at));
                    let dims: Vec<_> = rest.map(|at| x.dims[at].clone()).collect();
                    lower.reshape(&whole, &dims)
                }
            }
        }
    }
}

/// The mean over dimensions.
pub(super) fn mean(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axes: &[usize],
    keep: bool,
) -> Result<Value> {
    let sum = lower.reduce(x, Fold::Sum, axes, keep)?;
    let count = axes
        .iter()
        .fold(tegula_expr::Term::constant(1), |n, at| n.mul(&x.dims[*at]));
    let count = lower.of_terms(ElementType::S64, &[], &[count])?;
    let count = lower.convert(&count, x.ty)?;
    lower.div(&sum, &count)
}

/// The softmax along dimensions.
pub(super) fn softmax_along(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axes: &[usize],
    log: bool,
) -> Result<Value> {
    let largest = lower.reduce(x, Fold::Max, axes, true)?;
    let rest = lower.sub(x, &largest)?;
    let exp = lower.unary(Unary::Exp, &rest)?;
    let sum = lower.reduce(&exp, Fold::Sum, axes, true)?;
    match log {
        true => {
            let log = lower.unary(Unary::Log, &sum)?;
            lower.sub(&rest, &log)
        }
        false => lower.div(&exp, &sum),
    }
}

fn softmax<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    // Before version 13, the softmax is over all dimensions from `axis` on.
    let axes: Vec<usize> = match call.version < 13 {
        true => (call.axis(1, x.rank())?..x.rank()).collect(),
        false => vec![call.axis(-1, x.rank())?],
    };
    match call.node.op {
        "Softmax" => one(softmax_along(lower, &x, &axes, false)?),
        "LogSoftmax" => one(softmax_along(lower, &x, &axes, true)?),
        _ => {
            let dims = x.dims.clone();
            let along = axes.first().copied().unwrap_or(0);
            let (flat, along) = match axes.len() {
                1 => (x, along),
                _ => {
                    let rest = dims[along..].iter();
                    let rest = rest.fold(tegula_expr::Term::constant(1), |n, s| n.mul(s));
                    let mut flat = dims[..along].to_vec();
                    flat.push(rest);
                    (lower.reshape(&x, &flat)?, along)
                }
            };
            let best = lower.arg_extreme(&flat, along, true, false)?;
            let best = lower.unsqueeze(&best, along)?;
            let places = lower.iota(ElementType::S64, &flat.dims, along)?;
            let is = lower.compare(Direction::Eq, &places, &best)?;
            let hard = lower.convert(&is, flat.ty)?;
            one(lower.reshape(&hard, &dims)?)
        }
    }
}

fn arg_extreme<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axis = call.axis(0, x.rank())?;
    let largest = call.node.op == "ArgMax";
    let last = call.int("select_last_index", 0) != 0;
    let place = lower.arg_extreme(&x, axis, largest, last)?;
    match call.int("keepdims", 1) != 0 {
        true => one(lower.unsqueeze(&place, axis)?),
        false => one(place),
    }
}

fn running<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axis = call
        .input(1)?
        .integers()
        .and_then(|list| list.first().copied());
    let axis = axis.ok_or_else(|| {
        Error::depends_on_data(1, "an axis that is not constant is not supported")
    })?;
    let axis = call.axis_of(axis, x.rank())?;
    let fold = match call.node.op {
        "CumSum" => Fold::Sum,
        _ => Fold::Product,
    };
    let from_end = call.int("reverse", 0) != 0;
    let mut value = x;
    if from_end {
        value = lower.reverse(&value, axis)?;
    }
    if call.int("exclusive", 0) != 0 {
        // The elements are shifted by one position, and the identity element is inserted first.
        let init = lower.identity(fold, value.ty)?;
        let mut low = vec![tegula_expr::Term::constant(0); value.rank()];
        let mut high = low.clone();
        low[axis] = tegula_expr::Term::constant(1);
        high[axis] = tegula_expr::Term::constant(-1);
        value = lower.pad(&value, &init, &low, &high)?;
    }
    let mut sums = lower.running(&value, axis, fold)?;
    if from_end {
        sums = lower.reverse(&sums, axis)?;
    }
    one(sums)
}

fn top_k<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axis = call.axis(-1, x.rank())?;
    let count = match call.attribute("k").and_then(|a| a.int) {
        Some(k) => tegula_expr::Term::constant(k),
        None => {
            let all = super::shaping::sizes_of(call, 1)?;
            let first = all.into_iter().next();
            first.ok_or_else(|| Error::input("expected one number as K"))?
        }
    };
    let (values, places) = lower.sort(&x, axis, call.int("largest", 1) != 0)?;
    let zero = tegula_expr::Term::constant(0);
    let values = lower.slice(&values, axis, &zero, &count, 1)?;
    let places = lower.slice(&places, axis, &zero, &count, 1)?;
    Ok(vec![values.into(), places.into()])
}
