//! What can go wrong on the way from a plan to results on a CUDA device.

use tegula_custom_call::CustomCallError;
use tegula_ir::ElementType;
use tegula_plan::WrongInput;

/// An error of the CUDA backend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An element type lacks an operation: the program is wrong.
    #[error("there is no {op} of {element_type}")]
    NoSuchOperation {
        /// The operation.
        op: String,
        /// The operands' type.
        element_type: ElementType,
    },
    /// Something that the backend cannot do yet.
    #[error("the CUDA backend cannot compile {0} yet")]
    Unsupported(String),
    /// A library that is needed is not there, and how to get it.
    #[error("{0}")]
    MissingLibrary(String),
    /// The CUDA compiler refuses what was generated: a bug in Tegula.
    #[error("the CUDA compiler refuses a generated program: {0}")]
    Compiler(String),
    /// The plan contradicts itself: a bug in Tegula.
    #[error("bug in code generation: {0}")]
    Bug(String),
    /// The inputs are not what the program takes.
    #[error(transparent)]
    Input(#[from] WrongInput),
    /// The sizes of the inputs do not go together.
    #[error("{0}")]
    Sizes(String),
    /// A custom call has no handler, or its handler fails.
    #[error(transparent)]
    CustomCall(#[from] CustomCallError),
    /// The device has less memory than the program needs.
    #[error(
        "the program needs {needed} bytes of device memory, which the device does not have: {reason}"
    )]
    OutOfMemory {
        /// Bytes asked for.
        needed: u64,
        /// What the device says.
        reason: String,
    },
    /// The device reports an error.
    #[error("the device failed at {step}: {reason}")]
    Device {
        /// What was done.
        step: String,
        /// What the device says.
        reason: String,
    },
    /// An operation that runs on the host failed.
    #[error("{0}")]
    Host(String),
    /// A limit of the run or the compilation was exceeded, or it was interrupted.
    #[error(transparent)]
    Stopped(#[from] tegula_limits::Stopped),
}
