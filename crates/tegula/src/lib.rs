//! Tegula: a small compiler for machine-learning programs.
//!
//! It reads a program ([`read`]), compiles it for a [`Target`] ([`compile`]) and
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
pub mod npz;
pub mod random_input;
pub mod reduce;
pub mod tpu;

pub use buffer::{Arg, Buffer};
pub use compiled::{
    ArrayOrders, Compiled, Executable, Options, PlanOptions, Planned, Target, compile, plan,
    plan_for,
};
pub use error::{Error, Fault};
pub use tegula_codegen_cpu::Cpu;
pub use tegula_interp::{RegisterError, register_custom_call};
pub use tegula_ir::{ArrayShape, CustomCall, Literal, Module};

/// Reads a program: the text of an HLO module. It is verified.
///
/// # Errors
/// The first thing that is wrong with the text, with its place.
pub fn read(text: &str) -> Result<Module, Error> {
    read_specialised(text, &[])
}

/// Reads a program of which some sizes are given for good.
///
/// A size that the text leaves open (`?` or `<=n`) in dimension K of input N has the
/// name `pN_dK`. Those that are not given here stay open: the program is compiled
/// once for all of them.
///
/// # Errors
/// As [`read`]; sizes that contradict the program; a name that is no open size.
pub fn read_specialised(text: &str, sizes: &[(&str, i64)]) -> Result<Module, Error> {
    let mut module = read_stated(text)?;
    if !module.symbols.is_empty() || !sizes.is_empty() {
        tracing::info_span!("resolve sizes").in_scope(|| {
            tegula_ir::resolve_sizes(&mut module, sizes)?;
            tegula_indexing::equality::settle_guards(&mut module)
        })?;
        verify(&module)?;
    }
    Ok(module)
}

/// Reads a program with its sizes as the text states them: those that it leaves open
/// are not related to each other yet, so it can be asked about but not compiled.
///
/// # Errors
/// As [`read`], but for sizes that contradict each other.
pub fn read_stated(text: &str) -> Result<Module, Error> {
    let module = tracing::info_span!("read").in_scope(|| tegula_ir::parse_module(text))?;
    verify(&module)?;
    Ok(module)
}

fn verify(module: &Module) -> Result<(), Error> {
    tracing::info_span!("verify")
        .in_scope(|| tegula_ir::verify(module))
        .map_err(Error::from_list)
}

/// The README's code is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
