//! Scalar operations: one HLO elementwise operation to Cranelift instructions.
//!
//! Operations that common instructions compute for the type are open-coded; transcendental
//! functions are calls; everything else (complex functions, sub-byte integers, `reduce-precision`
//! of narrow floats, ...) is a call of a general function on raw bits. Each result is rounded to
//! its type.

use super::lower::{Lower, Values};
use super::types::{carrier_types, integer_type, is_narrow_float, is_sub_byte};
use crate::error::Error;
use crate::image::libcalls::{self, General, Helper};
use crate::isa::clif128::half_precision::Binary16;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};
use smallvec::smallvec;
use tegula_fusion::kernel::ScalarOp;
use tegula_ir::{Binary, Category, Direction, ElementType, Order, Unary};

impl Lower<'_, '_> {
    /// Emits one operation; `from` is the first operand's type.
    pub(crate) fn scalar(
        &mut self,
        op: &ScalarOp,
        from: ElementType,
        to: ElementType,
        operands: &[Values],
    ) -> Result<Values, Error> {
        if let Some(values) = self.open_coded(op, from, to, operands) {
            return Ok(values);
        }
        if let ScalarOp::Index(term) = op {
            let index = smallvec![self.term(term)];
            return self.general(&ScalarOp::Convert, ElementType::S64, to, &[index]);
        }
        self.general(op, from, to, operands)
    }

    fn open_coded(
        &mut self,
        op: &ScalarOp,
        from: ElementType,
        to: ElementType,
        operands: &[Values],
    ) -> Option<Values> {
        let first = |i: usize| operands.get(i).and_then(|v| v.first()).copied();
        match op {
            ScalarOp::Constant(bits) => Some(self.constant(to, *bits)),
            ScalarOp::Index(term) => {
                let index = self.term(term);
                self.convert(ElementType::S64, to, &smallvec![index])
            }
            ScalarOp::Select => self.select(first(0)?, operands.get(1)?, operands.get(2)?),
            ScalarOp::Unary(op) => self.unary(*op, from, operands.first()?),
            ScalarOp::Binary(op) => self.binary(*op, from, operands.first()?, operands.get(1)?),
            ScalarOp::Compare(direction, order) if from.is_complex() => {
                let (a, b) = (operands.first()?, operands.get(1)?);
                Some(smallvec![self.complex_compare(*direction, *order, a, b)?])
            }
            ScalarOp::Compare(direction, order) => Some(smallvec![self.compare(
                *direction,
                *order,
                from,
                first(0)?,
                first(1)?
            )?]),
            ScalarOp::Clamp => {
                let raised =
                    self.binary(Binary::Maximum, from, operands.first()?, operands.get(1)?)?;
                self.binary(Binary::Minimum, from, &raised, operands.get(2)?)
            }
            ScalarOp::Convert => self.convert(from, to, operands.first()?),
            ScalarOp::BitcastConvert => self.bitcast(from, to, first(0)?),
            ScalarOp::ReducePrecision {
                exponent_bits,
                mantissa_bits,
            } => self.reduce_precision(from, [*exponent_bits, *mantissa_bits], first(0)?),
        }
    }

    fn constant(&mut self, element_type: ElementType, bits: u128) -> Values {
        match element_type.category() {
            Category::Complex if element_type == ElementType::C64 => smallvec![
                self.builder.ins().f32const(f32::from_bits(bits as u32)),
                self.builder
                    .ins()
                    .f32const(f32::from_bits((bits >> 32) as u32)),
            ],
            Category::Complex => smallvec![
                self.builder.ins().f64const(f64::from_bits(bits as u64)),
                self.builder
                    .ins()
                    .f64const(f64::from_bits((bits >> 64) as u64)),
            ],
            Category::Float if element_type == ElementType::F64 => {
                smallvec![self.builder.ins().f64const(f64::from_bits(bits as u64))]
            }
            Category::Float => {
                let value = tegula_scalar::decode_single(element_type, bits as u32);
                smallvec![self.builder.ins().f32const(value)]
            }
            _ => {
                let ty = integer_type(element_type.storage_bytes());
                smallvec![self.integer(ty, (bits as u64).cast_signed())]
            }
        }
    }

