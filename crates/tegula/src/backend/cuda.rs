//! The GPU backend, for a real or a simulated GPU.

use super::{Backend, Built, RunContext};
use crate::planning::{PlanOptions, plan_for};
use crate::{Error, Options, Target};
use std::borrow::Cow;
use std::time::Duration;
use tegula_codegen_cuda::{Executable, for_gpu, for_simulator};
use tegula_ir::{ArrayShape, Literal, Module};
use tegula_plan::Plan;

/// Plans a module and compiles it to a device program.
pub(super) fn build(module: &Module, options: &Options) -> Result<Built, Error> {
    let plan_options = PlanOptions {
        orders: options.orders,
        ..PlanOptions::gpu()
    };
    let planned = plan_for(module, &plan_options)?;
    let generate = match options.target {
        Target::Cuda => for_gpu,
        _ => for_simulator,
    };
    let plan = planned.plan;
    let executable = tracing::info_span!("generate", kernels = plan.kernels.len())
        .in_scope(|| generate(plan))?;
    Ok(Built::new(executable, planned.boundary))
}

impl Backend for Executable {
    fn run(
        &self,
        inputs: Vec<Cow<'_, Literal>>,
        _: &RunContext<'_>,
    ) -> Result<Vec<Literal>, Error> {
        Ok(self.run(&inputs)?)
    }

    fn freeze(&mut self, index: usize) {
        self.freeze(index);
    }

    fn plan(&self) -> Option<&Plan> {
        Some(self.plan())
    }

    fn peak_bytes(&self, inputs: &[&ArrayShape]) -> Result<Option<i64>, Error> {
        let bytes = self.peak_bytes(inputs)?;
        Ok(Some(i64::try_from(bytes).unwrap_or(i64::MAX)))
    }

    fn device_time(&self, inputs: &[&Literal], runs: u32) -> Result<Option<Duration>, Error> {
        let inputs: Vec<Cow<'_, Literal>> = inputs.iter().map(|&i| Cow::Borrowed(i)).collect();
        Ok(Some(self.time(&inputs, runs)?))
    }
}
