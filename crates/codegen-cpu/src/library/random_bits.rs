//! Random numbers: writes the words of [`tegula_scalar::random`] to memory.

use tegula_ir::{ArrayShape, ElementType, RngAlgorithm, RngDistribution};
use tegula_scalar::random::{draw, element_of_word, has_random_bits, random_words};

/// The kind of random operation.
#[derive(Clone, Debug)]
pub(crate) enum Random {
    /// `rng-bit-generator`: computes the next state and bits from a state.
    Bits {
        /// The generator.
        algorithm: RngAlgorithm,
        /// The sizes of the array of bits.
        dims: Vec<usize>,
    },
    /// `rng`: computes numbers from two scalars.
    Numbers(RngDistribution),
}

impl Random {
    /// Whether elements of a type can be computed from these operands.
    pub(crate) fn knows(
        &self,
        element_type: ElementType,
        operands: &[&ArrayShape],
        results: &[&ArrayShape],
    ) -> bool {
        match (self, operands, results) {
            (Self::Bits { .. }, [state], [next, _]) => {
                let bytes = state.byte_size().unwrap_or(0);
                has_random_bits(element_type)
                    && matches!(state.element_type.bits(), 32 | 64)
                    && bytes >= 16
                    && bytes % 8 == 0
                    && next.byte_size() == Some(bytes)
            }
            (Self::Numbers(distribution), [a, b], [_]) => {
                draw(*distribution, element_type, 0, 0, 0).is_some()
                    && a.element_type == element_type
                    && b.element_type == element_type
                    && a.element_count() == Some(1)
                    && b.element_count() == Some(1)
            }
            _ => false,
        }
    }

    /// Runs the operation on the bytes of each operand and result.
    pub(crate) fn run(
        &self,
        element_type: ElementType,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) {
        let size = element_type.storage_bytes();
        match (self, inputs, outputs) {
            (Self::Bits { algorithm, dims }, [state], [next, bits]) => {
                let mut words: Vec<u64> = state.chunks_exact(8).map(|c| word(c) as u64).collect();
                let wide = element_type.bits() == 64;
                let random = random_words(*algorithm, &mut words, dims, wide);
                for (bytes, word) in next.chunks_exact_mut(8).zip(words) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
                for (bytes, word) in bits.chunks_exact_mut(size).zip(random) {
                    let element = element_of_word(element_type, word);
                    bytes.copy_from_slice(&element.to_le_bytes()[..size]);
                }
            }
            (Self::Numbers(distribution), [a, b], [out]) => {
                let (a, b) = (word(a), word(b));
                for (i, bytes) in out.chunks_exact_mut(size).enumerate() {
                    let element = draw(*distribution, element_type, a, b, i).unwrap_or(0);
                    bytes.copy_from_slice(&element.to_le_bytes()[..size]);
                }
            }
            _ => {}
        }
    }
}

/// Up to 16 little-endian bytes as a number.
pub(crate) fn word(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u128::from(byte))
}
