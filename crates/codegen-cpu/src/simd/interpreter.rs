//! Interprets SIMD bodies, lane by lane. Tests compare every lowering with it; nothing else uses
//! it.

use super::ir::{
    Access, BinaryOp, Body, Condition, Conversion, Fused, Op, QUIET, Statement, Type, UnaryOp, V,
    identity,
};
use half::f16;

/// Properties of the machine that is emulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Whether `a * b + c` is rounded once.
    pub fused: bool,
}

struct Lane<'a> {
    body: &'a Body,
    inputs: &'a [u64],
    values: Vec<u64>,
    /// Counters of the open loops, outermost first.
    counters: Vec<u64>,
    /// For each access, the offset in bytes by which the open loops have advanced it.
    moved: Vec<u64>,
    lane: u64,
    machine: Machine,
}

/// Runs a body; returns its reductions.
///
/// # Safety
/// The addresses among the inputs are valid for the accesses of `n` lanes.
pub(crate) unsafe fn evaluate(body: &Body, inputs: &[u64], n: u64, machine: Machine) -> Vec<u64> {
    let mut totals: Vec<u64> = body
        .reductions
        .iter()
        .map(|r| identity(r.op, body.type_of(r.value)))
        .collect();
    for lane in 0..n {
        let mut state = Lane {
            body,
            inputs,
            values: vec![0; body.values.len()],
            counters: Vec::new(),
            moved: vec![0; body.accesses.len()],
            lane,
            machine,
        };
        for (i, (op, ty)) in body.values.iter().enumerate() {
            match *op {
                Op::Const(bits) => state.values[i] = bits,
                Op::Input(input) => state.values[i] = cut(*ty, inputs[input as usize]),
                _ => {}
            }
        }
        // SAFETY: the caller promises that the addresses among the inputs are valid for the
        // accesses of `n` lanes.
        unsafe { state.block(&body.statements) };
        for (total, r) in totals.iter_mut().zip(&body.reductions) {
            let value = state.values[r.value.0 as usize];
            *total = binary(r.op, body.type_of(r.value), *total, value);
        }
    }
    totals
}

fn cut(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::Mask => bits & 1,
        Type::I32 | Type::F32 => bits & u64::from(u32::MAX),
        Type::I64 | Type::F64 => bits,
    }
}

