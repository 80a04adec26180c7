//! The generators of `rng-bit-generator`. This file needs only `core`: the routines of compiled
//! programs (`crates/rt`) are also built from it.

/// The Threefry 2x32 generator with 20 rounds.
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1bd1_1bda];
    let mut x = [
        counter[0].wrapping_add(keys[0]),
        counter[1].wrapping_add(keys[1]),
    ];
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(group + 1) % 3]);
        x[1] = (x[1].wrapping_add(keys[(group + 2) % 3])).wrapping_add(group as u32 + 1);
    }
    x
}

/// The Philox 4x32 generator with 10 rounds.
pub fn philox(mut key: [u32; 2], mut x: [u32; 4]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(x[0]) * 0xd251_1f53;
        let b = u64::from(x[2]) * 0xcd9e_8d57;
        x = [
            (b >> 32) as u32 ^ x[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ x[3] ^ key[1],
            a as u32,
        ];
        key[0] = key[0].wrapping_add(0x9e37_79b9);
        key[1] = key[1].wrapping_add(0xbb67_ae85);
    }
    x
}

/// The halves of a word, the low one first.
pub fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// The word with these halves, the low one first.
pub fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn product(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// Calls `put` with a word for each element of an array of sizes `dims`, row-major: a 64-bit word
/// if `wide`, else a 32-bit word. Advances the state, which has at least two words.
///
/// The state is the key and a counter. Each 64-bit element uses one counter. Elements of at most 32
/// bits form pairs that share one: adjacent elements along the first dimension of even size or, if
/// there is none, along the first of the largest dimensions.
pub fn threefry_words(
    state: &mut [u64; 2],
    dims: &[usize],
    wide: bool,
    put: &mut impl FnMut(usize, u64),
) {
    let (key, first, count) = (halves(state[0]), state[1], product(dims));
    let block = |counter: usize| threefry(key, halves(first.wrapping_add(counter as u64)));
    if wide {
        (0..count).for_each(|i| put(i, join(block(i))));
        state[1] = first.wrapping_add(count as u64);
        return;
    }
    let split = paired_dimension(dims);
    let (size, inner) = match dims.get(split..) {
        Some([size, inner @ ..]) => (*size, product(inner)),
        _ => (1, 1),
    };
    let (half, row) = (size.div_ceil(2), size * inner);
    for start in (0..count).step_by(row.max(1)) {
        let counters = start.checked_div(size).unwrap_or(0) * half;
        for pair in 0..half {
            for i in 0..inner {
                let words = block(counters + pair * inner + i);
                put(start + 2 * pair * inner + i, words[0].into());
                if 2 * pair + 1 < size {
                    put(start + (2 * pair + 1) * inner + i, words[1].into());
                }
            }
        }
    }
    let counters = count.checked_div(size).unwrap_or(0) * half;
    state[1] = first.wrapping_add(counters as u64);
}

fn paired_dimension(dims: &[usize]) -> usize {
    let even = dims.iter().position(|size| size % 2 == 0);
    let largest = dims.iter().max().copied().unwrap_or(0);
    even.or_else(|| dims.iter().position(|&size| size == largest))
        .unwrap_or(0)
}

/// Like [`threefry_words`], for `count` elements.
///
/// The state is the key and a 128-bit counter, low word first; a state of two words is itself the
/// counter, high word (the key) first, and keeps only the low word. Each counter gives four words,
/// used one after the other.
pub fn philox_words(state: &mut [u64], count: usize, wide: bool, put: &mut impl FnMut(usize, u64)) {
    let &mut [key, low, ref rest @ ..] = state else {
        return;
    };
    let high = rest.first().copied().unwrap_or(key);
    let first = u128::from(low) | u128::from(high) << 64;
    let each = if wide { 2 } else { 4 };
    let blocks = count.div_ceil(each);
    for i in 0..blocks {
        let counter = first.wrapping_add(i as u128);
        let [a, b] = [counter as u64, (counter >> 64) as u64].map(halves);
        let block = philox(halves(key), [a[0], a[1], b[0], b[1]]);
        let words = match wide {
            true => [join([block[0], block[1]]), join([block[2], block[3]]), 0, 0],
            false => block.map(u64::from),
        };
        for (at, word) in (each * i..count).zip(&words[..each]) {
            put(at, *word);
        }
    }
    let next = first.wrapping_add(blocks as u128);
    state[1] = next as u64;
    if let Some(high) = state.get_mut(2) {
        *high = (next >> 64) as u64;
    }
}

/// The stored bits of an element of `bits` bits that takes the low bits of a word. Signed integers
/// of fewer than eight bits are stored sign-extended.
pub fn stored_bits(word: u64, bits: u32, is_signed: bool) -> u64 {
    let unused = 64 - bits.clamp(1, 64);
    match is_signed && bits < 8 {
        true => (((word << unused) as i64) >> unused) as u64 & 0xff,
        false => word << unused >> unused,
    }
}
