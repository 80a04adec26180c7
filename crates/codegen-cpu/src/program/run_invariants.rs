//! Run invariants: results that depend only on constants and frozen parameters are computed by the
//! first run and kept.
//!
//! A step whose operands are all *fixed* (constants, frozen parameters, results of such
//! steps) gives the same in every run, wherever in the program it is: no step of a plan has
//! another effect than its results, but for those that [`is_pure`] leaves out. Its results
//! get memory of their own, which nothing writes again, so what the plan has at their place
//! (values that share it, steps that work in place) does not matter to them. What a run
//! makes of a kept value under the same address is a copy: values that are kept are written
//! by one step only, and are no results of the program.
//!
//! A product that would pack a fixed operand in each run has the packed form kept instead.
//! What only such steps read is not kept after the first run.

use super::effects::{Touch, span, touches};
use super::ir::{Action, Area, Location};
use crate::library::call::Call;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{Mutex, OnceLock, PoisonError};
use tegula_custom_call::is_built_in;
use tegula_fusion::LibraryOp;
use tegula_ir::{AlignedBytes, Op};
use tegula_linalg::gemm::PackedLayout;
use tegula_plan::{Place, Plan, Step, ValueId};

/// Bytes that a step over constants alone reads and writes from which on its results are
/// kept: nobody has asked for it, and it takes memory.
const WORTH_KEEPING: i64 = 1 << 14;

/// What a fixed value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Constants,
    /// A frozen parameter, perhaps among others.
    Frozen,
}

/// What is kept of a plan at the sizes of a run.
#[derive(Default)]
pub(crate) struct Kept {
    /// Where the values lie that no run computes.
    places: FxHashMap<ValueId, Location>,
    fixed: FxHashMap<ValueId, Origin>,
    /// Whether constants alone are reason to keep anything.
    constants: bool,
    /// The bytes of each kept memory.
    bytes: Vec<usize>,
    /// Packed operands: what was packed, how, and which memory has it.
    packed: Vec<(Location, Vec<PackedLayout>, usize)>,
    /// What fills the memories, in order.
    pub actions: Vec<Action>,
}

/// Whether a routine gives the same for the same operands, and does nothing else.
fn is_pure(op: &LibraryOp) -> bool {
    match op {
        LibraryOp::Dot(_) | LibraryOp::Sort { .. } => true,
        LibraryOp::Operation(op) => match &**op {
            Op::CustomCall(call) => is_built_in(&call.target) && !call.has_side_effect,
            Op::Convolution { .. }
            | Op::Fft { .. }
            | Op::Cholesky { .. }
            | Op::TriangularSolve { .. }
            | Op::TopK { .. } => true,
            _ => false,
        },
    }
}

impl Kept {
    /// Finds the values of a plan without open sizes that no run has to compute, where
    /// these parameters are frozen. Constants alone are reason enough if the program has
    /// one size: else each size would keep its own.
    pub(crate) fn new(plan: &Plan, frozen: &[bool], one_size: bool) -> Self {
        let mut kept = Self {
            constants: one_size,
            ..Self::default()
        };
        for (value, declared) in &plan.values {
            let origin = match plan.buffers[declared.buffer].place {
                Place::Constant(_) => Origin::Constants,
                Place::Parameter(i) if frozen.get(i) == Some(&true) => Origin::Frozen,
                _ => continue,
            };
            kept.fixed.insert(value, origin);
        }
        if !kept.fixed.is_empty() {
            let finder = Finder {
                plan,
                once: written_once(plan),
            };
            finder.steps(&plan.steps, &mut kept);
        }
        kept
    }

    /// Where a kept value lies.
    pub(crate) fn place(&self, value: ValueId) -> Option<Location> {
        self.places.get(&value).copied()
    }

    /// Whether a step's results are kept.
    pub(crate) fn keeps(&self, plan: &Plan, step: &Step) -> bool {
        if self.places.is_empty() || !step.blocks().is_empty() {
            return false;
        }
        let mut touched = Vec::new();
        touches(plan, step, &mut touched);
        let mut written = touched.iter().filter(|t| t.writes);
        written.any(|touch| self.places.contains_key(&touch.value))
    }

    /// Which of two operands of a routine is fixed, if one is that is worth packing once.
    pub(crate) fn fixed_operand(&self, plan: &Plan, operands: &[ValueId]) -> Option<usize> {
        let fixed = |i: usize| {
            let value = *operands.get(i)?;
            let origin = *self.fixed.get(&value)?;
            let bytes = plan.values[value].shape.byte_size().unwrap_or(0);
            self.is_worth(origin, 2 * bytes).then_some(i)
        };
        fixed(1).or_else(|| fixed(0))
    }

