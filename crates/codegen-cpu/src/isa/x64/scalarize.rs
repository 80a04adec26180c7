//! Scalarisation: accesses memory lane by lane where AVX2 has no instruction (narrow elements under
//! a mask; scatters, and gathers of narrow elements).
//!
//! The code has no branches: a lane that is masked out loads zeros stored among the constants, or
//! stores to the slot of the first input, which was read before.

use super::assembler::{Assembler, Out, Source};
use super::features::INTEGER;
use super::isel::{Select, out};
use super::opcodes::{Form, Size};
use crate::simd::ir::{Type, V};
use iced_x86::Code;
use regalloc2::VReg;

/// A general register as a result.
fn integer(asm: &mut Assembler, size: Size) -> Out {
    out(asm.register(INTEGER), size)
}

/// The memory operand at an address.
fn at(address: VReg) -> Source {
    Source::Memory {
        base: address,
        index: None,
        displacement: 0,
    }
}

/// A register as a source.
fn register(register: VReg, size: Size) -> (Source, Size) {
    (Source::Register(register), size)
}

impl Select<'_> {
    /// The address of zeros that inactive lanes load.
    fn zeros(&mut self) -> VReg {
        let source = Source::Pool {
            offset: self.asm.constant(&[0; 8]),
            broadcast: false,
        };
        self.asm.address(source)
    }

    /// A mask as bits of a general register.
    fn bits_of_mask(&mut self, mask: VReg) -> VReg {
        let bits = integer(&mut self.asm, Size::R32);
        let code = match self.lanes() {
            4 => Code::VEX_Vmovmskpd_r32_ymm,
            _ => Code::VEX_Vmovmskps_r32_ymm,
        };
        self.asm.op(code, bits, &[register(mask, Size::Ymm)], None);
        bits.register
    }

    /// The address of a lane, or another one if its bit is not set.
    fn guarded(&mut self, address: VReg, lane: i32, guard: Option<(VReg, VReg)>) -> VReg {
        let Some((bits, other)) = guard else {
            return address;
        };
        let bits = register(bits, Size::R32);
        self.asm.effect_by(Code::Bt_rm32_imm8, &[bits], lane);
        let chosen = integer(&mut self.asm, Size::R64);
        let other = register(other, Size::R64);
        self.asm
            .onto(Code::Cmovae_r64_rm64, chosen, address, &[other], None);
        chosen.register
    }

    /// The addresses of a vector's lanes, contiguous or by index; `other` for inactive lanes.
    fn lane_addresses(
        &mut self,
        access: u32,
        index: Option<V>,
        guard: Option<(VReg, VReg)>,
        u: usize,
    ) -> Option<Vec<VReg>> {
        let lanes = self.lanes();
        let bytes = self.body.accesses[access as usize].storage.bytes;
        let base = self.pointers[access as usize];
        let place = self.place(access, u);
        let index = match index {
            Some(index) => {
                let low = self.get(index, u)?;
                let high = if lanes > 4 { self.upper(low) } else { low };
                Some([low, high])
            }
            None => None,
        };
        let mut addresses = Vec::new();
        for lane in 0..lanes {
            let address = match (index, place) {
                (Some(parts), _) => {
                    let (part, lane) = (parts[(lane / 4) as usize], lane % 4);
                    let number = integer(&mut self.asm, Size::R32);
                    // The destination is a general register, so it comes first.
                    let source = register(part, Size::Xmm);
                    self.asm.op(
                        Code::VEX_Vpextrd_rm32_xmm_imm8,
                        number,
                        &[source],
                        Some(lane),
                    );
                    let wide = integer(&mut self.asm, Size::R64);
                    let source = register(number.register, Size::R32);
                    self.asm.op(Code::Movsxd_r64_rm32, wide, &[source], None);
                    self.asm.address(Source::Memory {
                        base,
                        index: Some((wide.register, bytes)),
                        displacement: 0,
                    })
                }
                (
                    None,
                    Source::Memory {
                        base,
                        index,
                        displacement,
                    },
                ) => self.asm.address(Source::Memory {
                    base,
                    index,
                    displacement: displacement + lane * bytes as i32,
                }),
                (None, _) => return None,
            };
            addresses.push(self.guarded(address, lane, guard));
        }
        Some(addresses)
    }

    /// Loads narrow elements, lane by lane, to 32-bit lanes.
    pub(super) fn load_narrow_lanes(
        &mut self,
        access: u32,
        index: Option<V>,
        mask: Option<VReg>,
        u: usize,
    ) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        let guard = mask.map(|mask| (self.bits_of_mask(mask), self.zeros()));
        let addresses = self.lane_addresses(access, index, guard, u)?;
        let code = match storage.bytes {
            1 => Code::VEX_Vpinsrb_xmm_xmm_r32m8_imm8,
            _ => Code::VEX_Vpinsrw_xmm_xmm_r32m16_imm8,
        };
        let form = self.form(Type::I32);
        let mut narrow = self.splat_bits(0, Type::I32)?;
        for (lane, &address) in addresses.iter().enumerate() {
            let next = self.asm.vector();
            let sources = [register(narrow, Size::Xmm), (at(address), Size::R64)];
            self.asm
                .op(code, out(next, Size::Xmm), &sources, Some(lane as i32));
            narrow = next;
        }
        self.widened(storage, form, (narrow, Size::Xmm))
    }

    /// Loads one element into all active lanes; inactive ones are 0.
    pub(super) fn load_splat_masked(
        &mut self,
        access: u32,
        ty: Type,
        from: Source,
        mask: VReg,
    ) -> Option<VReg> {
        let (bits, zeros) = (self.bits_of_mask(mask), self.zeros());
        let address = self.asm.address(from);
        let sources = [register(bits, Size::R32); 2];
        self.asm.effect(Code::Test_rm32_r32, &sources, None);
        let chosen = integer(&mut self.asm, Size::R64);
        let other = register(zeros, Size::R64);
        self.asm
            .onto(Code::Cmove_r64_rm64, chosen, address, &[other], None);
        let value = self.load_splat(access, ty, at(chosen.register))?;
        let form = self.form(ty);
        let mask = self.lanes_of_mask(form, mask);
        let (code, size) = match form {
            Form::Avx2Half32 => (Code::VEX_Vandps_xmm_xmm_xmmm128, Size::Xmm),
            _ => (Code::VEX_Vandps_ymm_ymm_ymmm256, Size::Ymm),
        };
        let result = self.asm.vector();
        let sources = [value, mask].map(|r| register(r, size));
        self.asm.op(code, out(result, size), &sources, None);
        Some(result)
    }

    /// Stores lanes one by one, in their order.
    pub(super) fn store_lanes(
        &mut self,
        access: u32,
        (value, ty): (VReg, Type),
        index: Option<V>,
        mask: Option<VReg>,
        u: usize,
    ) -> Option<()> {
        let bytes = self.body.accesses[access as usize].storage.bytes;
        let guard = mask.map(|mask| (self.bits_of_mask(mask), self.slots));
        let addresses = self.lane_addresses(access, index, guard, u)?;
        // The lanes of 128 bits, and the elements of the stored size in a lane.
        let (lanes, parts) = match ty.is_wide() {
            true => (2, 8 / bytes),
            false => (4, 4 / bytes),
        };
        let code = match bytes {
            1 => Code::VEX_Vpextrb_r32m8_xmm_imm8,
            2 => Code::VEX_Vpextrw_r32m16_xmm_imm8,
            4 => Code::VEX_Vpextrd_rm32_xmm_imm8,
            _ => Code::VEX_Vpextrq_rm64_xmm_imm8,
        };
        let high = if addresses.len() > lanes {
            self.upper(value)
        } else {
            value
        };
        for (lane, &address) in addresses.iter().enumerate() {
            let part = if lane < lanes { value } else { high };
            let sources = [(at(address), Size::R64), register(part, Size::Xmm)];
            let element = (lane % lanes) as i32 * parts as i32;
            self.asm.effect_by(code, &sources, element);
        }
        Some(())
    }

    /// Packs the low bytes of all 32-bit lanes in the lower part of a register.
    pub(super) fn packed(&mut self, value: VReg, bytes: u32, form: Form) -> Option<VReg> {
        let lane = |i: u8| (0..bytes as u8).map(move |b| 4 * i + b);
        // Those of each 128 bits at its start.
        let mut control: Vec<u8> = (0..4).flat_map(lane).collect();
        control.resize(16, 0x80);
        let half = control.clone();
        control.extend(half);
        let control = Source::Pool {
            offset: self.asm.constant(&control),
            broadcast: false,
        };
        let code = match form {
            Form::Avx2Half32 => Code::VEX_Vpshufb_xmm_xmm_xmmm128,
            _ => Code::VEX_Vpshufb_ymm_ymm_ymmm256,
        };
        let halves = self.apply(code, form, &[Source::Register(value), control], None);
        if form == Form::Avx2Half32 {
            return Some(halves);
        }
        let high = self.upper(halves);
        let code = match bytes {
            1 => Code::VEX_Vunpcklps_xmm_xmm_xmmm128,
            _ => Code::VEX_Vpunpcklqdq_xmm_xmm_xmmm128,
        };
        let sources = [halves, high].map(Source::Register);
        Some(self.apply(code, Form::Avx2Half32, &sources, None))
    }

    /// Stores narrow elements of all lanes contiguously.
    pub(super) fn store_packed(&mut self, value: VReg, bytes: u32, place: Source) -> Option<()> {
        let form = self.form(Type::I32);
        let packed = self.packed(value, bytes, form)?;
        let code = match bytes * self.lanes() as u32 {
            4 => Code::VEX_Vmovd_rm32_xmm,
            8 => Code::VEX_Vmovq_xmmm64_xmm,
            _ => Code::VEX_Vmovups_xmmm128_xmm,
        };
        let sources = [(place, Size::R64), register(packed, Size::Xmm)];
        self.asm.effect(code, &sources, None);
        Some(())
    }
}
