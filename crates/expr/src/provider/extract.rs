//! Extracts numbers from attributes, operands and shapes.
//!
//! A number from an attribute is always a literal. An element of an array operand is a literal if
//! the array is a constant; otherwise the provider chooses: a symbol if code will compute its
//! value, or a question mark if nothing is known. The same holds for extents.

use super::Provider;
use smallvec::SmallVec;

/// Several numbers of a provider.
type List<I> = SmallVec<[I; 6]>;

/// Extraction for every provider, based on the three functions that each provider defines.
pub trait Extract: Provider {
    /// Number `i` of an attribute; `None` if it has fewer.
    fn int_from_array_as_literal(&mut self, attribute: &[i64], i: usize) -> Option<Self::Index> {
        attribute.get(i).map(|&value| self.literal(value))
    }

    /// All numbers of an attribute.
    fn ints_from_array_as_literals(&mut self, attribute: &[i64]) -> List<Self::Index> {
        attribute.iter().map(|&value| self.literal(value)).collect()
    }

    /// Element `i` of an array operand: a literal if the operand is a constant, else
    /// a number that is known at run time.
    fn int_from_operand_as_symbol(&mut self, operand: usize, i: usize) -> Self::Index {
        match self.constant(operand, i) {
            Some(value) => self.literal(value),
            None => self.value(operand, i),
        }
    }

    /// The first `count` elements of an array operand.
    fn ints_from_operand_as_symbols(&mut self, operand: usize, count: usize) -> List<Self::Index> {
        (0..count)
            .map(|i| self.int_from_operand_as_symbol(operand, i))
            .collect()
    }

    /// The elements of an array operand, if every one is known.
    fn ints_from_operand_as_literals(&mut self, operand: usize, count: usize) -> Option<List<i64>> {
        (0..count).map(|i| self.constant(operand, i)).collect()
    }

    /// The extent of dimension `dim` of an operand.
    fn shape_as_dim(&mut self, operand: usize, dim: usize) -> Self::Index {
        self.shape(operand, dim)
    }

    /// The extents of all dimensions of an operand.
    fn shape_as_dims(&mut self, operand: usize, rank: usize) -> List<Self::Index> {
        (0..rank).map(|dim| self.shape(operand, dim)).collect()
    }

    /// The number of elements of an operand.
    fn element_count(&mut self, operand: usize, rank: usize) -> Self::Index {
        let dims = self.shape_as_dims(operand, rank);
        self.product(&dims)
    }

    /// `floor(number * scale)` of the exact product; `None` if the scale is no fraction of 64-bit
    /// integers (see [`exact_ratio`](crate::exact_ratio)).
    fn floor_scaled(&mut self, number: &Self::Index, scale: f64) -> Option<Self::Index> {
        let (numerator, denominator) = crate::number::exact_ratio(scale)?;
        let (numerator, denominator) = (self.literal(numerator), self.literal(denominator));
        let product = self.mul(number, &numerator);
        Some(self.floor_div(&product, &denominator))
    }

    /// The product of numbers; 1 of none.
    fn product(&mut self, numbers: &[Self::Index]) -> Self::Index {
        let one = self.literal(1);
        numbers.iter().fold(one, |product, n| self.mul(&product, n))
    }
}

impl<P: Provider> Extract for P {}
