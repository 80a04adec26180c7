//! Strided accesses of every second, third, fourth, eighth or sixteenth element: contiguous loads
//! from which lanes are extracted, and contiguous stores into which they are inserted. A gather or
//! scatter of 16 lanes takes as long as 16 loads, wherever the elements are.

use super::Select;
use crate::isa::x64::assembler::{Out, Source};
use crate::isa::x64::features::InstructionSet;
use crate::isa::x64::opcodes::{LOAD, STORE, Size, narrow, widen};
use crate::simd::ir::{BinaryOp, Body, Every, Op, Statement, Type, V};
use iced_x86::Code;
use regalloc2::VReg;
use smallvec::SmallVec;

/// Identifies loads: the address, the access unless its blocks are whole, and the vector of the
/// unrolled loop.
type Key = (VReg, Option<u32>, usize);

/// Identifies a vector of every second element: the stride, level and first element, and its
/// number.
type Half = (Key, (u32, u32, u32), u32);

/// The vectors that a block of statements has loaded and computed for strided accesses.
#[derive(Default)]
pub(in crate::isa::x64) struct Loaded {
    /// Loaded vectors, by stride and part.
    parts: Vec<((Key, u32, u32), VReg)>,
    /// Vectors of every second element, by stride, level and first element, and number.
    halves: Vec<(Half, VReg)>,
    /// Masks of existing elements, by whether blocks are whole, vector of the unrolled loop, stride
    /// and part.
    masks: Vec<((bool, usize, u32, u32), VReg)>,
    /// The first lane's element, by stride: a register and the bytes of its unit.
    starts: Vec<(u32, (VReg, u32))>,
}

/// The elements that a gather reads, if this instruction set implements it by contiguous loads and
/// shuffles.
pub(in crate::isa::x64) fn read(
    set: InstructionSet,
    body: &Body,
    access: u32,
    index: V,
    mask: Option<V>,
) -> Option<Every> {
    let every = unmasked(set, body, index, mask)?;
    let bytes = body.accesses[access as usize].storage.bytes;
    let lane_bytes = if body.is_wide() { 8 } else { 4 };
    let whole = body.blocks.contains(&access);
    let fits = match bytes < 4 {
        // Whole blocks of two or four bytes.
        true => whole && lane_bytes == 4 && matches!(every.stride * bytes, 2 | 4),
        false => bytes == lane_bytes && matches!(every.stride, 2 | 3 | 4 | 8 | 16),
    };
    // An access without whole blocks begins at its own element.
    let placed = every.first == 0 || whole;
    (fits && placed).then_some(every)
}

/// The elements that a scatter writes, if the group of scatters that it belongs to may become
/// contiguous stores: those that would be read so, and narrow ones whose neighbours are joined to
/// words.
fn written(
    set: InstructionSet,
    body: &Body,
    access: u32,
    index: V,
    mask: Option<V>,
) -> Option<Every> {
    let bytes = body.accesses[access as usize].storage.bytes;
    if bytes >= 4 {
        return read(set, body, access, index, mask);
    }
    let every = unmasked(set, body, index, mask)?;
    (matches!(every.stride, 2 | 4 | 8) && !body.is_wide()).then_some(every)
}

/// The elements at an index, if they are one of each block, no mask leaves any out, and there are
/// instructions to shuffle them.
fn unmasked(set: InstructionSet, body: &Body, index: V, mask: Option<V>) -> Option<Every> {
    let every = body.every(index)?;
    let is_plain = set == InstructionSet::Avx512 && mask.is_none();
    (is_plain && every.first < every.stride).then_some(every)
}

/// For each value, whether no emitted instruction uses it, because strided loads replace the
/// gathers whose index it computes.
pub(in crate::isa::x64) fn unneeded(set: InstructionSet, body: &Body) -> Vec<bool> {
    let mut used = vec![false; body.values.len()];
    for reduction in &body.reductions {
        used[reduction.value.0 as usize] = true;
    }
    mark(set, body, &body.statements, &mut used);
    // Operands come before the values that are computed from them.
    for i in (0..body.values.len()).rev() {
        let op = body.values[i].0;
        let is_index = op == Op::Lane || body.every(V(i as u32)).is_some();
        if is_index && !used[i] {
            continue;
        }
        used[i] = true;
        match op {
            Op::Gather {
                access,
                index,
                mask,
            } if read(set, body, access, index, mask).is_some() => {}
            _ => op.operands().iter().for_each(|v| used[v.0 as usize] = true),
        }
    }
    used.into_iter().map(|used| !used).collect()
}

