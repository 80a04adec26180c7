//! Every second to fourth element: loads of neighbours, from which lanes are picked. A gather
//! takes a vector of 16 lanes some 24 cycles, whatever it reads.

use super::assembler::{Out, Source};
use super::opcodes::Size;
use super::select::Select;
use super::set::InstructionSet;
use crate::vector::body::{Body, Every, Op, Statement, V};
use iced_x86::Code;
use regalloc2::VReg;

/// What a block of statements has loaded, and what it has computed for that.
#[derive(Default)]
pub(super) struct Loaded {
    /// By address, access where its blocks are not whole, vector in flight, distance, part.
    parts: Vec<((VReg, Option<u32>, usize, u32, u32), VReg)>,
    /// Which elements there are, by whether blocks are whole, vector in flight, distance, part.
    masks: Vec<((bool, usize, u32, u32), VReg)>,
    /// The first lane's element, in units of a size, by distance.
    starts: Vec<(u32, (VReg, u32))>,
}

/// What a gather reads, if it is loads and picks with this set of instructions.
pub(super) fn read(
    set: InstructionSet,
    body: &Body,
    access: u32,
    index: V,
    mask: Option<V>,
) -> Option<Every> {
    let every = body.every(index)?;
    let storage = body.accesses[access as usize].storage;
    let fits = (2..=4).contains(&every.stride) && every.first < every.stride;
    let plain = set == InstructionSet::Avx512 && !body.is_wide() && storage.bytes == 4;
    // What is not of whole blocks begins at its own element.
    let placed = every.first == 0 || body.blocks.contains(&access);
    (fits && plain && placed && mask.is_none()).then_some(every)
}

/// Values that nothing but such reads would use: their indices.
pub(super) fn unneeded(set: InstructionSet, body: &Body) -> Vec<bool> {
    let mut used = vec![false; body.values.len()];
    for reduction in &body.reductions {
        used[reduction.value.0 as usize] = true;
    }
    mark(&body.statements, &mut used);
    // Operands come before what is computed from them.
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

/// What statements use that define nothing.
fn mark(statements: &[Statement], used: &mut [bool]) {
    for statement in statements {
        let mut uses = |v: &V| used[v.0 as usize] = true;
        match statement {
            Statement::Define(_) => {}
            Statement::Store {
                value, index, mask, ..
            } => [value].into_iter().chain(index).chain(mask).for_each(uses),
            Statement::StorePair { halves, mask, .. } => halves.iter().chain(mask).for_each(uses),
            Statement::Rare(rare) => {
                let ends = rare.init.iter().chain(&rare.next);
                ends.chain([&rare.mask]).for_each(uses);
            }
            Statement::Loop(l) => {
                l.init.iter().chain(&l.next).for_each(&mut uses);
                mark(&l.body, used);
            }
        }
    }
}

/// Lanes of a vector.
const LANES: u32 = 16;

impl Select<'_> {
    /// A gather that [`read`] says is loads and picks.
    pub(super) fn strided(&mut self, access: u32, every: Every, u: usize) -> Option<VReg> {
        let Every { stride, first } = every;
        let mut picked = self.part(access, (stride, 0), u)?;
        for part in 1..stride {
            let loaded = self.part(access, (stride, part), u)?;
            let selection = self.selection((0..LANES).map(|lane| {
                let element = lane * stride + first;
                match element / LANES {
                    at if at == part => LANES + element % LANES,
                    0 if part == 1 => element,
                    _ => lane,
                }
            }));
            picked = self.pick(selection, [picked, loaded]);
        }
        Some(picked)
    }

    /// One of the vectors that hold what the lanes of a vector read and what is between.
    fn part(&mut self, access: u32, (stride, part): (u32, u32), u: usize) -> Option<VReg> {
        let whole = self.body.blocks.contains(&access);
        let base = self.pointers[access as usize];
        let key = (base, (!whole).then_some(access), u, stride, part);
        if let Some(&(_, known)) = self.loaded.parts.iter().find(|(k, _)| *k == key) {
            return Some(known);
        }
        let mask = self.part_mask(whole, (stride, part), u)?;
        let elements = LANES * (u as u32 * stride + part);
        let place = Source::Memory {
            base,
            index: Some(self.start(stride)),
            displacement: 4 * elements as i32,
        };
        let register = self.asm.vector();
        let target = Out {
            register,
            size: Size::Zmm,
            mask: mask.map(|mask| (mask, true)),
        };
        let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
        self.asm.op(code, target, &[(place, Size::R64)], None);
        self.loaded.parts.push((key, register));
        Some(register)
    }

    /// The elements of such a vector that belong to lanes there are: of whole blocks all that
    /// are in one, else up to the one that the last lane reads.
    fn part_mask(
        &mut self,
        whole: bool,
        (stride, part): (u32, u32),
        u: usize,
    ) -> Option<Option<VReg>> {
        let elements = LANES * part..LANES * (part + 1);
        let Some(left) = self.left.filter(|_| self.tails.is_some()) else {
            let last = stride * (LANES - 1);
            let inside = |element: u32| u16::from(whole || element <= last);
            let lanes = elements.rev().fold(0, |bits, e| bits << 1 | inside(e));
            return Some((lanes != u16::MAX).then(|| self.constant_lanes(lanes)));
        };
        let key = (whole, u, stride, part);
        if let Some(&(_, known)) = self.loaded.masks.iter().find(|(k, _)| *k == key) {
            return Some(Some(known));
        }
        let first = LANES * u as u32;
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

    /// The first lane's element: a number, and the bytes that it counts.
    fn start(&mut self, stride: u32) -> (VReg, u32) {
        let known = self.loaded.starts.iter().find(|(of, _)| *of == stride);
        if let Some(&(_, start)) = known {
            return start;
        }
        let start = match stride {
            2 => (self.lane, 8),
            _ => {
                let place = Source::Memory {
                    base: self.lane,
                    index: Some((self.lane, if stride == 3 { 2 } else { 1 })),
                    displacement: 0,
                };
                (self.asm.address(place), if stride == 3 { 4 } else { 8 })
            }
        };
        self.loaded.starts.push((stride, start));
        start
    }
}
