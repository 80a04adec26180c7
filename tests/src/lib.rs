//! Code that the repository's tests share: the corpus of real programs, the example programs,
//! random programs, and the comparison of targets with the reference evaluator.

pub mod aarch64;
pub mod corpus;
pub mod gpu;
pub mod judge;
pub mod models;
pub mod mpi;
pub mod object;
pub mod onnx_like;
pub mod open_models;
pub mod opened;
pub mod program;
pub mod random;
pub mod shape_modes;
pub mod shardings;
pub mod stablehlo_checks;
pub mod symbolic;

/// Reads a program as data.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &str) -> Result<tegula_ir::Module, tegula::Error> {
    Ok(text.parse::<tegula::Module>()?.into_program())
}

/// Reads a program as data, with some of its open sizes fixed.
///
/// # Errors
/// What is wrong with it or the sizes.
pub fn read_specialised(
    text: &str,
    sizes: &[(&str, i64)],
) -> Result<tegula_ir::Module, tegula::Error> {
    let reader = tegula::Reader::new().sizes(sizes);
    Ok(reader.read_bytes(text.as_bytes().to_vec())?.into_program())
}
