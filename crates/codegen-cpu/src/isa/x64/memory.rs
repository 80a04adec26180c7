//! Loads and stores of lanes.

use super::assembler::{Out, Place, Source};
use super::features::InstructionSet;
use super::inst::Taken;
use super::isel::{Select, out};
use super::opcodes as code;
use super::opcodes::{Form, Size};
use crate::simd::ir::{BinaryOp, Op, Storage, Type, V};
use iced_x86::Code;
use regalloc2::VReg;

impl Select<'_> {
    /// The memory operand of a vector's first lane, or of the one element of a uniform access.
    pub(super) fn place(&self, access: u32, u: usize) -> Source {
        let a = self.body.accesses[access as usize];
        Source::Memory {
            base: self.pointers[access as usize],
            index: (!a.splat).then_some((self.lane, a.storage.bytes)),
            displacement: match a.splat {
                true => 0,
                false => self.lanes() * u as i32 * a.storage.bytes as i32,
            },
        }
    }

    pub(super) fn load(
        &mut self,
        access: u32,
        ty: Type,
        mask: Option<V>,
        u: usize,
    ) -> Option<VReg> {
        let a = self.body.accesses[access as usize];
        let from = self.place(access, u);
        if a.splat {
            // All lanes of a run load it, unless the body has a mask.
            let mask = match mask {
                Some(mask) => self.effective(Some(mask), u)?,
                None => None,
            };
            return match (self.set, mask) {
                (InstructionSet::Avx512, mask) => self.broadcast(access, ty, from, mask),
                (InstructionSet::Avx2, None) => self.load_splat(access, ty, from),
                (InstructionSet::Avx2, Some(mask)) => {
                    self.load_splat_masked(access, ty, from, mask)
                }
            };
        }
        let mask = self.effective(mask, u)?;
        self.load_neighbours((access, None), ty, from, mask, u)
    }

    /// Loads contiguous elements; `index` addresses them if the access itself does not.
    pub(super) fn load_neighbours(
        &mut self,
        (access, index): (u32, Option<V>),
        ty: Type,
        from: Source,
        mask: Option<VReg>,
        u: usize,
    ) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        let form = self.form(ty);
        let narrow = storage.bytes < 4;
        let code = match narrow {
            true => code::widen(storage.bytes, storage.signed, form)?,
            false => code::LOAD.of(form)?,
        };
        match (self.set, mask) {
            (InstructionSet::Avx2, Some(mask)) if narrow => {
                self.load_narrow_lanes(access, index, Some(mask), u)
            }
            (InstructionSet::Avx2, Some(mask)) => Some(self.load_masked(form, mask, from)?),
            (_, mask) => Some(self.load_through(code, form.size(), from, mask)),
        }
    }

    /// A load instruction; with AVX-512 it may be masked.
    fn load_through(&mut self, code: Code, size: Size, from: Source, mask: Option<VReg>) -> VReg {
        let register = self.asm.vector();
        let target = Out {
            register,
            size,
            mask: mask.map(|mask| (mask, true)),
        };
        self.asm.op(code, target, &[(from, Size::R64)], None);
        register
    }

    /// AVX2's masked load.
    pub(super) fn load_masked(&mut self, form: Form, mask: VReg, from: Source) -> Option<VReg> {
        let mask = Source::Register(self.lanes_of_mask(form, mask));
        Some(self.apply(code::MASKED_LOAD.of(form)?, form, &[mask, from], None))
    }

    /// AVX2's masked store.
    pub(super) fn store_masked(
        &mut self,
        form: Form,
        mask: VReg,
        place: Source,
        value: VReg,
    ) -> Option<()> {
        let mask = Source::Register(self.lanes_of_mask(form, mask));
        let sources = [place, mask, Source::Register(value)].map(|s| (s, form.size()));
        self.asm
            .effect(code::MASKED_STORE.of(form)?, &sources, None);
        Some(())
    }

    /// Loads one element into all lanes, with AVX-512.
    pub(super) fn broadcast(
        &mut self,
        access: u32,
        ty: Type,
        from: Source,
        mask: Option<VReg>,
    ) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        let form = self.form(ty);
        if storage.bytes >= 4 {
            let code = code::SPLAT.of(form)?;
            return Some(self.load_through(code, form.size(), from, mask));
        }
        // Broadcasts narrow elements, then widens them.
        let (code, size) = match (storage.bytes, form) {
            (1, _) => (Code::EVEX_Vpbroadcastb_xmm_k1z_xmmm8, Size::Xmm),
            (_, Form::Half32) => (Code::EVEX_Vpbroadcastw_xmm_k1z_xmmm16, Size::Xmm),
            (_, _) => (Code::EVEX_Vpbroadcastw_ymm_k1z_xmmm16, Size::Ymm),
        };
        let narrow = self.load_through(code, size, from, mask);
        self.widened(storage, form, (narrow, size))
    }

    /// Loads one element into all lanes, with AVX2.
    pub(super) fn load_splat(&mut self, access: u32, ty: Type, from: Source) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        let form = self.form(ty);
        let code = match storage.bytes {
            1 => Code::VEX_Vpbroadcastb_xmm_xmmm8,
            2 => Code::VEX_Vpbroadcastw_xmm_xmmm16,
            _ => {
                let code = code::SPLAT.of(form)?;
                return Some(self.load_through(code, form.size(), from, None));
            }
        };
        let narrow = self.load_through(code, Size::Xmm, from, None);
        self.widened(storage, form, (narrow, Size::Xmm))
    }

    /// Widens the first narrow elements of a vector to 32-bit lanes.
    pub(super) fn widened(
        &mut self,
        storage: Storage,
        form: Form,
        (narrow, size): (VReg, Size),
    ) -> Option<VReg> {
        let code = code::widen(storage.bytes, storage.signed, form)?;
        let result = self.asm.vector();
        let source = (Source::Register(narrow), size);
        self.asm.op(code, out(result, form.size()), &[source], None);
        Some(result)
    }

    pub(super) fn gather(
        &mut self,
        access: u32,
        ty: Type,
        index: V,
        mask: Option<V>,
        u: usize,
    ) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        if let Some(every) =
            super::isel::strided_access::read(self.set, self.body, access, index, mask)
        {
            return self.strided(access, every, u);
        }
        // Inactive lanes may have addresses far outside; a gather skips them at no cost.
        let plain = mask.is_none() && !self.in_rare;
        let mask = self.effective(mask, u)?;
        if let Some(elements) = self.small_array(access) {
            return self.permuted(access, elements, index, mask, u);
        }
        if plain && self.body.goes_by_one(index, &self.same) {
            let from = self.place_of_first(access, index, u)?;
            return self.load_neighbours((access, Some(index)), ty, from, mask, u);
        }
        if self.body.goes_back(index) && !self.in_rare {
            return self.load_backwards(access, (ty, index), mask, u);
        }
        if storage.bytes >= 4
            && !self.in_rare
            && let Some(steps) = self.steps_of(index)
        {
            return self.step_or_gather(access, (ty, index), mask, steps, u);
        }
        if plain && let Some(span) = self.span_of(access) {
            return self.gather_span((access, span), (ty, index), mask, u);
        }
        self.gather_apart(access, (ty, index), mask, u)
    }

    /// Loads the lanes' elements wherever they are.
    pub(super) fn gather_apart(
        &mut self,
        access: u32,
        (ty, index): (Type, V),
        mask: Option<VReg>,
        u: usize,
    ) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        match self.set {
            _ if storage.bytes >= 4 => self.gather_all(access, (ty, index), mask, u),
            InstructionSet::Avx512 => self.gather_narrow(access, index, mask, u),
            InstructionSet::Avx2 => self.load_narrow_lanes(access, Some(index), mask, u),
        }
    }

    /// The memory operand of the element of a vector's first lane.
    fn place_of_first(&mut self, access: u32, index: V, u: usize) -> Option<Source> {
        let index = self.get(index, u)?;
        let first = self.first_lane(index);
        Some(self.element(access, first))
    }

    /// The number of elements of a small array that AVX-512 selects from a register.
    fn small_array(&self, access: u32) -> Option<u32> {
        let small = &self.body.small;
        let (_, elements) = small.iter().find(|(of, _)| *of == access)?;
        (self.set == InstructionSet::Avx512).then_some(*elements)
    }

    /// Selects lanes of a register that contains the array: one instruction instead of the about
    /// twenty of a gather.
    fn permuted(
        &mut self,
        access: u32,
        elements: u32,
        index: V,
        mask: Option<VReg>,
        u: usize,
    ) -> Option<VReg> {
        let pointer = self.body.accesses[access as usize].pointer;
        let table = match self.arrays.get(&pointer) {
            Some(&known) => known,
            None => {
                let was = std::mem::replace(&mut self.asm.place, Place::Row);
                let all = 1u32.checked_shl(elements)?.wrapping_sub(1) as u16;
                let lanes = (all != u16::MAX).then(|| self.constant_lanes(all));
                let from = Source::Memory {
                    base: self.word(pointer),
                    index: None,
                    displacement: 0,
                };
                let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
                let table = self.load_through(code, Size::Zmm, from, lanes);
                self.asm.place = was;
                self.arrays.insert(pointer, table);
                table
            }
        };
        let index = self.get(index, u)?;
        let register = self.asm.vector();
        let target = Out {
            register,
            size: Size::Zmm,
            mask: mask.map(|mask| (mask, true)),
        };
        let sources = [index, table].map(|r| (Source::Register(r), Size::Zmm));
        let code = Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32;
        self.asm.op(code, target, &sources, None);
        Some(register)
    }

    fn gather_all(
        &mut self,
        access: u32,
        (ty, index): (Type, V),
        mask: Option<VReg>,
        u: usize,
    ) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        let form = self.form(ty);
        let mask = self.mask_or_all(mask);
        let mask = self.lanes_of_mask(form, mask);
        let zero = self.splat_bits(0, ty)?;
        let index = self.get(index, u)?;
        let (code, index_size) = code::gather(form);
        let result = self.asm.vector();
        let base = self.pointers[access as usize];
        let place = (base, index, index_size, storage.bytes);
        self.asm
            .gather(code, (result, form.size()), zero, mask, place);
        Some(result)
    }

    /// An index that is the same for many consecutive lanes, `(lane + first) >> amount`: `first`
    /// and `amount`, if the latter is so large that vectors seldom cover two values.
    fn steps_of(&self, index: V) -> Option<(u32, i32)> {
        let Op::Binary(BinaryOp::ShiftRightSigned, place, amount) = self.body.op(index) else {
            return None;
        };
        let amount = i32::try_from(self.constant_of(amount)?).ok()?;
        let Op::Binary(BinaryOp::Add, lane, first) = self.body.op(place) else {
            return None;
        };
        let Op::Input(first) = self.body.op(first) else {
            return None;
        };
        let is_long = (1..31).contains(&amount) && 1 << amount >= self.lanes();
        let is_lane = self.body.op(lane) == Op::Lane;
        (is_long && is_lane && self.set == InstructionSet::Avx512).then_some((first, amount))
    }

    /// Loads one element for all lanes if they have the same index; otherwise gathers, which takes
    /// ten times as long.
    fn step_or_gather(
        &mut self,
        access: u32,
        (ty, index): (Type, V),
        mask: Option<VReg>,
        (first, amount): (u32, i32),
        u: usize,
    ) -> Option<VReg> {
        let first = self.word(first);
        let lanes = self.lanes();
        let place = self.asm.sum(self.lane, Some(first), lanes * u as i32);
        let end = self.asm.sum(place, None, lanes - 1);
        let [step, last] = [place, end].map(|place| self.asm.shifted_right(place, amount));
        self.asm.compare(last, step);
        self.either(
            Taken::Greater,
            |select| {
                let from = select.element(access, step);
                select.broadcast(access, ty, from, mask)
            },
            |select| select.gather_all(access, (ty, index), mask, u),
        )
    }

    pub(super) fn store(
        &mut self,
        access: u32,
        value: V,
        index: Option<V>,
        mask: Option<V>,
        u: usize,
    ) -> Option<()> {
        let storage = self.body.accesses[access as usize].storage;
        let ty = self.body.type_of(value);
        let form = self.form(ty);
        let value = self.get(value, u)?;
        let mask = self.effective(mask, u)?;
        if let Some(index) = index {
            let by_lanes = self.set == InstructionSet::Avx2 && storage.bytes < 4 && mask.is_some();
            if self.body.goes_back(index) && !by_lanes {
                return self.store_backwards(access, (value, ty), mask, u);
            }
            let Some((code, index_size)) = code::scatter(form) else {
                return self.store_lanes(access, (value, ty), Some(index), mask, u);
            };
            if storage.bytes < 4 {
                return None;
            }
            let mask = self.mask_or_all(mask);
            let index = self.get(index, u)?;
            let base = self.pointers[access as usize];
            let place = (base, index, index_size, storage.bytes);
            self.asm.scatter(code, (value, form.size()), mask, place);
            return Some(());
        }
        let place = self.place(access, u);
        self.store_neighbours(access, (value, ty), mask, place, u)
    }

    /// Stores contiguous elements.
    pub(super) fn store_neighbours(
        &mut self,
        access: u32,
        (value, ty): (VReg, Type),
        mask: Option<VReg>,
        place: Source,
        u: usize,
    ) -> Option<()> {
        let storage = self.body.accesses[access as usize].storage;
        let form = self.form(ty);
        let narrow = storage.bytes < 4;
        if self.streams && mask.is_none() && self.streamed.contains(&access) {
            return self.store_past_caches(value, storage.bytes, form, place);
        }
        let code = match (self.set, mask) {
            (InstructionSet::Avx512, _) if narrow => code::narrow(storage.bytes, form)?,
            (InstructionSet::Avx2, None) if narrow => {
                return self.store_packed(value, storage.bytes, place);
            }
            (InstructionSet::Avx2, Some(_)) if narrow => {
                return self.store_lanes(access, (value, ty), None, mask, u);
            }
            (InstructionSet::Avx2, Some(mask)) => {
                return self.store_masked(form, mask, place, value);
            }
            _ => code::STORE.of(form)?,
        };
        let sources = [(place, Size::R64), (Source::Register(value), form.size())];
        self.asm.effect(code, &sources, mask);
        Some(())
    }

    /// Stores all lanes contiguously, bypassing the caches.
    fn store_past_caches(
        &mut self,
        value: VReg,
        bytes: u32,
        form: Form,
        place: Source,
    ) -> Option<()> {
        let (value, form) = match (self.set, bytes) {
            (_, 4..) => (value, form),
            (InstructionSet::Avx512, _) => {
                let narrow = match (bytes, form) {
                    (2, Form::Full32) => Form::Half32,
                    _ => Form::Avx2Half32,
                };
                let register = self.asm.vector();
                let sources = [(Source::Register(value), form.size())];
                let code = code::narrow(bytes, form)?;
                self.asm
                    .op(code, out(register, narrow.size()), &sources, None);
                (register, narrow)
            }
            (InstructionSet::Avx2, _) => (self.packed(value, bytes, form)?, Form::Avx2Half32),
        };
        let sources = [(place, Size::R64), (Source::Register(value), form.size())];
        self.asm.effect(code::STREAM.of(form)?, &sources, None);
        Some(())
    }
}
