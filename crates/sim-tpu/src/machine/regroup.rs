//! Copies between memory of different shapes: which dimensions of both ends have the same elements,
//! and where a part of one end is at the other.

use super::terms::AT_RUN_TIME;
use smallvec::SmallVec;
use std::ops::Range;

/// Dimensions of a copy's source and of its destination, as positions in the lists of those that
/// are kept, that have the same elements in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) source: Range<usize>,
    pub(super) destination: Range<usize>,
}

impl Group {
    /// Whether it is one dimension of each end.
    pub(super) fn is_pair(&self) -> bool {
        self.source.len() == 1 && self.destination.len() == 1
    }
}

pub(super) type Groups = SmallVec<[Group; 4]>;

/// The dimensions of both ends one by one; nothing if the sizes differ.
pub(super) fn pairs(source: &[i64], destination: &[i64]) -> Option<Groups> {
    let mut sizes = source.iter().zip(destination);
    let fits = sizes.all(|(a, b)| a == b || *a == AT_RUN_TIME || *b == AT_RUN_TIME);
    let all = (0..source.len()).map(|d| Group {
        source: d..d + 1,
        destination: d..d + 1,
    });
    (fits && source.len() == destination.len()).then(|| all.collect())
}

/// Dimensions one by one where the sizes are the same, and one group of the others between. Nothing
/// if those have other elements.
pub(super) fn groups(source: &[i64], destination: &[i64]) -> Option<Groups> {
    if let Some(pairs) = pairs(source, destination) {
        return Some(pairs);
    }
    let rank = source.len().min(destination.len());
    let back = (source.iter().rev().zip(destination.iter().rev()))
        .take_while(|(a, b)| a == b)
        .count();
    let front = (source.iter().zip(destination))
        .take(rank - back)
        .take_while(|(a, b)| a == b && **a != AT_RUN_TIME)
        .count();
    let middle = Group {
        source: front..source.len() - back,
        destination: front..destination.len() - back,
    };
    let (from, to) = (
        &source[middle.source.clone()],
        &destination[middle.destination.clone()],
    );
    let is_known = |sizes: &[i64]| !sizes.contains(&AT_RUN_TIME);
    if is_known(from) && is_known(to) {
        // Sizes whose product overflows are those of no memory.
        let count = |sizes: &[i64]| sizes.iter().try_fold(1i64, |n, &size| n.checked_mul(size));
        (count(from)? == count(to)?).then_some(())?;
    }
    let before = (0..front).map(|d| (d, d));
    let after = (0..back)
        .rev()
        .map(|b| (source.len() - 1 - b, destination.len() - 1 - b));
    let pair = |(s, d): (usize, usize)| Group {
        source: s..s + 1,
        destination: d..d + 1,
    };
    let all = before.map(pair).chain([middle]).chain(after.map(pair));
    Some(all.collect())
}

/// A box: the first index and the one after the last of each dimension.
pub(super) type Bounds = SmallVec<[(i64, i64); 4]>;

/// The elements of a box of dimensions `from` as boxes of dimensions `to`, which have the same
/// elements.
pub(super) fn boxes(part: &[(i64, i64)], from: &[i64], to: &[i64]) -> Vec<Bounds> {
    let mut found = Vec::new();
    for (start, end) in runs(part, from) {
        cover(start, end, to, &Bounds::new(), &mut found);
    }
    found
}

/// A box's elements as runs in row-major order.
fn runs(part: &[(i64, i64)], sizes: &[i64]) -> Vec<(i64, i64)> {
    let Some((&(low, high), inner)) = part.split_first() else {
        return vec![(0, 1)];
    };
    let rest = &sizes[1..];
    let row: i64 = rest.iter().product();
    let is_whole = inner.iter().zip(rest).all(|((l, h), n)| *l == 0 && h == n);
    if is_whole {
        return vec![(low * row, high * row)];
    }
    let own = runs(inner, rest);
    let of = |at: i64| own.iter().map(move |(l, h)| (at * row + l, at * row + h));
    (low..high).flat_map(of).collect()
}

/// Boxes of the elements from `start` up to `end`, in dimensions of these sizes.
fn cover(start: i64, end: i64, sizes: &[i64], before: &Bounds, found: &mut Vec<Bounds>) {
    if start >= end {
        return;
    }
    let Some((_, rest)) = sizes.split_first() else {
        found.push(before.clone());
        return;
    };
    let row = rest.iter().product::<i64>().max(1);
    let with = |low: i64, high: i64| {
        let mut bounds = before.clone();
        bounds.push((low, high));
        bounds
    };
    let (first, last) = (start.div_euclid(row), end.div_euclid(row));
    // A part of the first row, whole rows, a part of the last one.
    let whole = if start == first * row {
        first
    } else {
        first + 1
    };
    if whole > first {
        let stop = end.min(whole * row);
        let own = with(first, first + 1);
        cover(start - first * row, stop - first * row, rest, &own, found);
    }
    if whole < last {
        let mut bounds = with(whole, last);
        bounds.extend(rest.iter().map(|size| (0, *size)));
        found.push(bounds);
    }
    if last >= whole {
        let own = with(last, last + 1);
        cover(0, end - last * row, rest, &own, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn dimensions_are_grouped_from_both_ends() {
        let of = |source: &[i64], destination: &[i64]| {
            let groups = groups(source, destination)?;
            let all = groups.iter();
            Some(
                all.map(|g| (g.source.clone(), g.destination.clone()))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(&[4, 8], &[4, 8]), Some(vec![(0..1, 0..1), (1..2, 1..2)]));
        let split = Some(vec![(0..1, 0..2), (1..2, 2..3)]);
        assert_eq!(of(&[AT_RUN_TIME, 512], &[AT_RUN_TIME, 8, 512]), split);
        let sized = [AT_RUN_TIME, AT_RUN_TIME];
        assert_eq!(of(&sized, &[AT_RUN_TIME, 8, AT_RUN_TIME]), split);
        assert_eq!(
            of(&[2, 12, 5], &[2, 3, 4, 5]),
            Some(vec![(0..1, 0..1), (1..2, 1..3), (2..3, 3..4)])
        );
        assert_eq!(of(&[2, 12], &[2, 3, 5]), None);
        let huge = 1 << 40;
        assert_eq!(of(&[3, huge, huge], &[huge, huge]), None);
    }

    #[test]
    fn parts_are_the_same_elements_in_the_other_shape() {
        let (from, to) = ([6, 4], [3, 2, 4]);
        for (low, high, left, right) in [(0, 6, 0, 4), (1, 2, 0, 4), (1, 5, 0, 4), (2, 5, 1, 3)] {
            let part = [(low, high), (left, right)];
            let mut elements: Vec<i64> = Vec::new();
            for bounds in boxes(&part, &from, &to) {
                for a in bounds[0].0..bounds[0].1 {
                    for b in bounds[1].0..bounds[1].1 {
                        elements.extend((bounds[2].0..bounds[2].1).map(|c| (a * 2 + b) * 4 + c));
                    }
                }
            }
            elements.sort_unstable();
            let wanted = (low..high).flat_map(|a| (left..right).map(move |b| a * 4 + b));
            assert_eq!(elements, wanted.collect::<Vec<_>>());
        }
        let all: Bounds = smallvec![(0, 3), (0, 2), (0, 4)];
        assert_eq!(boxes(&[(0, 24)], &[24], &to), [all]);
    }
}
