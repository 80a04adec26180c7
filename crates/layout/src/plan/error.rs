//! Errors of the planner.

use tegula_fusion::{Error, Fault};
use tegula_ir::Span;

/// An error of the planner that no instruction can be named for.
pub(crate) fn bug(message: impl Into<String>) -> Error {
    Error {
        fault: Fault::Bug,
        message: message.into(),
        span: Span::default(),
    }
}
