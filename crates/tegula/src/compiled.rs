//! Compiling a module for a target, and running it.

mod spmd;

pub use spmd::{MachineCode, Shardings, SpmdExecutable};

use crate::boundary::Boundary;
use crate::executable_file::{self, Bytes, Contents};
use crate::module::{Names, signatures};
use crate::tpu::TpuExecutable;
use crate::{Arg, Error, ErrorKind, Signature, Tensor};
use std::borrow::Cow;
use std::time::{Duration, Instant};
use tegula_codegen_cpu::{IsaLevel, StreamLimits};
use tegula_compile_cache::{Cache, Key};
use tegula_custom_call::Handlers;
use tegula_fusion::{Fused, FusedRegion, Limits, ProgramText, Routines, ShortLoops, Unit, ValueId};
use tegula_interp::Value;
use tegula_ir::{ArrayShape, Literal, Module, PassManager, Shape, identity};
use tegula_layout::apply_layouts::{apply_layouts, drawn};
use tegula_layout::assign::{Machine, Ordered, Reason, dense_orders, stated_orders};
use tegula_plan::Plan;
use tegula_plan::StripLimits;
use tegula_target::Chip;

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
    pub cpu: IsaLevel,
    /// How many threads a run may use, at least 1.
    pub threads: usize,
    /// Which chip, for [`Target::Tpu`]; [`None`]: a v5e.
    pub chip: Option<Chip>,
    /// In which orders arrays lie, for CPUs, GPUs and the Plan.
    pub orders: ArrayOrders,
    /// Where compiled programs are kept, for [`Target::Cpu`]; [`None`]: nowhere.
    pub cache: Option<Cache>,
    /// On how many devices of this process a program runs, at least 1: for [`Target::Cpu`],
    /// [`Target::Plan`] and [`Target::Interp`]. With more than one, a program is partitioned unless
    /// it is already; see [`Compiler::devices`](crate::Compiler::devices).
    pub devices: usize,
}

/// The orders of dimensions in which a plan's arrays lie. What a program means does not
/// depend on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArrayOrders {
    /// Those that the program states for its parameters and results, and those of least
    /// cost between.
    #[default]
    Chosen,
    /// Those that the program states; everything else is row-major.
    Stated,
    /// Drawn from this seed, for every array: what tests hold the others against. Routines
    /// compute all products then, steps are done strip by strip and stores go past the caches
    /// wherever that can be done.
    Drawn(u64),
}

/// What a program is planned for.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// What kernels may keep.
    pub limits: Limits,
    /// What costs are counted for.
    pub machine: Machine,
    /// In which orders arrays lie.
    pub orders: ArrayOrders,
    /// When steps are done strip by strip, if ever.
    pub strips: Option<StripLimits>,
    /// Whether to say why arrays lie as they do.
    pub reasons: bool,
    /// What becomes of LAPACK's routines.
    pub routines: Routines,
}

/// A CPU.
impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            machine: Machine::cpu(),
            orders: ArrayOrders::Chosen,
            strips: Some(StripLimits::CPU),
            reasons: false,
            routines: Routines::Called,
        }
    }
}

impl PlanOptions {
    /// A GPU.
    pub fn gpu() -> Self {
        Self {
            limits: tegula_codegen_cuda::LIMITS,
            machine: Machine::gpu(),
            strips: None,
            routines: Routines::Expanded,
            ..Self::default()
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            target: Target::Cpu,
            cpu: IsaLevel::Native,
            threads: 1,
            chip: None,
            orders: ArrayOrders::Chosen,
            cache: None,
            devices: 1,
        }
    }
}

impl Options {
    /// The TPU chip that is compiled for.
    pub(crate) fn chip(&self) -> Result<Chip, Error> {
        let v5e =
            || Chip::by_name("v5e").map_err(|error| Error::new(ErrorKind::Bug, error.to_string()));
        self.chip.clone().map_or_else(v5e, Ok)
    }
}

/// A program ready to run. Several threads may run it at once.
pub struct Executable {
    compiled: Compiled,
    boundary: Boundary,
    /// By flattened parameter: a value that runs are not given, lying as the program
    /// takes it.
    frozen: Vec<Option<Tensor>>,
    /// What [`Self::limit_steps`] said.
    step_limit: Option<u64>,
    /// How long compiling took.
    pub compile_time: Duration,
    inputs: Vec<Signature>,
    outputs: Vec<Signature>,
    handlers: Handlers,
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
    /// A program for several devices.
    Spmd(Box<SpmdExecutable>),
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
    /// The arrays that do not lie row-major, if they were asked for: the instruction, the
    /// layout, and why.
    pub reasons: Vec<(String, tegula_ir::Layout, Reason)>,
    boundary: Boundary,
}

