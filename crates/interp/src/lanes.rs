//! Conversions between arrays and the vectors that are computed on.
//!
//! Narrow floats are computed on as `f32` and rounded once when stored; types without a loop of
//! their own are computed on as raw bits, one by one.

use crate::error::OpError;

use std::borrow::Cow;
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_scalar::{Bits, BitsMut, decode_single, encode_single};

/// Whether a float is computed on as `f32`.
pub(crate) fn is_single(ty: ElementType) -> bool {
    ty.is_float() && ty != ElementType::F64
}

/// The elements of a float array of at most 32 bits, widened to `f32`.
pub(crate) fn to_f32s(literal: &Literal) -> Cow<'_, [f32]> {
    if let Some(values) = literal.as_f32s() {
        Cow::Borrowed(values)
    } else if let Some(values) = literal.as_bf16s() {
        values.iter().map(|x| x.to_f32()).collect()
    } else if let Some(values) = literal.as_f16s() {
        values.iter().map(|x| x.to_f32()).collect()
    } else {
        let ty = literal.element_type();
        let bits = Bits::of(literal);
        (0..literal.len())
            .map(|i| decode_single(ty, bits.get(i) as u32))
            .collect()
    }
}

/// An array of floats of at most 32 bits, each rounded once from `f32`.
pub(crate) fn from_f32s(shape: &ArrayShape, values: &[f32]) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(shape)?;
    let ty = shape.element_type;
    if let Some(out) = result.values_mut::<f32>() {
        copy_common(out, values);
    } else if let Some(out) = result.values_mut::<half::bf16>() {
        out.iter_mut()
            .zip(values)
            .for_each(|(o, &x)| *o = half::bf16::from_f32(x));
    } else if let Some(out) = result.values_mut::<half::f16>() {
        out.iter_mut()
            .zip(values)
            .for_each(|(o, &x)| *o = half::f16::from_f32(x));
    } else {
        let mut bits = BitsMut::of(&mut result);
        for (i, &x) in values.iter().enumerate() {
            bits.set(i, encode_single(ty, x).into());
        }
    }
    Ok(result)
}

fn copy_common(out: &mut [f32], values: &[f32]) {
    out.iter_mut().zip(values).for_each(|(o, &x)| *o = x);
}
