//! Tegula: a compiler for machine-learning programs.
//!
//! A [`Module`] is a program, read from a file ([`Module::read`]) or a text (`parse`). A
//! [`Compiler`] compiles it for a [`Target`], and an [`Executable`] runs it on [`Tensor`]s:
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
//! A [`Compiler`] takes handlers for a program's custom calls ([`Compiler::custom_call`]), and so
//! does the process ([`register_custom_call`]).
//!
//! The [`Error`] for an invalid program shows its line:
//!
//! ```
//! let error = "HloModule wrong
//! ENTRY main { x = f32[3] parameter(0) ROOT y = f32[4] negate(x) }"
//!     .parse::<tegula::Module>()
//!     .expect_err("sizes differ");
//! assert!(error.to_string().contains("2 | ENTRY main"));
//! ```
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `onnx` (default) | reading ONNX models |
//! | `devices` | [`Compiler::devices`]: programs over sharded arrays |
//! | `network` | devices of several processes that are connected by TCP |
//! | `tpu` | [`Target::Tpu`] |
//! | `cuda` | [`Target::Cuda`] and [`Target::CudaSim`] |
//! | `ndarray` | views of a [`Tensor`] as arrays of the crate `ndarray`, and tensors of those |
//! | `serde` | indexing maps, layouts and plans as data; a simulation's report has `to_json` |
//!
//! Using a target that a build does not include is an error that names the feature.
//!
//! This crate is the facade of the other crates. Users who need a single part (indexing maps, the
//! Plan, ...) can depend on that part's crate alone.

pub mod backend;
mod boundary;
pub mod check;
mod compiler;
pub mod dlpack;
mod error;
mod executable;
mod executable_file;
mod file;
mod foreign;
mod module;
#[cfg(all(feature = "mpi", unix))]
pub mod mpi;
#[cfg(feature = "ndarray")]
mod ndarray_views;
pub mod npz;
mod object;
#[cfg(feature = "onnx")]
mod onnx;
mod options;
#[cfg(feature = "tpu")]
pub mod pallas;
mod passes;
mod planning;
pub mod random_input;
mod read;
pub mod reduce;
mod signature;
#[cfg(all(feature = "devices", feature = "tpu"))]
pub mod slice;
mod tensor;
mod verified;

pub use backend::Backend;
#[cfg(feature = "tpu")]
pub use backend::tpu;
#[cfg(feature = "devices")]
pub use backend::{MachineCode, Shardings, SpmdExecutable};
pub use compiler::{BoxError, Compiler};
pub use error::{Error, ErrorKind};
pub use executable::{Executable, compile};
pub use file::read_file;
pub use module::Module;
pub use object::{ObjectOptions, compile_object};
#[cfg(feature = "onnx")]
pub use onnx::{
    External, ExternalFiles, Owner, StagedModel, Values, Watch, is_onnx, onnx_node_shapes,
    read_beside,
};
pub use options::{LayoutPolicy, Options, Target};
pub use passes::{passes, run_passes};
pub use planning::{PlanOptions, Planned, plan, plan_for};
pub use read::Reader;
pub use signature::{Signature, Size};
pub use tegula_codegen_cpu::{IsaLevel, Object, Work};
pub use tegula_compile_cache::Cache;
pub use tegula_custom_call::{RegisterError, register_custom_call};
#[cfg(feature = "network")]
pub use tegula_devices::network;
pub use tegula_devices::{RunError, Topology};
pub use tegula_ir::{ArrayShape, CustomCall, ElementType, Literal, PassManager};
pub use tegula_limits::{Interrupt, Limits};
#[cfg(feature = "devices")]
pub use tegula_partition as partition;
pub use tegula_target::{Architecture, Chip};
pub use tensor::{Arg, Element, Tensor};

/// Tests the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