/// Marks the values used by statements other than definitions.
fn mark(set: InstructionSet, body: &Body, statements: &[Statement], used: &mut [bool]) {
    let groups = groups(set, body, statements);
    for (i, statement) in statements.iter().enumerate() {
        let mut uses = |v: &V| used[v.0 as usize] = true;
        match statement {
            Statement::Define(_) => {}
            Statement::Store { value, .. } if groups.iter().any(|g| g.stores.contains(&i)) => {
                uses(value);
            }
            Statement::Store {
                value, index, mask, ..
            } => [value].into_iter().chain(index).chain(mask).for_each(uses),
            Statement::StorePair { halves, mask, .. } => halves.iter().chain(mask).for_each(uses),
            Statement::Rare(rare) => {
                let ends = rare.init.iter().chain(&rare.next);
                let again = rare.again.iter().map(|again| &again.mask);
                ends.chain([&rare.mask]).chain(again).for_each(uses);
            }
            Statement::Loop(l) => {
                l.init.iter().chain(&l.next).for_each(&mut uses);
                mark(set, body, &l.body, used);
            }
        }
    }
}

/// A group of strided stores that together write contiguous elements.
pub(in crate::isa::x64) struct Group {
    pub access: u32,
    /// Their indices among the statements.
    pub stores: SmallVec<[usize; 4]>,
    /// The stored values, by their position in a block of elements.
    pub values: SmallVec<[V; 4]>,
}

/// The groups of stores in a block without reads of memory in between.
pub(in crate::isa::x64) fn groups(
    set: InstructionSet,
    body: &Body,
    statements: &[Statement],
) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut open: Option<(u32, Group)> = None;
    for (i, statement) in statements.iter().enumerate() {
        match *statement {
            Statement::Define(v) if !reads_memory(body.op(v)) => continue,
            Statement::Store {
                access,
                value,
                index: Some(index),
                mask,
            } if body.blocks.contains(&access) => {
                let Some(every) = written(set, body, access, index, mask) else {
                    open = None;
                    continue;
                };
                if every.first == 0 {
                    let group = Group {
                        access,
                        stores: SmallVec::new(),
                        values: SmallVec::new(),
                    };
                    open = Some((every.stride, group));
                }
                let next = open.take().filter(|(stride, group)| {
                    (group.access, *stride) == (access, every.stride)
                        && group.values.len() == every.first as usize
                });
                if let Some((stride, mut group)) = next {
                    group.stores.push(i);
                    group.values.push(value);
                    match group.values.len() == stride as usize {
                        true => groups.push(group),
                        false => open = Some((stride, group)),
                    }
                }
            }
            _ => open = None,
        }
    }
    groups
}

fn reads_memory(op: Op) -> bool {
    matches!(
        op,
        Op::Load { .. } | Op::LoadHalf { .. } | Op::Gather { .. }
    )
}

