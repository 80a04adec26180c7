//! Inputs, constants, and uniform values (the same for all lanes).

use super::assembler::{Place, Source};
use super::features::InstructionSet;
use super::isel::{Select, out};
use super::opcodes as code;
use super::opcodes::{Form, Size};
use crate::simd::ir::{Condition, Conversion, Op, Type, V};
use iced_x86::Code;
use regalloc2::VReg;

impl Select<'_> {
    /// The number of lanes of a vector.
    pub(super) fn lanes(&self) -> i32 {
        self.lanes
    }

    pub(super) fn form(&self, ty: Type) -> Form {
        let fewer = self.lanes == self.set.lanes(true);
        self.set.form(ty.is_wide(), fewer)
    }

    /// An input as an integer.
    pub(super) fn word(&mut self, input: u32) -> VReg {
        if let Some(known) = self.words[input as usize] {
            return known;
        }
        let was = std::mem::replace(&mut self.asm.place, Place::Row);
        let word = self.asm.word(self.slots, 8 * input as i32);
        self.asm.place = was;
        self.words[input as usize] = Some(word);
        word
    }

    /// A constant in all lanes of a register.
    pub(super) fn splat_bits(&mut self, bits: u64, ty: Type) -> Option<VReg> {
        let form = self.form(ty);
        let source = match self.pooled(bits, ty) {
            Source::Pool { offset, .. } => Source::Pool {
                offset,
                broadcast: false,
            },
            other => other,
        };
        let was = self.asm.place;
        if was != Place::Here || !self.in_rare {
            self.asm.place = Place::Entry;
        }
        let result = self.apply(code::SPLAT.of(form)?, form, &[source], None);
        self.asm.place = was;
        Some(result)
    }

    /// A constant as a memory operand: one element, which AVX-512 broadcasts, or a whole vector.
    pub(super) fn pooled(&mut self, bits: u64, ty: Type) -> Source {
        let element = bits.to_le_bytes();
        let element = &element[..if ty.is_wide() { 8 } else { 4 }];
        match self.set {
            InstructionSet::Avx512 => Source::Pool {
                offset: self.asm.constant(element),
                broadcast: true,
            },
            InstructionSet::Avx2 => Source::Pool {
                offset: self
                    .asm
                    .constant(&element.repeat(self.set.vector_bytes() / element.len())),
                broadcast: false,
            },
        }
    }

    pub(super) fn splat_register(&mut self, register: VReg, form: Form) -> Option<VReg> {
        let (size, to_vector) = match form {
            Form::Full64 | Form::Avx2Full64 => (Size::R64, Code::VEX_Vmovq_xmm_rm64),
            _ => (Size::R32, Code::VEX_Vmovd_xmm_rm32),
        };
        let mut source = (Source::Register(register), size);
        if self.set == InstructionSet::Avx2 {
            let first = self.asm.vector();
            self.asm
                .op(to_vector, out(first, Size::Xmm), &[source], None);
            source = (Source::Register(first), Size::Xmm);
        }
        let result = self.asm.vector();
        let code = code::SPLAT_REGISTER.of(form)?;
        self.asm.op(code, out(result, form.size()), &[source], None);
        Some(result)
    }

    /// The constant bits of a value, also through bit casts.
    pub(super) fn constant_of(&self, v: V) -> Option<u64> {
        match self.body.op(v) {
            Op::Const(bits) if self.body.type_of(v) != Type::Mask => Some(bits),
            Op::Convert(Conversion::Bits, a) => self.constant_of(a),
            _ => None,
        }
    }

    /// A value as the last source operand of an instruction.
    pub(super) fn source(&mut self, v: V, u: usize) -> Option<Source> {
        match self.constant_of(v) {
            Some(bits) => Some(self.pooled(bits, self.body.type_of(v))),
            None => self.get(v, u).map(Source::Register),
        }
    }

    /// A value in a register.
    pub(super) fn get(&mut self, v: V, u: usize) -> Option<VReg> {
        let i = v.0 as usize;
        if let Some(&known) = self.copies[i].get(u) {
            return Some(known);
        }
        if self.in_rare
            && self.shared[i].is_none()
            && let Op::Const(bits) = self.body.op(v)
            && self.body.type_of(v) != Type::Mask
        {
            return self.splat_bits(bits, self.body.type_of(v));
        }
        if self.invariant[i] && self.shared[i].is_none() {
            let was = std::mem::replace(&mut self.asm.place, Place::Row);
            let tails = self.tails.take();
            let made = self.invariant_value(v);
            self.tails = tails;
            self.asm.place = was;
            self.shared[i] = Some(made?);
        }
        self.shared[i]
    }

    pub(super) fn invariant_value(&mut self, v: V) -> Option<VReg> {
        let ty = self.body.type_of(v);
        match self.body.op(v) {
            Op::Const(bits) if ty == Type::Mask => Some(self.constant_mask(bits != 0)),
            Op::Const(bits) => self.splat_bits(bits, ty),
            Op::Input(input) => {
                let form = self.form(ty);
                let word = self.word(input);
                let value = self.splat_register(word, form)?;
                if ty != Type::Mask {
                    return Some(value);
                }
                let zero = self.pooled(0, Type::I32);
                self.compared(Condition::NotEqual, Type::I32, value, zero)
            }
            _ => self.computed(v, 0),
        }
    }
}
