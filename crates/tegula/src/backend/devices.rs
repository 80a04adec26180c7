//! Programs on several devices within this process.
//!
//! Each device runs the same program on its own thread. Whole arrays are divided into one part for
//! each device, as the partitioner decides, and the parts of the results are combined. A program
//! that is partitioned already has no whole arrays: its inputs and results get one more dimension,
//! the most major one, with an entry for each device.
//!
//! A caller that already has a separate array for each device calls
//! [`SpmdExecutable::run_devices`], which forms no whole arrays.
//!
//! The reference evaluator supports collectives itself. The Plan and the CPU backend execute them
//! by [calls to the host](super::hosted).

use super::hosted::{as_device, hosted, is_collective};
use super::interp::{MAX_BYTES, MAX_INSTRUCTIONS, flatten, take};
use super::{Backend, Built, RunContext};
use crate::boundary::Boundary;
use crate::{Arg, Error, ErrorKind, Executable, Options, Target, Tensor};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tegula_custom_call::Handlers;
use tegula_devices::{Communicator, Exchange, Group, RunError, Topology, WithoutExchange};
use tegula_fusion::array_leaves;
use tegula_ir::{ArrayShape, Dim, Literal, LiteralError, Module, Op, Shape};
use tegula_partition::{Partitioned, Sharding, Unreduced};

/// The run time, in nanoseconds, up to which devices that do not exchange data run one after
/// another: starting a thread takes about as long.
const ALONE_NANOSECONDS: u64 = 20_000;

/// The time that a device waits for another in an exchange.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A program compiled for several devices, which runs on all of them.
pub struct SpmdExecutable {
    /// The program that each device runs.
    pub program: Module,
    /// The devices.
    pub topology: Topology,
    arrays: Arrays,
    engine: Engine,
    shardings: Option<Shardings>,
    exchanges: bool,
    /// The shortest run time of one device, in nanoseconds; 0 before the first run.
    device_time: AtomicU64,
}

/// The machine code of the program that each device runs, as [`SpmdExecutable::serialize`] returns
/// it.
#[derive(Debug)]
pub struct MachineCode(Vec<u8>);

