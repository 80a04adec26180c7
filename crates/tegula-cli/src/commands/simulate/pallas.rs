//! Pallas kernels on the command line: `tegula simulate` and `tegula compile --emit tpu` for a
//! StableHLO program with a `tpu_custom_call`, or for a kernel's own module.

use super::{Precision, SimulateArgs, outcome};
use crate::exit_code::SUCCESS;
use crate::inputs::{open_npz, read_array};
use crate::options::Common;
use crate::report::Failure;
use anyhow::anyhow;
use std::path::Path;
use tegula::pallas::{Kernel, KernelError};
use tegula::random_input::random_array;
use tegula_draw::tpu_report::Subject;
use tegula_ir::Literal;
use tegula_mosaic::Source;
use tegula_sim_tpu::Lines;
use tegula_sim_tpu::program::{StatementKind, find_statement};
use tegula_sim_tpu::{
    Code, Finding, Options, PrintForm, Report, Severity, TpuProgram, print_kernel,
};
use tegula_stablehlo::InputForm;
use tegula_target::Chip;

/// The maximum number of findings that are shown; the others are only counted.
const MOST_SHOWN: usize = 50;
/// The maximum size in bytes of made-up inputs; without inputs, a larger kernel runs without
/// values.
const MOST_MADE_UP: i64 = 1 << 30;

/// Returns the kernels of a file, or `None` if it has none.
pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Option<Vec<Source>>, Failure> {
    if InputForm::of(bytes).is_none() {
        return Ok(None);
    }
    // Other files are read as programs, by a reader whose errors have positions.
    let is_kernel = |bytes: &[u8]| {
        let needles: [&[u8]; 3] = [b"tpu_custom_call", b"stable_mosaic", b"dimension_semantics"];
        needles
            .iter()
            .any(|needle| bytes.windows(needle.len()).any(|window| window == *needle))
    };
    if !is_kernel(bytes) {
        return Ok(None);
    }
    let kernels = tracing::info_span!("read").in_scope(|| tegula_mosaic::read(bytes.to_vec()));
    kernels.map_err(|error| anyhow!("{}: {error}", path.display()).into())
}

/// Returns the only kernel of a file.
fn only<'k>(path: &Path, kernels: &'k [Source]) -> Result<&'k Source, Failure> {
    match kernels {
        [kernel] => Ok(kernel),
        _ => Err(anyhow!(
            "{} has {} Pallas kernels: save each in its own file",
            path.display(),
            kernels.len()
        )
        .into()),
    }
}

/// Returns the text of a kernel's program.
pub(crate) fn text(path: &Path, kernels: &[Source], chip: &Chip) -> Result<String, Failure> {
    let kernel = only(path, kernels)?;
    let kernel = Kernel::new(kernel, chip, &[], None);
    let kernel = kernel.map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok(print_kernel(&kernel.program, PrintForm::Short))
}

/// Simulates a kernel and reports the findings.
pub(super) fn simulate(
    args: &SimulateArgs,
    common: &Common,
    chip: &Chip,
    kernels: &[Source],
) -> Result<u8, Failure> {
    let source = only(&args.kernel, kernels)?;
    let given = match &args.inputs {
        Some(path) => numbered(path)?,
        None => Vec::new(),
    };
    let named = |error: KernelError| anyhow!("{}: {error}", args.kernel.display());
    let given = match given.is_empty() {
        true => Vec::new(),
        false => Kernel::split(&given, args.devices).map_err(named)?,
    };
    let first = given.first().map(Vec::as_slice).unwrap_or_default();
    let kernel = tracing::info_span!("translate")
        .in_scope(|| Kernel::new(source, chip, first, Some(&args.kernel)))
        .map_err(named)?;
    let program = &kernel.program;
    if args.expanded {
        say!("{}", print_kernel(program, PrintForm::Expanded).trim_end());
        return Ok(SUCCESS);
    }
    let inputs = match (args.no_values, given.is_empty()) {
        (true, _) => None,
        (false, true) => made_up(&kernel)?.map(|inputs| vec![inputs; args.devices]),
        (false, false) => {
            let inputs = given.iter().map(|given| kernel.inputs(given));
            Some(inputs.collect::<Result<_, _>>().map_err(named)?)
        }
    };
    let options = Options {
        functional: inputs.is_some(),
        rounds_products: args.precision == Precision::Tpu,
        step_limit: args.steps.unwrap_or(Options::default().step_limit),
        record_timeline: args.report.is_some() || common.trace.is_some(),
        ..Options::default()
    };
    let inputs = inputs.unwrap_or_else(|| vec![Vec::new(); args.devices]);
    let reports = tracing::info_span!("simulate").in_scope(|| kernel.simulate(&options, &inputs));
    let report = Report::merged(reports.map_err(named)?).map_err(anyhow::Error::from)?;
    let mut report = report.ok_or_else(|| anyhow!("`--devices 0`: expected 1 or more"))?;
    if !report.functional && reads_scalars(program) {
        // Without values the kernel's control flow is unknown, so findings that depend on it are
        // dropped.
        report
            .findings
            .retain(|finding| holds_without_values(finding.code));
        if !common.json {
            say!(
                "note: this kernel depends on scalars with unknown values: pass `--inputs` to check its copies and accesses"
            );
        }
    }
    if !common.json {
        for printed in &report.printed {
            let place = program.place(printed.line).map(place_text);
            let place = place.map_or_else(String::new, |place| format!("{place}: "));
            match args.devices {
                1 => say!("{place}{}", printed.text),
                _ => say!("core {}: {place}{}", printed.core, printed.text),
            }
        }
        for (number, finding) in report.findings.iter().enumerate() {
            if number == MOST_SHOWN {
                say!("... and {} more findings", report.findings.len() - number);
                break;
            }
            show(program, finding);
        }
    }
    let places: Vec<String> = program.places.iter().map(place_text).collect();
    let subject = Subject {
        program,
        report: &report,
        chip: &kernel.chip,
        lines: Lines::Instructions(&places),
    };
    outcome(args, common, &subject, &[])
}

