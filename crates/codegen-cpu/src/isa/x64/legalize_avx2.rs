//! Legalisation for AVX2: expands operations for which AVX-512 has one instruction to several
//! instructions of AVX2.

use super::assembler::Source;
use super::isel::Select;
use super::opcodes as code;
use super::opcodes::Form;
use crate::simd::ir::{BinaryOp, Condition, Conversion, QUIET, Type, UnaryOp};
use iced_x86::Code;
use regalloc2::VReg;

/// 3 * 2^51: the sum with an integer has the integer in its low bits.
const TO_LOW_BITS: f64 = 6_755_399_441_055_744.0;

/// A float with these bits in the upper half and an integer in the lower half is 2^52 plus the
/// integer.
const TWO_TO_52: u64 = 0x4330_0000_0000_0000;

impl Select<'_> {
    /// A value in a register.
    pub(super) fn loaded(&mut self, ty: Type, source: Source) -> Option<VReg> {
        let form = self.form(ty);
        match source {
            Source::Register(register) => Some(register),
            _ => Some(self.apply(code::LOAD.of(form)?, form, &[source], None)),
        }
    }

    /// A binary operation with a constant.
    fn with(&mut self, op: BinaryOp, ty: Type, a: VReg, bits: u64) -> Option<VReg> {
        let constant = self.pooled(bits, ty);
        self.binary(op, ty, a, constant)
    }

    fn two(&mut self, op: BinaryOp, ty: Type, a: VReg, b: VReg) -> Option<VReg> {
        self.binary(op, ty, a, Source::Register(b))
    }

    pub(super) fn shifted_by(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: VReg,
        amount: i32,
    ) -> Option<VReg> {
        self.shifted(op, ty, Source::Register(a), amount)
    }

    /// A mask of the negative lanes.
    fn signs(&mut self, ty: Type, a: VReg) -> Option<VReg> {
        let form = self.form(ty);
        let zero = self.pooled(0, ty);
        let zero = self.loaded(ty, zero)?;
        let sources = [zero, a].map(Source::Register);
        Some(self.apply(code::GREATER.of(form)?, form, &sources, None))
    }

    /// Applies an operation with negative lanes inverted before and after it.
    pub(super) fn by_signs(
        &mut self,
        ty: Type,
        a: VReg,
        f: impl FnOnce(&mut Self, VReg) -> Option<VReg>,
    ) -> Option<VReg> {
        let signs = self.signs(ty, a)?;
        let flipped = self.two(BinaryOp::Xor, ty, a, signs)?;
        let result = f(self, flipped)?;
        self.two(BinaryOp::Xor, ty, result, signs)
    }

    pub(super) fn missing_unary(&mut self, op: UnaryOp, ty: Type, a: VReg) -> Option<VReg> {
        if op != UnaryOp::AbsInt {
            return None;
        }
        let signs = self.signs(ty, a)?;
        let flipped = self.two(BinaryOp::Xor, ty, a, signs)?;
        self.two(BinaryOp::Sub, ty, flipped, signs)
    }

    pub(super) fn missing_binary(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: VReg,
        b: Source,
    ) -> Option<VReg> {
        match op {
            BinaryOp::Scale => self.scaled(ty, a, b),
            BinaryOp::Minimum | BinaryOp::Maximum => self.extreme(op, ty, a, b),
            BinaryOp::UnlessNan => self.unless_nan(ty, a, b),
            BinaryOp::Mul => self.product_of_words(a, b),
            BinaryOp::MinSigned => self.chosen(Condition::Less, ty, a, b, false),
            BinaryOp::MaxSigned => self.chosen(Condition::Less, ty, a, b, true),
            BinaryOp::MinUnsigned => self.chosen(Condition::LessUnsigned, ty, a, b, false),
            BinaryOp::MaxUnsigned => self.chosen(Condition::LessUnsigned, ty, a, b, true),
            BinaryOp::ShiftRightSigned => self.by_signs(ty, a, |s, flipped| {
                s.binary(BinaryOp::ShiftRight, ty, flipped, b)
            }),
            _ => None,
        }
    }

    /// A rotation: bits that are shifted out on the left enter on the right.
    pub(super) fn rotated(&mut self, ty: Type, a: VReg, amount: i32) -> Option<VReg> {
        let width = if ty.is_wide() { 64 } else { 32 };
        let up = self.shifted_by(BinaryOp::ShiftLeft, ty, a, amount)?;
        let down = self.shifted_by(BinaryOp::ShiftRight, ty, a, width - amount)?;
        self.two(BinaryOp::Or, ty, up, down)
    }

    /// The minimum or maximum of two integers.
    fn chosen(
        &mut self,
        less: Condition,
        ty: Type,
        a: VReg,
        b: Source,
        larger: bool,
    ) -> Option<VReg> {
        let mask = self.compared(less, ty, a, b)?;
        let b = self.loaded(ty, b)?;
        let (yes, no) = if larger { (b, a) } else { (a, b) };
        self.blend(ty, mask, Source::Register(yes), no)
    }

    /// The instruction returns the second operand if both are zeros, so it is executed in both
    /// orders: the OR of the results is the smaller zero, the AND the larger one.
    fn extreme(&mut self, op: BinaryOp, ty: Type, a: VReg, b: Source) -> Option<VReg> {
        let (first, join) = match op {
            BinaryOp::Minimum => (BinaryOp::LesserOrSecond, BinaryOp::Or),
            _ => (BinaryOp::GreaterOrSecond, BinaryOp::And),
        };
        let b = self.loaded(ty, b)?;
        let one = self.two(first, ty, a, b)?;
        let other = self.two(first, ty, b, a)?;
        self.joined(join, ty, one, Source::Register(other))
    }

    /// A bitwise operation on values of any type.
    fn joined(&mut self, op: BinaryOp, ty: Type, a: VReg, b: Source) -> Option<VReg> {
        let integers = match ty.is_wide() {
            true => Type::I64,
            false => Type::I32,
        };
        self.binary(op, integers, a, b)
    }

    /// Replaces the result of [`Self::extreme`] by NaN if an operand is NaN. A minimum already is,
    /// because the OR of a NaN and the other operand is a NaN.
    pub(super) fn with_nan_of(
        &mut self,
        op: BinaryOp,
        ty: Type,
        result: VReg,
        [a, b]: [Source; 2],
    ) -> Option<VReg> {
        if op == BinaryOp::Minimum {
            return Some(result);
        }
        let form = self.form(ty);
        let (codes, which) = code::compare(Condition::Unordered, ty);
        let nan = self.apply(codes.of(form)?, form, &[a, b], Some(which));
        self.joined(BinaryOp::Or, ty, result, Source::Register(nan))
    }

    fn unless_nan(&mut self, ty: Type, a: VReg, b: Source) -> Option<VReg> {
        let b = self.loaded(ty, b)?;
        let quiet = self.with(BinaryOp::Or, Type::I32, b, u64::from(QUIET))?;
        let nan = self.compared(Condition::Unordered, ty, b, Source::Register(b))?;
        self.blend(ty, nan, Source::Register(quiet), a)
    }

    /// Multiplies by a power of two as two factors, neither of which exceeds the range of
    /// exponents; for 64 bits one is enough.
    fn scaled(&mut self, ty: Type, a: VReg, b: Source) -> Option<VReg> {
        let b = self.loaded(ty, b)?;
        if ty == Type::F64 {
            let sum = self.with(BinaryOp::Add, ty, b, TO_LOW_BITS.to_bits())?;
            let biased = self.with(BinaryOp::Add, Type::I64, sum, 1023)?;
            let power = self.shifted_by(BinaryOp::ShiftLeft, Type::I64, biased, 52)?;
            return self.two(BinaryOp::Mul, ty, a, power);
        }
        let form = self.form(ty);
        let code = super::conversions::convert(Conversion::Truncate, ty, Type::I32, form)?;
        let n = self.apply(code, form, &[Source::Register(b)], None);
        let half = self.shifted_by(BinaryOp::ShiftRightSigned, Type::I32, n, 1)?;
        let rest = self.two(BinaryOp::Sub, Type::I32, n, half)?;
        let mut result = a;
        for n in [half, rest] {
            let biased = self.with(BinaryOp::Add, Type::I32, n, 127)?;
            let power = self.shifted_by(BinaryOp::ShiftLeft, Type::I32, biased, 23)?;
            result = self.two(BinaryOp::Mul, ty, result, power)?;
        }
        Some(result)
    }

    /// 64-bit products by products of halves; the product of the high halves exceeds the result.
    fn product_of_words(&mut self, a: VReg, b: Source) -> Option<VReg> {
        let ty = Type::I64;
        let form = self.form(ty);
        let b = self.loaded(ty, b)?;
        let low_product = |s: &mut Self, a: VReg, b: VReg| {
            let sources = [a, b].map(Source::Register);
            s.apply(Code::VEX_Vpmuludq_ymm_ymm_ymmm256, form, &sources, None)
        };
        let high_a = self.shifted_by(BinaryOp::ShiftRight, ty, a, 32)?;
        let high_b = self.shifted_by(BinaryOp::ShiftRight, ty, b, 32)?;
        let low = low_product(self, a, b);
        let crossed = [low_product(self, high_a, b), low_product(self, a, high_b)];
        let crossed = self.two(BinaryOp::Add, ty, crossed[0], crossed[1])?;
        let crossed = self.shifted_by(BinaryOp::ShiftLeft, ty, crossed, 32)?;
        self.two(BinaryOp::Add, ty, low, crossed)
    }

    pub(super) fn missing_conversion(
        &mut self,
        conversion: Conversion,
        from: Type,
        to: Type,
        a: VReg,
    ) -> Option<VReg> {
        match (conversion, from, to) {
            (Conversion::Low, ..) => Some(self.low_halves(a)),
            (Conversion::FromUnsigned, Type::I32, Type::F32) => self.unsigned_to_f32(a),
            (Conversion::FromUnsigned, Type::I32, Type::F64) => {
                let form = self.form(Type::I64);
                let extended = self.asm.vector();
                let source = (Source::Register(a), Form::Avx2Half32.size());
                let target = super::isel::out(extended, form.size());
                self.asm
                    .op(Code::VEX_Vpmovzxdq_ymm_xmmm128, target, &[source], None);
                let number = self.with(BinaryOp::Or, Type::I64, extended, TWO_TO_52)?;
                let offset = f64::from_bits(TWO_TO_52);
                self.with(BinaryOp::Sub, Type::F64, number, offset.to_bits())
            }
            (Conversion::FromSigned, Type::I64, Type::F64) => {
                // 2^84 and 2^31 units of 2^32, so that the high half is not negative.
                self.words_to_f64(a, 0x4530_0000_8000_0000, 0x4530_0000_8010_0000)
            }
            (Conversion::FromUnsigned, Type::I64, Type::F64) => {
                self.words_to_f64(a, 0x4530_0000_0000_0000, 0x4530_0000_0010_0000)
            }
            _ => None,
        }
    }

    /// The low halves of 64-bit lanes.
    pub(super) fn low_halves(&mut self, a: VReg) -> VReg {
        let high = self.upper(a);
        // Lanes 0 and 2 of each.
        let code = Code::VEX_Vshufps_xmm_xmm_xmmm128_imm8;
        let sources = [a, high].map(Source::Register);
        self.apply(code, Form::Avx2Half32, &sources, Some(0x88))
    }

    /// The upper 128 bits of a vector.
    pub(super) fn upper(&mut self, a: VReg) -> VReg {
        let high = self.asm.vector();
        let source = (Source::Register(a), Form::Avx2Full64.size());
        let target = super::isel::out(high, Form::Avx2Half32.size());
        let code = Code::VEX_Vextractf128_xmmm128_ymm_imm8;
        self.asm.op(code, target, &[source], Some(1));
        high
    }

    /// Both 16-bit halves are exact with 2^23 and 2^39 added; the sum is rounded once.
    fn unsigned_to_f32(&mut self, a: VReg) -> Option<VReg> {
        let low = self.with(BinaryOp::And, Type::I32, a, 0xffff)?;
        let low = self.with(BinaryOp::Or, Type::I32, low, 0x4b00_0000)?;
        let high = self.shifted_by(BinaryOp::ShiftRight, Type::I32, a, 16)?;
        let high = self.with(BinaryOp::Or, Type::I32, high, 0x5300_0000)?;
        // 2^39 + 2^23.
        let high = self.with(BinaryOp::Sub, Type::F32, high, 0x5300_0080)?;
        self.two(BinaryOp::Add, Type::F32, high, low)
    }

    /// Both halves are exact with 2^52 and 2^84 (plus the offset that `flip` adds) added; the sum
    /// is rounded once.
    fn words_to_f64(&mut self, a: VReg, flip: u64, offset: u64) -> Option<VReg> {
        let low = self.with(BinaryOp::And, Type::I64, a, 0xffff_ffff)?;
        let low = self.with(BinaryOp::Or, Type::I64, low, TWO_TO_52)?;
        let high = self.shifted_by(BinaryOp::ShiftRight, Type::I64, a, 32)?;
        let high = self.with(BinaryOp::Xor, Type::I64, high, flip)?;
        let high = self.with(BinaryOp::Sub, Type::F64, high, offset)?;
        self.two(BinaryOp::Add, Type::F64, high, low)
    }
}
