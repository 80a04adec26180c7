//! The reader of MLIR bytecode: the container of any dialect, and the encodings of VHLO, builtin
//! and a few other dialects.
//!
//! A file is a list of sections. Names are indices into the string section. Attributes and types
//! are entries of a table, decoded at their first use. Operations refer to all of them by index.
//! Format: <https://mlir.llvm.org/docs/BytecodeFormat/>, versions 0 to 6.
//!
//! - `cursor`: numbers and byte ranges;
//! - `sections`: the container;
//! - `table`: the table of attributes and types, which dialects' decoders use;
//! - `builtin`, `vhlo`, `stablehlo`, `sdy`: these dialects' encodings of attributes and types;
//! - `properties`: the properties of each operation, in order;
//! - `operations`: the section of operations.

mod cursor;
mod operations;
mod properties;
mod sections;
mod table;

use crate::{Bytes, Error, mlir::Module};

/// The first bytes of every bytecode file.
pub const MAGIC: [u8; 4] = *b"ML\xefR";

/// The maximum nesting of regions, and of attributes.
const MAX_DEPTH: usize = 128;

/// Reads a module. Dense constants share the memory of `bytes`.
///
/// # Errors
/// Malformed input, with the position at which reading stopped. Attributes and types of dialects
/// with an unknown encoding are not errors; they are kept as bytes.
pub fn read(bytes: &Bytes) -> Result<Module, Error> {
    let file = sections::File::read(bytes)?;
    operations::read(&file)
}
