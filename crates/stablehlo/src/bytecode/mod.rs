//! Reads MLIR bytecode: the container of any dialect, and what VHLO, builtin and a few other
//! dialects encode in it.
//!
//! A file is a list of sections. Names are numbers into the string section; attributes and types
//! are entries of one table, decoded when they are first used; the operations refer to all of
//! them by number. Format: <https://mlir.llvm.org/docs/BytecodeFormat/>, versions 0 to 6.
//!
//! - `cursor`: numbers and byte ranges;
//! - `sections`: the container;
//! - `table`: the table of attributes and types, and what a dialect's decoder sees of it;
//! - `builtin`, `vhlo`, `stablehlo`, `sdy`: how these dialects encode attributes and types;
//! - `properties`: which properties an operation has, in which order;
//! - `operations`: the section of operations.

mod cursor;
mod operations;
mod properties;
mod sections;
mod table;

use crate::{Bytes, Error, mlir::Module};

/// What every bytecode file begins with.
pub const MAGIC: [u8; 4] = *b"ML\xefR";

/// Nesting of regions, and of attributes in each other, beyond which a file is refused.
const MAX_DEPTH: usize = 128;

/// Reads a module. Dense constants share the memory of `bytes`.
///
/// # Errors
/// What is malformed, with the byte at which reading stopped. Attributes and types of dialects
/// whose encoding is not known are kept as their bytes.
pub fn read(bytes: &Bytes) -> Result<Module, Error> {
    let file = sections::File::read(bytes)?;
    operations::read(&file)
}
