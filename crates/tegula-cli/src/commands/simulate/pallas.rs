//! Kernels of Pallas on the command line: `tegula simulate` and `tegula compile --emit tpu` on a
//! program of StableHLO with `tpu_custom_call` in it, or on a kernel's own module.

use super::{Precision, SimulateArgs, outcome};
use crate::documents::SimulationFinding;
use crate::exit_code::SUCCESS;
use crate::inputs::{open_npz, read_array};
use crate::options::Common;
use crate::report::Failure;
use anyhow::{Context, anyhow};
use std::path::Path;
use tegula::npz::NpyArray;
use tegula::random_input::random_array;
use tegula_ir::{ArrayShape, Literal};
use tegula_mosaic::{Call, Source};
use tegula_sim_tpu::page::{Lines, Subject};
use tegula_sim_tpu::pallas::{Arrays, to_program};
use tegula_sim_tpu::program::{StatementKind, find_statement};
use tegula_sim_tpu::{
    Code, Error, Finding, Options, PrintForm, Severity, TpuProgram, print_kernel, simulate as run,
};
use tegula_stablehlo::{InputForm, mlir};
use tegula_target::Chip;

/// Findings that are shown; the rest is counted.
const MOST_SHOWN: usize = 50;
/// Bytes of inputs that are made up; larger kernels run without values if none are given.
const MOST_MADE_UP: i64 = 1 << 30;

/// The kernels of a file, if it has any.
pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Option<Vec<Source>>, Failure> {
    if InputForm::of(bytes).is_none() {
        return Ok(None);
    }
    // What is no kernel is read again as a program, which says what is wrong with it.
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

/// The one kernel of a file.
fn only<'k>(path: &Path, kernels: &'k [Source]) -> Result<&'k Source, Failure> {
    match kernels {
        [kernel] => Ok(kernel),
        _ => Err(anyhow!(
            "{} has {} kernels of Pallas: give each of them a file of its own",
            path.display(),
            kernels.len()
        )
        .into()),
    }
}

/// The text of a kernel's program.
pub(crate) fn text(path: &Path, kernels: &[Source], chip: &Chip) -> Result<String, Failure> {
    let kernel = only(path, kernels)?;
    let arrays = arrays(kernel, &[]);
    let program = to_program(&kernel.module, chip, &arrays);
    let program = program.map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok(print_kernel(&program, PrintForm::Short))
}

/// Simulates a kernel and says what was found.
pub(super) fn simulate(
    args: &SimulateArgs,
    common: &Common,
    chip: &Chip,
    kernels: &[Source],
) -> Result<u8, Failure> {
    let kernel = only(&args.kernel, kernels)?;
    let given = match &args.inputs {
        Some(path) => numbered(path)?,
        None => Vec::new(),
    };
    let mut chip = chip.clone();
    if let Some(limit) = kernel.call.as_ref().and_then(|call| call.vmem_limit) {
        set_limit(&mut chip, limit)?;
    }
    let arrays = arrays(kernel, &given);
    let named = |message: String| anyhow!("{}: {message}", args.kernel.display());
    let mut program = tracing::info_span!("translate")
        .in_scope(|| to_program(&kernel.module, &chip, &arrays))
        .map_err(|error| named(error.to_string()))?;
    name_places(&mut program, &args.kernel);
    if args.expanded {
        say!("{}", print_kernel(&program, PrintForm::Expanded).trim_end());
        return Ok(SUCCESS);
    }
    let inputs = inputs(args, &program, &given)?;
    let options = Options {
        functional: inputs.is_some(),
        inputs: inputs.unwrap_or_default(),
        rounds_products: args.precision == Precision::Tpu,
        step_limit: args.steps.unwrap_or(Options::default().step_limit),
        record_timeline: args.report.is_some() || common.trace.is_some(),
        ..Options::default()
    };
    let report = tracing::info_span!("simulate").in_scope(|| run(&program, &chip, &options));
    let mut report = report.map_err(|error| named(failure(&program, &error)))?;
    if !report.functional && reads_scalars(&program) {
        // Where the kernel goes is not known: what was found on the way may not be so.
        report
            .findings
            .retain(|finding| holds_without_values(finding.code));
        if !common.json {
            say!(
                "note: scalars decide what this kernel does, and they are not known: give `--inputs` to check its copies and accesses"
            );
        }
    }
    if !common.json {
        for (number, finding) in report.findings.iter().enumerate() {
            if number == MOST_SHOWN {
                say!("... and {} more findings", report.findings.len() - number);
                break;
            }
            show(&program, finding);
        }
    }
    let places: Vec<String> = program.places.iter().map(place_text).collect();
    let subject = Subject {
        program: &program,
        report: &report,
        chip: &chip,
        lines: Lines::Instructions(&places),
    };
    outcome(args, common, &subject, &[])
}

