//! The operators of the domain `com.microsoft`: onnxruntime's fused operators, those of quantized
//! models, and those that exporters of language models write.

mod activations;
mod attention;
mod blocks;
mod group_query;
mod normalization;
mod products;
mod quantized;

use super::{Lowering, standard};
use crate::lower::{Call, Item, Lowerer, Result};

pub(super) fn find(op: &str) -> Option<Lowering> {
    if SAME_AS_STANDARD.contains(&op) {
        return Some(same_as_standard);
    }
    let groups: [fn(&str) -> Option<Lowering>; 7] = [
        activations::find,
        attention::find,
        blocks::find,
        group_query::find,
        normalization::find,
        products::find,
        quantized::find,
    ];
    groups.iter().find_map(|find| find(op))
}

/// Operators that are the same as the standard operators of their name.
const SAME_AS_STANDARD: [&str; 12] = [
    "DequantizeLinear",
    "Gelu",
    "GatherND",
    "GridSample",
    "LinearAttention",
    "MatMulInteger16",
    "Pad",
    "QuantizeLinear",
    "QuickGelu",
    "Range",
    "Trilu",
    "SimplifiedLayerNormalization",
];

fn same_as_standard<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let own = SAME_AS_STANDARD.iter().find(|op| **op == call.node.op);
    let op: &'static str = match own {
        Some(&"MatMulInteger16") | None => "MatMulInteger",
        Some(op) => op,
    };
    let mut inputs = call.inputs.clone();
    if op == "Pad" && inputs.len() > 1 {
        // Amounts with a single row are treated as a list.
        let amounts = call.input(1)?;
        if amounts.rank() == 2 {
            inputs[1] = lower.squeeze(&amounts, 0)?.into();
        }
    }
    standard(lower, call, op, NEWEST, inputs)
}

/// The operator set version of the standard operators that these operators fuse.
const NEWEST: i64 = 22;
