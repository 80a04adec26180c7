//! The corpus: real programs with generated inputs and expected results.
//!
//! `NAME.hlo` is a program, `NAME.json` says how its inputs are made, and
//! `NAME.npz` holds expected results (`out0`, ... or every k-th element as
//! `out0_sample`) and, where they are small, the inputs for checking the rebuilding.
//!
//! # Inputs
//! The words of argument `arg` are `mix(seed + (j + 1) * GOLDEN)` for element `j`,
//! row-major, with `seed = crc32(NAME) << 32 | arg` and splitmix64's `mix`. From a
//! word, a `normal` element is the centred sum of its four 16-bit lanes, scaled; a
//! `uniform` one its upper 24 bits as a fraction; an integer its upper half modulo
//! the width of the range. Every float operation is rounded to `f32`.

use crate::program::{Expected, Program};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};
use tegula::npz::{NpyArray, read_npz};
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_scalar::{Number, encode};

/// The names of the programs in a folder that have a description, sorted.
///
/// # Errors
/// The folder cannot be read.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    crate::program::names(folder, "json")
}

/// The folder of the whole corpus, if the environment names it.
pub fn whole_corpus() -> Option<PathBuf> {
    std::env::var_os("TEGULA_CORPUS").map(PathBuf::from)
}

/// The folder of the programs that are part of the repository.
pub fn small_corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/hlo")
}

/// Reads a program and rebuilds its inputs. Inputs that are stored are compared
/// with the rebuilt ones. `extension` says which form of the program is read: `hlo`, or `mlir`
/// for StableHLO.
///
/// # Errors
/// A file is missing or malformed, or a stored input differs.
pub fn load(folder: &Path, name: &str, extension: &str) -> Result<Program> {
    let path = |extension: &str| folder.join(format!("{name}.{extension}"));
    let bytes = fs::read(path(extension)).context("its text")?;
    let module = tegula::Module::from_bytes(bytes).map(tegula::Module::into_program);
    let module = module.with_context(|| format!("{name}.{extension}"))?;
    let json: Json = serde_json::from_str(&fs::read_to_string(path("json"))?)?;
    let arrays = read_npz(&fs::read(path("npz"))?)?;
    let params = json["params"].as_array().context("json has no params")?;
    let mut inputs = vec![None; params.len()];
    for param in params {
        let index = param["param"].as_u64().context("no number")? as usize;
        let arg = param["arg"].as_u64().context("no argument number")?;
        let input = build_input(name, arg, &param["spec"])?;
        let stored = arrays
            .iter()
            .find(|array| array.name == format!("in{index}"));
        if let Some(stored) = stored {
            let stored = stored.to_literal(input.element_type())?;
            ensure!(
                stored == input,
                "{name}: input {index} is not rebuilt as stored"
            );
        }
        *inputs
            .get_mut(index)
            .context("a parameter number is too large")? = Some(input);
    }
    let inputs = inputs.into_iter().collect::<Option<_>>();
    Ok(Program {
        name: name.to_owned(),
        module,
        inputs: inputs.context("a parameter is missing")?,
        expected: expected(&json, arrays)?,
    })
}

fn expected(json: &Json, arrays: Vec<NpyArray>) -> Result<Vec<Expected>> {
    let mut expected = Vec::new();
    for array in arrays {
        let Some(number) = array.name.strip_prefix("out") else {
            continue;
        };
        let (number, sampled) = match number.strip_suffix("_sample") {
            Some(number) => (number, true),
            None => (number, false),
        };
        let output: usize = number.parse()?;
        let step = if sampled {
            let stored = json["outputs"][output]["stored"].as_str().unwrap_or("");
            let step = stored
                .strip_prefix("flat[::")
                .and_then(|rest| rest.strip_suffix(']'));
            step.context("a sampled result has no step")?.parse()?
        } else {
            1
        };
        expected.push(Expected {
            output,
            array,
            step,
        });
    }
    expected.sort_by_key(|expected| expected.output);
    Ok(expected)
}

/// The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One input by its `spec = [kind, shape, dtype, a, b]`.
fn build_input(name: &str, arg: u64, spec: &Json) -> Result<Literal> {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let kind = spec[0].as_str().context("no kind")?;
    let dims = spec[1].as_array().context("no shape")?;
    let dims: Option<Vec<i64>> = dims.iter().map(Json::as_i64).collect();
    let ty = element_type(spec[2].as_str().context("no type")?)?;
    let shape = ArrayShape::new(ty, &dims.context("a size is not a number")?);
    let mut crc = flate2::Crc::new();
    crc.update(name.as_bytes());
    let seed = u64::from(crc.sum()) << 32 | arg;
    let word = |j: usize| mix(seed.wrapping_add((j as u64 + 1).wrapping_mul(GOLDEN)));

    let (a, b) = (&spec[3], &spec[4]);
    let (a32, b32) = (
        a.as_f64().unwrap_or(0.0) as f32,
        b.as_f64().unwrap_or(0.0) as f32,
    );
    let (a_int, b_int) = (a.as_i64().unwrap_or(0), b.as_i64().unwrap_or(0));
    let element: Box<dyn Fn(u64) -> Number> = match kind {
        "normal" => Box::new(move |word| {
            let lanes: u64 = (0..4).map(|lane| (word >> (16 * lane)) & 0xffff).sum();
            let t = lanes as i64 - 131_070;
            Number::Single(t as f32 * (1.0 / 37_837.227_5_f64) as f32 * a32 + b32)
        }),
        "uniform" => Box::new(move |word| {
            let fraction = (word >> 40) as f32 * (1.0 / 16_777_216.0);
            let width = (b.as_f64().unwrap_or(0.0) - a.as_f64().unwrap_or(0.0)) as f32;
            Number::Single(fraction * width + a32)
        }),
        "integers" => {
            let width = u64::try_from(b_int - a_int).ok().filter(|&width| width > 0);
            let width = width.context("an empty range of integers")?;
            Box::new(move |word| Number::Signed(a_int + ((word >> 32) % width) as i64))
        }
        "const" if ty.is_integer() => Box::new(move |_| Number::Signed(a_int)),
        "const" => Box::new(move |_| Number::Single(a32)),
        kind => bail!("inputs of kind {kind} are not known"),
    };
    let mut bytes = Vec::new();
    for j in 0..shape.element_count().context("the input is too large")? as usize {
        let bits = encode(ty, element(word(j))).to_le_bytes();
        bytes.extend_from_slice(&bits[..ty.storage_bytes()]);
    }
    Ok(Literal::from_bytes(&shape, &bytes)?)
}

/// The element type of numpy's name.
fn element_type(name: &str) -> Result<ElementType> {
    Ok(match name {
        "bool" => ElementType::Pred,
        "int8" => ElementType::S8,
        "int32" => ElementType::S32,
        "int64" => ElementType::S64,
        "uint8" => ElementType::U8,
        "uint32" => ElementType::U32,
        "float16" => ElementType::F16,
        "bfloat16" => ElementType::BF16,
        "float32" => ElementType::F32,
        "float64" => ElementType::F64,
        "complex64" => ElementType::C64,
        name => bail!("inputs of type {name} are not known"),
    })
}
