//! Matrix products and convolutions, which are computed on integers if the operands are quantized.

use super::products::product;
use super::windows::{convolve, with_bias};
use super::{Lowering, integers, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "Conv" => convolution,
        "Gemm" => gemm,
        "MatMul" => mat_mul,
        "MatMulInteger" => mat_mul_integer,
        _ => return None,
    };
    Some(lowering)
}

fn mat_mul<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    one(match integers::quantized_product(lower, &a, &b)? {
        Some(y) => y,
        None => product(lower, &a, &b)?,
    })
}

fn mat_mul_integer<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    one(integers::product_of(
        lower,
        &a,
        call.optional(2),
        &b,
        call.optional(3),
    )?)
}

fn gemm<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err(Error::input("expected two matrices"));
    }
    let of_a = if call.int("transA", 0) != 0 { 0 } else { 1 };
    let of_b = if call.int("transB", 0) != 0 { 1 } else { 0 };
    let mut whole = match integers::quantized_dot(lower, &a, &b, (of_a, of_b))? {
        Some(whole) => whole,
        None => lower.dot(&a, &b, &[], &[(of_a, of_b)])?,
    };
    let alpha = call.float("alpha", 1.0);
    if alpha != 1.0 {
        whole = lower.scaled(&whole, alpha)?;
    }
    if let Some(mut c) = call.optional(2) {
        let beta = call.float("beta", 1.0);
        if beta != 1.0 {
            c = lower.scaled(&c, beta)?;
        }
        whole = lower.add(&whole, &c)?;
    }
    one(whole)
}

fn convolution<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, kernel) = (call.input(0)?, call.input(1)?);
    let whole = match integers::quantized_convolution(lower, call, &x, &kernel)? {
        Some(whole) => whole,
        None => convolve(lower, call, &x, &kernel)?,
    };
    one(match call.optional(2) {
        Some(bias) => with_bias(lower, &whole, &bias)?,
        None => whole,
    })
}
