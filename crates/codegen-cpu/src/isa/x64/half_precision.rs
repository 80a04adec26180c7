//! IEEE 754 binary16, with the instructions that convert vectors of it (F16C, AVX-512).

use super::assembler::Source;
use super::isel::{Select, out};
use super::opcodes::{Form, Size};
use crate::simd::ir::Type;
use iced_x86::Code;
use regalloc2::VReg;

/// The rounding mode of the conversion: to nearest, ties to even.
const NEAREST: i32 = 0;

/// The instructions for one form of 32-bit lanes.
struct Instructions {
    /// The sizes of vectors of 32-bit lanes, and of the same number of 16-bit lanes.
    sizes: [Size; 2],
    /// Conversions from 16 bits to `f32`, and back.
    widen: Code,
    narrow: Code,
    /// Zero-extends 16-bit words to lanes.
    extend: Code,
}

fn instructions(form: Form) -> Instructions {
    match form {
        Form::Full32 | Form::Full64 => Instructions {
            sizes: [Size::Zmm, Size::Ymm],
            widen: Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae,
            narrow: Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae,
            extend: Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256,
        },
        Form::Half32 => Instructions {
            sizes: [Size::Ymm, Size::Xmm],
            widen: Code::EVEX_Vcvtph2ps_ymm_k1z_xmmm128,
            narrow: Code::EVEX_Vcvtps2ph_xmmm128_k1z_ymm_imm8,
            extend: Code::EVEX_Vpmovzxwd_ymm_k1z_xmmm128,
        },
        Form::Avx2Full32 | Form::Avx2Full64 => Instructions {
            sizes: [Size::Ymm, Size::Xmm],
            widen: Code::VEX_Vcvtph2ps_ymm_xmmm128,
            narrow: Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8,
            extend: Code::VEX_Vpmovzxwd_ymm_xmmm128,
        },
        Form::Avx2Half32 => Instructions {
            sizes: [Size::Xmm, Size::Xmm],
            widen: Code::VEX_Vcvtph2ps_xmm_xmmm64,
            narrow: Code::VEX_Vcvtps2ph_xmmm64_xmm_imm8,
            extend: Code::VEX_Vpmovzxwd_xmm_xmmm64,
        },
    }
}

impl Select<'_> {
    fn half_instructions(&self) -> Instructions {
        instructions(self.form(Type::F32))
    }

    /// An instruction whose result has another size than its operand.
    fn resized(
        &mut self,
        code: Code,
        (from, a): (Size, VReg),
        to: Size,
        immediate: Option<i32>,
    ) -> VReg {
        let result = self.asm.vector();
        let source = (Source::Register(a), from);
        self.asm.op(code, out(result, to), &[source], immediate);
        result
    }

    /// Packs the low halves of lanes.
    pub(super) fn packed_words(&mut self, a: VReg) -> VReg {
        let form = self.form(Type::F32);
        let [lanes, words] = self.half_instructions().sizes;
        match form {
            Form::Full32 | Form::Full64 => {
                self.resized(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, (lanes, a), words, None)
            }
            Form::Half32 => {
                self.resized(Code::EVEX_Vpmovdw_xmmm128_k1z_ymm, (lanes, a), words, None)
            }
            Form::Avx2Full32 | Form::Avx2Full64 => {
                // The instruction packs each half of 128 bits separately: the results are 64-bit
                // words 0 and 2.
                let sources = [Source::Register(a); 2];
                let packed = self.apply(Code::VEX_Vpackusdw_ymm_ymm_ymmm256, form, &sources, None);
                let code = Code::VEX_Vpermq_ymm_ymmm256_imm8;
                self.resized(code, (lanes, packed), lanes, Some(0b1000))
            }
            Form::Avx2Half32 => {
                let sources = [Source::Register(a); 2];
                self.apply(Code::VEX_Vpackusdw_xmm_xmm_xmmm128, form, &sources, None)
            }
        }
    }

    /// Zero-extends packed words to the lanes of a vector.
    pub(super) fn extended_words(&mut self, packed: VReg) -> VReg {
        let known = self.half_instructions();
        let [lanes, words] = known.sizes;
        self.resized(known.extend, (words, packed), lanes, None)
    }

    /// Converts packed binary16 to `f32`.
    pub(super) fn half_to_f32(&mut self, packed: VReg) -> VReg {
        let known = self.half_instructions();
        let [lanes, words] = known.sizes;
        self.resized(known.widen, (words, packed), lanes, None)
    }

    /// Rounds to the nearest binary16 numbers and packs their bits.
    pub(super) fn f32_to_half(&mut self, a: VReg) -> VReg {
        let known = self.half_instructions();
        let [lanes, words] = known.sizes;
        self.resized(known.narrow, (lanes, a), words, Some(NEAREST))
    }
}
