//! Programs that check themselves: functions with operations of the dialect `check`, as the tests
//! of StableHLO's interpreter have them. Each becomes a program whose results are the values that
//! the checks compare; this module compares them. A function that runs others on several devices
//! (`interpreter.run_parallel`) becomes several programs: one for the operations before that one,
//! one for each device, and one for the checks.

use anyhow::{Context, Result, anyhow, bail};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tegula::{Arg, Options, Target, Tensor, compile};
use tegula_devices::{HostQueues, Topology};
use tegula_interp::{Value, evaluate_devices, evaluate_with_host};
use tegula_ir::Module;
use tegula_ir::{ElementType, Literal, Scalar, Shape};
use tegula_stablehlo::mlir::{self, Attribute, FunctionType, Operation, Type, ValueId};

/// What a check requires of two values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Requirement {
    /// Equal elements.
    Equal,
    /// Elements that differ by at most this number.
    Near(f64),
    /// Elements whose distance in units in the last place (ULPs) is between these bounds.
    Ulps(u64, u64),
}

/// A function with checks, as a program.
#[derive(Debug)]
pub struct Checked {
    /// The function's name.
    pub name: String,
    /// The program, whose results are the actual and the expected value of each check; or the
    /// reason why it could not be made.
    pub module: Result<Module>,
    /// The run on several devices whose results are the program's arguments.
    devices: Option<DeviceRun>,
    requirements: Vec<Requirement>,
}

/// Functions that run on several devices.
#[derive(Debug)]
struct DeviceRun {
    /// Computes the arguments of all devices, one device after the other, without tokens.
    arguments: Module,
    /// The program of each device.
    programs: Vec<Module>,
    topology: Topology,
    /// Whether all devices run one program, and nothing is exchanged with the host.
    is_collective: bool,
    /// The programs that compute the entries of the infeed queue.
    infeed: Vec<Module>,
}

/// The functions with checks of a text, whose parts stand between lines `// -----`. A part that
/// cannot be read is a function without a program.
pub fn checked_functions(text: &str) -> Vec<Checked> {
    let mut all = Vec::new();
    for part in text.split("// -----") {
        let is_blank = |line: &str| line.trim().is_empty() || line.trim().starts_with("//");
        if part.lines().all(is_blank) {
            continue;
        }
        let module = match tegula_stablehlo::read(part.as_bytes().to_vec()) {
            Ok(module) => module,
            Err(error) => {
                all.push(Checked {
                    name: "unread".to_owned(),
                    module: Err(anyhow!("{}", error.message)),
                    devices: None,
                    requirements: Vec::new(),
                });
                continue;
            }
        };
        for (place, function) in module.body().iter().enumerate() {
            let block = function.regions.first().and_then(mlir::Region::block);
            let has_checks =
                block.is_some_and(|b| b.operations.iter().any(|o| check_name(o).is_some()));
            if &*function.name == "func.func" && has_checks {
                all.push(checked(module.clone(), place));
            }
        }
    }
    all
}

/// The name of the check that an operation is: an operation of the dialect, or a custom call with
/// such a name.
fn check_name(operation: &Operation) -> Option<&str> {
    if &*operation.name == "stablehlo.custom_call" {
        let target = operation.attribute("call_target_name")?.as_str()?;
        return target.strip_prefix("check.");
    }
    operation.name.strip_prefix("check.")
}

fn checked(module: mlir::Module, place: usize) -> Checked {
    let own = function_name(&module.body()[place]).to_owned();
    let mut requirements = Vec::new();
    let made = device_run(&module, place).and_then(|devices| {
        let program = as_program(module, place, devices.is_some(), &mut requirements)?;
        Ok((program, devices))
    });
    let (module, devices) = match made {
        Ok((module, devices)) => (Ok(module), devices),
        Err(error) => (Err(error), None),
    };
    Checked {
        name: own,
        module,
        devices,
        requirements,
    }
}

fn function_name(function: &Operation) -> &str {
    let name = function.attribute("sym_name").and_then(Attribute::as_str);
    name.unwrap_or("main")
}

fn lowered(module: &mlir::Module) -> Result<Module> {
    let program = tegula_stablehlo::to_module(module)?;
    match tegula_ir::verify(&program) {
        Ok(()) => Ok(program),
        Err(errors) => Err(anyhow!("{}", errors[0])),
    }
}

