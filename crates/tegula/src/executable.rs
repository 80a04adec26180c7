//! Executables: programs compiled for a target, and how they run.

use crate::backend::{self, Backend, Built, RunContext};
use crate::boundary::Boundary;
use crate::executable_file::{self, Bytes, Contents};
use crate::module::signatures;
use crate::signature::Names;
use crate::{Arg, Error, ErrorKind, Limits, Options, Signature, Target, Tensor};
use std::borrow::Cow;
use std::time::{Duration, Instant};
use tegula_codegen_cpu::{Executable as CpuExecutable, Work};
use tegula_compile_cache::Key;
use tegula_custom_call::Handlers;
use tegula_ir::{ArrayShape, Literal, Module, identity};

/// Compiles a verified module, or loads it from the [cache](Options::cache).
///
/// # Errors
/// An operation that the target does not support, by name and place; an exceeded limit.
pub fn compile(module: &Module, options: &Options) -> Result<Executable, Error> {
    let compiled = options.limits.within(|| compile_or_load(module, options));
    compiled.map(|executable| Executable {
        limits: options.limits.clone(),
        ..executable
    })
}

fn compile_or_load(module: &Module, options: &Options) -> Result<Executable, Error> {
    let (Some(cache), Target::Cpu, 1) = (&options.cache, options.target, options.devices) else {
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
        // SAFETY: only this user can write to the cache, and only output of `serialize` is stored
        // there.
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

/// Loads an executable from the bytes of a file.
///
/// # Safety
/// As [`Executable::deserialize`].
unsafe fn load(bytes: &Bytes, threads: usize) -> Result<Executable, Error> {
    let start = Instant::now();
    let contents = executable_file::read(bytes)?;
    // SAFETY: the caller promises bytes from [`Executable::serialize`]; the header was checked.
    let loaded = unsafe {
        tegula_codegen_cpu::Executable::load(&contents.code, &contents.constants, threads)
    }?;
    let boundary = Boundary::of_plan(loaded.plan(), &contents.orders)?;
    let (inputs, outputs) = boundary.signatures(loaded.plan());
    let backend: Box<dyn Backend> = Box::new(loaded);
    let built = Built { backend, boundary };
    Ok(Executable::new(built, (inputs, outputs), start.elapsed()))
}

fn compile_anew(module: &Module, options: &Options) -> Result<Executable, Error> {
    let start = Instant::now();
    let built = backend::build(module, options)?;
    let (inputs, outputs) = signatures(module, &Names::default());
    let mut executable = Executable::new(built, (Vec::new(), Vec::new()), start.elapsed());
    executable.set_signatures(&inputs, &outputs);
    Ok(executable)
}

/// A compiled program. Several threads may run it at once.
pub struct Executable {
    backend: Box<dyn Backend>,
    boundary: Boundary,
    /// For each flattened parameter, its value if it is frozen, in the dimension order that the
    /// program reads.
    frozen: Vec<Option<Tensor>>,
    /// The limit that [`Self::limit_steps`] set.
    step_limit: Option<u64>,
    /// The limits of runs that are not given other limits.
    limits: Limits,
    /// The time that compiling took.
    pub compile_time: Duration,
    inputs: Vec<Signature>,
    outputs: Vec<Signature>,
    handlers: Handlers,
}

impl std::fmt::Debug for Executable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |signatures: &[Signature]| -> Vec<String> {
            signatures.iter().map(ToString::to_string).collect()
        };
        f.debug_struct("Executable")
            .field("inputs", &show(&self.inputs))
            .field("outputs", &show(&self.outputs))
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Executable {
    fn new(
        Built { backend, boundary }: Built,
        (inputs, outputs): (Vec<Signature>, Vec<Signature>),
        compile_time: Duration,
    ) -> Self {
        Self {
            backend,
            frozen: vec![None; boundary.parameters()],
            boundary,
            step_limit: None,
            limits: Limits::new(),
            compile_time,
            inputs,
            outputs,
            handlers: Handlers::default(),
        }
    }

    /// Serialises the compiled program to bytes, which [`Self::deserialize`] reads without
    /// compiling again.
    ///
    /// # Errors
    /// The target is not [`Target::Cpu`], or a parameter is [frozen](Self::freeze).
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        let Some(executable) = self.backend.downcast_ref::<CpuExecutable>() else {
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

    /// Loads a program from bytes that [`Self::serialize`] returned, for this number of threads. It
    /// refuses bytes that are damaged, from another build of Tegula, or for another CPU.
    ///
    /// # Safety
    /// The bytes are from [`Self::serialize`]. They contain machine code that is executed. Damage
    /// is detected, but not a forgery.
    ///
    /// # Errors
    /// The bytes are refused.
    pub unsafe fn deserialize(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        threads: usize,
    ) -> Result<Self, Error> {
        let bytes: Bytes = std::sync::Arc::new(bytes);
        // SAFETY: the caller promises that the bytes, which contain machine code, are from
        // [`Self::serialize`]; `load` detects damage, but not a forgery.
        unsafe { load(&bytes, threads) }
    }

    /// The inputs of the program, in order. A [deserialised](Self::deserialize) program has no
    /// names: its inputs are called `in0`, `in1`, ....
    pub fn inputs(&self) -> &[Signature] {
        &self.inputs
    }

    /// The results of the program, in order.
    pub fn outputs(&self) -> &[Signature] {
        &self.outputs
    }

    pub(crate) fn set_signatures(&mut self, inputs: &[Signature], outputs: &[Signature]) {
        let own = |signatures: &[Signature]| -> Vec<Signature> {
            match self.backend.stacked_devices() {
                Some(devices) => signatures.iter().map(|s| s.stacked(devices)).collect(),
                None => signatures.to_vec(),
            }
        };
        (self.inputs, self.outputs) = (own(inputs), own(outputs));
    }

    pub(crate) fn set_handlers(&mut self, handlers: Handlers) {
        self.handlers = handlers;
    }

    /// Runs the program. The arguments are the arrays among its parameters, in order and without
    /// the [frozen](Self::freeze) ones; the results are the arrays among its results. A [`Tensor`]
    /// passed by value may be overwritten, a borrowed one is not changed.
    ///
    /// # Errors
    /// A wrong number, type or shape of arguments; an unsupported operation; an exceeded
    /// [limit](crate::Compiler::limits).
    pub fn run<'a, A: Into<Arg<'a>>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Vec<Tensor>, Error> {
        self.run_within(&self.limits, args)
    }

    /// As [`Self::run`], with other limits than those that the program was compiled with.
    ///
    /// ```
    /// use tegula::{Compiler, ErrorKind, Interrupt, Limits, Module, Target, Tensor};
    ///
    /// let module: Module = "HloModule endless
    ///     always { i = s32[] parameter(0) ROOT yes = pred[] constant(true) }
    ///     next { i = s32[] parameter(0) one = s32[] constant(1) ROOT sum = s32[] add(i, one) }
    ///     ENTRY main { i = s32[] parameter(0) ROOT loop = s32[] while(i), condition=always, body=next }"
    ///     .parse()?;
    /// let executable = Compiler::new(Target::Cpu).compile(&module)?;
    /// let interrupt = Interrupt::new();
    /// let limits = Limits::new().interrupt(&interrupt);
    /// std::thread::scope(|threads| {
    ///     let run = threads.spawn(|| executable.run_within(&limits, [Tensor::scalar(0_i32)]));
    ///     interrupt.interrupt();
    ///     let error = run.join().expect("no panic").expect_err("it was stopped");
    ///     assert_eq!(error.kind, ErrorKind::Interrupted);
    /// });
    /// # Ok::<(), tegula::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_within<'a, A: Into<Arg<'a>>>(
        &self,
        limits: &Limits,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Vec<Tensor>, Error> {
        let args = args.into_iter().map(Into::into).collect();
        self.handlers
            .within(|| limits.within(|| self.run_args(args)))
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
        let context = RunContext {
            handlers: &self.handlers,
            step_limit: self.step_limit,
        };
        let outputs = self.backend.run(inputs, &context)?;
        Ok(self.boundary.give(outputs))
    }

    /// The shapes of the program's input arrays, with open sizes as in the program.
    pub fn input_shapes(&self) -> impl Iterator<Item = &ArrayShape> {
        self.boundary.parameter_shapes()
    }

    /// The dimension order in memory, the most major dimension first, in which the program reads an
    /// argument. An argument in another order is copied in each run. [`None`] if there is no such
    /// parameter.
    pub fn parameter_order(&self, index: usize) -> Option<&[usize]> {
        self.boundary.parameter_order(index)
    }

    /// The dimension order of a result in memory, the most major dimension first. [`None`] if there
    /// is no such result.
    pub fn result_order(&self, index: usize) -> Option<&[usize]> {
        self.boundary.result_order(index)
    }

    /// An argument for a flattened parameter, copied to the dimension order in which the program
    /// reads it, so that runs need not copy it.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn laid_out(&self, index: usize, value: Tensor) -> Result<Tensor, Error> {
        let order = self.boundary.order(index, &value);
        value.in_order(&order)
    }

    /// Fixes a parameter, by flattened number, to a value, such as weights that are the same in all
    /// runs. Later runs do not take it as an argument. The next run computes results that depend
    /// only on frozen parameters and packs operands of matrix products; the target may cache both
    /// (see the backend).
    ///
    /// # Errors
    /// There is no such parameter, or the program was specialised to another value of it.
    pub fn freeze(&mut self, index: usize, value: Tensor) -> Result<(), Error> {
        let count = self.frozen.len();
        self.boundary.check_value(index, &value)?;
        let value = self.laid_out(index, value)?;
        let slot = self.frozen.get_mut(index).ok_or_else(|| {
            let message = format!("parameter {index} does not exist: the program has {count}");
            Error::new(ErrorKind::Input, message)
        })?;
        *slot = Some(value);
        self.backend.freeze(index);
        Ok(())
    }

    /// Limits the instructions that runs of [`Target::Interp`] evaluate, or the statements that
    /// runs of [`Target::Tpu`] execute; beyond it they return an error. Other targets have no such
    /// limit.
    pub fn limit_steps(&mut self, steps: u64) {
        self.step_limit = Some(steps);
    }

    /// The operations and bytes of a run, as compiled; [`None`] if sizes are open, or the plan is
    /// not known. The bodies of loops count once.
    pub fn work(&self) -> Option<Work> {
        let plan = self.backend.plan()?;
        Work::of_steps(plan, &plan.steps)
    }

    /// The program as compiled by the target's backend.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }
}
