//! ONNX models whose sizes depend on data, executed as several programs.
//!
//! Where a size depends on data, the model is split: one program, called a *stage*, computes the
//! size, and the next has it as an open size, so it is compiled once for all values. Where more
//! than a size depends on data (the choice of operations, the shape of a `Reshape`), the next stage
//! is compiled for the elements that were computed, and kept in case they occur again. See
//! `tegula_import_onnx::Stage`.

use super::Owner;
use crate::signature::Names;
use crate::verified::{relate_sizes, verify};
use crate::{Arg, Error, ErrorKind, Executable, Module, Options, Tensor, compile};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tegula_import_onnx::{SizeSource, Staged, Take, to_stages};
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_stablehlo::Bytes;

/// Returns the content of a file in which a model stores tensors.
pub type ExternalFiles = Box<dyn Fn(&str) -> Result<Owner, String> + Send + Sync>;

/// A callback before a stage runs.
pub type Watch<'w> = dyn FnMut(usize, &Executable, &[Arg<'_>]) -> Result<(), Error> + 'w;

/// The maximum number of lists of stages that are kept for different elements. Beyond it, all of
/// them are dropped.
const MAX_KEPT: usize = 64;

/// An ONNX model that runs in stages.
pub struct StagedModel {
    owner: Owner,
    external: ExternalFiles,
    options: Options,
    /// The names of the graph's inputs that are not initializers.
    pub inputs: Vec<String>,
    /// The element types of these inputs.
    pub input_types: Vec<ElementType>,
    /// The names of the graph's outputs.
    pub outputs: Vec<String>,
    /// Stages by the elements that they were compiled for. Each entry has the stages that follow
    /// those of a shorter list of elements.
    parts: Mutex<HashMap<Vec<Key>, Arc<Part>>>,
}

/// Elements that a stage was compiled for: their type, sizes and bytes.
type Key = (ElementType, Vec<i64>, Vec<u8>);

/// Consecutive stages.
struct Part {
    stages: Vec<(Executable, Vec<Take>)>,
    /// Whether the last result of the last stage determines the stages that follow.
    asks: bool,
}

impl std::fmt::Debug for StagedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (f.debug_struct("StagedModel"))
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

impl StagedModel {
    /// The programs of a model's stages up to the first that depends on the data of its inputs, and
    /// whether there are more. `sizes` fixes open sizes, as for a [`Reader`](crate::Reader).
    ///
    /// # Errors
    /// As [`Reader::read`](crate::Reader::read), except that sizes may depend on data.
    pub fn read_stages(
        bytes: impl Into<Bytes>,
        external: &ExternalFiles,
        sizes: &[(&str, i64)],
    ) -> Result<(Vec<Module>, bool), Error> {
        let owner: Owner = Arc::new(bytes.into());
        let staged = read_stages(&owner, external, &[])?;
        let mut modules = Vec::new();
        for stage in staged.stages {
            verify(&stage.module)?;
            // A stage has only the open sizes that occur in it.
            let symbols = &stage.module.symbols;
            let has = |name: &str| symbols.iter().any(|symbol| &*symbol.name == name);
            let own = sizes.iter().copied().filter(|(name, _)| has(name));
            let own: Vec<(&str, i64)> = own.collect();
            modules.push(Module::from_stated(stage.module, &Names::default(), &own)?);
        }
        Ok((modules, staged.asks))
    }

    /// Reads a model, and compiles the stages that do not depend on data.
    ///
    /// # Errors
    /// As [`Reader::read`](crate::Reader::read) and [`compile`].
    pub fn new(
        bytes: impl Into<Bytes>,
        external: ExternalFiles,
        options: &Options,
    ) -> Result<Self, Error> {
        let owner: Owner = Arc::new(bytes.into());
        let staged = read_stages(&owner, &external, &[])?;
        let model = Self {
            owner,
            external,
            options: options.clone(),
            inputs: staged.inputs.clone(),
            input_types: input_types(&staged),
            outputs: staged.outputs.clone(),
            parts: Mutex::new(HashMap::new()),
        };
        let part = Arc::new(model.compiled(staged, 0)?);
        model.kept().insert(Vec::new(), part);
        Ok(model)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<Key>, Arc<Part>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles the stages with numbers `from` and above.
    fn compiled(&self, staged: Staged, from: usize) -> Result<Part, Error> {
        let mut stages = Vec::new();
        for stage in staged.stages.into_iter().skip(from) {
            verify(&stage.module)?;
            let module = relate_sizes(stage.module, &[])?;
            stages.push((compile(&module, &self.options)?, stage.takes));
        }
        let asks = staged.asks;
        Ok(Part { stages, asks })
    }

    /// The stages for these elements, without the first `done` ones. They are compiled unless they
    /// are kept.
    fn part(&self, keys: &[Key], known: &[Literal], done: usize) -> Result<Arc<Part>, Error> {
        if let Some(part) = self.kept().get(keys) {
            return Ok(Arc::clone(part));
        }
        let staged = read_stages(&self.owner, &self.external, known)?;
        let part = Arc::new(self.compiled(staged, done)?);
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT {
            kept.retain(|keys, _| keys.is_empty());
        }
        kept.insert(keys.to_vec(), Arc::clone(&part));
        Ok(part)
    }

    /// The number of compiled stages.
    pub fn stages(&self) -> usize {
        self.kept().values().map(|part| part.stages.len()).sum()
    }

    /// Runs the model on the graph's inputs, in order.
    ///
    /// # Errors
    /// As [`Executable::run`]; errors from compiling stages that depend on data.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        self.run_watched(inputs, &mut |_, _, _| Ok(()))
    }

