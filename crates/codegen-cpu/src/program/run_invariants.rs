//! Run invariants: results that depend only on constants and frozen parameters are computed by the
//! first run and kept.
//!
//! A value is *fixed* if it is a constant, a frozen parameter, or the result of a step whose
//! operands are all fixed. Such a step gives the same results in every run, wherever in the program
//! it is: steps of a plan have no side effects, except for those that [`is_pure`] excludes. Its
//! results get memory of their own, which is never overwritten, so values that share their place in
//! the plan, or steps that work in place, do not affect them. A kept value is written by one step
//! only and is not a result of the program, so values that a run derives from it at the same
//! address of the plan are copies.
//!
//! A product that would pack a fixed operand in each run keeps the packed form instead. Values that
//! only such steps read are not kept after the first run.
//!
//! In a program with open sizes, a value that depends on constants only is kept if it does not
//! depend on the sizes of the run. All sizes [share](super::kept_memory) its memory.

use super::effects::{Touch, span, touches};
use super::ir::{Action, Area, Location};
use super::kept_memory::{Content, Filling, Memories, Wanted};
use crate::library::call::Call;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;
use tegula_custom_call::is_built_in;
use tegula_fusion::LibraryOp;
use tegula_fusion::kernel::IndexVar;
use tegula_ir::Op;
use tegula_linalg::gemm::PackedLayout;
use tegula_plan::{Place, Plan, Step, ValueId};

/// The minimum bytes that a step over constants only reads and writes for its results to be kept:
/// keeping them takes memory that the user did not request.
const WORTH_KEEPING: i64 = 1 << 14;

/// The origin of a fixed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Constants,
    /// Depends on a frozen parameter, perhaps also on constants.
    Frozen,
}

/// The kept values of a plan at the sizes of a run.
#[derive(Default)]
pub(crate) struct Kept {
    /// The locations of values that runs do not compute.
    places: FxHashMap<ValueId, Location>,
    fixed: FxHashMap<ValueId, Origin>,
    /// The values that are the same at all sizes of a program with open sizes; `None` if it has
    /// none.
    same: Option<FxHashSet<ValueId>>,
    memories: Vec<Wanted>,
    /// Packed operands: the source, the layouts, and the buffer's number.
    packed: Vec<(Location, Vec<PackedLayout>, usize)>,
    /// The actions that fill the buffers, in order.
    fillings: Vec<Filling>,
}

