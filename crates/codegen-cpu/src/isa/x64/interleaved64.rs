//! Elements of 8 or 16 bytes as pairs of lanes of half the size: loads of one half, stores of both.

use super::assembler::{Out, Place, Source};
use super::features::InstructionSet;
use super::features::MASK;
use super::isel::{Pairs, Select, out};
use super::opcodes as code;
use super::opcodes::{Form, Size};
use crate::simd::ir::V;
use iced_x86::Code;
use regalloc2::VReg;
use smallvec::SmallVec;

impl Select<'_> {
    /// Whether pairs have 16 bytes.
    fn are_long(&self, access: u32) -> bool {
        self.body.accesses[access as usize].storage.bytes == 16
    }

    /// The memory operands of a vector's pairs: one for pairs of 32-bit halves beside 64-bit lanes,
    /// else two.
    fn pair_places(&mut self, access: u32, u: usize) -> SmallVec<[Source; 2]> {
        let is_long = self.are_long(access);
        let pair = if is_long { 16 } else { 8 };
        let index = match is_long {
            true => (self.asm.sum(self.lane, Some(self.lane), 0), 8),
            false => (self.lane, 8),
        };
        let first = self.lanes() * u as i32 * pair;
        let bytes = self.set.vector_bytes() as i32;
        let vectors = self.lanes() * pair / bytes;
        (0..vectors)
            .map(|i| Source::Memory {
                base: self.pointers[access as usize],
                index: Some(index),
                displacement: first + bytes * i,
            })
            .collect()
    }

    /// The masks of 64-bit words for these vectors.
    fn pair_masks(&mut self, access: u32, mask: Option<VReg>) -> [Option<VReg>; 2] {
        let Some(low) = mask else { return [None; 2] };
        if self.are_long(access) {
            return [0, 1].map(|vector| Some(self.doubled_mask(low, vector)));
        }
        if self.lanes() == self.set.lanes(true) {
            return [mask, None];
        }
        if self.set == InstructionSet::Avx2 {
            let high = self.upper(low);
            return [low, high].map(|half| Some(self.lower_as_wide(half)));
        }
        let high = self.asm.register(MASK);
        let target = out(high, Size::K);
        let source = [(Source::Register(low), Size::K)];
        self.asm
            .op(Code::VEX_Kshiftrw_kr_kr_imm8, target, &source, Some(8));
        [Some(low), Some(high)]
    }

    /// The mask of the words of one of two vectors of long pairs: each lane's bit twice.
    fn doubled_mask(&mut self, mask: VReg, vector: u32) -> VReg {
        if self.set == InstructionSet::Avx2 {
            let words = if vector == 0 { 0x50 } else { 0xfa };
            let source = (Source::Register(mask), Size::Ymm);
            return self.mask(Code::VEX_Vpermpd_ymm_ymmm256_imm8, &[source], Some(words));
        }
        let lanes = self.asm.vector();
        let source = [(Source::Register(mask), Size::K)];
        let target = out(lanes, Size::Zmm);
        let code = Code::EVEX_Vpmovm2q_zmm_kr;
        self.asm.op(code, target, &source, None);
        let first = 8 * vector;
        let selection = self.selection((0..16).map(|half| first + half / 4 * 2 + half % 2));
        let words = self.pick(selection, [lanes, lanes]);
        let source = (Source::Register(words), Size::Zmm);
        self.mask(Code::EVEX_Vpmovq2m_kr_zmm, &[source], None)
    }

    /// The index vector that selects 32-bit lanes of two vectors, the second's from 16 on.
    pub(super) fn selection(&mut self, lanes: impl Iterator<Item = u32>) -> VReg {
        let bytes: Vec<u8> = lanes.flat_map(u32::to_le_bytes).collect();
        let offset = self.asm.constant(&bytes);
        if let Some(&known) = self.selections.get(&offset) {
            return known;
        }
        let place = Source::Pool {
            offset,
            broadcast: false,
        };
        let result = self.asm.vector();
        let was = std::mem::replace(&mut self.asm.place, Place::Entry);
        let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
        self.asm
            .op(code, out(result, Size::Zmm), &[(place, Size::Zmm)], None);
        self.asm.place = was;
        self.selections.insert(offset, result);
        result
    }

    /// Selects 32-bit lanes of two vectors.
    pub(super) fn pick(&mut self, selection: VReg, from: [VReg; 2]) -> VReg {
        let result = self.asm.vector();
        let sources = from.map(|register| (Source::Register(register), Size::Zmm));
        let code = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
        self.asm
            .onto(code, out(result, Size::Zmm), selection, &sources, None);
        result
    }

    /// Every second 32-bit lane of two vectors, or every second pair of these, with AVX-512.
    fn half_of(&mut self, pairs: [VReg; 2], high: bool, is_long: bool) -> VReg {
        let first = u32::from(high);
        let selection = match is_long {
            true => self.selection((0..16).map(|lane| 2 * (lane / 2 * 2 + first) + lane % 2)),
            false => self.selection((0..16).map(|lane| 2 * lane + first)),
        };
        // With 8 lanes, only the lower half of the register is used.
        self.pick(selection, pairs)
    }

    /// Every second 32-bit lane of one vector or of two, with AVX2.
    fn half_of_narrow(&mut self, pairs: &[VReg], high: bool) -> Option<VReg> {
        // Lanes 0 and 2, or 1 and 3, of each 128 bits.
        let which = Some(if high { 0xdd } else { 0x88 });
        if let &[pairs] = pairs {
            let sources = [pairs, self.upper(pairs)].map(Source::Register);
            let code = Code::VEX_Vshufps_xmm_xmm_xmmm128_imm8;
            return Some(self.apply(code, Form::Avx2Half32, &sources, which));
        }
        let &[first, second] = pairs else { return None };
        let sources = [first, second].map(Source::Register);
        let code = Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8;
        let mixed = self.apply(code, Form::Avx2Full32, &sources, which);
        Some(self.middle_exchanged(mixed))
    }

    /// Exchanges the two 64-bit words in the middle of a vector, with AVX2.
    fn middle_exchanged(&mut self, words: VReg) -> VReg {
        let code = Code::VEX_Vpermpd_ymm_ymmm256_imm8;
        let source = Source::Register(words);
        self.apply(code, Form::Avx2Full64, &[source], Some(0xd8))
    }

    /// Every second 64-bit lane of two vectors, with AVX2.
    fn half_of_wide(&mut self, pairs: &[VReg], high: bool) -> Option<VReg> {
        let &[first, second] = pairs else { return None };
        let sources = [first, second].map(Source::Register);
        let code = match high {
            true => Code::VEX_Vunpckhpd_ymm_ymm_ymmm256,
            false => Code::VEX_Vunpcklpd_ymm_ymm_ymmm256,
        };
        let mixed = self.apply(code, Form::Avx2Full64, &sources, None);
        Some(self.middle_exchanged(mixed))
    }

    /// The vectors of pairs, which the load of the other half may have loaded already.
    fn loaded_pairs(
        &mut self,
        access: u32,
        lanes: Option<V>,
        u: usize,
    ) -> Option<SmallVec<[VReg; 2]>> {
        let same = |pairs: &Pairs| (pairs.access, pairs.mask) == (access, lanes);
        if let Some(known) = self.pairs.as_ref().filter(|p| same(p))
            && let Some(pairs) = known.vectors.get(u)
        {
            return Some(pairs.clone());
        }
        let mask = self.effective(lanes, u)?;
        let masks = self.pair_masks(access, mask);
        let form = self.set.form(true, true);
        let mut pairs: SmallVec<[VReg; 2]> = SmallVec::new();
        for (place, mask) in self.pair_places(access, u).into_iter().zip(masks) {
            pairs.push(match (self.set, mask) {
                (InstructionSet::Avx2, Some(mask)) => self.load_masked(form, mask, place)?,
                _ => {
                    let register = self.asm.vector();
                    let target = Out {
                        register,
                        size: form.size(),
                        mask: mask.map(|mask| (mask, true)),
                    };
                    let code = code::LOAD.of(form)?;
                    self.asm.op(code, target, &[(place, Size::R64)], None);
                    register
                }
            });
        }
        match self.pairs.as_mut().filter(|p| same(p)) {
            Some(known) => known.vectors.push(pairs.clone()),
            None => {
                self.pairs = Some(Pairs {
                    access,
                    mask: lanes,
                    vectors: vec![pairs.clone()],
                });
            }
        }
        Some(pairs)
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
        let pairs = self.loaded_pairs(access, mask, u)?;
        let is_long = self.are_long(access);
        match self.set {
            InstructionSet::Avx512 => {
                let (first, second) = (*pairs.first()?, *pairs.last()?);
                Some(self.half_of([first, second], high, is_long))
            }
            InstructionSet::Avx2 if is_long => self.half_of_wide(&pairs, high),
            InstructionSet::Avx2 => self.half_of_narrow(&pairs, high),
        }
    }

    /// Interleaves two vectors' lanes to vectors of pairs, with AVX2.
    fn interleaved(&mut self, halves: [VReg; 2], is_long: bool) -> [VReg; 2] {
        let sources = halves.map(Source::Register);
        if self.lanes() == 4 && !is_long {
            let [low, high] = [
                Code::VEX_Vunpcklps_xmm_xmm_xmmm128,
                Code::VEX_Vunpckhps_xmm_xmm_xmmm128,
            ]
            .map(|code| self.apply(code, Form::Avx2Half32, &sources, None));
            let both = self.asm.vector();
            let sources = [
                (Source::Register(low), Size::Ymm),
                (Source::Register(high), Size::Xmm),
            ];
            let code = Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8;
            self.asm.op(code, out(both, Size::Ymm), &sources, Some(1));
            return [both; 2];
        }
        let codes = match is_long {
            true => [
                Code::VEX_Vunpcklpd_ymm_ymm_ymmm256,
                Code::VEX_Vunpckhpd_ymm_ymm_ymmm256,
            ],
            false => [
                Code::VEX_Vunpcklps_ymm_ymm_ymmm256,
                Code::VEX_Vunpckhps_ymm_ymm_ymmm256,
            ],
        };
        let parts =
            codes.map(|code| Source::Register(self.apply(code, Form::Avx2Full32, &sources, None)));
        // The lower 128 bits of both, then the upper ones.
        [0x20, 0x31].map(|which| {
            let code = Code::VEX_Vperm2f128_ymm_ymm_ymmm256_imm8;
            self.apply(code, Form::Avx2Full32, &parts, Some(which))
        })
    }

    pub(super) fn store_pair(
        &mut self,
        access: u32,
        halves: [V; 2],
        mask: Option<V>,
        u: usize,
    ) -> Option<()> {
        let mask = self.effective(mask, u)?;
        let masks = self.pair_masks(access, mask);
        let is_long = self.are_long(access);
        let halves = [self.get(halves[0], u)?, self.get(halves[1], u)?];
        let pairs = match self.set {
            InstructionSet::Avx512 => None,
            InstructionSet::Avx2 => Some(self.interleaved(halves, is_long)),
        };
        let form = self.set.form(true, true);
        for (i, (place, mask)) in self
            .pair_places(access, u)
            .into_iter()
            .zip(masks)
            .enumerate()
        {
            let pairs = match pairs {
                Some(pairs) => pairs[i],
                None => {
                    let first = 8 * i as u32;
                    let selection = match is_long {
                        true => self.selection((0..16).map(|half| {
                            let word = half / 2;
                            first + word / 2 * 2 + half % 2 + 16 * (word % 2)
                        })),
                        false => {
                            self.selection((0..16).map(|lane| first + lane / 2 + 16 * (lane % 2)))
                        }
                    };
                    self.pick(selection, halves)
                }
            };
            if let (InstructionSet::Avx2, Some(mask)) = (self.set, mask) {
                self.store_masked(form, mask, place, pairs)?;
                continue;
            }
            let sources = [(place, Size::R64), (Source::Register(pairs), form.size())];
            self.asm.effect(code::STORE.of(form)?, &sources, mask);
        }
        Some(())
    }
}
