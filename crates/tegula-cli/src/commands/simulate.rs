//! `tegula simulate`: runs a kernel or a program on a simulated TPU core and reports its errors,
//! its memory use and its time.

pub(crate) mod pallas;
mod slice;

use crate::documents::{self, AssumedLoop, Simulation};
use crate::exit_code::{FINDING, SUCCESS};
use crate::inputs::{DimArgs, InputArgs, open_npz, read_array, read_file, read_module, text_of};
use crate::options::Common;
use crate::report::{Failure, Finding as Shown, render_finding};
use anyhow::{Context, anyhow};
use clap::Args;
use std::path::{Path, PathBuf};
use tegula::Tensor;
use tegula::random_input::random_array;
use tegula::tpu::TpuExecutable;
use tegula_draw::tpu_report::{Subject, html};
use tegula_ir::{ArrayShape, Literal};
use tegula_sim_tpu::program::{Role, Statement, StatementKind, find_statement};
use tegula_sim_tpu::report::{How, SpaceUse, bytes_text, seconds_text};
use tegula_sim_tpu::{
    Error, Lines, Options, PrintForm, Report, Severity, TpuProgram, chrome_trace, is_kernel,
    print_kernel, read_kernel, simulate as run,
};
use tegula_stablehlo::InputForm;
use tegula_target::{Chip, Param, Quantity};

/// The maximum number of findings that are shown with their lines; the others are only counted.
const MOST_SHOWN: usize = 50;

/// The maximum size in bytes of made-up inputs; without inputs, a larger kernel runs without
/// values.
const MOST_MADE_UP: i64 = 1 << 30;

/// The options of `tegula simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// The file of a kernel (text that begins with `kernel NAME`, or what Pallas lowers one to) or
    /// of a program: HLO text, StableHLO (text or bytecode), or an artifact that `jax.export`
    /// serialized.
    pub kernel: PathBuf,
    #[command(flatten)]
    pub dims: DimArgs,
    /// The chip: v4, v5e, v5p, v6e or 7x, or a file that describes one.
    #[arg(long, default_value = "v5e", value_name = "NAME|FILE")]
    pub chip: String,
    /// Read the inputs from this NumPy `.npz` file: arrays in0, in1, ... in the order of the
    /// parameters.
    #[arg(long, value_name = "NPZ")]
    pub inputs: Option<PathBuf>,
    /// Write the results to this NumPy `.npz` file, as arrays out0, out1, ..., even if there are
    /// findings.
    #[arg(long, value_name = "NPZ")]
    pub outputs: Option<PathBuf>,
    /// Run a Pallas kernel on N devices, which copy to and signal each other by device number.
    /// Inputs and results have one more dimension, the first, with one index per device.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub devices: usize,
    /// Estimate the time of a step on a slice of many chips, without computing values. The numbers
    /// of chips along each axis of the torus are given, for example 16x16 (v5e) or 4x4x8 (v5p). A
    /// program with shardings is partitioned first.
    #[arg(long, value_name = "AxB")]
    pub topology: Option<String>,
    /// With `--topology`: which collectives overlap with computation.
    #[arg(long, value_enum, default_value_t = Beside::Auto, requires = "topology")]
    pub overlap: Beside,
    /// With `--topology`: the floating-point operations that the model needs for one step on all
    /// chips together, without recomputed (rematerialised) ones, such as 1.5e15. With it the report
    /// has the model FLOPs utilisation (MFU).
    #[arg(long, value_name = "N", requires = "topology")]
    pub model_flops: Option<f64>,
    /// The precision of f32 matrix products in a Pallas kernel.
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    pub precision: Precision,
    /// Change a number in the description of the chip, for example vmem_bytes=16MiB. May be
    /// repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Stop after N statements. The default is 2 * 10^8.
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Print the kernel with each grid expanded into a loop that starts and waits for its copies,
    /// and do not run it.
    #[arg(long)]
    pub expanded: bool,
    /// Compute no values. Checks and times that depend on no data are made all the same.
    #[arg(long, conflicts_with = "inputs")]
    pub no_values: bool,
    /// Write the report to this HTML file.
    #[arg(long, value_name = "HTML")]
    pub report: Option<PathBuf>,
}

/// Which collectives overlap with computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Beside {
    /// `written` if the program has asynchronous collectives (start and done), else `scheduled`.
    Auto,
    /// Those that the program splits into a start and a done; the others block until they end.
    Written,
    /// Those that a latency-hiding scheduler, such as XLA's, would overlap.
    Scheduled,
}

