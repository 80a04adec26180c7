//! The operators of the domain `ai.onnx.ml`, which converters of scikit-learn, LightGBM and XGBoost
//! write.
//!
//! String labels cannot be represented in arrays; a node that returns them is an error.

mod features;
mod forest;
mod linear;
mod trees;
mod vectors;

use super::Lowering;
use super::reductions::softmax_along;
use crate::Error;
use crate::lower::{Call, Fold, Lowerer, Result, Value};
use crate::tensor::integers;
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let groups: [fn(&str) -> Option<Lowering>; 4] =
        [features::find, linear::find, trees::find, vectors::find];
    groups.iter().find_map(|find| find(op))
}

/// A list of floats from an attribute, or from the tensor attribute that is its alternative form.
fn floats(call: &Call<'_, '_>, lower: &Lowerer<'_>, name: &str) -> Result<Vec<f64>> {
    let as_tensor = format!("{name}_as_tensor");
    if let Some(tensor) = call.attribute(&as_tensor).and_then(|a| a.tensor.as_ref()) {
        return Ok(lower.constant_of(tensor)?.floats().unwrap_or_default());
    }
    let found = call.attribute(name);
    if let Some(tensor) = found.and_then(|a| a.tensor.as_ref()) {
        return Ok(lower.constant_of(tensor)?.floats().unwrap_or_default());
    }
    Ok(found.map_or(Vec::new(), |a| {
        a.floats.iter().map(|x| f64::from(*x)).collect()
    }))
}

fn ints(call: &Call<'_, '_>, name: &str) -> Vec<i64> {
    call.ints(name).unwrap_or_default()
}

/// A one-dimensional constant.
fn list(ty: ElementType, values: &[f64]) -> Result<Value> {
    Value::of_floats(ty, &[values.len() as i64], values)
}

/// A one-dimensional constant of integers.
fn int_list(ty: ElementType, values: &[i64]) -> Result<Value> {
    let literal = integers(ty, &[values.len() as i64], values)?;
    Ok(Value::of_literal(literal))
}

/// The first input as rows of numbers, `[rows, features]`; a one-dimensional input is a single row.
fn rows(lower: &mut Lowerer<'_>, call: &Call<'_, '_>) -> Result<Value> {
    let x = call.input(0)?;
    let x = match x.ty {
        ElementType::F64 => x,
        _ => lower.convert(&x, ElementType::F32)?,
    };
    match x.rank() {
        2 => Ok(x),
        1 => lower.unsqueeze(&x, 0),
        other => Err(Error::input(format!(
            "expected rows of features, found {other} dimensions"
        ))),
    }
}

/// The integers that represent the classes.
fn class_labels(call: &Call<'_, '_>, ints_name: &str, strings_name: &str) -> Result<Vec<i64>> {
    let labels = ints(call, ints_name);
    let has_strings = call
        .attribute(strings_name)
        .is_some_and(|a| !a.strings.is_empty());
    match (labels.is_empty(), has_strings) {
        (false, _) => Ok(labels),
        (true, true) => Err(Error::unsupported(
            "string labels are not supported: expected a model whose classes are integers",
        )),
        (true, false) => Err(Error::input("expected the labels of classes")),
    }
}

/// The label of the largest score of each row; the first among equal scores.
fn best_label(lower: &mut Lowerer<'_>, scores: &Value, labels: &[i64]) -> Result<Value> {
    let best = lower.arg_extreme(scores, 1, true, false)?;
    let labels = int_list(ElementType::S64, labels)?;
    lower.take(&labels, &best, 0)
}

/// The second label where a score is above a bound, otherwise the first. `score` is `[rows, 1]`.
fn label_above(
    lower: &mut Lowerer<'_>,
    score: &Value,
    bound: f64,
    labels: [i64; 2],
) -> Result<Value> {
    let bound = lower.like(score, bound)?;
    let above = lower.compare(Direction::Gt, score, &bound)?;
    let above = lower.squeeze(&above, 1)?;
    let [first, second] = labels.map(|label| Value::of_integers(ElementType::S64, &[], &[label]));
    lower.select(&above, &second?, &first?)
}

/// Transforms scores, `[rows, classes]`, as the attribute `post_transform` says.
fn transformed(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, scores: &Value) -> Result<Value> {
    let name = match call.attribute("post_transform").and_then(|a| a.int) {
        Some(number) => {
            let names = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];
            let name = usize::try_from(number).ok().and_then(|at| names.get(at));
            name.copied().unwrap_or("?")
        }
        None => call.text("post_transform", "NONE"),
    };
    match name {
        "NONE" => Ok(scores.clone()),
        "LOGISTIC" => lower.unary(Unary::Logistic, scores),
        "SOFTMAX" => softmax_along(lower, scores, &[1], false),
        "SOFTMAX_ZERO" => {
            // Zero scores stay zero, and do not contribute to the sum.
            let zero = lower.like(scores, 0.0)?;
            let is_zero = lower.compare(Direction::Eq, scores, &zero)?;
            let least = lower.like(scores, f64::NEG_INFINITY)?;
            let rest = lower.select(&is_zero, &least, scores)?;
            let weights = softmax_along(lower, &rest, &[1], false)?;
            lower.select(&is_zero, &zero, &weights)
        }
        "PROBIT" => probit(lower, scores),
        other => Err(Error::input(format!("unknown `post_transform` `{other}`"))),
    }
}

