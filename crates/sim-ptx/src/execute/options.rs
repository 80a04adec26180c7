//! How a kernel is launched, what is checked while it runs, and why a launch is refused or given up.

use crate::memory::MemoryError;

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// The parameters, each at the offset that [`crate::Module::parameters`] tells.
    pub params: &'a [u8],
}

/// What is checked and counted.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a check that can be switched off alone"
)]
pub struct Options {
    /// Races in shared and global memory.
    pub races: bool,
    /// Reads of shared memory that was not written.
    pub initialised: bool,
    /// Reads of global memory that was not written.
    pub initialised_global: bool,
    /// Sectors and wavefronts, and the findings about them.
    pub statistics: bool,
    /// Threads that exited before a barrier of the whole block. The device lets the
    /// others pass; the program is usually not meant so.
    pub exited_at_barriers: bool,
    /// Warp instructions after which a launch is given up.
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
    /// No checks but those that cost nothing (bounds, alignment, barriers, masks).
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

/// Why a launch did not run, or was given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The module has no kernel of this name.
    #[error("the module has no kernel `{0}`")]
    NoKernel(String),
    /// A grid or block that the device does not take.
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
        /// Bytes of its parameters.
        expected: u64,
        /// Bytes of the launch.
        given: u64,
    },
    /// Module variables do not fit in memory.
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
        /// The block that ran.
        block: [u32; 3],
        /// Where it was.
        location: String,
    },
    /// A limit of the run was exceeded, or it was interrupted.
    #[error(transparent)]
    Stopped(#[from] tegula_limits::Stopped),
}