/// Whether a routine is pure: it gives the same results for the same operands and has no other
/// effects.
pub(crate) fn is_pure(op: &LibraryOp) -> bool {
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
    /// Finds the values of a plan without open sizes that runs need not compute if these parameters
    /// are frozen. `same`: the values that are the [same at all sizes](same_at_all_sizes), if the
    /// program has open sizes.
    pub(crate) fn new(plan: &Plan, frozen: &[bool], same: Option<FxHashSet<ValueId>>) -> Self {
        let mut kept = Self {
            same,
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

    /// The location of a kept value.
    pub(crate) fn place(&self, value: ValueId) -> Option<Location> {
        self.places.get(&value).copied()
    }

    /// Whether a value depends only on constants and frozen parameters, and is itself one of these
    /// or kept.
    pub(crate) fn is_fixed(&self, value: ValueId) -> bool {
        self.fixed.contains_key(&value)
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

    /// The number of the fixed one of a routine's two operands, if there is one that is worth
    /// packing once.
    pub(crate) fn fixed_operand(&self, plan: &Plan, operands: &[ValueId]) -> Option<usize> {
        let fixed = |i: usize| {
            let value = *operands.get(i)?;
            let origin = *self.fixed.get(&value)?;
            let bytes = plan.values[value].shape.byte_size().unwrap_or(0);
            is_worth(origin, 2 * bytes).then_some(i)
        };
        fixed(1).or_else(|| fixed(0))
    }

    /// Whether a value is the same at all sizes.
    fn is_same(&self, value: ValueId) -> bool {
        self.same.as_ref().is_none_or(|same| same.contains(&value))
    }

    /// Makes the first run compute a step's values.
    pub(crate) fn fill(&mut self, plan: &Plan, step: &Step, action: Action) {
        let mut touched = Vec::new();
        touches(plan, step, &mut touched);
        let written = touched.iter().filter(|touch| touch.writes);
        let places = written.filter_map(|touch| self.place(touch.value));
        let slots = places.filter_map(slot).collect();
        self.fillings.push(Filling::new(action, slots));
    }

    /// The buffer with the packed form of an operand that a call packs once. A new action packs it
    /// unless another call has packed it in the same way.
    pub(crate) fn packed(&mut self, call: &Call, source: Location) -> Option<Location> {
        let (_, bytes) = call.kept_bytes()?;
        let layouts = call.kept_layouts();
        let same = |(at, known, _): &&(Location, Vec<PackedLayout>, usize)| {
            *at == source && *known == layouts
        };
        if let Some(&(_, _, slot)) = self.packed.iter().find(same) {
            return Some(kept_at(slot));
        }
        let packed = match slot(source) {
            Some(slot) => self.memories[slot].content.clone(),
            None => Some(Content::Given(source)),
        };
        let content = packed.map(|packed| Content::Packed(Box::new(packed), layouts.clone()));
        let target = self.memory(bytes, content);
        let written = target.area.kept()?;
        self.packed.push((source, layouts, written));
        let pack = Action::Pack {
            call: Box::new(call.clone()),
            from: source,
            to: target,
        };
        self.fillings.push(Filling::new(pack, smallvec![written]));
        Some(target)
    }

    /// A new buffer, with its contents if these are the same at all sizes.
    fn memory(&mut self, bytes: usize, content: Option<Content>) -> Location {
        self.memories.push(Wanted {
            bytes,
            stays: false,
            content,
        });
        kept_at(self.memories.len() - 1)
    }

    /// The bytes of the arena that steps still use, without these values.
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

    /// The buffers; those that the actions of runs refer to stay.
    pub(crate) fn into_memories(mut self, runs: &mut [Action]) -> Memories {
        for action in runs {
            action.each_location(&mut |location| {
                if let Some(slot) = slot(*location) {
                    self.memories[slot].stays = true;
                }
            });
        }
        Memories::new(self.memories, self.fillings)
    }
}

fn kept_at(slot: usize) -> Location {
    Location {
        area: Area::Kept(slot),
        offset: 0,
    }
}

/// The number of the kept buffer that contains a location.
fn slot(location: Location) -> Option<usize> {
    location.area.kept()
}

/// Whether to keep the results of a step that reads and writes this many bytes.
fn is_worth(origin: Origin, bytes: i64) -> bool {
    origin == Origin::Frozen || bytes >= WORTH_KEEPING
}

/// The values of a plan with open sizes that depend on no open size: results of steps over arrays
/// of known sizes that read only constants, parameters and other such values. With the same input
/// arrays they are the same at all sizes.
pub(crate) fn same_at_all_sizes(plan: &Plan) -> FxHashSet<ValueId> {
    let mut same = FxHashSet::default();
    let mut add = |step: &Step| {
        let reads_sizes = match step {
            Step::Kernel { kernel, .. } => {
                let mut vars = plan.kernels[*kernel].vars.iter();
                vars.any(|var| matches!(var, IndexVar::Symbol { .. }))
            }
            _ => !step.blocks().is_empty(),
        };
        let mut touched = Vec::new();
        touches(plan, step, &mut touched);
        let is_known = |touch: &Touch| plan.values[touch.value].shape.static_dims().is_some();
        let is_given = |value: ValueId| {
            let place = &plan.buffers[plan.values[value].buffer].place;
            matches!(place, Place::Constant(_) | Place::Parameter(_))
        };
        let mut read = touched.iter().filter(|touch| !touch.writes);
        let reads_same = read.all(|touch| is_given(touch.value) || same.contains(&touch.value));
        if !reads_sizes && reads_same && touched.iter().all(is_known) {
            same.extend(touched.iter().filter(|t| t.writes).map(|t| t.value));
        }
    };
    each_step(&plan.steps, &mut add);
    same
}

/// Visits steps, including nested ones.
fn each_step(steps: &[Step], visit: &mut dyn FnMut(&Step)) {
    for step in steps {
        visit(step);
        for block in step.blocks() {
            each_step(block, visit);
        }
    }
}

/// The values that exactly one step of a plan writes.
pub(crate) fn written_once(plan: &Plan) -> FxHashSet<ValueId> {
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
    /// Also visits the steps of loops: what an iteration computes from fixed values is computed
    /// once. A branch may never be taken, so its steps are not visited.
    fn steps(&self, steps: &[Step], kept: &mut Kept) {
        for step in steps {
            match step {
                Step::While {
                    condition, body, ..
                } => {
                    self.steps(condition, kept);
                    self.steps(body, kept);
                }
                // Results of strip-mined steps are not kept.
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
        // Otherwise each size would keep its own copy of a value that depends only on constants.
        let is_same = written.iter().all(|touch| kept.is_same(touch.value));
        if !is_worth(origin, bytes) || origin == Origin::Constants && !is_same {
            return None;
        }
        for touch in &written {
            let shape = &self.plan.values[touch.value].shape;
            let bytes = usize::try_from(shape.byte_size()?).ok()?;
            let content = is_same.then_some(Content::Value(touch.value));
            let memory = kept.memory(bytes, content);
            kept.places.insert(touch.value, memory);
            kept.fixed.insert(touch.value, origin);
        }
        Some(())
    }

    /// Whether the value that a step writes can be moved from the plan's place.
    fn can_move(&self, touch: &Touch) -> bool {
        let value = &touch.value;
        let own = !self.plan.results.contains(value) && !self.plan.parameters.contains(value);
        touch.whole && own && self.once.contains(value)
    }

    /// The bytes that a step reads and writes, if its results are no larger than its operands:
    /// caching a broadcast costs more than recomputing it.
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
