//! Arithmetic on vectors.

use super::vector_bits::{reinterpreted, shuffled};
use super::{Emitter, Parts, vector_type};
use crate::error::Error;
use crate::simd::ir::{BinaryOp, Condition, Fused, QUIET, Type, UnaryOp};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, Value, types};

impl Emitter<'_, '_> {
    pub(super) fn bitcast(&mut self, to: ir::Type, value: Value) -> Value {
        reinterpreted(self.builder, to, value)
    }

    /// Selects bytes of two vectors: 0 to 15 are the first's, 16 to 31 the second's.
    pub(super) fn shuffle(&mut self, a: Value, b: Value, bytes: [u8; 16]) -> Value {
        let vectors = [a, b].map(|v| self.bitcast(types::I8X16, v));
        shuffled(self.builder, vectors, bytes)
    }

    /// A product and a sum or difference, rounded once if the machine supports that.
    pub(super) fn multiply_add(&mut self, fused: Fused, a: Value, b: Value, c: Value) -> Value {
        let once = self.machine.fused;
        let ins = self.builder.ins();
        if !once {
            let product = ins.fmul(a, b);
            return match fused {
                Fused::Sum => self.builder.ins().fadd(product, c),
                Fused::Less => self.builder.ins().fsub(product, c),
                Fused::From => self.builder.ins().fsub(c, product),
            };
        }
        match fused {
            Fused::Sum => ins.fma(a, b, c),
            Fused::Less => {
                let c = ins.fneg(c);
                self.builder.ins().fma(a, b, c)
            }
            Fused::From => {
                let a = ins.fneg(a);
                self.builder.ins().fma(a, b, c)
            }
        }
    }

    pub(super) fn unary(&mut self, op: UnaryOp, ty: Type, a: Value) -> Value {
        let ins = self.builder.ins();
        match op {
            UnaryOp::Sqrt => ins.sqrt(a),
            UnaryOp::Nearest => ins.nearest(a),
            UnaryOp::Floor => ins.floor(a),
            UnaryOp::Ceil => ins.ceil(a),
            UnaryOp::Trunc => ins.trunc(a),
            UnaryOp::Not => ins.bnot(a),
            UnaryOp::AbsInt => {
                let zero = self.constant(ty, 0)[0];
                let negative = self.builder.ins().icmp(IntCC::SignedLessThan, a, zero);
                let negated = self.builder.ins().isub(zero, a);
                self.builder.ins().bitselect(negative, negated, a)
            }
        }
    }

