//! What can go wrong when a plan is compiled or run on the CPU.

use tegula_custom_call::CustomCallError;
use tegula_ir::ElementType;
use tegula_plan::WrongInput;

/// An error of the CPU backend.
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
    #[error("the CPU backend cannot compile {0} yet")]
    Unsupported(String),
    /// The CPU or the option asked for is not known.
    #[error("{0}")]
    Cpu(String),
    /// Cranelift or the plan contradicts itself: a bug in Tegula.
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
    /// An executable cannot be saved, or what was saved cannot be loaded.
    #[error("the executable cannot be saved or loaded: {0}")]
    Saved(String),
    /// More memory is needed than there is.
    #[error("the program needs {0} bytes of memory, which cannot be allocated")]
    OutOfMemory(i64),
}

/// Why a call failed while it ran. Boxed, so that what nearly never happens takes
/// one register.
pub(crate) type CallFailure = Box<CustomCallError>;
