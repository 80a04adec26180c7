//! Random words for `rng-bit-generator` and `rng`.
//!
//! The two algorithms are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC
//! 2011). The assignment of counters to the elements of an array, the advance of the state, and the
//! words of each element follow XLA's expansion, so the bits are equal to XLA's. The bits of `rng`
//! are not defined; here they depend on the shape and the distribution alone.
//!
//! Targets call these functions, so that all of them generate the same numbers.

mod generators;

use crate::{Number, decode, encode};
pub use generators::{halves, join, philox, philox_words, stored_bits, threefry, threefry_words};
use tegula_ir::{Category, ElementType, RngAlgorithm, RngDistribution};

/// Whether `rng-bit-generator` generates elements of a type.
pub fn has_random_bits(ty: ElementType) -> bool {
    matches!(ty.bits(), 1..=32 | 64) && ty != ElementType::Pred && !ty.is_complex()
}

/// Computes a word for each element of an array of sizes `dims`, row-major: a 64-bit word if
/// `wide`, else a 32-bit word. Advances the state, which has at least two words.
pub fn random_words(
    algorithm: RngAlgorithm,
    state: &mut [u64],
    dims: &[usize],
    wide: bool,
) -> Vec<u64> {
    let count = dims.iter().product();
    let mut words = vec![0; count];
    let mut put = |at: usize, word: u64| {
        if let Some(slot) = words.get_mut(at) {
            *slot = word;
        }
    };
    match (algorithm, state.first_chunk_mut()) {
        (RngAlgorithm::ThreeFry, Some(state)) => threefry_words(state, dims, wide, &mut put),
        (RngAlgorithm::ThreeFry, None) => {}
        _ => philox_words(state, count, wide, &mut put),
    }
    words
}

/// The stored bits of the element made of a word's low bits.
pub fn element_of_word(ty: ElementType, word: u64) -> u128 {
    let is_signed = ty.category() == Category::Signed;
    stored_bits(word, ty.bits(), is_signed).into()
}

/// The stored bits of element `i` of `rng(a, b)`, whose parameters are stored bits as well. `None`
/// for types for which it is not defined.
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
            // The method of Box and Muller, 1958.
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

    /// The bits of an element are the encoding of its number.
    #[test]
    fn elements_are_stored_as_numbers() {
        for &ty in ElementType::ALL {
            if ty.is_integer() && has_random_bits(ty) {
                for word in [0, 1, 5, 0xfa, 0x1234_5678_9abc_def0, u64::MAX] {
                    let expected = encode(ty, Number::Unsigned(word));
                    let bytes = |bits: u128| bits.to_le_bytes()[..ty.storage_bytes()].to_vec();
                    assert_eq!(
                        bytes(element_of_word(ty, word)),
                        bytes(expected),
                        "{ty} {word}"
                    );
                }
            }
        }
    }

    /// A row of odd length: the last pair has one element.
    #[test]
    fn pairs_are_neighbours_along_one_dimension() {
        let mut state = [7, 9];
        let words = random_words(RngAlgorithm::ThreeFry, &mut state, &[3, 5], false);
        let block = |counter: u64| threefry(halves(7), halves(9 + counter)).map(u64::from);
        // The first of the largest dimensions is the second: each row takes three counters.
        for (i, &word) in words.iter().enumerate() {
            let (row, column) = (i / 5, i % 5);
            assert_eq!(
                word,
                block((row * 3 + column / 2) as u64)[column % 2],
                "{i}"
            );
        }
        assert_eq!(state, [7, 18]);
    }

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
