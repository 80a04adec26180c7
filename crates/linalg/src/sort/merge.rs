//! A stable merge sort with the program's comparator: it terminates and keeps every element even if
//! the comparator is inconsistent.

use crate::thread_pool::is_stopped;

/// Sorts numbers by `before`; elements of which neither goes before the other keep their order.
/// `other` is scratch space of the same length.
pub(super) fn merge_sort(
    items: &mut [u32],
    other: &mut [u32],
    before: &mut impl FnMut(u32, u32) -> bool,
) {
    // Short runs are sorted by insertion, then merged pairwise.
    const RUN: usize = 8;
    for run in items.chunks_mut(RUN) {
        for i in 1..run.len() {
            let item = run[i];
            let mut at = i;
            while at > 0 && before(item, run[at - 1]) {
                run[at] = run[at - 1];
                at -= 1;
            }
            run[at] = item;
        }
    }
    let mut width = RUN;
    while width < items.len() {
        other.copy_from_slice(items);
        for (source, target) in other.chunks(2 * width).zip(items.chunks_mut(2 * width)) {
            // Stopped: the rest stays in an arbitrary order.
            if is_stopped() {
                return;
            }
            let (left, right) = source.split_at(width.min(source.len()));
            merge(left, right, target, before);
        }
        width *= 2;
    }
}

fn merge(
    left: &[u32],
    right: &[u32],
    target: &mut [u32],
    before: &mut impl FnMut(u32, u32) -> bool,
) {
    let (mut l, mut r) = (0, 0);
    for slot in target {
        let (next, is_right) = match (left.get(l), right.get(r)) {
            (Some(&a), Some(&b)) => match before(b, a) {
                true => (b, true),
                false => (a, false),
            },
            (Some(&a), None) => (a, false),
            (None, Some(&b)) => (b, true),
            (None, None) => return,
        };
        *slot = next;
        match is_right {
            true => r += 1,
            false => l += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::merge_sort;

    #[test]
    fn sorts_stably() {
        for n in 0..70u32 {
            let key = |item: u32| item * 7919 % 5;
            let mut items: Vec<u32> = (0..n).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|&item| key(item));
            let mut other = vec![u32::MAX; items.len()];
            merge_sort(&mut items, &mut other, &mut |a, b| key(a) < key(b));
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn keeps_every_element_whatever_the_comparator_says() {
        let mut items: Vec<u32> = (0..100).collect();
        let mut other = items.clone();
        let mut state = 1u32;
        merge_sort(&mut items, &mut other, &mut |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 31 == 0
        });
        items.sort_unstable();
        assert!(items.iter().copied().eq(0..100));
    }
}
