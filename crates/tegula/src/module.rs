//! Programs read from a file or a text, with the names of their inputs and results and the source
//! text for errors.

use crate::error::SourceText;
use crate::signature::Names;
use crate::verified::relate_sizes;
use crate::{Error, Reader, Signature};
use std::ops::Deref;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use tegula_fusion::array_leaves;
use tegula_stablehlo::Bytes;

/// A verified program, ready to be compiled: HLO text, StableHLO as MLIR text or bytecode, a file
/// of `jax.export`, or an ONNX model. The form is recognised from the content. [`Reader`] has
/// options for reading.
///
/// ```
/// use tegula::Module;
///
/// let module: Module = "HloModule double
///     ENTRY main { x = f32[?,3] parameter(0) ROOT sum = f32[?,3] add(x, x) }"
///     .parse()?;
/// assert_eq!(module.inputs()[0].to_string(), "x: f32[p0_d0,3]");
/// let one_row = module.bind_sizes(&[("p0_d0", 1)])?;
/// assert_eq!(one_row.inputs()[0].to_string(), "x: f32[1,3]");
/// # Ok::<(), tegula::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Module {
    program: tegula_ir::Module,
    /// For a program with open sizes: the program before `relate_sizes`, to which other sizes can
    /// be bound.
    stated: Option<Arc<tegula_ir::Module>>,
    inputs: Vec<Signature>,
    outputs: Vec<Signature>,
    source: Option<Arc<SourceText>>,
}

impl Module {
    /// Reads a program from a file. Tensors of an ONNX model that are stored in other files are
    /// looked for in its folder and below.
    ///
    /// # Errors
    /// The file cannot be read; the program is invalid, with the place in the file. For an ONNX
    /// model whose shapes depend on values of inputs, use a [`Reader`] and give it the values.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        Reader::new().read(path.as_ref())
    }

    /// Reads a program from bytes.
    ///
    /// # Errors
    /// As [`Self::read`]; an ONNX model cannot have tensors in other files.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self, Error> {
        Reader::new().read_bytes(bytes)
    }

    pub(crate) fn with_source(mut self, source: Option<Arc<SourceText>>) -> Self {
        self.source = source;
        self
    }

    pub(crate) fn from_stated(
        stated: tegula_ir::Module,
        names: &Names,
        sizes: &[(&str, i64)],
    ) -> Result<Self, Error> {
        let open = (!stated.symbols.is_empty()).then(|| Arc::new(stated.clone()));
        let program = relate_sizes(stated, sizes)?;
        let (inputs, outputs) = signatures(&program, names);
        Ok(Self {
            program,
            stated: open,
            inputs,
            outputs,
            source: None,
        })
    }

    /// The program with some of its open sizes fixed, by name. The other sizes stay open: the
    /// program is compiled once for all their values.
    ///
    /// # Errors
    /// A name that is not an open size; sizes that contradict the program.
    pub fn bind_sizes(&self, sizes: &[(&str, i64)]) -> Result<Self, Error> {
        let stated = match &self.stated {
            Some(stated) => tegula_ir::Module::clone(stated),
            None => self.program.clone(),
        };
        let names = Names {
            inputs: self.inputs.iter().map(|s| s.name().to_owned()).collect(),
            outputs: self.outputs.iter().map(|s| s.name().to_owned()).collect(),
        };
        let bound = Self::from_stated(stated, &names, sizes);
        let mut bound = bound.map_err(|error| error.with_source(self.source.as_ref()))?;
        bound.source.clone_from(&self.source);
        Ok(bound)
    }

    /// The program's inputs, in order: the arrays among its parameters.
    pub fn inputs(&self) -> &[Signature] {
        &self.inputs
    }

    /// The program's results, in order: the arrays among its results.
    pub fn outputs(&self) -> &[Signature] {
        &self.outputs
    }

    /// The program in Tegula's IR, by value.
    pub fn into_program(self) -> tegula_ir::Module {
        self.program
    }

    /// The program in Tegula's IR.
    pub fn program(&self) -> &tegula_ir::Module {
        &self.program
    }

    pub(crate) fn source(&self) -> Option<&Arc<SourceText>> {
        self.source.as_ref()
    }
}

/// Access to the program in Tegula's IR, which the other crates take.
impl Deref for Module {
    type Target = tegula_ir::Module;

    fn deref(&self) -> &tegula_ir::Module {
        &self.program
    }
}

/// Wraps a verified program that was built in memory.
impl From<tegula_ir::Module> for Module {
    fn from(program: tegula_ir::Module) -> Self {
        let (inputs, outputs) = signatures(&program, &Names::default());
        Self {
            program,
            stated: None,
            inputs,
            outputs,
            source: None,
        }
    }
}

impl FromStr for Module {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Reader::new().read_bytes(text.as_bytes().to_vec())
    }
}

/// The signatures of a program's inputs and results.
pub(crate) fn signatures(
    program: &tegula_ir::Module,
    names: &Names,
) -> (Vec<Signature>, Vec<Signature>) {
    let entry = program.entry_computation();
    let mut inputs = Vec::new();
    for &parameter in &entry.parameters {
        let instruction = &program[parameter];
        for shape in array_leaves(&instruction.shape) {
            let name = names.inputs.get(inputs.len()).map(String::as_str);
            let name = name.unwrap_or(&instruction.name);
            inputs.push(Signature::new(name, shape, &program.symbols));
        }
    }
    let mut outputs = Vec::new();
    for shape in array_leaves(&program[entry.root].shape) {
        let name = names.outputs.get(outputs.len()).cloned();
        let name = name.unwrap_or_else(|| format!("out{}", outputs.len()));
        outputs.push(Signature::new(&name, shape, &program.symbols));
    }
    (inputs, outputs)
}
