//! Backends: one for each target, all with the same interface.
//!
//! A backend's `build` compiles a module to a [`Backend`], which [`Executable`](crate::Executable)
//! runs. Backends that not every user of the library needs are features of this crate.

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "devices")]
pub(crate) mod devices;
#[cfg(feature = "devices")]
mod hosted;
mod interp;
mod plan;
#[cfg(feature = "tpu")]
pub mod tpu;

#[cfg(feature = "devices")]
pub use devices::{MachineCode, Shardings, SpmdExecutable};

use crate::boundary::Boundary;
use crate::{Error, ErrorKind, Options, Target};
use std::any::Any;
use std::borrow::Cow;
use std::time::Duration;
use tegula_codegen_cpu::KernelTime;
use tegula_custom_call::Handlers;
use tegula_ir::{ArrayShape, Literal, Module};
use tegula_plan::Plan;

/// A program that a target has compiled.
pub trait Backend: Any + Send + Sync {
    /// Runs the program. Inputs have the layouts and sizes that the program states.
    ///
    /// # Errors
    /// An unsupported operation; an exceeded limit; an error from a custom call.
    fn run(
        &self,
        inputs: Vec<Cow<'_, Literal>>,
        context: &RunContext<'_>,
    ) -> Result<Vec<Literal>, Error>;

    /// Declares that an input is the same in all later runs, so results that depend only on such
    /// inputs may be cached.
    fn freeze(&mut self, index: usize) {
        let _ = index;
    }

    /// The Plan that was compiled, on targets that have one.
    fn plan(&self) -> Option<&Plan> {
        None
    }

    /// The peak number of bytes that a run on inputs of these shapes uses, if it is known.
    ///
    /// # Errors
    /// The shapes are not those of the program.
    fn peak_bytes(&self, inputs: &[&ArrayShape]) -> Result<Option<i64>, Error> {
        let _ = inputs;
        Ok(None)
    }

    /// Runs the program once and returns the time of each kernel and routine; nothing on targets
    /// that do not measure it.
    ///
    /// # Errors
    /// As [`Backend::run`].
    fn profile(&self, inputs: &[&Literal]) -> Result<Vec<KernelTime>, Error> {
        let _ = inputs;
        Ok(Vec::new())
    }

    /// The mean time of a run on a device, over `runs` runs, without copies to or from it; [`None`]
    /// without a device.
    ///
    /// # Errors
    /// As [`Backend::run`].
    fn device_time(&self, inputs: &[&Literal], runs: u32) -> Result<Option<Duration>, Error> {
        let _ = (inputs, runs);
        Ok(None)
    }

    /// The number of devices, if inputs and results have an additional dimension with an entry for
    /// each.
    fn stacked_devices(&self) -> Option<usize> {
        None
    }
}

impl dyn Backend {
    /// This backend as its concrete type, if it is `T`.
    pub fn downcast_ref<T: Backend>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Handlers and limits of a run.
pub struct RunContext<'a> {
    /// The handlers of custom calls.
    pub handlers: &'a Handlers,
    /// The maximum number of instructions or statements that are executed, on targets that count
    /// them.
    pub step_limit: Option<u64>,
}

/// The result of compiling: the program, and the shapes and orders of its arrays as the caller sees
/// them.
pub(crate) struct Built {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) boundary: Boundary,
}

impl Built {
    fn new(backend: impl Backend, boundary: Boundary) -> Self {
        Self {
            backend: Box::new(backend),
            boundary,
        }
    }
}

/// Compiles a verified module for a target.
pub(crate) fn build(module: &Module, options: &Options) -> Result<Built, Error> {
    if options.devices > 1 {
        #[cfg(feature = "devices")]
        return devices::build(module, options);
        #[cfg(not(feature = "devices"))]
        return Err(missing("many devices", "devices"));
    }
    match options.target {
        Target::Cpu => cpu::build(module, options),
        Target::Interp => Ok(interp::build(module)),
        Target::Plan => plan::build(module, options),
        #[cfg(feature = "cuda")]
        Target::Cuda | Target::CudaSim => cuda::build(module, options),
        #[cfg(feature = "tpu")]
        Target::Tpu => tpu::build(module, options),
        #[cfg(not(feature = "cuda"))]
        Target::Cuda | Target::CudaSim => Err(missing("CUDA", "cuda")),
        #[cfg(not(feature = "tpu"))]
        Target::Tpu => Err(missing("TPUs", "tpu")),
    }
}

/// The error for a target that this build does not include.
#[allow(dead_code, reason = "builds with all features miss nothing")]
pub(crate) fn missing(what: &str, feature: &str) -> Error {
    let message = format!("this build has no support for {what}");
    Error {
        help: Some(format!(
            "enable the feature `{feature}` of the crate `tegula`"
        )),
        ..Error::new(ErrorKind::Unsupported, message)
    }
}
