//! Conversions between arrays and vectors of numbers.

use crate::error::OpError;
use tegula_ir::{ArrayShape, Literal};
use tegula_scalar::{Bits, BitsMut, Number, decode, encode};

pub(crate) fn to_f64(number: Number) -> f64 {
    match number {
        Number::Single(x) => x.into(),
        Number::Double(x) => x,
        _ => f64::NAN,
    }
}

/// The elements of a float array as `f64`, exactly.
pub(crate) fn to_f64s(x: &Literal) -> Vec<f64> {
    if let Some(values) = x.as_f64s() {
        return values.to_vec();
    }
    crate::lanes::to_f32s(x).iter().map(|&x| x.into()).collect()
}

/// The elements of a float array, or the real and imaginary parts of a complex one.
pub(crate) fn parts(x: &Literal) -> Result<Literal, OpError> {
    let Some(part) = x.element_type().complex_part() else {
        return Ok(x.clone());
    };
    let shape = ArrayShape::new(part, &[2 * x.len() as i64]);
    Ok(Literal::from_bytes(&shape, x.bytes())?)
}

/// An array of floats, each rounded once from `f64`.
pub(crate) fn from_f64s(shape: &ArrayShape, values: &[f64]) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(shape)?;
    let ty = shape.element_type;
    if let Some(out) = result.values_mut::<f32>() {
        out.iter_mut().zip(values).for_each(|(o, &x)| *o = x as f32);
        return Ok(result);
    }
    let mut out = BitsMut::of(&mut result);
    for (i, &x) in values.iter().enumerate() {
        out.set(i, encode(ty, Number::Double(x)));
    }
    Ok(result)
}

/// The elements of a signed integer array.
pub(crate) fn to_i64s(x: &Literal) -> Vec<i64> {
    if let Some(values) = x.as_i32s() {
        return values.iter().map(|&x| x.into()).collect();
    }
    let (ty, bits) = (x.element_type(), Bits::of(x));
    let number = |i| match decode(ty, bits.get(i)) {
        Number::Signed(x) => x,
        Number::Unsigned(x) => x as i64,
        Number::Pred(x) => x.into(),
        _ => 0,
    };
    (0..x.len()).map(number).collect()
}

/// An array of integers, each wrapped to the type.
pub(crate) fn from_i64s(shape: &ArrayShape, values: &[i64]) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(shape)?;
    let mut out = BitsMut::of(&mut result);
    for (i, &x) in values.iter().enumerate() {
        out.set(i, encode(shape.element_type, Number::Signed(x)));
    }
    Ok(result)
}

pub(crate) fn to_u64s(x: &Literal) -> Vec<u64> {
    to_i64s(x).into_iter().map(|x| x as u64).collect()
}

pub(crate) fn from_u64s(shape: &ArrayShape, values: &[u64]) -> Result<Literal, OpError> {
    let values: Vec<i64> = values.iter().map(|&x| x as i64).collect();
    from_i64s(shape, &values)
}
