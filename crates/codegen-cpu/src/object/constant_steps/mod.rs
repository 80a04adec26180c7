//! Constant folding of whole steps: values that depend on constants only are computed when the
//! object is compiled, and become constants of the object.
//!
//! The steps are compiled for the object's CPU level and run here, so that they give the bits of
//! `tegula run`. If this machine lacks that level, or has another architecture, only steps that
//! give the same bits everywhere are computed ([`exact`]).
//!
//! A result becomes a constant if it is not much larger than the values that it is computed from
//! ([`Finder::is_worth`]). Otherwise its step stays in the call, and the values that the step reads
//! may become constants instead.

mod exact;

use crate::error::Error;
use crate::options::Options;
use crate::program::effects::{Touch, touches};
use crate::program::run_invariants::{Kept, is_pure, same_at_all_sizes, written_once};
use crate::runtime::executable::Executable;
use crate::simd::mathlib::calls_function;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::BTreeSet;
use tegula_expr::Term;
use tegula_fusion::LibraryOp;
use tegula_ir::{ArrayShape, ElementType, Literal, Op};
use tegula_plan::{
    Buffer, BufferId, KernelId, Place, Plan, PlanValue, Step, ValueId, replan_memory,
};
use tegula_target::IsaLevel;

/// The maximum ratio of a result's bytes to those of the constants that it is computed from: 8-bit
/// weights become `f32`. Also the maximum ratio for all results and all constants together.
const MOST_GROWTH: i64 = 4;
/// The maximum bytes of a result that is always worth storing: loading it takes no longer than
/// computing it.
const SMALL: i64 = 1 << 10;
/// The maximum bytes of a table of function values (sines, powers) that is always worth storing. It
/// is a third of the size of the routines that every program with a matrix product contains.
const TABLE: i64 = 1 << 16;

/// Computes the values that depend on constants only, and stores some of them as constants. Returns
/// the stored values that `tegula run` would compute in each run. It does not prepack these for
/// products, so the object must not either: prepacking may change the order of sums.
///
/// # Errors
/// The plan breaks its invariants, or a limit is exceeded.
pub(super) fn fold(plan: &mut Plan, options: &Options) -> Result<FxHashSet<ValueId>, Error> {
    let same = (plan.has_open_sizes()).then(|| same_at_all_sizes(plan));
    let kept = Kept::new(plan, &[], same.clone());
    let found = Finder::new(plan, options.cpu, &kept, same).find();
    let Some(literals) = found.results(plan, options)? else {
        return Ok(FxHashSet::default());
    };
    let computed_each_time = found.stored.iter().copied();
    let computed_each_time = computed_each_time.filter(|&value| !kept.is_fixed(value));
    let computed_each_time = computed_each_time.collect();
    for (&value, literal) in found.stored.iter().zip(literals) {
        let bytes = Term::constant(literal.bytes().len() as i64);
        let place = Place::Constant(number_of(plan, literal));
        plan.values[value].buffer = plan.buffers.push(Buffer { place, bytes });
    }
    let mut steps = std::mem::take(&mut plan.steps);
    remove(plan, &mut steps, &found.removed);
    plan.steps = steps;
    for value in found.removed {
        if !found.stored.contains(&value) {
            plan.values[value].shape = nothing();
        }
    }
    replan_memory(plan).map_err(|error| Error::Bug(error.to_string()))?;
    Ok(computed_each_time)
}

/// The number of a constant, which is added unless there is one with the same bytes.
fn number_of(plan: &mut Plan, literal: Literal) -> usize {
    let known = plan.constants.iter();
    let known = known
        .map(Literal::bytes)
        .position(|bytes| bytes == literal.bytes());
    known.unwrap_or_else(|| {
        plan.constants.push(literal);
        plan.constants.len() - 1
    })
}

/// The shape of a value that no step reads or writes: it takes no memory.
fn nothing() -> ArrayShape {
    ArrayShape::new(ElementType::Pred, &[0])
}

/// The reads and the writes of a step.
fn touched(plan: &Plan, step: &Step) -> (Vec<Touch>, Vec<Touch>) {
    let mut touched = Vec::new();
    touches(plan, step, &mut touched);
    touched.into_iter().partition(|touch| !touch.writes)
}

/// Removes the steps that write these values.
fn remove(plan: &Plan, steps: &mut Vec<Step>, removed: &FxHashSet<ValueId>) {
    steps.retain_mut(|step| {
        for block in step.blocks_mut() {
            remove(plan, block, removed);
        }
        let (_, written) = touched(plan, step);
        let is_one = step.blocks().is_empty();
        !(is_one && written.iter().any(|touch| removed.contains(&touch.value)))
    });
}

/// The steps that are computed when the object is compiled.
#[derive(Default)]
struct Found {
    /// The values that become constants.
    stored: Vec<ValueId>,
    /// The values that calls do not compute, including the stored ones.
    removed: FxHashSet<ValueId>,
    /// The steps that compute the stored values, in order.
    steps: Vec<Step>,
}

