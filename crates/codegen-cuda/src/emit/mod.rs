//! Turns kernels into device functions: chooses how a kernel's work is spread over threads, with a
//! reason.

mod lanes;
mod pointwise;
mod reduce;
mod row;
mod scan;
mod transpose;
mod updates;
mod vector;

use crate::error::Error;
use crate::function::{KernelSequence, empty, is_empty};
use tegula_fusion::Kernel;

/// The functions of a kernel. `apart` (no-alias) means that none of the arrays that it reads
/// overlaps one that it writes.
///
/// # Errors
/// An operation that a type lacks, or a kernel that breaks its invariants.
pub(crate) fn functions(name: &str, kernel: &Kernel, apart: bool) -> Result<KernelSequence, Error> {
    let one = |function| KernelSequence::one(function, kernel.given());
    if is_empty(kernel) {
        return Ok(one(empty(name, kernel)));
    }
    if let Some(function) = row::function(name, kernel, apart)? {
        return Ok(one(function));
    }
    if let Some(functions) = reduce::functions(name, kernel, apart)? {
        return Ok(functions);
    }
    if let Some(function) = scan::function(name, kernel, apart)? {
        return Ok(one(function));
    }
    if let Some(function) = transpose::function(name, kernel, apart)? {
        return Ok(one(function));
    }
    if let Some(function) = vector::function(name, kernel, apart)? {
        return Ok(one(function));
    }
    if let Some(functions) = updates::functions(name, kernel, apart)? {
        return Ok(functions);
    }
    let function = match updates::spread(kernel) {
        Some(spread) => pointwise::function(name, &spread, apart),
        None => pointwise::function(name, kernel, apart),
    };
    function.map(one)
}
