//! Elementwise operations on arrays.
//!
//! The element type is dispatched once for each array. `f32`, `f64` and the integers of whole bytes
//! have loops of their own; narrower floats are computed in `f32`; other types are computed element
//! by element by the functions on raw bits.

use crate::error::{OpError, invalid};
use crate::lanes::{from_f32s, is_single, to_f32s};
use std::cmp::Ordering;
use tegula_ir::{
    ArrayShape, Binary, Direction, ElementType, Literal, NativeType, Order, Unary,
    unary_result_type,
};
use tegula_scalar as scalar;
use tegula_scalar::{Bits, BitsMut};

/// Applies `op` to every element.
pub(crate) fn unary(op: Unary, x: &Literal) -> Result<Literal, OpError> {
    let ty = x.element_type();
    let function = || lacks(op.opcode().name(), ty);
    if is_single(ty) && op != Unary::IsFinite {
        let f = scalar::unary_f32_function(op).ok_or_else(function)?;
        let values: Vec<f32> = to_f32s(x).iter().map(|&x| f(x)).collect();
        return from_f32s(x.shape(), &values);
    }
    if ty == ElementType::F64 && op != Unary::IsFinite {
        let f = scalar::unary_f64_function(op).ok_or_else(function)?;
        return map_native::<f64, f64>(x, x.shape(), f);
    }
    if !scalar::has_unary(op, ty) {
        return Err(function());
    }
    let shape = x.shape().with_element_type(unary_result_type(op, ty));
    map_bits(x, &shape, |x| scalar::apply_unary(op, ty, x).unwrap_or(0))
}

/// Applies `op` to every pair of elements; an operand with one element is broadcast.
pub(crate) fn binary(op: Binary, a: &Literal, b: &Literal) -> Result<Literal, OpError> {
    let (a, b) = (&repeated(a, b)?, &repeated(b, a)?);
    let ty = a.element_type();
    if b.element_type() != ty || !scalar::has_binary(op, ty) {
        return Err(lacks(op.opcode().name(), ty));
    }
    if op == Binary::Complex {
        let complex = match ty {
            ElementType::F32 => ElementType::C64,
            _ => ElementType::C128,
        };
        return zip_bits(op, ty, a, b, &a.shape().with_element_type(complex));
    }
    match ty {
        ElementType::F64 => zip_f64(op, a, b),
        ElementType::S8 => zip_signed::<i8>(op, a, b),
        ElementType::S16 => zip_signed::<i16>(op, a, b),
        ElementType::S32 => zip_signed::<i32>(op, a, b),
        ElementType::S64 => zip_signed::<i64>(op, a, b),
        ElementType::U8 => zip_unsigned::<u8>(op, a, b),
        ElementType::U16 => zip_unsigned::<u16>(op, a, b),
        ElementType::U32 => zip_unsigned::<u32>(op, a, b),
        ElementType::U64 => zip_unsigned::<u64>(op, a, b),
        _ if is_single(ty) => zip_f32(op, a, b),
        _ => zip_bits(op, ty, a, b, a.shape()),
    }
}

fn zip_f32(op: Binary, a: &Literal, b: &Literal) -> Result<Literal, OpError> {
    let shape = a.shape();
    let (a, b) = (&*to_f32s(a), &*to_f32s(b));
    let values = match op {
        Binary::Add => zip_with(a, b, |a, b| a + b),
        Binary::Subtract => zip_with(a, b, |a, b| a - b),
        Binary::Multiply => zip_with(a, b, |a, b| a * b),
        Binary::Divide => zip_with(a, b, |a, b| a / b),
        Binary::Maximum => zip_with(a, b, scalar::maximum_f32),
        Binary::Minimum => zip_with(a, b, scalar::minimum_f32),
        _ => {
            let f = scalar::binary_f32_function(op);
            let f = f.ok_or_else(|| lacks(op.opcode().name(), ElementType::F32))?;
            zip_with(a, b, f)
        }
    };
    from_f32s(shape, &values)
}

fn zip_f64(op: Binary, a: &Literal, b: &Literal) -> Result<Literal, OpError> {
    let f = scalar::binary_f64_function(op)
        .ok_or_else(|| lacks(op.opcode().name(), ElementType::F64))?;
    zip_native::<f64, f64>(a, b, a.shape(), f)
}

fn zip_with<T: Copy, U>(a: &[T], b: &[T], f: impl Fn(T, T) -> U) -> Vec<U> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

