//! Loads and stores of lanes.

use super::assembler::{Out, Source};
use super::opcodes::{self as code, Form, Size};
use super::select::{Select, out};
use crate::vector::body::{Type, V};
use iced_x86::Code;
use regalloc2::VReg;

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
}
