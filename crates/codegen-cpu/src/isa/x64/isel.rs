//! Instruction selection: a body's loops, masks and unrolling.
//!
//! Each operation is emitted for several vectors in turn (unrolling). Uniform values are computed
//! once, before the loops. Constants are stored after the code, and read by memory operands (with
//! broadcast) where an instruction allows it.

mod reduce;
pub(super) mod strided_access;

use self::reduce::{Part, parts};
use self::strided_access::{Loaded, groups, unneeded};
use super::assembler::{Assembler, Out, Source};
use super::features::InstructionSet;
use super::inst::Taken;
use super::opcodes::Size;
use super::unroll_factor::{SHORT, has_loops, in_flight};
use crate::simd::ir::{Access, BinaryOp, Body, Conversion, Loop, Op, Rare, Statement, Type, V};
use crate::simd::row_addressing::RowsIn;
use iced_x86::Code;
use regalloc2::{Block, VReg};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The registers of one value, one for each vector of the unrolled loop.
pub(super) type Copies = SmallVec<[VReg; 4]>;

/// Loaded elements of eight bytes.
pub(super) struct Pairs {
    pub(super) access: u32,
    pub(super) mask: Option<V>,
    /// For each vector of the unrolled loop.
    pub(super) vectors: Vec<SmallVec<[VReg; 2]>>,
}

pub(super) struct Select<'b> {
    pub(super) set: InstructionSet,
    pub(super) body: &'b Body,
    pub(super) asm: Assembler,
    pub(super) slots: VReg,
    pub(super) n: VReg,
    /// The number of lanes of a vector.
    pub(super) lanes: i32,
    /// The unroll factor: vectors that are computed together.
    pub(super) unroll: usize,
    /// The registers of uniform values.
    pub(super) shared: Vec<Option<VReg>>,
    /// For each value, whether it is uniform.
    pub(super) invariant: Vec<bool>,
    pub(super) copies: Vec<Copies>,
    pub(super) pointers: Vec<VReg>,
    pub(super) words: Vec<Option<VReg>>,
    pub(super) counters: Vec<VReg>,
    /// The first lane of the first vector.
    pub(super) lane: VReg,
    /// The masks of existing lanes, unless all are known to exist.
    pub(super) tails: Option<Copies>,
    /// Index vectors that select lanes, by their offset in the constant pool.
    pub(super) selections: FxHashMap<u32, VReg>,
    /// Small arrays in registers, by the input that holds their address.
    pub(super) arrays: FxHashMap<u32, VReg>,
    /// The pairs that were loaded last, whose other halves may be needed next.
    pub(super) pairs: Option<Pairs>,
    /// The number of remaining lanes from the first vector on, broadcast, unless all lanes are
    /// known to exist.
    pub(super) left: Option<VReg>,
    /// The strided elements that the current block has loaded.
    pub(super) loaded: Loaded,
    /// Values that only strided loads would use.
    pub(super) unneeded: Vec<bool>,
    /// Values that are the same in all lanes.
    pub(super) same: Vec<bool>,
    /// Accesses that store past the caches; their elements have the same offset in a cache line.
    pub(super) streamed: &'b [u32],
    /// Whether the current loop stores past the caches: its first lane is at the start of a line.
    pub(super) streams: bool,
    /// Whether the current code is rarely executed: its constants are then made there, not before
    /// the loops.
    pub(super) in_rare: bool,
}

