//! Bodies as 128-bit Cranelift vectors: what every machine can run.
//!
//! Four lanes at a time: one vector of 32-bit lanes or two of 64-bit ones. The
//! lanes that are left at the end run once more through the same code with a
//! mask, where memory is touched lane by lane.

use super::body::{
    BinaryOp, Body, Condition, Conversion, Loop, Op, Statement, Storage, Type, UnaryOp, V, identity,
};
use crate::error::Error;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    self, BlockArg, Endianness, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value,
    types,
};
use cranelift_frontend::FunctionBuilder;
use smallvec::{SmallVec, smallvec};

/// The vectors of one value: one, or two of 64-bit lanes. A mask is one vector of
/// 32-bit lanes, all bits set or none.
type Parts = SmallVec<[Value; 2]>;

/// One turn of a loop: from the counter and what is carried, what is carried on.
type Turn<'t, E> = &'t mut dyn FnMut(&mut E, Value, &[Value]) -> Result<Vec<Value>, Error>;

/// Lanes of a vector.
const LANES: i64 = 4;

/// Emits a body for lanes 0 to `n`; gives the reductions as scalars of their
/// types. `inputs` are 64-bit integers.
pub(crate) fn emit(
    builder: &mut FunctionBuilder<'_>,
    body: &Body,
    inputs: &[Value],
    n: Value,
    fused: bool,
) -> Result<Vec<Value>, Error> {
    if inputs.len() != body.inputs.len() {
        return Err(Error::Bug("a body's inputs are missing".to_owned()));
    }
    let safe =
        builder.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3));
    let safe = builder.ins().stack_addr(types::I64, safe, 0);
    let mut emitter = Emitter {
        builder,
        body,
        inputs,
        fused,
        safe,
        values: vec![Parts::new(); body.values.len()],
        pointers: Vec::new(),
        counters: Vec::new(),
        lane: n,
        tail: None,
    };
    emitter.constants();
    emitter.run(n)
}

struct Emitter<'a, 'f> {
    builder: &'a mut FunctionBuilder<'f>,
    body: &'a Body,
    inputs: &'a [Value],
    fused: bool,
    /// An address that may be loaded from.
    safe: Value,
    values: Vec<Parts>,
    /// The address of each access for lane 0, as the open loops have moved it.
    pointers: Vec<Value>,
    /// Counters of the open loops, outermost first.
    counters: Vec<Value>,
    /// The first lane of the vector.
    lane: Value,
    /// At the end of the run: which lanes there are.
    tail: Option<Value>,
}

fn vector_type(ty: Type) -> ir::Type {
    match ty {
        Type::Mask | Type::I32 => types::I32X4,
        Type::F32 => types::F32X4,
        Type::I64 => types::I64X2,
        Type::F64 => types::F64X2,
    }
}

fn scalar_type(ty: Type) -> ir::Type {
    vector_type(ty).lane_type()
}

fn parts_of(ty: Type) -> usize {
    if ty.is_wide() { 2 } else { 1 }
}

/// Neither aligned nor trapping.
fn memory() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// Bytes of two vectors, by number, that make one.
fn bytes_of(groups: [u8; 4], size: u8) -> [u8; 16] {
    let mut out = [0; 16];
    for (i, byte) in out.iter_mut().enumerate() {
        let i = i as u8;
        *byte = match groups.get(usize::from(i / size)) {
            Some(group) => group + i % size,
            None => 0,
        };
    }
    out
}

impl Emitter<'_, '_> {
    // ---- the run ------------------------------------------------------------

    fn constants(&mut self) {
        for i in 0..self.body.values.len() {
            let (op, ty) = self.body.values[i];
            self.values[i] = match op {
                Op::Const(bits) => self.constant(ty, bits),
                Op::Input(input) => self.splat_input(input, ty),
                _ => continue,
            };
        }
        self.pointers = self
            .body
            .accesses
            .iter()
            .map(|a| self.inputs[a.pointer as usize])
            .collect();
    }