    fn is_worth(&self, origin: Origin, bytes: i64) -> bool {
        origin == Origin::Frozen || self.constants && bytes >= WORTH_KEEPING
    }

    /// The memory with the packed form of an operand that a call packs once, packed by a new
    /// action if no other call's is the same.
    pub(crate) fn packed(&mut self, call: &Call, source: Location) -> Option<Location> {
        let (_, bytes) = call.kept_bytes()?;
        let layouts = call.kept_layouts();
        let same = |(at, known, _): &&(Location, Vec<PackedLayout>, usize)| {
            *at == source && *known == layouts
        };
        if let Some(&(_, _, slot)) = self.packed.iter().find(same) {
            return Some(kept_at(slot));
        }
        let target = self.memory(bytes);
        if let Area::Kept(slot) = target.area {
            self.packed.push((source, layouts, slot));
        }
        self.actions.push(Action::Pack {
            call: Box::new(call.clone()),
            from: source,
            to: target,
        });
        Some(target)
    }

    /// A new memory.
    fn memory(&mut self, bytes: usize) -> Location {
        self.bytes.push(bytes);
        kept_at(self.bytes.len() - 1)
    }

    /// The bytes of the arena that steps still use, if these values lie elsewhere.
    pub(crate) fn arena_bytes(
        &self,
        plan: &Plan,
        planned: i64,
        elsewhere: &FxHashSet<ValueId>,
    ) -> i64 {
        if self.places.is_empty() && elsewhere.is_empty() {
            return planned;
        }
        let mut touched = Vec::new();
        for step in plan.steps.iter().filter(|step| !self.keeps(plan, step)) {
            touches(plan, step, &mut touched);
        }
        let values: FxHashSet<ValueId> = touched.iter().map(|t| t.value).collect();
        let end = |value: ValueId| {
            let end = span(plan, value)?.end_in_arena();
            end.filter(|_| !self.places.contains_key(&value) && !elsewhere.contains(&value))
        };
        let most = values.into_iter().filter_map(end).max().unwrap_or(0);
        i64::try_from(most).map_or(planned, |most| most.min(planned))
    }

    /// The memories, of which those that the actions of runs name stay.
    pub(crate) fn into_memories(self, runs: &mut [Action]) -> Memories {
        let mut stays = vec![false; self.bytes.len()];
        for action in runs {
            action.each_location(&mut |location| {
                if let Area::Kept(slot) = location.area {
                    stays[slot] = true;
                }
            });
        }
        Memories {
            wanted: self.bytes.into_iter().zip(stays).collect(),
            actions: self.actions,
            ..Memories::default()
        }
    }
}

fn kept_at(slot: usize) -> Location {
    Location {
        area: Area::Kept(slot),
        offset: 0,
    }
}

/// The values that one step of a plan writes.
fn written_once(plan: &Plan) -> FxHashSet<ValueId> {
    let mut touched: Vec<Touch> = Vec::new();
    for step in &plan.steps {
        touches(plan, step, &mut touched);
    }
    let mut counts: FxHashMap<ValueId, u32> = FxHashMap::default();
    for touch in touched.iter().filter(|t| t.writes) {
        *counts.entry(touch.value).or_default() += 1;
    }
    let once = counts.into_iter().filter(|&(_, count)| count == 1);
    once.map(|(value, _)| value).collect()
}

/// Finds the steps whose results are kept.
struct Finder<'a> {
    plan: &'a Plan,
    once: FxHashSet<ValueId>,
}

