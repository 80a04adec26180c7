//! The compiler: compiles programs for a target.

use crate::{
    Cache, Error, ErrorKind, Executable, IsaLevel, LayoutPolicy, Limits, Module, Options, Target,
    Tensor, compile,
};
use std::path::PathBuf;
use tegula_custom_call::{Handlers, RegisterError};
use tegula_ir::{ArrayShape, CustomCall, Literal};
use tegula_target::Chip;

/// The error type of custom calls' handlers.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Compiles programs for a target.
///
/// ```
/// use tegula::{Compiler, Module, Target, Tensor};
///
/// let module: Module = "HloModule double
///     ENTRY main { x = f32[?] parameter(0) ROOT sum = f32[?] add(x, x) }"
///     .parse()?;
/// let executable = Compiler::new(Target::Cpu).threads(2).compile(&module)?;
/// for count in [1, 3] {
///     let x = Tensor::from_slice(&[count], &vec![1.5_f32; count as usize])?;
///     let results = executable.run([&x])?;
///     assert_eq!(results[0].as_slice::<f32>(), Some(&vec![3.0; count as usize][..]));
/// }
/// # Ok::<(), tegula::Error>(())
/// ```
///
/// The compiler takes handlers for a program's custom calls:
///
/// ```
/// use tegula::{Compiler, Module, Target, Tensor};
///
/// let module: Module = "HloModule custom
///     ENTRY main {
///       x = f32[3] parameter(0)
///       ROOT twice = f32[3] custom-call(x), custom_call_target=\"twice\"
///     }"
///     .parse()?;
/// let compiler = Compiler::new(Target::Cpu).custom_call("twice", |_call, inputs, _results| {
///     let x = inputs[0].as_slice::<f32>().ok_or("only f32 is doubled")?;
///     let doubled: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
///     Ok(vec![Tensor::from_slice(&inputs[0].dims(), &doubled)?])
/// });
/// let x = Tensor::from_slice(&[3], &[1.0_f32, 2.0, 3.0])?;
/// let results = compiler.compile(&module)?.run([x])?;
/// assert_eq!(results[0].as_slice::<f32>(), Some(&[2.0, 4.0, 6.0][..]));
/// # Ok::<(), tegula::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Compiler {
    options: Options,
    cache: Option<PathBuf>,
    handlers: Handlers,
    /// The error of the first handler of a custom call that was refused.
    refused: Option<RegisterError>,
}

impl Compiler {
    /// A compiler for a target, with one thread and no cache.
    pub fn new(target: Target) -> Self {
        Self::from(Options {
            target,
            ..Options::default()
        })
    }

    /// For [`Target::Cpu`]: the instruction set level; by default, all instructions of this CPU.
    #[must_use]
    pub fn cpu(mut self, level: IsaLevel) -> Self {
        self.options.cpu = level;
        self
    }

    /// The number of threads that a run may use, at least 1.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = threads.max(1);
        self
    }

    /// For [`Target::Tpu`]: the chip; by default a v5e.
    #[must_use]
    pub fn chip(mut self, chip: Chip) -> Self {
        self.options.chip = Some(chip);
        self
    }

    /// For CPUs, GPUs and the Plan: the dimension orders of arrays in memory.
    #[must_use]
    pub fn orders(mut self, orders: LayoutPolicy) -> Self {
        self.options.orders = orders;
        self
    }

    /// For [`Target::Cpu`]: stores compiled programs in this folder and loads them from there. The
    /// folder is created if needed, and must not be writable for other users.
    #[must_use]
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// For [`Target::Cpu`], [`Target::Plan`] and [`Target::Interp`]: the number of devices within
    /// this process on which a program runs, at least 1.
    ///
    /// A program is partitioned by the shardings that it states; inputs and results are whole
    /// arrays. A program that is partitioned already, which has collectives, has no whole arrays:
    /// each input and each result has one more dimension, the most major one, with an entry for
    /// each device.
    ///
    /// ```
    /// use tegula::{Compiler, Module, Target, Tensor};
    ///
    /// let module: Module = "HloModule sum, num_partitions=2
    ///     add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ///     ENTRY main {
    ///       x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
    ///       zero = f32[] constant(0)
    ///       ROOT sum = f32[] reduce(x, zero), dimensions={0}, to_apply=add
    ///     }"
    ///     .parse()?;
    /// let executable = Compiler::new(Target::Cpu).devices(2).compile(&module)?;
    /// let x = Tensor::from_slice(&[4], &[1.0_f32, 2.0, 3.0, 4.0])?;
    /// assert_eq!(executable.run([&x])?[0].as_slice::<f32>(), Some(&[10.0][..]));
    /// # Ok::<(), tegula::Error>(())
    /// ```
    #[must_use]
    pub fn devices(mut self, devices: usize) -> Self {
        self.options.devices = devices.max(1);
        self
    }

    /// The limits of compilation, and of each run of the compiled program unless
    /// [`Executable::run_within`] sets others.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tegula::{Compiler, ErrorKind, Limits, Module, Target};
    ///
    /// let endless: Module = "HloModule endless
    ///     always { i = s32[] parameter(0) ROOT yes = pred[] constant(true) }
    ///     next { i = s32[] parameter(0) one = s32[] constant(1) ROOT sum = s32[] add(i, one) }
    ///     ENTRY main { i = s32[] constant(0) ROOT loop = s32[] while(i), condition=always, body=next }"
    ///     .parse()?;
    /// let limits = Limits::new().timeout(Duration::from_millis(100)).memory(1 << 20);
    /// let executable = Compiler::new(Target::Cpu).limits(limits).compile(&endless)?;
    /// let error = executable.run([] as [tegula::Tensor; 0]).expect_err("it never ends");
    /// assert_eq!(error.kind, ErrorKind::Timeout);
    /// # Ok::<(), tegula::Error>(())
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        self
    }

    /// Sets the handler of custom calls with this `custom_call_target=` in programs of this
    /// compiler. It computes the results from the call, the arrays among its operands, and the
    /// shapes of the results. If the target has a handler already or is built in, [`Self::compile`]
    /// returns an error.
    #[must_use]
    pub fn custom_call(
        mut self,
        target: &str,
        handler: impl Fn(&CustomCall, &[Tensor], &[ArrayShape]) -> Result<Vec<Tensor>, BoxError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let on_literals = move |call: &CustomCall, given: &[Literal], results: &[ArrayShape]| {
            let given: Vec<Tensor> = given.iter().cloned().map(Tensor::from).collect();
            let made = handler(call, &given, results).map_err(|error| error.to_string())?;
            Ok(made.into_iter().map(Tensor::into_literal).collect())
        };
        if let Err(error) = self.handlers.add(target, on_literals) {
            self.refused.get_or_insert(error);
        }
        self
    }

    /// Compiles a program.
    ///
    /// # Errors
    /// An operation that the target does not support, by name and place; a handler of a custom call
    /// that was refused; a cache that cannot be used; an exceeded [limit](Self::limits).
    pub fn compile(&self, module: &Module) -> Result<Executable, Error> {
        if let Some(refused) = &self.refused {
            return Err(Error::new(ErrorKind::Input, refused.to_string()));
        }
        let mut options = self.options.clone();
        if let Some(folder) = &self.cache {
            options.cache = Some(Cache::named(folder)?);
        }
        let compiled = self.handlers.within(|| compile(module, &options));
        let mut executable = compiled.map_err(|error| error.with_source(module.source()))?;
        executable.set_signatures(module.inputs(), module.outputs());
        executable.set_handlers(self.handlers.clone());
        Ok(executable)
    }
}

impl From<Options> for Compiler {
    fn from(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }
}
