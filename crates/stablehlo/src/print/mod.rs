//! The printer of MLIR text: pretty forms where an operation has one, the generic form otherwise.
//!
//! - `types`, `attributes`: types and attributes;
//! - `operations`: names of values, blocks, regions, the generic form;
//! - `forms`: the pretty forms; most use the table of the reader, a few have their own code.

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

/// The form in which operations are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The pretty form, where there is one, as in StableHLO's own tools.
    #[default]
    Pretty,
    /// `"name"(operands) <{properties}> : (types) -> types`, which is the same for all operations.
    Generic,
}

/// The text of a module.
pub fn print(module: &Module, form: Form) -> String {
    let mut printer = operations::Printer::new(module, form);
    printer.module();
    printer.finish()
}
