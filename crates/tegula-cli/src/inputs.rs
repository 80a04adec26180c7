//! Reads programs and arrays, and compares arrays with references.

use crate::report::Failure;
use anyhow::{Context, anyhow};
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tegula::check::{self, Comparison, Tolerance};
use tegula::npz::{NpyArray, NpzArchive};
use tegula::random_input::{random_array, random_inputs};
use tegula::{Arg, ArrayShape, Executable, Literal, Reader, Tensor};
use tegula_ir::Module;
use tegula_ir::{Op, Shape};
use tegula_stablehlo::Bytes;

/// A program and where it came from.
pub(crate) struct Source {
    pub path: PathBuf,
    /// The file's contents.
    pub bytes: Bytes,
    pub module: Module,
    /// The names of an ONNX graph's inputs; arrays in a file of inputs may have these names.
    pub input_names: Vec<String>,
}

/// Options that fix parts of a program when it is read: sizes, and constants that the text lacks.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DimArgs {
    /// Set a symbolic (dynamic) dimension of the program to this size. `p0_d0=8` makes dimension 0
    /// of input 0 eight elements long; a name that the model gives a dimension, such as `batch`,
    /// works as well. May be repeated. `tegula sizes` prints the names.
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dim)]
    pub dims: Vec<(String, i64)>,
    /// Fill constants whose elements were elided when the program was printed (`constant({...})`)
    /// with random numbers from this seed. Without it, such a program is an error.
    #[arg(long, value_name = "SEED")]
    pub fill_elided: Option<u64>,
    /// For an ONNX model whose shapes depend on computed values, and which is therefore compiled in
    /// stages: take the program of stage N, counted from 0.
    #[arg(long, value_name = "N")]
    pub stage: Option<usize>,
}

fn parse_dim(text: &str) -> Result<(String, i64), String> {
    let (name, size) = text
        .split_once('=')
        .ok_or_else(|| "expected NAME=SIZE, for example p0_d0=8".to_owned())?;
    let size = size.trim().parse();
    let size = size.map_err(|_| format!("`{text}` does not end in a size"))?;
    Ok((name.trim().to_owned(), size))
}

/// Reads and verifies a program with the sizes given in `dims`.
pub(crate) fn read_module(path: &Path, dims: &DimArgs) -> Result<Source, Failure> {
    match read_module_with(path, dims, None) {
        Err(Failure::Program { error, .. }) if error.needs_stages => {
            let path = path.display();
            let advice = "the model runs in stages (`tegula run`); `--stage 0` is its first";
            Err(anyhow!("{path}: {error}: {advice}").into())
        }
        read => read,
    }
}

/// Reads and verifies a program that will run on the inputs in a file. If shapes of an ONNX model
/// depend on values of inputs, those values are read from the file.
pub(crate) fn read_module_with(
    path: &Path,
    dims: &DimArgs,
    inputs: Option<&Path>,
) -> Result<Source, Failure> {
    match read_whole(path, dims, inputs) {
        Err(failure) if failure.needs_stages() => one_stage(path, dims, failure),
        read => read,
    }
}

/// Reads the programs of a model: one, or, if sizes depend on data, one per stage. Stages that
/// depend on the contents of the inputs are left out.
pub(crate) fn read_programs(
    path: &Path,
    dims: &DimArgs,
    inputs: Option<&Path>,
) -> Result<Vec<Source>, Failure> {
    match read_whole(path, dims, inputs) {
        Err(failure) if failure.needs_stages() && dims.stage.is_none() => {
            Ok(read_all_stages(path, dims)?.0)
        }
        Err(failure) if failure.needs_stages() => Ok(vec![one_stage(path, dims, failure)?]),
        read => Ok(vec![read?]),
    }
}

/// Returns the shapes of the outputs of an ONNX model's nodes, by name.
pub(crate) fn node_shapes(
    path: &Path,
    inputs: Option<&Path>,
) -> Result<Vec<(String, String)>, Failure> {
    let bytes = read_file(path)?;
    if !tegula::is_onnx(&bytes) {
        return Err(anyhow!("`--nodes` only applies to ONNX models").into());
    }
    let external = |name: &str| tegula::read_beside(path, name);
    let shapes = tegula::onnx_node_shapes(bytes, &external, &values_of(inputs)?);
    shapes.map_err(|error| Failure::program(path, "", error))
}

