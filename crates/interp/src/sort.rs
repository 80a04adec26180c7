//! `sort`: a stable merge sort with the program's comparator.
//!
//! The comparator may be anything, also no order at all, so the sort must not
//! assume one; merging does not.

use crate::error::{Fault, invalid};
use crate::lanes::{Bits, BitsMut};
use crate::movement::position;
use crate::program::Callee;
use crate::strided::{product, sizes};
use tegula_ir::Literal;

/// Sorts stably: `before(a, b)` says whether `a` must come before `b`.
pub(crate) fn merge_sort<T: Copy>(
    items: Vec<T>,
    before: &mut dyn FnMut(&T, &T) -> Result<bool, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut from = items;
    let mut to = from.clone();
    let mut width = 1;
    while width < from.len() {
        for start in (0..from.len()).step_by(2 * width) {
            let middle = (start + width).min(from.len());
            let end = (start + 2 * width).min(from.len());
            let (mut left, mut right) = (start, middle);
            for slot in &mut to[start..end] {
                // The right one goes first only if it must.
                let take_right = right < end
                    && (left == middle || before(&from[right], &from[left])?);
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

/// The operands, each line along `dimension` in the order the comparator wants
/// for the elements of all operands at the same place.
pub(crate) fn sort(
    operands: &[&Literal],
    dimension: i64,
    comparator: &mut Callee<'_, '_>,
) -> Result<Vec<Literal>, Fault> {
    let Some(first) = operands.first() else {
        return Err(invalid("no operand"));
    };
    let dims = sizes(first);
    if operands.iter().any(|operand| sizes(operand) != dims) {
        return Err(invalid("the operands' shapes do not agree"));
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
        assert_eq!(merge_sort(Vec::<u8>::new(), &mut |_, _| Ok(true)).unwrap(), []);
    }
}
