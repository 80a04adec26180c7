//! The definitions of names in a module's text.

use super::tree::Named;
use crate::{ComputationId, Error, Span};
use rustc_hash::FxHashMap;

/// The computations and instructions that the names in a module's text denote.
pub(crate) struct Scope<'a> {
    pub(crate) source: &'a str,
    pub(crate) computations: FxHashMap<&'a str, ComputationId>,
}

impl<'a> Scope<'a> {
    pub(crate) fn error(&self, span: Span, message: impl Into<String>) -> Error {
        Error::input(message).at(self.source, span)
    }

    pub(crate) fn computation(&self, (name, span): Named<'a>) -> Result<ComputationId, Error> {
        self.computations
            .get(name)
            .copied()
            .ok_or_else(|| self.error(span, format!("no computation `{name}` is defined")))
    }
}

/// Whether an attribute is allowed on any instruction.
pub(crate) fn is_annotation(name: &str) -> bool {
    matches!(
        name,
        "metadata"
            | "sharding"
            | "frontend_attributes"
            | "backend_config"
            | "control-predecessors"
            | "statistics"
            | "parameter_replication"
            | "origin"
            | "original_value"
            | "result_accuracy"
            | "debug_attributes"
            | "output_to_operand_aliasing"
    )
}
