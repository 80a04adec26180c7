//! Errors of compiling and running a plan on the CPU.

use tegula_custom_call::CustomCallError;
use tegula_ir::ElementType;
use tegula_limits::Stopped;
use tegula_plan::WrongInput;

/// An error of the CPU backend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An element type lacks an operation: the program is wrong.
    #[error("{op} is not defined for {element_type}")]
    NoSuchOperation {
        /// The operation.
        op: String,
        /// The operands' type.
        element_type: ElementType,
    },
    /// Something that the backend cannot do yet.
    #[error("the CPU backend cannot compile {0} yet")]
    Unsupported(String),
    /// The requested CPU or option is not known.
    #[error("{0}")]
    Cpu(String),
    /// Cranelift or the plan is inconsistent: a bug in Tegula.
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
    /// An executable cannot be saved, or saved bytes cannot be loaded.
    #[error("the executable cannot be saved or loaded: {0}")]
    Saved(String),
    /// More memory is needed than is available; the number of bytes.
    #[error("the program needs {0} bytes of memory, which cannot be allocated")]
    OutOfMemory(i64),
    /// A limit of the run or the compilation was exceeded, or it was interrupted.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The reason why a run ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    CustomCall(CustomCallError),
    Stopped(Stopped),
}

/// A boxed [`Failure`], so that this rare case takes only one register.
pub(crate) type RunFailure = Box<Failure>;

impl From<Stopped> for RunFailure {
    fn from(stopped: Stopped) -> Self {
        Self::new(Failure::Stopped(stopped))
    }
}

impl From<CustomCallError> for RunFailure {
    fn from(error: CustomCallError) -> Self {
        Self::new(Failure::CustomCall(error))
    }
}

impl From<RunFailure> for Error {
    fn from(failure: RunFailure) -> Self {
        match *failure {
            Failure::CustomCall(error) => Self::CustomCall(error),
            Failure::Stopped(stopped) => Self::Stopped(stopped),
        }
    }
}
