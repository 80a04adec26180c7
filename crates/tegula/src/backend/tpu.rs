//! The simulated TPU's backend: assigns layouts and memory spaces, schedules the program, lowers it
//! to the simulator's kernel language and runs it.

use super::{Backend, Built, RunContext};
use crate::boundary::Boundary;
use crate::{Error, ErrorKind};
use std::borrow::Cow;
use std::collections::BTreeMap;
use tegula_codegen_tpu::{Lowered, ResultOf, lower};
use tegula_interp::Value;
use tegula_ir::{Literal, Module, PassManager};
use tegula_layout::assign::{AssignError, Assignment, Machine, assign};
use tegula_sim_tpu::{Options, PrintForm, Report, print_kernel, simulate};
use tegula_target::{Chip, Param};
use tegula_tpu_schedule::Schedule;

/// The names of the passes of [`TpuExecutable::new`], in order.
pub(crate) fn passes() -> Vec<&'static str> {
    let [flatten, _] = tegula_fusion::PASSES;
    let last: [&[&str]; 3] = [
        &["expand"],
        flatten,
        &["assign-layouts", "schedule-memory", "lower-to-tpu"],
    ];
    last.concat()
}

/// Lowers a module for the chip in the options.
pub(super) fn build(module: &Module, options: &crate::Options) -> Result<Built, Error> {
    let executable = TpuExecutable::new(module, &options.chip()?)?;
    Ok(Built::new(executable, Boundary::row_major(module)))
}

impl Backend for TpuExecutable {
    fn run(
        &self,
        inputs: Vec<Cow<'_, Literal>>,
        context: &RunContext<'_>,
    ) -> Result<Vec<Literal>, Error> {
        let inputs = inputs.into_iter().map(Cow::into_owned).collect();
        self.checked_run(inputs, context.step_limit)
    }
}

/// A program scheduled for a chip.
#[derive(Clone, Debug)]
pub struct ScheduledProgram<'a> {
    /// The module, with composite operations expanded.
    pub module: Cow<'a, Module>,
    /// The layouts of its arrays.
    pub assignment: Assignment,
    /// The order of execution and the place of every array in memory.
    pub schedule: Schedule,
}

/// Assigns layouts and memory spaces for a chip. `explain` lists the arrays for which reasons are
/// recorded.
///
/// # Errors
/// A chip whose layouts are not known; a program with open sizes.
pub fn schedule_for<'a>(
    module: &'a Module,
    chip: &Chip,
    explain: &dyn Fn(&str) -> bool,
    passes: &mut PassManager<'_>,
) -> Result<ScheduledProgram<'a>, Error> {
    let machine = Machine::tpu(chip).ok_or_else(|| {
        let message = format!(
            "the default layouts of the chip {0} were not measured; to assume those of the \
             other chips, `tegula simulate --chip {0} --set tile_rule=compact`, or a chip file \
             with the line `tile_rule = compact`",
            chip.name
        );
        Error::new(ErrorKind::Unsupported, message)
    })?;
    let module = passes.run("expand", || tegula_fusion::expand(module))?;
    passes.show("expand", &*module);
    let assignment = assign(&module, &machine, explain, passes).map_err(|error| match error {
        AssignError::Program(error) => error.into(),
        other => Error::new(ErrorKind::Unsupported, other.to_string()),
    })?;
    tegula_limits::check()?;
    let mut options = tegula_tpu_schedule::Options::default();
    if let Some(bytes) = chip.value(Param::VmemBytes) {
        // On a chip with less memory, a kernel may use at most half of it.
        options.scoped_bytes = options.scoped_bytes.min(bytes as i64 / 2);
    }
    let schedule = passes.run("schedule-memory", || {
        tegula_tpu_schedule::schedule(&module, &assignment, chip, &options)
    });
    tegula_limits::check()?;
    tegula_tpu_schedule::verify(&schedule, &assignment.program)
        .map_err(|e| Error::new(ErrorKind::Bug, format!("the schedule is wrong: {e}")))?;
    Ok(ScheduledProgram {
        module,
        assignment,
        schedule,
    })
}

/// A program lowered for a simulated chip.
#[derive(Clone, Debug)]
pub struct TpuExecutable {
    /// The lowered program.
    pub lowered: Lowered,
    /// The chip.
    pub chip: Chip,
    /// The maximum number of statements that are executed; [`None`] means the simulator's own
    /// limit.
    pub step_limit: Option<u64>,
    /// The number of arrays among the program's parameters.
    parameters: usize,
    /// Loops whose trip counts are unknown, with the assumed counts.
    assumed_loops: Vec<(String, u64)>,
}

impl TpuExecutable {
    /// Lowers a verified module for a chip.
    ///
    /// # Errors
    /// As [`schedule_for`]; a kernel that does not fit into VMEM.
    pub fn new(module: &Module, chip: &Chip) -> Result<Self, Error> {
        Self::observed(module, chip, &mut PassManager::new())
    }

