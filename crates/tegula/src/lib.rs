//! Tegula: a small compiler for machine-learning programs.
//!
//! It reads a program ([`read`] for HLO text, [`read_program`] for StableHLO, too), compiles it for a [`Target`] ([`compile`]) and
//! runs it ([`Executable::run`]):
//!
//! ```
//! use tegula::{Arg, Buffer, Options, compile, read};
//!
//! # fn main() -> Result<(), tegula::Error> {
//! let module = read(
//!     "HloModule double
//!      ENTRY main { p = f32[3] parameter(0) ROOT sum = f32[3] add(p, p) }",
//! )?;
//! let executable = compile(&module, &Options::default())?;
//! let input = Buffer::from_f32s(&[3], &[1.0, 2.0, 3.0])?;
//! let outputs = executable.run(vec![Arg::Borrowed(&input)])?;
//! assert_eq!(outputs[0].as_f32s(), Some(&[2.0, 4.0, 6.0][..]));
//! # Ok(())
//! # }
//! ```
//!
//! A program's custom calls are given their meaning by the process that runs it
//! ([`register_custom_call`]):
//!
//! ```
//! use tegula::{Arg, Buffer, Literal, Options, compile, read, register_custom_call};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! register_custom_call("twice", |_call, operands, results| {
//!     let x = operands[0].as_f32s().ok_or("only f32 is doubled")?;
//!     let doubled: Vec<u8> = x.iter().flat_map(|x| (2.0 * x).to_ne_bytes()).collect();
//!     let result = Literal::from_bytes(&results[0], &doubled);
//!     Ok(vec![result.map_err(|e| e.to_string())?])
//! })?;
//! let module = read(
//!     "HloModule custom
//!      ENTRY main {
//!        p = f32[3] parameter(0)
//!        ROOT d = f32[3] custom-call(p), custom_call_target=\"twice\"
//!      }",
//! )?;
//! let executable = compile(&module, &Options::default())?;
//! let input = Buffer::from_f32s(&[3], &[1.0, 2.0, 3.0])?;
//! let outputs = executable.run(vec![Arg::Borrowed(&input)])?;
//! assert_eq!(outputs[0].as_f32s(), Some(&[2.0, 4.0, 6.0][..]));
//! # Ok(())
//! # }
//! ```
//!
//! This crate is the facade over the others; whoever needs one part (indexing
//! maps, the Plan, ...) depends on that part's crate.

mod boundary;
mod buffer;
pub mod check;
mod compiled;
mod error;
mod executable_file;
pub mod npz;
mod object;
mod passes;
pub mod random_input;
mod read;
pub mod reduce;
pub mod tpu;

pub use buffer::{Arg, Buffer};
pub use compiled::{
    ArrayOrders, Compiled, Executable, Options, PlanOptions, Planned, Target, compile, plan,
    plan_for,
};
pub use error::{Error, Fault};
pub use object::compile_object;
pub use passes::{passes, run_passes};
pub use read::{
    OnnxModel, is_onnx, read, read_filled, read_onnx, read_onnx_stated, read_program,
    read_program_stated, read_specialised, read_stated,
};
pub use tegula_codegen_cpu::{IsaLevel, Object};
pub use tegula_compile_cache::Cache;
pub use tegula_custom_call::{RegisterError, register_custom_call};
pub use tegula_import_onnx::{External, Owner, Values};
pub use tegula_ir::{ArrayShape, CustomCall, Literal, Module, PassManager};

/// The README's code is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
