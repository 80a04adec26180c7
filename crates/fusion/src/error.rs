//! Errors of flattening, fusing and planning a module.

use tegula_ir::{InstructionId, Module, Span};

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The program uses a feature that cannot be compiled yet.
    Unsupported,
    /// The program is larger than a stated limit.
    Limit,
    /// An internal inconsistency: a bug in Tegula.
    Bug,
}

/// An error, and the instruction that it is about.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// What is wrong, naming the instruction, and what to do about it.
    pub message: String,
    /// The place in the program's text; empty if unknown.
    pub span: Span,
}

impl Error {
    /// The instruction cannot be compiled yet.
    pub fn unsupported(module: &Module, instruction: InstructionId, what: &str) -> Self {
        Self::about(ErrorKind::Unsupported, module, instruction, what)
    }

    /// A stated limit is exceeded at this instruction.
    pub fn limit(module: &Module, instruction: InstructionId, what: &str) -> Self {
        Self::about(ErrorKind::Limit, module, instruction, what)
    }

    /// An internal inconsistency at this instruction.
    pub fn bug(module: &Module, instruction: InstructionId, what: &str) -> Self {
        Self::about(ErrorKind::Bug, module, instruction, what)
    }

    /// An internal inconsistency that cannot be attributed to an instruction.
    pub fn internal(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Bug,
            message: message.into(),
            span: Span::default(),
        }
    }

    fn about(kind: ErrorKind, module: &Module, instruction: InstructionId, what: &str) -> Self {
        let instruction = &module[instruction];
        Self {
            kind,
            message: format!(
                "`{}` ({}): {what}",
                instruction.name,
                instruction.op.opcode()
            ),
            span: instruction.span,
        }
    }
}
