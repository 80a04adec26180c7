//! `tegula run`: compiles and runs a program, and shows or checks the results.

#[cfg(unix)]
mod mpi;
mod staged;
#[cfg(unix)]
mod supervised;

use crate::documents::{self, Check, RunOutput, RunResult};
use crate::execution::ExecutionArgs;
use crate::exit_code::{FINDING, SUCCESS};
use crate::inputs::{CheckArgs, Source, borrowed};
use crate::options::Common;
use crate::report::Failure;
use crate::terminal::count;
use crate::terminal::style::{BAD, GOOD, HEADING, paint};
use crate::terminal::table::{Column, Table};
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tegula::check::Comparison;
use tegula::{Executable, Options, Tensor, compile};
use tegula_ir::{Literal, Scalar, Shape, shortest_float};

/// The options of `tegula run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub execution: ExecutionArgs,
    /// The chip for the target tpu: v4, v5e, v5p, v6e or 7x, or a file that describes one.
    #[arg(long, default_value = "v5e")]
    pub chip: String,
    /// Write the results to this NumPy `.npz` file, as arrays out0, out1, ...
    #[arg(long, value_name = "NPZ")]
    pub outputs: Option<PathBuf>,
    #[command(flatten)]
    pub check: CheckArgs,
    /// Stop after N instructions (target interp) or statements (target tpu).
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Run on N devices, which are threads of this process (targets cpu, plan and interp). The
    /// program is partitioned by its shardings, inputs are cut into one part per device, and the
    /// parts of results are joined. If the program is already partitioned, its inputs and results
    /// have one more dimension, the first, with one index per device.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub devices: u16,
    /// Run as one rank of an MPI job, in which every rank is one device: `mpirun -n 8 tegula run
    /// MODEL
    /// --mpi`. Open MPI or MPICH is loaded at this point; the environment variable `TEGULA_MPI` may
    /// name its library. Rank 0 prints and writes the results.
    #[arg(long, conflicts_with = "devices")]
    pub mpi: bool,
    /// With `--mpi`: a rank that has waited this many seconds for others in one exchange names the
    /// missing ranks and ends the job. (`--timeout` limits the whole run, and also names them.)
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600.0,
        requires = "mpi"
    )]
    pub wait: f64,
    /// Run the program N times and report the time of the fastest run.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
}

/// Runs a program.
pub(crate) fn run(args: &RunArgs, common: &Common) -> Result<u8, Failure> {
    if args.mpi {
        #[cfg(unix)]
        return mpi::run(args, common);
        #[cfg(not(unix))]
        return Err(anyhow::anyhow!("`--mpi` is only supported on Unix systems").into());
    }
    let execution = &args.execution;
    let options = Options {
        chip: Some(crate::chip::load(&args.chip)?),
        devices: args.devices.into(),
        ..execution.options()?
    };
    let read_start = Instant::now();
    let source = match execution.read() {
        Err(failure) if failure.needs_stages() => return staged::run(args, &options, common),
        source => source?,
    };
    source.warn_of_callbacks();
    let read_time = read_start.elapsed();
    // Load the inputs before compiling, so that missing inputs are reported early. Several devices
    // may take inputs of other shapes, which only the executable knows.
    let loaded = match args.devices {
        1 => Some(execution.inputs.load(&source)?),
        _ => None,
    };
    let mut executable = compile(&source.module, &options).map_err(|e| source.failure(e))?;
    let inputs = match loaded {
        Some(inputs) => inputs,
        None if executable.backend().stacked_devices().is_some() => {
            execution.inputs.load_stacked(&executable)?
        }
        None => execution.inputs.load(&source)?,
    };
    if let Some(steps) = args.steps {
        executable.limit_steps(steps);
    }
    let given = execution.freeze.freeze(&mut executable, &inputs);
    let given = given.map_err(|e| source.failure(e))?;
    let mut fastest = Duration::MAX;
    let mut outputs = Vec::new();
    for _ in 0..args.repeat {
        let given = borrowed(&given);
        let start = Instant::now();
        outputs = executable.run(given).map_err(|e| source.failure(e))?;
        fastest = fastest.min(start.elapsed());
    }
    let ran = Ran {
        times: Times {
            compile: executable.compile_time,
            run: fastest,
        },
        source,
        executable,
        inputs,
        outputs,
        read_time,
    };
    ran.present(args, common, "")
}

/// A program that has been read, compiled and run.
struct Ran {
    source: Source,
    executable: Executable,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    times: Times,
    read_time: Duration,
}

impl Ran {
    /// Writes, compares and prints the results, and returns the exit code. `by_whom` is printed
    /// after the compile time.
    fn present(&self, args: &RunArgs, common: &Common, by_whom: &str) -> Result<u8, Failure> {
        let (outputs, times) = (&self.outputs, &self.times);
        write_outputs(args, outputs)?;
        let comparisons = args.check.compare(outputs)?;
        if common.json {
            print_json(args, outputs, comparisons.as_deref(), times);
        } else {
            print_head(
                args,
                &self.source.module,
                &self.executable,
                &self.inputs,
                outputs,
            );
            say!(
                "compiled: {:.2} ms (read and verified in {:.2} ms){by_whom}",
                milliseconds(times.compile),
                milliseconds(self.read_time)
            );
            print_run_time(args, times);
            print_outputs(outputs, comparisons.as_deref());
        }
        Ok(exit_code(comparisons.as_deref()))
    }
}

