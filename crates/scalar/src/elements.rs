//! Access to the elements of an array, one by one, as the bits that it stores.

use tegula_ir::Literal;

/// The elements of an array as raw bits, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    size: usize,
}

impl<'a> Bits<'a> {
    /// The elements of a literal, row-major.
    pub fn of(literal: &'a Literal) -> Self {
        Self {
            bytes: literal.bytes(),
            size: literal.element_type().storage_bytes(),
        }
    }

    /// The element at a position; 0 beyond the end.
    #[inline]
    pub fn get(&self, index: usize) -> u128 {
        let start = index * self.size;
        let Some(bytes) = self.bytes.get(start..start + self.size) else {
            return 0;
        };
        let mut word = [0u8; 16];
        word[..self.size].copy_from_slice(bytes);
        u128::from_le_bytes(word)
    }
}

/// The elements of an array as raw bits, for writing.
#[derive(Debug)]
pub struct BitsMut<'a> {
    bytes: &'a mut [u8],
    size: usize,
}

impl<'a> BitsMut<'a> {
    /// The elements of a literal, row-major.
    pub fn of(literal: &'a mut Literal) -> Self {
        let size = literal.element_type().storage_bytes();
        Self {
            bytes: literal.bytes_mut(),
            size,
        }
    }

    /// The element at a position; 0 beyond the end.
    pub fn get(&self, index: usize) -> u128 {
        Bits {
            bytes: self.bytes,
            size: self.size,
        }
        .get(index)
    }

    /// Stores an element; has no effect beyond the end.
    #[inline]
    pub fn set(&mut self, index: usize, value: u128) {
        let start = index * self.size;
        if let Some(bytes) = self.bytes.get_mut(start..start + self.size) {
            bytes.copy_from_slice(&value.to_le_bytes()[..self.size]);
        }
    }
}