impl Lane<'_> {
    fn value(&self, v: V) -> u64 {
        self.values[v.0 as usize]
    }

    unsafe fn block(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Define(v) => {
                    // SAFETY: the caller promises addresses that this lane may access.
                    self.values[v.0 as usize] = unsafe { self.define(*v) };
                }
                Statement::Store {
                    access,
                    value,
                    index,
                    mask,
                } => {
                    if mask.is_some_and(|m| self.value(m) == 0) {
                        continue;
                    }
                    let bytes = self.body.accesses[*access as usize].storage.bytes as usize;
                    let address = self.address(*access, *index);
                    let bits = self.value(*value).to_le_bytes();
                    // SAFETY: the caller promises addresses that this lane may access.
                    unsafe {
                        std::ptr::copy_nonoverlapping(bits.as_ptr(), address as *mut u8, bytes);
                    }
                }
                Statement::StorePair {
                    access,
                    halves,
                    mask,
                } => {
                    if mask.is_some_and(|m| self.value(m) == 0) {
                        continue;
                    }
                    let address = self.address(*access, None);
                    let half = self.half_bytes(*access);
                    for (v, at) in halves.iter().zip([address, address + half]) {
                        let bits = self.value(*v).to_le_bytes();
                        let bytes = half as usize;
                        // SAFETY: the caller promises addresses that this lane may access.
                        unsafe {
                            std::ptr::copy_nonoverlapping(bits.as_ptr(), at as *mut u8, bytes);
                        }
                    }
                }
                Statement::Rare(rare) => {
                    let mut asked = self.value(rare.mask) != 0;
                    let mut state: Vec<u64> = rare.init.iter().map(|&v| self.value(v)).collect();
                    while asked {
                        let carried = rare.again.iter().flat_map(|again| &again.carried);
                        for (v, bits) in carried.zip(&state) {
                            self.values[v.0 as usize] = *bits;
                        }
                        for &v in &rare.body {
                            // SAFETY: the caller promises addresses that this lane may access.
                            self.values[v.0 as usize] = unsafe { self.define(v) };
                        }
                        state = rare.next.iter().map(|&v| self.value(v)).collect();
                        let again = rare.again.as_ref();
                        asked = again.is_some_and(|again| self.value(again.mask) != 0);
                    }
                    for (v, bits) in rare.results.iter().zip(state) {
                        self.values[v.0 as usize] = bits;
                    }
                }
                Statement::Loop(l) => {
                    let mut state: Vec<u64> = l.init.iter().map(|&v| self.value(v)).collect();
                    let saved = self.moved.clone();
                    let trips = self.inputs[l.trips as usize].cast_signed().max(0);
                    for i in 0..trips {
                        self.counters.push(i.cast_unsigned());
                        for (v, bits) in l.carried.iter().zip(&state) {
                            self.values[v.0 as usize] = *bits;
                        }
                        // SAFETY: the caller promises addresses that this lane may access.
                        unsafe { self.block(&l.body) };
                        self.counters.pop();
                        state = l.next.iter().map(|&v| self.value(v)).collect();
                        for &(access, step) in &l.steps {
                            let moved = &mut self.moved[access as usize];
                            *moved = moved.wrapping_add(self.inputs[step as usize]);
                        }
                    }
                    self.moved = saved;
                    for (v, bits) in l.results.iter().zip(&state) {
                        self.values[v.0 as usize] = *bits;
                    }
                }
            }
        }
    }

    fn address(&self, access: u32, index: Option<V>) -> u64 {
        let a: &Access = &self.body.accesses[access as usize];
        let element = match index {
            Some(index) => i64::from(self.value(index) as u32 as i32).cast_unsigned(),
            None if a.splat => 0,
            None => self.lane,
        };
        self.inputs[a.pointer as usize]
            .wrapping_add(self.moved[access as usize])
            .wrapping_add(element.wrapping_mul(u64::from(a.storage.bytes)))
    }

    /// The bytes of half an element.
    fn half_bytes(&self, access: u32) -> u64 {
        u64::from(self.body.accesses[access as usize].storage.bytes / 2)
    }

    unsafe fn load_half(&self, access: u32, high: bool, mask: Option<V>) -> u64 {
        if mask.is_some_and(|m| self.value(m) == 0) {
            return 0;
        }
        let half = self.half_bytes(access);
        let address = self.address(access, None) + if high { half } else { 0 };
        let mut bytes = [0u8; 8];
        // SAFETY: the caller promises addresses that this lane may access.
        unsafe {
            let from = address as *const u8;
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), half as usize);
        }
        u64::from_le_bytes(bytes)
    }

    unsafe fn load(&self, access: u32, index: Option<V>, mask: Option<V>) -> u64 {
        if mask.is_some_and(|m| self.value(m) == 0) {
            return 0;
        }
        let storage = self.body.accesses[access as usize].storage;
        let mut bytes = [0u8; 8];
        let address = self.address(access, index) as *const u8;
        // SAFETY: the caller promises addresses that this lane may access.
        unsafe {
            std::ptr::copy_nonoverlapping(address, bytes.as_mut_ptr(), storage.bytes as usize);
        }
        let bits = u64::from_le_bytes(bytes);
        match (storage.bytes, storage.signed) {
            (1, true) => u64::from((bits as i8 as i32).cast_unsigned()),
            (2, true) => u64::from((bits as i16 as i32).cast_unsigned()),
            _ => bits,
        }
    }

    unsafe fn define(&self, v: V) -> u64 {
        let ty = self.body.type_of(v);
        match self.body.op(v) {
            Op::Const(_) | Op::Input(_) | Op::Carried => self.value(v),
            Op::Lane => cut(Type::I32, self.lane),
            Op::Counter(depth) => cut(Type::I32, self.counters[depth as usize]),
            Op::Unary(op, a) => unary(op, ty, self.value(a)),
            Op::Binary(op, a, b) => binary(op, ty, self.value(a), self.value(b)),
            Op::Fma(fused, a, b, c) => {
                let (mut a, b, mut c) = (self.value(a), self.value(b), self.value(c));
                let sign = if ty.is_wide() { 1 << 63 } else { 1 << 31 };
                match fused {
                    Fused::Sum => {}
                    Fused::Less => c ^= sign,
                    Fused::From => a ^= sign,
                }
                match (ty, self.machine.fused) {
                    (_, false) => binary(BinaryOp::Add, ty, binary(BinaryOp::Mul, ty, a, b), c),
                    (Type::F64, true) => {
                        let [a, b, c] = [a, b, c].map(f64::from_bits);
                        a.mul_add(b, c).to_bits()
                    }
                    (_, true) => {
                        let [a, b, c] = [a, b, c].map(|x| f32::from_bits(x as u32));
                        u64::from(a.mul_add(b, c).to_bits())
                    }
                }
            }
            Op::Compare(condition, a, b) => {
                let from = self.body.type_of(a);
                u64::from(compare(condition, from, self.value(a), self.value(b)))
            }
            Op::Select(m, a, b) => self.value(if self.value(m) != 0 { a } else { b }),
            Op::Convert(conversion, a) => {
                convert(conversion, self.body.type_of(a), ty, self.value(a))
            }
            // SAFETY: the caller promises addresses that this lane may access.
            Op::Load { access, mask } => unsafe { self.load(access, None, mask) },
            // SAFETY: the caller promises addresses that this lane may access.
            Op::LoadHalf { access, high, mask } => unsafe { self.load_half(access, high, mask) },
            Op::Gather {
                access,
                index,
                mask,
                // SAFETY: the caller promises addresses that this lane may access.
            } => unsafe { self.load(access, Some(index), mask) },
        }
    }
}

