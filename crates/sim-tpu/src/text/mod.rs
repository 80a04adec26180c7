//! Kernels as text: parser and printer.
//!
//! [`read_kernel`] parses what a person writes, by recursive descent over the text with its
//! comments blanked out: `cursor` moves over it; `declarations`, `slices`, `statements`, `loads`
//! and `grids` are the grammar; `computations` turns operations into HLO, which the HLO parser
//! reads and verifies. [`print_kernel`] is the inverse: parsing the text that it prints and
//! printing again gives the same text.
//!
//! The text has these forms in addition to the statements of the reference: declarations inside
//! bodies, `at BYTE` and `program` after a declaration, `emulate` in the head of a text that a
//! compiler wrote, `set NAME = TERM` for a name of an outer scope, `while { CONDITION } COMPARISON
//! { BODY }`, `clipped` after a range that ends no later than the edge of its dimension, and
//! `computation NAME { ... }` in the head with a computation in HLO text, to which `to_apply=` and
//! `calls=` refer.
//!
//! The input is untrusted: nesting, numbers of statements and sizes are bounded, and no memory is
//! allocated for a size that the text merely states.

mod cursor;
mod declarations;
mod grids;
mod hlo_forms;
mod print;
mod print_vector;
mod slices;
mod statements;

pub use print::{PrintForm, print_kernel, print_statement};

use crate::TpuProgram;
use tegula_ir::Error;

/// The longest text that is read, in bytes.
const MAX_TEXT: usize = 1 << 26;

/// Parses a kernel.
///
/// # Errors
/// The first error in the text, with its place.
pub fn read_kernel(text: &str) -> Result<TpuProgram, Error> {
    if text.len() > MAX_TEXT {
        return Err(Error::limit(format!(
            "the text has {} bytes; at most {MAX_TEXT} are read",
            text.len()
        )));
    }
    let blanked = cursor::without_comments(text);
    statements::Reader::new(text, &blanked).kernel()
}

/// Whether a text is meant to be a kernel: its first word is `kernel`.
pub fn is_kernel(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix("//") {
        rest = comment
            .split_once('\n')
            .map_or("", |(_, rest)| rest)
            .trim_start();
    }
    let name = rest.strip_prefix("kernel");
    name.is_some_and(|name| name.starts_with(|c: char| c.is_whitespace()))
}