    fn constant(&mut self, ty: Type, bits: u64) -> Parts {
        let bytes: Vec<u8> = match ty {
            Type::Mask if bits != 0 => vec![0xff; 16],
            Type::Mask => vec![0; 16],
            Type::I32 | Type::F32 => (bits as u32).to_le_bytes().repeat(4),
            Type::I64 | Type::F64 => bits.to_le_bytes().repeat(2),
        };
        let handle = self.builder.func.dfg.constants.insert(bytes.into());
        let value = self.builder.ins().vconst(vector_type(ty), handle);
        SmallVec::from_elem(value, parts_of(ty))
    }

    fn splat_input(&mut self, input: u32, ty: Type) -> Parts {
        let bits = self.inputs[input as usize];
        let integer = match ty {
            Type::I64 | Type::F64 => bits,
            _ => self.builder.ins().ireduce(types::I32, bits),
        };
        let integer = match ty {
            Type::Mask => {
                let low = self.builder.ins().band_imm_s(integer, 1);
                self.builder.ins().ineg(low)
            }
            _ => integer,
        };
        let scalar = self.bitcast(scalar_type(ty), integer);
        let value = self.builder.ins().splat(vector_type(ty), scalar);
        SmallVec::from_elem(value, parts_of(ty))
    }

    /// Whole vectors, then what is left under a mask.
    fn run(&mut self, n: Value) -> Result<Vec<Value>, Error> {
        let zero = self.builder.ins().iconst(types::I64, 0);
        let whole = self.builder.ins().band_imm_s(n, -LANES);
        let mut init = Vec::new();
        for r in &self.body.reductions {
            let ty = self.body.type_of(r.value);
            init.extend(self.constant(ty, identity(r.op, ty)));
        }
        let state = self.lanes(zero, whole, &init, None)?;
        let state = self.lanes(whole, n, &state, Some(n))?;
        let mut rest = &state[..];
        let mut results = Vec::new();
        for r in &self.body.reductions {
            let ty = self.body.type_of(r.value);
            let (these, others) = rest.split_at(parts_of(ty));
            rest = others;
            results.push(self.horizontal(r.op, ty, these)?);
        }
        Ok(results)
    }

    fn lanes(
        &mut self,
        begin: Value,
        end: Value,
        init: &[Value],
        tail: Option<Value>,
    ) -> Result<Vec<Value>, Error> {
        self.count(begin, end, LANES, init, &mut |e, lane, state| {
            e.lane = lane;
            if let Some(n) = tail {
                e.tail = Some(e.lanes_below(n));
            }
            let body = e.body;
            let done = e.statements(&body.statements);
            let mask = e.tail.take();
            done?;
            let mut rest = state;
            let mut next = Vec::new();
            for r in &body.reductions {
                let ty = body.type_of(r.value);
                let (these, others) = rest.split_at(parts_of(ty));
                rest = others;
                let value = e.parts(r.value);
                let old: Parts = these.into();
                let mut new = e.binary(r.op, ty, &old, &value, None)?;
                if let Some(mask) = mask {
                    new = e.select(mask, ty, &new, &old);
                }
                next.extend(new);
            }
            Ok(next)
        })
    }

    /// Which of this vector's lanes are below `n`.
    fn lanes_below(&mut self, n: Value) -> Value {
        let left = self.builder.ins().isub(n, self.lane);
        let left = self.builder.ins().ireduce(types::I32, left);
        let left = self.builder.ins().splat(types::I32X4, left);
        let iota = self.iota();
        self.builder.ins().icmp(IntCC::SignedLessThan, iota, left)
    }

    fn iota(&mut self) -> Value {
        let bytes: Vec<u8> = (0..4u32).flat_map(u32::to_le_bytes).collect();
        let handle = self.builder.func.dfg.constants.insert(bytes.into());
        self.builder.ins().vconst(types::I32X4, handle)
    }

