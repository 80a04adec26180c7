//! Reading programs and arrays, and comparing arrays.

use super::report::Failure;
use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tegula::{Buffer, Module, npz, random_input::random_inputs};
use tegula_ir::{ArrayShape, Literal, Scalar};

/// The largest program text that is read: 1 GiB.
const MAX_TEXT: u64 = 1 << 30;

/// A program and where it came from.
pub(crate) struct Source {
    pub path: PathBuf,
    pub text: String,
    pub module: Module,
}

/// Reads and verifies a program.
pub(crate) fn read_module(path: &Path) -> Result<Source, Failure> {
    let text = read_text(path)?;
    match tegula::read(&text) {
        Ok(module) => Ok(Source { path: path.to_owned(), text, module }),
        Err(error) => Err(Failure::program(path, &text, error)),
    }
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let about = || format!("{} cannot be read", path.display());
    let metadata = std::fs::metadata(path).with_context(about)?;
    if metadata.is_dir() {
        return Err(anyhow!("{} is a folder, not a program", path.display()));
    }
    if metadata.len() > MAX_TEXT {
        return Err(anyhow!("{} is larger than 1 GiB", path.display()));
    }
    let bytes = std::fs::read(path).with_context(about)?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        anyhow!(
            "{} is not HLO text: byte {at} is not UTF-8. Only HLO text can be read yet",
            path.display()
        )
    })
}

impl Source {
    /// An error of this program.
    pub(crate) fn failure(&self, error: tegula::Error) -> Failure {
        Failure::program(&self.path, &self.text, error)
    }
}

/// Where a run's inputs come from.
#[derive(Clone, Debug, Args)]
pub(crate) struct InputArgs {
    /// Take inputs from this file: arrays in0, in1, ... by parameter.
    #[arg(long, value_name = "NPZ")]
    pub inputs: Option<PathBuf>,
    /// Make up inputs from this seed.
    #[arg(long, value_name = "N", conflicts_with = "inputs", default_value_t = 0)]
    pub seed: u64,
}

impl InputArgs {
    /// The inputs of a program.
    pub(crate) fn load(&self, source: &Source) -> Result<Vec<Buffer>, Failure> {
        let Some(path) = &self.inputs else {
            return random_inputs(&source.module, self.seed).map_err(|e| source.failure(e));
        };
        let arrays = read_npz(path)?;
        let entry = source.module.entry_computation();
        let mut inputs = Vec::new();
        for &parameter in &entry.parameters {
            for shape in tegula_fusion::array_leaves(&source.module[parameter].shape) {
                let name = format!("in{}", inputs.len());
                let array = arrays.iter().find(|(n, _)| *n == name).ok_or_else(|| {
                    anyhow!("{} has no array `{name}`", path.display())
                })?;
                let literal = retype(&array.1, shape).ok_or_else(|| {
                    anyhow!(
                        "{}: `{name}` is {}, but the program takes {}",
                        path.display(),
                        tegula_ir::Shape::Array(array.1.shape().clone()),
                        tegula_ir::Shape::Array(shape.clone()),
                    )
                })?;
                inputs.push(Buffer::from(literal));
            }
        }
        Ok(inputs)
    }
}

/// The arrays of an npz file, by name.
pub(crate) fn read_npz(path: &Path) -> anyhow::Result<Vec<(String, Literal)>> {
    let bytes = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    npz::read(&bytes).with_context(|| format!("{} cannot be read", path.display()))
}

/// The same bytes as an array of the shape, if type and dimensions allow it:
/// types that npz lacks travel as unsigned integers of their width.
fn retype(literal: &Literal, shape: &ArrayShape) -> Option<Literal> {
    let (from, to) = (literal.element_type(), shape.element_type);
    let stands_in = from.storage_bytes() == to.storage_bytes() && !from.is_float();
    if literal.shape().dims != shape.dims || (from != to && !stands_in) {
        return None;
    }
    Literal::from_bytes(shape, literal.bytes()).ok()
}

/// How near results must be to the reference.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// Compare the results with out0, out1, ... (or `out{i}_sample`) of this file.
    #[arg(long, value_name = "NPZ")]
    pub check: Option<PathBuf>,
    /// Allowed difference relative to each reference element.
    #[arg(long, value_name = "R", requires = "check")]
    pub rtol: Option<f64>,
    /// Allowed difference in absolute terms.
    #[arg(long, value_name = "A", requires = "check")]
    pub atol: Option<f64>,
    /// Allowed difference relative to the largest reference element.
    #[arg(long, value_name = "T", requires = "check", conflicts_with_all = ["rtol", "atol"])]
    pub scale_tol: Option<f64>,
}

