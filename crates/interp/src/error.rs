//! Evaluation errors: what the program asks for that is unsupported, invalid or over a limit.

use std::sync::Arc;
use tegula_custom_call::CustomCallError;
use tegula_devices::{ExchangeError, GroupError};
use tegula_ir::{LiteralError, Opcode};
use tegula_limits::Stopped;

/// Why a program could not be evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The caller's arguments are not what the entry computation takes.
    #[error("argument {index}: {reason}")]
    Argument {
        /// Which argument.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The sizes of the arguments do not go together.
    #[error("{reason}")]
    Sizes {
        /// Which sizes, and who needs it.
        reason: String,
    },
    /// The evaluator does not do this; the crate's documentation lists what.
    #[error("{instruction}: {opcode}: not supported: {reason}")]
    Unsupported {
        /// The instruction's name.
        instruction: Arc<str>,
        /// What it does.
        opcode: Opcode,
        /// What is not supported, and why.
        reason: String,
    },
    /// The module breaks a rule that the verifier checks.
    #[error("{instruction}: {opcode}: {reason}")]
    Invalid {
        /// The instruction's name.
        instruction: Arc<str>,
        /// What it does.
        opcode: Opcode,
        /// Which rule.
        reason: String,
    },
    /// The handler of a custom call fails.
    #[error("{instruction}: {reason}")]
    CustomCall {
        /// The instruction's name.
        instruction: Arc<str>,
        /// How.
        reason: CustomCallError,
    },
    /// The other devices cannot be reached.
    #[error("{instruction}: {reason}")]
    Exchange {
        /// The instruction's name.
        instruction: Arc<str>,
        /// Who is missing, and why.
        reason: ExchangeError,
    },
    /// The host has nothing to receive.
    #[error("{instruction}: {reason}")]
    Transfer {
        /// The instruction's name.
        instruction: Arc<str>,
        /// What it waited for.
        reason: String,
    },
    /// More memory, nesting or time than the evaluator gives.
    #[error("{instruction}: {opcode}: {reason}")]
    Limit {
        /// The instruction's name.
        instruction: Arc<str>,
        /// What it does.
        opcode: Opcode,
        /// Which limit.
        reason: String,
    },
    /// A limit of the run was exceeded, or it was interrupted.
    #[error("{instruction}: {reason}")]
    Stopped {
        /// The name of the instruction that was evaluated.
        instruction: Arc<str>,
        /// Why.
        reason: Stopped,
    },
}

/// An error of an operation, before it is known which instruction it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OpError {
    Unsupported(String),
    Invalid(String),
    Limit(String),
    CustomCall(CustomCallError),
    Exchange(ExchangeError),
    Transfer(String),
    Stopped(Stopped),
    /// An error of an instruction of a called computation.
    Called(Box<Error>),
}

pub(crate) fn invalid(reason: impl Into<String>) -> OpError {
    OpError::Invalid(reason.into())
}

pub(crate) fn unsupported(reason: impl Into<String>) -> OpError {
    OpError::Unsupported(reason.into())
}

impl OpError {
    pub(crate) fn at(self, instruction: &Arc<str>, opcode: Opcode) -> Error {
        let instruction = Arc::clone(instruction);
        match self {
            Self::Unsupported(reason) => Error::Unsupported {
                instruction,
                opcode,
                reason,
            },
            Self::Invalid(reason) => Error::Invalid {
                instruction,
                opcode,
                reason,
            },
            Self::Limit(reason) => Error::Limit {
                instruction,
                opcode,
                reason,
            },
            Self::CustomCall(reason) => Error::CustomCall {
                instruction,
                reason,
            },
            Self::Exchange(reason) => Error::Exchange {
                instruction,
                reason,
            },
            Self::Transfer(reason) => Error::Transfer {
                instruction,
                reason,
            },
            Self::Stopped(reason) => Error::Stopped {
                instruction,
                reason,
            },
            Self::Called(error) => *error,
        }
    }
}

impl From<Error> for OpError {
    fn from(error: Error) -> Self {
        Self::Called(Box::new(error))
    }
}

impl From<Stopped> for OpError {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<ExchangeError> for OpError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}

impl From<GroupError> for OpError {
    fn from(error: GroupError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<CustomCallError> for OpError {
    fn from(error: CustomCallError) -> Self {
        match error {
            CustomCallError::Unknown { .. } | CustomCallError::CallsComputations { .. } => {
                Self::Unsupported(error.to_string())
            }
            _ => Self::CustomCall(error),
        }
    }
}

impl From<LiteralError> for OpError {
    fn from(error: LiteralError) -> Self {
        match error {
            LiteralError::TooLarge(_) => Self::Limit(error.to_string()),
            _ => Self::Invalid(error.to_string()),
        }
    }
}
