//! The CPU backend, which compiles to machine code for this CPU.

use super::{Backend, Built, RunContext};
use crate::planning::{PlanOptions, Planned, plan_for};
use crate::{Error, LayoutPolicy, Options};
use std::borrow::Cow;
use tegula_codegen_cpu::{Executable, KernelTime, StreamLimits};
use tegula_fusion::{Fused, FusedRegion, Unit, ValueId};
use tegula_ir::{ArrayShape, Literal, Module};
use tegula_plan::Plan;

/// Plans and compiles a module.
pub(super) fn build(module: &Module, options: &Options) -> Result<Built, Error> {
    let plan_options = PlanOptions {
        orders: options.orders,
        ..PlanOptions::default()
    };
    let Planned {
        module: expanded,
        fused,
        plan,
        boundary,
        ..
    } = plan_for(module, &plan_options)?;
    check_routines(&expanded, &fused, &fused.entry)?;
    let streaming = match options.orders {
        LayoutPolicy::Random(_) => StreamLimits::ALWAYS,
        LayoutPolicy::LeastCost | LayoutPolicy::FromProgram => StreamLimits::MEASURED,
    };
    let options = tegula_codegen_cpu::Options {
        cpu: options.cpu,
        threads: options.threads,
        streaming,
    };
    let executable = tracing::info_span!("generate", kernels = plan.kernels.len())
        .in_scope(|| Executable::new(plan, &options))?;
    Ok(Built::new(executable, boundary))
}

impl Backend for Executable {
    fn run(
        &self,
        inputs: Vec<Cow<'_, Literal>>,
        _: &RunContext<'_>,
    ) -> Result<Vec<Literal>, Error> {
        Ok(self.run(inputs)?)
    }

    fn freeze(&mut self, index: usize) {
        self.freeze(index);
    }

    fn plan(&self) -> Option<&Plan> {
        Some(self.plan())
    }

    fn peak_bytes(&self, inputs: &[&ArrayShape]) -> Result<Option<i64>, Error> {
        Ok(Some(self.peak_bytes(inputs)?))
    }

    fn profile(&self, inputs: &[&Literal]) -> Result<Vec<KernelTime>, Error> {
        Ok(self.profile(inputs)?)
    }
}

/// Checks that the CPU backend has every routine that is called, so that an error can name the
/// instruction.
fn check_routines(module: &Module, fused: &Fused, region: &FusedRegion) -> Result<(), Error> {
    for (node, unit) in region.units() {
        match unit {
            Unit::Library {
                op,
                operands,
                results,
            } => {
                // The existence of a routine does not depend on open sizes.
                let shapes = |values: &[ValueId]| -> Vec<ArrayShape> {
                    let shapes = values.iter().map(|&v| &fused.program.values[v].shape);
                    shapes.map(ArrayShape::representative).collect()
                };
                let origin = &module[fused.program.nodes[node].origin];
                let (operands, results) = (shapes(operands), shapes(results));
                let (operands, results): (Vec<_>, Vec<_>) =
                    (operands.iter().collect(), results.iter().collect());
                tegula_codegen_cpu::check_library(op, &operands, &results).map_err(|e| Error {
                    message: format!("`{}`: {e}", origin.name),
                    span: origin.span,
                    ..Error::from(e)
                })?;
            }
            Unit::While {
                condition, body, ..
            } => {
                check_routines(module, fused, condition)?;
                check_routines(module, fused, body)?;
            }
            Unit::Conditional { branches, .. } => {
                for branch in branches {
                    check_routines(module, fused, branch)?;
                }
            }
            Unit::Kernel(_) | Unit::Copy { .. } => {}
        }
    }
    Ok(())
}
