//! The parameters of a launch, the checks during execution, and the errors of launches.

use crate::memory::MemoryError;

/// The parameters of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The number of blocks in x, y, z.
    pub grid: [u32; 3],
    /// The number of threads of a block in x, y, z.
    pub block: [u32; 3],
    /// The size of dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// The kernel's parameters, at the offsets in [`crate::Module::parameters`].
    pub params: &'a [u8],
}

/// The checks and statistics during execution.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a check that can be switched off alone"
)]
pub struct Options {
    /// Checks for races in shared and global memory.
    pub races: bool,
    /// Checks for reads of uninitialised shared memory.
    pub initialised: bool,
    /// Checks for reads of uninitialised global memory.
    pub initialised_global: bool,
    /// Counts sectors and wavefronts, and reports inefficient accesses.
    pub statistics: bool,
    /// Reports threads that exited before a barrier of the whole block. The device lets the other
    /// threads pass, but this is rarely intended.
    pub exited_at_barriers: bool,
    /// The maximum number of warp instructions of a launch.
    pub max_instructions: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            races: true,
            initialised: true,
            initialised_global: true,
            statistics: true,
            exited_at_barriers: true,
            max_instructions: 1 << 36,
        }
    }
}

impl Options {
    /// Only the checks that cost nothing (bounds, alignment, barriers, masks).
    #[must_use]
    pub fn fast() -> Self {
        Self {
            races: false,
            initialised: false,
            initialised_global: false,
            statistics: false,
            ..Self::default()
        }
    }
}

/// The reason why a launch was refused or stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The module has no kernel of this name.
    #[error("the module has no kernel `{0}`")]
    NoKernel(String),
    /// The device does not support the size of the grid or block.
    #[error("kernel `{kernel}`: {message}")]
    Shape {
        /// The kernel.
        kernel: String,
        /// What is wrong with the launch.
        message: String,
    },
    /// The parameter buffer is too short.
    #[error("kernel `{kernel}` has {expected} bytes of parameters, {given} were given")]
    Parameters {
        /// The kernel.
        kernel: String,
        /// The size of its parameters, in bytes.
        expected: u64,
        /// The size of the buffer, in bytes.
        given: u64,
    },
    /// The module's variables do not fit in memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// More instructions than [`Options::max_instructions`].
    #[error(
        "kernel `{kernel}` executed more than {limit} warp instructions and was given up in block \
         {block:?} at {location}: an endless loop, or a wait for another block (blocks run one after \
         another here)"
    )]
    Runaway {
        /// The kernel.
        kernel: String,
        /// The limit.
        limit: u64,
        /// The block that was running.
        block: [u32; 3],
        /// The location of the instruction.
        location: String,
    },
    /// A limit of the run was exceeded, or it was interrupted.
    #[error(transparent)]
    Stopped(#[from] tegula_limits::Stopped),
}