/// How one result compares with its reference.
pub(crate) struct Comparison {
    pub index: usize,
    pub max_abs: f64,
    pub max_rel: f64,
    pub ok: bool,
}

impl Comparison {
    pub(crate) fn json(&self) -> Value {
        json!({
            "index": self.index,
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "ok": self.ok,
        })
    }
}

impl CheckArgs {
    /// Compares results with the reference file, if one is named.
    pub(crate) fn compare(&self, outputs: &[Buffer]) -> anyhow::Result<Option<Vec<Comparison>>> {
        let Some(path) = &self.check else { return Ok(None) };
        let arrays = read_npz(path)?;
        let mut comparisons = Vec::new();
        for (index, output) in outputs.iter().enumerate() {
            let find = |name: String| arrays.iter().find(|(n, _)| *n == name).map(|(_, l)| l);
            let whole = find(format!("out{index}"));
            let reference = whole.or_else(|| find(format!("out{index}_sample")));
            let reference = reference
                .ok_or_else(|| anyhow!("{} has no array `out{index}`", path.display()))?;
            comparisons.push(self.compare_one(index, output.literal(), reference, whole.is_some())?);
        }
        Ok(Some(comparisons))
    }

    fn compare_one(
        &self,
        index: usize,
        ours: &Literal,
        reference: &Literal,
        whole: bool,
    ) -> anyhow::Result<Comparison> {
        let stride = sample_stride(ours.len(), reference.len(), whole)
            .ok_or_else(|| anyhow!("result {index} has {} elements, its reference {}", ours.len(), reference.len()))?;
        // A reference may hold a type's bits as unsigned integers.
        let shape = ArrayShape {
            element_type: ours.element_type(),
            dims: reference.shape().dims.clone(),
            layout: None,
        };
        let reference = retype(reference, &shape).ok_or_else(|| {
            anyhow!("result {index} is {}, its reference {}", ours.element_type(), reference.element_type())
        })?;
        let scale = reference.scalars().map(|s| magnitude(s)).filter(|m| m.is_finite()).fold(0.0, f64::max);
        let exact = !ours.element_type().is_float() && !ours.element_type().is_complex();
        let (mut max_abs, mut max_rel, mut ok) = (0f64, 0f64, true);
        for (i, want) in reference.scalars().enumerate() {
            let Some(got) = ours.scalar(i * stride) else { continue };
            for (got, want) in parts(got).into_iter().zip(parts(want)) {
                let same = got == want || (got.is_nan() && want.is_nan());
                if same {
                    continue;
                }
                let difference = (got - want).abs();
                if !difference.is_finite() {
                    ok = false;
                    max_abs = f64::INFINITY;
                    continue;
                }
                max_abs = max_abs.max(difference);
                max_rel = max_rel.max(difference / want.abs().max(f64::MIN_POSITIVE));
                ok &= !exact && difference <= self.allowed(scale, want);
            }
        }
        Ok(Comparison { index, max_abs, max_rel, ok })
    }

    fn allowed(&self, scale: f64, want: f64) -> f64 {
        match self.scale_tol {
            Some(tolerance) => tolerance * scale,
            None => self.atol.unwrap_or(1e-5) + self.rtol.unwrap_or(1e-4) * want.abs(),
        }
    }
}

/// Every how many elements the reference has one.
fn sample_stride(ours: usize, reference: usize, whole: bool) -> Option<usize> {
    if whole || ours == reference {
        return (ours == reference).then_some(1);
    }
    // `flat[::k]` has ceil(n / k) elements: find the k that gives so many.
    let guess = ours.checked_div(reference)?;
    (guess.max(1)..=guess + ours / reference.max(1) + 1)
        .find(|&k| ours.div_ceil(k) == reference)
        .or_else(|| (1..=ours).find(|&k| ours.div_ceil(k) == reference))
}

fn magnitude(scalar: Scalar) -> f64 {
    parts(scalar).into_iter().map(f64::abs).fold(0.0, f64::max)
}

/// The numbers of a scalar. Integers beyond 2^53 are compared by both halves.
fn parts(scalar: Scalar) -> [f64; 2] {
    match scalar {
        Scalar::Bool(b) => [f64::from(u8::from(b)), 0.0],
        Scalar::Int(i) => halves(i.cast_unsigned()),
        Scalar::Uint(u) => halves(u),
        Scalar::Float(x) => [x, 0.0],
        Scalar::Complex(re, im) => [re, im],
    }
}

fn halves(bits: u64) -> [f64; 2] {
    [f64::from((bits >> 32) as u32), f64::from(bits as u32)]
}
