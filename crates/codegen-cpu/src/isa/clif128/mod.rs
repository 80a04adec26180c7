//! Lowers SIMD bodies to 128-bit Cranelift vectors, which every machine can run.
//!
//! Four lanes are computed at a time: one vector of 32-bit lanes or two of 64-bit ones. The
//! remaining lanes at the end run once through the same code with a mask; memory is then accessed
//! lane by lane.

mod arithmetic;
mod conversions;
pub(crate) mod half_precision;
mod masks;
mod memory;
pub(crate) mod vector_bits;

use crate::clif::counted_loop::CountedLoop;
use crate::error::Error;
use crate::simd::ir::{BinaryOp, Body, Loop, Op, Rare, Statement, Type, V, identity};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, BlockArg, InstBuilder, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::FunctionBuilder;
use smallvec::{SmallVec, smallvec};

/// The vectors of one value: one, or two for 64-bit lanes. A mask is one vector of 32-bit lanes
/// with all bits set or none.
type Parts = SmallVec<[Value; 2]>;

/// One iteration of a loop: computes the next carried values from the counter and the carried
/// values.
type Turn<'t, E> = &'t mut dyn FnMut(&mut E, Value, &[Value]) -> Result<Vec<Value>, Error>;

/// The number of lanes of a vector.
const LANES: i64 = 4;

/// Features that only some machines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Fused multiply-add.
    pub fused: bool,
    /// Conversions between vectors of 64-bit floats and integers: AArch64 has them, x86-64 without
    /// AVX-512 does not.
    pub converts_wide: bool,
    /// The unroll factor of reductions, with an accumulator for each vector: a single accumulator
    /// would wait for the addition before it, which takes four cycles.
    pub sums: usize,
}

/// The maximum number of values of a body that is unrolled: all values must fit 32 registers.
const SMALL: usize = 12;

