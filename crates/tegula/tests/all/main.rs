//! All tests of the facade, one module each, in a single executable: linking one for each module
//! would take most of the time and of the disk space.

mod compile_cache;
mod custom_calls;
#[cfg(all(feature = "ndarray", feature = "serde"))]
mod exchange;
mod facade;
mod one_device;
mod onnx_values;
mod scalar_loops;
mod stated_layouts;

/// Reads a program in Tegula's IR.
fn read(text: &str) -> Result<tegula_ir::Module, tegula::Error> {
    Ok(text.parse::<tegula::Module>()?.into_program())
}
