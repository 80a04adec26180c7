//! Lowers a Plan's steps to actions with resolved addresses.

use super::double_buffer;
use super::ir::{Action, Area, Location};
use super::run_invariants::Kept;
use super::slice_aliasing::{View, Views};
use super::strip_mine;
use crate::analysis::cost::Work;
use crate::error::Error;
use crate::library::call::Call;
use crate::transform::pipeline::Regrouping;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tegula_expr::Var;
use tegula_fusion::{Kernel, LibraryOp};
use tegula_ir::{ArrayShape, ElementType};
use tegula_plan::{Place, Plan, Step, ValueId, private_values};
use tegula_target::CpuFeatures;

/// A schedule with resolved addresses.
pub(crate) struct Resolved {
    pub actions: Vec<Action>,
    /// The number of entries in the table of exchanged buffers.
    pub exchanged: usize,
    /// The values that runs do not compute.
    pub kept: Kept,
    /// The values that strips keep in memory of their own.
    pub private: FxHashSet<ValueId>,
    /// The bytes of that memory.
    pub private_bytes: usize,
}

/// Resolves the schedule of a plan without open sizes, for this many threads; some values may be
/// kept between runs.
pub(crate) fn resolve(
    plan: &Plan,
    regroupings: &[Regrouping],
    isa: CpuFeatures,
    threads: usize,
    kept: Kept,
) -> Result<Resolved, Error> {
    let mut resolver = Resolver {
        plan,
        regroupings,
        isa,
        threads,
        sorts: 0,
        exchanged: 0,
        views: Views::new(plan),
        kept,
        only_strips: private_values(plan),
        private: FxHashSet::default(),
        private_bytes: 0,
    };
    let actions = resolver.actions(&plan.steps)?;
    Ok(Resolved {
        actions,
        exchanged: resolver.exchanged,
        kept: resolver.kept,
        private: resolver.private,
        private_bytes: resolver.private_bytes,
    })
}

/// Resolves one loop of a plan without open sizes for an object, on one thread. `slices` are the
/// values that the object reads in place in larger arrays, with their numbers: each is an
/// [exchanged](Area::Exchanged) buffer. `None` if the loop calls a routine, which objects do
/// themselves.
pub(crate) fn resolve_loop(
    plan: &Plan,
    isa: CpuFeatures,
    slices: &FxHashMap<ValueId, usize>,
    step: &Step,
) -> Option<Action> {
    if calls_routine(step) {
        return None;
    }
    let mut views = Views::new(plan);
    views.entries.clone_from(slices);
    let mut resolver = Resolver {
        plan,
        regroupings: &[],
        isa,
        threads: 1,
        sorts: 0,
        exchanged: slices.values().max().map_or(0, |last| last + 1),
        views,
        kept: Kept::default(),
        only_strips: FxHashSet::default(),
        private: FxHashSet::default(),
        private_bytes: 0,
    };
    resolver.action(step).ok()?
}

/// Whether a step, or a nested one, calls a routine or is strip-mined.
fn calls_routine(step: &Step) -> bool {
    let is_call = matches!(step, Step::Library { .. } | Step::Strips { .. });
    let mut inside = step.blocks().into_iter().flatten();
    is_call || inside.any(calls_routine)
}

/// The number of bytes for which a kernel is worth another thread: waking one takes some
/// microseconds.
const BYTES_A_THREAD: f64 = 98_304.0;
/// The number of operations for which it is, whatever it loads and stores: a thread executes about
/// ten thousand million a second.
const OPERATIONS_A_THREAD: f64 = 262_144.0;

struct Resolver<'a> {
    plan: &'a Plan,
    regroupings: &'a [Regrouping],
    isa: CpuFeatures,
    threads: usize,
    sorts: usize,
    exchanged: usize,
    views: Views<'a>,
    kept: Kept,
    /// The values that only strips access, those of them that are in the strips' own memory, and
    /// the maximum bytes of that memory.
    only_strips: FxHashSet<ValueId>,
    private: FxHashSet<ValueId>,
    private_bytes: usize,
}

