//! Gathers whose lanes' elements are close together: one contiguous load, or a broadcast, in place of a
//! load for each lane.
//!
//! The body says which gathers are worth it ([`Span`]). A test at run time decides whether a
//! vector's elements are in fact equal or adjacent. If an array is read repeatedly from its start,
//! only the vectors in which it restarts load each lane.

use super::assembler::{Out, Source};
use super::features::{INTEGER, InstructionSet};
use super::inst::Taken;
use super::isel::{Select, out};
use super::opcodes::{Form, Size};
use crate::simd::ir::{BinaryOp, Condition, Span, Type, V};
use iced_x86::Code;
use regalloc2::VReg;

/// The bytes of the smallest page; memory is mapped by pages.
const PAGE: i32 = 4096;

impl Select<'_> {
    /// The span of a gather's elements, if this instruction set has a faster form for it.
    pub(super) fn span_of(&self, access: u32) -> Option<Span> {
        let (_, span) = self.body.spans.iter().find(|(of, _)| *of == access)?;
        let has_form = *span != Span::Window || self.set == InstructionSet::Avx512;
        (has_form && !self.in_rare).then_some(*span)
    }

    /// Loads the elements of a gather by the form that its span allows.
    pub(super) fn gather_span(
        &mut self,
        (access, span): (u32, Span),
        (ty, index): (Type, V),
        mask: Option<VReg>,
        u: usize,
    ) -> Option<VReg> {
        // Both branches use these values, so they are computed before the branch.
        let each = self.get(index, u)?;
        let first = self.first_lane(each);
        let form = self.form(Type::I32);
        let splat = self.splat_register(first, form)?;
        let apart = match span {
            Span::Same => self.compared(
                Condition::NotEqual,
                Type::I32,
                each,
                Source::Register(splat),
            )?,
            Span::Neighbours => {
                let numbers = self.iota(0);
                let expected = self.binary(BinaryOp::Add, Type::I32, splat, numbers)?;
                let expected = Source::Register(expected);
                self.compared(Condition::NotEqual, Type::I32, each, expected)?
            }
            Span::Window => {
                return self.gather_window(access, (ty, index), (first, splat), mask, u);
            }
        };
        // Lanes that do not load may have any index.
        let apart = match mask {
            Some(mask) => self.mask_op(BinaryOp::And, apart, Source::Register(mask))?,
            None => apart,
        };
        self.any(apart);
        self.either(
            Taken::NotZero,
            |select| {
                let from = select.element(access, first);
                match (span, select.set, mask) {
                    (Span::Neighbours, ..) => {
                        select.load_neighbours((access, Some(index)), ty, from, mask, u)
                    }
                    (_, InstructionSet::Avx512, mask) => select.broadcast(access, ty, from, mask),
                    (_, InstructionSet::Avx2, None) => select.load_splat(access, ty, from),
                    (_, InstructionSet::Avx2, Some(mask)) => {
                        select.load_splat_masked(access, ty, from, mask)
                    }
                }
            },
            |select| select.gather_apart(access, (ty, index), mask, u),
        )
    }

    /// Loads as many contiguous elements as a vector has lanes, and selects from them. The load may
    /// extend beyond the array's end, but not beyond the page, so it cannot fault. A vector that
    /// would cross a page boundary is gathered instead.
    fn gather_window(
        &mut self,
        access: u32,
        (ty, index): (Type, V),
        (first, splat): (VReg, VReg),
        mask: Option<VReg>,
        u: usize,
    ) -> Option<VReg> {
        let each = self.get(index, u)?;
        let from = self.element(access, first);
        let address = self.asm.address(from);
        let bytes = self.lanes() * self.body.accesses[access as usize].storage.bytes as i32;
        let in_page = self.asm.masked(address, PAGE - 1);
        let last = self.asm.number(PAGE - bytes);
        self.asm.compare(in_page, last);
        self.either(
            Taken::Greater,
            |select| {
                let loaded = select.load_neighbours((access, Some(index)), ty, from, mask, u)?;
                let places =
                    select.binary(BinaryOp::Sub, Type::I32, each, Source::Register(splat))?;
                select.permuted_by(select.form(ty), loaded, places)
            },
            |select| select.gather_apart(access, (ty, index), mask, u),
        )
    }

    /// Selects lanes of a vector by the numbers in another one of 32-bit lanes, with AVX-512.
    fn permuted_by(&mut self, form: Form, table: VReg, places: VReg) -> Option<VReg> {
        let (code, places) = match form {
            Form::Full32 => (Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32, places),
            Form::Half32 => (Code::EVEX_Vpermd_ymm_k1z_ymm_ymmm256b32, places),
            Form::Full64 => {
                let wide = self.asm.vector();
                let narrow = (Source::Register(places), Size::Ymm);
                let widen = Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256;
                self.asm.op(widen, out(wide, Size::Zmm), &[narrow], None);
                (Code::EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64, wide)
            }
            _ => return None,
        };
        let result = self.asm.vector();
        let sources = [places, table].map(|r| (Source::Register(r), form.size()));
        let target = Out {
            register: result,
            size: form.size(),
            mask: None,
        };
        self.asm.op(code, target, &sources, None);
        Some(result)
    }

    /// Emits a branch to one of two ways to compute a vector: `other` if the flags are as `seldom` says,
    /// which should be rare, otherwise `usual`.
    pub(super) fn either(
        &mut self,
        seldom: Taken,
        usual: impl FnOnce(&mut Self) -> Option<VReg>,
        other: impl FnOnce(&mut Self) -> Option<VReg>,
    ) -> Option<VReg> {
        let result = self.asm.vector();
        let [apart, together] = [self.asm.block(&[]), self.asm.block(&[])];
        let after = self.asm.block(&[result]);
        self.asm.is_cold(apart);
        self.asm.branch(seldom, apart, together);
        self.asm.switch_to(together);
        let one = usual(self)?;
        self.asm.jump(after, &[one]);
        self.asm.switch_to(apart);
        let each = other(self)?;
        self.asm.jump(after, &[each]);
        self.asm.switch_to(after);
        Some(result)
    }

    /// The first lane of a vector of 32-bit integers, as an integer of 64 bits.
    pub(super) fn first_lane(&mut self, vector: VReg) -> VReg {
        let [low, first] = [(); 2].map(|()| self.asm.register(INTEGER));
        let code = match self.set {
            InstructionSet::Avx512 => Code::EVEX_Vmovd_rm32_xmm,
            InstructionSet::Avx2 => Code::VEX_Vmovd_rm32_xmm,
        };
        let vector = (Source::Register(vector), Size::Xmm);
        self.asm.op(code, out(low, Size::R32), &[vector], None);
        let low = (Source::Register(low), Size::R32);
        let target = out(first, Size::R64);
        self.asm.op(Code::Movsxd_r64_rm32, target, &[low], None);
        first
    }

    /// The memory operand of an element by its number.
    pub(super) fn element(&self, access: u32, number: VReg) -> Source {
        Source::Memory {
            base: self.pointers[access as usize],
            index: Some((number, self.body.accesses[access as usize].storage.bytes)),
            displacement: 0,
        }
    }
}
