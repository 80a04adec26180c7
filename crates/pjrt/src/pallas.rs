//! Pallas kernels on the simulated TPU, for the Python package: a C function that takes a program
//! with a `tpu_custom_call` and its arrays, and returns the results and a report as JSON.

use crate::element::extend;
use crate::ffi::data_type;
use crate::ffi_api::XLA_FFI_Buffer;
use crate::pointers::slice;
use serde_json::{Value, json};
use std::ffi::{CString, c_char};
use tegula::pallas::{Kernel, Options, Report, Source, read};
use tegula::{ArrayShape, Chip, ElementType, Literal};

/// The stage that failed (`request`, `read`, `print` or `run`), and the message.
struct Failure(&'static str, String);

/// The parameters of a simulation.
struct Request {
    chip: Chip,
    options: Options,
    /// Whether the kernel is only read, verified, and printed as text.
    only_print: bool,
    /// The number of devices that run the kernel. Operands and results are those of the first
    /// device, then those of the second, and so on.
    devices: usize,
}

impl Request {
    fn of(text: &[u8]) -> Result<Self, String> {
        let request: Value =
            serde_json::from_slice(text).map_err(|error| format!("the request: {error}"))?;
        let name = request["chip"].as_str().unwrap_or("v5e");
        let chip = match Chip::by_name(name) {
            Ok(chip) => chip,
            Err(unknown) => {
                let text = std::fs::read_to_string(name);
                let text =
                    text.map_err(|_| format!("{unknown}, and no file of this name exists"))?;
                Chip::parse(&text).map_err(|error| format!("{name}: {}", error.message))?
            }
        };
        let defaults = Options::default();
        Ok(Self {
            chip,
            options: Options {
                functional: request["values"].as_bool().unwrap_or(true),
                rounds_products: request["precision"].as_str() == Some("tpu"),
                finds_races: request["races"].as_bool().unwrap_or(true),
                step_limit: request["steps"].as_u64().unwrap_or(defaults.step_limit),
                record_timeline: false,
                ..defaults
            },
            only_print: request["only"].as_str() == Some("print"),
            devices: request["devices"].as_u64().unwrap_or(1).clamp(1, 1 << 12) as usize,
        })
    }
}

/// Simulates the single kernel of a StableHLO program. `request` is a JSON object with `chip` (a
/// name, or a file that describes one), `precision` (`f32` or `tpu`), `races`, `values`, `steps`,
/// `devices`, and `only` (`print`: the kernel is only read, verified, and printed as text that
/// reads back). Results are written to the memory in `results`, whose element types have the
/// kernel's widths.
///
/// Returns a zero-terminated JSON object: the `report` of all devices, or an `error` with the
/// `stage` that failed. [`tegula_pallas_free`] frees it.
///
/// # Safety
/// `program` and `request` have the stated numbers of bytes, `operands` and `results` the stated
/// numbers of dense row-major arrays; nobody writes to the operands during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_pallas_simulate(
    program: *const u8,
    program_size: usize,
    request: *const u8,
    request_size: usize,
    operands: *const XLA_FFI_Buffer,
    operand_count: usize,
    results: *const XLA_FFI_Buffer,
    result_count: usize,
) -> *mut c_char {
    let work = std::panic::AssertUnwindSafe(|| {
        // SAFETY: the caller promises the stated numbers of bytes and of arrays.
        let (program, request, operands, results) = unsafe {
            (
                slice(program, program_size),
                slice(request, request_size),
                slice(operands, operand_count),
                slice(results, result_count),
            )
        };
        simulate(program, request, operands, results)
    });
    let answer = match std::panic::catch_unwind(work) {
        Ok(Ok(report)) => json!({ "report": report }),
        Ok(Err(Failure(stage, message))) => json!({ "error": message, "stage": stage }),
        Err(panic) => json!({ "error": crate::Error::of_panic(&*panic).message }),
    };
    let text = CString::new(answer.to_string()).unwrap_or_default();
    text.into_raw()
}

/// Frees the result of [`tegula_pallas_simulate`].
///
/// # Safety
/// The pointer is from that function, and freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_pallas_free(answer: *mut c_char) {
    if !answer.is_null() {
        // SAFETY: the caller promises a pointer from `tegula_pallas_simulate`, which made it with
        // `into_raw`.
        drop(unsafe { CString::from_raw(answer) });
    }
}