/// Lines of a kernel's own text are lines of its file.
fn name_places(program: &mut TpuProgram, path: &Path) {
    let file: std::sync::Arc<str> = path.display().to_string().into();
    for place in program
        .places
        .iter_mut()
        .filter(|place| place.file.is_empty())
    {
        place.file = file.clone();
    }
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

/// Whether a finding does not depend on where the kernel goes.
fn holds_without_values(code: Code) -> bool {
    code.is_capacity() || matches!(code, Code::Block | Code::Alignment | Code::ElementType)
}

fn place_text(place: &tegula_sim_tpu::program::Place) -> String {
    format!("{}:{}", place.file, place.line)
}

/// The limit of scoped VMEM that a call states.
fn set_limit(chip: &mut Chip, limit: i64) -> Result<(), Failure> {
    let stated = format!("name = given\nscoped_vmem_bytes = {limit} B # the call\n");
    let given = Chip::parse(&stated).map_err(|error| anyhow!("{}", error.message))?;
    chip.quantities.extend(given.quantities);
    Ok(())
}

/// The arrays `in0`, `in1`, ... of a file, as many as there are.
fn numbered(path: &Path) -> anyhow::Result<Vec<NpyArray>> {
    let archive = open_npz(path)?;
    let mut arrays = Vec::new();
    while let Some(array) = read_array(&archive, &format!("in{}", arrays.len()), path)? {
        arrays.push(array);
    }
    if arrays.is_empty() {
        return Err(anyhow!("{} has no array `in0`", path.display()));
    }
    Ok(arrays)
}

/// What is known of a kernel's arrays: from the call around it, or from its inputs.
fn arrays(kernel: &Source, given: &[NpyArray]) -> Arrays {
    let dims = |types: &[mlir::Type]| -> Vec<Vec<i64>> {
        let of = |ty: &mlir::Type| {
            let (dims, _) = ty.shaped()?;
            dims.into_iter().collect::<Option<Vec<i64>>>()
        };
        types.iter().map(|ty| of(ty).unwrap_or_default()).collect()
    };
    let values = given.iter().map(|array| array.literal.clone()).collect();
    match &kernel.call {
        Some(Call {
            operand_types,
            result_types,
            operands,
            aliases,
            ..
        }) => Arrays {
            inputs: Some(*operands),
            input_dims: dims(operand_types),
            result_dims: dims(result_types),
            aliases: aliases.clone(),
            values,
        },
        None => {
            let of = |array: &NpyArray| {
                array
                    .literal
                    .shape()
                    .static_dims()
                    .unwrap_or_default()
                    .to_vec()
            };
            Arrays {
                inputs: (!given.is_empty()).then_some(given.len()),
                input_dims: given.iter().map(of).collect(),
                values,
                ..Arrays::default()
            }
        }
    }
}

/// The parameters' values, if there are any: as given, or made up where no scalar decides what the
/// kernel does.
fn inputs(
    args: &SimulateArgs,
    program: &TpuProgram,
    given: &[NpyArray],
) -> anyhow::Result<Option<Vec<Literal>>> {
    if args.no_values {
        return Ok(None);
    }
    let mut shapes: Vec<(usize, &ArrayShape)> = program
        .buffers
        .values()
        .filter_map(|buffer| Some((buffer.role.parameter()?, &buffer.shape)))
        .collect();
    shapes.sort_unstable_by_key(|(number, _)| *number);
    let made_up = given.is_empty();
    if made_up {
        let loads = find_statement(&program.body, &mut |statement| {
            matches!(statement.kind, StatementKind::Load { .. })
        });
        let bytes = shapes
            .iter()
            .map(|(_, shape)| shape.byte_size().unwrap_or(i64::MAX));
        if loads.is_some() || bytes.fold(0, i64::saturating_add) > MOST_MADE_UP {
            return Ok(None);
        }
    }
    let count = shapes.last().map_or(0, |(number, _)| number + 1);
    let mut inputs = vec![Literal::default(); count];
    for (number, shape) in shapes {
        let shape = ArrayShape {
            layout: None,
            ..shape.clone()
        };
        inputs[number] = match made_up {
            true => random_array(&shape, number as u64)?,
            false => {
                let array = given.get(number).ok_or_else(|| {
                    anyhow!("the kernel takes {count} inputs: there is no array `in{number}`")
                })?;
                input(array, &shape).with_context(|| format!("`in{number}`"))?
            }
        };
    }
    Ok(Some(inputs))
}

/// An array as an input of a shape. Unsigned integers are the kernel's integers, which have no sign
/// of their own.
fn input(array: &NpyArray, shape: &ArrayShape) -> anyhow::Result<Literal> {
    let from = array.literal.element_type();
    let ints = |ty: tegula_ir::ElementType| !ty.is_float();
    let own = array.literal.shape();
    let same_width = from.storage_bytes() == shape.element_type.storage_bytes();
    let literal = match ints(from) && ints(shape.element_type) && same_width {
        true => array.literal.clone(),
        false => array.to_literal(shape.element_type)?,
    };
    if own.element_count() != shape.element_count() {
        return Err(anyhow!("expected {shape}, found {own}"));
    }
    let mut made = Literal::zeros(shape)?;
    made.bytes_mut().copy_from_slice(literal.bytes());
    Ok(made)
}

fn failure(program: &TpuProgram, error: &Error) -> String {
    match error {
        Error::Program { line, message }
        | Error::Unsupported { line, message }
        | Error::Limit { line, message } => {
            let place = (*line as usize)
                .checked_sub(1)
                .and_then(|at| program.places.get(at));
            place.map_or_else(
                || message.clone(),
                |place| format!("{}: {message}", place_text(place)),
            )
        }
        Error::Inputs(message) => message.clone(),
    }
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
    let place = (finding.line as usize)
        .checked_sub(1)
        .and_then(|at| program.places.get(at));
    if let Some(place) = place {
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

/// Puts the source's file and line into a finding of a report: statements of such programs count
/// places.
pub(super) fn place_finding(program: &TpuProgram, finding: &mut SimulationFinding) {
    if program.places.is_empty() {
        return;
    }
    let place = (finding.line as usize).checked_sub(1);
    let place = place.and_then(|at| program.places.get(at));
    finding.line = place.map_or(0, |place| place.line);
    finding.file = place.map(|place| place.file.to_string());
}
