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
use std::cell::Cell;
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
    read_filled(text, sizes, None)
}

/// Reads a program of which a printer has left out the elements of large constants (`{...}`).
/// They are made up from a seed, as [`random_input`] makes up inputs: what the program then
/// computes is of the right kind and size, but not what it computed where it was printed.
///
/// # Errors
/// As [`read_specialised`]; without a seed such constants are errors, and so are arrays that do
/// not fit in memory.
pub fn read_filled(text: &str, sizes: &[(&str, i64)], seed: Option<u64>) -> Result<Module, Error> {
    let mut module = parsed(text, seed)?;
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
    parsed(text, None)
}

/// Bytes of constants that may be made up for one program.
const MAX_FILLED: usize = 2 << 30;

/// A verified program; elided constants are made up from a seed.
fn parsed(text: &str, seed: Option<u64>) -> Result<Module, Error> {
    let left = Cell::new(MAX_FILLED);
    let fill = |shape: &ArrayShape, number: u64| {
        let bytes = shape
            .byte_size()
            .and_then(|bytes| usize::try_from(bytes).ok());
        let rest = bytes.and_then(|bytes| left.get().checked_sub(bytes));
        left.set(rest.ok_or_else(|| {
            tegula_ir::Error::limit("at most 2 GiB of elided constants are made up")
        })?);
        let stream = random_input::stream(seed.unwrap_or_default(), number);
        random_input::random_array(shape, stream)
            .map_err(|error| tegula_ir::Error::limit(error.message))
    };
    let options = tegula_ir::ReadOptions {
        fill_elided: seed.map(|_| &fill as tegula_ir::FillElided<'_>),
    };
    let module =
        tracing::info_span!("read").in_scope(|| tegula_ir::parse_module_with(text, &options))?;
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