/// Reads the stages of a model whose sizes depend on data. Also tells whether there are more
/// stages, which depend on the contents of the inputs.
fn read_all_stages(path: &Path, dims: &DimArgs) -> Result<(Vec<Source>, bool), Failure> {
    let bytes = read_file(path)?;
    let own = path.to_owned();
    let external: tegula::ExternalFiles =
        Box::new(move |name: &str| tegula::read_beside(&own, name));
    let sizes: Vec<(&str, i64)> = dims.dims.iter().map(|(n, s)| (n.as_str(), *s)).collect();
    let read = tegula::StagedModel::read_stages(bytes.clone(), &external, &sizes);
    let (modules, has_more) = read.map_err(|error| Failure::program(path, "", error))?;
    let sources = modules.into_iter().map(|module| Source {
        path: path.to_owned(),
        bytes: bytes.clone(),
        module: module.into_program(),
        input_names: Vec::new(),
    });
    Ok((sources.collect(), has_more))
}

/// Reads the stage given by `--stage`.
fn one_stage(path: &Path, dims: &DimArgs, failure: Failure) -> Result<Source, Failure> {
    let Some(wanted) = dims.stage else {
        return Err(failure);
    };
    let (mut stages, has_more) = read_all_stages(path, dims)?;
    if wanted < stages.len() {
        return Ok(stages.swap_remove(wanted));
    }
    let rest = match has_more {
        true => ", and more that depend on the contents of its inputs",
        false => "",
    };
    let last = stages.len().saturating_sub(1);
    Err(anyhow!("the model has the stages 0 to {last}{rest}").into())
}

/// Reads a program that does not run in stages.
fn read_whole(path: &Path, dims: &DimArgs, inputs: Option<&Path>) -> Result<Source, Failure> {
    let value = values_of(inputs)?;
    let bytes = read_file(path)?;
    let sizes: Vec<(&str, i64)> = dims.dims.iter().map(|(n, s)| (n.as_str(), *s)).collect();
    let reader = Reader::new().path(path).sizes(&sizes).values(&value);
    match reader
        .fill_elided(dims.fill_elided)
        .read_bytes(bytes.clone())
    {
        Ok(module) => Ok(Source {
            path: path.to_owned(),
            input_names: onnx_names(&bytes, &module),
            bytes,
            module: module.into_program(),
        }),
        Err(error) => Err(Failure::program(path, text_of(&bytes), error)),
    }
}

/// Returns the names of an ONNX graph's inputs.
fn onnx_names(bytes: &Bytes, module: &tegula::Module) -> Vec<String> {
    match tegula::is_onnx(bytes) {
        true => module
            .inputs()
            .iter()
            .map(|input| input.name().to_owned())
            .collect(),
        false => Vec::new(),
    }
}

/// Reads a program with its sizes as stated, before relations between them are derived. Values that
/// decide shapes are read as in [`read_module_with`].
pub(crate) fn read_stated(
    path: &Path,
    bytes: &Bytes,
    inputs: Option<&Path>,
) -> Result<Module, Failure> {
    let value = values_of(inputs)?;
    let read = Reader::new()
        .path(path)
        .values(&value)
        .read_stated(bytes.clone());
    read.map_err(|error| Failure::program(path, text_of(bytes), error))
}

/// Returns a function that looks up values of an ONNX graph's inputs in a file of arrays, if any.
fn values_of(
    inputs: Option<&Path>,
) -> anyhow::Result<impl Fn(usize, &str, &ArrayShape) -> Option<Literal>> {
    let arrays = inputs.map(open_npz).transpose()?;
    Ok(move |position: usize, name: &str, shape: &ArrayShape| {
        let arrays = arrays.as_ref()?;
        let found = arrays.read(&format!("in{position}")).ok().flatten();
        let found = found.or_else(|| arrays.read(name).ok().flatten());
        found?.to_literal(shape.element_type).ok()
    })
}

