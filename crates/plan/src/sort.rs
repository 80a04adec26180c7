//! A stable merge sort for comparators that a program supplies. Even with an inconsistent
//! comparator it terminates and loses no element.

/// Sorts stably by `before`, which says whether one element goes before another.
pub fn merge_sort<T: Copy>(items: &mut [T], before: &mut dyn FnMut(&T, &T) -> bool) {
    // Short runs are sorted by insertion, then merged pairwise.
    const RUN: usize = 8;
    for run in items.chunks_mut(RUN) {
        for i in 1..run.len() {
            let item = run[i];
            let mut at = i;
            while at > 0 && before(&item, &run[at - 1]) {
                run[at] = run[at - 1];
                at -= 1;
            }
            run[at] = item;
        }
    }
    let mut from = items.to_vec();
    let mut width = RUN;
    while width < items.len() {
        from.copy_from_slice(items);
        for (source, target) in from.chunks(2 * width).zip(items.chunks_mut(2 * width)) {
            let (left, right) = source.split_at(width.min(source.len()));
            merge(left, right, target, before);
        }
        width *= 2;
    }
}

fn merge<T: Copy>(
    left: &[T],
    right: &[T],
    target: &mut [T],
    before: &mut dyn FnMut(&T, &T) -> bool,
) {
    let (mut l, mut r) = (0, 0);
    for slot in target {
        let take_right = match (left.get(l), right.get(r)) {
            (Some(a), Some(b)) => before(b, a),
            (None, _) => true,
            _ => false,
        };
        if take_right {
            *slot = right[r];
            r += 1;
        } else {
            *slot = left[l];
            l += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::merge_sort;
    #[test]
    fn sorts_stably() {
        for n in 0..70u32 {
            let mut items: Vec<(u32, u32)> = (0..n).map(|i| (i * 7919 % 5, i)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|&(key, _)| key);
            merge_sort(&mut items, &mut |a, b| a.0 < b.0);
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn keeps_every_element_whatever_the_comparator_says() {
        let mut items: Vec<u32> = (0..100).collect();
        let mut state = 1u32;
        merge_sort(&mut items, &mut |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 31 == 0
        });
        items.sort_unstable();
        assert!(items.iter().copied().eq(0..100));
    }
}
