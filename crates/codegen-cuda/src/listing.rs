//! Prints a plan's device program.

use crate::error::Error;
use crate::nvrtc::{Arch, Form, compiler};
use crate::{cache, program};
use tegula_plan::Plan;

/// A form of a device program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// CUDA C++, for which no CUDA library is needed. It begins with a list of what a library would
    /// do.
    Cuda,
    /// PTX, as compiled by NVRTC for a virtual architecture.
    Ptx,
    /// Machine code for an architecture (a cubin).
    Cubin,
}

/// A plan's device program, as text or machine code.
///
/// # Errors
/// An operation that a type lacks; NVRTC is missing or rejects the program.
pub fn listing(plan: &Plan, arch: Arch, what: Listing) -> Result<Vec<u8>, Error> {
    let program = program::program(plan)?;
    let source = program.source();
    let form = match what {
        Listing::Cuda => return Ok((program.products(plan) + &source).into_bytes()),
        Listing::Ptx => Form::Ptx,
        Listing::Cubin => Form::Cubin,
    };
    cache::compile(compiler()?, &source, arch, form)
}