/// Selects the instructions of a body; `None` if an operation has none.
pub(super) fn select(
    set: InstructionSet,
    (body, streamed): (&Body, &[u32]),
    lanes_at_most: Option<i64>,
    rows: RowsIn<'_>,
) -> Option<Assembler> {
    let (asm, [slots, n, count]) = Assembler::new();
    let mut select = Select {
        set,
        body,
        asm,
        slots,
        n,
        lanes: set.lanes(body.is_wide()),
        unroll: 1,
        shared: vec![None; body.values.len()],
        invariant: body.invariants(),
        copies: vec![Copies::new(); body.values.len()],
        pointers: Vec::new(),
        words: vec![None; body.inputs.len()],
        counters: Vec::new(),
        lane: slots,
        tails: None,
        selections: FxHashMap::default(),
        arrays: FxHashMap::default(),
        pairs: None,
        left: None,
        loaded: Loaded::default(),
        unneeded: unneeded(set, body),
        same: body.same_in_lanes(),
        streamed,
        streams: false,
        in_rare: false,
    };
    match rows {
        RowsIn::One => select.row(lanes_at_most)?,
        RowsIn::Slots => select.rows(count, lanes_at_most)?,
        RowsIn::Turns(turns) => select.turns(turns, count, lanes_at_most)?,
    }
    if !streamed.is_empty() {
        // A thread that is notified of the rows' completion must see the stored values.
        select.asm.effect(Code::Sfence, &[], None);
    }
    select.asm.ret();
    Some(select.asm)
}

