//! What can go wrong when a module is flattened, fused or planned.

use tegula_ir::{InstructionId, Module, Span};

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The program asks for something that cannot be compiled yet.
    Unsupported,
    /// The program is larger than a stated limit.
    Limit,
    /// Tegula contradicts itself.
    Bug,
}

/// An error with the instruction it is about.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// What is wrong, naming the instruction, and what to do.
    pub message: String,
    /// Where the program says it; empty if unknown.
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

    /// Tegula contradicts itself at this instruction.
    pub fn bug(module: &Module, instruction: InstructionId, what: &str) -> Self {
        Self::about(ErrorKind::Bug, module, instruction, what)
    }

    /// Tegula contradicts itself, at no instruction that could be named.
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