    /// Runs the model, and calls `watch` before each stage with its number, its program and its
    /// arguments.
    ///
    /// # Errors
    /// As [`run`](Self::run), and those of `watch`.
    pub fn run_watched(
        &self,
        inputs: &[Tensor],
        watch: &mut Watch<'_>,
    ) -> Result<Vec<Tensor>, Error> {
        if inputs.len() != self.inputs.len() {
            let message = format!(
                "expected {} inputs, found {}",
                self.inputs.len(),
                inputs.len()
            );
            return Err(Error::new(ErrorKind::Input, message));
        }
        let mut slots: Vec<Tensor> = inputs.to_vec();
        let (mut keys, mut known) = (Vec::new(), Vec::new());
        let mut done = 0;
        loop {
            let part = self.part(&keys, &known, done)?;
            let mut first = slots.len();
            for (at, (executable, takes)) in part.stages.iter().enumerate() {
                let mut args = Vec::with_capacity(takes.len());
                for take in takes {
                    args.push(match take {
                        Take::Slot(at) => Arg::Borrowed(slot(&slots, *at)?),
                        Take::Size(source) => Arg::Donated(sized(&slots, *source)?),
                    });
                }
                watch(done + at, executable, &args)?;
                let results = executable.run(args)?;
                first = slots.len();
                slots.extend(results);
            }
            done += part.stages.len();
            if !part.asks {
                return Ok(slots.split_off(first));
            }
            let asked = slot(&slots, slots.len().saturating_sub(1))?
                .literal()
                .clone();
            let shape = asked.shape();
            let dims = asked.shape().static_dims().unwrap_or_default().to_vec();
            keys.push((shape.element_type, dims, asked.bytes().to_vec()));
            known.push(asked);
        }
    }
}

/// The element types of the model's inputs, all of which are parameters of the first stage.
fn input_types(staged: &Staged) -> Vec<ElementType> {
    let Some(first) = staged.stages.first() else {
        return Vec::new();
    };
    let parameters = &first.module.entry_computation().parameters;
    let shapes = parameters.iter().map(|id| &first.module[*id].shape);
    shapes
        .filter_map(|shape| shape.as_array().map(|array| array.element_type))
        .collect()
}

fn read_stages(
    owner: &Owner,
    external: &ExternalFiles,
    known: &[Literal],
) -> Result<Staged, Error> {
    let external = |name: &str| external(name);
    let read = || to_stages(owner, &external, known);
    Ok(tracing::info_span!("read").in_scope(read)?)
}

fn slot(slots: &[Tensor], at: usize) -> Result<&Tensor, Error> {
    slots.get(at).ok_or_else(|| {
        let message = format!("a stage reads slot {at}, which no earlier stage has written");
        Error::new(ErrorKind::Bug, message)
    })
}

/// An array of no elements, whose first dimension has the given size. Its shape passes the size to
/// a stage.
fn sized(slots: &[Tensor], source: SizeSource) -> Result<Tensor, Error> {
    let size = match source {
        SizeSource::Dim { slot: from, at } => {
            let shape = slot(slots, from)?.shape();
            shape.dims.get(at).and_then(|dim| dim.term().as_constant())
        }
        SizeSource::Number(from) => {
            let literal = slot(slots, from)?.literal();
            literal.scalar(0).and_then(tegula_ir::Scalar::to_i64)
        }
    };
    let size = size.filter(|size| (0..=i64::from(i32::MAX)).contains(size));
    let size = size.ok_or_else(|| {
        let message = "a size that the model computes is negative, or above 2147483647";
        Error::new(ErrorKind::Input, message)
    })?;
    let shape = ArrayShape::new(ElementType::Pred, &[size, 0]);
    let literal =
        Literal::zeros(&shape).map_err(|e| Error::new(ErrorKind::Limit, e.to_string()))?;
    Ok(Tensor::from(literal))
}
