//! Evaluation errors: the program is invalid, uses an unsupported feature, or exceeds a limit.

use std::sync::Arc;
use tegula_custom_call::CustomCallError;
use tegula_devices::{ExchangeError, GroupError};
use tegula_ir::{LiteralError, Opcode};
use tegula_limits::Stopped;

/// The reason why a program could not be evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// An argument does not match the entry computation's parameter.
    #[error("argument {index}: {reason}")]
    Argument {
        /// The number of the argument.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The sizes of the arguments are inconsistent.
    #[error("{reason}")]
    Sizes {
        /// The sizes, and the instruction that needs them to agree.
        reason: String,
    },
    /// The evaluator does not support an operation; the crate's documentation lists these.
    #[error("{instruction}: {opcode}: not supported: {reason}")]
    Unsupported {
        /// The instruction's name.
        instruction: Arc<str>,
        /// The instruction's opcode.
        opcode: Opcode,
        /// What is not supported, and why.
        reason: String,
    },
    /// The module breaks a rule that the verifier checks.
    #[error("{instruction}: {opcode}: {reason}")]
    Invalid {
        /// The instruction's name.
        instruction: Arc<str>,
        /// The instruction's opcode.
        opcode: Opcode,
        /// The rule.
        reason: String,
    },
    /// The handler of a custom call failed.
    #[error("{instruction}: {reason}")]
    CustomCall {
        /// The instruction's name.
        instruction: Arc<str>,
        /// The handler's error.
        reason: CustomCallError,
    },
    /// Other devices cannot be reached.
    #[error("{instruction}: {reason}")]
    Exchange {
        /// The instruction's name.
        instruction: Arc<str>,
        /// The missing device, and why it is missing.
        reason: ExchangeError,
    },
    /// The host has nothing for the program to receive.
    #[error("{instruction}: {reason}")]
    Transfer {
        /// The instruction's name.
        instruction: Arc<str>,
        /// What the program waited for.
        reason: String,
    },
    /// The evaluation exceeds a limit of memory, nesting or steps.
    #[error("{instruction}: {opcode}: {reason}")]
    Limit {
        /// The instruction's name.
        instruction: Arc<str>,
        /// The instruction's opcode.
        opcode: Opcode,
        /// The limit.
        reason: String,
    },
    /// A limit of the process was exceeded, or the run was interrupted.
    #[error("{instruction}: {reason}")]
    Stopped {
        /// The name of the instruction that was being evaluated.
        instruction: Arc<str>,
        /// The reason.
        reason: Stopped,
    },
}

/// An error in an operation, before its instruction is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OpError {
    Unsupported(String),
    Invalid(String),
    Limit(String),
    CustomCall(CustomCallError),
    Exchange(ExchangeError),
    Transfer(String),
    Stopped(Stopped),
    /// An error in an instruction of a called computation.
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
