//! Operations that run on the host: the operands are copied there, the Plan evaluator computes the
//! operation, and the results are copied back.

use crate::error::Error;
use tegula_expr::Term;
use tegula_fusion::LibraryOp;
use tegula_ir::{ArrayShape, Literal};
use tegula_plan::{Buffer, Place, Plan, PlanValue, Step, ValueId};
use tegula_plan_interp::{EvaluateError, evaluate};

/// One such operation on arrays of known shapes, as a plan with a single step.
#[derive(Clone, Debug)]
pub(crate) struct HostCall {
    plan: Plan,
}

impl HostCall {
    /// The operation of a step of a plan with static sizes.
    ///
    /// # Errors
    /// A size is not static.
    pub(crate) fn new(
        whole: &Plan,
        op: &LibraryOp,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Result<Self, Error> {
        let mut plan = Plan {
            name: op.name().to_owned(),
            arena_bytes: Term::constant(0),
            ..Plan::default()
        };
        let mut own =
            |values: &[ValueId], place: fn(usize) -> Place| -> Result<Vec<ValueId>, Error> {
                let numbered = values.iter().enumerate();
                let values = numbered.map(|(i, &value)| {
                    let shape = whole.values[value].shape.clone();
                    let bytes = shape.byte_size().map(Term::constant);
                    let bytes = bytes.ok_or_else(|| Error::Bug(format!("{value} has no size")))?;
                    let buffer = plan.buffers.push(Buffer {
                        place: place(i),
                        bytes,
                    });
                    Ok(plan.values.push(PlanValue { shape, buffer }))
                });
                values.collect()
            };
        let operands = own(operands, Place::Parameter)?;
        let results = own(results, Place::output)?;
        plan.steps.push(Step::Library {
            op: op.clone(),
            operands: operands.clone(),
            results: results.clone(),
        });
        plan.parameters = operands;
        plan.results = results;
        Ok(Self { plan })
    }

    /// The name of the operation.
    pub(crate) fn name(&self) -> &str {
        &self.plan.name
    }

    /// The shapes of the operands.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &ArrayShape> {
        self.plan
            .parameters
            .iter()
            .map(|&v| &self.plan.values[v].shape)
    }

    /// Computes the results.
    ///
    /// # Errors
    /// The errors of the evaluator.
    pub(crate) fn run(&self, operands: &[Literal]) -> Result<Vec<Literal>, Error> {
        evaluate(&self.plan, operands).map_err(|error| match error {
            EvaluateError::CustomCall(call) => Error::CustomCall(call),
            EvaluateError::Stopped(stopped) => Error::Stopped(stopped),
            other => Error::Host(format!("`{}`: {other}", self.name())),
        })
    }
}
