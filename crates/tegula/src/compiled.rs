//! Compiling a module for a target, and running it.

use crate::tpu::TpuExecutable;
use crate::{Arg, Buffer, Error, Fault};
use std::borrow::Cow;
use std::time::{Duration, Instant};
use tegula_codegen_cpu::Cpu;
use tegula_fusion::{Fused, FusedRegion, Limits, Unit, ValueId};
use tegula_interp::Value;
use tegula_ir::{ArrayShape, Literal, Module, Shape};
use tegula_layout::Plan;

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Machine code for this CPU.
    #[default]
    Cpu,
    /// The reference evaluator: every operation by its definition.
    Interp,
    /// The Plan, evaluated by plain loops: what every backend must compute.
    Plan,
    /// A device program for the first GPU.
    Cuda,
    /// The same program on a GPU that is simulated, with checks that none makes.
    CudaSim,
    /// The simulated TPU, which also checks the placement.
    Tpu,
}

/// How to compile.
#[derive(Clone, Debug)]
pub struct Options {
    /// What for.
    pub target: Target,
    /// Which CPU, for [`Target::Cpu`].
    pub cpu: Cpu,
    /// How many threads a run may use, at least 1.
    pub threads: usize,
    /// Which chip, for [`Target::Tpu`]; [`None`]: a v5e.
    pub chip: Option<tegula_target::Chip>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            target: Target::Cpu,
            cpu: Cpu::Native,
            threads: 1,
            chip: None,
        }
    }
}

/// A program ready to run. Several threads may run it at once.
pub struct Executable {
    compiled: Compiled,
    /// By flattened parameter: a value that runs are not given.
    frozen: Vec<Option<Buffer>>,
    /// How long compiling took.
    pub compile_time: Duration,
}

/// What a program was compiled to.
pub enum Compiled {
    /// Machine code.
    Cpu(Box<tegula_codegen_cpu::Executable>),
    /// The module as it is.
    Interp(Box<Module>),
    /// Its plan.
    Plan(Box<Plan>),
    /// A device program.
    Cuda(Box<tegula_codegen_cuda::Executable>),
    /// A program for the simulated TPU.
    Tpu(Box<TpuExecutable>),
}

/// A program on its way to a backend.
#[derive(Clone, Debug)]
pub struct Planned<'a> {
    /// The module, in which compositions of operations are spelled out. What was
    /// fused names its instructions.
    pub module: Cow<'a, Module>,
    /// What is computed where.
    pub fused: Fused,
    /// Where everything lies.
    pub plan: Plan,
}

/// Fuses and plans a module, which is what every backend starts from. The fused
/// graph's instructions are those of the [expanded](tegula_fusion::expand) module, with
/// [sums behind their loops](tegula_fusion::sum_after_loops).
///
/// # Errors
/// An operation that cannot be compiled yet.
pub fn plan(module: &Module) -> Result<Planned<'_>, Error> {
    plan_within(module, Limits::default())
}

/// As [`plan`], with what the backend's kernels may keep.
///
/// # Errors
/// An operation that cannot be compiled yet.
pub fn plan_within(module: &Module, limits: Limits) -> Result<Planned<'_>, Error> {
    let module = tracing::info_span!("expand").in_scope(|| tegula_fusion::expand(module))?;
    let module = tracing::info_span!("sums").in_scope(|| tegula_fusion::sum_after_loops(module));
    let program = tracing::info_span!("flatten").in_scope(|| tegula_fusion::flatten(&module))?;
    let fused = tracing::info_span!("fuse", nodes = program.nodes.len())
        .in_scope(|| tegula_fusion::fuse(&module, program, limits))?;
    let plan =
        tracing::info_span!("plan").in_scope(|| tegula_layout::plan::plan(&module, &fused))?;
    Ok(Planned {
        module,
        fused,
        plan,
    })
}

/// Compiles a verified module.
///
/// # Errors
/// An operation that the target cannot run, by name and place.
pub fn compile(module: &Module, options: &Options) -> Result<Executable, Error> {
    let start = Instant::now();
    let compiled = match options.target {
        Target::Interp => Compiled::Interp(Box::new(module.clone())),
        Target::Plan => {
            let plan = plan(module)?.plan;
            tegula_layout::plan::verify(&plan)
                .map_err(|errors| Error::new(Fault::Bug, errors.join("; ")))?;
            Compiled::Plan(Box::new(plan))
        }
        Target::Cpu => {
            let Planned {
                module: expanded,
                fused,
                plan,
            } = plan(module)?;
            check_routines(&expanded, &fused, &fused.entry)?;
            let options = tegula_codegen_cpu::Options {
                cpu: options.cpu,
                threads: options.threads,
            };
            let executable = tracing::info_span!("generate", kernels = plan.kernels.len())
                .in_scope(|| tegula_codegen_cpu::Executable::new(plan, &options))?;
            Compiled::Cpu(Box::new(executable))
        }
        Target::Cuda | Target::CudaSim => {
            let plan = plan_within(module, tegula_codegen_cuda::LIMITS)?.plan;
            let generate = match options.target {
                Target::Cuda => tegula_codegen_cuda::for_gpu,
                _ => tegula_codegen_cuda::for_simulator,
            };
            let executable = tracing::info_span!("generate", kernels = plan.kernels.len())
                .in_scope(|| generate(plan))?;
            Compiled::Cuda(Box::new(executable))
        }
        Target::Tpu => {
            let chip = options.chip.clone();
            let chip = chip.map_or_else(|| tegula_target::Chip::by_name("v5e"), Ok);
            let chip = chip.map_err(|error| Error::new(Fault::Bug, error.to_string()))?;
            Compiled::Tpu(Box::new(TpuExecutable::new(module, &chip)?))
        }
    };
    let parameters = parameter_count(module);
    let frozen = vec![None; parameters];
    Ok(Executable {
        compiled,
        frozen,
        compile_time: start.elapsed(),
    })
}

