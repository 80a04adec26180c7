//! Reads ONNX models: `.onnx` to a [`tegula_ir::Module`].
//!
//! [`to_module`] decodes the file (see `read`), and translates its graph node by node (see `lower`
//! and `ops`). Sizes that the model leaves open are symbols under the model's own names; the shape
//! arithmetic of a model is done on terms over them, so that a `Reshape` by a computed shape is one
//! of symbolic sizes.
//!
//! What it is not: it does no file access of its own (external data comes from the caller), and
//! evaluates nothing but shape arithmetic.
//!
//! # Invariants
//! - Reading never panics, and allocates in proportion to the file.
//! - Tensors of whole bytes stay in the file's memory.
//! - Every operator that has no translation is named in one error.

mod error;
mod lower;
mod ops;
mod read;
mod tensor;

pub use error::{Error, ErrorKind};
pub use tensor::{External, Owner};

/// A model as a module.
#[derive(Debug)]
pub struct Imported {
    /// The module, neither verified nor with its open sizes related.
    pub module: tegula_ir::Module,
    /// The names of the graph's inputs that are not initializers: the module's parameters.
    pub inputs: Vec<String>,
    /// The names of the graph's results.
    pub outputs: Vec<String>,
}

/// Whether bytes are an ONNX model, by their content.
pub fn is_model(bytes: &[u8]) -> bool {
    read::looks_like_model(bytes)
}

/// Reads a model. `external` gives the content of files that the model keeps tensors in.
///
/// # Errors
/// The first thing that is wrong, with its node; or every operator that is not supported.
pub fn to_module(owner: Owner, external: &External<'_>) -> Result<Imported, Error> {
    let kept = Owner::clone(&owner);
    let model = read::model((*kept).as_ref())?;
    let tensors = tensor::Tensors { owner, external };
    let (module, inputs) = lower::lower_model(&model, tensors)?;
    let outputs = model.graph.outputs.iter().map(|o| o.name.to_owned());
    Ok(Imported {
        module,
        inputs,
        outputs: outputs.collect(),
    })
}