/// The extent of a kernel's outermost domain dimension, 1 without a domain; 0 if any dimension has
/// extent 0.
fn outermost_extent(kernel: &Kernel) -> Option<i64> {
    let extent = |var: &Var| kernel.constant_extent(*var);
    let extents: Option<Vec<i64>> = kernel.domain.iter().map(extent).collect();
    let extents = extents?;
    match extents.contains(&0) {
        true => Some(0),
        false => Some(extents.first().copied().unwrap_or(1)),
    }
}

impl Resolver<'_> {
    fn actions(&mut self, steps: &[Step]) -> Result<Vec<Action>, Error> {
        let mut actions = Vec::with_capacity(steps.len());
        for (i, step) in steps.iter().enumerate() {
            if self.kept.keeps(self.plan, step) {
                self.keep(step)?;
                continue;
            }
            if let Step::Strips { count, steps } = step {
                match self.strips(*count, steps) {
                    Some(strips) => actions.push(strips),
                    None => actions.extend(self.actions(steps)?),
                }
                continue;
            }
            if let Step::Kernel { kernel, args } = step {
                let copied = (*kernel, &args[..]);
                let after = &steps[i + 1..];
                if let Some(view) = self.views.view(copied, after, &mut self.exchanged) {
                    actions.push(self.slab(&view)?);
                    continue;
                }
            }
            actions.extend(self.action(step)?);
        }
        Ok(actions)
    }

    /// Resolves strip-mined steps, if that is possible.
    fn strips(&mut self, count: i64, steps: &[Step]) -> Option<Action> {
        if steps.iter().any(|step| self.kept.keeps(self.plan, step)) {
            return None;
        }
        let mut locations = FxHashMap::default();
        for value in steps.iter().flat_map(Step::values) {
            locations.insert(value, self.location(value).ok()?);
        }
        let resolver = strip_mine::Resolver {
            plan: self.plan,
            regroupings: self.regroupings,
            isa: self.isa,
            threads: self.threads,
            private: &self.only_strips,
            locations,
            kept: &mut self.kept,
        };
        let (strips, private) = resolver.strips(count, steps)?;
        self.private.extend(private);
        self.private_bytes = self.private_bytes.max(strips.private_bytes());
        Some(Action::Strips(Box::new(strips)))
    }

    /// Makes the first run execute a step.
    fn keep(&mut self, step: &Step) -> Result<(), Error> {
        let action = match step {
            // The same bytes under another name.
            Step::Copy { .. } => None,
            Step::Library {
                op,
                operands,
                results,
            } => Some(self.library(op, operands, results, None)?),
            other => self.action(other)?,
        };
        if let Some(action) = action {
            self.kept.fill(self.plan, step, action);
        }
        Ok(())
    }

    fn slab(&self, view: &View) -> Result<Action, Error> {
        let mut indices = SmallVec::new();
        for index in &view.indices {
            indices.push(index.at(self.location(index.place)?));
        }
        Ok(Action::View {
            entry: view.entry,
            source: self.location(view.source)?,
            bytes: view.bytes,
            indices,
        })
    }

    fn location(&self, value: ValueId) -> Result<Location, Error> {
        if let Some(&entry) = self.views.entries.get(&value) {
            return Ok(Location {
                area: Area::Exchanged(entry),
                offset: 0,
            });
        }
        if let Some(kept) = self.kept.place(value) {
            return Ok(kept);
        }
        let place = &self.plan.buffers[self.plan.values[value].buffer].place;
        Ok(match place {
            Place::Parameter(i) => Location {
                area: Area::Parameter(*i),
                offset: 0,
            },
            Place::Output { result, from } => Location {
                area: Area::Output(*result),
                offset: usize::try_from(*from)
                    .map_err(|_| Error::Bug(format!("{value} has no offset")))?,
            },
            Place::Constant(i) => Location {
                area: Area::Constant(*i),
                offset: 0,
            },
            Place::Arena(offset) => {
                let offset = offset.as_constant().and_then(|o| usize::try_from(o).ok());
                let offset = offset.ok_or_else(|| Error::Bug(format!("{value} has no offset")))?;
                Location {
                    area: Area::Arena,
                    offset,
                }
            }
        })
    }

    fn locations(&self, values: &[ValueId]) -> Result<Vec<Location>, Error> {
        values.iter().map(|&v| self.location(v)).collect()
    }

    fn action(&mut self, step: &Step) -> Result<Option<Action>, Error> {
        Ok(Some(match step {
            Step::Kernel { kernel, args } => {
                let extent = outermost_extent(&self.plan.kernels[*kernel])
                    .ok_or_else(|| Error::Bug(format!("{kernel} has a domain of unknown size")))?;
                let work = Work::of_kernel(self.plan, *kernel, args);
                Action::Kernel {
                    kernel: kernel.as_u32() as usize,
                    args: self.locations(args)?,
                    extent,
                    parts: self.parts(&work, extent),
                    work,
                }
            }
            Step::Copy { from, to } => {
                // A kept value is not at the plan's place.
                if self.plan.same_place(*from, *to) && self.kept.place(*from).is_none() {
                    return Ok(None);
                }
                let bytes = self.plan.values[*from].shape.byte_size();
                let bytes = bytes.and_then(|b| usize::try_from(b).ok());
                Action::Copy {
                    from: self.location(*from)?,
                    to: self.location(*to)?,
                    bytes: bytes.ok_or_else(|| Error::Bug(format!("{from} has no size")))?,
                }
            }
            Step::Library {
                op,
                operands,
                results,
            } => {
                let fixed = self.kept.fixed_operand(self.plan, operands);
                self.library(op, operands, results, fixed)?
            }
            Step::While {
                condition,
                predicate,
                body,
            } => {
                let mut action = Action::While {
                    condition: self.actions(condition)?,
                    predicate: self.location(*predicate)?,
                    body: self.actions(body)?,
                    exchanges: Vec::new(),
                    nest: None,
                };
                let elsewhere = |value: ValueId| {
                    self.views.entries.contains_key(&value) || self.kept.place(value).is_some()
                };
                let mut found = double_buffer::find(self.plan, [condition, body], elsewhere);
                for exchange in &mut found {
                    exchange.entries = [self.exchanged, self.exchanged + 1];
                    self.exchanged += 2;
                }
                double_buffer::apply(found, &mut action);
                action
            }
            // Whole steps, one after the other.
            Step::Strips { .. } => return Ok(None),
            Step::Conditional { selector, branches } => {
                let element_type = self.plan.values[*selector].shape.element_type;
                let branches: Result<_, _> = branches.iter().map(|b| self.actions(b)).collect();
                Action::Conditional {
                    selector: self.location(*selector)?,
                    is_pred: element_type == ElementType::Pred,
                    branches: branches?,
                }
            }
        }))
    }

    /// The number of parts into which a kernel is split, which is possible because its points are
    /// independent.
    fn parts(&self, work: &Work, extent: i64) -> usize {
        let worth = (work.bytes / BYTES_A_THREAD).max(work.operations / OPERATIONS_A_THREAD);
        let most = (worth as i64).min(extent).max(1);
        usize::try_from(most).map_or(1, |most| most.min(self.threads))
    }

    /// The total bytes of values.
    fn bytes(&self, values: &[ValueId]) -> i64 {
        let size = |v: &ValueId| self.plan.values[*v].shape.byte_size().unwrap_or(0);
        values.iter().map(size).sum()
    }

    fn library(
        &mut self,
        op: &LibraryOp,
        operands: &[ValueId],
        results: &[ValueId],
        fixed: Option<usize>,
    ) -> Result<Action, Error> {
        let shape = |v: &ValueId| &self.plan.values[*v].shape;
        let inputs: Vec<&ArrayShape> = operands.iter().map(shape).collect();
        let outputs: Vec<&ArrayShape> = results.iter().map(shape).collect();
        let call = Call::new(self.isa, op, &inputs, &outputs, fixed)?;
        if matches!(call, Call::Sort(_)) {
            self.sorts += 1;
        }
        let mut inputs = self.locations(operands)?;
        let kept = call.kept_bytes().and_then(|(operand, _)| {
            let source = inputs.get_mut(operand)?;
            let kept = self.kept.packed(&call, *source)?;
            if !call.needs_source() {
                // The operand is not read in its original form, so that it need not be kept.
                *source = kept;
            }
            Some(kept)
        });
        Ok(Action::Call {
            name: call.name(op),
            work: Work::of_call(&call, self.bytes(operands) + self.bytes(results)),
            call,
            kept,
            inputs,
            outputs: self.locations(results)?,
            sort: self.sorts.saturating_sub(1),
        })
    }
}
