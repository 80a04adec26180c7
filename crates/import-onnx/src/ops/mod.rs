//! The translations of all operators: each computes a node's results from its inputs, by operations
//! of [`Lowerer`].
//!
//! Each operator has one function, which handles shapes and elements together, for known and open
//! sizes. Where versions of an operator set differ, the function tests the version.

mod attention;
mod control;
mod einsum;
mod elementwise;
mod found;
mod index;
mod integers;
mod linear;
mod linear_attention;
mod loops;
mod losses;
mod microsoft;
mod ml;
mod normalization;
mod products;
mod quantization;
mod random;
mod recurrent;
mod reductions;
mod resize;
mod rotary;
mod sampling;
mod sequences;
mod shaping;
mod spectral;
mod text;
mod training;
mod transposed;
mod windows;

use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result};

/// Translates a node.
pub(crate) type Lowering = for<'a> fn(&mut Lowerer<'a>, &Call<'_, 'a>) -> Result<Vec<Item>>;

/// The translation of an operator, if it has one.
pub(crate) fn find(domain: &str, op: &str) -> Option<Lowering> {
    match domain {
        "" => standard_operator(op),
        "com.microsoft" => microsoft::find(op),
        "ai.onnx.ml" => ml::find(op),
        "ai.onnx.preview" => attention::find_preview(op),
        "ai.onnx.preview.training" => training::find(op),
        _ => None,
    }
}

/// The standard operators.
fn standard_operator(op: &str) -> Option<Lowering> {
    let groups: [fn(&str) -> Option<Lowering>; 25] = [
        elementwise::find,
        linear::find,
        shaping::find,
        index::find,
        reductions::find,
        products::find,
        einsum::find,
        windows::find,
        transposed::find,
        normalization::find,
        quantization::find,
        attention::find,
        rotary::find,
        linear_attention::find,
        losses::find,
        resize::find,
        sampling::find,
        spectral::find,
        found::find,
        recurrent::find,
        control::find,
        loops::find,
        sequences::find,
        text::find,
        random::find,
    ];
    groups.iter().find_map(|find| find(op))
}

/// A single tensor as the results of a node.
fn one(value: crate::lower::Value) -> Result<Vec<Item>> {
    Ok(vec![value.into()])
}

/// The results of a standard operator, at a given version, on given inputs, with the attributes of
/// the node.
fn standard<'a>(
    lower: &mut Lowerer<'a>,
    call: &Call<'_, 'a>,
    op: &'static str,
    version: i64,
    inputs: Vec<Item>,
) -> Result<Vec<Item>> {
    let lowering = standard_operator(op);
    let lowering = lowering
        .ok_or_else(|| Error::unsupported(format!("the operator {op} is not supported")))?;
    let node = call.node.as_standard(op);
    lowering(lower, &call.of(&node, version, inputs))
}
