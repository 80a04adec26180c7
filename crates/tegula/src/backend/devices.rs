//! Programs on several devices of this process.
//!
//! Whole arrays are cut into the devices' parts, every device runs the program of its part on a
//! thread of its own, and the parts of the results are put together. How they are cut is the
//! partitioner's choice. A program that is partitioned already has no whole arrays: its inputs and
//! results get one more dimension, the most major one, with an entry for each device.
//!
//! The reference evaluator has collectives. The Plan and the CPU call [the host](super::hosted) for
//! them.

use super::hosted::{as_device, hosted, is_collective};
use super::interp::{MAX_BYTES, MAX_INSTRUCTIONS, flatten, take};
use super::{Backend, Built, RunContext};
use crate::boundary::Boundary;
use crate::{Error, ErrorKind, Executable, Options, Target, Tensor};
use std::borrow::Cow;
use std::time::Duration;
use tegula_custom_call::Handlers;
use tegula_devices::{RunError, Topology};
use tegula_fusion::array_leaves;
use tegula_ir::{ArrayShape, Dim, Literal, LiteralError, Module};
use tegula_partition::{Partitioned, Sharding};

/// How long a device waits for another in an exchange.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A program for several devices, ready to run on all of them.
pub struct SpmdExecutable {
    /// The program of each device.
    pub program: Module,
    /// The devices.
    pub topology: Topology,
    arrays: Arrays,
    engine: Engine,
}

/// What the devices' arrays are of the program's.
enum Arrays {
    /// Parts, by input and by result, with the shapes of the whole arrays.
    Parts(Vec<(Sharding, ArrayShape)>, Vec<(Sharding, ArrayShape)>),
    /// Entries of the first dimension.
    Entries,
}

/// What runs the program of a device.
enum Engine {
    /// The reference evaluator.
    Interp,
    /// A target that calls the host for collectives.
    Compiled(Box<Executable>),
}

/// Compiles a module for several devices.
pub(super) fn build(module: &Module, options: &Options) -> Result<Built, Error> {
    let compiled = SpmdExecutable::new(module, options)?;
    let boundary = Boundary::row_major(module);
    let boundary = match compiled.stacks() {
        true => boundary.stacked(i64::try_from(options.devices).unwrap_or(i64::MAX)),
        false => boundary,
    };
    Ok(Built::new(compiled, boundary))
}

impl Backend for SpmdExecutable {
    fn run(
        &self,
        inputs: Vec<Cow<'_, Literal>>,
        context: &RunContext<'_>,
    ) -> Result<Vec<Literal>, Error> {
        self.run(&inputs, context.handlers, context.step_limit)
    }

    fn stacked_devices(&self) -> Option<usize> {
        self.stacks().then(|| self.topology.devices())
    }
}

