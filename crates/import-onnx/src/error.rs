//! What can be wrong with a model.

use std::fmt;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The model is wrong.
    Input,
    /// The model is right, but not possible yet.
    Unsupported,
}

/// An error, which names the node if there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// What is wrong, and what was expected.
    pub message: String,
    /// Whether the message names a node.
    named: bool,
    /// Whether only a run tells what is needed to go on: the model is several programs.
    pub needs_a_run: bool,
    /// The input of the node whose elements have to be known.
    pub(crate) wants: Option<usize>,
    /// The graph's inputs, by position, that those elements are computed from.
    pub(crate) needs: Vec<usize>,
}

impl Error {
    /// The model is wrong.
    pub fn input(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// The model is right, but not possible yet.
    pub fn unsupported(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Shapes depend on the elements of a node's input, which are not known.
    pub(crate) fn depends_on_data(at: usize, message: impl fmt::Display) -> Self {
        Self {
            wants: Some(at),
            ..Self::needs_a_run(message)
        }
    }

    /// Only a run tells what is needed to go on.
    pub(crate) fn needs_a_run(message: impl fmt::Display) -> Self {
        Self {
            needs_a_run: true,
            ..Self::new(ErrorKind::Unsupported, message)
        }
    }

    /// The same error, where knowing the elements of a node's input would help.
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

    /// The same error as one of a node; the innermost node stays.
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