/// Returns a program's text for error messages; empty for bytecode.
pub(crate) fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Returns the contents of a file, or of standard input if the path is `-`.
pub(crate) fn read_file(path: &Path) -> anyhow::Result<Bytes> {
    match path.as_os_str() == "-" {
        true => read_standard_input(),
        false => Ok(tegula::read_file(path)?),
    }
}

/// Returns the contents of standard input, which is read once and kept because several readers ask
/// for it.
fn read_standard_input() -> anyhow::Result<Bytes> {
    static READ: Mutex<Option<Bytes>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = &*read {
        return Ok(bytes.clone());
    }
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock().read_to_end(&mut bytes);
    input.context("standard input cannot be read")?;
    Ok(read.insert(Bytes::from(bytes)).clone())
}

impl Source {
    /// Warns that a run skips calls of Python functions without results.
    pub(crate) fn warn_of_callbacks(&self) {
        let is_callback = |op: &Op| matches!(op, Op::CustomCall(call) if tegula_custom_call::is_python_callback(&call.target));
        let instructions = self.module.instructions.values();
        let names: Vec<&str> = instructions
            .filter(|i| is_callback(&i.op) && tegula_fusion::array_leaves(&i.shape).is_empty())
            .map(|i| &*i.name)
            .collect();
        let more = match names.len() {
            0 => return,
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        crate::terminal::output::complain(format_args!(
            "warning: `{}`{more} would call a Python function (a debug print, for example): \
             nothing is called here",
            names[0]
        ));
    }

    /// Reads the program again, with the same values of the inputs that decide shapes.
    pub(crate) fn read_again(&self) -> Result<Module, tegula::Error> {
        let value = |position: usize, _: &str, _: &ArrayShape| {
            let required = &self.module.required;
            let found = required.iter().find(|r| r.parameter == position)?;
            Some(found.value.clone())
        };
        let reader = Reader::new().path(&self.path).values(&value);
        Ok(reader.read_bytes(self.bytes.clone())?.into_program())
    }

    /// An error in this program.
    pub(crate) fn failure(&self, error: tegula::Error) -> Failure {
        Failure::program(&self.path, text_of(&self.bytes), error)
    }
}

/// Where a run's inputs come from.
#[derive(Clone, Debug, Args)]
pub(crate) struct InputArgs {
    /// Read the inputs from this NumPy `.npz` file: arrays in0, in1, ... in the order of the
    /// parameters, or arrays with the names of an ONNX model's inputs.
    #[arg(long, value_name = "NPZ")]
    pub inputs: Option<PathBuf>,
    /// Without `--inputs`, make random inputs from this seed: floating-point numbers of mean 0 and
    /// deviation 1, and small integers.
    #[arg(long, value_name = "N", conflicts_with = "inputs", default_value_t = 0)]
    pub seed: u64,
}

impl InputArgs {
    /// Returns the seed of made-up inputs, or `None` if the inputs are given.
    pub(crate) fn made_up(&self) -> Option<u64> {
        self.inputs.is_none().then_some(self.seed)
    }

    /// Returns the inputs of a model that runs stage by stage.
    pub(crate) fn load_staged(&self, model: &tegula::StagedModel) -> Result<Vec<Tensor>, Failure> {
        let Some(path) = &self.inputs else {
            let message = "sizes of this model depend on data: expected `--inputs`";
            return Err(anyhow!(message).into());
        };
        let arrays = open_npz(path)?;
        let mut inputs = Vec::new();
        for (at, (own, ty)) in model.inputs.iter().zip(&model.input_types).enumerate() {
            let name = format!("in{at}");
            let found = match read_array(&arrays, &name, path)? {
                None => read_array(&arrays, own, path)?,
                found => found,
            };
            let found = found.ok_or_else(|| anyhow!("{} has no array `{name}`", path.display()))?;
            let literal = found
                .to_literal(*ty)
                .with_context(|| format!("{} cannot be used", path.display()))?;
            inputs.push(Tensor::from(literal));
        }
        Ok(inputs)
    }