    fn select(&mut self, predicate: Value, yes: &Values, no: &Values) -> Option<Values> {
        let pairs = yes.iter().zip(no);
        Some(
            pairs
                .map(|(&y, &n)| self.builder.ins().select(predicate, y, n))
                .collect(),
        )
    }

    // ---- floats ------------------------------------------------------------

    /// Rounds an f32 to the nearest value of a narrow float.
    pub(crate) fn round_to(&mut self, element_type: ElementType, value: Value) -> Value {
        if !is_narrow_float(element_type) {
            return value;
        }
        if element_type == ElementType::F16 {
            return Binary16::of_one(self.builder).rounded_to_half(value);
        }
        let bits = self.encode_narrow(element_type, value);
        self.decode_narrow(element_type, bits)
    }

    /// The bits (as i32) of an f32 rounded to a narrow float.
    pub(crate) fn encode_narrow(&mut self, element_type: ElementType, value: Value) -> Value {
        if element_type == ElementType::BF16 {
            return self.encode_bf16(value);
        }
        if element_type == ElementType::F16 {
            let mut halves = Binary16::of_one(self.builder);
            let number = halves.rounded_to_half(value);
            return halves.half_bits(number);
        }
        let index = self.integer(types::I32, libcalls::type_index(element_type));
        self.call(&libcalls::ENCODE_NARROW, &[index, value])
    }

    /// Converts a narrow float's bits (as i32) to an f32.
    pub(crate) fn decode_narrow(&mut self, element_type: ElementType, bits: Value) -> Value {
        if element_type == ElementType::BF16 {
            let wide = self.builder.ins().ishl_imm_s(bits, 16);
            return self
                .builder
                .ins()
                .bitcast(types::F32, MemFlagsData::new(), wide);
        }
        if element_type == ElementType::F16 {
            return Binary16::of_one(self.builder).half_to_f32(bits);
        }
        let index = self.integer(types::I32, libcalls::type_index(element_type));
        self.call(&libcalls::DECODE_NARROW, &[index, bits])
    }

    /// Rounds to nearest, ties to even, by adding half of the last kept place, less one if the kept
    /// part is even; a NaN keeps its upper bits and becomes quiet.
    fn encode_bf16(&mut self, value: Value) -> Value {
        let bits = self
            .builder
            .ins()
            .bitcast(types::I32, MemFlagsData::new(), value);
        let upper = self.builder.ins().ushr_imm_s(bits, 16);
        let odd = self.builder.ins().band_imm_s(upper, 1);
        let bias = self.builder.ins().iadd_imm_s(odd, 0x7fff);
        let sum = self.builder.ins().iadd(bits, bias);
        let rounded = self.builder.ins().ushr_imm_s(sum, 16);
        let quiet = self.builder.ins().bor_imm_s(upper, 0x40);
        let nan = self.builder.ins().fcmp(FloatCC::Unordered, value, value);
        self.builder.ins().select(nan, quiet, rounded)
    }

    fn unary(&mut self, op: Unary, from: ElementType, x: &Values) -> Option<Values> {
        match from.category() {
            Category::Float => Some(smallvec![self.float_unary(op, from, x[0])?]),
            Category::Complex => self.complex_unary(op, x),
            Category::Boolean => match op {
                Unary::Not => Some(smallvec![self.builder.ins().bxor_imm_s(x[0], 1)]),
                _ => None,
            },
            Category::Signed | Category::Unsigned if is_sub_byte(from) => None,
            Category::Signed | Category::Unsigned => {
                Some(smallvec![self.integer_unary(op, from, x[0])?])
            }
        }
    }