/// Whether the CPU backend has every routine that is called, so that an error can
/// name the instruction.
fn check_routines(module: &Module, fused: &Fused, region: &FusedRegion) -> Result<(), Error> {
    for (node, unit) in region.units() {
        match unit {
            Unit::Library {
                op,
                operands,
                results,
            } => {
                // Whether there is a routine does not depend on open sizes.
                let shapes = |values: &[ValueId]| -> Vec<ArrayShape> {
                    let shapes = values.iter().map(|&v| &fused.program.values[v].shape);
                    shapes.map(ArrayShape::typical).collect()
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

/// The number of arrays among the entry's parameters.
fn parameter_count(module: &Module) -> usize {
    let entry = module.entry_computation();
    entry
        .parameters
        .iter()
        .map(|&p| tegula_fusion::array_leaves(&module[p].shape).len())
        .sum()
}

impl Executable {
    /// Runs the program. Arguments are the arrays among its parameters, in order,
    /// without those that are [frozen](Self::freeze); results are the arrays
    /// among its results.
    ///
    /// # Errors
    /// Arguments of another number, type or shape than the program's, and what
    /// the target cannot do.
    pub fn run(&self, args: Vec<Arg<'_>>) -> Result<Vec<Buffer>, Error> {
        let _span = tracing::info_span!("run").entered();
        let mut given = args.into_iter().map(Arg::into_literal);
        let mut inputs: Vec<Cow<'_, Literal>> = Vec::with_capacity(self.frozen.len());
        for frozen in &self.frozen {
            let frozen = frozen
                .as_ref()
                .map(|buffer| Cow::Borrowed(buffer.literal()));
            match frozen.or_else(|| given.next()) {
                Some(literal) => inputs.push(literal),
                None => break,
            }
        }
        inputs.extend(given);
        let outputs = match &self.compiled {
            Compiled::Cpu(executable) => executable.run(inputs)?,
            Compiled::Cuda(executable) => executable.run(&inputs)?,
            Compiled::Tpu(executable) => {
                executable.run(inputs.into_iter().map(Cow::into_owned).collect())?
            }
            Compiled::Plan(plan) => {
                let inputs: Vec<Literal> = inputs.into_iter().map(Cow::into_owned).collect();
                tegula_layout::plan::evaluate(plan, &inputs)?
            }
            Compiled::Interp(module) => {
                let inputs: Vec<&Literal> = inputs.iter().map(AsRef::as_ref).collect();
                interpret(module, &inputs)?
            }
        };
        Ok(outputs.into_iter().map(Buffer::from).collect())
    }

    /// Fixes a parameter, by flattened number, to a value that runs then are not
    /// given: weights that do not change from run to run.
    ///
    /// # Errors
    /// There is no such parameter.
    pub fn freeze(&mut self, index: usize, value: Buffer) -> Result<(), Error> {
        let count = self.frozen.len();
        let slot = self.frozen.get_mut(index).ok_or_else(|| {
            let message = format!("there is no parameter {index}: the program has {count}");
            Error::new(Fault::Input, message)
        })?;
        *slot = Some(value);
        if let Compiled::Cuda(executable) = &mut self.compiled {
            executable.freeze(index);
        }
        Ok(())
    }

    /// What the program was compiled to.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }
}

fn interpret(module: &Module, inputs: &[&Literal]) -> Result<Vec<Literal>, Error> {
    let mut rest = inputs.iter();
    let mut values = Vec::new();
    for &parameter in &module.entry_computation().parameters {
        values.push(take(&module[parameter].shape, &mut rest)?);
    }
    if rest.next().is_some() {
        let message = format!("{} inputs are more than the program takes", inputs.len());
        return Err(Error::new(Fault::Input, message));
    }
    let result = tegula_interp::evaluate(module, &values)?;
    let mut outputs = Vec::new();
    flatten(result, &mut outputs);
    Ok(outputs)
}

/// A value of a shape from the next arrays.
fn take<'a>(
    shape: &Shape,
    arrays: &mut impl Iterator<Item = &'a &'a Literal>,
) -> Result<Value, Error> {
    match shape {
        Shape::Array(_) => match arrays.next() {
            Some(&literal) => Ok(Value::Array(literal.clone())),
            None => Err(Error::new(
                Fault::Input,
                "there are fewer inputs than the program takes",
            )),
        },
        Shape::Tuple(elements) => {
            let elements: Result<_, _> = elements.iter().map(|e| take(e, arrays)).collect();
            Ok(Value::Tuple(elements?))
        }
        _ => Ok(Value::Token),
    }
}

fn flatten(value: Value, out: &mut Vec<Literal>) {
    match value {
        Value::Array(literal) => out.push(literal),
        Value::Tuple(elements) => elements.into_iter().for_each(|e| flatten(e, out)),
        Value::Token => {}
    }
}
