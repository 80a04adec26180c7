//! Words of random numbers, for `rng-bit-generator` and `rng`.
//!
//! The two algorithms are those of Salmon et al., "Parallel random numbers: as
//! easy as 1, 2, 3" (SC 2011). How counters are assigned to the elements of an array, how the
//! state advances, and which words make which element follow XLA's expansion, so the
//! bits are equal to XLA's. `rng` has no defined bits; here they depend on the
//! shape and the distribution alone.
//!
//! A target that makes these numbers calls these functions, so that all targets make the same ones.

use crate::{Number, decode, encode};
use smallvec::{SmallVec, smallvec};
use tegula_ir::{Category, ElementType, RngAlgorithm, RngDistribution};

/// Sizes or positions, by dimension.
type Sizes = SmallVec<[usize; 6]>;

fn product(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// Threefry 2x32 with 20 rounds.
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

/// Philox 4x32 with 10 rounds.
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

/// The word of two halves, the low one first.
pub fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Whether `rng-bit-generator` makes elements of a type.
pub fn has_random_bits(ty: ElementType) -> bool {
    matches!(ty.bits(), 1..=32 | 64) && ty != ElementType::Pred && !ty.is_complex()
}

/// A word for each element of an array of sizes `dims`, row-major: of 64 bits if
/// `wide`, else of 32. The state, of at least two words, becomes the next one.
pub fn random_words(
    algorithm: RngAlgorithm,
    state: &mut [u64],
    dims: &[usize],
    wide: bool,
) -> Vec<u64> {
    if state.len() < 2 {
        return vec![0; product(dims)];
    }
    match algorithm {
        RngAlgorithm::ThreeFry => threefry_bits(state, dims, wide),
        RngAlgorithm::Philox | RngAlgorithm::Default => philox_bits(state, product(dims), wide),
    }
}

/// The stored bits of the element that a word makes: its low bits.
pub fn element_of_word(ty: ElementType, word: u64) -> u128 {
    if ty.is_integer() && ty.bits() < 8 {
        // Encoding extends the sign.
        return encode(ty, Number::Unsigned(word));
    }
    u128::from(word & (u64::MAX >> 64u32.saturating_sub(ty.bits())))
}

/// The state is the key and a counter. Elements of 64 bits use a counter each.
/// Elements of at most 32 come in pairs that share one: neighbours along the
/// first dimension of even size or, if there is none, the first of the largest.
fn threefry_bits(state: &mut [u64], dims: &[usize], wide: bool) -> Vec<u64> {
    let key = halves(state[0]);
    let first = state[1];
    let block = |counter: usize| threefry(key, halves(first.wrapping_add(counter as u64)));
    if wide {
        state[1] = first.wrapping_add(product(dims) as u64);
        return (0..product(dims)).map(|i| join(block(i))).collect();
    }
    if dims.is_empty() {
        state[1] = first.wrapping_add(1);
        return vec![u64::from(block(0)[0])];
    }
    let split = paired_dimension(dims);
    let mut halved: Sizes = dims.into();
    halved[split] = dims[split].div_ceil(2);
    state[1] = first.wrapping_add(product(&halved) as u64);
    let mut index: Sizes = smallvec![0; dims.len()];
    let mut random = Vec::with_capacity(product(dims));
    for _ in 0..product(dims) {
        let mut counter = 0;
        for (d, (&i, &size)) in index.iter().zip(&halved).enumerate() {
            counter = counter * size + if d == split { i / 2 } else { i };
        }
        random.push(u64::from(block(counter)[index[split] % 2]));
        for (i, &size) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < size {
                break;
            }
            *i = 0;
        }
    }
    random
}

fn paired_dimension(dims: &[usize]) -> usize {
    let even = dims.iter().position(|size| size % 2 == 0);
    let largest = dims.iter().max().copied().unwrap_or(0);
    even.or_else(|| dims.iter().position(|&size| size == largest))
        .unwrap_or(0)
}

/// The state is the key and a 128-bit counter, low word first; a state of two
/// words is itself the counter, high word (the key) first, and keeps only the low
/// word. Each counter gives four words, used one after the other.
fn philox_bits(state: &mut [u64], count: usize, wide: bool) -> Vec<u64> {
    let key = halves(state[0]);
    let (low, high) = if state.len() >= 3 {
        (state[1], state[2])
    } else {
        (state[1], state[0])
    };
    let first = u128::from(low) | u128::from(high) << 64;
    let words = if wide { 2 * count } else { count };
    let blocks = words.div_ceil(4);
    let mut random = Vec::with_capacity(count + 3);
    for i in 0..blocks {
        let counter = first.wrapping_add(i as u128);
        let [a, b] = [counter as u64, (counter >> 64) as u64].map(halves);
        let block = philox(key, [a[0], a[1], b[0], b[1]]);
        if wide {
            random.extend([join([block[0], block[1]]), join([block[2], block[3]])]);
        } else {
            random.extend(block.map(u64::from));
        }
    }
    random.truncate(count);
    let next = first.wrapping_add(blocks as u128);
    state[1] = next as u64;
    if let Some(high) = state.get_mut(2) {
        *high = (next >> 64) as u64;
    }
    random
}

/// The stored bits of element `i` of `rng(a, b)`, the parameters as stored bits.
/// `None` for types that it is not defined for.
pub fn draw(
    distribution: RngDistribution,
    ty: ElementType,
    a: u128,
    b: u128,
    i: usize,
) -> Option<u128> {
    if ty.is_complex() {
        return None;
    }
    let (a, b) = (decode(ty, a), decode(ty, b));
    let unit = |half: u32| {
        let word = join(threefry([half, 0x7465_6775], halves(i as u64)));
        (word >> 11) as f64 / (1u64 << 53) as f64
    };
    let number = match (distribution, a, b) {
        (RngDistribution::Normal, a, b) => {
            // Box and Muller, 1958.
            let radius = (-2.0 * libm::log(1.0 - unit(0))).sqrt();
            let normal = radius * libm::cos(std::f64::consts::TAU * unit(1));
            Number::Double(real(a) + real(b) * normal)
        }
        (RngDistribution::Uniform, Number::Signed(a), Number::Signed(b)) => {
            let width = (i128::from(b) - i128::from(a)).max(1) as f64;
            Number::Signed(a.wrapping_add((unit(0) * width) as i64))
        }
        (RngDistribution::Uniform, Number::Unsigned(a), Number::Unsigned(b)) => {
            let width = b.saturating_sub(a).max(1) as f64;
            Number::Unsigned(a.wrapping_add((unit(0) * width) as u64))
        }
        (RngDistribution::Uniform, a, b) if ty.category() != Category::Boolean => {
            Number::Double(real(a) + (real(b) - real(a)) * unit(0))
        }
        (RngDistribution::Uniform, ..) => Number::Pred(unit(0) >= 0.5),
    };
    Some(encode(ty, number))
}

fn real(number: Number) -> f64 {
    match number {
        Number::Single(x) => x.into(),
        Number::Double(x) => x,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers from the Random123 distribution (kat_vectors).
    #[test]
    fn known_answers() {
        let ones = u32::MAX;
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([ones; 2], [ones; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(
            threefry([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3]),
            [0xc492_3a9c, 0x483d_f7a0]
        );
        assert_eq!(
            philox([0, 0], [0; 4]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([ones; 2], [ones; 4]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }
}