/// How exact products are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Precision {
    /// Operands of f32 are used as they are, as in Pallas's interpreter.
    F32,
    /// Operands of f32 are rounded to bf16 first, as the chip's matrix units do.
    Tpu,
}

/// Simulates a kernel or a program and reports the findings.
pub(crate) fn simulate(args: &SimulateArgs, common: &Common) -> Result<u8, Failure> {
    let chip = chip(args)?;
    if let Some(topology) = &args.topology {
        return slice::simulate(args, common, &chip, topology);
    }
    let bytes = read_file(&args.kernel)?;
    if let Some(kernels) = pallas::read(&args.kernel, &bytes)? {
        return pallas::simulate(args, common, &chip, &kernels);
    }
    if args.devices != 1 {
        return Err(anyhow!("`--devices` only applies to Pallas kernels").into());
    }
    let text = text_of(&bytes);
    if InputForm::of(&bytes).is_none() && is_kernel(text) {
        kernel(args, common, &chip, text)
    } else {
        model(args, common, &chip)
    }
}

/// Simulates a program, without values unless there are inputs.
fn model(args: &SimulateArgs, common: &Common, chip: &Chip) -> Result<u8, Failure> {
    let source = read_module(&args.kernel, &args.dims)?;
    let executable = TpuExecutable::new(&source.module, chip);
    let mut executable = executable.map_err(|error| source.failure(error))?;
    executable.step_limit = args.steps;
    let inputs = match &args.inputs {
        None => None,
        Some(_) => {
            let given = InputArgs {
                inputs: args.inputs.clone(),
                seed: 0,
            };
            let buffers = given.load(&source)?;
            Some(buffers.into_iter().map(Tensor::into_literal).collect())
        }
    };
    let report = executable.simulate(inputs, true);
    let report = report.map_err(|error| source.failure(error))?;
    if !common.json {
        for finding in report.findings.iter().take(MOST_SHOWN) {
            let at = (finding.line as usize).checked_sub(1);
            let name = at.and_then(|at| executable.lowered.instructions.get(at));
            let name = name.map_or("the program", String::as_str);
            say!("{} at `{name}`: {}", finding.code.name(), finding.message);
        }
    }
    // Without values, the trip counts of some loops are assumptions, which the report lists.
    let assumed = match args.inputs {
        None => executable.assumed_loops(),
        Some(_) => &[],
    };
    if !common.json {
        for (name, trips) in assumed {
            say!("the trip count of `{name}` is unknown: assumed to be {trips}");
        }
    }
    let subject = Subject {
        program: &executable.lowered.program,
        report: &report,
        chip,
        lines: Lines::Instructions(&executable.lowered.instructions),
    };
    outcome(args, common, &subject, assumed)
}

/// Prints the report and writes the requested files.
pub(super) fn outcome(
    args: &SimulateArgs,
    common: &Common,
    subject: &Subject<'_>,
    assumed: &[(String, u64)],
) -> Result<u8, Failure> {
    let report = subject.report;
    if let Some(path) = &args.outputs {
        // A program that does not fit the chip has no results; its findings already say so.
        if report.functional || report.fits {
            write_results(path, report)?;
        }
    }
    let write = |path: &Path, text: String| crate::terminal::result_file::write(path, text);
    if let Some(path) = &args.report {
        write(path, html(subject))?;
    }
    if let Some(path) = &common.trace {
        write(path, chrome_trace(report, subject.lines).to_string())?;
    }
    if common.json {
        documents::print(&document(subject, assumed)?);
    } else {
        say!("{}", summary(subject.program, report, &args.set));
    }
    Ok(if report.is_clean() { SUCCESS } else { FINDING })
}

/// Writes the results of a simulation as `out0`, `out1`, and so on.
fn write_results(path: &Path, report: &Report) -> Result<(), Failure> {
    if !report.functional {
        return Err(anyhow!(
            "no values were computed, so there are no results to write to {}: specify `--inputs`",
            path.display()
        )
        .into());
    }
    let named = report.results.iter().enumerate();
    let named: Vec<(String, &Literal)> = named.map(|(i, out)| (format!("out{i}"), out)).collect();
    crate::terminal::output::write_npz_file(path, &named)?;
    Ok(())
}

