//! Operations on one vector: one instruction each, where the instruction set has one.

use super::assembler::{Out, Source};
use super::features::InstructionSet;
use super::isel::{Select, out};
use super::opcodes as code;
use super::opcodes::Form;
use crate::simd::ir::{BinaryOp, Condition, Conversion, Fused, Type, UnaryOp, V};
use iced_x86::Code;
use regalloc2::VReg;

impl Select<'_> {
    /// Applies an instruction to vectors of a form; the result is a new vector.
    pub(super) fn apply(
        &mut self,
        code: Code,
        form: Form,
        sources: &[Source],
        number: Option<i32>,
    ) -> VReg {
        let result = self.asm.vector();
        let sized: smallvec::SmallVec<[_; 4]> = sources.iter().map(|&s| (s, form.size())).collect();
        self.asm.op(code, out(result, form.size()), &sized, number);
        result
    }

    pub(super) fn unary_op(&mut self, op: UnaryOp, ty: Type, a: V, u: usize) -> Option<VReg> {
        if op == UnaryOp::Not {
            let mask = self.get(a, u)?;
            return self.not(mask);
        }
        let (codes, number) = code::unary(op);
        let form = self.form(ty);
        match codes.of(form) {
            Some(code) => {
                let a = self.source(a, u)?;
                Some(self.apply(code, form, &[a], number))
            }
            None => {
                let a = self.get(a, u)?;
                self.missing_unary(op, ty, a)
            }
        }
    }

    pub(super) fn binary_op(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: V,
        b: V,
        u: usize,
    ) -> Option<VReg> {
        let is_shift = matches!(
            op,
            BinaryOp::ShiftLeft
                | BinaryOp::ShiftRight
                | BinaryOp::ShiftRightSigned
                | BinaryOp::RotateLeft
        );
        if let Some(amount) = self.constant_of(b).filter(|_| is_shift) {
            let amount = i32::try_from(amount.min(64)).ok()?;
            let a = match self.set {
                InstructionSet::Avx512 => self.source(a, u)?,
                InstructionSet::Avx2 => Source::Register(self.get(a, u)?),
            };
            return self.shifted(op, ty, a, amount);
        }
        let (a, b) = match self.constant_of(a).is_some() && op.commutes() {
            true => (b, a),
            false => (a, b),
        };
        let a = self.get(a, u)?;
        let b = self.source(b, u)?;
        self.binary(op, ty, a, b)
    }

    /// A shift by a constant.
    pub(super) fn shifted(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: Source,
        amount: i32,
    ) -> Option<VReg> {
        let form = self.form(ty);
        if let Some(code) = code::shift(op).of(form) {
            return Some(self.apply(code, form, &[a], Some(amount)));
        }
        let Source::Register(a) = a else { return None };
        if op == BinaryOp::RotateLeft {
            return self.rotated(ty, a, amount);
        }
        // With negative lanes inverted, a logical shift is the arithmetic one, which AVX2 lacks for
        // 64-bit lanes.
        self.by_signs(ty, a, |s, flipped| {
            s.shifted(BinaryOp::ShiftRight, ty, Source::Register(flipped), amount)
        })
    }

    pub(super) fn binary(&mut self, op: BinaryOp, ty: Type, a: VReg, b: Source) -> Option<VReg> {
        if ty == Type::Mask {
            return self.mask_op(op, a, b);
        }
        let result = self.plain(op, ty, a, b)?;
        if !matches!(op, BinaryOp::Minimum | BinaryOp::Maximum) {
            return Some(result);
        }
        if self.set == InstructionSet::Avx2 {
            return self.with_nan_of(op, ty, result, [Source::Register(a), b]);
        }
        let form = self.form(ty);
        let sources = [(Source::Register(a), form.size()), (b, form.size())];
        // If either operand is NaN, so is their sum.
        let nan = self.compared(Condition::Unordered, ty, a, b)?;
        let (add, _) = code::binary(BinaryOp::Add, ty)?;
        let repaired = self.asm.vector();
        let target = Out {
            register: repaired,
            size: form.size(),
            mask: Some((nan, false)),
        };
        self.asm.onto(add.of(form)?, target, result, &sources, None);
        Some(repaired)
    }

    /// The machine's instruction alone: minima and maxima do not propagate NaN.
    pub(super) fn plain(&mut self, op: BinaryOp, ty: Type, a: VReg, b: Source) -> Option<VReg> {
        let form = self.form(ty);
        if op == BinaryOp::UnlessNan && self.set == InstructionSet::Avx512 {
            let table = self.pooled(code::QUIET_NAN, Type::I32);
            let sources = [b, table].map(|s| (s, form.size()));
            let result = self.asm.vector();
            let code = code::FIX.of(form)?;
            self.asm
                .onto(code, out(result, form.size()), a, &sources, Some(0));
            return Some(result);
        }
        if op == BinaryOp::UnlessNan {
            return self.missing_binary(op, ty, a, b);
        }
        let (codes, number) = code::binary(op, ty)?;
        match codes.of(form) {
            Some(code) => Some(self.apply(code, form, &[Source::Register(a), b], number)),
            None => self.missing_binary(op, ty, a, b),
        }
    }

    pub(super) fn fma(
        &mut self,
        form: Form,
        fused: Fused,
        [a, b, c]: [V; 3],
        u: usize,
    ) -> Option<VReg> {
        let result = self.asm.vector();
        let target = out(result, form.size());
        // A constant factor becomes the second one.
        let (a, b) = match self.constant_of(a) {
            Some(_) => (b, a),
            None => (a, b),
        };
        let (codes, tied, sources) = if self.constant_of(c).is_some() {
            let tied = self.get(a, u)?;
            let b = Source::Register(self.get(b, u)?);
            (
                code::fused_onto_factor(fused),
                tied,
                [b, self.source(c, u)?],
            )
        } else {
            let tied = self.get(c, u)?;
            let a = Source::Register(self.get(a, u)?);
            (code::fused_onto_sum(fused), tied, [a, self.source(b, u)?])
        };
        let sources = sources.map(|s| (s, form.size()));
        self.asm.onto(codes.of(form)?, target, tied, &sources, None);
        Some(result)
    }

    pub(super) fn converted(
        &mut self,
        conversion: Conversion,
        to: Type,
        a: V,
        u: usize,
    ) -> Option<VReg> {
        let from = self.body.type_of(a);
        let a = self.get(a, u)?;
        let forms = [self.form(from), self.form(to)];
        match conversion {
            Conversion::FromHalf => {
                let packed = self.packed_words(a);
                return Some(self.half_to_f32(packed));
            }
            Conversion::RoundHalf => {
                let packed = self.f32_to_half(a);
                return Some(self.half_to_f32(packed));
            }
            Conversion::ToHalf => {
                let packed = self.f32_to_half(a);
                return Some(self.extended_words(packed));
            }
            _ => {}
        }
        let Some(code) = super::conversions::convert(conversion, from, to, forms[0]) else {
            return self.missing_conversion(conversion, from, to, a);
        };
        let result = self.asm.vector();
        let source = (Source::Register(a), forms[0].size());
        self.asm
            .op(code, out(result, forms[1].size()), &[source], None);
        Some(result)
    }
}
