//! What each operator means: its results from its inputs, by operations of [`Lowerer`].
//!
//! Each operator has one function, which says shapes and elements together, with sizes known or
//! open. Versions of an operator set differ where the function asks for the version.

mod attention;
mod control;
mod einsum;
mod elementwise;
mod found;
mod index;
mod loops;
mod losses;
mod normalization;
mod products;
mod quantization;
mod recurrent;
mod reductions;
mod resize;
mod rotary;
mod sampling;
mod shaping;
mod spectral;
mod transposed;
mod windows;

use crate::lower::{Call, Item, Lowerer, Result};

/// Translates a node.
pub(crate) type Lowering = for<'a> fn(&mut Lowerer<'a>, &Call<'_, 'a>) -> Result<Vec<Item>>;

/// The translation of an operator, if it has one.
pub(crate) fn find(domain: &str, op: &str) -> Option<Lowering> {
    if !matches!(domain, "" | "ai.onnx.training" | "com.microsoft") {
        return None;
    }
    // The contributed operators of these names are others.
    if domain.is_empty()
        && let Some(lowering) = attention::find(op).or_else(|| rotary::find(op))
    {
        return Some(lowering);
    }
    elementwise::find(op)
        .or_else(|| shaping::find(op))
        .or_else(|| index::find(op))
        .or_else(|| reductions::find(op))
        .or_else(|| products::find(op))
        .or_else(|| einsum::find(op))
        .or_else(|| windows::find(op))
        .or_else(|| normalization::find(op))
        .or_else(|| quantization::find(op))
        .or_else(|| losses::find(op))
        .or_else(|| control::find(op))
        .or_else(|| sampling::find(op))
        .or_else(|| transposed::find(op))
        .or_else(|| spectral::find(op))
        .or_else(|| found::find(op))
        .or_else(|| loops::find(op))
        .or_else(|| recurrent::find(op))
        .or_else(|| resize::find(op))
}

/// One tensor as the results of a node.
fn one(value: crate::lower::Value) -> Result<Vec<Item>> {
    Ok(vec![value.into()])
}
