//! Conversions, and single lanes of vectors.

use super::half_precision::Binary16;
use super::{Emitter, LANES, Parts, bytes_of, scalar_type, vector_type};
use crate::simd::ir::{Conversion, Type};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use smallvec::smallvec;

impl Emitter<'_, '_> {
    pub(super) fn convert(
        &mut self,
        conversion: Conversion,
        from: Type,
        to: Type,
        a: &Parts,
    ) -> Parts {
        match (conversion, from, to) {
            (Conversion::Bits, ..) => a
                .iter()
                .map(|&a| self.bitcast(vector_type(to), a))
                .collect(),
            (Conversion::Truncate, Type::F32, Type::I32) => {
                smallvec![self.builder.ins().fcvt_to_sint_sat(types::I32X4, a[0])]
            }
            (Conversion::FromSigned, Type::I32, Type::F32) => {
                smallvec![self.builder.ins().fcvt_from_sint(types::F32X4, a[0])]
            }
            (Conversion::FromUnsigned, Type::I32, Type::F32) => {
                smallvec![self.builder.ins().fcvt_from_uint(types::F32X4, a[0])]
            }
            (Conversion::Float, Type::F32, _) => {
                let low = self.builder.ins().fvpromote_low(a[0]);
                let upper = self.shuffle(a[0], a[0], bytes_of([8, 12, 8, 12], 4));
                let upper = self.bitcast(types::F32X4, upper);
                smallvec![low, self.builder.ins().fvpromote_low(upper)]
            }
            (Conversion::Float, ..) => {
                let (low, high) = (
                    self.builder.ins().fvdemote(a[0]),
                    self.builder.ins().fvdemote(a[1]),
                );
                let both = self.shuffle(low, high, bytes_of([0, 4, 16, 20], 4));
                smallvec![self.bitcast(types::F32X4, both)]
            }
            (Conversion::ExtendSigned, ..) => smallvec![
                self.builder.ins().swiden_low(a[0]),
                self.builder.ins().swiden_high(a[0])
            ],
            (Conversion::ExtendUnsigned, ..) => smallvec![
                self.builder.ins().uwiden_low(a[0]),
                self.builder.ins().uwiden_high(a[0])
            ],
            (Conversion::Low, ..) => smallvec![self.narrow(a)],
            (Conversion::FromHalf, ..) => {
                smallvec![Binary16::of_lanes(self.builder).half_to_f32(a[0])]
            }
            (Conversion::RoundHalf, ..) => {
                smallvec![Binary16::of_lanes(self.builder).rounded_to_half(a[0])]
            }
            (Conversion::ToHalf, ..) => {
                let mut halves = Binary16::of_lanes(self.builder);
                let number = halves.rounded_to_half(a[0]);
                smallvec![halves.half_bits(number)]
            }
            _ if self.machine.converts_wide && from.is_wide() && to.is_wide() => {
                let ty = vector_type(to);
                let convert = |&a: &Value| match conversion {
                    Conversion::FromSigned => self.builder.ins().fcvt_from_sint(ty, a),
                    Conversion::FromUnsigned => self.builder.ins().fcvt_from_uint(ty, a),
                    _ => self.builder.ins().fcvt_to_sint_sat(ty, a),
                };
                a.iter().map(convert).collect()
            }
            _ => self.convert_lanes(conversion, from, to, a),
        }
    }

    /// Conversions without a vector instruction, lane by lane.
    pub(super) fn convert_lanes(
        &mut self,
        conversion: Conversion,
        from: Type,
        to: Type,
        a: &Parts,
    ) -> Parts {
        let mut out = self.constant(to, 0);
        let scalar = scalar_type(to);
        for lane in 0..LANES as u8 {
            let x = self.lane_of(from, a, lane);
            let y = match conversion {
                Conversion::FromSigned => self.builder.ins().fcvt_from_sint(scalar, x),
                Conversion::FromUnsigned => self.builder.ins().fcvt_from_uint(scalar, x),
                _ => self.builder.ins().fcvt_to_sint_sat(scalar, x),
            };
            self.set_lane(to, &mut out, lane, y);
        }
        out
    }

    pub(super) fn place(ty: Type, lane: u8) -> (usize, u8) {
        if ty.is_wide() {
            (usize::from(lane / 2), lane % 2)
        } else {
            (0, lane)
        }
    }

    pub(super) fn lane_of(&mut self, ty: Type, parts: &Parts, lane: u8) -> Value {
        let (part, lane) = Self::place(ty, lane);
        self.builder.ins().extractlane(parts[part], lane)
    }

    pub(super) fn set_lane(&mut self, ty: Type, parts: &mut Parts, lane: u8, value: Value) {
        let (part, lane) = Self::place(ty, lane);
        parts[part] = self.builder.ins().insertlane(parts[part], value, lane);
    }
}