/// Fuses and plans a module for a CPU, which is what every backend starts from. The
/// fused graph's instructions are those of the [expanded](tegula_fusion::expand) module, with
/// [sums after their loops](tegula_fusion::sink_loop_reductions), and new ones where arrays do not
/// lie row-major.
///
/// # Errors
/// An operation that cannot be compiled yet.
pub fn plan(module: &Module) -> Result<Planned<'_>, Error> {
    plan_for(module, &PlanOptions::default())
}

/// As [`plan`], for a machine and a backend.
///
/// # Errors
/// An operation that cannot be compiled yet.
pub fn plan_for<'a>(module: &'a Module, options: &PlanOptions) -> Result<Planned<'a>, Error> {
    plan_observed(module, options, &mut PassManager::new())
}

/// As [`plan_for`], with passes that somebody may observe.
pub(crate) fn plan_observed<'a>(
    module: &'a Module,
    options: &PlanOptions,
    passes: &mut PassManager<'_>,
) -> Result<Planned<'a>, Error> {
    let given = module;
    let module = passes.run("expand", || {
        tegula_fusion::expand_for(module, options.routines)
    })?;
    passes.show("expand", &*module);
    let module = passes.run("sink-loop-reductions", || {
        tegula_fusion::sink_loop_reductions(module)
    });
    passes.show("sink-loop-reductions", &*module);
    let short_loops = match options.orders {
        // Loops with all that they do are tried, however short.
        ArrayOrders::Drawn(_) => ShortLoops::Kept,
        ArrayOrders::Chosen | ArrayOrders::Stated => ShortLoops::Unrolled,
    };
    let program = tegula_fusion::flatten(&module, short_loops, passes)?;
    let ordered = passes.run("choose-layouts", || ordered(&module, program, options));
    passes.show("choose-layouts", &ordered.orders);
    let boundary = Boundary::of(given, &ordered.program, &ordered.orders);
    let (module, program) = passes.run("apply-layouts", || {
        apply_layouts(module, ordered.program, &ordered.orders)
    })?;
    let text = ProgramText {
        module: &module,
        program: &program,
    };
    passes.show("apply-layouts", &text);
    let (mut limits, mut strips) = (options.limits, options.strips);
    if let ArrayOrders::Drawn(_) = options.orders {
        limits.shallow = 0;
        strips = strips.map(|_| StripLimits::ALWAYS);
    }
    let fused = tegula_fusion::fuse(&module, program, limits, passes)?;
    let plan = tegula_plan::plan(&module, &fused, strips, passes)?;
    Ok(Planned {
        module,
        fused,
        plan,
        reasons: ordered.reasons,
        boundary,
    })
}

/// The flattened program with the orders of its arrays.
fn ordered(module: &Module, program: tegula_fusion::Program, options: &PlanOptions) -> Ordered {
    match options.orders {
        ArrayOrders::Chosen => dense_orders(module, program, &options.machine, options.reasons),
        ArrayOrders::Stated => stated_orders(module, program),
        ArrayOrders::Drawn(seed) => Ordered {
            orders: drawn(&program, seed),
            program,
            reasons: Vec::new(),
        },
    }
}

/// Compiles a verified module, or takes it from the [cache](Options::cache).
///
/// # Errors
/// An operation that the target cannot run, by name and place.
pub fn compile(module: &Module, options: &Options) -> Result<Executable, Error> {
    if options.devices > 1 {
        return compile_for_devices(module, options);
    }
    let (Some(cache), Target::Cpu) = (&options.cache, options.target) else {
        return compile_anew(module, options);
    };
    let start = Instant::now();
    let machine = tegula_codegen_cpu::machine(options.cpu)?;
    let options_text = format!("{machine} {:?}", options.orders);
    let (text, constants) = identity(module);
    let parts = [executable_file::BUILD, &options_text, &text].map(str::as_bytes);
    let constants = constants.into_iter().map(Literal::bytes);
    let key = Key::of(parts.into_iter().chain(constants));
    if let Some(bytes) = cache.get(&key) {
        let bytes: Bytes = std::sync::Arc::new(bytes);
        // SAFETY: only this user writes to the cache, and only what `serialize` gives.
        let kept =
            tracing::info_span!("load").in_scope(|| unsafe { load(&bytes, options.threads) });
        match kept {
            Ok(executable) => {
                return Ok(Executable {
                    compile_time: start.elapsed(),
                    ..executable
                });
            }
            Err(error) => tracing::warn!("a program in the cache is compiled again: {error}"),
        }
    }
    let executable = compile_anew(module, options)?;
    match executable.serialize() {
        Ok(bytes) => cache.put(&key, &bytes),
        Err(error) => tracing::debug!("not kept in the cache: {error}"),
    }
    Ok(executable)
}