/// The probit function, sqrt(2) times the inverse error function of `2 x - 1`, by Winitzki's
/// formula ("A handy approximation for the error function and its inverse", 2008) with `a = 0.147`,
/// as in onnxruntime.
fn probit(lower: &mut Lowerer<'_>, x: &Value) -> Result<Value> {
    const A: f64 = 0.147;
    let two = lower.scaled(x, 2.0)?;
    let x = lower.shifted(&two, -1.0)?;
    let one = lower.like(&x, 1.0)?;
    let rest = lower.mul(&x, &x)?;
    let rest = lower.sub(&one, &rest)?;
    let log = lower.unary(Unary::Log, &rest)?;
    let half = lower.scaled(&log, 0.5)?;
    let sum = lower.shifted(&half, 2.0 / (std::f64::consts::PI * A))?;
    let square = lower.mul(&sum, &sum)?;
    let scaled = lower.scaled(&log, 1.0 / A)?;
    let inner = lower.sub(&square, &scaled)?;
    let inner = lower.unary(Unary::Sqrt, &inner)?;
    let inner = lower.sub(&inner, &sum)?;
    let root = lower.unary(Unary::Sqrt, &inner)?;
    let sign = lower.unary(Unary::Sign, &x)?;
    let y = lower.mul(&sign, &root)?;
    lower.scaled(&y, std::f64::consts::SQRT_2)
}

/// The two scores of a binary classification: `[-s, s]`, or `[1 - p, p]` for a logistic function.
fn both_sides(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, score: &Value) -> Result<Value> {
    match call.text("post_transform", "NONE") {
        "PROBIT" => probit(lower, score),
        "LOGISTIC" => {
            let other = lower.unary(Unary::Negate, score)?;
            let pair = lower.concat(&[other, score.clone()], 1)?;
            lower.unary(Unary::Logistic, &pair)
        }
        _ => {
            let other = lower.unary(Unary::Negate, score)?;
            lower.concat(&[other, score.clone()], 1)
        }
    }
}

/// The kernel function of each row of `x` with each of the support vectors: `[rows, vectors]`.
fn kernel(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    vectors: &Value,
) -> Result<Value> {
    let numbers = floats(call, lower, "kernel_params")?;
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0.0);
    let (gamma, coefficient, degree) = (number(0), number(1), number(2));
    let kind = call.text("kernel_type", "LINEAR");
    if kind == "RBF" {
        let (a, b) = (lower.unsqueeze(x, 1)?, lower.unsqueeze(vectors, 0)?);
        let difference = lower.sub(&a, &b)?;
        let square = lower.mul(&difference, &difference)?;
        let distance = lower.reduce(&square, Fold::Sum, &[2], false)?;
        let exponent = lower.scaled(&distance, -gamma)?;
        return lower.unary(Unary::Exp, &exponent);
    }
    let product = lower.dot(x, vectors, &[], &[(1, 1)])?;
    if kind == "LINEAR" {
        return Ok(product);
    }
    let line = lower.scaled(&product, gamma)?;
    let line = lower.shifted(&line, coefficient)?;
    match kind {
        "POLY" => {
            let degree = lower.like(&line, degree)?;
            lower.binary(Binary::Power, &line, &degree)
        }
        "SIGMOID" => lower.unary(Unary::Tanh, &line),
        other => Err(Error::input(format!(
            "`kernel_type` is `{other}`: expected LINEAR, POLY, RBF or SIGMOID"
        ))),
    }
}

/// A matrix from a list of numbers in row-major order.
fn matrix(ty: ElementType, values: &[f64], rows: usize) -> Result<Value> {
    if rows == 0 || !values.len().is_multiple_of(rows) {
        return Err(Error::input(format!(
            "{} numbers cannot be divided into {rows} rows",
            values.len()
        )));
    }
    let columns = values.len() / rows;
    Value::of_floats(ty, &[rows as i64, columns as i64], values)
}

/// An array `[rows, columns]` filled with a number, with the element type and the rows of `x`.
fn filled(lower: &mut Lowerer<'_>, x: &Value, number: f64, columns: i64) -> Result<Value> {
    lower.splat(x.ty, number, &[x.dims[0].clone(), Term::constant(columns)])
}