const RUN_PARALLEL: &str = "interpreter.run_parallel";

fn body(function: &mut Operation) -> Result<&mut mlir::Block> {
    let block = function.regions.first_mut();
    let block = block.and_then(|region| region.blocks.first_mut());
    block.context("a function without a body")
}

/// The functions that a function runs on several devices.
fn device_run(module: &mlir::Module, place: usize) -> Result<Option<DeviceRun>> {
    let mut function = module.body()[place].clone();
    let block = body(&mut function)?;
    let Some(at) = (block.operations.iter()).position(|o| &*o.name == RUN_PARALLEL) else {
        return Ok(None);
    };
    let run = block.operations[at].clone();
    let rows = run.attribute("programs").and_then(Attribute::as_array);
    let rows = rows.context("no programs")?.iter().map(Attribute::as_array);
    let rows: Vec<&[Attribute]> = rows.collect::<Option<_>>().context("rows of programs")?;
    let names: Vec<&str> = (rows.iter().copied().flatten())
        .filter_map(Attribute::as_symbol)
        .collect();
    let infeed = run.attribute("infeed").and_then(Attribute::as_array);
    let infeed = infeed.unwrap_or_default().iter();
    let is_collective = run.operands.iter().all(|value| is_array(module, *value))
        && names.iter().all(|name| *name == names[0]);

    let mut end = block.operations.pop().context("an empty function")?;
    block.operations.truncate(at);
    let arrays = run.operands.iter().copied();
    end.operands = arrays.filter(|value| is_array(module, *value)).collect();
    block.operations.push(end);
    Ok(Some(DeviceRun {
        arguments: lowered(&with_main(module.clone(), place, function)?)?,
        topology: Topology {
            replicas: rows.len(),
            partitions: names.len() / rows.len().max(1),
        },
        programs: names
            .into_iter()
            .map(|name| named(module, name))
            .collect::<Result<_>>()?,
        is_collective,
        infeed: (infeed.filter_map(Attribute::as_symbol))
            .map(|name| named(module, name))
            .collect::<Result<_>>()?,
    }))
}

fn is_array(module: &mlir::Module, value: ValueId) -> bool {
    matches!(module.type_of(value), Type::Tensor(_))
}

/// Makes a program of the function with this name.
fn named(module: &mlir::Module, name: &str) -> Result<Module> {
    let place = (module.body().iter()).position(|f| function_name(f) == name);
    let place = place.with_context(|| format!("no function @{name}"))?;
    let function = module.body()[place].clone();
    lowered(&with_main(module.clone(), place, function)?)
}

/// Makes a program of the function at this index; its results are the values that its checks
/// compare. If `has_devices`, its arguments are the results of the run on several devices.
fn as_program(
    mut module: mlir::Module,
    place: usize,
    has_devices: bool,
    requirements: &mut Vec<Requirement>,
) -> Result<Module> {
    let mut function = module.body()[place].clone();
    let block = body(&mut function)?;
    let mut results: Vec<ValueId> = Vec::new();
    let mut kept = Vec::new();
    for mut operation in std::mem::take(&mut block.operations) {
        if has_devices && &*operation.name == RUN_PARALLEL {
            let arrays = operation.results.iter().copied();
            block
                .arguments
                .extend(arrays.filter(|value| is_array(&module, *value)));
            continue;
        }
        let Some(check) = check_name(&operation).map(str::to_owned) else {
            kept.push(operation);
            continue;
        };
        requirements.push(requirement(&check, &operation)?);
        results.extend(&operation.operands);
        if operation.operands.len() == 1 {
            // The expected value is an attribute: make a constant of it.
            let ty = module.type_of(operation.operands[0]).clone();
            let expected = module.new_value(ty);
            operation.name = "stablehlo.constant".into();
            operation.operands.clear();
            operation.results = [expected].into_iter().collect();
            results.push(expected);
            kept.push(operation);
        }
    }
    let end = kept.last_mut().context("an empty function")?;
    end.operands = results.into_iter().collect();
    block.operations = kept;
    lowered(&with_main(module, place, function)?)
}