fn zip_signed<T>(op: Binary, a: &Literal, b: &Literal) -> Result<Literal, OpError>
where
    T: NativeType + Into<i64>,
{
    let width = T::ELEMENT_TYPE.bits();
    let mut result = Literal::zeros(a.shape())?;
    let (Some(a), Some(b)) = (a.values::<T>(), b.values::<T>()) else {
        return Err(lacks(op.opcode().name(), T::ELEMENT_TYPE));
    };
    let mut out = BitsMut::of(&mut result);
    for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
        let value = scalar::binary_signed(op, a.into(), b.into(), width).unwrap_or(0);
        out.set(i, value as u64 as u128);
    }
    Ok(result)
}

fn zip_unsigned<T>(op: Binary, a: &Literal, b: &Literal) -> Result<Literal, OpError>
where
    T: NativeType + Into<u64>,
{
    let width = T::ELEMENT_TYPE.bits();
    let mut result = Literal::zeros(a.shape())?;
    let (Some(a), Some(b)) = (a.values::<T>(), b.values::<T>()) else {
        return Err(lacks(op.opcode().name(), T::ELEMENT_TYPE));
    };
    let mut out = BitsMut::of(&mut result);
    for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
        let value = scalar::binary_unsigned(op, a.into(), b.into(), width).unwrap_or(0);
        out.set(i, value.into());
    }
    Ok(result)
}

/// Evaluates `a direction b` for every pair of elements.
pub(crate) fn compare(
    direction: Direction,
    order: Order,
    a: &Literal,
    b: &Literal,
) -> Result<Literal, OpError> {
    let (a, b) = (&repeated(a, b)?, &repeated(b, a)?);
    let ty = a.element_type();
    if b.element_type() != ty || scalar::apply_compare(direction, order, ty, 0, 0).is_none() {
        return Err(lacks("this comparison", ty));
    }
    let shape = a.shape().with_element_type(ElementType::Pred);
    match ty {
        ElementType::S32 => compare_native::<i32>(direction, a, b, &shape),
        ElementType::S64 => compare_native::<i64>(direction, a, b, &shape),
        ElementType::U32 => compare_native::<u32>(direction, a, b, &shape),
        ElementType::F32 if order == Order::Partial => {
            compare_native::<f32>(direction, a, b, &shape)
        }
        _ => {
            let (a, b) = (Bits::of(a), Bits::of(b));
            fill(&shape, |i| {
                scalar::apply_compare(direction, order, ty, a.get(i), b.get(i)).unwrap_or(0)
            })
        }
    }
}

fn compare_native<T: NativeType + PartialOrd>(
    direction: Direction,
    a: &Literal,
    b: &Literal,
    shape: &ArrayShape,
) -> Result<Literal, OpError> {
    let holds = |a: T, b: T| {
        let ordering: Option<Ordering> = a.partial_cmp(&b);
        u8::from(scalar::holds(direction, ordering))
    };
    zip_native::<T, u8>(a, b, shape, holds)
}

/// Selects `on_true` where `predicate` holds, else `on_false`; the predicate may be a scalar.
pub(crate) fn select(
    predicate: &Literal,
    on_true: &Literal,
    on_false: &Literal,
) -> Result<Literal, OpError> {
    if on_true.shape() != on_false.shape() || predicate.element_type() != ElementType::Pred {
        return Err(invalid(
            "expected a pred predicate, and two alternatives of equal shapes",
        ));
    }
    if predicate.shape().rank() == 0 {
        let chosen = predicate.bytes().first().is_some_and(|&byte| byte != 0);
        return Ok(if chosen { on_true } else { on_false }.clone());
    }
    if predicate.len() != on_true.len() {
        return Err(invalid(
            "expected a predicate that is a scalar or has the alternatives' number of elements",
        ));
    }
    let mut result = on_false.clone();
    let size = on_true.element_type().storage_bytes();
    let chosen = on_true.bytes().chunks_exact(size);
    let out = result.bytes_mut().chunks_exact_mut(size);
    for ((out, chosen), &predicate) in out.zip(chosen).zip(predicate.bytes()) {
        if predicate != 0 {
            out.copy_from_slice(chosen);
        }
    }
    Ok(result)
}

/// Evaluates `min(high, max(low, x))`; the bounds may be scalars.
pub(crate) fn clamp(low: &Literal, x: &Literal, high: &Literal) -> Result<Literal, OpError> {
    let ty = x.element_type();
    if ty.is_complex() {
        let bits = Bits::of(x);
        let bound = |x: &Literal, i| Bits::of(x).get(if x.len() == 1 { 0 } else { i });
        return fill(x.shape(), |i| {
            let (low, value, high) = (bound(low, i), bits.get(i), bound(high, i));
            scalar::apply_clamp(ty, low, value, high).unwrap_or(value)
        });
    }
    let raised = binary(Binary::Maximum, low, x)?;
    let clamped = binary(Binary::Minimum, &raised, high)?;
    // `binary` treats an array with one element like a scalar, which changes the shape.
    Ok(clamped.reshaped(x.shape())?)
}

