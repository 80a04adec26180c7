//! Memory and time on a CPU: the arrays that the arena holds at each step, and the work of each
//! step, from which the page computes a roofline estimate of its time.

use crate::{Problem, Session};
use serde::Serialize;
use tegula_codegen_cpu::Work;
use tegula_ir::{Shape, display_term};
use tegula_plan::{Place, Plan, Step, ValueId};

/// A step of the plan, outside of the loops and strips that contain it.
pub(crate) struct FlatStep<'a> {
    pub(crate) step: &'a Step,
    /// The number of loops and conditionals around it.
    pub(crate) depth: usize,
    /// The number of strips that it is divided into.
    pub(crate) strips: i64,
}

/// All steps that compute or copy, in order, including those inside of loops and conditionals.
pub(crate) fn flat_steps(plan: &Plan) -> Vec<FlatStep<'_>> {
    fn visit<'a>(steps: &'a [Step], depth: usize, strips: i64, out: &mut Vec<FlatStep<'a>>) {
        for step in steps {
            match step {
                Step::Strips { count, steps } => visit(steps, depth, *count, out),
                Step::While { .. } | Step::Conditional { .. } => {
                    for block in step.blocks() {
                        visit(block, depth + 1, strips, out);
                    }
                }
                _ => out.push(FlatStep {
                    step,
                    depth,
                    strips,
                }),
            }
        }
    }
    let mut out = Vec::new();
    visit(&plan.steps, 0, 1, &mut out);
    out
}

/// A step and its work.
#[derive(Clone, Debug, Serialize)]
pub struct StepCost {
    /// A description of the step.
    pub label: String,
    /// Scalar operations; `None` if unknown.
    pub operations: Option<f64>,
    /// Bytes read and written; `None` if unknown.
    pub bytes: Option<f64>,
    /// The number of loops and conditionals around it. The work is that of one execution.
    pub depth: usize,
    /// The number of strips that it is divided into; 1 if it is not divided.
    pub strips: i64,
}

/// A value in the arena.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// Its number in the plan.
    pub value: String,
    /// Its type.
    pub shape: String,
    /// Its first byte in the arena.
    pub offset: i64,
    /// Its bytes.
    pub bytes: i64,
    /// The index of the first step that uses it.
    pub from: usize,
    /// The index of the last step that uses it.
    pub to: usize,
}

/// The arena and the steps.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// The size of the arena in bytes; `None` if it depends on sizes known only at run time.
    pub arena_bytes: Option<i64>,
    /// The size of the arena as text.
    pub arena: String,
    /// Bytes of parameters, constants and results, each counted once.
    pub outside_bytes: i64,
    /// The arrays in the arena.
    pub held: Vec<Held>,
    /// The steps in order.
    pub steps: Vec<StepCost>,
}

impl Session {
    /// The contents of the arena over the schedule, and the work of each step.
    ///
    /// # Errors
    /// As [`Session::planned`].
    pub fn memory(&self) -> Result<Memory, Problem> {
        let plan = &self.planned()?.plan;
        let steps = flat_steps(plan);
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; plan.values.len()];
        for (at, flat) in steps.iter().enumerate() {
            for value in flat.step.values() {
                let life = &mut lives[value.as_u32() as usize];
                *life = Some(life.map_or((at, at), |(from, _)| (from, at)));
            }
        }
        let held = plan.values.iter().filter_map(|(id, value)| {
            let Place::Arena(offset) = &plan.buffers[value.buffer].place else {
                return None;
            };
            let (from, to) = lives[id.as_u32() as usize]?;
            Some(Held {
                value: id.to_string(),
                shape: Shape::Array(value.shape.clone()).to_string(),
                offset: offset.as_constant()?,
                bytes: value.shape.byte_size()?,
                from,
                to,
            })
        });
        let mut outside = 0i64;
        for buffer in plan.buffers.values() {
            if !matches!(buffer.place, Place::Arena(_)) {
                outside = outside.saturating_add(buffer.bytes.as_constant().unwrap_or(0));
            }
        }
        Ok(Memory {
            arena_bytes: plan.arena_bytes.as_constant(),
            arena: display_term(&plan.arena_bytes, &plan.symbols),
            outside_bytes: outside,
            held: held.collect(),
            steps: steps.iter().map(|flat| cost(plan, flat)).collect(),
        })
    }
}

fn cost(plan: &Plan, flat: &FlatStep<'_>) -> StepCost {
    let shapes = |values: &[ValueId]| {
        let shape = |&v: &ValueId| Shape::Array(plan.values[v].shape.clone()).to_string();
        values.iter().map(shape).collect::<Vec<_>>().join(", ")
    };
    let label = match flat.step {
        Step::Kernel { kernel, .. } => kernel.to_string(),
        Step::Library { op, results, .. } => format!("{} to {}", op.name(), shapes(results)),
        Step::Copy { to, .. } => format!("copy to {}", shapes(&[*to])),
        _ => String::new(),
    };
    let work = Work::of_step(plan, flat.step);
    StepCost {
        label,
        operations: work.map(|work| work.operations),
        bytes: work.map(|work| work.bytes),
        depth: flat.depth,
        strips: flat.strips,
    }
}