impl MachineCode {
    /// Machine code that was stored earlier.
    ///
    /// # Safety
    /// The bytes are executed, so they must be from [`SpmdExecutable::serialize`], for the same
    /// program that they are used for.
    pub unsafe fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// The shardings of a program's arrays. Tokens have entries, too, without dimensions.
#[derive(Clone, Debug)]
pub struct Shardings {
    /// The shardings of the parameters, in order.
    pub parameters: Vec<Sharding>,
    /// The shardings of the results, in order.
    pub results: Vec<Sharding>,
    /// For each parameter: the axes over which devices hold partial results.
    pub unreduced_parameters: Vec<Option<Unreduced>>,
    /// For each result: the axes over which devices hold partial results.
    pub unreduced_results: Vec<Option<Unreduced>>,
}

/// How the devices' arrays form the arrays of the program.
enum Arrays {
    /// Each device has a part of every array: the shardings and whole shapes of inputs and of
    /// results.
    Parts(Vec<(Sharding, ArrayShape)>, Vec<(Sharding, ArrayShape)>),
    /// Each device has one entry of every array's first dimension.
    Entries,
}

/// The engine that runs a device's program.
enum Engine {
    /// The reference evaluator.
    Interp,
    /// A compiled program that calls the host for collectives.
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
    /// Partitions a program, unless it is partitioned already, and compiles it for each device.
    fn new(module: &Module, options: &Options) -> Result<Self, Error> {
        if is_partitioned(module) {
            let topology = stated_topology(module, options.devices)?;
            return Self::alike(module, topology, options, None);
        }
        if module
            .attributes
            .replica_count
            .is_some_and(|count| count > 1)
        {
            let message =
                "a program with shardings runs on one replica only: give it `replica_count=1`";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let how = tegula_partition::Options {
            devices: Some(options.devices),
            ..tegula_partition::Options::default()
        };
        let made = Self::partitioned(module, &how, options, None)?;
        if let Some(shardings) = &made.shardings {
            let mut arrays = shardings
                .unreduced_parameters
                .iter()
                .chain(&shardings.unreduced_results);
            if arrays.any(Option::is_some) {
                let message = "the program's inputs or results are partial sums (unreduced \
                    axes), which are not joined to whole arrays";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        }
        Ok(made)
    }

    /// Compiles a program that all devices run unchanged, each on its own arrays. If `code` is from
    /// [`Self::serialize`] for the same program and can run here, nothing is compiled.
    ///
    /// # Errors
    /// An operation that the target does not support.
    pub fn alike(
        module: &Module,
        topology: Topology,
        options: &Options,
        machine_code: Option<MachineCode>,
    ) -> Result<Self, Error> {
        Self::of_entries(module.clone(), topology, options, machine_code)
    }

    /// Partitions a program and compiles it for devices that work on parts of the arrays. If the
    /// program has several replicas, each runs all partitions. `code` is used as in
    /// [`Self::alike`].
    ///
    /// # Errors
    /// A sharding that is invalid or does not fit; an operation that the target does not support.
    pub fn partitioned(
        module: &Module,
        how: &tegula_partition::Options,
        options: &Options,
        machine_code: Option<MachineCode>,
    ) -> Result<Self, Error> {
        let partitioned = partitioned(module, how)?;
        let arrays = parts(module, &partitioned)?;
        let program = partitioned.module;
        let count = |stated: Option<i64>| stated.and_then(|count| usize::try_from(count).ok());
        let topology = Topology {
            replicas: count(program.attributes.replica_count).unwrap_or(1),
            partitions: count(program.attributes.num_partitions).unwrap_or(1),
        };
        Ok(Self {
            arrays,
            shardings: Some(Shardings {
                parameters: partitioned.parameters,
                results: partitioned.results,
                unreduced_parameters: partitioned.unreduced_parameters,
                unreduced_results: partitioned.unreduced_results,
            }),
            ..Self::of_entries(program, topology, options, machine_code)?
        })
    }

    /// Compiles the program of each device. The caller's arrays have an entry for each device.
    fn of_entries(
        program: Module,
        topology: Topology,
        options: &Options,
        machine_code: Option<MachineCode>,
    ) -> Result<Self, Error> {
        Ok(Self {
            engine: Engine::new(&program, options, machine_code)?,
            exchanges: exchanges(&program),
            device_time: AtomicU64::new(0),
            program,
            topology,
            arrays: Arrays::Entries,
            shardings: None,
        })
    }

    /// The shardings of the program's arrays, if it was partitioned here.
    pub fn shardings(&self) -> Option<&Shardings> {
        self.shardings.as_ref()
    }

    /// The compiled program that each device runs; [`None`] with the reference evaluator.
    pub fn device_executable(&self) -> Option<&Executable> {
        match &self.engine {
            Engine::Interp => None,
            Engine::Compiled(executable) => Some(executable),
        }
    }

    /// The machine code of the program that each device runs.
    ///
    /// # Errors
    /// As [`Executable::serialize`].
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        let executable = self.device_executable().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "only programs for the CPU can be serialised",
            )
        })?;
        executable.serialize()
    }

    /// Runs all devices, each on its own arrays, and returns the results of each. Each device has a
    /// thread, on which `around` calls the run. If devices exchange nothing and each finishes
    /// sooner than a thread would start, they run one after another on this thread.
    ///
    /// # Errors
    /// The error of the device that failed first. The other devices then stop at their next
    /// exchange.
    pub fn run_devices<E: From<Error> + Send>(
        &self,
        arguments: Vec<Vec<Arg<'_>>>,
        around: impl Fn(&mut dyn FnMut() -> Result<(), Error>) -> Result<(), E> + Sync,
    ) -> Result<Vec<Vec<Tensor>>, RunError<E>> {
        let devices: Vec<usize> = (0..self.topology.devices()).collect();
        let device = self.device_run(&devices, arguments, around);
        match self.is_short_alone() {
            true => self.one_after_another(&devices, device),
            false => tegula_devices::run(self.topology, TIMEOUT, device),
        }
    }

    /// As [`Self::run_devices`], for the devices of this process of a run over several processes,
    /// in the order of their numbers in the program.
    ///
    /// # Errors
    /// The error of this process's device that failed first; that a device of another process
    /// failed, or a process is lost.
    #[cfg(feature = "network")]
    pub fn run_devices_of<E: From<Error> + Send>(
        &self,
        run: tegula_devices::network::Run,
        arguments: Vec<Vec<Arg<'_>>>,
        around: impl Fn(&mut dyn FnMut() -> Result<(), Error>) -> Result<(), E> + Sync,
    ) -> Result<Vec<Vec<Tensor>>, RunError<E>> {
        let devices = run.own();
        let device = self.device_run(&devices, arguments, around);
        if self.is_short_alone() {
            run.dismiss();
            return self.one_after_another(&devices, device);
        }
        run.run(self.topology, TIMEOUT, device)
    }

    /// Whether devices exchange nothing, and each finishes sooner than a thread would start.
    fn is_short_alone(&self) -> bool {
        let best = self.device_time.load(Ordering::Relaxed);
        !self.exchanges && best != 0 && best <= ALONE_NANOSECONDS
    }

    /// Runs devices that exchange nothing on this thread.
    fn one_after_another<T, E>(
        &self,
        devices: &[usize],
        run: impl Fn(Arc<dyn Communicator>) -> Result<T, E>,
    ) -> Result<Vec<T>, RunError<E>> {
        let runs = devices.iter().map(|&device| {
            let communicator = WithoutExchange {
                topology: self.topology,
                device,
            };
            run(Arc::new(communicator)).map_err(|error| RunError::Device { device, error })
        });
        runs.collect()
    }

    /// The function that runs one of these devices, on its arguments, and records its time.
    fn device_run<'a, E: From<Error> + Send>(
        &'a self,
        devices: &[usize],
        arguments: Vec<Vec<Arg<'a>>>,
        around: impl Fn(&mut dyn FnMut() -> Result<(), Error>) -> Result<(), E> + Sync + 'a,
    ) -> impl Fn(Arc<dyn Communicator>) -> Result<Vec<Tensor>, E> + Sync + 'a {
        let arguments = devices.iter().copied().zip(arguments);
        let arguments: HashMap<usize, _> = arguments
            .map(|(device, own)| (device, Mutex::new(Some(own))))
            .collect();
        let scope = tegula_limits::current();
        move |communicator: Arc<dyn Communicator>| {
            let own = arguments.get(&communicator.device());
            let own = own.and_then(|own| own.lock().unwrap_or_else(PoisonError::into_inner).take());
            let mut own = own.unwrap_or_default();
            let mut given = Vec::new();
            let start = Instant::now();
            tegula_limits::enter(scope.as_ref(), || {
                around(&mut || {
                    let own = std::mem::take(&mut own);
                    given = self.run_device(Arc::clone(&communicator), own)?;
                    Ok(())
                })
            })?;
            let time = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let best = self.device_time.load(Ordering::Relaxed);
            if best == 0 || time < best {
                self.device_time.store(time, Ordering::Relaxed);
            }
            Ok(given)
        }
    }

    /// Runs one device.
    fn run_device(
        &self,
        communicator: Arc<dyn Communicator>,
        arguments: Vec<Arg<'_>>,
    ) -> Result<Vec<Tensor>, Error> {
        match &self.engine {
            Engine::Compiled(executable) => as_device(communicator, || executable.run(arguments)),
            Engine::Interp => {
                let own = arguments.into_iter().map(|argument| match argument {
                    Arg::Borrowed(tensor) => tensor.literal().clone(),
                    Arg::Donated(tensor) => tensor.into_literal(),
                });
                let own: Vec<Literal> = own.collect();
                let given = self.evaluated(communicator, &own, None)?;
                Ok(given.into_iter().map(Tensor::from).collect())
            }
        }
    }

    /// Evaluates the program for one device with the reference evaluator.
    fn evaluated(
        &self,
        communicator: Arc<dyn Communicator>,
        own: &[Literal],
        step_limit: Option<u64>,
    ) -> Result<Vec<Literal>, Error> {
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
        let value = tegula_interp::evaluate_on(&self.program, &values, &options, communicator)?;
        let mut given = Vec::new();
        flatten(value, &mut given);
        Ok(given)
    }

    /// Whether inputs and results have one dimension more than those of the program, with an entry
    /// for each device.
    pub fn stacks(&self) -> bool {
        matches!(self.arrays, Arrays::Entries)
    }

    /// The device groups of the program's collectives: a list of groups for each collective.
    ///
    /// # Errors
    /// Groups that are invalid for these devices.
    pub fn groupings(&self) -> Result<Vec<Vec<Vec<usize>>>, Error> {
        let mut groupings: Vec<Vec<Vec<usize>>> = Vec::new();
        for instruction in self.program.instructions.values() {
            let groups = match &instruction.op {
                Op::AllGather { .. }
                | Op::AllReduce { .. }
                | Op::ReduceScatter { .. }
                | Op::AllToAll { .. }
                | Op::RaggedAllToAll(_)
                | Op::CollectiveBroadcast(_) => Group::all_of(&instruction.op, self.topology),
                _ => continue,
            };
            let groups = groups.map_err(|error| {
                let message = format!("`{}`: {error}", instruction.name);
                Error::new(ErrorKind::Input, message)
            })?;
            if !groupings.contains(&groups) {
                groupings.push(groups);
            }
        }
        Ok(groupings)
    }

    /// Runs the program as one device, which reaches the others through `communicator`; they call
    /// this function, too. Inputs are the whole arrays of all devices. So are the results: every
    /// device returns all of them.
    ///
    /// # Errors
    /// As [`Executable::run`]; a device that does not answer.
    pub fn run_as(
        &self,
        communicator: &Arc<dyn Communicator>,
        inputs: &[Literal],
        step_limit: Option<u64>,
    ) -> Result<Vec<Literal>, Error> {
        let inputs: Vec<Cow<'_, Literal>> = inputs.iter().map(Cow::Borrowed).collect();
        self.check(&inputs)?;
        let device = communicator.device();
        let own = inputs.iter().enumerate();
        let own = own.map(|(number, input)| self.part(number, input, device));
        let own: Vec<Literal> = own.collect::<Result<_, _>>()?;
        let to_others = Arc::clone(communicator);
        let given = match &self.engine {
            Engine::Interp => self.evaluated(to_others, &own, step_limit)?,
            Engine::Compiled(_) => {
                let own = own.into_iter().map(|own| Arg::Donated(own.into()));
                let given = self.run_device(to_others, own.collect())?;
                given.into_iter().map(Tensor::into_literal).collect()
            }
        };
        let members: Vec<usize> = (0..self.topology.devices()).collect();
        let exchange = Exchange {
            name: "results",
            site: usize::MAX - 1,
            members: &members,
        };
        let all = communicator
            .exchange(exchange, given)
            .map_err(|error| Error::new(ErrorKind::Limit, error.to_string()))?;
        self.whole(all.iter().map(|own| own.to_vec()).collect())
    }

    /// Runs all devices on whole arrays, and returns whole arrays.
    fn run(
        &self,
        inputs: &[Cow<'_, Literal>],
        handlers: &Handlers,
        step_limit: Option<u64>,
    ) -> Result<Vec<Literal>, Error> {
        self.check(inputs)?;
        let scope = tegula_limits::current();
        let parts = tegula_devices::run(self.topology, TIMEOUT, |communicator| {
            let device = communicator.device();
            let own = inputs.iter().enumerate();
            let own = own.map(|(number, input)| self.part(number, input, device));
            let own: Vec<Literal> = own.collect::<Result<_, _>>()?;
            let run = || match &self.engine {
                Engine::Interp => self.evaluated(communicator, &own, step_limit),
                Engine::Compiled(_) => {
                    let own = own.into_iter().map(|own| Arg::Donated(own.into()));
                    let given = self.run_device(communicator, own.collect())?;
                    Ok(given.into_iter().map(Tensor::into_literal).collect())
                }
            };
            handlers.within(|| tegula_limits::enter(scope.as_ref(), run))
        });
        self.whole(parts.map_err(of_run)?)
    }

    /// Checks the inputs before they are divided.
    fn check(&self, inputs: &[Cow<'_, Literal>]) -> Result<(), Error> {
        let entry = self.program.entry_computation();
        let shapes = entry.parameters.iter();
        let shapes: Vec<&ArrayShape> = shapes
            .flat_map(|&parameter| array_leaves(&self.program[parameter].shape))
            .collect();
        let wrong = |message: String| Err(Error::new(ErrorKind::Input, message));
        if shapes.len() != inputs.len() {
            let (takes, given) = (shapes.len(), inputs.len());
            return wrong(format!("the program takes {takes} inputs, found {given}"));
        }
        let devices = self.topology.devices() as i64;
        for (number, (input, part)) in inputs.iter().zip(shapes).enumerate() {
            let (stacked, given) = (self.stacks(), input.shape());
            let rank = part.rank() + usize::from(stacked);
            if stacked && given.dims.first().and_then(Dim::as_static) != Some(devices) {
                return wrong(format!(
                    "input {number} is {given}: expected {devices} as its first dimension, one \
                        index for each device, because the program is already partitioned"
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

    /// The part of an input that a device gets.
    fn part(&self, number: usize, input: &Literal, device: usize) -> Result<Literal, LiteralError> {
        match &self.arrays {
            Arrays::Parts(inputs, _) => match inputs.get(number) {
                Some((sharding, _)) => sharding.part_of(input, device),
                None => Ok(input.clone()),
            },
            Arrays::Entries => {
                let shape = input.shape();
                let dims = shape.dims.iter().skip(1).map(Dim::representative);
                let dims: Vec<i64> = dims.collect();
                let bytes = input.bytes();
                let each = bytes.len() / self.topology.devices().max(1);
                let own = bytes.get(device * each..(device + 1) * each);
                let shape = ArrayShape::new(shape.element_type, &dims);
                Literal::from_bytes(&shape, own.unwrap_or_default())
            }
        }
    }

    /// The whole results, combined from those of all devices.
    fn whole(&self, devices: Vec<Vec<Literal>>) -> Result<Vec<Literal>, Error> {
        let count = devices.first().map_or(0, Vec::len);
        let mut devices: Vec<_> = devices.into_iter().map(Vec::into_iter).collect();
        let results = (0..count).map(|number| {
            let parts: Vec<Literal> = devices.iter_mut().filter_map(Iterator::next).collect();
            match &self.arrays {
                Arrays::Parts(_, results) => {
                    let result = results.get(number);
                    let (sharding, shape) = result.ok_or_else(|| {
                        Error::new(ErrorKind::Bug, "the number of a result is out of range")
                    })?;
                    put_together(&parts, sharding, shape)
                }
                Arrays::Entries => stacked(&parts),
            }
        });
        results.collect()
    }
}

/// Combines a result from its parts. Open sizes are those of the parts, because dimensions of open
/// size are not divided.
fn put_together(
    parts: &[Literal],
    sharding: &Sharding,
    shape: &ArrayShape,
) -> Result<Literal, Error> {
    let own = parts.first().map(Literal::shape);
    let own = own.map_or(&shape.dims, |own| &own.dims);
    let dims = shape.dims.iter().zip(own);
    let dims: Vec<i64> = dims
        .map(|(whole, part)| whole.as_static().unwrap_or_else(|| part.representative()))
        .collect();
    let shape = ArrayShape::new(shape.element_type, &dims);
    Ok(sharding.whole_of(parts, &shape)?)
}

/// Stacks the arrays of all devices along a new first dimension.
fn stacked(parts: &[Literal]) -> Result<Literal, Error> {
    let first = parts
        .first()
        .ok_or_else(|| Error::new(ErrorKind::Bug, "a run needs at least one device"))?;
    let own = first.shape();
    let dims = own.dims.iter().map(Dim::representative);
    let dims: Vec<i64> = [parts.len() as i64].into_iter().chain(dims).collect();
    let bytes: Vec<u8> = parts.iter().flat_map(Literal::bytes).copied().collect();
    let shape = ArrayShape::new(own.element_type, &dims);
    Ok(Literal::from_bytes(&shape, &bytes)?)
}

/// Whether devices depend on each other's progress, so that they need threads of their own. Python
/// callbacks count as well: one may take any amount of time, so it must not delay the other
/// devices.
fn exchanges(program: &Module) -> bool {
    let mut instructions = program.instructions.values();
    instructions.any(|instruction| match &instruction.op {
        Op::PartitionId | Op::ReplicaId => false,
        Op::CustomCall(call) => {
            call.has_side_effect || tegula_custom_call::is_python_callback(&call.target)
        }
        op => is_collective(op),
    })
}

/// Whether a program is the partitioned program of each device: it has collectives but no
/// shardings.
pub(super) fn is_partitioned(module: &Module) -> bool {
    let mut instructions = module.instructions.values();
    instructions.any(|instruction| is_collective(&instruction.op))
        && !tegula_partition::is_sharded(module)
}

/// The devices of a partitioned program.
fn stated_topology(module: &Module, devices: usize) -> Result<Topology, Error> {
    Topology::of(module, devices).map_err(|stated| {
        let (replicas, partitions) = (stated.replicas, stated.partitions);
        let message = format!(
            "the program is for {replicas} x {partitions} devices (replica_count x num_partitions), but {devices} were requested"
        );
        Error::new(ErrorKind::Input, message)
    })
}

pub(crate) fn partitioned(
    module: &Module,
    how: &tegula_partition::Options,
) -> Result<Partitioned, Error> {
    let span = tracing::info_span!("partition", devices = how.devices);
    let partitioned = span.in_scope(|| tegula_partition::partition(module, how));
    partitioned.map_err(|error| {
        use tegula_partition::Error as Partition;
        let kind = match &error {
            Partition::Build { .. } => ErrorKind::Bug,
            Partition::NoDevices
            | Partition::Devices { .. }
            | Partition::Sharding { .. }
            | Partition::Manual { .. }
            | Partition::Call { .. }
            | Partition::Inspection { .. } => ErrorKind::Input,
        };
        Error {
            span: error.span(module).unwrap_or_default(),
            ..Error::new(kind, error.to_string())
        }
    })
}

/// The shardings and whole shapes of a program's arrays.
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
    // The partitioner's list includes tokens.
    for ((name, leaf), sharding) in leaves.into_iter().zip(&partitioned.parameters) {
        if let Some(array) = leaf {
            check_open_sizes(name, array, sharding)?;
            inputs.push((sharding.clone(), array.clone()));
        }
    }
    let root = &module[entry.root];
    let mut leaves: Vec<&Shape> = Vec::new();
    root.shape.for_each_leaf(&mut |leaf| leaves.push(leaf));
    let mut results = Vec::new();
    for (leaf, sharding) in leaves.into_iter().zip(&partitioned.results) {
        if let Some(array) = leaf.as_array() {
            check_open_sizes(&root.name, array, sharding)?;
            results.push((sharding.clone(), array.clone()));
        }
    }
    Ok(Arrays::Parts(inputs, results))
}

fn check_open_sizes(name: &str, array: &ArrayShape, sharding: &Sharding) -> Result<(), Error> {
    let mut dims = array.dims.iter().zip(sharding.cuts());
    match dims.any(|(dim, cut)| dim.as_static().is_none() && cut.is_some()) {
        false => Ok(()),
        true => {
            let message = format!(
                "`{name}`: a dimension of open size is sharded over devices: give its size with \
                    `--dim`"
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

impl Engine {
    fn new(
        program: &Module,
        options: &Options,
        machine_code: Option<MachineCode>,
    ) -> Result<Self, Error> {
        Ok(match options.target {
            Target::Interp => Self::Interp,
            Target::Cpu | Target::Plan => {
                Self::Compiled(Box::new(compiled(program, options, machine_code)?))
            }
            Target::Cuda | Target::CudaSim | Target::Tpu => {
                let message = "several devices run programs for cpu, plan and interp only";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        })
    }
}

/// Compiles the program of each device for a target that calls the host for collectives.
fn compiled(
    program: &Module,
    options: &Options,
    machine_code: Option<MachineCode>,
) -> Result<Executable, Error> {
    let (program, handlers) =
        hosted(program).map_err(|error| Error::new(ErrorKind::Bug, error.to_string()))?;
    if let Some(MachineCode(code)) = machine_code {
        // SAFETY: `MachineCode::new` requires that the code is from `serialize` for this program.
        if let Ok(mut executable) = unsafe { Executable::deserialize(code, options.threads) } {
            executable.set_handlers(handlers);
            return Ok(executable);
        }
    }
    let options = Options {
        devices: 1,
        ..options.clone()
    };
    let executable = handlers.within(|| crate::compile(&program, &options));
    let mut executable = executable.map_err(|error| Error {
        // Spans of the generated program do not refer to the source text.
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
