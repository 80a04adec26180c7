//! Builds a plan from a fused program. Values are numbered, equal kernels are merged, and every
//! place where a value is passed on (into a loop, to the next iteration, out of a branch, to the
//! caller) becomes a copy. Buffer assignment then removes most copies by giving both ends the same
//! buffer.

use super::memory_planning::{WantedAliases, assign_buffers};
use super::strip_mine::{StripLimits, strip_mine};
use super::{Alias, Buffer, BufferId, KernelId, Place, Plan, PlanValue, Step, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_arena::EntityRef;
use tegula_expr::Term;
use tegula_fusion::{BoundKernel, Def, Error, Fused, FusedRegion, Kernel, Unit, array_leaves};
use tegula_ir::{ArrayShape, Module, PassManager, Shape};

/// The names of the passes of [`plan`].
pub const PASSES: [&str; 3] = ["build-plan", "strip-mine", "plan-memory"];

/// Plans a fused program. If `strips` is given, steps are strip-mined where that pays.
///
/// # Errors
/// A value whose size in bytes does not fit, or an inconsistency.
pub fn plan(
    module: &Module,
    fused: &Fused,
    strips: Option<StripLimits>,
    passes: &mut PassManager<'_>,
) -> Result<Plan, Error> {
    let mut plan = passes.run("build-plan", || build(module, fused))?;
    passes.show("build-plan", &plan);
    if let Some(limits) = strips {
        passes.run("strip-mine", || strip_mine(&mut plan, limits));
        passes.show("strip-mine", &plan);
    }
    passes.run("plan-memory", || {
        assign_buffers(&mut plan, &wanted_aliases(module))
    })?;
    passes.show("plan-memory", &plan);
    Ok(plan)
}

/// Builds the plan of a fused program, before any value has memory.
fn build(module: &Module, fused: &Fused) -> Result<Plan, Error> {
    let mut builder = Builder {
        fused,
        plan: Plan {
            name: module.name.to_string(),
            symbols: module.symbols.clone(),
            sizes: module.sizes.clone(),
            arena_bytes: Term::constant(0),
            ..Plan::default()
        },
        values: FxHashMap::default(),
        kernels: FxHashMap::default(),
        // All values are in this buffer until buffers are assigned.
        unassigned: BufferId::new(0),
        read: fused.entry.reads().collect(),
    };
    for &parameter in &fused.program.parameters {
        let value = builder.value(parameter)?;
        builder.plan.parameters.push(value);
    }
    let mut steps = builder.region(&fused.entry)?;
    for &result in &fused.entry.results {
        let from = builder.value(result)?;
        let to = builder.fresh_like(from);
        steps.push(Step::Copy { from, to });
        builder.plan.results.push(to);
    }
    let mut plan = builder.plan;
    plan.steps = steps;
    Ok(plan)
}

/// The parameters whose memory may become a result's: those that the program's header aliases with
/// a result, then those that it donates.
fn wanted_aliases(module: &Module) -> WantedAliases {
    let entry = module.entry_computation();
    let of_parameter = |number: i64, index: &[i64]| {
        let number = usize::try_from(number).ok()?;
        let before = entry.parameters.get(..number)?;
        let before: usize = before
            .iter()
            .map(|&p| array_leaves(&module[p].shape).len())
            .sum();
        let shape = &module[*entry.parameters.get(number)?].shape;
        Some(before + leaf(shape, index)?)
    };
    let attributes = &module.attributes;
    WantedAliases {
        pairs: attributes
            .input_output_alias
            .iter()
            .filter_map(|alias| {
                Some(Alias {
                    parameter: of_parameter(alias.parameter, &alias.parameter_index)?,
                    output: leaf(&module[entry.root].shape, &alias.output_index)?,
                })
            })
            .collect(),
        donors: attributes
            .buffer_donor
            .iter()
            .filter_map(|(parameter, index)| of_parameter(*parameter, index))
            .collect(),
    }
}

/// The number of an array leaf of a shape, given its tuple index.
fn leaf(shape: &Shape, index: &[i64]) -> Option<usize> {
    let Some((&first, rest)) = index.split_first() else {
        return shape.as_array().map(|_| 0);
    };
    let elements = shape.as_tuple()?;
    let first = usize::try_from(first).ok()?;
    let before = elements.get(..first)?;
    let before: usize = before.iter().map(|e| array_leaves(e).len()).sum();
    Some(before + leaf(elements.get(first)?, rest)?)
}

struct Builder<'a> {
    fused: &'a Fused,
    plan: Plan,
    values: FxHashMap<tegula_fusion::ValueId, ValueId>,
    kernels: FxHashMap<Kernel, KernelId>,
    unassigned: BufferId,
    /// The values that something reads.
    read: FxHashSet<tegula_fusion::ValueId>,
}