/// Emits a body for lanes 0 to `n`; returns the reductions as scalars of their types. `inputs` are
/// 64-bit integers.
pub(crate) fn emit(
    builder: &mut FunctionBuilder<'_>,
    body: &Body,
    inputs: &[Value],
    n: Value,
    machine: Abilities,
) -> Result<Vec<Value>, Error> {
    if inputs.len() != body.inputs.len() {
        return Err(Error::Bug(
            "the number of inputs differs from that of the SIMD body".to_owned(),
        ));
    }
    let safe =
        builder.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3));
    let safe = builder.ins().stack_addr(types::I64, safe, 0);
    let mut emitter = Emitter {
        builder,
        body,
        inputs,
        machine,
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
    machine: Abilities,
    /// An address that may be loaded from.
    safe: Value,
    values: Vec<Parts>,
    /// The address of each access for lane 0, as advanced by the open loops.
    pointers: Vec<Value>,
    /// Counters of the open loops, outermost first.
    counters: Vec<Value>,
    /// The first lane of the vector.
    lane: Value,
    /// At the end of the run: the mask of the lanes below `n`.
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

pub(crate) fn scalar_type(ty: Type) -> ir::Type {
    vector_type(ty).lane_type()
}

fn parts_of(ty: Type) -> usize {
    if ty.is_wide() { 2 } else { 1 }
}

/// Selects groups of `size` bytes of two vectors, by number, for a shuffle.
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

    /// Computes whole vectors, then the remaining lanes under a mask.
    fn run(&mut self, n: Value) -> Result<Vec<Value>, Error> {
        let zero = self.builder.ins().iconst(types::I64, 0);
        let whole = self.builder.ins().band_imm_s(n, -LANES);
        let mut init = Vec::new();
        for r in &self.body.reductions {
            let ty = self.body.type_of(r.value);
            init.extend(self.constant(ty, identity(r.op, ty)));
        }
        let (start, init) = match self.several() {
            1 => (zero, init),
            several => self.lanes_with_sums_of_their_own(n, several, &init)?,
        };
        let state = self.lanes(start, whole, &init, None)?;
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

    /// The unroll factor of the loop over lanes.
    fn several(&self) -> usize {
        let is_small = self.body.values.len() <= SMALL;
        let is_plain = |s: &Statement| matches!(s, Statement::Define(_));
        let sums = !self.body.reductions.is_empty();
        match sums && is_small && self.body.statements.iter().all(is_plain) {
            true => self.machine.sums,
            false => 1,
        }
    }

    /// Computes all lanes that fill whole groups of several vectors, with an accumulator for each
    /// vector of a group. Returns the number of these lanes and the reductions.
    fn lanes_with_sums_of_their_own(
        &mut self,
        n: Value,
        several: usize,
        init: &[Value],
    ) -> Result<(Value, Vec<Value>), Error> {
        let zero = self.builder.ins().iconst(types::I64, 0);
        let step = LANES * several as i64;
        let end = self.builder.ins().band_imm_s(n, -step);
        let sums = init.repeat(several);
        let sums = self.count(zero, end, step, &sums, &mut |e, first, state| {
            let mut next = Vec::with_capacity(state.len());
            for (number, state) in state.chunks(init.len()).enumerate() {
                e.lane = e.builder.ins().iadd_imm_s(first, LANES * number as i64);
                let body = e.body;
                e.statements(&body.statements)?;
                next.extend(e.reduced(state, None)?);
            }
            Ok(next)
        })?;
        // Combines the accumulators in pairs.
        let mut sums: Vec<Vec<Value>> = sums.chunks(init.len()).map(<[Value]>::to_vec).collect();
        while sums.len() > 1 {
            let half = sums.split_off(sums.len() / 2);
            for (sum, other) in sums.iter_mut().zip(half) {
                *sum = self.combined(sum, &other)?;
            }
        }
        Ok((end, sums.concat()))
    }

    /// Combines the reductions of two parts of the lanes.
    fn combined(&mut self, left: &[Value], right: &[Value]) -> Result<Vec<Value>, Error> {
        let (mut left, mut right) = (left, right);
        let mut both = Vec::new();
        for r in &self.body.reductions {
            let ty = self.body.type_of(r.value);
            let ((a, others), (b, more)) =
                (left.split_at(parts_of(ty)), right.split_at(parts_of(ty)));
            (left, right) = (others, more);
            both.extend(self.binary(r.op, ty, &a.into(), &b.into(), None)?);
        }
        Ok(both)
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
            e.reduced(state, mask)
        })
    }

    /// Updates the reductions with a vector's lanes, or with those of a mask.
    fn reduced(&mut self, state: &[Value], mask: Option<Value>) -> Result<Vec<Value>, Error> {
        let body = self.body;
        let mut rest = state;
        let mut next = Vec::new();
        let around = self.builder.srcloc();
        for (number, r) in body.reductions.iter().enumerate() {
            if let Some(origin) = body.origins.reductions.get(number)
                && !around.is_default()
            {
                self.builder.set_srcloc(origin.location());
            }
            let ty = body.type_of(r.value);
            let (these, others) = rest.split_at(parts_of(ty));
            rest = others;
            let value = self.parts(r.value);
            let old: Parts = these.into();
            let mut new = self.binary(r.op, ty, &old, &value, None)?;
            if let Some(mask) = mask {
                new = self.select(mask, ty, &new, &old);
            }
            next.extend(new);
        }
        self.builder.set_srcloc(around);
        Ok(next)
    }

    /// The mask of this vector's lanes below `n`.
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
        let turn = CountedLoop::open(self.builder, begin, end, init);
        let next = body(self, turn.counter, &turn.carried)?;
        Ok(turn.close(self.builder, step, &next).to_vec())
    }

    /// Reduces the lanes of a vector.
    fn horizontal(&mut self, op: BinaryOp, ty: Type, parts: &[Value]) -> Result<Value, Error> {
        let mut parts: Parts = parts.into();
        if let [a, b] = parts[..] {
            let combined = self.binary_part(op, ty, a, b, None)?;
            parts = smallvec![combined];
        }
        let mut lanes = if ty.is_wide() { 2 } else { 4 };
        let mut vector = parts[0];
        // Combines the upper half with the lower one until one lane is left.
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
        let around = self.builder.srcloc();
        for statement in statements {
            // If no source location is set, origins are not recorded.
            if !around.is_default() {
                let origin = self.body.origins.of(statement);
                self.builder.set_srcloc(origin.location());
            }
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
                Statement::StorePair {
                    access,
                    halves,
                    mask,
                } => self.store_pair(*access, *halves, *mask),
                Statement::Loop(l) => self.inner_loop(l)?,
                Statement::Rare(rare) => self.rare(rare)?,
            }
        }
        self.builder.set_srcloc(around);
        Ok(())
    }

    fn rare(&mut self, rare: &Rare) -> Result<(), Error> {
        let asked = self.one(rare.mask);
        let asked = self.builder.ins().vany_true(asked);
        let (inside, after) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(inside);
        let init: Vec<Value> = rare.init.iter().flat_map(|&v| self.parts(v)).collect();
        let results: Vec<Value> = init
            .iter()
            .map(|&v| {
                let ty = self.builder.func.dfg.value_type(v);
                self.builder.append_block_param(after, ty)
            })
            .collect();
        let arguments = |values: &[Value]| -> Vec<BlockArg> {
            values.iter().map(|&v| BlockArg::Value(v)).collect()
        };
        let init = arguments(&init);
        let mut carried = Vec::new();
        if rare.again.is_some() {
            for &v in &results {
                let ty = self.builder.func.dfg.value_type(v);
                carried.push(self.builder.append_block_param(inside, ty));
            }
        }
        let entry: &[BlockArg] = if rare.again.is_some() { &init } else { &[] };
        self.builder.ins().brif(asked, inside, entry, after, &init);
        self.builder.switch_to_block(inside);
        if let Some(again) = &rare.again {
            self.define_flat(&again.carried, &carried);
        }
        for &v in &rare.body {
            let parts = self.define(v)?;
            self.values[v.0 as usize] = parts;
        }
        let next: Vec<Value> = rare.next.iter().flat_map(|&v| self.parts(v)).collect();
        let next = arguments(&next);
        match &rare.again {
            Some(again) => {
                let asked = self.one(again.mask);
                let asked = self.builder.ins().vany_true(asked);
                self.builder.ins().brif(asked, inside, &next, after, &next);
            }
            None => {
                self.builder.ins().jump(after, &next);
            }
        }
        self.builder.switch_to_block(after);
        self.define_flat(&rare.results, &results);
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
            Op::Fma(fused, a, b, c) => {
                let (a, b, c) = (self.parts(a), self.parts(b), self.parts(c));
                (0..a.len())
                    .map(|i| self.multiply_add(fused, a[i], b[i], c[i]))
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
            Op::LoadHalf { access, high, mask } => self.load_half(access, high, mask),
            Op::Gather {
                access,
                index,
                mask,
            } => self.load(access, ty, Some(index), mask),
        })
    }
}