    fn count(
        &mut self,
        begin: Value,
        end: Value,
        step: i64,
        init: &[Value],
        body: Turn<'_, Self>,
    ) -> Result<Vec<Value>, Error> {
        let header = self.builder.create_block();
        let inside = self.builder.create_block();
        let exit = self.builder.create_block();
        self.builder.append_block_param(header, types::I64);
        for &value in init {
            let ty = self.builder.func.dfg.value_type(value);
            self.builder.append_block_param(header, ty);
        }
        let arguments: Vec<BlockArg> = std::iter::once(begin)
            .chain(init.iter().copied())
            .map(BlockArg::from)
            .collect();
        self.builder.ins().jump(header, &arguments);
        self.builder.switch_to_block(header);
        let state = self.builder.block_params(header).to_vec();
        let more = self
            .builder
            .ins()
            .icmp(IntCC::SignedLessThan, state[0], end);
        self.builder.ins().brif(more, inside, &[], exit, &[]);
        self.builder.switch_to_block(inside);
        let next = body(self, state[0], &state[1..])?;
        let counter = self.builder.ins().iadd_imm_s(state[0], step);
        let arguments: Vec<BlockArg> = std::iter::once(counter)
            .chain(next)
            .map(BlockArg::from)
            .collect();
        self.builder.ins().jump(header, &arguments);
        self.builder.seal_block(header);
        self.builder.seal_block(inside);
        self.builder.switch_to_block(exit);
        self.builder.seal_block(exit);
        Ok(state[1..].to_vec())
    }