impl Select<'_> {
    /// The lanes of a vector, which has 64 bytes.
    fn strided_lanes(&self) -> u32 {
        self.lanes() as u32
    }

    /// The bytes of a lane.
    fn strided_bytes(&self) -> u32 {
        64 / self.strided_lanes()
    }

    /// The index vector that selects lanes of two vectors; those of the second follow the first's.
    fn selection_of_lanes(&mut self, lanes: impl Fn(u32) -> u32) -> VReg {
        let words = self.strided_bytes() / 4;
        self.selection((0..16).map(|word| lanes(word / words) * words + word % words))
    }

    /// A gather for which [`read`] returns the elements.
    pub(in crate::isa::x64) fn strided(
        &mut self,
        access: u32,
        every: Every,
        u: usize,
    ) -> Option<VReg> {
        let Every { stride, first } = every;
        if self.body.accesses[access as usize].storage.bytes < 4 {
            return self.narrow_of_blocks(access, every, u);
        }
        if stride != 3 {
            let levels = stride.trailing_zeros();
            return self.halved(access, (stride, levels, first), 0, u);
        }
        let lanes = self.strided_lanes();
        let mut picked = self.part(access, (stride, 0), u)?;
        for part in 1..stride {
            let loaded = self.part(access, (stride, part), u)?;
            let selection = self.selection_of_lanes(|lane| {
                let element = lane * stride + first;
                match element / lanes {
                    at if at == part => lanes + element % lanes,
                    0 if part == 1 => element,
                    _ => lane,
                }
            });
            picked = self.pick(selection, [picked, loaded]);
        }
        Some(picked)
    }

    /// Loads strided narrow elements: for each lane the block of two or four bytes that contains its
    /// element, which is then shifted into place.
    fn narrow_of_blocks(&mut self, access: u32, every: Every, u: usize) -> Option<VReg> {
        let storage = self.body.accesses[access as usize].storage;
        let bytes = storage.bytes * every.stride;
        let key = (self.key(access, u), every.stride, 0);
        let known = self.loaded.parts.iter().find(|(k, _)| *k == key);
        let blocks = match known {
            Some(&(_, known)) => known,
            None => {
                let form = self.form(Type::I32);
                let code = match bytes {
                    4 => LOAD.of(form)?,
                    _ => widen(bytes, false, form)?,
                };
                let place = self.place_of_blocks(access, bytes, u);
                let register = self.asm.vector();
                let target = Out {
                    register,
                    size: form.size(),
                    mask: self.effective(None, u)?.map(|mask| (mask, true)),
                };
                self.asm.op(code, target, &[(place, Size::R64)], None);
                self.loaded.parts.push((key, register));
                register
            }
        };
        // To the top of the lane, then to the bottom.
        let above = 32 - 8 * storage.bytes * (every.first + 1);
        let unused = 32 - 8 * storage.bytes;
        let top = match above {
            0 => blocks,
            _ => {
                let blocks = Source::Register(blocks);
                self.shifted(BinaryOp::ShiftLeft, Type::I32, blocks, above as i32)?
            }
        };
        let down = match storage.signed {
            true => BinaryOp::ShiftRightSigned,
            false => BinaryOp::ShiftRight,
        };
        self.shifted(down, Type::I32, Source::Register(top), unused as i32)
    }

    /// The memory operand of a vector's contiguous blocks of this size.
    fn place_of_blocks(&self, access: u32, bytes: u32, u: usize) -> Source {
        Source::Memory {
            base: self.pointers[access as usize],
            index: Some((self.lane, bytes)),
            displacement: self.lanes() * u as i32 * bytes as i32,
        }
    }

    /// Vector `at` of the elements whose numbers equal `first` modulo a power of two. It takes
    /// every second element of two vectors that were built for half that power.
    fn halved(
        &mut self,
        access: u32,
        (stride, levels, first): (u32, u32, u32),
        at: u32,
        u: usize,
    ) -> Option<VReg> {
        let Some(level) = levels.checked_sub(1) else {
            return self.part(access, (stride, at), u);
        };
        let key = (self.key(access, u), (stride, levels, first), at);
        if let Some(&(_, known)) = self.loaded.halves.iter().find(|(k, _)| *k == key) {
            return Some(known);
        }
        let odd = first >> level;
        let of = (stride, level, first & !(1 << level));
        let low = self.halved(access, of, 2 * at, u)?;
        let high = self.halved(access, of, 2 * at + 1, u)?;
        let selection = self.selection_of_lanes(|lane| 2 * lane + odd);
        let picked = self.pick(selection, [low, high]);
        self.loaded.halves.push((key, picked));
        Some(picked)
    }

    /// Emits the stores of a group as contiguous stores.
    pub(in crate::isa::x64) fn interleave(&mut self, group: &Group) -> Option<()> {
        for u in 0..self.unroll {
            let values: Option<Vec<VReg>> = group.values.iter().map(|&v| self.get(v, u)).collect();
            let mut values = values?;
            let mut bytes = self.body.accesses[group.access as usize].storage.bytes;
            while bytes < 4 && values.len() > 1 {
                values = self.words_of(&values, bytes)?;
                bytes *= 2;
            }
            if let [one] = values[..] {
                self.store_blocks(group.access, (one, bytes), u)?;
                continue;
            }
            let stride = values.len() as u32;
            let parts = match stride {
                3 => self.threes(&values),
                _ => self.interleaved_halves(values),
            };
            for (part, value) in (0..).zip(parts) {
                let mask = self.part_mask(true, (stride, part), u)?;
                let place = self.part_place(group.access, (stride, part), u);
                let sources = [(place, Size::R64), (Source::Register(value), Size::Zmm)];
                let code = match self.strided_bytes() {
                    4 => Code::EVEX_Vmovups_zmmm512_k1z_zmm,
                    _ => Code::EVEX_Vmovupd_zmmm512_k1z_zmm,
                };
                self.asm.effect(code, &sources, mask);
            }
        }
        Some(())
    }

    /// Joins each two neighbouring elements of this size, at the bottom of lanes of 32 bits, to one
    /// of twice the size.
    fn words_of(&mut self, values: &[VReg], bytes: u32) -> Option<Vec<VReg>> {
        let bits = 8 * bytes;
        let low = self.pooled((1 << bits) - 1, Type::I32);
        let pairs = values.chunks_exact(2);
        pairs
            .map(|pair| {
                let first = self.binary(BinaryOp::And, Type::I32, pair[0], low)?;
                let second = Source::Register(pair[1]);
                let second = self.shifted(BinaryOp::ShiftLeft, Type::I32, second, bits as i32)?;
                self.binary(BinaryOp::Or, Type::I32, first, Source::Register(second))
            })
            .collect()
    }

    /// Stores a block of two or four bytes for each lane, contiguously.
    fn store_blocks(&mut self, access: u32, (value, bytes): (VReg, u32), u: usize) -> Option<()> {
        let form = self.form(Type::I32);
        let code = match bytes {
            4 => STORE.of(form)?,
            _ => narrow(bytes, form)?,
        };
        let place = self.place_of_blocks(access, bytes, u);
        let mask = self.effective(None, u)?;
        let sources = [(place, Size::R64), (Source::Register(value), form.size())];
        self.asm.effect(code, &sources, mask);
        Some(())
    }

    /// Interleaves three vectors.
    fn threes(&mut self, values: &[VReg]) -> Vec<VReg> {
        let (stride, lanes) = (values.len() as u32, self.strided_lanes());
        let mut parts = Vec::new();
        for part in 0..stride {
            let mut put = values[0];
            for (from, &value) in (1..).zip(&values[1..]) {
                let selection = self.selection_of_lanes(|lane| {
                    let element = lanes * part + lane;
                    match element % stride {
                        of if of == from => lanes + element / stride,
                        0 if from == 1 => element / stride,
                        _ => lane,
                    }
                });
                put = self.pick(selection, [put, value]);
            }
            parts.push(put);
        }
        parts
    }

    /// Interleaves the vectors, whose number is a power of two. Vector `i` is interleaved with
    /// vector `i + count / 2`, which yields half as many sequences of twice the length; this is
    /// repeated.
    fn interleaved_halves(&mut self, values: Vec<VReg>) -> Vec<VReg> {
        let count = values.len();
        let mut sequences: Vec<Vec<VReg>> = values.into_iter().map(|v| vec![v]).collect();
        let lanes = self.strided_lanes();
        let [low, high] = [0, lanes / 2]
            .map(|first| self.selection_of_lanes(|lane| first + lane / 2 + lanes * (lane % 2)));
        while sequences.len() > 1 {
            let half = sequences.len() / 2;
            let (lower, upper) = sequences.split_at(half);
            let mut longer = Vec::with_capacity(half);
            for (a, b) in lower.iter().zip(upper) {
                let mut sequence = Vec::with_capacity(count);
                for (&a, &b) in a.iter().zip(b) {
                    sequence.push(self.pick(low, [a, b]));
                    sequence.push(self.pick(high, [a, b]));
                }
                longer.push(sequence);
            }
            sequences = longer;
        }
        sequences.into_iter().flatten().collect()
    }

    /// The key of loads: see [`Key`].
    fn key(&self, access: u32, u: usize) -> Key {
        let whole = self.body.blocks.contains(&access);
        let base = self.pointers[access as usize];
        (base, (!whole).then_some(access), u)
    }

    /// The memory operand of one of the vectors that contain all of the lanes' blocks.
    fn part_place(&mut self, access: u32, (stride, part): (u32, u32), u: usize) -> Source {
        let elements = self.strided_lanes() * (u as u32 * stride + part);
        Source::Memory {
            base: self.pointers[access as usize],
            index: Some(self.start(stride)),
            displacement: (self.strided_bytes() * elements) as i32,
        }
    }

    /// Loads one of the vectors that contain the elements of a vector's lanes and those in between.
    fn part(&mut self, access: u32, (stride, part): (u32, u32), u: usize) -> Option<VReg> {
        let key = (self.key(access, u), stride, part);
        if let Some(&(_, known)) = self.loaded.parts.iter().find(|(k, _)| *k == key) {
            return Some(known);
        }
        let whole = self.body.blocks.contains(&access);
        let mask = self.part_mask(whole, (stride, part), u)?;
        let place = self.part_place(access, (stride, part), u);
        let register = self.asm.vector();
        let target = Out {
            register,
            size: Size::Zmm,
            mask: mask.map(|mask| (mask, true)),
        };
        let code = match self.strided_bytes() {
            4 => Code::EVEX_Vmovups_zmm_k1z_zmmm512,
            _ => Code::EVEX_Vmovupd_zmm_k1z_zmmm512,
        };
        self.asm.op(code, target, &[(place, Size::R64)], None);
        self.loaded.parts.push((key, register));
        Some(register)
    }

    /// The mask of elements in such a vector that belong to existing lanes: whole blocks if the
    /// access has these, else up to the element of the last lane.
    fn part_mask(
        &mut self,
        whole: bool,
        (stride, part): (u32, u32),
        u: usize,
    ) -> Option<Option<VReg>> {
        let lanes = self.strided_lanes();
        let elements = lanes * part..lanes * (part + 1);
        let Some(left) = self.left.filter(|_| self.tails.is_some()) else {
            let last = stride * (lanes - 1);
            let inside = |element: u32| u16::from(whole || element <= last);
            let all = u16::MAX >> (16 - lanes);
            let bits = elements.rev().fold(0, |bits, e| (bits << 1) | inside(e));
            return Some((bits != all).then(|| self.constant_lanes(bits)));
        };
        let key = (whole, u, stride, part);
        if let Some(&(_, known)) = self.loaded.masks.iter().find(|(k, _)| *k == key) {
            return Some(Some(known));
        }
        let first = lanes * u as u32;
        let lane = |element: u32| match whole {
            true => first + element / stride,
            false => first + element.div_ceil(stride),
        };
        let bytes: Vec<u8> = elements.flat_map(|e| lane(e).to_le_bytes()).collect();
        let lanes = Source::Pool {
            offset: self.asm.constant(&bytes),
            broadcast: false,
        };
        let mask = self.above(left, lanes)?;
        self.loaded.masks.push((key, mask));
        Some(Some(mask))
    }

    /// The first lane's element: a register, and the bytes of its unit.
    fn start(&mut self, stride: u32) -> (VReg, u32) {
        let known = self.loaded.starts.iter().find(|(of, _)| *of == stride);
        if let Some(&(_, start)) = known {
            return start;
        }
        let bytes = self.strided_bytes();
        let start = match stride {
            3 => {
                let times = Source::Memory {
                    base: self.lane,
                    index: Some((self.lane, 2)),
                    displacement: 0,
                };
                (self.asm.address(times), bytes)
            }
            // A power of two.
            _ => {
                let mut start = self.lane;
                for _ in 0..(stride * bytes / 8).trailing_zeros() {
                    start = self.asm.sum(start, Some(start), 0);
                }
                (start, 8)
            }
        };
        self.loaded.starts.push((stride, start));
        start
    }
}