fn unary(op: UnaryOp, ty: Type, a: u64) -> u64 {
    let float = |x: f64| match op {
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Nearest => x.round_ties_even(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        _ => x.trunc(),
    };
    match (op, ty) {
        (UnaryOp::Not, _) => a ^ 1,
        (UnaryOp::AbsInt, Type::I64) => a.cast_signed().wrapping_abs().cast_unsigned(),
        (UnaryOp::AbsInt, _) => u64::from((a as u32).cast_signed().wrapping_abs().cast_unsigned()),
        (_, Type::F64) => float(f64::from_bits(a)).to_bits(),
        // The square root in f64, rounded to f32, is the correctly rounded one.
        _ => u64::from((float(f64::from(f32::from_bits(a as u32))) as f32).to_bits()),
    }
}

fn binary(op: BinaryOp, ty: Type, a: u64, b: u64) -> u64 {
    match ty {
        Type::F32 => {
            let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
            let result = match op {
                BinaryOp::Add => x + y,
                BinaryOp::Sub => x - y,
                BinaryOp::Mul => x * y,
                BinaryOp::Div => x / y,
                BinaryOp::Minimum => tegula_scalar::minimum_f32(x, y),
                BinaryOp::Maximum => tegula_scalar::maximum_f32(x, y),
                BinaryOp::LesserOrSecond if x < y => x,
                BinaryOp::GreaterOrSecond if x > y => x,
                // The product is exact in f64 (whose exponents suffice), then rounded once.
                BinaryOp::UnlessNan if y.is_nan() => f32::from_bits(b as u32 | QUIET),
                BinaryOp::UnlessNan => x,
                BinaryOp::Scale => (f64::from(x) * f64::from(y).exp2()) as f32,
                _ => y,
            };
            u64::from(result.to_bits())
        }
        Type::F64 => {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            let result = match op {
                BinaryOp::Add => x + y,
                BinaryOp::Sub => x - y,
                BinaryOp::Mul => x * y,
                BinaryOp::Div => x / y,
                BinaryOp::Minimum => tegula_scalar::minimum_f64(x, y),
                BinaryOp::Maximum => tegula_scalar::maximum_f64(x, y),
                BinaryOp::LesserOrSecond if x < y => x,
                BinaryOp::GreaterOrSecond if x > y => x,
                BinaryOp::Scale => x * y.exp2(),
                _ => y,
            };
            result.to_bits()
        }
        Type::I64 => integer(op, 64, a, b),
        Type::I32 => integer(op, 32, a, b),
        Type::Mask => integer(op, 1, a, b),
    }
}

fn integer(op: BinaryOp, bits: u32, a: u64, b: u64) -> u64 {
    let up = 64 - bits;
    let signed = |x: u64| (x << up).cast_signed() >> up;
    let all = u64::MAX >> up;
    let in_range = b < u64::from(bits);
    let result = match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::MinSigned => signed(a).min(signed(b)).cast_unsigned(),
        BinaryOp::MaxSigned => signed(a).max(signed(b)).cast_unsigned(),
        BinaryOp::MinUnsigned => a.min(b),
        BinaryOp::MaxUnsigned => a.max(b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::ShiftLeft if in_range => a << b,
        BinaryOp::ShiftRight if in_range => a >> b,
        BinaryOp::RotateLeft => {
            (a << (b % u64::from(bits))) | ((a >> 1) >> (u64::from(bits) - 1 - b % u64::from(bits)))
        }
        BinaryOp::ShiftRightSigned => (signed(a) >> b.min(u64::from(bits - 1))).cast_unsigned(),
        _ => 0,
    };
    result & all
}

fn compare(condition: Condition, ty: Type, a: u64, b: u64) -> bool {
    let order = match ty {
        Type::F32 => f32::from_bits(a as u32).partial_cmp(&f32::from_bits(b as u32)),
        Type::F64 => f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
        _ if matches!(
            condition,
            Condition::LessUnsigned | Condition::LessEqualUnsigned
        ) =>
        {
            Some(a.cmp(&b))
        }
        Type::I64 => Some(a.cast_signed().cmp(&b.cast_signed())),
        _ => Some((a as u32).cast_signed().cmp(&(b as u32).cast_signed())),
    };
    match condition {
        Condition::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
        Condition::NotEqual => !order.is_some_and(std::cmp::Ordering::is_eq),
        Condition::Less | Condition::LessUnsigned => order.is_some_and(std::cmp::Ordering::is_lt),
        Condition::LessEqual | Condition::LessEqualUnsigned => {
            order.is_some_and(std::cmp::Ordering::is_le)
        }
        Condition::Unordered => order.is_none(),
    }
}

/// `Truncate` out of range gives the same as on x86: the smallest number.
fn convert(conversion: Conversion, from: Type, to: Type, a: u64) -> u64 {
    let number = |a: u64| match from {
        Type::F32 => f64::from(f32::from_bits(a as u32)),
        _ => f64::from_bits(a),
    };
    let signed = match from {
        Type::I32 => i64::from((a as u32).cast_signed()),
        _ => a.cast_signed(),
    };
    let float = |x: f64| match to {
        Type::F64 => x.to_bits(),
        _ => u64::from((x as f32).to_bits()),
    };
    match conversion {
        Conversion::Bits => a,
        Conversion::Truncate => {
            let x = number(a).trunc();
            let (limit, smallest) = match to {
                Type::I64 => (9_223_372_036_854_775_808.0, 1 << 63),
                _ => (2_147_483_648.0, 1 << 31),
            };
            if x >= -limit && x < limit {
                cut(to, (x as i64).cast_unsigned())
            } else {
                smallest
            }
        }
        // A 64-bit integer is rounded once to either type.
        Conversion::FromSigned if to == Type::F32 => u64::from((signed as f32).to_bits()),
        Conversion::FromSigned => (signed as f64).to_bits(),
        Conversion::FromUnsigned if to == Type::F32 => u64::from((a as f32).to_bits()),
        Conversion::FromUnsigned => (a as f64).to_bits(),
        Conversion::Float => float(number(a)),
        Conversion::ExtendSigned => signed.cast_unsigned(),
        Conversion::ExtendUnsigned => a,
        Conversion::Low => a & u64::from(u32::MAX),
        Conversion::FromHalf => u64::from(f16::from_bits(a as u16).to_f32().to_bits()),
        Conversion::RoundHalf => {
            let half = f16::from_f32(f32::from_bits(a as u32));
            u64::from(half.to_f32().to_bits())
        }
        Conversion::ToHalf => u64::from(f16::from_f32(f32::from_bits(a as u32)).to_bits()),
    }
}
