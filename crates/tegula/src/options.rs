//! How a program is compiled: for which target, with what.

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
    /// The target.
    pub target: Target,
    /// Which CPU, for [`Target::Cpu`].
    pub cpu: IsaLevel,
    /// How many threads a run may use, at least 1.
    pub threads: usize,
    /// Which chip, for [`Target::Tpu`]; [`None`]: a v5e.
    pub chip: Option<Chip>,
    /// The orders of dimensions in memory, for CPUs, GPUs and the Plan.
    pub orders: LayoutPolicy,
    /// Where compiled programs are kept, for [`Target::Cpu`]; [`None`]: nowhere.
    pub cache: Option<Cache>,
    /// On how many devices of this process a program runs, at least 1: for [`Target::Cpu`],
    /// [`Target::Plan`] and [`Target::Interp`]. With more than one, a program is partitioned unless
    /// it is already; see [`Compiler::devices`](crate::Compiler::devices).
    pub devices: usize,
    /// What compiling may take, and each run that is given no limits of its own.
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
    /// The TPU chip that is compiled for.
    pub(crate) fn chip(&self) -> Result<Chip, Error> {
        let v5e =
            || Chip::by_name("v5e").map_err(|error| Error::new(ErrorKind::Bug, error.to_string()));
        self.chip.clone().map_or_else(v5e, Ok)
    }
}

/// Which order of dimensions each of a plan's arrays has in memory. A program's results do not depend on
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutPolicy {
    /// Those that the program states for its parameters and results, and those of least
    /// cost between.
    #[default]
    LeastCost,
    /// Those that the program states; everything else is row-major.
    FromProgram,
    /// Drawn from this seed, for every array: what tests hold the others against. Routines
    /// compute all products then, steps are done strip by strip and stores go past the caches
    /// wherever that can be done.
    #[doc(hidden)]
    Random(u64),
}
