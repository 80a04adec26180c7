//! Reads ONNX models: `.onnx` to a [`tegula_ir::Module`].
//!
//! [`to_module`] decodes the file (see `read`), and translates its graph node by node (see `lower`
//! and `ops`). Sizes that the model leaves open are symbols under the model's own names; the shape
//! arithmetic of a model is done on terms over them, so that a `Reshape` by a computed shape is one
//! of symbolic sizes.
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
pub use lower::{SizeSource, Stage, Take};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tegula_ir::RequiredValue;
pub use tensor::{External, Owner};

/// Gives the value of an input of the graph, by its position and its name.
pub type Values<'v> =
    dyn Fn(usize, &str, &tegula_ir::ArrayShape) -> Option<tegula_ir::Literal> + 'v;

/// A model as a module.
#[derive(Debug)]
pub struct Imported {
    /// The module, neither verified nor with its open sizes related.
    pub module: tegula_ir::Module,
    /// The names of the graph's inputs that are not initializers: the module's parameters.
    pub inputs: Vec<String>,
    /// The names of the graph's results.
    pub outputs: Vec<String>,
    /// The shapes of what the nodes of the graph give, by name, in order; sizes are terms over the
    /// symbols of the module. A sequence is a tuple.
    pub shapes: Vec<(String, tegula_ir::Shape)>,
    /// The inputs, by position, whose values decide shapes. The module is right for the values that
    /// it was made for and no others; they are in [`Module::required`](tegula_ir::Module).
    pub fixed: Vec<usize>,
}

/// Whether bytes are an ONNX model, by their content.
pub fn is_model(bytes: &[u8]) -> bool {
    read::looks_like_model(bytes)
}

/// Reads a model. `external` gives the content of files that the model keeps tensors in, `values`
/// the values of inputs that decide shapes (the axes of a reduction, the shape of a `Reshape`):
/// it is asked for no others, and the module is made for those values.
///
/// # Errors
/// The first thing that is wrong, with its node; or every operator that is not supported.
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
        // Each round fixes one input more, so there are no more rounds than inputs.
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

/// A model as the programs that it is cut into where sizes depend on data (see [`Stage`]).
#[derive(Debug)]
pub struct Staged {
    /// The programs, in the order in which they run.
    pub stages: Vec<Stage>,
    /// The names of the graph's inputs that are not initializers: the first slots.
    pub inputs: Vec<String>,
    /// The names of the graph's results: the results of the last stage, if the model is complete.
    pub outputs: Vec<String>,
    /// The shapes of what the nodes of the graph give, as in [`Imported::shapes`], as far as there are
    /// stages; sizes that data gives are symbols of their own.
    pub shapes: Vec<(String, tegula_ir::Shape)>,
    /// Whether there is more of the model, which depends on what the last result of the last stage
    /// holds.
    pub asks: bool,
}

/// Reads a model as programs that run one after the other. `known` are the elements that earlier
/// programs have given where translation asked for them ([`Staged::asks`]): the same ones give the
/// same programs, and one more gives those and further ones.
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
