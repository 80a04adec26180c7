//! Masks: comparisons that make them, logical operations on them, and selects by them.

use super::assembler::{Out, Place, Source};
use super::features::InstructionSet;
use super::isel::{Copies, Select, out};
use super::opcodes as code;
use super::opcodes::{Form, Size};
use crate::simd::ir::{BinaryOp, Condition, Type, V};
use iced_x86::Code;
use regalloc2::VReg;

impl Select<'_> {
    /// An instruction on masks.
    pub(super) fn mask(
        &mut self,
        code: Code,
        sources: &[(Source, Size)],
        number: Option<i32>,
    ) -> VReg {
        let mask = self.asm.register(self.set.mask_class());
        let target = out(mask, self.set.mask_size());
        self.asm.op(code, target, sources, number);
        mask
    }

    /// Sets the flags by whether a mask contains a lane.
    pub(super) fn any(&mut self, mask: VReg) {
        let code = match self.set {
            InstructionSet::Avx512 => Code::VEX_Kortestw_kr_kr,
            InstructionSet::Avx2 => Code::VEX_Vptest_ymm_ymmm256,
        };
        let sources = [(Source::Register(mask), self.set.mask_size()); 2];
        self.asm.effect(code, &sources, None);
    }

    /// For each vector, the mask of the lanes before the end.
    pub(super) fn tail_masks(&mut self) -> Option<Copies> {
        let left = self.asm.difference(self.n, self.lane);
        // Clamps the number, which may exceed 32 bits.
        let was = std::mem::replace(&mut self.asm.place, Place::Entry);
        let many = self.asm.number(4096);
        self.asm.place = was;
        let left = self.asm.smaller(left, many);
        let form = self.form(Type::I32);
        let splat = self.splat_register(left, form)?;
        self.left = Some(splat);
        (0..self.unroll)
            .map(|u| {
                let iota = self.iota(u);
                self.above(splat, iota)
            })
            .collect()
    }

    /// The lanes in which 32-bit integers of `a` are greater than those of `b`.
    pub(super) fn above(&mut self, a: VReg, b: Source) -> Option<VReg> {
        if self.set == InstructionSet::Avx2 {
            return self.greater(Type::I32, a, b);
        }
        let form = self.form(Type::I32);
        let (codes, _) = code::compare(Condition::Less, Type::I32);
        let sources = [(Source::Register(a), form.size()), (b, form.size())];
        // The predicate "not less or equal".
        Some(self.mask(codes.of(form)?, &sources, Some(6)))
    }

    /// A constant AVX-512 mask of these lanes, made before the loops.
    pub(super) fn constant_lanes(&mut self, lanes: u16) -> VReg {
        let source = Source::Pool {
            offset: self.asm.constant(&lanes.to_le_bytes()),
            broadcast: false,
        };
        let was = std::mem::replace(&mut self.asm.place, Place::Entry);
        let mask = self.mask(Code::VEX_Kmovw_kr_km16, &[(source, Size::K)], None);
        self.asm.place = was;
        mask
    }

    /// A mask of all lanes.
    pub(super) fn all_lanes(&mut self) -> VReg {
        let was = std::mem::replace(&mut self.asm.place, Place::Entry);
        let mask = self.constant_mask(true);
        self.asm.place = was;
        mask
    }

    /// A mask, or that of all lanes.
    pub(super) fn mask_or_all(&mut self, mask: Option<VReg>) -> VReg {
        match mask {
            Some(mask) => mask,
            None => self.all_lanes(),
        }
    }

    /// A mask of no lane, made before the loops.
    pub(super) fn no_lanes(&mut self) -> VReg {
        let was = std::mem::replace(&mut self.asm.place, Place::Entry);
        let mask = self.constant_mask(false);
        self.asm.place = was;
        mask
    }

    /// A constant mask of all lanes or of none.
    pub(super) fn constant_mask(&mut self, all: bool) -> VReg {
        let byte = if all { 0xff } else { 0 };
        let (code, bytes) = match self.set {
            InstructionSet::Avx512 => (Code::VEX_Kmovw_kr_km16, 2),
            InstructionSet::Avx2 => (Code::VEX_Vmovups_ymm_ymmm256, self.set.vector_bytes()),
        };
        let source = Source::Pool {
            offset: self.asm.constant(&vec![byte; bytes]),
            broadcast: false,
        };
        self.mask(code, &[(source, self.set.mask_size())], None)
    }

    /// A mask's complement.
    pub(super) fn not(&mut self, a: VReg) -> Option<VReg> {
        match self.set {
            InstructionSet::Avx512 => {
                let source = (Source::Register(a), Size::K);
                Some(self.mask(Code::VEX_Knotw_kr_kr, &[source], None))
            }
            InstructionSet::Avx2 => {
                let all = self.pooled(u64::MAX, Type::I64);
                self.mask_op(BinaryOp::Xor, a, all)
            }
        }
    }

    pub(super) fn mask_op(&mut self, op: BinaryOp, a: VReg, b: Source) -> Option<VReg> {
        let code = code::mask_bits(op)?[self.set as usize];
        let sources = [Source::Register(a), b].map(|s| (s, self.set.mask_size()));
        Some(self.mask(code, &sources, None))
    }

    /// The active lanes of an access; `None` if all are.
    pub(super) fn effective(&mut self, mask: Option<V>, u: usize) -> Option<Option<VReg>> {
        let tail = self.tails.as_ref().map(|t| t[u]);
        let Some(mask) = mask else { return Some(tail) };
        let mask = self.get(mask, u)?;
        match tail {
            None => Some(Some(mask)),
            Some(tail) => self
                .mask_op(BinaryOp::And, mask, Source::Register(tail))
                .map(Some),
        }
    }

    // ---- comparisons ------------------------------------------------------------

    pub(super) fn compared(
        &mut self,
        condition: Condition,
        ty: Type,
        a: VReg,
        b: Source,
    ) -> Option<VReg> {
        let form = self.form(ty);
        let (codes, which) = code::compare(condition, ty);
        let sources = [Source::Register(a), b];
        match (self.set, codes.of(form)) {
            (InstructionSet::Avx512, code) => {
                let sources = sources.map(|s| (s, form.size()));
                Some(self.mask(code?, &sources, Some(which)))
            }
            (_, Some(code)) => {
                let lanes = self.apply(code, form, &sources, Some(which));
                Some(self.as_mask(form, lanes))
            }
            (_, None) => self.integers_compared(condition, ty, a, b),
        }
    }

    /// AVX2 only compares integers for equality and for signed greater-than.
    fn integers_compared(
        &mut self,
        condition: Condition,
        ty: Type,
        a: VReg,
        b: Source,
    ) -> Option<VReg> {
        match condition {
            Condition::Equal => self.equal(ty, a, b),
            Condition::NotEqual | Condition::Unordered => {
                let equal = self.equal(ty, a, b)?;
                self.not(equal)
            }
            Condition::Less => {
                let b = self.loaded(ty, b)?;
                self.greater(ty, b, Source::Register(a))
            }
            Condition::LessEqual => {
                let greater = self.greater(ty, a, b)?;
                self.not(greater)
            }
            Condition::LessUnsigned | Condition::LessEqualUnsigned if ty.is_wide() => {
                let sign = self.pooled(1 << 63, ty);
                let b = self.loaded(ty, b)?;
                let a = self.binary(BinaryOp::Xor, ty, a, sign)?;
                let b = self.binary(BinaryOp::Xor, ty, b, sign)?;
                let signed = match condition {
                    Condition::LessUnsigned => Condition::Less,
                    _ => Condition::LessEqual,
                };
                self.integers_compared(signed, ty, a, Source::Register(b))
            }
            // `a < b` unless `a` is the maximum of both.
            Condition::LessUnsigned => {
                let larger = self.binary(BinaryOp::MaxUnsigned, ty, a, b)?;
                let not_less = self.equal(ty, larger, Source::Register(a))?;
                self.not(not_less)
            }
            Condition::LessEqualUnsigned => {
                let smaller = self.binary(BinaryOp::MinUnsigned, ty, a, b)?;
                self.equal(ty, smaller, Source::Register(a))
            }
        }
    }

    fn equal(&mut self, ty: Type, a: VReg, b: Source) -> Option<VReg> {
        let form = self.form(ty);
        let code = code::EQUAL.of(form)?;
        let lanes = self.apply(code, form, &[Source::Register(a), b], None);
        Some(self.as_mask(form, lanes))
    }

    fn greater(&mut self, ty: Type, a: VReg, b: Source) -> Option<VReg> {
        let form = self.form(ty);
        let code = code::GREATER.of(form)?;
        let lanes = self.apply(code, form, &[Source::Register(a), b], None);
        Some(self.as_mask(form, lanes))
    }

    // ---- masks that are vectors -----------------------------------------------------

    /// Converts lanes with all bits set or none to a mask, whose lanes have 64 bits in bodies with
    /// 64-bit lanes.
    pub(super) fn as_mask(&mut self, form: Form, lanes: VReg) -> VReg {
        match form {
            Form::Avx2Half32 => self.lower_as_wide(lanes),
            _ => lanes,
        }
    }

    /// Widens the lower four 32-bit lanes to 64 bits.
    pub(super) fn lower_as_wide(&mut self, lanes: VReg) -> VReg {
        let source = (Source::Register(lanes), Size::Xmm);
        self.mask(Code::VEX_Vpmovsxdq_ymm_xmmm128, &[source], None)
    }

    /// Converts a mask to lanes of a form.
    pub(super) fn lanes_of_mask(&mut self, form: Form, mask: VReg) -> VReg {
        match form {
            Form::Avx2Half32 => self.low_halves(mask),
            _ => mask,
        }
    }

    // ---- choices ------------------------------------------------------------------

    /// Selects by a mask.
    pub(super) fn blend(&mut self, ty: Type, mask: VReg, yes: Source, no: VReg) -> Option<VReg> {
        let form = self.form(ty);
        let code = code::BLEND.of(form)?;
        if self.set == InstructionSet::Avx2 {
            let mask = Source::Register(self.lanes_of_mask(form, mask));
            return Some(self.apply(code, form, &[Source::Register(no), yes, mask], None));
        }
        let result = self.asm.vector();
        let target = Out {
            register: result,
            size: form.size(),
            mask: Some((mask, false)),
        };
        let sources = [Source::Register(no), yes].map(|s| (s, form.size()));
        self.asm.op(code, target, &sources, None);
        Some(result)
    }
}
