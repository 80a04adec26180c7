//! The error for a module that cannot be read or has an unknown instruction.

/// The reason why a PTX text is refused, with the position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// The line of the PTX text, from 1.
    pub line: u32,
    /// The column in bytes, from 1.
    pub column: u32,
    /// What is wrong, with advice if possible.
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
