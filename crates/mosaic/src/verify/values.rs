//! Verification of operations that compute values: shapes and element types of operands and
//! results.

use super::{Checked, need};
use crate::ir::{Cast, Constant, DotDims, Op, Reduction};
use crate::types::{Element, Type};

pub(super) fn constant_fits(constant: &Constant, ty: &Type) -> Checked {
    let good = match (constant, ty) {
        (_, Type::MemRef(_)) => false,
        (Constant::Splat(_), _) => true,
        (Constant::Elements(elements), ty) => {
            elements.len() as i64 == ty.dims().iter().product::<i64>()
        }
    };
    need(good, "its value does not fit its type")
}

pub(super) fn cast_fits(cast: Cast, from: Element, to: Element) -> bool {
    let int = |element: Element| !element.is_float();
    match cast {
        Cast::Signed | Cast::Unsigned | Cast::Truncate => int(from) && int(to),
        Cast::Float => from.is_float() && to.is_float(),
        Cast::FromSigned | Cast::FromUnsigned => int(from) && to.is_float(),
        Cast::ToSigned | Cast::ToUnsigned | Cast::ToSignedNearest => from.is_float() && int(to),
        Cast::Bits => from.bits() == to.bits(),
        Cast::Mask => from == Element::BOOL && to == Element::BOOL,
    }
}

fn count(dims: &[i64]) -> i64 {
    dims.iter().product()
}

/// Whether `dims` are distinct dimensions of `rank`.
fn distinct(dims: &[i64], rank: usize) -> bool {
    let inside = dims.iter().all(|&d| (0..rank as i64).contains(&d));
    inside && dims.iter().enumerate().all(|(i, d)| !dims[..i].contains(d))
}