fn simulate(
    program: &[u8],
    request: &[u8],
    operands: &[XLA_FFI_Buffer],
    results: &[XLA_FFI_Buffer],
) -> Result<Value, Failure> {
    let Request {
        chip,
        options,
        only_print,
        devices,
    } = Request::of(request).map_err(|message| Failure("request", message))?;
    let sources = read(program.to_vec()).map_err(|error| Failure("read", error.to_string()))?;
    let sources = sources.unwrap_or_default();
    let [source] = sources.as_slice() else {
        let message = format!("expected one kernel, found {}", sources.len());
        return Err(Failure("read", message));
    };
    if only_print {
        let again = read(source.print().into_bytes());
        let again = again.map_err(|error| Failure("print", error.to_string()))?;
        let same =
            again.is_some_and(|again| again.len() == 1 && again[0].print() == source.print());
        return match same {
            true => Ok(Value::Null),
            false => Err(Failure(
                "print",
                "parsing its text gives a different kernel".to_owned(),
            )),
        };
    }
    let run = |message: String| Failure("run", message);
    simulate_kernel(source, &chip, &options, devices, (operands, results)).map_err(run)
}

fn simulate_kernel(
    source: &Source,
    chip: &Chip,
    options: &Options,
    devices: usize,
    (operands, results): (&[XLA_FFI_Buffer], &[XLA_FFI_Buffer]),
) -> Result<Value, String> {
    let literals = operands.iter().map(literal);
    let literals = literals.collect::<Result<Vec<_>, String>>()?;
    let per_device = literals.len() / devices;
    if per_device * devices != literals.len() || results.len() % devices != 0 {
        return Err(format!(
            "{} operands and {} results cannot be divided evenly among {devices} devices",
            literals.len(),
            results.len()
        ));
    }
    let given: Vec<&[Literal]> = match per_device {
        0 => vec![&[]; devices],
        count => literals.chunks(count).collect(),
    };
    let first = given.first().copied().unwrap_or_default();
    let kernel = Kernel::new(source, chip, first, None).map_err(|error| error.to_string())?;
    let inputs = given.iter().map(|given| kernel.inputs(given));
    let inputs = inputs.collect::<Result<Vec<_>, _>>();
    let inputs = inputs.map_err(|error| error.to_string())?;
    let reports = kernel.simulate(options, &inputs);
    let reports = reports.map_err(|error| error.to_string())?;
    if options.functional {
        write_results(&reports, results)?;
    }
    let report = Report::merged(reports).map_err(|error| error.to_string())?;
    let report = report.ok_or("the simulation reports no device")?;
    let mut value = report.to_json(&kernel.program);
    value["kernel"] = json!(kernel.program.name);
    value["has_values"] = json!(report.functional);
    Ok(value)
}

fn element_type(buffer: &XLA_FFI_Buffer) -> Result<ElementType, String> {
    let mut types = ElementType::ALL.iter();
    let known = types.find(|ty| data_type(**ty) == buffer.dtype);
    known
        .copied()
        .ok_or_else(|| format!("element type {} is not supported for arrays", buffer.dtype))
}

/// A copy of the caller's array.
fn literal(buffer: &XLA_FFI_Buffer) -> Result<Literal, String> {
    let ty = element_type(buffer)?;
    // SAFETY: an array has as many sizes as its rank.
    let dims = unsafe { slice(buffer.dims, usize::try_from(buffer.rank).unwrap_or(0)) };
    let shape = ArrayShape::new(ty, dims);
    let mut literal = Literal::zeros(&shape).map_err(|error| error.to_string())?;
    // SAFETY: an array has as many elements as its sizes state.
    let bytes = unsafe { slice(buffer.data.cast::<u8>(), literal.bytes().len()) };
    literal.bytes_mut().copy_from_slice(bytes);
    extend(ty, literal.bytes_mut());
    Ok(literal)
}

/// Writes the results of all devices. A kernel that does not fit the chip has no results, and the
/// caller gets zeros; the report says so.
fn write_results(reports: &[Report], results: &[XLA_FFI_Buffer]) -> Result<(), String> {
    let per_device = results.len() / reports.len().max(1);
    for (device, report) in reports.iter().enumerate() {
        for (number, result) in report.results.iter().enumerate() {
            let place = device * per_device + number;
            let buffer = results
                .get(place)
                .filter(|_| number < per_device)
                .ok_or_else(|| {
                    format!(
                        "the kernel has {} results, but the caller provides fewer buffers",
                        report.results.len()
                    )
                })?;
            // SAFETY: an array has as many sizes as its rank.
            let dims = unsafe { slice(buffer.dims, usize::try_from(buffer.rank).unwrap_or(0)) };
            let wanted = dims.iter().product::<i64>();
            let same_width =
                element_type(buffer)?.storage_bytes() == result.element_type().storage_bytes();
            if !same_width || result.shape().element_count() != Some(wanted) {
                return Err(format!(
                    "result {number} is {}, expected {dims:?}",
                    result.shape()
                ));
            }
            let bytes = result.bytes();
            // SAFETY: the caller's memory has room for the elements, which have the same width.
            unsafe {
                buffer
                    .data
                    .cast::<u8>()
                    .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
    }
    Ok(())
}
