//! The reader of MLIR text: the generic form of any operation, and the pretty forms of StableHLO,
//! CHLO, `func`, `builtin` and `check`.
//!
//! - `scanner`: characters, words, numbers and strings, with places for errors;
//! - `types`, `attributes`, `constants`, `locations`: these parts of the grammar;
//! - `operations`: blocks, regions, names of values, the generic form;
//! - `formats`: a table of pretty forms, which the printer uses as well;
//! - `kernels`: the pretty forms of the dialects of Pallas kernels;
//! - `special`: the pretty forms that need their own code.

mod attributes;
mod constants;
pub(crate) mod formats;
mod kernels;
mod locations;
mod operations;
mod scanner;
mod special;
mod types;

use crate::Error;
use crate::mlir::{Attribute, Module, Type};
use scanner::Scanner;

/// The maximum nesting of regions, types and attributes.
const MAX_DEPTH: usize = 128;

/// Reads a module.
///
/// # Errors
/// The first error, with its line, its column and a caret.
pub fn read(text: &str) -> Result<Module, Error> {
    let mut parser = Parser::new(text);
    let read = parser.module();
    read.map_err(|error| error.at_text(text, parser.scanner.offset()))
}

/// Reads one attribute.
///
/// # Errors
/// As [`read`].
pub fn parse_attribute(text: &str) -> Result<Attribute, Error> {
    read_whole(text, Parser::attribute)
}

/// Reads one type.
///
/// # Errors
/// As [`read`].
pub fn parse_type(text: &str) -> Result<Type, Error> {
    read_whole(text, Parser::ty)
}

fn read_whole<'t, T>(
    text: &'t str,
    read: impl FnOnce(&mut Parser<'t>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut parser = Parser::new(text);
    let result = read(&mut parser).and_then(|value| match parser.scanner.at_end() {
        true => Ok(value),
        false => Err(parser.scanner.error("expected the end")),
    });
    result.map_err(|error| error.at_text(text, parser.scanner.offset()))
}

/// The state of reading a text.
struct Parser<'t> {
    scanner: Scanner<'t>,
    /// The definitions of `#name` and `!name`, which may come after their uses.
    aliases: attributes::Aliases<'t>,
    /// The values, and the scopes of their names.
    values: operations::Values,
    /// The contents of `dense_resource<key>`, which come at the end of a file.
    resources: constants::Resources,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            scanner: Scanner::new(text),
            aliases: attributes::Aliases::find(text),
            values: operations::Values::default(),
            resources: constants::Resources::find(text),
            depth: 0,
        }
    }

    /// Calls `read` one nesting level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            return Err(self
                .scanner
                .error(format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }
}