    fn float_unary(&mut self, op: Unary, from: ElementType, x: Value) -> Option<Value> {
        let double = from == ElementType::F64;
        let result = match op {
            Unary::Abs => return Some(self.builder.ins().fabs(x)),
            Unary::Negate if from != ElementType::F8E8M0FNU && !has_no_negative_zero(from) => {
                return Some(self.builder.ins().fneg(x));
            }
            Unary::Real => return Some(x),
            Unary::Ceil => self.builder.ins().ceil(x),
            Unary::Floor => self.builder.ins().floor(x),
            Unary::RoundNearestEven => self.builder.ins().nearest(x),
            Unary::Sqrt => self.builder.ins().sqrt(x),
            Unary::Rsqrt if double => {
                let one = self.builder.ins().f64const(1.0);
                let root = self.builder.ins().sqrt(x);
                self.builder.ins().fdiv(one, root)
            }
            Unary::Rsqrt => {
                let wide = self.builder.ins().fpromote(types::F64, x);
                let one = self.builder.ins().f64const(1.0);
                let root = self.builder.ins().sqrt(wide);
                let quotient = self.builder.ins().fdiv(one, root);
                self.builder.ins().fdemote(types::F32, quotient)
            }
            Unary::IsFinite => {
                let difference = self.builder.ins().fsub(x, x);
                let finite = self
                    .builder
                    .ins()
                    .fcmp(FloatCC::Ordered, difference, difference);
                return Some(finite);
            }
            _ => {
                let helper = libcalls::unary_function(op, double)?;
                self.call(&helper, &[x])
            }
        };
        Some(self.round_to(from, result))
    }

    pub(crate) fn binary(
        &mut self,
        op: Binary,
        from: ElementType,
        a: &Values,
        b: &Values,
    ) -> Option<Values> {
        match from.category() {
            Category::Float if op == Binary::Complex => Some(smallvec![a[0], b[0]]),
            Category::Float => Some(smallvec![self.float_binary(op, from, a[0], b[0])?]),
            Category::Complex => self.complex_binary(op, a, b),
            Category::Boolean => Some(smallvec![self.pred_binary(op, a[0], b[0])?]),
            Category::Signed | Category::Unsigned if is_sub_byte(from) => None,
            Category::Signed | Category::Unsigned => {
                Some(smallvec![self.integer_binary(op, from, a[0], b[0])?])
            }
        }
    }

    fn pred_binary(&mut self, op: Binary, a: Value, b: Value) -> Option<Value> {
        match op {
            Binary::And | Binary::Multiply | Binary::Minimum => Some(self.builder.ins().band(a, b)),
            Binary::Or | Binary::Maximum | Binary::Add => Some(self.builder.ins().bor(a, b)),
            Binary::Xor => Some(self.builder.ins().bxor(a, b)),
            _ => None,
        }
    }

    fn float_binary(&mut self, op: Binary, from: ElementType, a: Value, b: Value) -> Option<Value> {
        let result = match op {
            Binary::Add => self.builder.ins().fadd(a, b),
            Binary::Subtract => self.builder.ins().fsub(a, b),
            Binary::Multiply => self.builder.ins().fmul(a, b),
            Binary::Divide => self.builder.ins().fdiv(a, b),
            // IEEE's maximum and minimum: NaN is propagated, and -0 is below +0.
            Binary::Maximum => return Some(self.builder.ins().fmax(a, b)),
            Binary::Minimum => return Some(self.builder.ins().fmin(a, b)),
            _ => {
                let helper = libcalls::binary_function(op, from == ElementType::F64)?;
                self.call(&helper, &[a, b])
            }
        };
        Some(self.round_to(from, result))
    }

    // ---- integers ------------------------------------------------------------

