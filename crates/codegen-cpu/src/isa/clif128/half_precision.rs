//! IEEE 754 binary16 by operations on the bits of `f32`, because Cranelift has no numbers of binary16:
//! for one number, and for vectors of four.

use super::vector_bits::reinterpreted;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use cranelift_frontend::FunctionBuilder;

/// The number of additional significand bits of an `f32`.
const DROPPED: i64 = 13;
/// The difference of the exponents' biases.
const BIAS: u32 = 127 - 15;
/// The exponent bits of infinity and NaN in an `f32`.
const SPECIAL: u32 = 0x7f80_0000;
const SIGN: u32 = 0x8000_0000;

/// Emits conversions between binary16 and `f32`.
pub(crate) struct Binary16<'a, 'f> {
    builder: &'a mut FunctionBuilder<'f>,
    /// The types of words and of numbers.
    types: [Type; 2],
}

impl<'a, 'f> Binary16<'a, 'f> {
    /// Conversions of single numbers.
    pub(crate) fn of_one(builder: &'a mut FunctionBuilder<'f>) -> Self {
        Self {
            builder,
            types: [types::I32, types::F32],
        }
    }

    /// Conversions of vectors.
    pub(super) fn of_lanes(builder: &'a mut FunctionBuilder<'f>) -> Self {
        Self {
            builder,
            types: [types::I32X4, types::F32X4],
        }
    }

    /// A constant of 32 bits in every lane.
    fn constant(&mut self, ty: Type, bits: u32) -> Value {
        if ty.is_vector() {
            let bytes = bits.to_le_bytes().repeat(4);
            let handle = self.builder.func.dfg.constants.insert(bytes.into());
            return self.builder.ins().vconst(ty, handle);
        }
        match ty {
            types::F32 => self.builder.ins().f32const(f32::from_bits(bits)),
            _ => self.builder.ins().iconst(ty, i64::from(bits)),
        }
    }

    fn word(&mut self, bits: u32) -> Value {
        self.constant(self.types[0], bits)
    }

    fn number(&mut self, x: f32) -> Value {
        self.constant(self.types[1], x.to_bits())
    }

    fn as_word(&mut self, x: Value) -> Value {
        reinterpreted(self.builder, self.types[0], x)
    }

    fn as_float(&mut self, bits: Value) -> Value {
        reinterpreted(self.builder, self.types[1], bits)
    }

    /// Selects words by the result of a comparison.
    fn choose(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        match self.types[0].is_vector() {
            true => self.builder.ins().bitselect(condition, yes, no),
            false => self.builder.ins().select(condition, yes, no),
        }
    }

    /// Converts bits of binary16, in words whose upper half is 0, to `f32`.
    pub(crate) fn half_to_f32(&mut self, bits: Value) -> Value {
        let low = self.word(0x7fff);
        let magnitude = self.builder.ins().band(bits, low);
        let shifted = self.builder.ins().ishl_imm_s(magnitude, DROPPED);
        // A multiplication corrects the exponent's bias, because subnormal numbers need
        // normalisation.
        let value = self.as_float(shifted);
        let scale = self.number(f32::from_bits((BIAS + 127) << 23));
        let value = self.builder.ins().fmul(value, scale);
        let value = self.as_word(value);
        let largest = self.word(0x7bff);
        let special = self
            .builder
            .ins()
            .icmp(IntCC::SignedGreaterThan, magnitude, largest);
        let top = self.word(SPECIAL);
        let special_bits = self.builder.ins().bor(shifted, top);
        let value = self.choose(special, special_bits, value);
        let sign = self.builder.ins().isub(bits, magnitude);
        let sign = self.builder.ins().ishl_imm_s(sign, 16);
        let value = self.builder.ins().bor(value, sign);
        self.as_float(value)
    }

    /// Magnitudes plus 1/2, and a mask of those below the smallest normal number of binary16.
    /// Subnormal numbers of binary16 are multiples of 2^-24, which is the last place of an `f32` in
    /// [1/2, 1), so the sum rounds to them.
    fn raised(&mut self, magnitude: Value) -> (Value, Value) {
        let half = self.number(0.5);
        let raised = self.builder.ins().fadd(magnitude, half);
        let smallest = self.number(2f32.powi(-14));
        let below = FloatCC::LessThan;
        let is_small = self.builder.ins().fcmp(below, magnitude, smallest);
        (raised, is_small)
    }

    /// Rounds to the nearest numbers of binary16, ties to even.
    pub(crate) fn rounded_to_half(&mut self, x: Value) -> Value {
        let bits = self.as_word(x);
        let last = self.builder.ins().ushr_imm_s(bits, DROPPED);
        let one = self.word(1);
        let odd = self.builder.ins().band(last, one);
        let half = self.word((1 << (DROPPED - 1)) - 1);
        let sum = self.builder.ins().iadd(bits, half);
        let sum = self.builder.ins().iadd(sum, odd);
        let kept = self.word(u32::MAX << DROPPED);
        let rounded = self.builder.ins().band(sum, kept);
        let sign = self.word(SIGN);
        let sign = self.builder.ins().band(bits, sign);
        let magnitude = self.builder.ins().fabs(x);
        let (raised, is_small) = self.raised(magnitude);
        let base = self.number(0.5);
        let small = self.builder.ins().fsub(raised, base);
        let small = self.as_word(small);
        let small = self.builder.ins().bor(small, sign);
        let result = self.choose(is_small, small, rounded);
        // The largest number plus half of its last place.
        let limit = self.number(65_520.0);
        let too_large = self
            .builder
            .ins()
            .fcmp(FloatCC::LessThanOrEqual, limit, magnitude);
        let infinity = self.word(SPECIAL);
        let infinity = self.builder.ins().bor(infinity, sign);
        let result = self.choose(too_large, infinity, result);
        // A NaN keeps its bits and becomes quiet.
        let quiet = self.word(0x0040_0000);
        let quieted = self.builder.ins().bor(bits, quiet);
        let quieted = self.builder.ins().band(quieted, kept);
        let nan = self.builder.ins().fcmp(FloatCC::Unordered, x, x);
        let result = self.choose(nan, quieted, result);
        self.as_float(result)
    }

    /// The bits of binary16 numbers, in words whose upper half is 0.
    pub(crate) fn half_bits(&mut self, x: Value) -> Value {
        let bits = self.as_word(x);
        let low = self.word(!SIGN);
        let magnitude_bits = self.builder.ins().band(bits, low);
        let sign = self.builder.ins().isub(bits, magnitude_bits);
        let sign = self.builder.ins().ushr_imm_s(sign, 16);
        let shifted = self.builder.ins().ushr_imm_s(magnitude_bits, DROPPED);
        let bias = self.word(BIAS << 10);
        let normal = self.builder.ins().isub(shifted, bias);
        let magnitude = self.as_float(magnitude_bits);
        let (raised, is_small) = self.raised(magnitude);
        let raised = self.as_word(raised);
        let significand = self.word(0x03ff);
        let small = self.builder.ins().band(raised, significand);
        let value = self.choose(is_small, small, normal);
        let last_finite = self.word(SPECIAL - 1);
        let special =
            self.builder
                .ins()
                .icmp(IntCC::SignedGreaterThan, magnitude_bits, last_finite);
        let top = self.word(0x7c00);
        let special_bits = self.builder.ins().bor(shifted, top);
        let all = self.word(0x7fff);
        let special_bits = self.builder.ins().band(special_bits, all);
        let value = self.choose(special, special_bits, value);
        self.builder.ins().bor(value, sign)
    }
}
