//! The importer of ONNX models: translates `.onnx` files to a [`tegula_ir::Module`].
//!
//! [`to_module`] decodes the file (see `read`) and translates its graph node by node (see `lower`
//! and `ops`). Sizes that the model leaves open become symbols with the model's own names. The
//! model's arithmetic on shapes is evaluated as terms over these symbols, so a `Reshape` to a
//! computed shape has symbolic sizes.
//!
//! ```
//! use std::sync::Arc;
//!
//! // A model in ONNX's protocol buffers, by hand: a field is its number, its length and its content.
//! let field = |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
//! let node = [field(1, b"x"), field(2, b"y"), field(4, b"Relu")].concat();
//! let shape = field(1, &field(2, b"batch"));
//! let f32s = field(1, &[&[8, 1], &*field(2, &shape)].concat());
//! let value = |name: &[u8]| [field(1, name), field(2, &f32s)].concat();
//! let graph = [field(1, &node), field(2, b"g"), field(11, &value(b"x")), field(12, &value(b"y"))];
//! let model = [&[8, 8], &*field(7, &graph.concat()), &*field(8, &[16, 13])].concat();
//!
//! let no_files = |name: &str| Err(format!("there is no {name}"));
//! let model = tegula_import_onnx::to_module(&(Arc::new(model) as _), &no_files, &|_, _, _| None)?;
//! assert_eq!((model.inputs, model.outputs), (vec!["x".to_owned()], vec!["y".to_owned()]));
//! assert_eq!(&*model.module.symbols[0].name, "batch");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate does not access files (the caller provides external data), and it evaluates nothing
//! but arithmetic on shapes.
//!
//! # Invariants
//! - Reading never panics, and allocates in proportion to the file.
//! - Tensors whose elements are whole bytes are not copied from the file's memory.
//! - One error lists all operators that are not supported.

mod error;
mod lower;
mod ops;
mod read;
mod tensor;

pub use error::{Error, ErrorKind};
pub use lower::{SizeSource, Stage, Take};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tegula_ir::RequiredValue;
pub use tensor::{External, Owner};

/// Returns the value of an input of the graph, given its position, its name and its shape.
pub type Values<'v> =
    dyn Fn(usize, &str, &tegula_ir::ArrayShape) -> Option<tegula_ir::Literal> + 'v;

/// A model translated to a module.
#[derive(Debug)]
pub struct Imported {
    /// The module. It is not verified, and its open sizes are not related to each other yet.
    pub module: tegula_ir::Module,
    /// The names of the graph's inputs, which are the module's parameters. Initializers are not
    /// included.
    pub inputs: Vec<String>,
    /// The names of the graph's outputs.
    pub outputs: Vec<String>,
    /// The shapes of the outputs of the graph's nodes, by name, in order. Sizes are terms over the
    /// module's symbols. A sequence has a tuple shape.
    pub shapes: Vec<(String, tegula_ir::Shape)>,
    /// The positions of the inputs whose values determine shapes. The module is valid only for the
    /// values that it was specialised to, which are in [`Module::required`](tegula_ir::Module).
    pub fixed: Vec<usize>,
}

/// Whether the bytes look like an ONNX model.
pub fn is_model(bytes: &[u8]) -> bool {
    read::looks_like_model(bytes)
}

/// Translates a model to one module. `external` returns the content of files in which the model
/// stores tensors. `values` returns the values of inputs that determine shapes (the axes of a
/// reduction, the shape of a `Reshape`); it is called only for such inputs, and the module is
/// specialised to the values.
///
/// # Errors
/// The first error, with its node; or all unsupported operators.
pub fn to_module(
    owner: &Owner,
    external: &External<'_>,
    values: &Values<'_>,
) -> Result<Imported, Error> {
    let model = read::model((**owner).as_ref())?;
    let mut fixed = FxHashMap::default();
    loop {
        let tensors = tensor::Tensors {
            owner: Arc::clone(owner),
            external,
        };
        let error = match lower::lower_model(&model, tensors, &fixed) {
            Ok((module, inputs, shapes)) => {
                let outputs = model.graph.outputs.iter().map(|o| o.name.to_owned());
                let mut module = module;
                let required = fixed.into_iter().map(|(parameter, value)| RequiredValue {
                    parameter,
                    name: inputs.get(parameter).map_or("", String::as_str).into(),
                    value,
                });
                module.required = required.collect();
                module.required.sort_by_key(|required| required.parameter);
                let fixed = module.required.iter().map(|r| r.parameter).collect();
                return Ok(Imported {
                    module,
                    inputs,
                    outputs: outputs.collect(),
                    shapes,
                    fixed,
                });
            }
            Err(error) => error,
        };
        // Each round fixes at least one more input, so the number of inputs bounds the rounds.
        let known = fixed.len();
        for position in &error.needs {
            let Some((name, shape)) = lower::input_shape(&model, *position) else {
                continue;
            };
            if let Some(value) = values(*position, name, &shape) {
                fixed.insert(*position, value);
            }
        }
        if fixed.len() == known {
            return Err(error);
        }
    }
}

/// A model split into several programs, where sizes depend on data (see [`Stage`]).
#[derive(Debug)]
pub struct Staged {
    /// The programs, in the order in which they run.
    pub stages: Vec<Stage>,
    /// The names of the graph's inputs, which are in the first slots. Initializers are not
    /// included.
    pub inputs: Vec<String>,
    /// The names of the graph's outputs. If the model is complete, they are the results of the last
    /// stage.
    pub outputs: Vec<String>,
    /// The shapes of the nodes' outputs, as in [`Imported::shapes`], up to the last stage. Sizes
    /// that depend on data have symbols of their own.
    pub shapes: Vec<(String, tegula_ir::Shape)>,
    /// Whether the translation is incomplete, because it depends on the elements of the last
    /// stage's last result.
    pub asks: bool,
}

/// Translates a model to programs that run one after the other. `known` are elements that earlier
/// stages have computed, in the order in which the translation asked for them ([`Staged::asks`]).
/// The result for a longer list begins with the stages for its prefix.
///
/// # Errors
/// As [`to_module`], except that sizes may depend on data.
pub fn to_stages(
    owner: &Owner,
    external: &External<'_>,
    known: &[tegula_ir::Literal],
) -> Result<Staged, Error> {
    let model = read::model((**owner).as_ref())?;
    let tensors = tensor::Tensors {
        owner: Arc::clone(owner),
        external,
    };
    let lowered = lower::lower_stages(&model, tensors, known)?;
    let outputs = model.graph.outputs.iter().map(|o| o.name.to_owned());
    Ok(Staged {
        stages: lowered.stages,
        inputs: lowered.inputs,
        outputs: outputs.collect(),
        shapes: lowered.shapes,
        asks: lowered.asks,
    })
}
