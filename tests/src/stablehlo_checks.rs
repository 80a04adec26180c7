//! Programs that check themselves: functions with operations of the dialect `check`, as the tests
//! of StableHLO's interpreter have them. Each becomes a program that gives the values that the
//! checks compare, which are then compared here. Where `interpreter.run_parallel` runs a function on
//! several devices, there are three programs: what is before it, the devices', and the checks.

use anyhow::{Context, Result, anyhow, bail};
use std::time::Duration;
use tegula::{Arg, Buffer, Module, Options, Target, compile};
use tegula_devices::Topology;
use tegula_interp::{Value, evaluate_devices};
use tegula_ir::{ElementType, Literal, Scalar};
use tegula_stablehlo::mlir::{self, Attribute, FunctionType, Operation, Type, ValueId};

/// What a check requires of two values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Requirement {
    /// Equal elements.
    Equal,
    /// Elements that differ by at most this.
    Near(f64),
    /// Elements with at least and at most so many numbers of their type between them.
    Ulps(u64, u64),
}

/// A function with checks, as a program.
#[derive(Debug)]
pub struct Checked {
    /// The function's name.
    pub name: String,
    /// The program: for each check what is found and what is expected; or why there is none.
    pub module: Result<Module>,
    /// What runs on several devices before that, and gives the program's arguments.
    devices: Option<DeviceRun>,
    requirements: Vec<Requirement>,
}

/// A function that runs on several devices.
#[derive(Debug)]
struct DeviceRun {
    /// Gives the arguments of all devices, one device after the other.
    arguments: Module,
    /// What each device runs.
    program: Module,
    topology: Topology,
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

/// What kind of check an operation is: one of the dialect, or a custom call of its name.
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

/// What a function runs on several devices.
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
    let names = rows.iter().flat_map(|row| row.iter());
    let names: Vec<&str> = names.filter_map(Attribute::as_symbol).collect();
    let topology = Topology {
        replicas: rows.len(),
        partitions: rows.first().map_or(0, |row| row.len()),
    };
    let is_array = |value: &ValueId| matches!(module.type_of(*value), Type::Tensor(_));
    if !run.operands.iter().all(is_array) {
        bail!("{RUN_PARALLEL}: transfers between programs");
    }
    if names.len() != topology.devices() || names.iter().any(|name| *name != names[0]) {
        bail!("{RUN_PARALLEL}: devices of different programs");
    }
    let on_device = (module.body().iter()).position(|f| function_name(f) == names[0]);
    let on_device = on_device.context("the devices' function")?;

    let mut end = block.operations.pop().context("an empty function")?;
    block.operations.truncate(at);
    end.operands = run.operands.clone();
    block.operations.push(end);
    let device = module.body()[on_device].clone();
    Ok(Some(DeviceRun {
        arguments: lowered(&with_main(module.clone(), place, function)?)?,
        program: lowered(&with_main(module.clone(), on_device, device)?)?,
        topology,
    }))
}

/// The function at a place as a program whose results are what its checks compare. What ran on
/// several devices (`has_devices`) are its arguments.
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
            block.arguments.extend(&operation.results);
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

/// The module with a function put at a place, as `main`, of the type that its body has.
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
    /// Runs the program on a target and makes its checks. Beside what a check says, numbers may be
    /// `units` times the precision of their type apart, of the largest expected one.
    ///
    /// # Errors
    /// A check that fails, or why the program does not run.
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
            let outputs = compile(module, &options)?.run(arguments.collect())?;
            Ok(outputs.into_iter().map(Buffer::into_literal).collect())
        };
        let arguments = match &self.devices {
            Some(devices) => devices.run(run(&devices.arguments, Vec::new())?)?,
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
    /// Runs the devices' program, and gives the results of all devices one after the other.
    fn run(&self, arguments: Vec<Literal>) -> Result<Vec<Literal>> {
        let devices = self.topology.devices();
        let each = arguments.len() / devices.max(1);
        let mut arguments = arguments.into_iter().map(Value::Array);
        let arguments: Vec<Vec<Value>> = (0..devices)
            .map(|_| arguments.by_ref().take(each).collect())
            .collect();
        let options = tegula_interp::Options::default();
        let timeout = Duration::from_secs(20);
        let results =
            evaluate_devices(&self.program, self.topology, &arguments, &options, timeout)?;
        let arrays = results.into_iter().flat_map(|result| match result {
            Value::Tuple(elements) => elements,
            array => vec![array],
        });
        arrays.map(as_literal).collect()
    }
}

fn as_literal(value: Value) -> Result<Literal> {
    match value {
        Value::Array(array) => Ok(array),
        Value::Tuple(_) | Value::Token => bail!("a result that is no array"),
    }
}

/// The distance from 1 to the next number of a type, 0 where numbers are exact.
fn precision(ty: ElementType) -> f64 {
    let format = ty.complex_part().unwrap_or(ty).float_format();
    format.map_or(0.0, |format| (-f64::from(format.mantissa_bits)).exp2())
}

/// Both parts of a number.
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
            // Without a lower bound: the numbers that it asks for are not what a program gives.
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