fn kernel(args: &SimulateArgs, common: &Common, chip: &Chip, text: &str) -> Result<u8, Failure> {
    let program = tracing::info_span!("read").in_scope(|| read_kernel(text));
    let program = program.map_err(|error| Failure::program(&args.kernel, text, error.into()))?;
    if args.expanded {
        say!("{}", print_kernel(&program, PrintForm::Expanded).trim_end());
        return Ok(SUCCESS);
    }
    // A scalar that the kernel loads may control its loops and branches, so inputs are not made up
    // for it.
    let mut is_load = |s: &Statement| matches!(s.kind, StatementKind::Load { .. });
    let loads = find_statement(&program.body, &mut is_load).is_some();
    let parameters = program.buffers.values();
    let parameters = parameters.filter(|b| matches!(b.role, Role::Parameter(_)));
    let bytes = parameters.map(|b| b.shape.byte_size().unwrap_or(i64::MAX));
    let made_up = !loads && bytes.fold(0, i64::saturating_add) <= MOST_MADE_UP;
    let functional = !args.no_values && (args.inputs.is_some() || made_up);
    let options = Options {
        functional,
        inputs: if functional {
            inputs(&program, args.inputs.as_deref())?
        } else {
            Vec::new()
        },
        step_limit: args.steps.unwrap_or(Options::default().step_limit),
        ..Options::default()
    };
    let report = tracing::info_span!("simulate").in_scope(|| run(&program, chip, &options));
    let report = report.map_err(|error| failure(&args.kernel, text, &error))?;
    if !common.json {
        for (number, finding) in report.findings.iter().enumerate() {
            if number == MOST_SHOWN {
                say!("... and {} more findings", report.findings.len() - number);
                break;
            }
            show(&args.kernel, text, finding);
        }
    }
    let subject = Subject {
        program: &program,
        report: &report,
        chip,
        lines: Lines::Text(text),
    };
    outcome(args, common, &subject, &[])
}

fn failure(path: &Path, text: &str, error: &Error) -> Failure {
    match error.at_line() {
        Some((line, message)) if line > 0 => {
            let start = line_start(text, line);
            let end = text[start..].find('\n').map_or(text.len(), |n| start + n);
            let mut error = tegula::Error::new(tegula::ErrorKind::Input, message);
            error.span = tegula_ir::Span {
                start: start as u32,
                end: end as u32,
            };
            Failure::program(path, text, error)
        }
        _ => anyhow!("{error}").into(),
    }
}

/// Returns the offset of the first byte of a line that is not blank.
fn line_start(text: &str, line: u32) -> usize {
    let mut lines = text.split_inclusive('\n');
    let before = lines.by_ref().take(line.saturating_sub(1) as usize);
    let start: usize = before.map(str::len).sum();
    let rest = &text[start..];
    let indent = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    start + indent
}

/// Returns the chip with the parameters that `--set` changes.
fn chip(args: &SimulateArgs) -> Result<Chip, Failure> {
    let mut chip = crate::chip::load(&args.chip)?;
    for given in &args.set {
        let wrong = || format!("--set {given}");
        let (name, value) = given
            .split_once('=')
            .ok_or_else(|| anyhow!("expected NAME=VALUE"))
            .with_context(wrong)?;
        set(&mut chip, name.trim(), value.trim()).with_context(wrong)?;
    }
    Ok(chip)
}

/// Sets a parameter of a chip: `16MiB`, `1.5 GHz`, or a number in the parameter's base unit.
fn set(chip: &mut Chip, name: &str, value: &str) -> anyhow::Result<()> {
    if name == "tile_rule" {
        let message = "tile_rule is `compact` (v4 and later chips) or `two_rows` (v2 and v3)";
        let rule = tegula_target::TileRule::from_name(value);
        chip.tile_rule = Some(rule.ok_or_else(|| anyhow!(message))?);
        return Ok(());
    }
    let is_number = |end: &usize| value.get(..*end).is_some_and(|n| n.parse::<f64>().is_ok());
    let digits = (1..=value.len()).rev().find(is_number);
    let digits = digits.ok_or_else(|| anyhow!("`{value}` does not begin with a number"))?;
    let (number, unit) = value.split_at(digits);
    let stated = |unit: &str| {
        Chip::parse(&format!("name = given\n{name} = {number} {unit} # --set"))
            .map_err(|error| anyhow!("{}", error.message))
    };
    let given = match unit.trim() {
        "" => {
            // A number without a unit is in the base unit of the parameter's dimension.
            let units = ["count", "B", "cycles", "ratio"];
            let found = units.iter().find_map(|unit| stated(unit).ok());
            found.map_or_else(|| stated("without a unit"), Ok)?
        }
        unit => stated(unit)?,
    };
    let param = Param::from_name(name).ok_or_else(|| anyhow!("there is no parameter `{name}`"))?;
    if let Some(quantity) = given.quantity(param) {
        let quantity = Quantity {
            uncertain: true,
            ..quantity.clone()
        };
        chip.quantities.insert(param, quantity);
    }
    Ok(())
}

