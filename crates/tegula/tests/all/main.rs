//! The tests of the facade, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod compile_cache;
mod custom_calls;
#[cfg(all(feature = "ndarray", feature = "serde"))]
mod exchange;
mod facade;
mod one_device;
mod onnx_values;
mod scalar_loops;
mod stated_layouts;

/// Reads a program as data.
fn read(text: &str) -> Result<tegula_ir::Module, tegula::Error> {
    Ok(text.parse::<tegula::Module>()?.into_program())
}