/// Converts every element to the shape's type.
pub(crate) fn convert(x: &Literal, shape: &ArrayShape) -> Result<Literal, OpError> {
    let (from, to) = (x.element_type(), shape.element_type);
    if from == to {
        return Ok(x.clone());
    }
    if is_single(from) && is_single(to) {
        return from_f32s(shape, &to_f32s(x));
    }
    map_bits(x, shape, |x| scalar::apply_convert(from, to, x))
}

/// Rounds every element to fewer bits.
pub(crate) fn reduce_precision(
    x: &Literal,
    exponent_bits: u32,
    mantissa_bits: u32,
) -> Result<Literal, OpError> {
    let ty = x.element_type();
    if exponent_bits == 0 {
        return Err(invalid("expected at least one exponent bit"));
    }
    if scalar::apply_reduce_precision(ty, exponent_bits, mantissa_bits, 0).is_none() {
        return Err(lacks("reduce-precision", ty));
    }
    map_bits(x, x.shape(), |x| {
        scalar::apply_reduce_precision(ty, exponent_bits, mantissa_bits, x).unwrap_or(x)
    })
}

/// Rounds every element to an integer stochastically, with the given random bits.
pub(crate) fn stochastic_convert(
    x: &Literal,
    random: &Literal,
    shape: &ArrayShape,
) -> Result<Literal, OpError> {
    let (from, to) = (x.element_type(), shape.element_type);
    if scalar::apply_stochastic_convert(from, to, 0, 0).is_none() {
        return Err(lacks("stochastic-convert", from));
    }
    if random.len() != x.len() || random.element_type().bits() != from.bits() {
        return Err(invalid(
            "expected random bits of the operand's shape and bit width",
        ));
    }
    let (x, random) = (Bits::of(x), Bits::of(random));
    fill(shape, |i| {
        scalar::apply_stochastic_convert(from, to, x.get(i), random.get(i)).unwrap_or(0)
    })
}

fn lacks(what: &str, ty: ElementType) -> OpError {
    invalid(format!("{what} is not defined for element type {ty}"))
}

/// `x`, broadcast if it is a scalar and `other` is not.
fn repeated(x: &Literal, other: &Literal) -> Result<Literal, OpError> {
    if x.len() == other.len() {
        return Ok(x.clone());
    }
    if x.shape().rank() != 0 {
        return if other.shape().rank() == 0 {
            Ok(x.clone())
        } else {
            Err(invalid(
                "expected operands with equal numbers of elements, or a scalar",
            ))
        };
    }
    let shape = other.shape().with_element_type(x.element_type());
    let mut result = Literal::zeros(&shape)?;
    let size = x.element_type().storage_bytes();
    for element in result.bytes_mut().chunks_exact_mut(size) {
        element.copy_from_slice(x.bytes());
    }
    Ok(result)
}

fn map_native<T: NativeType, U: NativeType>(
    x: &Literal,
    shape: &ArrayShape,
    f: impl Fn(T) -> U,
) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(shape)?;
    if let (Some(x), Some(out)) = (x.values::<T>(), result.values_mut::<U>()) {
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = f(x));
    }
    Ok(result)
}

fn zip_native<T: NativeType, U: NativeType>(
    a: &Literal,
    b: &Literal,
    shape: &ArrayShape,
    f: impl Fn(T, T) -> U,
) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(shape)?;
    if let (Some(a), Some(b)) = (a.values::<T>(), b.values::<T>())
        && let Some(out) = result.values_mut::<U>()
    {
        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *out = f(a, b);
        }
    }
    Ok(result)
}

fn zip_bits(
    op: Binary,
    ty: ElementType,
    a: &Literal,
    b: &Literal,
    shape: &ArrayShape,
) -> Result<Literal, OpError> {
    let (a, b) = (Bits::of(a), Bits::of(b));
    fill(shape, |i| {
        scalar::apply_binary(op, ty, a.get(i), b.get(i)).unwrap_or(0)
    })
}

fn map_bits(x: &Literal, shape: &ArrayShape, f: impl Fn(u128) -> u128) -> Result<Literal, OpError> {
    let x = Bits::of(x);
    fill(shape, |i| f(x.get(i)))
}

/// An array whose element at each position is `f(position)`.
pub(crate) fn fill(shape: &ArrayShape, f: impl Fn(usize) -> u128) -> Result<Literal, OpError> {
    let mut result = Literal::zeros(shape)?;
    let len = result.len();
    let mut out = BitsMut::of(&mut result);
    for i in 0..len {
        out.set(i, f(i));
    }
    Ok(result)
}