fn reads_scalars(program: &TpuProgram) -> bool {
    let reads = &mut |statement: &tegula_sim_tpu::program::Statement| {
        matches!(statement.kind, StatementKind::Load { .. })
    };
    let windows = |statement: &tegula_sim_tpu::program::Statement| match &statement.kind {
        StatementKind::Grid(grid) => grid
            .windows
            .iter()
            .any(|window| !window.transform.is_empty()),
        _ => false,
    };
    find_statement(&program.body, reads).is_some() || program.body.iter().any(windows)
}

/// Tells whether a finding is independent of the kernel's control flow.
fn holds_without_values(code: Code) -> bool {
    code.is_capacity() || matches!(code, Code::Block | Code::Alignment | Code::ElementType)
}

fn place_text(place: &tegula_sim_tpu::program::Place) -> String {
    format!("{}:{}", place.file, place.line)
}

/// Reads the arrays `in0`, `in1`, ... of a file, as many as there are.
fn numbered(path: &Path) -> anyhow::Result<Vec<Literal>> {
    let archive = open_npz(path)?;
    let mut arrays = Vec::new();
    while let Some(array) = read_array(&archive, &format!("in{}", arrays.len()), path)? {
        arrays.push(array.literal);
    }
    if arrays.is_empty() {
        return Err(anyhow!("{} has no array `in0`", path.display()));
    }
    Ok(arrays)
}

/// Makes up inputs, unless scalars control what the kernel does.
fn made_up(kernel: &Kernel) -> anyhow::Result<Option<Vec<Literal>>> {
    let shapes = kernel.input_shapes();
    let loads = find_statement(&kernel.program.body, &mut |statement| {
        matches!(statement.kind, StatementKind::Load { .. })
    });
    let bytes = shapes
        .iter()
        .map(|(_, shape)| shape.byte_size().unwrap_or(i64::MAX));
    if loads.is_some() || bytes.fold(0, i64::saturating_add) > MOST_MADE_UP {
        return Ok(None);
    }
    let count = shapes.last().map_or(0, |(number, _)| number + 1);
    let mut inputs = vec![Literal::default(); count];
    for (number, shape) in shapes {
        inputs[number] = random_array(&shape, number as u64)?;
    }
    Ok(Some(inputs))
}

fn show(program: &TpuProgram, finding: &Finding) {
    let code = match finding.code.also() {
        Some(also) => format!("{} ({also})", finding.code.name()),
        None => finding.code.name().to_owned(),
    };
    let severity = match finding.code.severity() {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let times = match finding.count {
        1 => String::new(),
        count => format!(" ({count} times)"),
    };
    say!("{severity}: {code}: {}{times}", finding.message);
    if let Some(place) = program.place(finding.line) {
        say!("  --> {}", place_text(place));
        let source = std::fs::read_to_string(&*place.file).ok();
        let line = source
            .as_ref()
            .and_then(|text| text.lines().nth(place.line.saturating_sub(1) as usize));
        if let Some(line) = line {
            say!("   | {}", line.trim_end());
        }
    }
    say!("  in: {}", finding.instruction);
    say!("help: {}", finding.help);
}