/// Finds the steps that are computed when the object is compiled.
struct Finder<'a> {
    plan: &'a Plan,
    /// The values that a run computes once.
    kept: &'a Kept,
    /// The values that are the same at all sizes, if the program has open sizes.
    same: Option<FxHashSet<ValueId>>,
    /// The values that exactly one step writes.
    once: FxHashSet<ValueId>,
    /// Whether only steps are computed that give the same bits on every machine.
    only_exact: bool,
    /// For each value that depends on constants only, the numbers of those constants.
    made_of: FxHashMap<ValueId, BTreeSet<usize>>,
    /// The steps that depend on constants only, in order.
    constant: Vec<&'a Step>,
    /// The values that the other steps read.
    needed: FxHashSet<ValueId>,
}

impl<'a> Finder<'a> {
    fn new(
        plan: &'a Plan,
        cpu: IsaLevel,
        kept: &'a Kept,
        same: Option<FxHashSet<ValueId>>,
    ) -> Self {
        let constants = plan.values.iter().filter_map(|(value, declared)| {
            match plan.buffers[declared.buffer].place {
                Place::Constant(number) => Some((value, BTreeSet::from([number]))),
                _ => None,
            }
        });
        Self {
            plan,
            kept,
            same,
            once: written_once(plan),
            only_exact: !cpu.is_supported(),
            made_of: constants.collect(),
            constant: Vec::new(),
            needed: FxHashSet::default(),
        }
    }

    fn find(mut self) -> Found {
        self.look(&self.plan.steps);
        let mut found = Found::default();
        let all = self.plan.constants.iter();
        let all: i64 = all.map(|constant| constant.bytes().len() as i64).sum();
        let mut room = all.saturating_add(TABLE).saturating_mul(MOST_GROWTH);
        for step in self.constant.iter().rev() {
            let (read, written) = touched(self.plan, step);
            let of_step = written.iter().map(|touch| touch.value);
            let needed = of_step.clone().filter(|value| self.needed.contains(value));
            let needed: Vec<ValueId> = needed.collect();
            let bytes: i64 = needed.iter().map(|&value| self.bytes(value)).sum();
            if bytes <= room
                && needed
                    .iter()
                    .all(|&value| self.is_worth(step, &read, value))
            {
                room -= bytes;
                found.stored.extend(needed);
                found.removed.extend(of_step);
            } else {
                self.needed.extend(read.iter().map(|touch| touch.value));
            }
        }
        let mut wanted: FxHashSet<ValueId> = found.stored.iter().copied().collect();
        for step in self.constant.iter().rev() {
            let (read, written) = touched(self.plan, step);
            if written.iter().any(|touch| wanted.contains(&touch.value)) {
                wanted.extend(read.iter().map(|touch| touch.value));
                found.steps.push((*step).clone());
            }
        }
        found.steps.reverse();
        found
    }

    /// Finds the steps that depend on constants only, including nested ones.
    fn look(&mut self, steps: &'a [Step]) {
        for step in steps {
            let read = match step {
                Step::While { predicate, .. } => vec![*predicate],
                Step::Conditional { selector, .. } => vec![*selector],
                Step::Strips { .. } => Vec::new(),
                Step::Kernel { .. } | Step::Library { .. } | Step::Copy { .. } => {
                    let (read, written) = touched(self.plan, step);
                    if let Some(sources) = self.sources(step, &read, &written) {
                        let written = written.iter().map(|touch| touch.value);
                        let each = written.map(|value| (value, sources.clone()));
                        self.made_of.extend(each);
                        self.constant.push(step);
                        continue;
                    }
                    read.iter().map(|touch| touch.value).collect()
                }
            };
            self.needed.extend(read);
            step.blocks().into_iter().for_each(|block| self.look(block));
        }
    }

    /// The constants that a step depends on, if it depends on nothing else and can be computed
    /// here.
    fn sources(&self, step: &Step, read: &[Touch], written: &[Touch]) -> Option<BTreeSet<usize>> {
        let can_be_done = match step {
            Step::Kernel { kernel, .. } => {
                !self.only_exact || exact::is_exact(&self.plan.kernels[*kernel])
            }
            Step::Library { op, operands, .. } => {
                !self.only_exact && is_pure(op) && self.is_summed_alike(op, operands, step)
            }
            _ => true,
        };
        if !can_be_done || written.is_empty() || !written.iter().all(|touch| self.can_move(touch)) {
            return None;
        }
        let sources = read.iter().map(|touch| self.made_of.get(&touch.value));
        sources
            .collect::<Option<Vec<_>>>()
            .map(|all| all.into_iter().flatten().copied().collect())
    }

    /// Whether a routine gives the bits of a run. A run packs fixed operands of its products, which
    /// may change the order of sums, unless it keeps the result.
    fn is_summed_alike(&self, op: &LibraryOp, operands: &[ValueId], step: &Step) -> bool {
        let is_product = match op {
            LibraryOp::Dot(_) => true,
            LibraryOp::Operation(op) => matches!(**op, Op::Convolution { .. }),
            LibraryOp::Sort { .. } => false,
        };
        let packs = operands.iter().any(|&value| self.kept.is_fixed(value));
        !is_product || !packs || self.kept.keeps(self.plan, step)
    }

