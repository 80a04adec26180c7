//! Prints MLIR as text: pretty forms where an operation has one, the generic form otherwise.
//!
//! - `types`, `attributes`: what they say;
//! - `operations`: names of values, blocks, regions, the generic form;
//! - `forms`: the pretty forms, by the table that the reader uses, and a few with code.

mod attributes;
mod operations;

use crate::mlir::{Attribute, Module, Type};

/// The text of a type.
pub fn type_text(ty: &Type) -> String {
    let mut text = String::new();
    attributes::types::write(ty, &mut text);
    text
}

/// The text of an attribute.
pub fn attribute_text(attribute: &Attribute) -> String {
    let mut text = String::new();
    attributes::write(attribute, &mut text);
    text
}

/// How operations are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// In their pretty forms, where they have one: what StableHLO's own tools print.
    #[default]
    Pretty,
    /// As `"name"(operands) <{properties}> : (types) -> types`, which needs no knowledge of an
    /// operation.
    Generic,
}

/// The text of a module.
pub fn print(module: &Module, form: Form) -> String {
    let mut printer = operations::Printer::new(module, form);
    printer.module();
    printer.finish()
}