/// The module with the function at this index replaced by `main`, with its body's type.
fn with_main(
    mut module: mlir::Module,
    place: usize,
    mut function: Operation,
) -> Result<mlir::Module> {
    let block = body(&mut function)?;
    let types = |values: &[ValueId]| values.iter().map(|v| module.type_of(*v).clone()).collect();
    let end = block.operations.last().context("an empty function")?;
    let signature = FunctionType {
        inputs: types(&block.arguments),
        results: types(&end.operands),
    };
    set(
        &mut function,
        "function_type",
        Attribute::Type(Type::Function(signature.into())),
    );
    set(&mut function, "sym_name", Attribute::string("main"));
    for list in [&mut function.properties, &mut function.attributes] {
        list.retain(|(name, _)| &**name != "res_attrs");
    }
    let functions = module.body_mut().context("an empty module")?;
    functions[place] = function;
    for (other, function) in functions.iter_mut().enumerate() {
        if other != place && function_name(function) == "main" {
            set(function, "sym_name", Attribute::string("other_main"));
        }
    }
    Ok(module)
}

fn set(operation: &mut Operation, name: &str, value: Attribute) {
    let mut all = operation
        .properties
        .iter_mut()
        .chain(&mut operation.attributes);
    match all.find(|(key, _)| &**key == name) {
        Some((_, old)) => *old = value,
        None => operation.properties.push((name.into(), value)),
    }
}

fn requirement(check: &str, operation: &Operation) -> Result<Requirement> {
    let integer = |name: &str, default: u64| {
        let value = operation.attribute(name).and_then(Attribute::as_integer);
        value.map_or(default, |value| value as u64)
    };
    Ok(match check {
        "expect_eq" | "expect_eq_const" | "eq" => Requirement::Equal,
        "expect_almost_eq" | "expect_almost_eq_const" => match operation.attribute("tolerance") {
            Some(Attribute::Float { bits, .. }) => Requirement::Near(f64::from_bits(*bits)),
            _ => Requirement::Near(1e-4),
        },
        "expect_close" => Requirement::Ulps(
            integer("min_ulp_difference", 0),
            integer("max_ulp_difference", 3),
        ),
        other => bail!("`check.{other}` compares with a file"),
    })
}

impl Checked {
    /// Runs the program on a target and makes its checks. In addition to a check's own tolerance,
    /// numbers may differ by `units * epsilon * largest`, where `epsilon` is the precision of their
    /// type and `largest` the largest expected magnitude.
    ///
    /// # Errors
    /// A check fails, or the program cannot be run.
    pub fn run(&self, target: Target, units: f64) -> Result<()> {
        let module = self.module.as_ref().map_err(|error| anyhow!("{error}"))?;
        let options = Options {
            target,
            ..Options::default()
        };
        let run = |module: &Module, arguments: Vec<Literal>| -> Result<Vec<Literal>> {
            let arguments = arguments
                .into_iter()
                .map(|array| Arg::Donated(array.into()));
            let outputs = compile(module, &options)?.run(arguments)?;
            Ok(outputs.into_iter().map(Tensor::into_literal).collect())
        };
        let arguments = match &self.devices {
            Some(devices) => {
                let mut infeed = devices.infeed.iter();
                let infeed = infeed.try_fold(Vec::new(), |mut entries, module| {
                    entries.push(run(module, Vec::new())?);
                    anyhow::Ok(entries)
                })?;
                devices.run(run(&devices.arguments, Vec::new())?, infeed)?
            }
            None => Vec::new(),
        };
        let outputs = run(module, arguments)?;
        for (check, pair) in self.requirements.iter().zip(outputs.chunks(2)) {
            let [found, expected] = pair else {
                bail!("a check of one value");
            };
            let allowed = units * precision(found.element_type()) * largest(expected);
            for element in 0..expected.len() {
                if let Some(wrong) = apart(*check, found, expected, element, allowed) {
                    bail!("element {element}: {wrong}");
                }
            }
        }
        Ok(())
    }
}

