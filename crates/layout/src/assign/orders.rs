//! Candidate orders of dimensions, and how they carry over to other dimensions of the same
//! elements.

use super::machine::{Machine, Order};

/// The most candidate orders for an array.
const MOST_ORDERS: usize = 20;
/// Orders that need more than this many times the least padded size are not tried.
const MOST_PADDING: f64 = 3.0;

/// The candidate orders of an array: its default first, then those whose two most minor dimensions
/// need least padding. The more major dimensions are in descending order, because they influence
/// neither padding nor registers.
pub(crate) fn candidates(machine: &Machine, element_bits: u32, dims: &[i64]) -> Vec<Order> {
    let rank = dims.len() as u32;
    let mut orders = vec![machine.default_order(element_bits, dims)];
    add(&mut orders, (0..rank).rev().collect());
    let large: Vec<u32> = (0..rank).rev().filter(|&d| dims[d as usize] > 1).collect();
    let mut pairs: Vec<(f64, Order)> = Vec::new();
    for &minor in &large {
        for &second in large.iter().filter(|&&second| second != minor) {
            let order = with_minor(minor, second, rank);
            pairs.push((machine.bytes(element_bits, dims, &order), order));
        }
    }
    // The sort is stable, so equal ones stay in descending order.
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let least = pairs.first().map_or(0.0, |pair| pair.0);
    for (bytes, order) in pairs {
        if bytes <= MOST_PADDING * least && orders.len() < MOST_ORDERS {
            add(&mut orders, order);
        }
    }
    orders
}

/// The order with these two dimensions most minor, the others descending.
pub(crate) fn with_minor(minor: u32, second: u32, rank: u32) -> Order {
    let rest = (0..rank).rev().filter(|&d| d != minor && d != second);
    [minor, second].into_iter().chain(rest).collect()
}

/// The same order, with these dimensions moved to be the most major.
pub(crate) fn with_major(order: &[u32], major: &[u32]) -> Order {
    let (last, first): (Order, Order) = order.iter().copied().partition(|dim| major.contains(dim));
    first.into_iter().chain(last).collect()
}

/// Adds an order unless it is there already.
pub(crate) fn add(orders: &mut Vec<Order>, order: Order) {
    if !orders.contains(&order) {
        orders.push(order);
    }
}

/// The order of a transposition's result for which it has the same bytes as the operand. Dimension
/// `i` of the result is dimension `permutation[i]` of the operand.
pub(crate) fn transposed(order: &[u32], permutation: &[u32]) -> Option<Order> {
    let place = |dim: &u32| permutation.iter().position(|p| p == dim).map(|p| p as u32);
    order.iter().map(place).collect()
}

/// The order of a reshape's result that keeps the sequence of elements in memory, if the dimensions
/// split and merge along it.
pub fn reshaped(order: &[u32], from: &[i64], to: &[i64]) -> Option<Order> {
    let mut result = Order::new();
    let groups = factor(from, to)?;
    let mut taken = vec![false; from.len()];
    for &dim in order {
        let group = groups
            .iter()
            .find(|(own, _)| own.contains(&(dim as usize)))?;
        if std::mem::replace(taken.get_mut(dim as usize)?, true) {
            continue;
        }
        // All dimensions of a group that merges must be adjacent, the last one first.
        let position = order.iter().position(|&d| d == dim)?;
        let expected = group.0.clone().rev().map(|d| d as u32);
        let large = |d: &u32| from[*d as usize] != 1;
        let walk = order[position..].iter().copied().filter(large);
        if !walk
            .zip(expected.clone().filter(large))
            .all(|(a, b)| a == b)
        {
            return None;
        }
        for own in expected {
            *taken.get_mut(own as usize)? = true;
        }
        result.extend(group.1.clone().rev().map(|d| d as u32));
    }
    (result.len() == to.len()).then_some(result)
}

type Range = std::ops::Range<usize>;

