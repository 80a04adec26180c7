//! Compilation options.

#[cfg(feature = "tpu")]
use crate::{Error, ErrorKind};
use tegula_codegen_cpu::IsaLevel;
use tegula_compile_cache::Cache;
use tegula_limits::Limits;
use tegula_target::Chip;

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// Machine code for this CPU.
    #[default]
    Cpu,
    /// The reference evaluator, which executes every operation by its definition.
    Interp,
    /// The Plan, evaluated with plain loops. It defines what backends must compute.
    Plan,
    /// A program for the first GPU.
    Cuda,
    /// The same program on a simulated GPU, with checks that real GPUs do not make.
    CudaSim,
    /// The simulated TPU, which also checks where arrays are placed.
    Tpu,
}

/// The options of compiling a program.
#[derive(Clone, Debug)]
pub struct Options {
    /// The target.
    pub target: Target,
    /// For [`Target::Cpu`]: the instruction set level.
    pub cpu: IsaLevel,
    /// The number of threads that a run may use, at least 1.
    pub threads: usize,
    /// For [`Target::Tpu`]: the chip; [`None`] means a v5e.
    pub chip: Option<Chip>,
    /// For CPUs, GPUs and the Plan: the dimension orders of arrays in memory.
    pub orders: LayoutPolicy,
    /// For [`Target::Cpu`]: the cache of compiled programs, if any.
    pub cache: Option<Cache>,
    /// For [`Target::Cpu`], [`Target::Plan`] and [`Target::Interp`]: the number of devices within
    /// this process on which a program runs, at least 1. With more than one, a program is
    /// partitioned unless it is already; see [`Compiler::devices`](crate::Compiler::devices).
    pub devices: usize,
    /// The limits of compilation, and of each run that is not given other limits.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            target: Target::Cpu,
            cpu: IsaLevel::Native,
            threads: 1,
            chip: None,
            orders: LayoutPolicy::LeastCost,
            cache: None,
            devices: 1,
            limits: Limits::new(),
        }
    }
}

#[cfg(feature = "tpu")]
impl Options {
    /// The TPU chip to compile for.
    pub(crate) fn chip(&self) -> Result<Chip, Error> {
        let v5e =
            || Chip::by_name("v5e").map_err(|error| Error::new(ErrorKind::Bug, error.to_string()));
        self.chip.clone().map_or_else(v5e, Ok)
    }
}

/// The policy that chooses the dimension order of each of a plan's arrays in memory. The results of
/// a program do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutPolicy {
    /// The orders that the program states for its parameters and results; for other arrays, the
    /// orders of least cost.
    #[default]
    LeastCost,
    /// The orders that the program states; for other arrays, row-major order.
    FromProgram,
    /// Random orders from this seed, for tests. In addition, routines compute all matrix products,
    /// and strip-mining and non-temporal stores are used wherever possible.
    #[doc(hidden)]
    Random(u64),
}