/// Returns the values of the parameters in order: from a file, or made up.
fn inputs(program: &TpuProgram, file: Option<&Path>) -> anyhow::Result<Vec<Literal>> {
    let mut parameters: Vec<(usize, &ArrayShape)> = program
        .buffers
        .values()
        .filter_map(|buffer| match buffer.role {
            Role::Parameter(number) => Some((number, &buffer.shape)),
            _ => None,
        })
        .collect();
    parameters.sort_unstable_by_key(|(number, _)| *number);
    let count = parameters.last().map_or(0, |(number, _)| number + 1);
    let mut inputs = vec![Literal::default(); count];
    let arrays = file.map(open_npz).transpose()?;
    for (number, shape) in parameters {
        let value = match (&arrays, file) {
            (Some(arrays), Some(path)) => {
                let name = format!("in{number}");
                let array = read_array(arrays, &name, path)?
                    .ok_or_else(|| anyhow!("{} has no array `{name}`", path.display()))?
                    .to_literal(shape.element_type);
                array.with_context(|| format!("`{name}` of {}", path.display()))?
            }
            _ => random_array(shape, number as u64)?,
        };
        if let Some(slot) = inputs.get_mut(number) {
            *slot = value;
        }
    }
    Ok(inputs)
}

fn show(path: &Path, text: &str, finding: &tegula_sim_tpu::Finding) {
    let code = match finding.code.also() {
        Some(also) => format!("{} ({also})", finding.code.name()),
        None => finding.code.name().to_owned(),
    };
    let times = match finding.count {
        1 => String::new(),
        count => format!(" ({count} times)"),
    };
    let shown = Shown {
        title: format!("{code}: {}{times}", finding.message),
        is_error: finding.code.severity() == Severity::Error,
        line: finding.line as usize,
        help: &finding.help,
    };
    say!("{}", render_finding(path, text, &shown).trim_end());
}

/// Returns the report as a JSON document.
fn document(subject: &Subject<'_>, assumed: &[(String, u64)]) -> anyhow::Result<Simulation> {
    let report = subject.report.to_json(subject.program);
    let assumed = assumed.iter().map(|(name, trips)| AssumedLoop {
        name: name.clone(),
        trips: *trips,
    });
    Ok(Simulation {
        assumed_loops: assumed.collect(),
        ..serde_json::from_value(report)?
    })
}

fn summary(program: &TpuProgram, report: &Report, set: &[String]) -> String {
    let found = match report.findings.len() {
        0 => "no findings".to_owned(),
        1 => "1 finding".to_owned(),
        n => format!("{n} findings"),
    };
    let mut lines = vec![format!("{} on {}: {found}", program.name, report.chip)];
    lines.push(format!(
        "  time      {}, bound by {}",
        seconds_text(report.seconds),
        report.bound()
    ));
    lines.push(format!(
        "  copies    {}, {} with the padding of tiles",
        report.copies,
        bytes_text(report.copied_bytes)
    ));
    for space in &report.spaces {
        lines.push(space_text(space, report.scoped_vmem_peak_bytes));
    }
    lines.push(format!("  padding   {}", bytes_text(report.padding_bytes)));
    for assumption in &report.engines.speeds().assumptions {
        lines.push(format!(
            "  assumed   {}, not known for this chip: {}",
            assumption.param.name(),
            assumption.used
        ));
    }
    if !set.is_empty() {
        lines.push(format!("  with      {}", set.join(", ")));
    }
    let checks = report.checks();
    for (how, title) in [(How::Proved, "proved"), (How::Executed, "executed")] {
        let made = checks.iter().filter(|check| check.how == how);
        let made: Vec<String> = made
            .map(|check| format!("{} ({})", check.what, check.extent))
            .collect();
        lines.push(format!("  {title:<9} {}", made.join("; ")));
    }
    if !report.functional {
        let why = if report.fits {
            "no values were computed, so padding lanes were not followed; `--inputs FILE` computes them"
        } else {
            "it does not fit, so no values were computed"
        };
        lines.push(format!("  {why}"));
    }
    lines.join("\n")
}

fn space_text(space: &SpaceUse, scoped: i64) -> String {
    let name = space.space.name().to_uppercase();
    let capacity = match space.capacity_bytes {
        Some(bytes) => format!(" of {}", bytes_text(bytes)),
        None => " (how much the chip has is not known, so room was not checked)".to_owned(),
    };
    let scoped = match (space.space, scoped) {
        (tegula_sim_tpu::program::Space::Vmem, 1..) => {
            format!(", {} of it scoped", bytes_text(scoped))
        }
        _ => String::new(),
    };
    format!(
        "  {name:<9} {}{capacity}{scoped}",
        bytes_text(space.peak_bytes)
    )
}