impl Finder<'_> {
    /// Steps of loops too: what an iteration makes of fixed values is made once. A branch
    /// may never be taken, so that its steps are not looked at.
    fn steps(&self, steps: &[Step], kept: &mut Kept) {
        for step in steps {
            match step {
                Step::While {
                    condition, body, ..
                } => {
                    self.steps(condition, kept);
                    self.steps(body, kept);
                }
                // What strips share out is not kept.
                Step::Conditional { .. } | Step::Strips { .. } => {}
                Step::Kernel { .. } | Step::Library { .. } | Step::Copy { .. } => {
                    self.step(step, kept);
                }
            }
        }
    }

    fn step(&self, step: &Step, kept: &mut Kept) -> Option<()> {
        if let Step::Library { op, .. } = step
            && !is_pure(op)
        {
            return None;
        }
        let mut touched = Vec::new();
        touches(self.plan, step, &mut touched);
        let (written, read): (Vec<Touch>, Vec<Touch>) = touched.iter().partition(|t| t.writes);
        let origins: Option<Vec<Origin>> = (read.iter())
            .map(|touch| kept.fixed.get(&touch.value).copied())
            .collect();
        let origin = match origins?.contains(&Origin::Frozen) {
            true => Origin::Frozen,
            false => Origin::Constants,
        };
        if !written.iter().all(|touch| self.can_move(touch)) {
            return None;
        }
        if let Step::Copy { from, to } = step {
            // The same bytes under another name.
            let place = kept
                .place(*from)
                .or_else(|| Some(span(self.plan, *from)?.place()))?;
            kept.places.insert(*to, place);
            kept.fixed.insert(*to, origin);
            return Some(());
        }
        let bytes = self.worth(&read, &written)?;
        if !kept.is_worth(origin, bytes) {
            return None;
        }
        for touch in &written {
            let shape = &self.plan.values[touch.value].shape;
            let bytes = usize::try_from(shape.byte_size()?).ok()?;
            let memory = kept.memory(bytes);
            kept.places.insert(touch.value, memory);
            kept.fixed.insert(touch.value, origin);
        }
        Some(())
    }

    /// Whether what a step writes can lie elsewhere than the plan says.
    fn can_move(&self, touch: &Touch) -> bool {
        let value = &touch.value;
        let own = !self.plan.results.contains(value) && !self.plan.parameters.contains(value);
        touch.whole && own && self.once.contains(value)
    }

    /// The bytes that a step reads and writes, if what it writes is no larger than the arrays
    /// it is made from: to keep a number that is repeated is dearer than to repeat it.
    fn worth(&self, read: &[Touch], written: &[Touch]) -> Option<i64> {
        let sum = |touches: &[Touch], of: &dyn Fn(ValueId) -> Option<i64>| {
            let mut each = touches.iter().map(|touch| of(touch.value));
            each.try_fold(0i64, |sum, n| sum.checked_add(n?))
        };
        let elements = |value: ValueId| self.plan.values[value].shape.element_count();
        let of_arrays = |value: ValueId| elements(value).map(|n| if n > 1 { n } else { 0 });
        let bytes = |value: ValueId| self.plan.values[value].shape.byte_size();
        let pays = sum(written, &elements)? <= sum(read, &of_arrays)?;
        let bytes = sum(read, &bytes)?.checked_add(sum(written, &bytes)?)?;
        pays.then_some(bytes)
    }
}

/// Memory that the first run fills.
#[derive(Default)]
pub(crate) struct Memories {
    /// The bytes of each, and whether runs read it: else it is there while the others are
    /// filled.
    wanted: Vec<(usize, bool)>,
    /// What fills them.
    pub actions: Vec<Action>,
    filled: OnceLock<Vec<AlignedBytes>>,
    filling: Mutex<()>,
}

impl Memories {
    /// The bytes that stay.
    pub(crate) fn bytes(&self) -> i64 {
        let stay = self.wanted.iter().filter(|(_, stays)| *stays);
        let bytes: usize = stay.map(|(bytes, _)| *bytes).sum();
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }

    /// The memories, which `fill` fills if nobody has.
    ///
    /// # Errors
    /// There is not so much memory (with how many bytes), or what `fill` says.
    pub(crate) fn get<E>(
        &self,
        no_memory: impl FnOnce(i64) -> E,
        fill: impl FnOnce(&[Action], Vec<*mut u8>) -> Result<(), E>,
    ) -> Result<&[AlignedBytes], E> {
        if let Some(filled) = self.filled.get() {
            return Ok(filled);
        }
        // Runs that come meanwhile wait: what they need is being made.
        let filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(filled) = self.filled.get() {
            return Ok(filled);
        }
        let mut memories = Vec::with_capacity(self.wanted.len());
        for &(bytes, _) in &self.wanted {
            match AlignedBytes::try_zeroed(bytes) {
                Some(memory) => memories.push(memory),
                None => return Err(no_memory(i64::try_from(bytes).unwrap_or(i64::MAX))),
            }
        }
        let addresses = memories.iter_mut().map(|m| m.as_mut_slice().as_mut_ptr());
        fill(&self.actions, addresses.collect())?;
        for (memory, (_, stays)) in memories.iter_mut().zip(&self.wanted) {
            if !stays {
                *memory = AlignedBytes::default();
            }
        }
        let filled = self.filled.get_or_init(|| memories);
        drop(filling);
        Ok(filled)
    }
}