impl SpmdExecutable {
    /// Partitions a program, unless it is partitioned already, and compiles what each device runs.
    fn new(module: &Module, options: &Options) -> Result<Self, Error> {
        let (program, topology, arrays) = match is_partitioned(module) {
            true => {
                let topology = stated_topology(module, options.devices)?;
                (module.clone(), topology, Arrays::Entries)
            }
            false => {
                let partitioned = partitioned(module, options.devices)?;
                let topology = Topology {
                    replicas: 1,
                    partitions: options.devices,
                };
                let arrays = parts(module, &partitioned)?;
                (partitioned.module, topology, arrays)
            }
        };
        let engine = match options.target {
            Target::Interp => Engine::Interp,
            Target::Cpu | Target::Plan => Engine::Compiled(Box::new(compiled(&program, options)?)),
            Target::Cuda | Target::CudaSim | Target::Tpu => {
                let message = "several devices run programs for cpu, plan and interp only";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        Ok(Self {
            program,
            topology,
            arrays,
            engine,
        })
    }

    /// Whether inputs and results have one more dimension than the program's, that of the devices.
    pub fn stacks(&self) -> bool {
        matches!(self.arrays, Arrays::Entries)
    }

    /// Runs all devices; inputs and results are whole arrays.
    fn run(
        &self,
        inputs: &[Cow<'_, Literal>],
        handlers: &Handlers,
        step_limit: Option<u64>,
    ) -> Result<Vec<Literal>, Error> {
        self.check(inputs)?;
        let parts = tegula_devices::run(self.topology, TIMEOUT, |communicator| {
            let device = communicator.device();
            let own = inputs.iter().enumerate();
            let own = own.map(|(number, input)| self.part(number, input, device));
            let own: Vec<Literal> = own.collect::<Result<_, _>>()?;
            handlers.within(|| match &self.engine {
                Engine::Interp => {
                    let mut values = Vec::new();
                    let own: Vec<&Literal> = own.iter().collect();
                    let mut rest = own.iter();
                    for &parameter in &self.program.entry_computation().parameters {
                        values.push(take(&self.program[parameter].shape, &mut rest)?);
                    }
                    let options = tegula_interp::Options {
                        max_instructions: Some(step_limit.unwrap_or(MAX_INSTRUCTIONS)),
                        max_bytes: Some(MAX_BYTES),
                        ..tegula_interp::Options::default()
                    };
                    let program = &self.program;
                    let value =
                        tegula_interp::evaluate_on(program, &values, &options, communicator)?;
                    let mut given = Vec::new();
                    flatten(value, &mut given);
                    Ok(given)
                }
                Engine::Compiled(executable) => as_device(communicator, || {
                    let given = executable.run(own.into_iter().map(Tensor::from))?;
                    Ok(given.into_iter().map(Tensor::into_literal).collect())
                }),
            })
        });
        self.whole(parts.map_err(of_run)?)
    }

    /// Checks the inputs before they are cut.
    fn check(&self, inputs: &[Cow<'_, Literal>]) -> Result<(), Error> {
        let entry = self.program.entry_computation();
        let shapes = entry.parameters.iter();
        let shapes: Vec<&ArrayShape> = shapes
            .flat_map(|&parameter| array_leaves(&self.program[parameter].shape))
            .collect();
        let wrong = |message: String| Err(Error::new(ErrorKind::Input, message));
        if shapes.len() != inputs.len() {
            let (takes, given) = (shapes.len(), inputs.len());
            return wrong(format!("the program takes {takes} inputs, not {given}"));
        }
        let devices = self.topology.devices() as i64;
        for (number, (input, part)) in inputs.iter().zip(shapes).enumerate() {
            let (stacked, given) = (self.stacks(), input.shape());
            let rank = part.rank() + usize::from(stacked);
            if stacked && given.dims.first().and_then(Dim::as_static) != Some(devices) {
                return wrong(format!(
                    "input {number} is {given}: expected {devices} as its first dimension, an \
                     entry for each device, as the program is partitioned already"
                ));
            }
            if given.rank() != rank || given.element_type != part.element_type {
                let (ty, got) = (part.element_type, given);
                return wrong(format!(
                    "input {number}: expected {ty} of {rank} dimensions, got {got}"
                ));
            }
            if let Arrays::Parts(inputs, _) = &self.arrays
                && let Some((_, whole)) = inputs.get(number)
            {
                let mut dims = whole.dims.iter().zip(&given.dims);
                if dims.any(|(w, g)| w.as_static().is_some() && w.as_static() != g.as_static()) {
                    return wrong(format!("input {number}: expected {whole}, got {given}"));
                }
            }
        }
        Ok(())
    }

    /// What a device gets of an input.
    fn part(&self, number: usize, input: &Literal, device: usize) -> Result<Literal, LiteralError> {
        match &self.arrays {
            Arrays::Parts(inputs, _) => match inputs.get(number) {
                Some((sharding, _)) => sharding.part_of(input, device),
                None => Ok(input.clone()),
            },
            Arrays::Entries => {
                let shape = input.shape();
                let dims = shape.dims.iter().skip(1).map(Dim::typical);
                let dims: Vec<i64> = dims.collect();
                let bytes = input.bytes();
                let each = bytes.len() / self.topology.devices().max(1);
                let own = bytes.get(device * each..(device + 1) * each);
                let shape = ArrayShape::new(shape.element_type, &dims);
                Literal::from_bytes(&shape, own.unwrap_or_default())
            }
        }
    }

    /// The results from those of each device.
    fn whole(&self, devices: Vec<Vec<Literal>>) -> Result<Vec<Literal>, Error> {
        let count = devices.first().map_or(0, Vec::len);
        let mut devices: Vec<_> = devices.into_iter().map(Vec::into_iter).collect();
        let results = (0..count).map(|number| {
            let parts: Vec<Literal> = devices.iter_mut().filter_map(Iterator::next).collect();
            match &self.arrays {
                Arrays::Parts(_, results) => {
                    let result = results.get(number);
                    let (sharding, shape) = result
                        .ok_or_else(|| Error::new(ErrorKind::Bug, "a result is not known"))?;
                    put_together(&parts, sharding, shape)
                }
                Arrays::Entries => stacked(&parts),
            }
        });
        results.collect()
    }
}

/// A result from its parts. Open sizes are those of the parts: no such dimension is cut.
fn put_together(
    parts: &[Literal],
    sharding: &Sharding,
    shape: &ArrayShape,
) -> Result<Literal, Error> {
    let own = parts.first().map(Literal::shape);
    let own = own.map_or(&shape.dims, |own| &own.dims);
    let dims = shape.dims.iter().zip(own);
    let dims: Vec<i64> = dims
        .map(|(whole, part)| whole.as_static().unwrap_or_else(|| part.typical()))
        .collect();
    let shape = ArrayShape::new(shape.element_type, &dims);
    Ok(sharding.whole_of(parts, &shape)?)
}

/// The arrays of all devices in one.
fn stacked(parts: &[Literal]) -> Result<Literal, Error> {
    let first = parts
        .first()
        .ok_or_else(|| Error::new(ErrorKind::Bug, "a run on no device"))?;
    let own = first.shape();
    let dims = own.dims.iter().map(Dim::typical);
    let dims: Vec<i64> = [parts.len() as i64].into_iter().chain(dims).collect();
    let bytes: Vec<u8> = parts.iter().flat_map(Literal::bytes).copied().collect();
    let shape = ArrayShape::new(own.element_type, &dims);
    Ok(Literal::from_bytes(&shape, &bytes)?)
}

/// Whether a program is that of each device: it has collectives, and says of no array how it is cut.
pub(super) fn is_partitioned(module: &Module) -> bool {
    let mut instructions = module.instructions.values();
    instructions.any(|instruction| is_collective(&instruction.op))
        && !tegula_partition::is_sharded(module)
}

/// The devices of a partitioned program.
fn stated_topology(module: &Module, devices: usize) -> Result<Topology, Error> {
    let count = |stated: Option<i64>| stated.and_then(|count| usize::try_from(count).ok());
    let attributes = &module.attributes;
    let stated = Topology {
        replicas: count(attributes.replica_count).unwrap_or(1),
        partitions: count(attributes.num_partitions).unwrap_or(1),
    };
    if stated.devices() == devices {
        return Ok(stated);
    }
    if stated != Topology::ALONE {
        let (replicas, partitions) = (stated.replicas, stated.partitions);
        let message = format!(
            "the program is for {replicas} x {partitions} devices (replica_count x num_partitions), not {devices}"
        );
        return Err(Error::new(ErrorKind::Input, message));
    }
    Ok(
        match tegula_partition::exchanges_between_partitions(module) {
            true => Topology {
                replicas: 1,
                partitions: devices,
            },
            false => Topology {
                replicas: devices,
                partitions: 1,
            },
        },
    )
}

fn partitioned(module: &Module, devices: usize) -> Result<Partitioned, Error> {
    if module
        .attributes
        .replica_count
        .is_some_and(|count| count > 1)
    {
        let message = "a program with shardings is run by one replica only";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let options = tegula_partition::Options {
        devices: Some(devices),
        ..tegula_partition::Options::default()
    };
    let span = tracing::info_span!("partition", devices);
    let partitioned = span.in_scope(|| tegula_partition::partition(module, &options));
    partitioned.map_err(|error| {
        use tegula_partition::Error as Partition;
        let kind = match &error {
            Partition::Build { .. } => ErrorKind::Bug,
            Partition::NoDevices
            | Partition::Devices { .. }
            | Partition::Sharding { .. }
            | Partition::Manual { .. } => ErrorKind::Input,
        };
        Error {
            span: error.span(module).unwrap_or_default(),
            ..Error::new(kind, error.to_string())
        }
    })
}

/// How the arrays of a program are cut.
fn parts(module: &Module, partitioned: &Partitioned) -> Result<Arrays, Error> {
    let entry = module.entry_computation();
    let mut leaves = Vec::new();
    for &parameter in &entry.parameters {
        let instruction = &module[parameter];
        instruction
            .shape
            .for_each_leaf(&mut |leaf| leaves.push((&*instruction.name, leaf.as_array())));
    }
    let mut inputs = Vec::new();
    // Those of tokens are among the partitioner's.
    for ((name, leaf), sharding) in leaves.into_iter().zip(&partitioned.parameters) {
        if let Some(array) = leaf {
            check_open_sizes(name, array, sharding)?;
            inputs.push((sharding.clone(), array.clone()));
        }
    }
    let root = &module[entry.root];
    let mut results = Vec::new();
    for (array, sharding) in array_leaves(&root.shape)
        .into_iter()
        .zip(&partitioned.results)
    {
        check_open_sizes(&root.name, array, sharding)?;
        results.push((sharding.clone(), array.clone()));
    }
    Ok(Arrays::Parts(inputs, results))
}

fn check_open_sizes(name: &str, array: &ArrayShape, sharding: &Sharding) -> Result<(), Error> {
    let mut dims = array.dims.iter().zip(sharding.cuts());
    match dims.any(|(dim, cut)| dim.as_static().is_none() && cut.is_some()) {
        false => Ok(()),
        true => {
            let message = format!("`{name}`: a dimension of open size is cut over devices");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// What each device runs, for a target that calls the host for collectives.
fn compiled(program: &Module, options: &Options) -> Result<Executable, Error> {
    let (program, handlers) =
        hosted(program).map_err(|error| Error::new(ErrorKind::Bug, error.to_string()))?;
    let options = Options {
        devices: 1,
        ..options.clone()
    };
    let executable = handlers.within(|| crate::compile(&program, &options));
    let mut executable = executable.map_err(|error| Error {
        // Places in the program that was made are not those of the text.
        span: tegula_ir::Span::default(),
        ..error
    })?;
    executable.set_handlers(handlers);
    Ok(executable)
}

/// The error of the device that failed first.
fn of_run(error: RunError<Error>) -> Error {
    let message = error.to_string();
    match error {
        RunError::Device { error, .. } => Error { message, ..error },
        RunError::Panicked { .. } => Error::new(ErrorKind::Bug, message),
        RunError::NoThread { .. } => Error::new(ErrorKind::Limit, message),
    }
}