/// Tells whether all compared results agree.
fn all_agree(comparisons: Option<&[Comparison]>) -> bool {
    comparisons.is_none_or(|all| all.iter().all(|comparison| comparison.ok))
}

fn exit_code(comparisons: Option<&[Comparison]>) -> u8 {
    match all_agree(comparisons) {
        true => SUCCESS,
        false => FINDING,
    }
}

/// Writes results to the file given by `--outputs`, if any.
fn write_outputs(args: &RunArgs, outputs: &[Tensor]) -> anyhow::Result<()> {
    let Some(path) = &args.outputs else {
        return Ok(());
    };
    let named: Vec<(String, &Literal)> = outputs
        .iter()
        .enumerate()
        .map(|(i, b)| (format!("out{i}"), b.literal()))
        .collect();
    crate::terminal::output::write_npz_file(path, &named)
}

struct Times {
    compile: Duration,
    run: Duration,
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn print_json(
    args: &RunArgs,
    outputs: &[Tensor],
    comparisons: Option<&[Comparison]>,
    times: &Times,
) {
    let results = outputs.iter().enumerate().map(|(index, output)| {
        let literal = output.literal();
        let comparison = comparisons.and_then(|all| all.get(index));
        RunOutput {
            index,
            shape: shape_text(output),
            elements: literal.len(),
            values: json_values(literal),
            check: comparison.map(|comparison| Check {
                max_abs: comparison.max_abs,
                max_rel: comparison.max_rel,
                ok: comparison.ok,
            }),
        }
    });
    documents::print(&RunResult {
        ok: all_agree(comparisons),
        seed: args.execution.inputs.made_up(),
        outputs: results.collect(),
        compile_ms: milliseconds(times.compile),
        run_ms: milliseconds(times.run),
    });
}

/// The maximum number of elements of a result that are printed as JSON; `--outputs` writes all.
const JSON_VALUES: usize = 1000;

/// Returns the first elements as JSON, with strings for infinities and NaN, which JSON cannot
/// express.
fn json_values(literal: &Literal) -> Vec<Value> {
    let ty = literal.element_type();
    let part = ty.complex_part().unwrap_or(ty);
    let float = |value: f64| {
        let text = shortest_float(value, part);
        let read = text.parse().ok();
        match read.and_then(serde_json::Number::from_f64) {
            Some(number) => Value::Number(number),
            None => Value::String(text),
        }
    };
    let value = |scalar| match scalar {
        Scalar::Bool(value) => value.into(),
        Scalar::Int(value) => value.into(),
        Scalar::Uint(value) => value.into(),
        Scalar::Float(value) => float(value),
        Scalar::Complex(re, im) => vec![float(re), float(im)].into(),
    };
    literal.scalars().take(JSON_VALUES).map(value).collect()
}

fn shape_text(buffer: &Tensor) -> String {
    Shape::Array(buffer.shape().clone()).to_string()
}

/// Prints the head of the report: the program, the origin of its inputs, and the outcome.
fn print_head(
    args: &RunArgs,
    module: &tegula_ir::Module,
    executable: &Executable,
    inputs: &[Tensor],
    outputs: &[Tensor],
) {
    say!(
        "{}: {}, {}, {}",
        paint(HEADING, &module.name),
        count(module.instructions.len(), "instruction"),
        count(inputs.len(), "input"),
        count(outputs.len(), "result")
    );
    if let Some(seed) = args.execution.inputs.made_up()
        && !inputs.is_empty()
    {
        say!("inputs:   random, from seed {seed}; --inputs FILE.npz takes them from a file");
    }
    if let Some(plan) = executable.backend().plan() {
        say!("fused:    {}", super::fused_text::summary(plan));
    }
}

fn print_run_time(args: &RunArgs, times: &Times) {
    let best = match args.repeat {
        1 => String::new(),
        repeat => format!(", the fastest of {repeat}"),
    };
    say!("ran:      {:.3} ms{best}", milliseconds(times.run));
}

/// Prints each result: its shape, its first elements, and whether it agrees with its reference.
fn print_outputs(outputs: &[Tensor], comparisons: Option<&[Comparison]>) {
    let mut table = Table::new(&[Column::Left; 3]);
    for (index, output) in outputs.iter().enumerate() {
        table.row([
            format!("out{index}"),
            shape_text(output),
            first_numbers(output.literal()),
        ]);
    }
    table.print(0);
    for (index, comparison) in comparisons.into_iter().flatten().enumerate() {
        print_comparison(index, comparison);
    }
}

/// Returns the first few elements as text for a person.
fn first_numbers(literal: &Literal) -> String {
    const SHOWN: usize = 6;
    let shown: Vec<String> = (0..literal.len().min(SHOWN))
        .map(|element| literal.shortest(element))
        .collect();
    let rest = if literal.len() > SHOWN { ", ..." } else { "" };
    format!("[{}{rest}]", shown.join(", "))
}

fn print_comparison(index: usize, comparison: &Comparison) {
    let Comparison {
        max_abs,
        max_rel,
        ok,
    } = comparison;
    let verdict = match ok {
        true => paint(GOOD, "agrees"),
        false => paint(BAD, "DIFFERS"),
    };
    say!("check out{index}: {verdict} (largest difference {max_abs:.3e}, relative {max_rel:.3e})");
}