impl Builder<'_> {
    fn value(&mut self, id: tegula_fusion::ValueId) -> Result<ValueId, Error> {
        if let Some(&value) = self.values.get(&id) {
            return Ok(value);
        }
        let source = &self.fused.program.values[id];
        let value = self.new_value(source.shape.clone());
        if let Def::Constant(literal) = &source.def {
            let Some(bytes) = source.shape.byte_size() else {
                return Err(Error::internal(format!("the size of {id} does not fit")));
            };
            let place = Place::Constant(self.plan.constants.len());
            self.plan.constants.push(literal.clone());
            let buffer = Buffer {
                place,
                bytes: Term::constant(bytes),
            };
            // Buffer assignment recognises constants by this buffer.
            let buffer = self.plan.buffers.push(buffer);
            self.plan.values[value].buffer = buffer;
        }
        self.values.insert(id, value);
        Ok(value)
    }

    fn new_value(&mut self, shape: ArrayShape) -> ValueId {
        if self.plan.buffers.is_empty() {
            let place = Place::Arena(Term::constant(0));
            self.unassigned = self.plan.buffers.push(Buffer {
                place,
                bytes: Term::constant(0),
            });
        }
        self.plan.values.push(PlanValue {
            shape,
            buffer: self.unassigned,
        })
    }

    fn fresh_like(&mut self, value: ValueId) -> ValueId {
        let shape = self.plan.values[value].shape.clone();
        self.new_value(shape)
    }

    fn all(&mut self, ids: &[tegula_fusion::ValueId]) -> Result<Vec<ValueId>, Error> {
        ids.iter().map(|&id| self.value(id)).collect()
    }

    fn region(&mut self, region: &FusedRegion) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        for (_, unit) in region.units() {
            self.unit(unit, &mut steps)?;
        }
        Ok(steps)
    }

    fn unit(&mut self, unit: &Unit, steps: &mut Vec<Step>) -> Result<(), Error> {
        match unit {
            Unit::Kernel(BoundKernel { kernel, args }) => {
                let args = self.all(args)?;
                let plan = &mut self.plan;
                let kernels = &mut self.kernels;
                let kernel = *kernels
                    .entry(kernel.clone())
                    .or_insert_with_key(|kernel| plan.kernels.push(kernel.clone()));
                steps.push(Step::Kernel { kernel, args });
            }
            Unit::Copy { from, to } => {
                let (from, to) = (self.value(*from)?, self.value(*to)?);
                steps.push(Step::Copy { from, to });
            }
            Unit::Library {
                op,
                operands,
                results,
            } => {
                let (operands, results) = (self.all(operands)?, self.all(results)?);
                steps.push(Step::Library {
                    op: op.clone(),
                    operands,
                    results,
                });
            }
            Unit::While {
                condition,
                body,
                states,
                operands,
                results,
            } => {
                let states = self.all(states)?;
                self.copies(operands, &states, steps)?;
                steps.push(self.while_loop(condition, body, &states)?);
                for (&from, &result) in states.iter().zip(results) {
                    if !self.read.contains(&result) {
                        continue;
                    }
                    let to = self.value(result)?;
                    steps.push(Step::Copy { from, to });
                }
            }
            Unit::Conditional {
                selector,
                branches,
                results,
            } => {
                let selector = self.value(*selector)?;
                let results = self.all(results)?;
                let mut planned = Vec::with_capacity(branches.len());
                for branch in branches {
                    let mut inner = self.region(branch)?;
                    self.copies(&branch.results, &results, &mut inner)?;
                    planned.push(inner);
                }
                steps.push(Step::Conditional {
                    selector,
                    branches: planned,
                });
            }
        }
        Ok(())
    }

    fn copies(
        &mut self,
        from: &[tegula_fusion::ValueId],
        to: &[ValueId],
        steps: &mut Vec<Step>,
    ) -> Result<(), Error> {
        for (&from, &to) in from.iter().zip(to) {
            let from = self.value(from)?;
            steps.push(Step::Copy { from, to });
        }
        Ok(())
    }

    fn while_loop(
        &mut self,
        condition: &FusedRegion,
        body: &FusedRegion,
        states: &[ValueId],
    ) -> Result<Step, Error> {
        let condition_steps = self.region(condition)?;
        let [predicate] = condition.results[..] else {
            return Err(Error::internal("expected a loop condition with one result"));
        };
        let predicate = self.value(predicate)?;
        let mut steps = self.region(body)?;
        let mut next = self.all(&body.results)?;
        // All states change at once. A next value that is another state's old value is saved before
        // any state is overwritten.
        for value in &mut next {
            if states.contains(value) {
                let saved = self.fresh_like(*value);
                steps.push(Step::Copy {
                    from: *value,
                    to: saved,
                });
                *value = saved;
            }
        }
        for (&from, &to) in next.iter().zip(states) {
            steps.push(Step::Copy { from, to });
        }
        Ok(Step::While {
            condition: condition_steps,
            predicate,
            body: steps,
        })
    }
}