impl Select<'_> {
    // ---- loops over the lanes -----------------------------------------------------

    /// Computes all lanes of a row and its reductions.
    pub(super) fn row(&mut self, lanes_at_most: Option<i64>) -> Option<()> {
        self.asm.origin = self.body.origins.lanes;
        self.find_pointers();
        let mut unroll = in_flight(self.set, self.body, lanes_at_most);
        let parts = parts(self.set, self.body);
        let mut state = self.identities(&parts)?;
        let mut start = self.asm.number(0);
        if let Some(&first) = self.streamed.first() {
            state = self.streaming_loops(first, (&parts, state), unroll)?;
            return self.reductions(&parts, &state);
        }
        let two = self.body.size() <= SHORT && unroll > 1 && !has_loops(self.body);
        if two || self.goes_by_lanes() {
            (start, state) = self.lanes_loop(start, (&parts, &state), unroll, false)?;
            unroll = 1;
        }
        (_, state) = self.lanes_loop(start, (&parts, &state), unroll, true)?;
        self.reductions(&parts, &state)
    }

    /// Computes all lanes, with non-temporal stores of whole groups of vectors, from the first lane
    /// at which an access's cache line begins. One masked loop computes the lanes before that and
    /// the remaining lanes:
    ///
    /// ```text
    /// to the first line, or the end: masked
    /// while that was not the end:
    ///     whole groups, then whole vectors, past the caches
    ///     to the end: masked
    /// ```
    fn streaming_loops(
        &mut self,
        access: u32,
        (parts, state): (&[Part], Vec<VReg>),
        unroll: usize,
    ) -> Option<Vec<VReg>> {
        let n = self.n;
        let bytes = self.body.accesses[access as usize].storage.bytes;
        let pointer = self.pointers[access as usize];
        let lead = self.asm.elements_to_line(pointer, bytes);
        let mut init = vec![self.asm.number(0), self.asm.smaller(lead, n)];
        init.extend(state);
        let params: Vec<VReg> = init.iter().map(|v| self.asm.register(v.class())).collect();
        let again = self.asm.block(&params);
        self.asm.jump(again, &init);
        self.asm.switch_to(again);
        let (start, end) = (params[0], params[1]);
        self.n = end;
        let (_, state) = self.lanes_loop(start, (parts, &params[2..]), 1, true)?;
        self.n = n;
        // In the order in which they are reached, as the allocator's checker requires.
        let [whole, exit] = [self.asm.block(&[]), self.asm.block(&[])];
        self.asm.compare(end, n);
        self.asm.branch(Taken::GreaterEqual, exit, whole);
        self.asm.switch_to(whole);
        self.streams = true;
        let (mut next, mut after) = self.lanes_loop(end, (parts, &state), unroll, false)?;
        if unroll > 1 {
            (next, after) = self.lanes_loop(next, (parts, &after), 1, false)?;
        }
        self.streams = false;
        let next: Vec<VReg> = [next, n].into_iter().chain(after).collect();
        self.asm.jump(again, &next);
        self.asm.switch_to(exit);
        Some(state)
    }

    /// Computes the base address of each access.
    pub(super) fn find_pointers(&mut self) {
        for access in &self.body.accesses {
            let pointer = self.word(access.pointer);
            self.pointers.push(pointer);
        }
    }

    /// Whether masked loads or stores are scalarised: AVX2 has no masked accesses to narrow
    /// elements.
    fn goes_by_lanes(&self) -> bool {
        let narrow = |a: &Access| a.storage.bytes < 4 && !a.splat;
        self.set == InstructionSet::Avx2 && self.body.accesses.iter().any(narrow)
    }

    /// Computes lanes from `start` on: only whole groups of vectors or, if `masked`, all remaining
    /// ones. Returns the first lane that was not computed, and the reductions.
    fn lanes_loop(
        &mut self,
        start: VReg,
        (parts, state): (&[Part], &[VReg]),
        unroll: usize,
        masked: bool,
    ) -> Option<(VReg, Vec<VReg>)> {
        self.unroll = unroll;
        self.copies.fill(Copies::new());
        self.pairs = None;
        let group = self.lanes * unroll as i32;
        let limit = match masked {
            true => self.n,
            false => self.asm.sum(self.n, None, -group),
        };
        // The first vector continues from the state, the others start from the identity.
        let mut init = vec![start];
        for (i, (part, &value)) in parts.iter().zip(state).enumerate() {
            let copies = part.copies(unroll);
            let fresh = match copies {
                1 => value,
                _ => self.identities(parts)?[i],
            };
            init.push(value);
            init.extend((1..copies).map(|_| fresh));
        }
        let params: Vec<VReg> = init.iter().map(|v| self.asm.register(v.class())).collect();
        let [header, inside, exit] = self.three_blocks(&params);
        self.asm.jump(header, &init);
        self.asm.switch_to(header);
        self.asm.compare(params[0], limit);
        let done = if masked {
            Taken::GreaterEqual
        } else {
            Taken::Greater
        };
        self.asm.branch(done, exit, inside);
        self.asm.switch_to(inside);
        self.lane = params[0];
        self.loaded = Loaded::default();
        self.tails = match masked {
            true => Some(self.tail_masks()?),
            false => None,
        };
        let body = self.body;
        self.statements(&body.statements)?;
        let mut next = vec![self.asm.sum(self.lane, None, group)];
        let mut state = &params[1..];
        for part in parts {
            let (copies, others) = state.split_at(part.copies(unroll));
            next.extend(self.accumulate(part, copies)?);
            state = others;
        }
        self.asm.jump(header, &next);
        self.asm.switch_to(exit);
        let mut results = Vec::new();
        let mut state = &params[1..];
        for part in parts {
            let (copies, others) = state.split_at(part.copies(unroll));
            state = others;
            let mut total = copies[0];
            for &copy in &copies[1..] {
                total = self.combined(part, total, Source::Register(copy))?;
            }
            results.push(total);
        }
        Some((params[0], results))
    }

    pub(super) fn three_blocks(&mut self, params: &[VReg]) -> [Block; 3] {
        [
            self.asm.block(params),
            self.asm.block(&[]),
            self.asm.block(&[]),
        ]
    }

    /// The lane numbers of vector `u` in a group.
    pub(super) fn iota(&mut self, u: usize) -> Source {
        let first = self.lanes * u as i32;
        let bytes: Vec<u8> = (first..first + self.lanes)
            .flat_map(i32::to_le_bytes)
            .collect();
        Source::Pool {
            offset: self.asm.constant(&bytes),
            broadcast: false,
        }
    }

    // ---- statements ------------------------------------------------------------------

    pub(super) fn statements(&mut self, statements: &[Statement]) -> Option<()> {
        let groups = groups(self.set, self.body, statements);
        let around = self.asm.origin;
        for (i, statement) in statements.iter().enumerate() {
            if !matches!(statement, Statement::Define(_)) {
                self.pairs = None;
            }
            self.asm.origin = self.body.origins.of(statement);
            match statement {
                Statement::Define(v) => self.define(*v)?,
                Statement::Store { .. }
                    if let Some(group) = groups.iter().find(|g| g.stores.contains(&i)) =>
                {
                    if group.stores.last() == Some(&i) {
                        self.interleave(group)?;
                        self.loaded = Loaded::default();
                    }
                }
                Statement::Store {
                    access,
                    value,
                    index,
                    mask,
                } => {
                    for u in 0..self.unroll {
                        self.store(*access, *value, *index, *mask, u)?;
                    }
                    self.loaded = Loaded::default();
                }
                Statement::StorePair {
                    access,
                    halves,
                    mask,
                } => {
                    for u in 0..self.unroll {
                        self.store_pair(*access, *halves, *mask, u)?;
                    }
                    self.loaded = Loaded::default();
                }
                Statement::Loop(l) => {
                    self.loaded = Loaded::default();
                    self.inner_loop(l)?;
                    self.loaded = Loaded::default();
                }
                Statement::Rare(rare) => {
                    self.rare(rare)?;
                    self.loaded = Loaded::default();
                }
            }
            if !matches!(statement, Statement::Define(_)) {
                self.pairs = None;
            }
        }
        self.asm.origin = around;
        Some(())
    }

    /// A rare case: computed for all vectors of the unrolled loop if a lane of one needs it.
    fn rare(&mut self, rare: &Rare) -> Option<()> {
        let asked = self.asked(rare.mask)?;
        let mut init = Vec::new();
        for &v in &rare.init {
            for u in 0..self.unroll {
                init.push(self.get(v, u)?);
            }
        }
        let results: Vec<VReg> = init.iter().map(|v| self.asm.register(v.class())).collect();
        let [common, inside] = [self.asm.block(&[]), self.asm.block(&[])];
        let after = self.asm.block(&results);
        self.asm.is_cold(inside);
        self.any(asked);
        self.asm.branch(Taken::NotZero, inside, common);
        self.asm.switch_to(common);
        self.asm.jump(after, &init);
        self.asm.switch_to(inside);
        let mut round = None;
        if let Some(again) = &rare.again {
            let carried: Vec<VReg> = init.iter().map(|v| self.asm.register(v.class())).collect();
            let start = self.asm.block(&carried);
            self.asm.is_cold(start);
            self.asm.jump(start, &init);
            self.asm.switch_to(start);
            for (v, copies) in again.carried.iter().zip(carried.chunks(self.unroll)) {
                self.copies[v.0 as usize] = copies.into();
            }
            round = Some((again.mask, start));
        }
        self.in_rare = true;
        for u in 0..self.unroll {
            for &v in &rare.body {
                let i = v.0 as usize;
                if !self.invariant[i] && !self.unneeded[i] {
                    let register = self.computed(v, u)?;
                    self.copies[v.0 as usize].push(register);
                }
            }
        }
        let mut next = Vec::new();
        for &v in &rare.next {
            for u in 0..self.unroll {
                next.push(self.get(v, u)?);
            }
        }
        if let Some((mask, start)) = round {
            let asked = self.asked(mask)?;
            let [back, out] = [self.asm.block(&[]), self.asm.block(&[])];
            self.asm.is_cold(back);
            self.asm.is_cold(out);
            self.any(asked);
            self.asm.branch(Taken::NotZero, back, out);
            self.asm.switch_to(back);
            self.asm.jump(start, &next);
            self.asm.switch_to(out);
        }
        self.in_rare = false;
        self.asm.jump(after, &next);
        self.asm.switch_to(after);
        for (v, copies) in rare.results.iter().zip(results.chunks(self.unroll)) {
            self.copies[v.0 as usize] = copies.into();
        }
        Some(())
    }

    /// The lanes of all vectors of the unrolled loop that need a rare case.
    fn asked(&mut self, mask: V) -> Option<VReg> {
        let mut asked = self.get(mask, 0)?;
        for u in 1..self.unroll {
            let more = Source::Register(self.get(mask, u)?);
            asked = self.mask_op(BinaryOp::Or, asked, more)?;
        }
        Some(asked)
    }

    fn define(&mut self, v: V) -> Option<()> {
        let i = v.0 as usize;
        if self.invariant[i] || self.unneeded[i] {
            // Emitted when it is needed, or never.
            return Some(());
        }
        let mut copies = Copies::new();
        for u in 0..self.unroll {
            copies.push(self.computed(v, u)?);
        }
        self.copies[i] = copies;
        Some(())
    }

    fn inner_loop(&mut self, l: &Loop) -> Option<()> {
        let trips = self.word(l.trips);
        let steps: Vec<VReg> = l.steps.iter().map(|&(_, step)| self.word(step)).collect();
        let mut init = vec![self.asm.number(0)];
        init.extend(l.steps.iter().map(|&(a, _)| self.pointers[a as usize]));
        for &v in &l.init {
            for u in 0..self.unroll {
                init.push(self.get(v, u)?);
            }
        }
        let params: Vec<VReg> = init.iter().map(|v| self.asm.register(v.class())).collect();
        let [header, inside, exit] = self.three_blocks(&params);
        self.asm.jump(header, &init);
        self.asm.switch_to(header);
        self.asm.compare(params[0], trips);
        self.asm.branch(Taken::GreaterEqual, exit, inside);
        self.asm.switch_to(inside);
        let (moved, carried) = params[1..].split_at(l.steps.len());
        let saved = self.pointers.clone();
        for (&(access, _), &pointer) in l.steps.iter().zip(moved) {
            self.pointers[access as usize] = pointer;
        }
        for (v, copies) in l.carried.iter().zip(carried.chunks(self.unroll)) {
            self.copies[v.0 as usize] = copies.into();
        }
        self.counters.push(params[0]);
        self.statements(&l.body)?;
        self.counters.pop();
        let mut next = vec![self.asm.sum(params[0], None, 1)];
        for (&pointer, &step) in moved.iter().zip(&steps) {
            next.push(self.asm.sum(pointer, Some(step), 0));
        }
        for &v in &l.next {
            for u in 0..self.unroll {
                next.push(self.get(v, u)?);
            }
        }
        self.asm.jump(header, &next);
        self.asm.switch_to(exit);
        self.pointers = saved;
        for (v, copies) in l.results.iter().zip(carried.chunks(self.unroll)) {
            self.copies[v.0 as usize] = copies.into();
        }
        Some(())
    }

    // ---- operations ------------------------------------------------------------------

    pub(super) fn computed(&mut self, v: V, u: usize) -> Option<VReg> {
        let around = std::mem::replace(&mut self.asm.origin, self.body.origins.value(v));
        let register = self.operation(v, u);
        self.asm.origin = around;
        register
    }

    fn operation(&mut self, v: V, u: usize) -> Option<VReg> {
        let ty = self.body.type_of(v);
        let form = self.form(ty);
        match self.body.op(v) {
            Op::Const(_) | Op::Input(_) | Op::Carried => self.get(v, u),
            Op::Lane => {
                let first = self.splat_register(self.lane, form)?;
                let iota = self.iota(u);
                self.binary(BinaryOp::Add, Type::I32, first, iota)
            }
            Op::Counter(depth) => {
                let counter = *self.counters.get(depth as usize)?;
                self.splat_register(counter, form)
            }
            Op::Unary(op, a) => self.unary_op(op, ty, a, u),
            Op::Binary(op, a, b) => self.binary_op(op, ty, a, b, u),
            Op::Fma(fused, a, b, c) => self.fma(form, fused, [a, b, c], u),
            Op::Compare(condition, a, b) => {
                let ty = self.body.type_of(a);
                let a = self.get(a, u)?;
                let b = self.source(b, u)?;
                self.compared(condition, ty, a, b)
            }
            Op::Select(mask, yes, no) => {
                let mask = self.get(mask, u)?;
                let no = self.get(no, u)?;
                let yes = self.source(yes, u)?;
                self.blend(ty, mask, yes, no)
            }
            Op::Convert(Conversion::Bits, a) => self.get(a, u),
            Op::Convert(conversion, a) => self.converted(conversion, ty, a, u),
            Op::Load { access, mask } => self.load(access, ty, mask, u),
            Op::LoadHalf { access, high, mask } => self.load_half(access, high, mask, u),
            Op::Gather {
                access,
                index,
                mask,
            } => self.gather(access, ty, index, mask, u),
        }
    }
}

/// A result without a mask.
pub(super) fn out(register: VReg, size: Size) -> Out {
    Out {
        register,
        size,
        mask: None,
    }
}