    fn integer_unary(&mut self, op: Unary, from: ElementType, x: Value) -> Option<Value> {
        let ty = integer_type(from.storage_bytes());
        let signed = from.is_signed();
        Some(match op {
            Unary::Abs if signed => {
                let negated = self.builder.ins().ineg(x);
                let negative = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, x, 0);
                self.builder.ins().select(negative, negated, x)
            }
            Unary::Abs | Unary::Real => x,
            Unary::Negate => self.builder.ins().ineg(x),
            Unary::Not => self.builder.ins().bnot(x),
            Unary::Popcnt => self.builder.ins().popcnt(x),
            Unary::CountLeadingZeros => self.builder.ins().clz(x),
            Unary::Sign => {
                let one = self.integer(ty, 1);
                let zero = self.integer(ty, 0);
                let positive = if signed {
                    IntCC::SignedGreaterThan
                } else {
                    IntCC::NotEqual
                };
                let positive = self.builder.ins().icmp(positive, x, zero);
                let minus = self.integer(ty, -1);
                let negative = self.builder.ins().icmp(IntCC::SignedLessThan, x, zero);
                let rest = self.builder.ins().select(negative, minus, zero);
                self.builder
                    .ins()
                    .select(positive, one, if signed { rest } else { zero })
            }
            _ => return None,
        })
    }

    fn integer_binary(
        &mut self,
        op: Binary,
        from: ElementType,
        a: Value,
        b: Value,
    ) -> Option<Value> {
        let signed = from.is_signed();
        Some(match op {
            Binary::Add => self.builder.ins().iadd(a, b),
            Binary::Subtract => self.builder.ins().isub(a, b),
            Binary::Multiply => self.builder.ins().imul(a, b),
            Binary::And => self.builder.ins().band(a, b),
            Binary::Or => self.builder.ins().bor(a, b),
            Binary::Xor => self.builder.ins().bxor(a, b),
            Binary::Maximum if signed => self.builder.ins().smax(a, b),
            Binary::Maximum => self.builder.ins().umax(a, b),
            Binary::Minimum if signed => self.builder.ins().smin(a, b),
            Binary::Minimum => self.builder.ins().umin(a, b),
            Binary::Divide | Binary::Remainder => self.divide(op, from, a, b),
            Binary::ShiftLeft | Binary::ShiftRightLogical | Binary::ShiftRightArithmetic => {
                self.shift(op, from, a, b)
            }
            _ => return None,
        })
    }

    /// Division with HLO's results where the machine traps: division by zero gives a quotient with
    /// all bits set and the dividend as the remainder; the smallest number divided by -1 gives
    /// itself, with remainder 0.
    fn divide(&mut self, op: Binary, from: ElementType, a: Value, b: Value) -> Value {
        let ty = integer_type(from.storage_bytes());
        let one = self.integer(ty, 1);
        let by_zero = self.builder.ins().icmp_imm_s(IntCC::Equal, b, 0);
        let mut unsafe_divisor = by_zero;
        if from.is_signed() {
            let smallest = i64::MIN >> (64 - ty.bits());
            let minus_one = self.builder.ins().icmp_imm_s(IntCC::Equal, b, -1);
            let is_smallest = self.builder.ins().icmp_imm_s(IntCC::Equal, a, smallest);
            let overflows = self.builder.ins().band(minus_one, is_smallest);
            unsafe_divisor = self.builder.ins().bor(by_zero, overflows);
        }
        let divisor = self.builder.ins().select(unsafe_divisor, one, b);
        let (result, at_zero) = match (op, from.is_signed()) {
            (Binary::Divide, true) => (self.builder.ins().sdiv(a, divisor), None),
            (Binary::Divide, false) => (self.builder.ins().udiv(a, divisor), None),
            (_, true) => (self.builder.ins().srem(a, divisor), Some(a)),
            (_, false) => (self.builder.ins().urem(a, divisor), Some(a)),
        };
        let at_zero = at_zero.unwrap_or_else(|| self.integer(ty, -1));
        self.builder.ins().select(by_zero, at_zero, result)
    }

    /// A shift by the width or more gives 0, or the sign bits.
    fn shift(&mut self, op: Binary, from: ElementType, a: Value, b: Value) -> Value {
        let ty = integer_type(from.storage_bytes());
        let bits = i64::from(ty.bits());
        let in_range = self
            .builder
            .ins()
            .icmp_imm_s(IntCC::UnsignedLessThan, b, bits);
        if op == Binary::ShiftRightArithmetic {
            let most = self.integer(ty, bits - 1);
            let amount = self.builder.ins().select(in_range, b, most);
            return self.builder.ins().sshr(a, amount);
        }
        let shifted = match op {
            Binary::ShiftLeft => self.builder.ins().ishl(a, b),
            _ => self.builder.ins().ushr(a, b),
        };
        let zero = self.integer(ty, 0);
        self.builder.ins().select(in_range, shifted, zero)
    }

    // ---- comparisons and conversions ------------------------------------------

    fn compare(
        &mut self,
        direction: Direction,
        order: Order,
        from: ElementType,
        a: Value,
        b: Value,
    ) -> Option<Value> {
        match from.category() {
            Category::Complex => None,
            Category::Float if order == Order::Total => {
                let (a, b) = (self.total_order_key(a), self.total_order_key(b));
                Some(
                    self.builder
                        .ins()
                        .icmp(integer_condition(direction, true), a, b),
                )
            }
            Category::Float => Some(self.builder.ins().fcmp(float_condition(direction), a, b)),
            category => {
                let signed = category == Category::Signed;
                Some(
                    self.builder
                        .ins()
                        .icmp(integer_condition(direction, signed), a, b),
                )
            }
        }
    }

    /// A signed integer in the order of IEEE's total order of floats: the magnitude bits of
    /// negative numbers are flipped.
    fn total_order_key(&mut self, x: Value) -> Value {
        let double = self.builder.func.dfg.value_type(x) == types::F64;
        let ty = if double { types::I64 } else { types::I32 };
        let bits = self.builder.ins().bitcast(ty, MemFlagsData::new(), x);
        let sign = self
            .builder
            .ins()
            .sshr_imm_s(bits, i64::from(ty.bits()) - 1);
        let magnitude = self.builder.ins().ushr_imm_s(sign, 1);
        self.builder.ins().bxor(bits, magnitude)
    }

    /// HLO's `convert`. Parts of complex numbers are converted separately, and a real number
    /// becomes the real part of a complex one. `None` if the general function is needed.
    fn convert(&mut self, from: ElementType, to: ElementType, x: &Values) -> Option<Values> {
        if from == to {
            return Some(x.clone());
        }
        let Some(part) = to.complex_part() else {
            return Some(smallvec![self.convert_real(from, to, *x.first()?)?]);
        };
        if let Some(from) = from.complex_part() {
            let parts = x.iter().map(|&x| self.convert_real(from, part, x));
            return parts.collect();
        }
        let re = self.convert_real(from, part, *x.first()?)?;
        let zero = self.constant(part, 0);
        Some(smallvec![re, *zero.first()?])
    }

    /// `convert` between real types.
    fn convert_real(&mut self, from: ElementType, to: ElementType, x: Value) -> Option<Value> {
        if from == to {
            return Some(x);
        }
        if is_sub_byte(to) || from.is_complex() || to.is_complex() {
            return None;
        }
        let target = carrier_types(to)[0];
        let source = carrier_types(from)[0];
        let value = match (from.is_float(), to.is_float()) {
            (true, true) => match (from == ElementType::F64, to == ElementType::F64) {
                (true, _) if is_narrow_float(to) => self.f64_to_narrow(to, x),
                (true, _) => self.builder.ins().fdemote(types::F32, x),
                (false, true) => self.builder.ins().fpromote(types::F64, x),
                (false, false) => self.round_to(to, x),
            },
            (true, false) => self.float_to_integer(to, x),
            // An integer of more than 24 bits would be rounded twice if converted by f32.
            (false, true) if is_narrow_float(to) && from.bits() > 16 => {
                let wide = self.extend(from, x, types::I64);
                let value = self.integer_to_f64_by_odd(from, wide);
                self.f64_to_narrow(to, value)
            }
            (false, true) => {
                let wide = self.extend(from, x, types::I64);
                let value = if from == ElementType::U64 {
                    self.builder.ins().fcvt_from_uint(target, wide)
                } else {
                    self.builder.ins().fcvt_from_sint(target, wide)
                };
                self.round_to(to, value)
            }
            (false, false) if to == ElementType::Pred => {
                self.builder.ins().icmp_imm_s(IntCC::NotEqual, x, 0)
            }
            (false, false) if target.bits() < source.bits() => {
                self.builder.ins().ireduce(target, x)
            }
            (false, false) => self.extend(from, x, target),
        };
        Some(value)
    }

    /// Rounds a number to a float of at most 16 bits.
    fn f64_to_narrow(&mut self, to: ElementType, x: Value) -> Value {
        let index = self.integer(types::I32, libcalls::type_index(to));
        let bits = self.call(&libcalls::ENCODE_NARROW_F64, &[index, x]);
        self.decode_narrow(to, bits)
    }

    /// Converts an integer to `f64`, rounded to odd if it has more than 53 bits: inexact results
    /// have their last bit set, so that rounding again to a narrow float gives the nearest number.
    fn integer_to_f64_by_odd(&mut self, from: ElementType, x: Value) -> Value {
        let convert = |lower: &mut Self, x: Value| match from {
            ElementType::U64 => lower.builder.ins().fcvt_from_uint(types::F64, x),
            _ => lower.builder.ins().fcvt_from_sint(types::F64, x),
        };
        let exact = convert(self, x);
        if from.bits() <= 32 {
            return exact;
        }
        // The number of low bits of a 64-bit integer that do not fit an f64.
        const LACKING: i64 = 11;
        let high = match from.is_signed() {
            true => self.builder.ins().sshr_imm_u(x, LACKING),
            false => self.builder.ins().ushr_imm_u(x, LACKING),
        };
        let low = self.builder.ins().band_imm_s(x, (1 << LACKING) - 1);
        let is_between = self.builder.ins().icmp_imm_s(IntCC::NotEqual, low, 0);
        let last = self.builder.ins().uextend(types::I64, is_between);
        let odd = self.builder.ins().bor(high, last);
        let odd = convert(self, odd);
        let unit = self.builder.ins().f64const((1u64 << LACKING) as f64);
        let odd = self.builder.ins().fmul(odd, unit);
        // Smaller ones are exact.
        let magnitude = self.builder.ins().fabs(exact);
        let limit = self.builder.ins().f64const((1u64 << 53) as f64);
        let is_exact = self.builder.ins().fcmp(FloatCC::LessThan, magnitude, limit);
        self.builder.ins().select(is_exact, exact, odd)
    }

    /// Widens an integer to a type at least as wide.
    pub(crate) fn extend(
        &mut self,
        from: ElementType,
        x: Value,
        to: cranelift_codegen::ir::Type,
    ) -> Value {
        if self.builder.func.dfg.value_type(x) == to {
            x
        } else if from.is_signed() {
            self.builder.ins().sextend(to, x)
        } else {
            self.builder.ins().uextend(to, x)
        }
    }

    /// Truncation with saturation; NaN gives 0.
    fn float_to_integer(&mut self, to: ElementType, x: Value) -> Value {
        if to == ElementType::Pred {
            let double = self.builder.func.dfg.value_type(x) == types::F64;
            let zero = if double {
                self.builder.ins().f64const(0.0)
            } else {
                self.builder.ins().f32const(0.0)
            };
            return self.builder.ins().fcmp(FloatCC::NotEqual, x, zero);
        }
        let ty = integer_type(to.storage_bytes());
        if ty.bits() >= 32 {
            return if to.is_signed() {
                self.builder.ins().fcvt_to_sint_sat(ty, x)
            } else {
                self.builder.ins().fcvt_to_uint_sat(ty, x)
            };
        }
        let bits = to.bits();
        let wide = self.builder.ins().fcvt_to_sint_sat(types::I32, x);
        let (low, high) = if to.is_signed() {
            (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
        } else {
            (0, (1i64 << bits) - 1)
        };
        let low = self.integer(types::I32, low);
        let high = self.integer(types::I32, high);
        let raised = self.builder.ins().smax(wide, low);
        let clamped = self.builder.ins().smin(raised, high);
        self.builder.ins().ireduce(ty, clamped)
    }

    fn bitcast(&mut self, from: ElementType, to: ElementType, x: Value) -> Option<Values> {
        if from.is_complex() || to.is_complex() || is_sub_byte(from) || is_sub_byte(to) {
            return None;
        }
        let bits = self.stored_bits(from, x);
        Some(smallvec![self.carried(to, bits)])
    }

    /// Converts a carried scalar to its storage bits.
    pub(crate) fn stored_bits(&mut self, element_type: ElementType, x: Value) -> Value {
        let ty = integer_type(element_type.storage_bytes());
        if is_narrow_float(element_type) {
            let bits = self.encode_narrow(element_type, x);
            return self.builder.ins().ireduce(ty, bits);
        }
        if element_type.is_float() {
            return self.builder.ins().bitcast(ty, MemFlagsData::new(), x);
        }
        x
    }

    /// Converts storage bits to the carried scalar.
    pub(crate) fn carried(&mut self, element_type: ElementType, bits: Value) -> Value {
        if is_narrow_float(element_type) {
            let wide = self.builder.ins().uextend(types::I32, bits);
            return self.decode_narrow(element_type, wide);
        }
        if element_type.is_float() {
            let ty = carrier_types(element_type)[0];
            return self.builder.ins().bitcast(ty, MemFlagsData::new(), bits);
        }
        bits
    }

    // ---- calls ---------------------------------------------------------------

    /// Calls a helper that returns one value.
    pub(crate) fn call(&mut self, helper: &Helper, arguments: &[Value]) -> Value {
        let function = self.import(helper);
        let call = self.builder.ins().call(function, arguments);
        self.builder.inst_results(call)[0]
    }

    /// Calls the general function: stores the operands' bits to the stack, calls, and loads the
    /// result's bits.
    fn general(
        &mut self,
        op: &ScalarOp,
        from: ElementType,
        to: ElementType,
        operands: &[Values],
    ) -> Result<Values, Error> {
        let general = General {
            op: op.clone(),
            from,
            to,
        };
        // Whether a type has an operation does not depend on the values.
        if general.apply([0; 3]).is_none() {
            return Err(Error::NoSuchOperation {
                op: describe(op),
                element_type: from,
            });
        }
        let slot = self.builder.create_sized_stack_slot(StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            48,
            4,
        ));
        let zero = self.integer(types::I64, 0);
        for (i, values) in operands.iter().enumerate().take(3) {
            let base = 16 * i as i32;
            self.builder.ins().stack_store(types::I64, zero, slot, base);
            self.builder
                .ins()
                .stack_store(types::I64, zero, slot, base + 8);
            let part = from.complex_part().unwrap_or(from);
            for (j, &value) in values.iter().enumerate() {
                let bits = self.stored_bits(part, value);
                self.builder.ins().stack_store(
                    types::I64,
                    bits,
                    slot,
                    base + (j * part.storage_bytes()) as i32,
                );
            }
        }
        let operation = self.operation(general);
        let address = self.builder.ins().stack_addr(types::I64, slot, 0);
        let function = self.import(&libcalls::APPLY_GENERAL);
        self.builder.ins().call(function, &[operation, address]);
        let part = to.complex_part().unwrap_or(to);
        let ty = integer_type(part.storage_bytes());
        let mut results = Values::new();
        for j in 0..carrier_types(to).len() {
            let bits = self.builder.ins().stack_load(
                types::I64,
                ty,
                slot,
                (j * part.storage_bytes()) as i32,
            );
            results.push(self.carried(part, bits));
        }
        Ok(results)
    }
}

