//! Loads and stores of lanes.

use super::assembler::{Out, Source};
use super::machine::MASK;
use super::opcodes::{self as code, Form, Size};
use super::select::{Select, out};
use crate::vector::body::{Type, V};
use iced_x86::Code;
use regalloc2::VReg;
use smallvec::SmallVec;

impl Select<'_> {
    pub(super) fn load(
        &mut self,
        access: u32,
        ty: Type,
        mask: Option<V>,
        u: usize,
    ) -> Option<VReg> {
        let a = self.body.accesses[access as usize];
        let form = self.form(ty);
        let from = self.place(access, u);
        let result = self.asm.vector();
        if a.splat {
            // All lanes of a run load it, unless a mask of the body says not.
            let mask = match mask {
                Some(mask) => self.effective(Some(mask), u)?,
                None => None,
            };
            let mask = mask.map(|m| (m, true));
            return self.load_splat(access, form, (from, result), mask);
        }
        let mask = self.effective(mask, u)?.map(|m| (m, true));
        let target = Out {
            register: result,
            size: form.size(),
            mask,
        };
        let code = match a.storage.bytes {
            1 | 2 => code::widen(a.storage.bytes, a.storage.signed, form),
            _ => code::LOAD[form as usize],
        };
        self.asm.op(code, target, &[(from, Size::R64)], None);
        Some(result)
    }

    fn load_splat(
        &mut self,
        access: u32,
        form: Form,
        (from, result): (Source, VReg),
        mask: Option<(VReg, bool)>,
    ) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        if storage.bytes >= 4 {
            let target = Out {
                register: result,
                size: form.size(),
                mask,
            };
            let code = code::SPLAT[form as usize];
            self.asm.op(code, target, &[(from, Size::R64)], None);
            return Some(result);
        }
        // As many narrow elements as there are lanes, then widened.
        let (code, size) = match (storage.bytes, form) {
            (1, _) => (Code::EVEX_Vpbroadcastb_xmm_k1z_xmmm8, Size::Xmm),
            (_, Form::Half32) => (Code::EVEX_Vpbroadcastw_xmm_k1z_xmmm16, Size::Xmm),
            (_, _) => (Code::EVEX_Vpbroadcastw_ymm_k1z_xmmm16, Size::Ymm),
        };
        let narrow = self.asm.vector();
        let target = Out {
            register: narrow,
            size,
            mask,
        };
        self.asm.op(code, target, &[(from, Size::R64)], None);
        let code = code::widen(storage.bytes, storage.signed, form);
        self.asm.op(
            code,
            out(result, form.size()),
            &[(Source::Register(narrow), size)],
            None,
        );
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
        if storage.bytes < 4 {
            return None;
        }
        let form = self.form(ty);
        let mask = match self.effective(mask, u)? {
            Some(mask) => mask,
            None => self.all_lanes(),
        };
        let zero = self.splat_bits(0, ty);
        let index = self.get(index, u)?;
        let (code, index_size) = code::gather(form);
        let result = self.asm.vector();
        let base = self.pointers[access as usize];
        let place = (base, index, index_size, storage.bytes);
        self.asm
            .gather(code, (result, form.size()), zero, mask, place);
        Some(result)
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
        let form = self.form(self.body.type_of(value));
        let value = self.get(value, u)?;
        let mask = self.effective(mask, u)?;
        if let Some(index) = index {
            if storage.bytes < 4 {
                return None;
            }
            let mask = match mask {
                Some(mask) => mask,
                None => self.all_lanes(),
            };
            let index = self.get(index, u)?;
            let (code, index_size) = code::scatter(form);
            let base = self.pointers[access as usize];
            let place = (base, index, index_size, storage.bytes);
            self.asm.scatter(code, (value, form.size()), mask, place);
            return Some(());
        }
        let code = match storage.bytes {
            1 | 2 => code::narrow(storage.bytes, form),
            _ => code::STORE[form as usize],
        };
        let place = self.place(access, u);
        let sources = [(place, Size::R64), (Source::Register(value), form.size())];
        self.asm.effect(code, &sources, mask);
        Some(())
    }

    // ---- pairs ------------------------------------------------------------------

    /// The places of a run of pairs: of 8 lanes one vector, of 16 two.
    fn pair_places(&self, access: u32, u: usize) -> SmallVec<[Source; 2]> {
        let Source::Memory {
            base,
            index,
            displacement,
        } = self.place(access, u)
        else {
            return SmallVec::new();
        };
        let vectors = self.lanes() / 8;
        (0..vectors)
            .map(|i| Source::Memory {
                base,
                index,
                displacement: displacement + 64 * i,
            })
            .collect()
    }

    /// The masks of those vectors.
    fn pair_masks(&mut self, mask: Option<VReg>) -> [Option<VReg>; 2] {
        let Some(low) = mask else { return [None; 2] };
        if self.lanes() == 8 {
            return [mask, None];
        }
        let high = self.asm.register(MASK);
        let target = out(high, Size::K);
        let source = [(Source::Register(low), Size::K)];
        self.asm
            .op(Code::VEX_Kshiftrw_kr_kr_imm8, target, &source, Some(8));
        [Some(low), Some(high)]
    }

    /// Which 32-bit lanes of two vectors, the second's from 16 on.
    fn selection(&mut self, lanes: impl Iterator<Item = u32>) -> VReg {
        let bytes: Vec<u8> = lanes.flat_map(u32::to_le_bytes).collect();
        let offset = self.asm.constant(&bytes);
        let place = Source::Pool {
            offset,
            broadcast: false,
        };
        let result = self.asm.vector();
        let was = std::mem::replace(&mut self.asm.hoisting, true);
        let code = code::LOAD[Form::Full32 as usize];
        self.asm
            .op(code, out(result, Size::Zmm), &[(place, Size::Zmm)], None);
        self.asm.hoisting = was;
        result
    }

    /// 32-bit lanes of two vectors.
    fn pick(&mut self, selection: VReg, from: [VReg; 2]) -> VReg {
        let result = self.asm.vector();
        let sources = from.map(|register| (Source::Register(register), Size::Zmm));
        let code = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
        self.asm
            .onto(code, out(result, Size::Zmm), selection, &sources, None);
        result
    }

    pub(super) fn load_half(
        &mut self,
        access: u32,
        high: bool,
        mask: Option<V>,
        u: usize,
    ) -> Option<VReg> {
        if self.body.accesses[access as usize].splat {
            return None;
        }
        let mask = self.effective(mask, u)?;
        let masks = self.pair_masks(mask);
        let mut pairs: SmallVec<[VReg; 2]> = SmallVec::new();
        for (place, mask) in self.pair_places(access, u).into_iter().zip(masks) {
            let register = self.asm.vector();
            let target = Out {
                register,
                size: Size::Zmm,
                mask: mask.map(|mask| (mask, true)),
            };
            let code = code::LOAD[Form::Full64 as usize];
            self.asm.op(code, target, &[(place, Size::R64)], None);
            pairs.push(register);
        }
        let first = u32::from(high);
        let selection = self.selection((0..16).map(|lane| 2 * lane + first));
        // Of 8 lanes the lower half of the register counts.
        let second = *pairs.last()?;
        Some(self.pick(selection, [*pairs.first()?, second]))
    }

    pub(super) fn store_pair(
        &mut self,
        access: u32,
        halves: [V; 2],
        mask: Option<V>,
        u: usize,
    ) -> Option<()> {
        let mask = self.effective(mask, u)?;
        let masks = self.pair_masks(mask);
        let halves = [self.get(halves[0], u)?, self.get(halves[1], u)?];
        for (i, (place, mask)) in self
            .pair_places(access, u)
            .into_iter()
            .zip(masks)
            .enumerate()
        {
            let first = 8 * i as u32;
            let lanes = (0..16).map(|lane| first + lane / 2 + 16 * (lane % 2));
            let selection = self.selection(lanes);
            let pairs = self.pick(selection, halves);
            let sources = [(place, Size::R64), (Source::Register(pairs), Size::Zmm)];
            self.asm
                .effect(code::STORE[Form::Full64 as usize], &sources, mask);
        }
        Some(())
    }
}
