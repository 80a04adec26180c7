//! Stable radix sort by unsigned ranks of a few bytes, least significant digit first.

use super::Workspace;
use crate::thread_pool::is_stopped;

/// Rows shorter than this are sorted by comparison.
const SHORT: usize = 256;

/// Bytes of the workspace for `count` ranks of `bytes` bytes each.
pub(super) fn workspace_bytes(count: usize, bytes: usize) -> usize {
    match bytes {
        8 => count * size_of::<u128>(),
        _ => 2 * count * size_of::<u64>(),
    }
}

/// Writes the positions of the ranks in ascending order to `order`; equal ranks keep their order.
/// There are as many ranks as `order` has places.
#[inline(always)]
pub(super) fn sorted(
    ranks: impl Iterator<Item = u64>,
    bytes: usize,
    workspace: Workspace,
    order: &mut [u32],
) {
    let count = order.len();
    // The position is below the rank, so that equal ranks keep their order.
    if bytes == 8 {
        // SAFETY: the workspace has this many bytes, aligned to 16, and every value is a number.
        let words = unsafe { workspace.slice::<u128>(0, count) };
        for ((word, rank), position) in words.iter_mut().zip(ranks).zip(0u32..) {
            *word = u128::from(rank) << 32 | u128::from(position);
        }
        words.sort_unstable();
        for (slot, &word) in order.iter_mut().zip(&*words) {
            *slot = word as u32;
        }
        return;
    }
    // SAFETY: the workspace has this many bytes, aligned to 16, and every value is a number.
    let (words, other) = unsafe {
        let words = workspace.slice::<u64>(0, count);
        (
            words,
            workspace.slice::<u64>(count * size_of::<u64>(), count),
        )
    };
    for ((word, rank), position) in words.iter_mut().zip(ranks).zip(0u64..) {
        *word = rank << 32 | position;
    }
    let words = match count < SHORT {
        true => {
            words.sort_unstable();
            words
        }
        false => by_digits(words, other, bytes),
    };
    for (slot, &word) in order.iter_mut().zip(&*words) {
        *slot = word as u32;
    }
}

/// Radix-sorts words by their upper half, which holds a rank of `bytes` bytes. Returns the buffer
/// that has the result.
fn by_digits<'a>(
    mut words: &'a mut [u64],
    mut other: &'a mut [u64],
    bytes: usize,
) -> &'a mut [u64] {
    // The upper half has at most four bytes: ranks of eight bytes are sorted by comparison.
    let mut counts = [[0u32; 256]; 4];
    let counts = &mut counts[..bytes.min(4)];
    for &word in words.iter() {
        for (digit, counts) in counts.iter_mut().enumerate() {
            counts[digit_of(word, digit)] += 1;
        }
    }
    for (digit, counts) in counts.iter_mut().enumerate() {
        if is_stopped() {
            break;
        }
        if counts.iter().any(|&count| count as usize == words.len()) {
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            next += core::mem::replace(count, next);
        }
        for &word in words.iter() {
            let place = &mut counts[digit_of(word, digit)];
            other[*place as usize] = word;
            *place += 1;
        }
        core::mem::swap(&mut words, &mut other);
    }
    words
}

fn digit_of(word: u64, digit: usize) -> usize {
    (word >> (32 + 8 * digit) & 0xff) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_and_length_is_sorted_and_stable() {
        for bytes in [1, 2, 4, 8] {
            for length in [0, 1, 2, 255, 256, 1000] {
                let mask = u64::MAX >> (64 - 8 * bytes as u32);
                // Many ranks are equal, and some digits are the same in all.
                let rank = |i: u64| (i * 0x9E37_79B9 % 97 * 0x0101_0001) & mask;
                let ranks: Vec<u64> = (0..length).map(rank).collect();
                let mut expected: Vec<u32> = (0..length as u32).collect();
                expected.sort_by_key(|&i| ranks[i as usize]);
                let mut memory = vec![0u128; workspace_bytes(ranks.len(), bytes).div_ceil(16)];
                let mut order = vec![0; ranks.len()];
                let workspace = Workspace(memory.as_mut_ptr().cast());
                sorted(ranks.iter().copied(), bytes, workspace, &mut order);
                assert_eq!(order, expected);
            }
        }
    }
}
