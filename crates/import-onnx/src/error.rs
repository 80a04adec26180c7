//! Errors of reading ONNX models.

use std::fmt;

/// The cause of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The model is invalid.
    Input,
    /// The model is valid, but not supported yet.
    Unsupported,
}

/// An error, with the name of the node if there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The cause.
    pub kind: ErrorKind,
    /// What is wrong, and what was expected.
    pub message: String,
    /// Whether the message names a node already.
    named: bool,
    /// Whether the model can only be translated to several programs, because translation depends on
    /// computed data.
    pub needs_a_run: bool,
    /// The input of the node whose elements must be known.
    pub(crate) wants: Option<usize>,
    /// The positions of the graph's inputs from which those elements are computed.
    pub(crate) needs: Vec<usize>,
}

impl Error {
    /// An error because the model is invalid.
    pub fn input(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// An error because the model is valid, but not supported yet.
    pub fn unsupported(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// An error because shapes depend on the elements of a node's input, which are not known.
    pub(crate) fn depends_on_data(at: usize, message: impl fmt::Display) -> Self {
        Self {
            wants: Some(at),
            ..Self::needs_a_run(message)
        }
    }

    /// An error because translation depends on computed data.
    pub(crate) fn needs_a_run(message: impl fmt::Display) -> Self {
        Self {
            needs_a_run: true,
            ..Self::new(ErrorKind::Unsupported, message)
        }
    }

    /// The same error, marked as avoidable if the elements of a node's input were known.
    pub(crate) fn needs_a_run_of(at: usize, error: Self) -> Self {
        Self {
            wants: Some(at),
            needs_a_run: true,
            ..error
        }
    }

    fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
            named: false,
            needs_a_run: false,
            wants: None,
            needs: Vec::new(),
        }
    }

    /// The same error with the name of a node, unless it has that of an inner node already.
    pub(crate) fn at(self, title: impl fmt::Display) -> Self {
        match self.named {
            true => self,
            false => Self {
                message: format!("{title}: {}", self.message),
                named: true,
                ..self
            },
        }
    }
}

impl From<tegula_ir::Error> for Error {
    fn from(error: tegula_ir::Error) -> Self {
        Self::input(error.message())
    }
}

impl From<tegula_ir::LiteralError> for Error {
    fn from(error: tegula_ir::LiteralError) -> Self {
        Self::input(error)
    }
}