pub(super) fn shapes(op: &Op, operands: &[&Type], results: &[&Type]) -> Option<Checked> {
    let result = results.first().copied();
    let first = operands.first().copied();
    let same_element = || first.and_then(Type::element) == result.and_then(Type::element);
    let (from, to) = (
        first.map(Type::dims).unwrap_or_default(),
        result.map(Type::dims).unwrap_or_default(),
    );
    let inside = |dim: i64| (0..from.len() as i64).contains(&dim);
    Some(match op {
        Op::Broadcast => {
            let shift = to.len().checked_sub(from.len());
            let good = shift.is_some_and(|shift| {
                from.iter()
                    .zip(&to[shift..])
                    .all(|(f, t)| f == t || *f == 1)
            });
            need(
                good && same_element(),
                "its operand does not broadcast to its result",
            )
        }
        Op::Reshape => need(
            count(from) == count(to) && same_element(),
            "its result must have as many elements as its operand",
        ),
        Op::Iota(dims) => need(
            distinct(dims, to.len())
                && !dims.is_empty()
                && result.is_some_and(|ty| ty.element().is_some_and(|element| !element.is_float())),
            "it counts along a dimension that does not exist",
        ),
        Op::Reduce(kind, dims) => {
            let left = from.iter().enumerate();
            let left = left
                .filter(|(d, _)| !dims.contains(&(*d as i64)))
                .map(|(_, n)| *n);
            let float = matches!(kind, Reduction::Maximum | Reduction::Minimum);
            let element = first.and_then(Type::element);
            let integers = !matches!(
                kind,
                Reduction::Add | Reduction::Mul | Reduction::Maximum | Reduction::Minimum
            );
            let fits =
                element.is_some_and(|e| !(float && !e.is_float() || integers && e.is_float()));
            need(
                distinct(dims, from.len())
                    && left.eq(to.iter().copied())
                    && same_element()
                    && fits
                    && operands[1] == results[0],
                "its dimensions, types or initial value do not fit the reduction",
            )
        }
        Op::ReduceIndex(_, axis) => {
            let left = from.iter().enumerate().filter(|(d, _)| *d as i64 != *axis);
            need(
                inside(*axis) && left.map(|(_, n)| *n).eq(to.iter().copied()),
                "its result must have its operand's dimensions without the reduced one",
            )
        }
        Op::Transpose(permutation) => {
            let good = permutation.len() == from.len()
                && distinct(permutation, from.len())
                && permutation
                    .iter()
                    .zip(to)
                    .all(|(d, n)| from[*d as usize] == *n);
            need(
                good && same_element() && to.len() == from.len(),
                "its permutation does not fit its operand and result",
            )
        }
        Op::Concatenate(dim) => concatenate_fits(*dim, operands, results[0]),
        Op::Slice(offsets, sizes, strides) => {
            let rank = offsets.len();
            let good = rank == sizes.len()
                && rank == strides.len()
                && rank <= from.len()
                && from.len() == to.len()
                && sizes.iter().eq(&to[..rank])
                && from[rank..] == to[rank..]
                && (0..rank).all(|d| {
                    let last = sizes[d]
                        .checked_sub(1)
                        .and_then(|n| n.checked_mul(strides[d]));
                    let last = last.and_then(|last| last.checked_add(offsets[d]));
                    offsets[d] >= 0 && strides[d] > 0 && last.is_some_and(|last| last < from[d])
                });
            need(
                good && same_element(),
                "it reads out of bounds of its operand",
            )
        }
        Op::Extract(position) => {
            let good = position.len() <= from.len()
                && position.iter().zip(from).all(|(p, n)| (0..*n).contains(p))
                && from[position.len()..] == *to;
            need(
                good && same_element(),
                "it reads out of bounds of its operand",
            )
        }
        Op::Rotate(dim, stride) => need(
            inside(*dim)
                && stride.is_none_or(|(_, dim)| inside(dim))
                && operands[1].as_scalar() == Some(Element::I32)
                && operands[0] == results[0],
            "it rotates along a dimension that does not exist",
        ),
        Op::Repeat(dim, times) => {
            let good = inside(*dim)
                && from.len() == to.len()
                && (0..from.len()).all(|d| {
                    let times = if d as i64 == *dim { *times } else { 1 };
                    from[d].checked_mul(times) == Some(to[d])
                });
            need(
                good && same_element(),
                "its result must be its operand's shape repeated that many times",
            )
        }
        Op::Gather(dims) => need(
            distinct(dims, from.len())
                && operands[1].dims() == to
                && from.len() == to.len()
                && same_element()
                && operands[1]
                    .element()
                    .is_some_and(|element| !element.is_float()),
            "its indices do not fit its operand",
        ),
        Op::BitcastVector => {
            let bits = |ty: &Type| ty.element().map_or(0, |e| i64::from(e.bits()));
            let rank = from.len();
            let good = rank == to.len() && rank >= 1 && {
                // A sublane holds several narrow elements.
                let packed = rank.saturating_sub(2);
                (0..rank).all(|d| match d == packed && rank >= 2 {
                    true => from[d] * bits(operands[0]) == to[d] * bits(results[0]),
                    false => {
                        rank == 1 && from[d] * bits(operands[0]) == to[d] * bits(results[0])
                            || from[d] == to[d]
                    }
                })
            };
            need(good, "its result must have as many bits as its operand")
        }
        Op::PackElementwise(_) => need(
            !operands.is_empty() && operands.iter().all(|ty| **ty == *operands[0]) && from == to,
            "its operands and its result differ in shape",
        ),
        Op::UnpackElementwise(_, index) => need(
            from == to && (0..32).contains(index),
            "its operand and its result differ in shape",
        ),
        Op::Matmul(dims, _) => matmul_fits(dims, operands, results[0]),
        Op::RandomBits => need(
            results[0].element().is_some_and(|e| e.bits() == 32),
            "its result must be a vector of 32-bit words",
        ),
        Op::SeedRandom => need(
            !operands.is_empty()
                && operands
                    .iter()
                    .all(|ty| ty.as_scalar() == Some(Element::I32)),
            "its seeds must be scalars",
        ),
        _ => return None,
    })
}

