//! The Plan's backend, which evaluates it with plain loops.

use super::{Backend, Built, RunContext};
use crate::planning::{PlanOptions, plan_for};
use crate::{Error, ErrorKind, Options};
use std::borrow::Cow;
use tegula_ir::{Literal, Module};
use tegula_plan::Plan;

/// Plans a module.
pub(super) fn build(module: &Module, options: &Options) -> Result<Built, Error> {
    let options = PlanOptions {
        orders: options.orders,
        ..PlanOptions::default()
    };
    let planned = plan_for(module, &options)?;
    tegula_plan::verify(&planned.plan)
        .map_err(|errors| Error::new(ErrorKind::Bug, errors.to_string()))?;
    Ok(Built::new(Evaluated(planned.plan), planned.boundary))
}

/// A Plan to be evaluated.
pub(crate) struct Evaluated(Plan);

impl Backend for Evaluated {
    fn run(
        &self,
        inputs: Vec<Cow<'_, Literal>>,
        _: &RunContext<'_>,
    ) -> Result<Vec<Literal>, Error> {
        let inputs: Vec<Literal> = inputs.into_iter().map(Cow::into_owned).collect();
        Ok(tegula_plan_interp::evaluate(&self.0, &inputs)?)
    }

    fn plan(&self) -> Option<&Plan> {
        Some(&self.0)
    }
}
