//! The reader and printer of StableHLO: MLIR bytecode and MLIR text in, text out.
//!
//! JAX, PyTorch, Julia, Elixir, Go and R produce StableHLO for compilers. This crate reads it
//! without LLVM:
//!
//! - [`read`] takes bytecode, text, or a file of `jax.export`, recognised by its first bytes
//!   ([`InputForm`]), and returns an [`mlir::Module`]: operations with attributes, types and
//!   regions, of any dialect. VHLO of every version is converted to StableHLO.
//! - [`print()`] returns the module as MLIR text.
//!
//! ```
//! let module = tegula_stablehlo::read(
//!     b"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
//!         %y = stablehlo.add %x, %x : tensor<4xf32>
//!         return %y : tensor<4xf32>
//!       }"
//!     .to_vec(),
//! )?;
//! let main = &module.body()[0];
//! assert_eq!(&*main.name, "func.func");
//! assert_eq!(&*main.regions[0].blocks[0].operations[0].name, "stablehlo.add");
//! # Ok::<(), tegula_stablehlo::Error>(())
//! ```
//!
//! With the feature `ir` (on by default), `to_module` converts a StableHLO module to a
//! `tegula_ir::Module`, and `from_module` does the reverse.
//!
//! # Invariants
//! - This crate does not panic on any input, and memory grows in proportion to the input.
//! - Printing and reading are inverses: neither order of the two changes anything.
//! - Errors have places: a line with a caret in text, a byte position in bytecode.

pub mod bytecode;
mod envelope;
mod error;
#[cfg(feature = "ir")]
mod lower;
pub mod mlir;
mod number;
mod print;
#[cfg(feature = "ir")]
mod raise;
pub mod text;
pub mod vhlo;

pub use envelope::InputForm;
pub use error::{Error, ErrorKind, Place};
#[cfg(feature = "ir")]
pub use lower::to_module;
pub use mlir::Bytes;
pub use print::{Form, attribute_text, print, type_text};
#[cfg(feature = "ir")]
pub use raise::from_module;

/// Reads StableHLO from bytecode, text or a file of `jax.export`, and converts VHLO to StableHLO.
///
/// # Errors
/// Malformed or unknown input, with the place.
pub fn read(bytes: impl Into<Bytes>) -> Result<mlir::Module, Error> {
    let mut bytes = bytes.into();
    if let Some(inner) = envelope::exported(&bytes) {
        bytes = inner;
    }
    let mut module = if bytes.starts_with(&bytecode::MAGIC) {
        bytecode::read(&bytes)?
    } else {
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            Error::input("expected MLIR bytecode or a UTF-8 text").at_byte(error.valid_up_to())
        })?;
        let mut module = text::read(text)?;
        module.text = Some(bytes.clone());
        module
    };
    vhlo::legalize(&mut module)?;
    Ok(module)
}