/// The shortest runs of dimensions with equal products on both sides.
fn factor(from: &[i64], to: &[i64]) -> Option<Vec<(Range, Range)>> {
    let (mut i, mut j) = (0, 0);
    let mut groups = Vec::new();
    while i < from.len() || j < to.len() {
        let (start_i, start_j) = (i, j);
        let (mut a, mut b) = (1i64, 1i64);
        loop {
            if a == b && i > start_i && j > start_j {
                break;
            }
            if (a <= b || j >= to.len()) && i < from.len() {
                a = a.checked_mul(from[i])?;
                i += 1;
            } else if j < to.len() {
                b = b.checked_mul(to[j])?;
                j += 1;
            } else {
                break;
            }
        }
        if a != b {
            return None;
        }
        // Trailing dimensions of size 1 belong to the last group.
        if i == from.len() || j == to.len() {
            let ones = |dims: &[i64]| dims.iter().all(|&d| d == 1);
            if ones(&from[i..]) && ones(&to[j..]) {
                (i, j) = (from.len(), to.len());
            }
        }
        groups.push((start_i..i, start_j..j));
    }
    Some(groups)
}

/// The order of an array that follows another's, if all its dimensions larger than 1 are shared.
/// `shared` pairs the other's dimensions with its own.
pub(crate) fn followed(order: &[u32], shared: &[(u32, u32)], dims: &[i64]) -> Option<Order> {
    let own = |dim: &u32| {
        let pair = shared.iter().find(|(other, _)| other == dim);
        pair.map(|&(_, own)| own)
    };
    let mut result: Order = order.iter().filter_map(own).collect();
    let rank = dims.len() as u32;
    let rest: Vec<u32> = (0..rank)
        .rev()
        .filter(|dim| !result.contains(dim))
        .collect();
    let small = rest.iter().all(|&dim| dims[dim as usize] == 1);
    result.extend(rest);
    (small && result.len() == dims.len()).then_some(result)
}

/// Whether the dimensions that two arrays share have the same relative order. `shared` pairs
/// dimensions of the first with those of the second.
pub(crate) fn agree(first: &[u32], second: &[u32], shared: &[(u32, u32)]) -> bool {
    let walk = first.iter().filter_map(|dim| {
        let pair = shared.iter().find(|(own, _)| own == dim);
        pair.map(|&(_, other)| other)
    });
    let other = second
        .iter()
        .copied()
        .filter(|dim| shared.iter().any(|(_, other)| other == dim));
    walk.eq(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn orders_carry_over_reshapes() {
        let heads = reshaped(&[1, 2, 0], &[2, 128, 768], &[2, 128, 12, 64]);
        assert_eq!(heads.as_deref(), Some(&[1, 3, 2, 0][..]));
        let back = reshaped(&[1, 3, 2, 0], &[2, 128, 12, 64], &[2, 128, 768]);
        assert_eq!(back.as_deref(), Some(&[1, 2, 0][..]));
        assert_eq!(
            reshaped(&[3, 1, 2, 0], &[2, 128, 12, 64], &[2, 128, 768]),
            None
        );
        let flat = reshaped(&[1, 0], &[6, 35], &[15, 14]);
        assert_eq!(flat.as_deref(), Some(&[1, 0][..]));
        let ones = reshaped(&[1, 0], &[64, 768], &[1, 64, 768]);
        assert_eq!(ones.map(|order| order.len()), Some(3));
        let end = reshaped(&[1, 0], &[64, 768], &[64, 768, 1]);
        assert_eq!(end.map(|order| order.len()), Some(3));
    }

    #[test]
    fn orders_carry_over_transpositions() {
        let swapped = transposed(&[2, 1, 0], &[0, 2, 1]);
        assert_eq!(swapped.as_deref(), Some(&[1, 2, 0][..]));
        assert!(agree(&[2, 3, 1, 0], &[2, 1, 0], &[(0, 0), (1, 1), (2, 2)]));
        assert!(!agree(&[2, 3, 1, 0], &[1, 2, 0], &[(0, 0), (1, 1), (2, 2)]));
    }
}
