//! Accesses to elements whose addresses decrease from lane to lane: contiguous loads and stores of
//! reversed lanes.

use super::assembler::Source;
use super::features::InstructionSet;
use super::isel::Select;
use super::opcodes::{Form, Size};
use crate::isa::x64::isel::out;
use crate::simd::ir::{Type, V};
use iced_x86::Code;
use regalloc2::VReg;

impl Select<'_> {
    /// Loads the element of lane 0 and those before it in memory; `index` is the lanes' numbers,
    /// negated.
    pub(super) fn load_backwards(
        &mut self,
        access: u32,
        (ty, index): (Type, V),
        mask: Option<VReg>,
        u: usize,
    ) -> Option<VReg> {
        let bytes = self.body.accesses[access as usize].storage.bytes;
        if self.set == InstructionSet::Avx2 && bytes < 4 && mask.is_some() {
            return self.load_narrow_lanes(access, Some(index), mask, u);
        }
        let mask = match mask {
            Some(mask) => Some(self.reversed_mask(mask)?),
            None => None,
        };
        let from = self.place_of_last(access, u);
        let loaded = self.load_neighbours((access, None), ty, from, mask, u)?;
        let form = self.form(ty);
        Some(self.reversed(form, loaded))
    }

    /// Stores the element of lane 0 and those before it in memory. AVX2 has no masked stores of
    /// narrow elements.
    pub(super) fn store_backwards(
        &mut self,
        access: u32,
        (value, ty): (VReg, Type),
        mask: Option<VReg>,
        u: usize,
    ) -> Option<()> {
        let mask = match mask {
            Some(mask) => Some(self.reversed_mask(mask)?),
            None => None,
        };
        let to = self.place_of_last(access, u);
        let value = self.reversed(self.form(ty), value);
        self.store_neighbours(access, (value, ty), mask, to, u)
    }

    /// The memory operand of a vector's last lane, which has the lowest address.
    fn place_of_last(&mut self, access: u32, u: usize) -> Source {
        let bytes = self.body.accesses[access as usize].storage.bytes;
        let zero = self.asm.number(0);
        let before = self.asm.difference(zero, self.lane);
        let last = self.lanes() * (u as i32 + 1) - 1;
        Source::Memory {
            base: self.pointers[access as usize],
            index: Some((before, bytes)),
            displacement: -last * bytes as i32,
        }
    }

    /// A vector's lanes in the reverse order.
    fn reversed(&mut self, form: Form, lanes: VReg) -> VReg {
        let by = |select: &mut Self, code: Code, form: Form, from: VReg, order: i32| {
            select.apply(code, form, &[Source::Register(from)], Some(order))
        };
        match form {
            Form::Full32 => self.in_order(lanes, |lane| 15 - lane),
            Form::Half32 => self.in_order(lanes, |lane| 7 - lane % 8),
            Form::Full64 => self.in_order(lanes, |half| 2 * (7 - half / 2) + half % 2),
            Form::Avx2Half32 => by(self, Code::VEX_Vpshufd_xmm_xmmm128_imm8, form, lanes, 0x1b),
            Form::Avx2Full64 => by(self, Code::VEX_Vpermq_ymm_ymmm256_imm8, form, lanes, 0x1b),
            Form::Avx2Full32 => {
                let exchanged = by(self, Code::VEX_Vpermq_ymm_ymmm256_imm8, form, lanes, 0x4e);
                by(
                    self,
                    Code::VEX_Vpshufd_ymm_ymmm256_imm8,
                    form,
                    exchanged,
                    0x1b,
                )
            }
        }
    }

    /// The 32-bit lanes of a vector in another order, with AVX-512.
    fn in_order(&mut self, lanes: VReg, from: impl Fn(u32) -> u32) -> VReg {
        let selection = self.selection((0..16).map(from));
        let sources = [selection, lanes].map(|r| (Source::Register(r), Size::Zmm));
        let result = self.asm.vector();
        let code = Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32;
        self.asm.op(code, out(result, Size::Zmm), &sources, None);
        result
    }

    /// A mask's lanes in the reverse order.
    fn reversed_mask(&mut self, mask: VReg) -> Option<VReg> {
        if self.set == InstructionSet::Avx2 {
            let form = match self.lanes() {
                4 => Form::Avx2Full64,
                _ => Form::Avx2Full32,
            };
            return Some(self.reversed(form, mask));
        }
        let lanes = self.asm.vector();
        let source = (Source::Register(mask), Size::K);
        let code = Code::EVEX_Vpmovm2d_zmm_kr;
        self.asm.op(code, out(lanes, Size::Zmm), &[source], None);
        let form = match self.lanes() {
            8 => Form::Half32,
            _ => Form::Full32,
        };
        let source = (Source::Register(self.reversed(form, lanes)), Size::Zmm);
        Some(self.mask(Code::EVEX_Vpmovd2m_kr_zmm, &[source], None))
    }
}