    /// Whether the value that a step writes can become a constant.
    fn can_move(&self, touch: &Touch) -> bool {
        let value = &touch.value;
        let own = !self.plan.results.contains(value) && !self.plan.parameters.contains(value);
        let is_same = self.same.as_ref().is_none_or(|same| same.contains(value));
        touch.whole && own && is_same && self.once.contains(value)
    }

    fn bytes(&self, value: ValueId) -> i64 {
        let bytes = self.plan.values[value].shape.byte_size();
        bytes.unwrap_or(i64::MAX)
    }

    /// Whether a value is small enough, compared with its sources, to be stored as a constant:
    /// loading a broadcast number takes longer than repeating it.
    fn is_worth(&self, step: &Step, read: &[Touch], value: ValueId) -> bool {
        let bytes = self.bytes(value);
        let elements = |value: ValueId| self.plan.values[value].shape.element_count().unwrap_or(0);
        let each = read.iter().map(|touch| elements(touch.value));
        let arrays: i64 = each.filter(|&count| count > 1).sum();
        let sources = self.made_of.get(&value).into_iter().flatten();
        let sources = sources.filter_map(|&number| self.plan.constants.get(number));
        let sources: i64 = sources.map(|constant| constant.bytes().len() as i64).sum();
        bytes <= SMALL
            || bytes <= TABLE && self.has_function(step)
            || elements(value) <= arrays && bytes <= sources.saturating_mul(MOST_GROWTH)
    }

    /// Whether a step computes functions such as sines.
    fn has_function(&self, step: &Step) -> bool {
        let Step::Kernel { kernel, .. } = step else {
            return false;
        };
        let kernel = &self.plan.kernels[*kernel];
        kernel
            .body
            .any(|statement| calls_function(kernel, statement))
    }
}

impl Found {
    /// Computes the stored values; `None` if there are none, or if something that they need is not
    /// available here.
    fn results(&self, plan: &Plan, options: &Options) -> Result<Option<Vec<Literal>>, Error> {
        if self.stored.is_empty() {
            return Ok(None);
        }
        let (program, constants) = self.program(plan)?;
        let is_level = options.cpu.is_supported();
        let options = Options {
            cpu: if is_level {
                options.cpu
            } else {
                IsaLevel::Native
            },
            threads: 1,
            ..*options
        };
        let mut inputs = Vec::with_capacity(constants.len());
        for (&number, &value) in constants.iter().zip(&program.parameters) {
            let (literal, shape) = (&plan.constants[number], &program.values[value].shape);
            inputs.push(match literal.shape() == shape {
                true => Cow::Borrowed(literal),
                false => Cow::Owned(
                    literal
                        .clone()
                        .reinterpret(shape)
                        .map_err(|error| Error::Bug(format!("constant {number}: {error}")))?,
                ),
            });
        }
        let ran = Executable::new(program, &options).and_then(|program| program.run(inputs));
        match ran {
            // The bits of a NaN depend on the machine.
            Ok(results) if !is_level && results.iter().any(exact::has_nan) => Ok(None),
            Ok(results) => Ok(Some(results)),
            // A run, or the object, reports the error as well.
            Err(Error::Unsupported(_) | Error::OutOfMemory(_) | Error::CustomCall(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A program of these steps whose parameters are the constants (with their numbers) and whose
    /// results are the stored values.
    fn program(&self, plan: &Plan) -> Result<(Plan, Vec<usize>), Error> {
        let mut program = Plan {
            name: plan.name.clone(),
            results: self.stored.clone(),
            steps: self.steps.clone(),
            ..Plan::default()
        };
        let mut kernels: FxHashMap<KernelId, KernelId> = FxHashMap::default();
        for step in &mut program.steps {
            if let Step::Kernel { kernel, .. } = step {
                let own = kernels.entry(*kernel);
                let add = || program.kernels.push(plan.kernels[*kernel].clone());
                *kernel = *own.or_insert_with(add);
            }
        }
        let (mut used, mut computed) = (FxHashSet::default(), FxHashSet::default());
        for step in &self.steps {
            let (read, written) = touched(plan, step);
            used.extend(read.iter().chain(&written).map(|touch| touch.value));
            // A value that is written may share a constant's place: then its copy is a no-op.
            computed.extend(written.iter().map(|touch| touch.value));
        }
        let (place, bytes) = (Place::Arena(Term::constant(0)), Term::constant(0));
        let buffer: BufferId = program.buffers.push(Buffer { place, bytes });
        let mut constants = Vec::new();
        for (value, declared) in &plan.values {
            let is_used = used.contains(&value);
            let shape = if is_used {
                declared.shape.clone()
            } else {
                nothing()
            };
            let known = program.values.push(PlanValue { shape, buffer });
            debug_assert_eq!(known, value);
            let is_given = is_used && !computed.contains(&value);
            if let (true, &Place::Constant(number)) =
                (is_given, &plan.buffers[declared.buffer].place)
            {
                program.parameters.push(value);
                constants.push(number);
            }
        }
        replan_memory(&mut program).map_err(|error| Error::Bug(error.to_string()))?;
        Ok((program, constants))
    }
}
