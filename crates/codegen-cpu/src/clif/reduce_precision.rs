//! `reduce-precision` of one f32 or f64, on its bits.

use super::lower::{Lower, Values};
use crate::vectorize::elementwise::Rounding;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use smallvec::smallvec;
use tegula_ir::ElementType;

impl Lower<'_, '_> {
    /// Rounds a number to a format with this many bits; `None` for other types.
    pub(crate) fn reduce_precision(
        &mut self,
        from: ElementType,
        [exponent_bits, mantissa_bits]: [u32; 2],
        x: Value,
    ) -> Option<Values> {
        let ty = match from {
            ElementType::F32 => types::I32,
            ElementType::F64 => types::I64,
            _ => return None,
        };
        let rounding = Rounding::new(from.float_format()?, exponent_bits, mantissa_bits);
        let float = self.builder.func.dfg.value_type(x);
        let bits = self.builder.ins().bitcast(ty, MemFlagsData::new(), x);
        let magnitude = self.integer(ty, rounding.magnitude);
        let mut size = self.builder.ins().band(bits, magnitude);
        let sign = self.builder.ins().bxor(bits, size);
        if let Some(dropped) = rounding.dropped {
            let amount = self.integer(ty, dropped);
            let last = self.builder.ins().ushr(size, amount);
            let one = self.integer(ty, 1);
            let last = self.builder.ins().band(last, one);
            let below_half = self.integer(ty, (1 << (dropped - 1)) - 1);
            let mask = self.integer(ty, -1 << dropped);
            let raised = self.builder.ins().iadd(size, below_half);
            let raised = self.builder.ins().iadd(raised, last);
            size = self.builder.ins().band(raised, mask);
        }
        if let Some(bounds) = rounding.bounds {
            let [least, most] = bounds.map(|bound| self.integer(ty, bound));
            let [zero, infinity] = [0, rounding.infinity].map(|n| self.integer(ty, n));
            let below = IntCC::SignedLessThan;
            let is_small = self.builder.ins().icmp(below, size, least);
            let fits = self.builder.ins().icmp(below, size, most);
            size = self.builder.ins().select(is_small, zero, size);
            size = self.builder.ins().select(fits, size, infinity);
        }
        let rounded = self.builder.ins().bor(sign, size);
        let rounded = self
            .builder
            .ins()
            .bitcast(float, MemFlagsData::new(), rounded);
        let is_number = self.builder.ins().fcmp(FloatCC::Equal, x, x);
        Some(smallvec![self.builder.ins().select(is_number, rounded, x)])
    }
}
