//! StableHLO, read from MLIR bytecode and MLIR text, and written as text.
//!
//! StableHLO is what JAX, PyTorch, Julia, Elixir, Go and R send to a compiler. This crate reads it
//! without LLVM:
//!
//! - [`read`]: bytecode, text, or a file of `jax.export`, known by its first bytes
//!   ([`InputForm`]), as an [`mlir::Module`]: operations with attributes, types and regions, of
//!   any dialect. VHLO of every version becomes StableHLO.
//! - [`print()`]: the module as MLIR text.
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
//! With the feature `ir` (on by default) `to_module` gives the `tegula_ir::Module` of a StableHLO
//! module, and `from_module` the reverse.
//!
//! # Invariants
//! - No input makes this crate panic, and memory grows in proportion to the input.
//! - Printing what was read, and reading what was printed, changes nothing.
//! - Errors say where: a line with a caret in a text, a byte in bytecode.

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

/// Reads StableHLO, bytecode or text or a file of `jax.export`, and turns VHLO into StableHLO.
///
/// # Errors
/// What is malformed or not known, with its place.
pub fn read(bytes: impl Into<Bytes>) -> Result<mlir::Module, Error> {
    let mut bytes = bytes.into();
    if let Some(inner) = envelope::exported(&bytes) {
        bytes = inner;
    }
    let mut module = if bytes.starts_with(&bytecode::MAGIC) {
        bytecode::read(&bytes)?
    } else {
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            Error::input("neither MLIR bytecode nor a text in UTF-8").at_byte(error.valid_up_to())
        })?;
        let mut module = text::read(text)?;
        module.text = Some(bytes.clone());
        module
    };
    vhlo::legalize(&mut module)?;
    Ok(module)
}