fn concatenate_fits(dim: i64, operands: &[&Type], result: &Type) -> Checked {
    let rank = result.dims().len();
    let Some(dim) = usize::try_from(dim).ok().filter(|d| *d < rank) else {
        return Err("the dimension is out of range".to_owned());
    };
    let mut sum = 0i64;
    for ty in operands {
        let good = ty.dims().len() == rank
            && ty.element() == result.element()
            && (0..rank).all(|d| d == dim || ty.dims()[d] == result.dims()[d]);
        need(
            good,
            "its operands' sizes must be equal, except along the concatenated dimension",
        )?;
        sum = sum.saturating_add(ty.dims()[dim]);
    }
    need(
        sum == result.dims()[dim],
        "its result's size must be the sum of its operands' sizes",
    )
}

/// Checks a product's element types: integers give integers; if one operand is floating-point, the
/// other one must be, too.
fn types_multiply(operands: &[&Type], result: &Type) -> Checked {
    let types = [operands[0], operands[1], result].map(Type::element);
    let [Some(lhs), Some(rhs), Some(to)] = types else {
        return Err("the operands and the result of a product must be vectors".to_owned());
    };
    if (lhs.is_float() || rhs.is_float()) == to.is_float() {
        return Ok(());
    }
    Err(match to.is_float() {
        true => format!(
            "a product of {lhs} and {rhs} is one of integers, and its result is {to}: ask for i32 (`preferred_element_type`) and convert that, or convert an operand before"
        ),
        false => format!(
            "a product of {lhs} and {rhs} is one of floating-point numbers, and its result is {to}: ask for f32 (`preferred_element_type`) and convert that"
        ),
    })
}

fn matmul_fits(dims: &DotDims, operands: &[&Type], result: &Type) -> Checked {
    let (lhs, rhs) = (operands[0].dims(), operands[1].dims());
    let used = |a: &[i64], b: &[i64]| [a, b].concat();
    let sizes =
        |names: &[i64], of: &[i64]| -> Vec<i64> { names.iter().map(|d| of[*d as usize]).collect() };
    need(
        distinct(&used(&dims.lhs_contracting, &dims.lhs_batch), lhs.len())
            && distinct(&used(&dims.rhs_contracting, &dims.rhs_batch), rhs.len())
            && dims.lhs_contracting.len() == dims.rhs_contracting.len()
            && dims.lhs_batch.len() == dims.rhs_batch.len(),
        "its dimension numbers do not fit its operands",
    )?;
    need(
        sizes(&dims.lhs_contracting, lhs) == sizes(&dims.rhs_contracting, rhs)
            && sizes(&dims.lhs_batch, lhs) == sizes(&dims.rhs_batch, rhs),
        "the contracted dimensions differ in size",
    )?;
    let of = |&(operand, dim): &(i64, i64)| {
        let dims = [lhs, rhs].get(usize::try_from(operand).ok()?).copied()?;
        dims.get(usize::try_from(dim).ok()?).copied()
    };
    let output: Option<Vec<i64>> = dims.output.iter().map(of).collect();
    let contracted = dims.output.iter().any(|(operand, dim)| match operand {
        0 => dims.lhs_contracting.contains(dim),
        _ => dims.rhs_contracting.contains(dim),
    });
    let distinct = (0..dims.output.len()).all(|i| !dims.output[..i].contains(&dims.output[i]));
    let free = lhs.len() + rhs.len() - 2 * dims.lhs_contracting.len() - dims.lhs_batch.len();
    types_multiply(operands, result)?;
    need(
        output.as_deref() == Some(result.dims())
            && !contracted
            && distinct
            && dims.output.len() == free
            && operands[2] == result,
        "its result does not have the shape and type that follow from its operands",
    )
}