    /// Returns the inputs of an already partitioned program, each with one entry per device.
    pub(crate) fn load_stacked(&self, executable: &Executable) -> Result<Vec<Tensor>, Failure> {
        let arrays = self.inputs.as_deref().map(open_npz).transpose()?;
        let mut inputs = Vec::new();
        for (number, shape) in executable.input_shapes().enumerate() {
            let literal = match (&arrays, &self.inputs) {
                (Some(arrays), Some(path)) => {
                    let name = format!("in{number}");
                    let found = read_array(arrays, &name, path)?;
                    let found =
                        found.ok_or_else(|| anyhow!("{} has no array `{name}`", path.display()))?;
                    found
                        .to_literal(shape.element_type)
                        .with_context(|| format!("{} cannot be used", path.display()))?
                }
                _ => random_array(shape, self.seed.wrapping_add(number as u64))
                    .map_err(anyhow::Error::from)?,
            };
            inputs.push(Tensor::from(literal));
        }
        Ok(inputs)
    }

    /// Returns the inputs of a program.
    pub(crate) fn load(&self, source: &Source) -> Result<Vec<Tensor>, Failure> {
        let Some(path) = &self.inputs else {
            return random_inputs(&source.module, self.seed).map_err(|e| source.failure(e));
        };
        let arrays = open_npz(path)?;
        let entry = source.module.entry_computation();
        let mut inputs = Vec::new();
        for &parameter in &entry.parameters {
            for shape in tegula_fusion::array_leaves(&source.module[parameter].shape) {
                let name = format!("in{}", inputs.len());
                let found = match read_array(&arrays, &name, path)? {
                    None => match source.input_names.get(inputs.len()) {
                        Some(own) => read_array(&arrays, own, path)?,
                        None => None,
                    },
                    found => found,
                };
                let literal = found
                    .ok_or_else(|| anyhow!("{} has no array `{name}`", path.display()))?
                    .to_literal(shape.element_type)
                    .with_context(|| format!("{} cannot be used", path.display()))?;
                if !Shape::Array(literal.shape().clone()).may_equal(&Shape::Array(shape.clone())) {
                    let (given, taken) = (literal.shape(), shape);
                    let path = path.display();
                    return Err(anyhow!(
                        "{path}: `{name}` is {given}, but the program takes {taken}"
                    )
                    .into());
                }
                inputs.push(Tensor::from(literal));
            }
        }
        Ok(inputs)
    }
}

/// Inputs that are the same in every run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FreezeArgs {
    /// Freeze these inputs, such as a model's weights: the first run computes what depends on them
    /// alone, and later runs reuse it. Inputs are given by number, from 0: 1,2 or 1-24 or
    /// all-but:0.
    #[arg(long, value_name = "INPUTS", value_parser = parse_inputs)]
    pub freeze: Option<Inputs>,
}

/// A set of a program's inputs, by number.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    numbers: Vec<usize>,
    /// Whether the set is all inputs except these.
    others: bool,
}

/// The largest input number that may be given.
const MAX_INPUT: usize = 1 << 20;

fn parse_inputs(text: &str) -> Result<Inputs, String> {
    let wrong = || format!("`{text}`: expected numbers of inputs, for example 1,2 or all-but:0");
    let number = |text: &str| -> Option<usize> {
        let number = text.trim().parse().ok()?;
        (number < MAX_INPUT).then_some(number)
    };
    let rest = text.strip_prefix("all-but:");
    let mut numbers = Vec::new();
    for part in rest.unwrap_or(text).split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = number(first).ok_or_else(wrong)?;
        numbers.extend(first..=number(last).ok_or_else(wrong)?);
    }
    Ok(Inputs {
        numbers,
        others: rest.is_some(),
    })
}

