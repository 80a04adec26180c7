//! `sort` and `topk`: a stable merge sort with the program's comparator.
//!
//! The comparator may be any computation, even one that is not an order, so the algorithm must not
//! rely on an order; a merge sort does not.

use crate::callee::Callee;
use crate::error::{OpError, invalid};
use crate::movement::position;
use crate::strided::{product, sizes, to_i64s};
use tegula_ir::{ArrayShape, Direction, Literal, Order};
use tegula_scalar::{Bits, BitsMut};
use tegula_scalar::{Number, apply_compare, encode};

/// Sorts stably; `before(a, b)` returns whether `a` must come before `b`.
pub(crate) fn merge_sort<T: Copy>(
    items: Vec<T>,
    before: &mut dyn FnMut(&T, &T) -> Result<bool, OpError>,
) -> Result<Vec<T>, OpError> {
    let mut from = items;
    let mut to = from.clone();
    let mut width = 1;
    while width < from.len() {
        for start in (0..from.len()).step_by(2 * width) {
            let middle = (start + width).min(from.len());
            let end = (start + 2 * width).min(from.len());
            let (mut left, mut right) = (start, middle);
            for slot in &mut to[start..end] {
                // The right element goes first only if it must.
                let take_right =
                    right < end && (left == middle || before(&from[right], &from[left])?);
                let source = if take_right { &mut right } else { &mut left };
                *slot = from[*source];
                *source += 1;
            }
        }
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
    Ok(from)
}

/// Evaluates `sort`: the lines of all operands along `dimension` are permuted together, in the
/// order of the comparator.
pub(crate) fn sort(
    operands: &[&Literal],
    dimension: i64,
    comparator: &mut Callee<'_, '_>,
) -> Result<Vec<Literal>, OpError> {
    let Some(first) = operands.first() else {
        return Err(invalid("expected at least one operand"));
    };
    let dims = sizes(first);
    if operands.iter().any(|operand| sizes(operand) != dims) {
        return Err(invalid("expected operands of equal shapes"));
    }
    let dimension = position(dimension, dims.len())?;
    let (len, inner) = (dims[dimension], product(&dims[dimension + 1..]));
    let mut results: Vec<Literal> = operands.iter().map(|&operand| operand.clone()).collect();
    if first.is_empty() {
        return Ok(results);
    }
    let bits: Vec<Bits<'_>> = operands.iter().map(|operand| Bits::of(operand)).collect();
    let mut arguments = vec![0u128; 2 * bits.len()];
    for line in 0..first.len() / len {
        let start = line / inner * inner * len + line % inner;
        let places: Vec<usize> = (0..len).map(|i| start + i * inner).collect();
        let sorted = merge_sort(places, &mut |&a, &b| {
            for (pair, bits) in arguments.chunks_exact_mut(2).zip(&bits) {
                pair.copy_from_slice(&[bits.get(a), bits.get(b)]);
            }
            comparator.test(&arguments)
        })?;
        for (result, bits) in results.iter_mut().zip(&bits) {
            let mut out = BitsMut::of(result);
            for (i, &place) in sorted.iter().enumerate() {
                out.set(start + i * inner, bits.get(place));
            }
        }
    }
    Ok(results)
}

/// Evaluates `topk`: the first `k` elements by rank along the last dimension, and their positions.
///
/// Floats are compared in the total order, so NaN is the largest and `-NaN` the smallest; equal
/// elements are in the order of their positions.
pub(crate) fn top_k(
    x: &Literal,
    k: i64,
    largest: bool,
    index_shape: &ArrayShape,
) -> Result<(Literal, Literal), OpError> {
    let mut dims = sizes(x);
    let last = position(dims.len() as i64 - 1, dims.len())?;
    let len = dims[last];
    let k = usize::try_from(k).ok().filter(|&k| k <= len);
    let k =
        k.ok_or_else(|| invalid("expected a k that is at most the size of the last dimension"))?;
    let ty = x.element_type();
    let direction = if largest {
        Direction::Gt
    } else {
        Direction::Lt
    };
    if apply_compare(direction, Order::Total, ty, 0, 0).is_none() {
        return Err(invalid(format!(
            "expected elements of an ordered type, found {ty}"
        )));
    }
    dims[last] = k;
    let dims = to_i64s(&dims);
    let mut values = Literal::zeros(&ArrayShape::new(ty, &dims))?;
    let mut places = Literal::zeros(&ArrayShape::new(index_shape.element_type, &dims))?;
    let bits = Bits::of(x);
    let (mut out, mut out_places) = (BitsMut::of(&mut values), BitsMut::of(&mut places));
    for row in 0..x.len().checked_div(len).unwrap_or(0) {
        let order: Vec<u32> = (0..len as u32).collect();
        let sorted = merge_sort(order, &mut |&a, &b| {
            let (a, b) = (
                bits.get(row * len + a as usize),
                bits.get(row * len + b as usize),
            );
            Ok(apply_compare(direction, Order::Total, ty, a, b) == Some(1))
        })?;
        for (i, &place) in sorted.iter().take(k).enumerate() {
            out.set(row * k + i, bits.get(row * len + place as usize));
            let place = Number::Unsigned(place.into());
            out_places.set(row * k + i, encode(index_shape.element_type, place));
        }
    }
    Ok((values, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_is_stable_and_survives_a_senseless_comparator() {
        let items: Vec<(i32, usize)> = [3, 1, 2, 1, 3, 2, 1].into_iter().zip(0..).collect();
        let sorted = merge_sort(items.clone(), &mut |a, b| Ok(a.0 < b.0)).unwrap();
        let mut expected = items.clone();
        expected.sort_by_key(|item| item.0);
        assert_eq!(sorted, expected);
        let mut all = merge_sort(items, &mut |_, _| Ok(true)).unwrap();
        all.sort_unstable();
        assert_eq!(all.len(), 7);
        assert_eq!(
            merge_sort(Vec::<u8>::new(), &mut |_, _| Ok(true)).unwrap(),
            []
        );
    }
}
