//! Stable sorting by unsigned ranks of a few bytes: by digits, the lowest first.

/// Rows shorter than this are sorted by comparing.
const SHORT: usize = 256;

/// The positions of ranks of so many bytes in ascending order, equal ones as they came.
pub(super) fn sorted(ranks: impl Iterator<Item = u64>, bytes: usize) -> Vec<u32> {
    if bytes == 8 {
        let mut pairs: Vec<(u64, u32)> = ranks.zip(0..).collect();
        pairs.sort_unstable();
        return pairs.into_iter().map(|(_, position)| position).collect();
    }
    // The position below the rank: equal ranks stay in order.
    let mut words: Vec<u64> = ranks.zip(0u64..).map(|(r, i)| r << 32 | i).collect();
    if words.len() < SHORT {
        words.sort_unstable();
    } else {
        by_digits(&mut words, bytes);
    }
    words.into_iter().map(|word| word as u32).collect()
}

/// Sorts by the bytes from the fifth on.
fn by_digits(words: &mut Vec<u64>, bytes: usize) {
    let mut counts = vec![[0u32; 256]; bytes];
    for &word in words.iter() {
        for (digit, counts) in counts.iter_mut().enumerate() {
            counts[digit_of(word, digit)] += 1;
        }
    }
    let mut other = vec![0; words.len()];
    for (digit, counts) in counts.iter_mut().enumerate() {
        if counts.iter().any(|&count| count as usize == words.len()) {
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            next += std::mem::replace(count, next);
        }
        for &word in words.iter() {
            let place = &mut counts[digit_of(word, digit)];
            other[*place as usize] = word;
            *place += 1;
        }
        std::mem::swap(words, &mut other);
    }
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
                // Many are equal, and some digits are the same in all.
                let rank = |i: u64| (i * 0x9E37_79B9 % 97 * 0x0101_0001) & mask;
                let ranks: Vec<u64> = (0..length).map(rank).collect();
                let mut expected: Vec<u32> = (0..length as u32).collect();
                expected.sort_by_key(|&i| ranks[i as usize]);
                assert_eq!(sorted(ranks.iter().copied(), bytes), expected);
            }
        }
    }
}
