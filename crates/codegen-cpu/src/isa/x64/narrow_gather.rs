//! Gathers of elements of one or two bytes with AVX-512, which gathers words only: the aligned word
//! that an element is in, shifted.
//!
//! Elements are aligned, so each is in one word; and an aligned word that contains a byte of an array
//! is in that byte's page, so reading all of it cannot fail.

use super::assembler::Source;
use super::isel::Select;
use super::opcodes as code;
use crate::simd::ir::{BinaryOp, Type, V};
use regalloc2::VReg;

/// The bytes of a word.
const WORD: u64 = 4;

impl Select<'_> {
    /// The elements at the indices, widened to 32-bit lanes; 0 where the mask is false.
    pub(super) fn gather_narrow(
        &mut self,
        access: u32,
        index: V,
        mask: Option<VReg>,
        u: usize,
    ) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        let form = self.form(Type::I32);
        let mask = self.mask_or_all(mask);
        // The first word, and the bytes of it before the array.
        let pointer = self.pointers[access as usize];
        let words = self.asm.shifted_right(pointer, WORD.ilog2() as i32);
        let base = self.asm.shifted_left(words, WORD.ilog2() as i32);
        let before = self.asm.difference(pointer, base);
        let before = self.splat_register(before, form)?;
        let index = self.get(index, u)?;
        let bytes = match storage.bytes {
            1 => index,
            _ => self.shifted_by(BinaryOp::ShiftLeft, Type::I32, index, 1)?,
        };
        let place = self.binary(BinaryOp::Add, Type::I32, bytes, Source::Register(before))?;
        let aligned = self.pooled(!(WORD - 1), Type::I32);
        let aligned = self.binary(BinaryOp::And, Type::I32, place, aligned)?;
        let zero = self.splat_bits(0, Type::I32)?;
        let (code, index_size) = code::gather(form);
        let word = self.asm.vector();
        let from = (base, aligned, index_size, 1);
        self.asm.gather(code, (word, form.size()), zero, mask, from);
        // The element's first bit, modulo the bits of a word; then the element at the top.
        let bits = self.shifted_by(BinaryOp::ShiftLeft, Type::I32, place, 3)?;
        let last = self.pooled(8 * WORD - 1, Type::I32);
        let bits = self.binary(BinaryOp::And, Type::I32, bits, last)?;
        let element = self.binary(
            BinaryOp::ShiftRight,
            Type::I32,
            word,
            Source::Register(bits),
        )?;
        let above = 8 * (WORD as i32 - storage.bytes as i32);
        let top = self.shifted_by(BinaryOp::ShiftLeft, Type::I32, element, above)?;
        let down = match storage.signed {
            true => BinaryOp::ShiftRightSigned,
            false => BinaryOp::ShiftRight,
        };
        self.shifted_by(down, Type::I32, top, above)
    }
}