impl FreezeArgs {
    /// Freezes inputs of an executable; returns the arguments that its runs still take.
    ///
    /// # Errors
    /// An input does not exist, or there is not enough memory.
    pub(crate) fn freeze<'a>(
        &self,
        executable: &mut Executable,
        inputs: &'a [Tensor],
    ) -> Result<Vec<&'a Tensor>, tegula::Error> {
        let Some(wanted) = &self.freeze else {
            return Ok(inputs.iter().collect());
        };
        let mut given = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            match wanted.numbers.contains(&index) == wanted.others {
                true => given.push(input),
                false => executable.freeze(index, input.clone())?,
            }
        }
        match wanted.numbers.iter().max() {
            Some(&most) if most >= inputs.len() => {
                let message = format!(
                    "input {most} cannot be frozen: the program has {} inputs",
                    inputs.len()
                );
                Err(tegula::Error::new(tegula::ErrorKind::Input, message))
            }
            _ => Ok(given),
        }
    }
}

/// Returns arguments of a run that the caller keeps.
pub(crate) fn borrowed<'a>(buffers: &[&'a Tensor]) -> Vec<Arg<'a>> {
    buffers
        .iter()
        .map(|&buffer| Arg::Borrowed(buffer))
        .collect()
}

/// Opens an npz file, from which arrays are read by name.
pub(crate) fn open_npz(path: &Path) -> anyhow::Result<NpzArchive<Vec<u8>>> {
    let about = || format!("{} cannot be read", path.display());
    let bytes = std::fs::read(path).with_context(about)?;
    NpzArchive::new(bytes).with_context(about)
}

/// Returns the array with this name, if the file has one.
pub(crate) fn read_array(
    archive: &NpzArchive<Vec<u8>>,
    name: &str,
    path: &Path,
) -> anyhow::Result<Option<NpyArray>> {
    let array = archive.read(name);
    array.with_context(|| format!("{} cannot be read", path.display()))
}

/// How near results must be to the reference.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// Compare the results with arrays out0, out1, ... of this NumPy `.npz` file, and exit with
    /// code 1 if one differs by more than the tolerance. An array `out0_sample` is compared with
    /// every k-th element of result 0.
    #[arg(long, value_name = "NPZ")]
    pub check: Option<PathBuf>,
    /// The relative tolerance: each element may differ by `A + R * |reference element|`. The
    /// default is 1e-4.
    #[arg(long, value_name = "R", requires = "check")]
    pub rtol: Option<f64>,
    /// The absolute tolerance A of that formula. The default is 1e-5.
    #[arg(long, value_name = "A", requires = "check")]
    pub atol: Option<f64>,
    /// Use one tolerance for all elements of a result instead: T times the largest magnitude in its
    /// reference, for example 1e-3.
    #[arg(long, value_name = "T", requires = "check", conflicts_with_all = ["rtol", "atol"])]
    pub scale_tol: Option<f64>,
}

impl CheckArgs {
    /// Compares results with the reference file, if one is given.
    pub(crate) fn compare(&self, outputs: &[Tensor]) -> anyhow::Result<Option<Vec<Comparison>>> {
        let Some(path) = &self.check else {
            return Ok(None);
        };
        let tolerance = match self.scale_tol {
            Some(scale) => Tolerance::Scaled(scale),
            None => Tolerance::Each {
                relative: self.rtol.unwrap_or(1e-4),
                absolute: self.atol.unwrap_or(1e-5),
            },
        };
        let arrays = open_npz(path)?;
        let mut comparisons = Vec::new();
        for (index, output) in outputs.iter().enumerate() {
            let find = |name: String| read_array(&arrays, &name, path);
            let reference = match find(format!("out{index}"))? {
                Some(reference) => Some(reference),
                None => find(format!("out{index}_sample"))?,
            };
            let reference = reference
                .ok_or_else(|| anyhow!("{} has no array `out{index}`", path.display()))?
                .to_literal(output.literal().element_type())
                .with_context(|| format!("{} cannot be compared with", path.display()))?;
            let comparison = check::compare(output.literal(), &reference, tolerance);
            comparisons.push(comparison.with_context(|| format!("result {index}"))?);
        }
        Ok(Some(comparisons))
    }
}