fn has_no_negative_zero(element_type: ElementType) -> bool {
    matches!(
        element_type,
        ElementType::F8E4M3B11FNUZ | ElementType::F8E4M3FNUZ | ElementType::F8E5M2FNUZ
    )
}

fn describe(op: &ScalarOp) -> String {
    match op {
        ScalarOp::Unary(op) => op.opcode().to_string(),
        ScalarOp::Binary(op) => op.opcode().to_string(),
        other => format!("{other:?}"),
    }
}

fn integer_condition(direction: Direction, signed: bool) -> IntCC {
    match (direction, signed) {
        (Direction::Eq, _) => IntCC::Equal,
        (Direction::Ne, _) => IntCC::NotEqual,
        (Direction::Ge, true) => IntCC::SignedGreaterThanOrEqual,
        (Direction::Gt, true) => IntCC::SignedGreaterThan,
        (Direction::Le, true) => IntCC::SignedLessThanOrEqual,
        (Direction::Lt, true) => IntCC::SignedLessThan,
        (Direction::Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
        (Direction::Gt, false) => IntCC::UnsignedGreaterThan,
        (Direction::Le, false) => IntCC::UnsignedLessThanOrEqual,
        (Direction::Lt, false) => IntCC::UnsignedLessThan,
    }
}

fn float_condition(direction: Direction) -> FloatCC {
    match direction {
        Direction::Eq => FloatCC::Equal,
        Direction::Ne => FloatCC::NotEqual,
        Direction::Ge => FloatCC::GreaterThanOrEqual,
        Direction::Gt => FloatCC::GreaterThan,
        Direction::Le => FloatCC::LessThanOrEqual,
        Direction::Lt => FloatCC::LessThan,
    }
}
