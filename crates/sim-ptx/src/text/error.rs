//! The error of a module that cannot be read or has an instruction that is not known.

/// Why a PTX text is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What is wrong and, where it is known, what to do.
    pub message: String,
}

impl ParseError {
    pub(crate) fn new(at: super::syntax::Position, message: impl Into<String>) -> Self {
        Self {
            line: at.line,
            column: at.column,
            message: message.into(),
        }
    }
}
