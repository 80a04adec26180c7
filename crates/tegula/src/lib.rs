//! Tegula: a compiler for machine-learning programs.
//!
//! A [`Module`] is a program, read from a file ([`Module::read`]) or a text (`parse`). A [`Compiler`]
//! compiles it for a [`Target`], and an [`Executable`] runs it on [`Tensor`]s:
//!
//! ```
//! use tegula::{Compiler, Module, Target, Tensor};
//!
//! # fn main() -> Result<(), tegula::Error> {
//! let module: Module = "HloModule double
//!     ENTRY main { x = f32[3] parameter(0) ROOT sum = f32[3] add(x, x) }"
//!     .parse()?;
//! let executable = Compiler::new(Target::Cpu).compile(&module)?;
//! let x = Tensor::from_slice(&[3], &[1.0_f32, 2.0, 3.0])?;
//! let outputs = executable.run([&x])?;
//! assert_eq!(outputs[0].as_slice::<f32>(), Some(&[2.0, 4.0, 6.0][..]));
//! # Ok(())
//! # }
//! ```
//!
//! Custom calls of a program are given their meaning by its compiler
//! ([`Compiler::custom_call`]) or by the process ([`register_custom_call`]).
//!
//! A wrong program is an [`Error`] that shows its line:
//!
//! ```
//! let error = "HloModule wrong
//! ENTRY main { x = f32[3] parameter(0) ROOT y = f32[4] negate(x) }"
//!     .parse::<tegula::Module>()
//!     .expect_err("sizes differ");
//! assert!(error.to_string().contains("2 | ENTRY main"));
//! ```
//!
//! This crate is the facade over the others; whoever needs one part (indexing
//! maps, the Plan, ...) depends on that part's crate.

mod boundary;
pub mod check;
mod compiled;
mod compiler;
mod error;
mod executable_file;
mod file;
mod hosted;
mod module;
pub mod npz;
mod object;
mod passes;
pub mod random_input;
mod read;
pub mod reduce;
mod signature;
mod staged;
mod tensor;
pub mod tpu;

pub use compiled::{
    ArrayOrders, Compiled, Executable, MachineCode, Options, PlanOptions, Planned, Shardings,
    SpmdExecutable, Target, compile, plan, plan_for,
};
pub use compiler::{BoxError, Compiler};
pub use error::{Error, ErrorKind};
pub use file::{read_beside, read_file};
pub use module::Module;
pub use object::compile_object;
pub use passes::{passes, run_passes};
pub use read::{
    OnnxModel, is_onnx, read, read_filled, read_onnx, read_onnx_stated, read_program,
    read_program_stated, read_specialised, read_stated,
};
pub use signature::{Signature, Size};
pub use staged::{ExternalFiles, StagedModel};
pub use tegula_codegen_cpu::{IsaLevel, Object};
pub use tegula_compile_cache::Cache;
pub use tegula_custom_call::{RegisterError, register_custom_call};
pub use tegula_devices::{RunError, Topology};
pub use tegula_import_onnx::{External, Owner, Values};
pub use tegula_ir::{ArrayShape, CustomCall, ElementType, Literal, PassManager};
pub use tegula_partition as partition;
pub use tegula_target::Chip;
pub use tensor::{Arg, Element, Tensor};

/// The README's code is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
