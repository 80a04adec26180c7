//! Errors of compiling and running a plan on a CUDA device.

use tegula_custom_call::CustomCallError;
use tegula_ir::ElementType;
use tegula_plan::WrongInput;

/// An error of the CUDA backend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An element type lacks an operation: the program is invalid.
    #[error("{op} is not defined for {element_type}")]
    NoSuchOperation {
        /// The operation.
        op: String,
        /// The operands' type.
        element_type: ElementType,
    },
    /// Something that the backend does not support yet.
    #[error("the CUDA backend cannot compile {0} yet")]
    Unsupported(String),
    /// A required library was not found; the message says how to get it.
    #[error("{0}")]
    MissingLibrary(String),
    /// The CUDA compiler rejects the generated source, which is a bug in Tegula.
    #[error("the CUDA compiler refuses a generated program: {0}")]
    Compiler(String),
    /// The plan is inconsistent, which is a bug in Tegula.
    #[error("bug in code generation: {0}")]
    Bug(String),
    /// The inputs do not match the program's parameters.
    #[error(transparent)]
    Input(#[from] WrongInput),
    /// The sizes of the inputs are inconsistent.
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
        /// The number of bytes requested.
        needed: u64,
        /// The device's error.
        reason: String,
    },
    /// The device reports an error.
    #[error("the device failed at {step}: {reason}")]
    Device {
        /// The operation that failed.
        step: String,
        /// The device's error.
        reason: String,
    },
    /// An operation that runs on the host failed.
    #[error("{0}")]
    Host(String),
    /// A limit of the run or the compilation was exceeded, or it was interrupted.
    #[error(transparent)]
    Stopped(#[from] tegula_limits::Stopped),
}