impl DeviceRun {
    /// Runs the devices' programs, and returns the results of all devices, one device after the
    /// other.
    fn run(&self, arguments: Vec<Literal>, infeed: Vec<Vec<Literal>>) -> Result<Vec<Literal>> {
        let mut arrays = arguments.into_iter();
        let arguments: Vec<Vec<Value>> = (self.programs.iter())
            .map(|program| taken_by(program, &mut arrays))
            .collect::<Result<_>>()?;
        let timeout = Duration::from_secs(20);
        let options = tegula_interp::Options::default();
        let results = match self.is_collective {
            true => {
                let program = self.programs.first().context("no device")?;
                evaluate_devices(program, self.topology, &arguments, &options, timeout)?
            }
            false => {
                let queues = Arc::new(HostQueues::default());
                infeed.into_iter().for_each(|entry| queues.feed(entry));
                thread::scope(|scope| {
                    let runs = self
                        .programs
                        .iter()
                        .zip(&arguments)
                        .map(|(program, arguments)| {
                            let (queues, options) = (&queues, &options);
                            let run = move || {
                                evaluate_with_host(program, arguments, options, queues, timeout)
                            };
                            scope.spawn(run)
                        });
                    let runs: Vec<_> = runs.collect();
                    let results = runs.into_iter().map(thread::ScopedJoinHandle::join);
                    results
                        .map(|result| Ok(result.map_err(|_| anyhow!("a panic"))??))
                        .collect::<Result<Vec<Value>>>()
                })?
            }
        };
        let leaves = results.iter().flat_map(Value::leaves);
        Ok(leaves.cloned().collect())
    }
}

/// The next arguments for a program: arrays from `arrays`, and a token for each parameter that is a
/// token.
fn taken_by(program: &Module, arrays: &mut impl Iterator<Item = Literal>) -> Result<Vec<Value>> {
    let parameters = program.entry_computation().parameters.iter();
    let values = parameters.map(|&parameter| match program[parameter].shape {
        Shape::Token => Ok(Value::Token),
        _ => Ok(Value::Array(
            arrays.next().context("an argument is missing")?,
        )),
    });
    values.collect()
}

/// The distance from 1 to the next number of a type, 0 where numbers are exact.
fn precision(ty: ElementType) -> f64 {
    let format = ty.complex_part().unwrap_or(ty).float_format();
    format.map_or(0.0, |format| (-f64::from(format.mantissa_bits)).exp2())
}

/// The real and the imaginary part of a number.
fn parts(scalar: Scalar) -> [f64; 2] {
    match scalar {
        Scalar::Complex(re, im) => [re, im],
        other => [other.to_f64(), 0.0],
    }
}

/// The largest finite magnitude.
fn largest(values: &Literal) -> f64 {
    let values = (0..values.len()).filter_map(|element| values.scalar(element));
    let magnitudes = values.flat_map(parts).map(f64::abs);
    magnitudes.filter(|x| x.is_finite()).fold(0.0, f64::max)
}

fn apart(
    check: Requirement,
    found: &Literal,
    expected: &Literal,
    element: usize,
    allowed: f64,
) -> Option<String> {
    let (a, b) = (found.scalar(element)?, expected.scalar(element)?);
    let pairs = || parts(a).into_iter().zip(parts(b));
    let within = |distance: f64| {
        pairs().all(|(a, b)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= distance)
    };
    let fits = match check {
        Requirement::Equal => within(0.0),
        Requirement::Near(tolerance) => within(tolerance.max(allowed)),
        Requirement::Ulps(least, most) => {
            let ty = found.element_type();
            let distance = pairs().map(|(a, b)| ulps(ty.complex_part().unwrap_or(ty), a, b));
            let distance = distance.max().unwrap_or(0);
            // A check with a lower bound requires values that differ, so the additional tolerance
            // applies only without one.
            (least..=most).contains(&distance) || (least == 0 && within(allowed))
        }
    };
    (!fits).then(|| format!("{a:?} instead of {b:?} ({check:?})"))
}

/// The number of steps from one number of a type to another, as the interpreter of StableHLO
/// counts them: special numbers are far from all others.
fn ulps(ty: ElementType, a: f64, b: f64) -> u64 {
    if a.is_nan() && b.is_nan() {
        return 0;
    }
    let Some(format) = ty.float_format() else {
        return u64::MAX;
    };
    let (x, y) = (format.encode(a), format.encode(b));
    if x == y {
        return 0;
    }
    if !a.is_finite() || !b.is_finite() {
        return u64::MAX;
    }
    let (x, y) = (format.encode(a.abs()), format.encode(b.abs()));
    match a.is_sign_negative() == b.is_sign_negative() {
        true => x.abs_diff(y),
        false => x + y,
    }
}
