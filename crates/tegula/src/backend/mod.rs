//! The targets, each an implementation of one interface.
//!
//! A backend compiles a module in `build` and is then a [`Backend`], which [`Executable`](crate::Executable)
//! runs. Those that a library user may do without are features of this crate.

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
    /// Runs it. Inputs have the layouts and sizes that the program states.
    ///
    /// # Errors
    /// What the target cannot do; a limit; what a custom call says.
    fn run(
        &self,
        inputs: Vec<Cow<'_, Literal>>,
        context: &RunContext<'_>,
    ) -> Result<Vec<Literal>, Error>;

    /// Says that this input is the same in all runs that follow. What depends only on such inputs may
    /// be kept.
    fn freeze(&mut self, index: usize) {
        let _ = index;
    }

    /// The Plan that was compiled, on targets that have one.
    fn plan(&self) -> Option<&Plan> {
        None
    }

    /// The most bytes that a run on inputs of these shapes uses at once, if that is known.
    ///
    /// # Errors
    /// The shapes are not those of the program.
    fn peak_bytes(&self, inputs: &[&ArrayShape]) -> Result<Option<i64>, Error> {
        let _ = inputs;
        Ok(None)
    }

    /// Runs it once and gives the time of each kernel and routine; nothing on targets that do not know.
    ///
    /// # Errors
    /// As [`Backend::run`].
    fn profile(&self, inputs: &[&Literal]) -> Result<Vec<KernelTime>, Error> {
        let _ = inputs;
        Ok(Vec::new())
    }

    /// The time of a run on a device, the mean of so many, with nothing copied to it or back; [`None`]
    /// without a device.
    ///
    /// # Errors
    /// As [`Backend::run`].
    fn device_time(&self, inputs: &[&Literal], runs: u32) -> Result<Option<Duration>, Error> {
        let _ = (inputs, runs);
        Ok(None)
    }

    /// On how many devices it runs if inputs and results have an entry for each, as one more
    /// dimension.
    fn stacked_devices(&self) -> Option<usize> {
        None
    }
}

impl dyn Backend {
    /// The backend's own type.
    pub fn downcast_ref<T: Backend>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// What a run may use.
pub struct RunContext<'a> {
    /// The functions that custom calls run.
    pub handlers: &'a Handlers,
    /// After how many instructions or statements it gives up, on targets that count them.
    pub step_limit: Option<u64>,
}

/// What compiling gives: the program, and how its arrays come in and go out.
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

/// The error of a target that this build leaves out.
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
