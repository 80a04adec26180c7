//! Comparisons, masks and selects.

use super::{Emitter, Parts, bytes_of, vector_type};
use crate::simd::ir::{Condition, Type, V};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use smallvec::smallvec;

impl Emitter<'_, '_> {
    pub(super) fn compare(&mut self, condition: Condition, a: V, b: V) -> Value {
        let ty = self.body.type_of(a);
        let (a, b) = (self.parts(a), self.parts(b));
        let masks: Parts = a
            .iter()
            .zip(&b)
            .map(|(&a, &b)| {
                if ty.is_float() {
                    let condition = match condition {
                        Condition::Equal => FloatCC::Equal,
                        Condition::NotEqual => FloatCC::NotEqual,
                        Condition::Less | Condition::LessUnsigned => FloatCC::LessThan,
                        Condition::LessEqual | Condition::LessEqualUnsigned => {
                            FloatCC::LessThanOrEqual
                        }
                        Condition::Unordered => FloatCC::Unordered,
                    };
                    self.builder.ins().fcmp(condition, a, b)
                } else {
                    self.compare_integers(condition, ty, a, b)
                }
            })
            .collect();
        self.narrow(&masks)
    }

    pub(super) fn compare_integers(
        &mut self,
        condition: Condition,
        ty: Type,
        a: Value,
        b: Value,
    ) -> Value {
        let signed = match condition {
            Condition::Equal => IntCC::Equal,
            Condition::NotEqual | Condition::Unordered => IntCC::NotEqual,
            Condition::Less | Condition::LessUnsigned => IntCC::SignedLessThan,
            Condition::LessEqual | Condition::LessEqualUnsigned => IntCC::SignedLessThanOrEqual,
        };
        let unsigned = matches!(
            condition,
            Condition::LessUnsigned | Condition::LessEqualUnsigned
        );
        if !unsigned {
            return self.builder.ins().icmp(signed, a, b);
        }
        let sign = 1u64 << if ty.is_wide() { 63 } else { 31 };
        let sign = self.constant(ty, sign)[0];
        let (a, b) = (
            self.builder.ins().bxor(a, sign),
            self.builder.ins().bxor(b, sign),
        );
        self.builder.ins().icmp(signed, a, b)
    }

    /// The low halves of 64-bit lanes.
    pub(super) fn narrow(&mut self, parts: &Parts) -> Value {
        let [low, high] = parts[..] else {
            return parts[0];
        };
        let bytes = bytes_of([0, 8, 16, 24], 4);
        let narrow = self.shuffle(low, high, bytes);
        self.bitcast(types::I32X4, narrow)
    }

    pub(super) fn widen_mask(&mut self, mask: Value, ty: Type) -> Parts {
        if !ty.is_wide() {
            return smallvec![mask];
        }
        smallvec![
            self.builder.ins().swiden_low(mask),
            self.builder.ins().swiden_high(mask)
        ]
    }

    pub(super) fn select(&mut self, mask: Value, ty: Type, a: &Parts, b: &Parts) -> Parts {
        let masks = self.widen_mask(mask, ty);
        (0..a.len())
            .map(|i| {
                let mask = self.bitcast(vector_type(ty), masks[i]);
                self.builder.ins().bitselect(mask, a[i], b[i])
            })
            .collect()
    }

    /// The conjunction of a mask and the run's end.
    pub(super) fn effective(&mut self, mask: Option<V>) -> Option<Value> {
        let mask = mask.map(|m| self.one(m));
        match (mask, self.tail) {
            (Some(a), Some(b)) => Some(self.builder.ins().band(a, b)),
            (a, b) => a.or(b),
        }
    }
}