    /// `constant`: the bits of `b`, if it is a constant.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: &Parts,
        b: &Parts,
        constant: Option<u64>,
    ) -> Result<Parts, Error> {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| self.binary_part(op, ty, a, b, constant))
            .collect()
    }

    pub(super) fn binary_part(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: Value,
        b: Value,
        constant: Option<u64>,
    ) -> Result<Value, Error> {
        let float = ty.is_float();
        let ins = self.builder.ins();
        Ok(match op {
            BinaryOp::Add if float => ins.fadd(a, b),
            BinaryOp::Sub if float => ins.fsub(a, b),
            BinaryOp::Mul if float => ins.fmul(a, b),
            BinaryOp::Add => ins.iadd(a, b),
            BinaryOp::Sub => ins.isub(a, b),
            BinaryOp::Mul => ins.imul(a, b),
            BinaryOp::Div => ins.fdiv(a, b),
            BinaryOp::Minimum => ins.fmin(a, b),
            BinaryOp::Maximum => ins.fmax(a, b),
            BinaryOp::And => ins.band(a, b),
            BinaryOp::Or => ins.bor(a, b),
            BinaryOp::Xor => ins.bxor(a, b),
            BinaryOp::LesserOrSecond => self.choose(FloatCC::LessThan, ty, a, b),
            BinaryOp::GreaterOrSecond => self.choose(FloatCC::GreaterThan, ty, a, b),
            BinaryOp::Scale => self.scale(ty, a, b),
            BinaryOp::UnlessNan => {
                let quiet = self.constant(Type::I32, u64::from(QUIET))[0];
                let bits = self.bitcast(types::I32X4, b);
                let quieted = self.builder.ins().bor(bits, quiet);
                let nan = self.builder.ins().fcmp(FloatCC::Unordered, b, b);
                let bits = self.bitcast(types::I32X4, a);
                let chosen = self.builder.ins().bitselect(nan, quieted, bits);
                self.bitcast(types::F32X4, chosen)
            }
            BinaryOp::MinSigned | BinaryOp::MaxSigned => {
                self.pick(Condition::Less, ty, a, b, op == BinaryOp::MaxSigned)
            }
            BinaryOp::MinUnsigned | BinaryOp::MaxUnsigned => self.pick(
                Condition::LessUnsigned,
                ty,
                a,
                b,
                op == BinaryOp::MaxUnsigned,
            ),
            BinaryOp::ShiftLeft
            | BinaryOp::ShiftRight
            | BinaryOp::ShiftRightSigned
            | BinaryOp::RotateLeft => self.shift(op, ty, a, b, constant),
        })
    }

    pub(super) fn choose(&mut self, condition: FloatCC, ty: Type, a: Value, b: Value) -> Value {
        let mask = self.builder.ins().fcmp(condition, a, b);
        let mask = self.bitcast(vector_type(ty), mask);
        self.builder.ins().bitselect(mask, a, b)
    }

    /// The minimum or maximum of two integers.
    pub(super) fn pick(
        &mut self,
        less: Condition,
        ty: Type,
        a: Value,
        b: Value,
        larger: bool,
    ) -> Value {
        let mask = self.compare_integers(less, ty, a, b);
        let (yes, no) = if larger { (b, a) } else { (a, b) };
        self.builder.ins().bitselect(mask, yes, no)
    }

    /// Multiplies by a power of two as two factors, neither of which exceeds the range of
    /// exponents.
    pub(super) fn scale(&mut self, ty: Type, a: Value, b: Value) -> Value {
        if ty == Type::F64 {
            // The integer appears in the low bits of b + 3 * 2^51.
            let magic = self.constant(Type::F64, 6_755_399_441_055_744f64.to_bits())[0];
            let sum = self.builder.ins().fadd(b, magic);
            let bits = self.bitcast(types::I64X2, sum);
            let bias = self.constant(Type::I64, 1023)[0];
            let biased = self.builder.ins().iadd(bits, bias);
            let power = self.builder.ins().ishl_imm_s(biased, 52);
            let power = self.bitcast(types::F64X2, power);
            return self.builder.ins().fmul(a, power);
        }
        let n = self.builder.ins().fcvt_to_sint_sat(types::I32X4, b);
        let half = self.builder.ins().sshr_imm_s(n, 1);
        let rest = self.builder.ins().isub(n, half);
        let bias = self.constant(Type::I32, 127)[0];
        [half, rest].into_iter().fold(a, |a, n| {
            let biased = self.builder.ins().iadd(n, bias);
            let power = self.builder.ins().ishl_imm_s(biased, 23);
            let power = self.bitcast(types::F32X4, power);
            self.builder.ins().fmul(a, power)
        })
    }

    pub(super) fn shift(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: Value,
        b: Value,
        constant: Option<u64>,
    ) -> Value {
        let bits = if ty.is_wide() { 64 } else { 32 };
        if let Some(amount) = constant {
            let amount = i64::try_from(amount).unwrap_or(bits).min(bits);
            return match op {
                BinaryOp::ShiftRightSigned => {
                    self.builder.ins().sshr_imm_s(a, amount.min(bits - 1))
                }
                _ if amount == bits => self.constant(ty, 0)[0],
                BinaryOp::RotateLeft => {
                    let up = self.builder.ins().ishl_imm_s(a, amount);
                    let down = self.builder.ins().ushr_imm_s(a, bits - amount);
                    self.builder.ins().bor(up, down)
                }
                BinaryOp::ShiftLeft => self.builder.ins().ishl_imm_s(a, amount),
                _ => self.builder.ins().ushr_imm_s(a, amount),
            };
        }
        let lanes = 128 / bits;
        let mut out = a;
        for lane in 0..lanes as u8 {
            let x = self.builder.ins().extractlane(a, lane);
            let amount = self.builder.ins().extractlane(b, lane);
            let shifted = self.shift_scalar(op, bits, x, amount);
            out = self.builder.ins().insertlane(out, shifted, lane);
        }
        out
    }

    pub(super) fn shift_scalar(
        &mut self,
        op: BinaryOp,
        bits: i64,
        x: Value,
        amount: Value,
    ) -> Value {
        let in_range = self
            .builder
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, amount, bits);
        let ty = self.builder.func.dfg.value_type(x);
        if op == BinaryOp::ShiftRightSigned {
            let most = self.builder.ins().iconst(ty, bits - 1);
            let amount = self.builder.ins().select(in_range, amount, most);
            return self.builder.ins().sshr(x, amount);
        }
        let shifted = match op {
            BinaryOp::ShiftLeft => self.builder.ins().ishl(x, amount),
            _ => self.builder.ins().ushr(x, amount),
        };
        let zero = self.builder.ins().iconst(ty, 0);
        self.builder.ins().select(in_range, shifted, zero)
    }
}
