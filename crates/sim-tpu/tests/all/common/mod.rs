//! Reads the kernels of `tests/kernels` and runs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tegula_codegen_tpu::{Lowered, ResultOf};
use tegula_interp::{Value, evaluate};
use tegula_ir::{ArrayShape, Category, Literal, Module, Scalar};
use tegula_sim_tpu::program::Role;
use tegula_sim_tpu::{Options, Report, TpuProgram, read_kernel, simulate};
use tegula_target::Chip;

/// A small generator of pseudo-random numbers (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit.max(1) as u64) as usize
    }
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels")
}

pub(crate) fn load(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The codes and lines of findings that the head of a kernel expects.
pub(crate) fn expectations(text: &str) -> BTreeSet<(String, u32)> {
    let stated = text
        .lines()
        .filter_map(|line| line.strip_prefix("// expect: "));
    let pair = |line: &str| {
        let (code, number) = line.split_once(" line ")?;
        Some((code.to_owned(), number.trim().parse().ok()?))
    };
    stated
        .filter(|line| *line != "nothing")
        .map(|line| pair(line).expect("CODE line N"))
        .collect()
}

fn head<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let prefix = format!("// {key}: ");
    text.lines()
        .find_map(|line| line.strip_prefix(prefix.as_str()))
}

/// Small pseudo-random numbers: floats are multiples of 1/8 in [-4, 4), integers are in 0..8.
pub(crate) fn random(shape: &ArrayShape, seed: u64) -> Literal {
    let count = shape.element_count().expect("static") as u64;
    let mut numbers = Random(seed);
    let mut next = || numbers.word() >> 40;
    let values = (0..count).map(|_| match shape.element_type.category() {
        Category::Float => Scalar::Float((next() % 64) as f64 / 8.0 - 4.0),
        Category::Boolean => Scalar::Bool(next() % 2 == 1),
        _ => Scalar::Int((next() % 8) as i64),
    });
    Literal::from_scalars(shape, values).expect("as many as there are")
}

fn stated(shape: &ArrayShape, how: &str) -> Literal {
    let count = shape.element_count().expect("static");
    let numbers: Vec<f64> = match how.trim() {
        "iota" => (0..count).map(|i| i as f64).collect(),
        "zeros" => vec![0.0; count as usize],
        list => list
            .split_whitespace()
            .map(|n| n.parse().expect("a number"))
            .collect(),
    };
    Literal::from_scalars(shape, numbers.into_iter().map(Scalar::Float)).expect("as many")
}

/// The inputs that the head of a kernel states, or pseudo-random ones.
pub(crate) fn inputs(program: &TpuProgram, text: &str) -> Vec<Literal> {
    let mut parameters: Vec<(usize, ArrayShape)> = program
        .buffers
        .values()
        .filter_map(|buffer| match buffer.role {
            Role::Parameter(number) => Some((
                number,
                ArrayShape {
                    layout: None,
                    ..buffer.shape.clone()
                },
            )),
            _ => None,
        })
        .collect();
    parameters.sort_by_key(|(number, _)| *number);
    let value = |(number, shape): &(usize, ArrayShape)| match head(text, &format!("input {number}"))
    {
        Some(how) => stated(shape, how),
        None => random(shape, *number as u64 + 1),
    };
    // Kernels with huge parameters run without values, so no values are made for them.
    parameters.iter().map(value).collect()
}

pub(crate) fn chip(text: &str) -> Chip {
    Chip::by_name(head(text, "chip").unwrap_or("v5e")).expect("a known chip")
}

/// Runs a kernel with values; `fill` is the byte beyond the edges of arrays.
pub(crate) fn run_filled(text: &str, fill: u8) -> Result<Report, String> {
    let program = read_kernel(text).map_err(|error| error.to_string())?;
    let options = Options {
        functional: true,
        fill,
        inputs: inputs(&program, text),
        step_limit: 50_000_000,
        ..Options::default()
    };
    simulate(&program, &chip(text), &options).map_err(|error| error.to_string())
}

pub(crate) fn run(text: &str, functional: bool) -> Result<Report, String> {
    let program = read_kernel(text).map_err(|error| error.to_string())?;
    let functional = functional && !text.contains("// needs: no values");
    let options = Options {
        functional,
        inputs: if functional {
            inputs(&program, text)
        } else {
            Vec::new()
        },
        step_limit: 50_000_000,
        ..Options::default()
    };
    simulate(&program, &chip(text), &options).map_err(|error| error.to_string())
}

/// Runs a lowered module and checks that its results are bitwise those of the evaluator, and that
/// there is no finding.
pub(crate) fn agrees(
    module: &Module,
    lowered: &Lowered,
    inputs: &[Literal],
    chip: &Chip,
) -> Report {
    let values: Vec<Value> = inputs.iter().cloned().map(Value::Array).collect();
    let expected = match evaluate(module, &values).unwrap() {
        Value::Tuple(all) => all,
        one => vec![one],
    };
    let options = Options {
        functional: true,
        inputs: inputs.iter().chain(&lowered.constants).cloned().collect(),
        ..Options::default()
    };
    let report = simulate(&lowered.program, chip, &options).unwrap();
    assert!(report.is_clean(), "{}: {:#?}", module.name, report.findings);
    assert_eq!(lowered.results.len(), expected.len());
    for (result, expected) in lowered.results.iter().zip(&expected) {
        let (ResultOf::Result(number, None), Value::Array(expected)) = (result, expected) else {
            panic!("results of their own")
        };
        let result = &report.results[*number];
        assert_eq!(result.bytes(), expected.bytes(), "{}", module.name);
    }
    report
}