/// An executable from the bytes of a file.
///
/// # Safety
/// As [`Executable::deserialize`].
unsafe fn load(bytes: &Bytes, threads: usize) -> Result<Executable, Error> {
    let start = Instant::now();
    let contents = executable_file::read(bytes)?;
    // SAFETY: the caller's promise; what the file says of itself was checked.
    let loaded = unsafe {
        tegula_codegen_cpu::Executable::load(&contents.code, &contents.constants, threads)
    }?;
    let boundary = Boundary::of_plan(loaded.plan(), &contents.orders)?;
    let (inputs, outputs) = boundary.signatures(loaded.plan());
    Ok(Executable {
        frozen: vec![None; boundary.parameters()],
        compiled: Compiled::Cpu(Box::new(loaded)),
        boundary,
        step_limit: None,
        compile_time: start.elapsed(),
        inputs,
        outputs,
        handlers: Handlers::default(),
    })
}

/// Compiles a module for several devices.
fn compile_for_devices(module: &Module, options: &Options) -> Result<Executable, Error> {
    let start = Instant::now();
    let compiled = SpmdExecutable::new(module, options)?;
    let boundary = Boundary::row_major(module);
    let boundary = match compiled.stacks() {
        true => boundary.stacked(i64::try_from(options.devices).unwrap_or(i64::MAX)),
        false => boundary,
    };
    let (inputs, outputs) = signatures(module, &Names::default());
    let mut executable = Executable {
        compiled: Compiled::Spmd(Box::new(compiled)),
        frozen: vec![None; boundary.parameters()],
        boundary,
        step_limit: None,
        compile_time: start.elapsed(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        handlers: Handlers::default(),
    };
    executable.set_signatures(&inputs, &outputs);
    Ok(executable)
}

fn compile_anew(module: &Module, options: &Options) -> Result<Executable, Error> {
    let start = Instant::now();
    let mut boundary = Boundary::row_major(module);
    let plan_options = match options.target {
        Target::Cuda | Target::CudaSim => PlanOptions::gpu(),
        _ => PlanOptions::default(),
    };
    let plan_options = PlanOptions {
        orders: options.orders,
        ..plan_options
    };
    let compiled = match options.target {
        Target::Interp => Compiled::Interp(Box::new(module.clone())),
        Target::Plan => {
            let planned = plan_for(module, &plan_options)?;
            boundary = planned.boundary;
            tegula_plan::verify(&planned.plan)
                .map_err(|errors| Error::new(ErrorKind::Bug, errors.join("; ")))?;
            Compiled::Plan(Box::new(planned.plan))
        }
        Target::Cpu => {
            let Planned {
                module: expanded,
                fused,
                plan,
                boundary: own,
                ..
            } = plan_for(module, &plan_options)?;
            boundary = own;
            check_routines(&expanded, &fused, &fused.entry)?;
            let streaming = match options.orders {
                ArrayOrders::Drawn(_) => StreamLimits::ALWAYS,
                ArrayOrders::Chosen | ArrayOrders::Stated => StreamLimits::MEASURED,
            };
            let options = tegula_codegen_cpu::Options {
                cpu: options.cpu,
                threads: options.threads,
                streaming,
            };
            let executable = tracing::info_span!("generate", kernels = plan.kernels.len())
                .in_scope(|| tegula_codegen_cpu::Executable::new(plan, &options))?;
            Compiled::Cpu(Box::new(executable))
        }
        Target::Cuda | Target::CudaSim => {
            let Planned {
                plan,
                boundary: own,
                ..
            } = plan_for(module, &plan_options)?;
            boundary = own;
            let generate = match options.target {
                Target::Cuda => tegula_codegen_cuda::for_gpu,
                _ => tegula_codegen_cuda::for_simulator,
            };
            let executable = tracing::info_span!("generate", kernels = plan.kernels.len())
                .in_scope(|| generate(plan))?;
            Compiled::Cuda(Box::new(executable))
        }
        Target::Tpu => {
            let chip = options.chip()?;
            Compiled::Tpu(Box::new(TpuExecutable::new(module, &chip)?))
        }
    };
    let frozen = vec![None; boundary.parameters()];
    let (inputs, outputs) = signatures(module, &Names::default());
    Ok(Executable {
        compiled,
        boundary,
        frozen,
        step_limit: None,
        compile_time: start.elapsed(),
        inputs,
        outputs,
        handlers: Handlers::default(),
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

impl Executable {
    /// The compiled program as bytes, which [`Self::deserialize`] reads without compiling again.
    ///
    /// # Errors
    /// The target is not [`Target::Cpu`], or a parameter is [frozen](Self::freeze).
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        let Compiled::Cpu(executable) = &self.compiled else {
            let message = "only programs for the CPU can be serialised";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        if let Some(required) = self.boundary.required().first() {
            let message = format!(
                "a program that was made for the value of its input `{}` cannot be serialised",
                required.name
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        executable_file::write(&Contents {
            code: executable.save()?,
            constants: executable.plan().constants.as_slice().into(),
            orders: self.boundary.orders(),
        })
    }

    /// A program from the bytes that [`Self::serialize`] gave, for as many threads. Bytes that are
    /// damaged, that another build of Tegula made, or that were made for another CPU are refused.
    ///
    /// # Safety
    /// The bytes are what [`Self::serialize`] gave: they hold machine code that is executed. That
    /// they were not damaged is checked, but not who made them.
    ///
    /// # Errors
    /// The bytes are refused.
    pub unsafe fn deserialize(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        threads: usize,
    ) -> Result<Self, Error> {
        let bytes: Bytes = std::sync::Arc::new(bytes);
        // SAFETY: the caller's promise.
        unsafe { load(&bytes, threads) }
    }

    /// What the program takes, in order. A program [read from a file](Self::deserialize) has no
    /// names: its inputs are `in0`, `in1`, ....
    pub fn inputs(&self) -> &[Signature] {
        &self.inputs
    }

    /// What the program gives, in order.
    pub fn outputs(&self) -> &[Signature] {
        &self.outputs
    }

    pub(crate) fn set_signatures(&mut self, inputs: &[Signature], outputs: &[Signature]) {
        let own = |signatures: &[Signature]| -> Vec<Signature> {
            match &self.compiled {
                Compiled::Spmd(spmd) if spmd.stacks() => {
                    let devices = spmd.topology.devices();
                    signatures.iter().map(|s| s.stacked(devices)).collect()
                }
                _ => signatures.to_vec(),
            }
        };
        (self.inputs, self.outputs) = (own(inputs), own(outputs));
    }

    pub(crate) fn set_handlers(&mut self, handlers: Handlers) {
        self.handlers = handlers;
    }

    /// Runs the program. Arguments are the arrays among its parameters, in order,
    /// without those that are [frozen](Self::freeze); results are the arrays
    /// among its results. A [`Tensor`] that is given away may be overwritten, one that is
    /// borrowed stays.
    ///
    /// # Errors
    /// Arguments of another number, type or shape than the program's, and what
    /// the target cannot do.
    pub fn run<'a, A: Into<Arg<'a>>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Vec<Tensor>, Error> {
        let args = args.into_iter().map(Into::into).collect();
        self.handlers.within(|| self.run_args(args))
    }

    fn run_args(&self, args: Vec<Arg<'_>>) -> Result<Vec<Tensor>, Error> {
        let _span = tracing::info_span!("run").entered();
        let mut given = args.into_iter();
        let mut inputs: Vec<Cow<'_, Literal>> = Vec::with_capacity(self.frozen.len());
        for (index, frozen) in self.frozen.iter().enumerate() {
            match (frozen, frozen.is_none().then(|| given.next()).flatten()) {
                (Some(buffer), _) => inputs.push(Cow::Borrowed(buffer.stored())),
                (None, Some(arg)) => inputs.push(self.boundary.take(index, arg)?),
                (None, None) => break,
            }
        }
        for arg in given {
            inputs.push(self.boundary.take(inputs.len(), arg)?);
        }
        self.boundary.check_sizes(&inputs)?;
        let outputs = match &self.compiled {
            Compiled::Cpu(executable) => executable.run(inputs)?,
            Compiled::Cuda(executable) => executable.run(&inputs)?,
            Compiled::Tpu(executable) => {
                executable.run(inputs.into_iter().map(Cow::into_owned).collect())?
            }
            Compiled::Plan(plan) => {
                let inputs: Vec<Literal> = inputs.into_iter().map(Cow::into_owned).collect();
                tegula_plan_interp::evaluate(plan, &inputs)?
            }
            Compiled::Interp(module) => {
                let inputs: Vec<&Literal> = inputs.iter().map(AsRef::as_ref).collect();
                interpret(module, &inputs, self.step_limit)?
            }
            Compiled::Spmd(spmd) => spmd.run(&inputs, &self.handlers, self.step_limit)?,
        };
        Ok(self.boundary.give(outputs))
    }

    /// The shapes of the arrays that it takes; open sizes as the program has them.
    pub fn input_shapes(&self) -> impl Iterator<Item = &ArrayShape> {
        self.boundary.parameter_shapes()
    }

    /// In which order the dimensions of an argument should lie, the most major first: one that
    /// lies otherwise is put so by each run. [`None`] if there is no such parameter.
    pub fn parameter_order(&self, index: usize) -> Option<&[usize]> {
        self.boundary.parameter_order(index)
    }

    /// In which order the dimensions of a result lie, the most major first. [`None`] if there is
    /// no such result.
    pub fn result_order(&self, index: usize) -> Option<&[usize]> {
        self.boundary.result_order(index)
    }

    /// An argument, by flattened parameter, lying in memory as the program states it.
    /// Runs that are given another one put it so themselves, each time.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn laid_out(&self, index: usize, value: Tensor) -> Result<Tensor, Error> {
        let order = self.boundary.order(index, &value);
        value.in_order(&order)
    }

    /// Fixes a parameter, by flattened number, to a value that runs then are not
    /// given: weights that do not change from run to run. The first run after that computes
    /// what depends only on such parameters, as far as the target keeps it (see the
    /// backend), and packs operands of products.
    ///
    /// # Errors
    /// There is no such parameter, or the program was made for another value of it.
    pub fn freeze(&mut self, index: usize, value: Tensor) -> Result<(), Error> {
        let count = self.frozen.len();
        self.boundary.check_value(index, &value)?;
        let value = self.laid_out(index, value)?;
        let slot = self.frozen.get_mut(index).ok_or_else(|| {
            let message = format!("there is no parameter {index}: the program has {count}");
            Error::new(ErrorKind::Input, message)
        })?;
        *slot = Some(value);
        match &mut self.compiled {
            Compiled::Cpu(executable) => executable.freeze(index),
            Compiled::Cuda(executable) => executable.freeze(index),
            Compiled::Interp(_) | Compiled::Plan(_) | Compiled::Tpu(_) | Compiled::Spmd(_) => {}
        }
        Ok(())
    }

    /// Lets runs of [`Target::Interp`] evaluate so many instructions, and of [`Target::Tpu`]
    /// execute so many statements, before they give up with an error. Other targets have no
    /// such limit.
    pub fn limit_steps(&mut self, steps: u64) {
        self.step_limit = Some(steps);
        if let Compiled::Tpu(executable) = &mut self.compiled {
            executable.step_limit = Some(steps);
        }
    }

    /// What the program was compiled to.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }
}

/// Instructions that the evaluator runs if nothing is said: some ten seconds of small ones.
const MAX_INSTRUCTIONS: u64 = 50_000_000;
/// Bytes of values that the evaluator keeps at once. An array counts for each value that has it.
const MAX_BYTES: u64 = 8 << 30;

fn interpret(
    module: &Module,
    inputs: &[&Literal],
    step_limit: Option<u64>,
) -> Result<Vec<Literal>, Error> {
    let mut rest = inputs.iter();
    let mut values = Vec::new();
    for &parameter in &module.entry_computation().parameters {
        values.push(take(&module[parameter].shape, &mut rest)?);
    }
    if rest.next().is_some() {
        let message = format!("{} inputs are more than the program takes", inputs.len());
        return Err(Error::new(ErrorKind::Input, message));
    }
    let options = tegula_interp::Options {
        max_instructions: Some(step_limit.unwrap_or(MAX_INSTRUCTIONS)),
        max_bytes: Some(MAX_BYTES),
        ..tegula_interp::Options::default()
    };
    let result = tegula_interp::evaluate_with(module, &values, &options)?;
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
                ErrorKind::Input,
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
