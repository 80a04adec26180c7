//! Kernels to device functions: which way of spreading a kernel's work over threads
//! suits it, and why.

mod pointwise;
mod rows;
mod transpose;
mod updates;
mod vector;

use crate::error::Error;
use crate::function::{Function, empty, is_empty};
use tegula_fusion::Kernel;

/// The function of a kernel. `apart`: none of the arrays that it reads lies where it
/// writes.
///
/// # Errors
/// An operation that a type lacks, or a kernel that breaks its invariants.
pub(crate) fn function(name: &str, kernel: &Kernel, apart: bool) -> Result<Function, Error> {
    if is_empty(kernel) {
        return Ok(empty(name, kernel));
    }
    if let Some(function) = rows::function(name, kernel, apart)? {
        return Ok(function);
    }
    if let Some(function) = transpose::function(name, kernel, apart)? {
        return Ok(function);
    }
    if let Some(function) = vector::function(name, kernel, apart)? {
        return Ok(function);
    }
    match updates::spread(kernel) {
        Some(spread) => pointwise::function(name, &spread, apart),
        None => pointwise::function(name, kernel, apart),
    }
}