    /// As [`Self::new`], with an optional observer of the passes.
    pub(crate) fn observed(
        module: &Module,
        chip: &Chip,
        passes: &mut PassManager<'_>,
    ) -> Result<Self, Error> {
        let laid = schedule_for(module, chip, &|_| false, passes)?;
        let (layouts, schedule) = (&laid.assignment, &laid.schedule);
        let lowered = passes.run("lower-to-tpu", || {
            lower(&laid.module, layouts, schedule, chip)
        });
        let lowered =
            lowered.map_err(|error| Error::new(ErrorKind::Unsupported, error.to_string()))?;
        let text = print_kernel(&lowered.program, PrintForm::Short);
        passes.show("lower-to-tpu", &text);
        let assumed = tegula_layout::assumed_trips(&laid.module, &laid.assignment.program);
        Ok(Self {
            lowered,
            chip: chip.clone(),
            step_limit: None,
            parameters: laid.assignment.program.parameters.len(),
            assumed_loops: assumed
                .into_iter()
                .map(|(id, trips)| (laid.module[id].name.to_string(), trips))
                .collect(),
        })
    }

    /// Loops whose trip counts are unknown, each with the count that the schedule and a simulation
    /// without values assume.
    pub fn assumed_loops(&self) -> &[(String, u64)] {
        &self.assumed_loops
    }

    /// Simulates the program, with values if `inputs` has any.
    ///
    /// # Errors
    /// Inputs that do not match the program; an exceeded limit of the simulator.
    pub fn simulate(&self, inputs: Option<Vec<Literal>>, timeline: bool) -> Result<Report, Error> {
        self.simulate_within(inputs, timeline, self.step_limit)
    }

    fn simulate_within(
        &self,
        inputs: Option<Vec<Literal>>,
        timeline: bool,
        step_limit: Option<u64>,
    ) -> Result<Report, Error> {
        let mut options = Options {
            functional: inputs.is_some(),
            record_timeline: timeline,
            ..Options::default()
        };
        if let Some(steps) = step_limit {
            options.step_limit = steps;
        }
        if let Some(inputs) = inputs {
            let given = inputs.len();
            if given != self.parameters {
                let message = format!(
                    "the program takes {} inputs, found {given}",
                    self.parameters
                );
                return Err(Error::new(ErrorKind::Input, message));
            }
            options.inputs = inputs;
            options
                .inputs
                .extend(self.lowered.constants.iter().cloned());
        }
        tracing::info_span!("simulate")
            .in_scope(|| simulate(&self.lowered.program, &self.chip, &options))
            .map_err(|error| {
                use tegula_sim_tpu::Error as Simulation;
                let fault = match &error {
                    Simulation::Stopped { reason, .. } => return Error::from(*reason),
                    Simulation::Evaluation { reason, .. } => return Error::from(reason.clone()),
                    Simulation::Program { .. } => ErrorKind::Bug,
                    Simulation::Unsupported { .. } => ErrorKind::Unsupported,
                    Simulation::Inputs(_) => ErrorKind::Input,
                    Simulation::Limit { .. } => ErrorKind::Limit,
                };
                Error::new(fault, error.to_string())
            })
    }

    /// Runs the program; a problem that the simulator reports is an error.
    fn checked_run(
        &self,
        inputs: Vec<Literal>,
        step_limit: Option<u64>,
    ) -> Result<Vec<Literal>, Error> {
        let given: BTreeMap<usize, Literal> = self
            .lowered
            .results
            .iter()
            .filter_map(|result| match result {
                ResultOf::Parameter(number, _) => Some((*number, inputs.get(*number)?.clone())),
                ResultOf::Result(..) => None,
            })
            .collect();
        let report = self.simulate_within(Some(inputs), false, step_limit.or(self.step_limit))?;
        if let Some(finding) = report.findings.first() {
            let at = (finding.line as usize).checked_sub(1);
            let name = at.and_then(|at| self.lowered.instructions.get(at));
            let message = format!(
                "{} at `{}`: {}",
                finding.code.name(),
                name.map_or("the program", String::as_str),
                finding.message
            );
            let fault = if report.fits {
                ErrorKind::Bug
            } else {
                ErrorKind::Limit
            };
            return Err(Error::new(fault, message));
        }
        let constants = &self.lowered.constants;
        let of = |result: &ResultOf| {
            let (literal, view) = match result {
                ResultOf::Result(number, view) => (report.results.get(*number), view),
                ResultOf::Parameter(number, view) => {
                    let own = given.get(number);
                    let constant = number.checked_sub(self.parameters);
                    (own.or_else(|| constants.get(constant?)), view)
                }
            };
            let literal = literal.ok_or_else(|| {
                Error::new(
                    ErrorKind::Bug,
                    "the simulation returned no array for a result",
                )
            })?;
            match view {
                None => Ok(literal.clone()),
                Some(view) => shown(view, literal),
            }
        };
        self.lowered.results.iter().map(of).collect()
    }
}

/// Evaluates a module of one parameter on an array, to convert between logical and stored form.
fn shown(view: &Module, literal: &Literal) -> Result<Literal, Error> {
    match tegula_interp::evaluate(view, &[Value::Array(literal.clone())])? {
        Value::Array(literal) => Ok(literal),
        _ => Err(Error::new(
            ErrorKind::Bug,
            "a result's view must return an array",
        )),
    }
}