    /// Combines a vector's lanes.
    fn horizontal(&mut self, op: BinaryOp, ty: Type, parts: &[Value]) -> Result<Value, Error> {
        let mut parts: Parts = parts.into();
        if let [a, b] = parts[..] {
            let combined = self.binary_part(op, ty, a, b, None)?;
            parts = smallvec![combined];
        }
        let mut lanes = if ty.is_wide() { 2 } else { 4 };
        let mut vector = parts[0];
        // The upper half onto the lower, until one lane is left.
        while lanes > 1 {
            lanes /= 2;
            let size = 16 / if ty.is_wide() { 2 } else { 4 };
            let mut bytes = [0u8; 16];
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = ((i + lanes * size) % 16) as u8;
            }
            let moved = self.shuffle(vector, vector, bytes);
            let moved = self.bitcast(vector_type(ty), moved);
            vector = self.binary_part(op, ty, vector, moved, None)?;
        }
        Ok(self.builder.ins().extractlane(vector, 0))
    }

    // ---- statements -------------------------------------------------------------

    fn parts(&self, v: V) -> Parts {
        self.values[v.0 as usize].clone()
    }

    fn one(&self, v: V) -> Value {
        self.values[v.0 as usize][0]
    }

    fn statements(&mut self, statements: &[Statement]) -> Result<(), Error> {
        for statement in statements {
            match statement {
                Statement::Define(v) => {
                    let parts = self.define(*v)?;
                    self.values[v.0 as usize] = parts;
                }
                Statement::Store {
                    access,
                    value,
                    index,
                    mask,
                } => self.store(*access, *value, *index, *mask),
                Statement::Loop(l) => self.inner_loop(l)?,
            }
        }
        Ok(())
    }

    fn inner_loop(&mut self, l: &Loop) -> Result<(), Error> {
        let zero = self.builder.ins().iconst(types::I64, 0);
        let trips = self.inputs[l.trips as usize];
        let mut init: Vec<Value> = l
            .steps
            .iter()
            .map(|&(access, _)| self.pointers[access as usize])
            .collect();
        init.extend(l.init.iter().flat_map(|&v| self.parts(v)));
        let last = self.count(zero, trips, 1, &init, &mut |e, counter, state| {
            e.counters.push(counter);
            let (moved, carried) = state.split_at(l.steps.len());
            for (&(access, _), &pointer) in l.steps.iter().zip(moved) {
                e.pointers[access as usize] = pointer;
            }
            e.define_flat(&l.carried, carried);
            e.statements(&l.body)?;
            e.counters.pop();
            let mut next = Vec::with_capacity(state.len());
            for (&(_, step), &pointer) in l.steps.iter().zip(moved) {
                next.push(e.builder.ins().iadd(pointer, e.inputs[step as usize]));
            }
            next.extend(l.next.iter().flat_map(|&v| e.parts(v)));
            Ok(next)
        })?;
        for (&(access, _), &pointer) in l.steps.iter().zip(&init) {
            self.pointers[access as usize] = pointer;
        }
        self.define_flat(&l.results, &last[l.steps.len()..]);
        Ok(())
    }

    fn define_flat(&mut self, vs: &[V], values: &[Value]) {
        let mut rest = values;
        for &v in vs {
            let (these, others) = rest.split_at(parts_of(self.body.type_of(v)));
            self.values[v.0 as usize] = these.into();
            rest = others;
        }
    }

    fn define(&mut self, v: V) -> Result<Parts, Error> {
        let ty = self.body.type_of(v);
        Ok(match self.body.op(v) {
            Op::Const(_) | Op::Input(_) | Op::Carried => self.parts(v),
            Op::Lane => {
                let lane = self.builder.ins().ireduce(types::I32, self.lane);
                let lane = self.builder.ins().splat(types::I32X4, lane);
                let iota = self.iota();
                smallvec![self.builder.ins().iadd(lane, iota)]
            }
            Op::Counter(depth) => {
                let counter = self.counters[depth as usize];
                let counter = self.builder.ins().ireduce(types::I32, counter);
                smallvec![self.builder.ins().splat(types::I32X4, counter)]
            }
            Op::Unary(op, a) => {
                let a = self.parts(a);
                a.iter().map(|&a| self.unary(op, ty, a)).collect()
            }
            Op::Binary(op, a, b) => {
                let constant = match self.body.op(b) {
                    Op::Const(bits) => Some(bits),
                    _ => None,
                };
                let (a, b) = (self.parts(a), self.parts(b));
                self.binary(op, ty, &a, &b, constant)?
            }
            Op::Fma(a, b, c) => {
                let (a, b, c) = (self.parts(a), self.parts(b), self.parts(c));
                (0..a.len())
                    .map(|i| {
                        if self.fused {
                            return self.builder.ins().fma(a[i], b[i], c[i]);
                        }
                        let product = self.builder.ins().fmul(a[i], b[i]);
                        self.builder.ins().fadd(product, c[i])
                    })
                    .collect()
            }
            Op::Compare(condition, a, b) => smallvec![self.compare(condition, a, b)],
            Op::Select(m, a, b) => {
                let (m, a, b) = (self.one(m), self.parts(a), self.parts(b));
                self.select(m, ty, &a, &b)
            }
            Op::Convert(conversion, a) => {
                let from = self.body.type_of(a);
                let a = self.parts(a);
                self.convert(conversion, from, ty, &a)
            }
            Op::Load { access, mask } => self.load(access, ty, None, mask),
            Op::Gather {
                access,
                index,
                mask,
            } => self.load(access, ty, Some(index), mask),
        })
    }

    // ---- arithmetic -----------------------------------------------------------------

    fn bitcast(&mut self, to: ir::Type, value: Value) -> Value {
        let from = self.builder.func.dfg.value_type(value);
        if from == to {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        self.builder.ins().bitcast(to, flags, value)
    }

    /// Bytes of two vectors as another: 0-15 the first's, 16-31 the second's.
    fn shuffle(&mut self, a: Value, b: Value, bytes: [u8; 16]) -> Value {
        let (a, b) = (self.bitcast(types::I8X16, a), self.bitcast(types::I8X16, b));
        let mask = self.builder.func.dfg.immediates.push(bytes.to_vec().into());
        self.builder.ins().shuffle(a, b, mask)
    }

    fn unary(&mut self, op: UnaryOp, ty: Type, a: Value) -> Value {
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

    /// `constant`: the bits of `b`, if it is one.
    fn binary(
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

    fn binary_part(
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
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight | BinaryOp::ShiftRightSigned => {
                self.shift(op, ty, a, b, constant)
            }
        })
    }

    fn choose(&mut self, condition: FloatCC, ty: Type, a: Value, b: Value) -> Value {
        let mask = self.builder.ins().fcmp(condition, a, b);
        let mask = self.bitcast(vector_type(ty), mask);
        self.builder.ins().bitselect(mask, a, b)
    }

    /// The smaller or larger of two integers.
    fn pick(&mut self, less: Condition, ty: Type, a: Value, b: Value, larger: bool) -> Value {
        let mask = self.compare_integers(less, ty, a, b);
        let (yes, no) = if larger { (b, a) } else { (a, b) };
        self.builder.ins().bitselect(mask, yes, no)
    }

    /// Two factors, so that neither leaves the range of exponents.
    fn scale(&mut self, ty: Type, a: Value, b: Value) -> Value {
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

    fn shift(
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

    fn shift_scalar(&mut self, op: BinaryOp, bits: i64, x: Value, amount: Value) -> Value {
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

    // ---- masks ------------------------------------------------------------------------

    fn compare(&mut self, condition: Condition, a: V, b: V) -> Value {
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

    fn compare_integers(&mut self, condition: Condition, ty: Type, a: Value, b: Value) -> Value {
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
    fn narrow(&mut self, parts: &Parts) -> Value {
        let [low, high] = parts[..] else {
            return parts[0];
        };
        let bytes = bytes_of([0, 8, 16, 24], 4);
        let narrow = self.shuffle(low, high, bytes);
        self.bitcast(types::I32X4, narrow)
    }

    fn widen_mask(&mut self, mask: Value, ty: Type) -> Parts {
        if !ty.is_wide() {
            return smallvec![mask];
        }
        smallvec![
            self.builder.ins().swiden_low(mask),
            self.builder.ins().swiden_high(mask)
        ]
    }

    fn select(&mut self, mask: Value, ty: Type, a: &Parts, b: &Parts) -> Parts {
        let masks = self.widen_mask(mask, ty);
        (0..a.len())
            .map(|i| {
                let mask = self.bitcast(vector_type(ty), masks[i]);
                self.builder.ins().bitselect(mask, a[i], b[i])
            })
            .collect()
    }

    /// The mask together with the run's end.
    fn effective(&mut self, mask: Option<V>) -> Option<Value> {
        let mask = mask.map(|m| self.one(m));
        match (mask, self.tail) {
            (Some(a), Some(b)) => Some(self.builder.ins().band(a, b)),
            (a, b) => a.or(b),
        }
    }

    // ---- conversions ------------------------------------------------------------------

    fn convert(&mut self, conversion: Conversion, from: Type, to: Type, a: &Parts) -> Parts {
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
            _ => self.convert_lanes(conversion, from, to, a),
        }
    }

    /// What has no instruction for vectors.
    fn convert_lanes(&mut self, conversion: Conversion, from: Type, to: Type, a: &Parts) -> Parts {
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

    fn place(ty: Type, lane: u8) -> (usize, u8) {
        if ty.is_wide() {
            (usize::from(lane / 2), lane % 2)
        } else {
            (0, lane)
        }
    }

    fn lane_of(&mut self, ty: Type, parts: &Parts, lane: u8) -> Value {
        let (part, lane) = Self::place(ty, lane);
        self.builder.ins().extractlane(parts[part], lane)
    }

    fn set_lane(&mut self, ty: Type, parts: &mut Parts, lane: u8, value: Value) {
        let (part, lane) = Self::place(ty, lane);
        parts[part] = self.builder.ins().insertlane(parts[part], value, lane);
    }

    // ---- memory -----------------------------------------------------------------------

    /// The address of the vector's first lane.
    fn address(&mut self, access: u32) -> Value {
        let a = self.body.accesses[access as usize];
        let pointer = self.pointers[access as usize];
        if a.splat {
            return pointer;
        }
        let shift = i64::from(a.storage.bytes.trailing_zeros());
        let offset = self.builder.ins().ishl_imm_s(self.lane, shift);
        self.builder.ins().iadd(pointer, offset)
    }

    /// The address of one lane.
    fn lane_address(&mut self, access: u32, index: Option<V>, lane: u8) -> Value {
        let a = self.body.accesses[access as usize];
        let bytes = i64::from(a.storage.bytes);
        match index {
            None if a.splat => self.pointers[access as usize],
            None => {
                let first = self.address(access);
                self.builder
                    .ins()
                    .iadd_imm_s(first, bytes * i64::from(lane))
            }
            Some(index) => {
                let index = self.one(index);
                let index = self.builder.ins().extractlane(index, lane);
                let index = self.builder.ins().sextend(types::I64, index);
                let offset = self
                    .builder
                    .ins()
                    .ishl_imm_s(index, i64::from(bytes.trailing_zeros()));
                self.builder
                    .ins()
                    .iadd(self.pointers[access as usize], offset)
            }
        }
    }

    fn load(&mut self, access: u32, ty: Type, index: Option<V>, mask: Option<V>) -> Parts {
        let a = self.body.accesses[access as usize];
        if index.is_none() && a.splat && mask.is_none() {
            let address = self.address(access);
            let scalar = self.load_scalar(a.storage, ty, address);
            let value = self.builder.ins().splat(vector_type(ty), scalar);
            return SmallVec::from_elem(value, parts_of(ty));
        }
        let mask = self.effective(mask);
        match mask {
            None if index.is_none() => self.load_all(access, ty),
            Some(mask) if index.is_none() && !a.splat && self.tail.is_none() => {
                self.load_all_or_lanes(access, ty, mask)
            }
            _ => self.load_lanes(access, ty, index, mask),
        }
    }

    /// At once where all lanes load.
    fn load_all_or_lanes(&mut self, access: u32, ty: Type, mask: Value) -> Parts {
        let [all, some, join] = [(); 3].map(|()| self.builder.create_block());
        for _ in 0..parts_of(ty) {
            self.builder.append_block_param(join, vector_type(ty));
        }
        let full = self.builder.ins().vall_true(mask);
        self.builder.ins().brif(full, all, &[], some, &[]);
        for block in [all, some] {
            self.builder.switch_to_block(block);
            self.builder.seal_block(block);
            let parts = match block == all {
                true => self.load_all(access, ty),
                false => self.load_lanes(access, ty, None, Some(mask)),
            };
            let parts: Vec<BlockArg> = parts.into_iter().map(BlockArg::from).collect();
            self.builder.ins().jump(join, &parts);
        }
        self.builder.switch_to_block(join);
        self.builder.seal_block(join);
        self.builder.block_params(join).into()
    }

    fn load_all(&mut self, access: u32, ty: Type) -> Parts {
        let a = self.body.accesses[access as usize];
        let address = self.address(access);
        match a.storage.bytes {
            1 => smallvec![self.load_bytes(address, a.storage.signed)],
            2 if a.storage.signed => {
                smallvec![self.builder.ins().sload16x4(memory(), address, 0)]
            }
            2 => smallvec![self.builder.ins().uload16x4(memory(), address, 0)],
            _ => (0..parts_of(ty))
                .map(|i| {
                    self.builder
                        .ins()
                        .load(vector_type(ty), memory(), address, 16 * i as i32)
                })
                .collect(),
        }
    }

    fn load_bytes(&mut self, address: Value, signed: bool) -> Value {
        let word = self.builder.ins().load(types::I32, memory(), address, 0);
        let vector = self.builder.ins().scalar_to_vector(types::I32X4, word);
        let bytes = self.bitcast(types::I8X16, vector);
        if signed {
            let halves = self.builder.ins().swiden_low(bytes);
            return self.builder.ins().swiden_low(halves);
        }
        let halves = self.builder.ins().uwiden_low(bytes);
        self.builder.ins().uwiden_low(halves)
    }

    fn load_scalar(&mut self, storage: Storage, ty: Type, address: Value) -> Value {
        let narrow = match storage.bytes {
            1 => types::I8,
            2 => types::I16,
            _ => {
                return self
                    .builder
                    .ins()
                    .load(scalar_type(ty), memory(), address, 0);
            }
        };
        let value = self.builder.ins().load(narrow, memory(), address, 0);
        if storage.signed {
            self.builder.ins().sextend(types::I32, value)
        } else {
            self.builder.ins().uextend(types::I32, value)
        }
    }

    /// Lane by lane; a lane that must not load does so from elsewhere, and is 0.
    fn load_lanes(
        &mut self,
        access: u32,
        ty: Type,
        index: Option<V>,
        mask: Option<Value>,
    ) -> Parts {
        let storage = self.body.accesses[access as usize].storage;
        let zero = self.constant(ty, 0);
        let mut out = zero.clone();
        for lane in 0..LANES as u8 {
            let mut address = self.lane_address(access, index, lane);
            if let Some(mask) = mask {
                let bit = self.builder.ins().extractlane(mask, lane);
                address = self.builder.ins().select(bit, address, self.safe);
            }
            let value = self.load_scalar(storage, ty, address);
            self.set_lane(ty, &mut out, lane, value);
        }
        match mask {
            Some(mask) => self.select(mask, ty, &out, &zero),
            None => out,
        }
    }

    fn store(&mut self, access: u32, value: V, index: Option<V>, mask: Option<V>) {
        let storage = self.body.accesses[access as usize].storage;
        let ty = self.body.type_of(value);
        let parts = self.parts(value);
        let mask = self.effective(mask);
        match mask {
            None if index.is_none() => self.store_all(access, storage, &parts),
            Some(mask) if index.is_none() && self.tail.is_none() => {
                let [all, some, join] = [(); 3].map(|()| self.builder.create_block());
                let full = self.builder.ins().vall_true(mask);
                self.builder.ins().brif(full, all, &[], some, &[]);
                self.builder.switch_to_block(all);
                self.builder.seal_block(all);
                self.store_all(access, storage, &parts);
                self.builder.ins().jump(join, &[]);
                self.builder.switch_to_block(some);
                self.builder.seal_block(some);
                self.store_lanes(access, ty, &parts, None, Some(mask));
                self.builder.ins().jump(join, &[]);
                self.builder.switch_to_block(join);
                self.builder.seal_block(join);
            }
            _ => self.store_lanes(access, ty, &parts, index, mask),
        }
    }

    fn store_all(&mut self, access: u32, storage: Storage, parts: &Parts) {
        let address = self.address(access);
        match storage.bytes {
            1 => {
                let packed = self.shuffle(parts[0], parts[0], bytes_of([0, 4, 8, 12], 1));
                let packed = self.bitcast(types::I32X4, packed);
                let word = self.builder.ins().extractlane(packed, 0);
                self.builder.ins().store(memory(), word, address, 0);
            }
            2 => {
                let packed = self.shuffle(parts[0], parts[0], bytes_of([0, 4, 8, 12], 2));
                let packed = self.bitcast(types::I64X2, packed);
                let word = self.builder.ins().extractlane(packed, 0);
                self.builder.ins().store(memory(), word, address, 0);
            }
            _ => {
                for (i, &part) in parts.iter().enumerate() {
                    self.builder
                        .ins()
                        .store(memory(), part, address, 16 * i as i32);
                }
            }
        }
    }

    fn store_lanes(
        &mut self,
        access: u32,
        ty: Type,
        parts: &Parts,
        index: Option<V>,
        mask: Option<Value>,
    ) {
        let storage = self.body.accesses[access as usize].storage;
        for lane in 0..LANES as u8 {
            let address = self.lane_address(access, index, lane);
            let value = self.lane_of(ty, parts, lane);
            let done = self.builder.create_block();
            if let Some(mask) = mask {
                let bit = self.builder.ins().extractlane(mask, lane);
                let there = self.builder.create_block();
                self.builder.ins().brif(bit, there, &[], done, &[]);
                self.builder.switch_to_block(there);
                self.builder.seal_block(there);
            }
            let value = match storage.bytes {
                1 => self.builder.ins().ireduce(types::I8, value),
                2 => self.builder.ins().ireduce(types::I16, value),
                _ => value,
            };
            self.builder.ins().store(memory(), value, address, 0);
            self.builder.ins().jump(done, &[]);
            self.builder.switch_to_block(done);
            self.builder.seal_block(done);
        }
    }
}
