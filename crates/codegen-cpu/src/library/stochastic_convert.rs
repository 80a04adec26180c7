//! `stochastic-convert`, element by element.

use super::random_bits::word;
use tegula_ir::{ArrayShape, ElementType};
use tegula_scalar::apply_stochastic_convert;

/// A conversion that uses random numbers for rounding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StochasticConvert {
    pub from: ElementType,
    pub to: ElementType,
}

impl StochasticConvert {
    /// Whether the conversion exists for these types.
    pub(crate) fn knows(self, operands: &[&ArrayShape]) -> bool {
        let [_, random] = operands else { return false };
        apply_stochastic_convert(self.from, self.to, 0, 0).is_some()
            && random.element_type.bits() == self.from.bits()
    }

    /// Converts every element of `x` with the corresponding element of `random`.
    pub(crate) fn run(self, x: &[u8], random: &[u8], out: &mut [u8]) {
        let (from, to) = (self.from.storage_bytes(), self.to.storage_bytes());
        let operands = x.chunks_exact(from).zip(random.chunks_exact(from));
        for ((x, random), out) in operands.zip(out.chunks_exact_mut(to)) {
            let bits = apply_stochastic_convert(self.from, self.to, word(x), word(random));
            out.copy_from_slice(&bits.unwrap_or(0).to_le_bytes()[..to]);
        }
    }
}
