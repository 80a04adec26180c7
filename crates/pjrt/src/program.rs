//! Programs: the source that a front end provides, and the properties of the compiled program.

use crate::buffer::Buffer;
use crate::c_api::*;
use crate::client::Client;
use crate::dump::dump;
use crate::element;
use crate::entry::unimplemented;
use crate::error::{Code, Error};
use crate::fingerprint;
use crate::layout::Dense;
use crate::named::{Attributes, Value};
use crate::options::CompileOptions;
use std::ffi::c_char;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tegula::partition::Freedom;
use tegula::{MachineCode, Shardings, SpmdExecutable, Topology};
use tegula_custom_call::{is_built_in, is_library_routine};
use tegula_ir::{ArrayShape, Dim, Module, Op, Shape};

/// The source of a program with its options: everything that is needed to compile it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) format: String,
    pub(crate) code: Vec<u8>,
    pub(crate) options: Vec<u8>,
}

/// A compiled program.
pub(crate) struct Program {
    pub(crate) engine: Engine,
    pub(crate) source: Source,
    pub(crate) options: CompileOptions,
    pub(crate) name: String,
    pub(crate) fingerprint: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) results: Results,
    pub(crate) costs: Attributes,
    /// The StableHLO text of the program that each of several devices runs, once it was requested.
    of_device: OnceLock<Vec<u8>>,
    /// Whether the program has no side effects and the sizes of its results are known before a run.
    only_computes: bool,
    /// Whether functions that are registered in this process partitioned the program, so that no
    /// other process can compile it.
    is_custom_partitioned: bool,
    /// The time of the last run in nanoseconds; 0 before the first run.
    run_time: AtomicU64,
}

/// The time below which a run is not worth another thread, which takes some microseconds to start.
const SHORT: Duration = Duration::from_micros(200);

/// The compiled program of an executable.
pub(crate) enum Engine {
    /// A program for one device.
    One(Box<tegula::Executable>),
    /// The program that each of several devices runs.
    Several(Box<SpmdExecutable>),
}

/// A parameter of a program: an array or a token.
pub(crate) struct Parameter {
    /// [`None`] for a token, which only says that the operation that produced it is done; it is not
    /// passed to the program.
    pub(crate) shape: Option<ArrayShape>,
    pub(crate) bytes: i64,
    pub(crate) layout: Dense,
    /// Whether the program may take over its memory.
    pub(crate) is_donated: bool,
}

/// The result arrays of a program, in the forms that the C API uses.
pub(crate) struct Results {
    pub(crate) types: Vec<PJRT_Buffer_Type>,
    /// The sizes of all of a device's results, one after the other.
    pub(crate) dims: Vec<i64>,
    pub(crate) ranks: Vec<usize>,
    pub(crate) layouts: Vec<Dense>,
    pub(crate) bytes: i64,
}

/// The memory kind of each parameter or result.
pub(crate) struct Kinds {
    pub(crate) names: Vec<*const c_char>,
    pub(crate) sizes: Vec<usize>,
}

// SAFETY: the pointers are to static strings.
unsafe impl Send for Kinds {}
// SAFETY: the pointers are to static strings.
unsafe impl Sync for Kinds {}

impl Kinds {
    pub(crate) fn device(count: usize) -> Self {
        let name = crate::device::MemoryKind::Device.name();
        Self {
            names: vec![name.as_ptr().cast(); count],
            sizes: vec![name.len(); count],
        }
    }
}

impl Program {
    /// Compiles a program.
    pub(crate) fn compile(source: Source, client: &Client) -> Result<Self, Error> {
        dump(&source.format, &source.code)?;
        Self::new(source, client, None)
    }

    /// Builds a program whose serialised form was read. Its machine code is used if it is for this
    /// CPU and from this build; otherwise the program is compiled.
    pub(crate) fn load(
        source: Source,
        client: &Client,
        machine_code: Vec<u8>,
    ) -> Result<Self, Error> {
        Self::new(source, client, Some(machine_code))
    }

    fn new(source: Source, client: &Client, machine_code: Option<Vec<u8>>) -> Result<Self, Error> {
        let options = CompileOptions::read(&source.options)?;
        let module = read(&source)?;
        let engine = match options.topology()? {
            Topology::ALONE => Engine::one(&module, client.threads, machine_code)?,
            topology => {
                // The devices of this process share its threads.
                let own = client.own_count(&options.devices, topology.devices());
                let threads = (client.threads / own.max(1)).max(1);
                Engine::several(&module, &options, topology, threads, machine_code)?
            }
        };
        let of_device = match &engine {
            Engine::One(_) => &module,
            Engine::Several(spmd) => &spmd.program,
        };
        let executable = engine.executable()?;
        let version = crate::client::VERSION.as_bytes();
        let parts = [
            version,
            source.format.as_bytes(),
            &source.code,
            &source.options,
        ];
        let results = Results::new(of_device, executable);
        let mut parameters = parameters(of_device, executable);
        if let Engine::Several(_) = engine {
            keep_useful_donations(of_device, &mut parameters);
        }
        let arrays_only = parameters.iter().all(|parameter| parameter.shape.is_some())
            && !results.types.contains(&PJRT_Buffer_Type_TOKEN);
        let only_computes =
            arrays_only && !results.dims.contains(&UNKNOWN) && !calls_outside(of_device);
        Ok(Self {
            parameters,
            results,
            only_computes,
            is_custom_partitioned: matches!(engine, Engine::Several(_))
                && has_custom_partitioning(&module),
            run_time: AtomicU64::new(0),
            name: module.name.to_string(),
            fingerprint: format!("{:016x}", fingerprint::of(&parts)),
            costs: Attributes::new(costs(executable)),
            of_device: OnceLock::new(),
            engine,
            source,
            options,
        })
    }
}

impl Program {
    /// The numbers of replicas and partitions of an execution.
    pub(crate) fn topology(&self) -> Topology {
        match &self.engine {
            Engine::One(_) => Topology::ALONE,
            Engine::Several(spmd) => spmd.topology,
        }
    }

    /// A number that programs with other operations or shapes do not share, the same in all
    /// processes: names, places in source files and the addresses of callbacks do not matter.
    pub(crate) fn number(&self) -> u64 {
        let Engine::Several(spmd) = &self.engine else {
            return 0;
        };
        let mut text = String::new();
        for instruction in spmd.program.instructions.values() {
            text.push_str(&instruction.op.opcode().to_string());
            text.push_str(&instruction.shape.to_string());
        }
        fingerprint::of(&[text.as_bytes()])
    }

    /// Whether runs may be asynchronous, because only their results are observable.
    pub(crate) fn may_go_on(&self) -> bool {
        self.only_computes
    }

    /// Whether buffers match the parameters. Open sizes are only checked by the run.
    pub(crate) fn fits(&self, buffers: &[Vec<&Buffer>]) -> bool {
        let fits = |(parameter, buffer): (&Parameter, &&Buffer)| {
            let shape = parameter.shape.as_ref();
            shape.is_some_and(|shape| {
                let dims = shape.dims.iter().map(Dim::as_static);
                shape.element_type == buffer.element_type
                    && dims.eq(buffer.dims.iter().map(|&size| Some(size)))
            })
        };
        buffers.iter().all(|own| {
            own.len() == self.parameters.len() && self.parameters.iter().zip(own).all(fits)
        })
    }

    /// Records the time of a run.
    pub(crate) fn took(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.run_time.store(nanoseconds.max(1), Ordering::Relaxed);
    }

    /// Whether the last run was so short that the next should be done on the caller's thread.
    pub(crate) fn is_short(&self) -> bool {
        let time = self.run_time.load(Ordering::Relaxed);
        time > 0 && Duration::from_nanos(time) < SHORT
    }

    /// The shardings of a program for several partitions.
    pub(crate) fn shardings(&self) -> Option<&Shardings> {
        match &self.engine {
            Engine::One(_) => None,
            Engine::Several(spmd) => spmd.shardings(),
        }
    }

    /// The program that a device runs, in a form for front ends: the original program, or for
    /// several devices the StableHLO of each device's program with its collectives.
    ///
    /// # Errors
    /// StableHLO cannot express an operation.
    pub(crate) fn of_device(&self) -> Result<(&str, &[u8]), Error> {
        let Engine::Several(spmd) = &self.engine else {
            return Ok((&self.source.format, &self.source.code));
        };
        if let Some(known) = self.of_device.get() {
            return Ok(("mlir", known));
        }
        let raised = tegula_stablehlo::from_module(&spmd.program).map_err(tegula::Error::from)?;
        let text = tegula_stablehlo::print(&raised, tegula_stablehlo::Form::default());
        Ok(("mlir", self.of_device.get_or_init(|| text.into_bytes())))
    }

    /// The machine code.
    ///
    /// # Errors
    /// The code cannot be serialised, or the program would be different where it is loaded.
    pub(crate) fn machine_code(&self) -> Result<Vec<u8>, Error> {
        if self.is_custom_partitioned {
            return Err(unimplemented(
                "serialising a program with custom partitioning, whose functions only this process knows,",
            ));
        }
        Ok(self.engine.executable()?.serialize()?)
    }

    /// The number of bytes that a run uses besides arguments and results, if sizes are known.
    pub(crate) fn temporary_bytes(&self) -> i64 {
        let executable = self.engine.executable().ok();
        let plan = executable.and_then(|executable| executable.backend().plan());
        plan.and_then(|plan| plan.arena_bytes.as_constant())
            .unwrap_or(0)
    }
}

/// The entries of JAX's cost analysis for the program of one device, under XLA's names.
fn costs(executable: &tegula::Executable) -> Vec<(String, Value)> {
    let Some(work) = executable.work() else {
        return Vec::new();
    };
    // XLA does not count a transcendental function as a floating-point operation.
    let costs = [
        ("flops", work.operations - work.transcendentals),
        ("transcendentals", work.transcendentals),
        ("bytes accessed", work.bytes),
    ];
    costs
        .map(|(name, cost)| (name.to_owned(), Value::Float(cost as f32)))
        .into()
}

fn compile_options(threads: usize) -> Result<tegula::Options, Error> {
    Ok(tegula::Options {
        threads,
        cache: tegula::Cache::from_environment()
            .map_err(tegula::Error::from)?
            .asked(),
        ..tegula::Options::default()
    })
}

impl Engine {
    fn one(module: &Module, threads: usize, machine_code: Option<Vec<u8>>) -> Result<Self, Error> {
        let loaded = machine_code.and_then(|code| {
            // SAFETY: front ends return bytes that they got from `serialize`; `deserialize` checks
            // them for damage.
            unsafe { tegula::Executable::deserialize(code, threads) }.ok()
        });
        let executable = match loaded {
            Some(executable) => executable,
            None => tegula::compile(module, &compile_options(threads)?)?,
        };
        Ok(Self::One(Box::new(executable)))
    }

    /// The partitions of a program get parts of its arrays; the replicas get separate arrays with
    /// the shapes that it states.
    fn several(
        module: &Module,
        options: &CompileOptions,
        topology: Topology,
        threads: usize,
        machine_code: Option<Vec<u8>>,
    ) -> Result<Self, Error> {
        // SAFETY: front ends return bytes that they got from `serialize`; `deserialize` checks them
        // for damage.
        let machine_code = machine_code.map(|code| unsafe { MachineCode::new(code) });
        let compile = compile_options(threads)?;
        let mut module = module.clone();
        module.attributes.replica_count = i64::try_from(topology.replicas).ok();
        module.attributes.num_partitions = i64::try_from(topology.partitions).ok();
        if topology.partitions == 1 {
            let spmd = SpmdExecutable::alike(&module, topology, &compile, machine_code)?;
            return Ok(Self::Several(Box::new(spmd)));
        }
        let entry = module.entry_computation();
        let parameters = entry.parameters.iter();
        let parameters: usize = parameters.map(|&id| module[id].shape.leaf_count()).sum();
        let results = module[entry.root].shape.leaf_count();
        let how = tegula::partition::Options {
            devices: Some(topology.partitions),
            parameters: freedom(&options.free_parameters, parameters),
            results: freedom(&options.free_results, results),
            calls: crate::extensions::registered(),
        };
        let spmd = SpmdExecutable::partitioned(&module, &how, &compile, machine_code)?;
        Ok(Self::Several(Box::new(spmd)))
    }

    /// The program that one device runs.
    fn executable(&self) -> Result<&tegula::Executable, Error> {
        match self {
            Self::One(executable) => Ok(executable),
            Self::Several(spmd) => spmd
                .device_executable()
                .ok_or_else(|| Error::internal("expected a compiled program")),
        }
    }
}

/// The freedom for a list of flags, which has an entry for each array, or one for all. JAX does not
/// support arrays of unequal parts.
fn freedom(flags: &[bool], arrays: usize) -> Freedom {
    Freedom::EqualParts(match flags {
        &[all] => vec![all; arrays],
        flags => flags.to_vec(),
    })
}

fn read(source: &Source) -> Result<Module, Error> {
    match source.format.as_str() {
        "mlir" => {}
        "hlo" if std::str::from_utf8(&source.code).is_ok_and(|t| t.contains("HloModule")) => {}
        "hlo" | "hlo_with_config" => {
            let what = "reading HLO as a protocol buffer (HLO text and StableHLO are read)";
            return Err(unimplemented(what));
        }
        other => {
            let message = format!("unknown program format {other:?}: expected mlir or hlo");
            return Err(Error::new(Code::InvalidArgument, message));
        }
    }
    Ok(tegula::Module::from_bytes(source.code.clone())?.into_program())
}

/// The arrays in a shape from left to right, with [`None`] for each token.
fn leaves(shape: &Shape) -> Vec<Option<&ArrayShape>> {
    let mut leaves = Vec::new();
    shape.for_each_leaf(&mut |leaf| leaves.push(leaf.as_array()));
    leaves
}

/// The size of a dimension that only a run determines.
const UNKNOWN: i64 = i64::MIN;

fn static_dims(shape: &ArrayShape) -> Vec<i64> {
    let dims = shape
        .dims
        .iter()
        .map(|dim| dim.as_static().unwrap_or(UNKNOWN));
    dims.collect()
}

/// Whether a program calls external functions, which may have side effects and use the data of
/// their execution.
fn calls_outside(module: &Module) -> bool {
    let mut instructions = module.instructions.values();
    instructions.any(|instruction| match &instruction.op {
        Op::CustomCall(call) => !is_built_in(&call.target) && !is_library_routine(&call.target),
        _ => false,
    })
}

/// Whether a program has calls that functions of the front end partition.
fn has_custom_partitioning(module: &Module) -> bool {
    let mut instructions = module.instructions.values();
    instructions.any(|instruction| match &instruction.op {
        Op::CustomCall(call) => crate::extensions::is_custom_partitioned(&call.target),
        _ => false,
    })
}

fn parameters(module: &Module, executable: &tegula::Executable) -> Vec<Parameter> {
    let entry = module.entry_computation();
    let attributes = &module.attributes;
    let mut parameters = Vec::new();
    let mut arrays = 0;
    for (number, &parameter) in entry.parameters.iter().enumerate() {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let aliases = attributes
            .input_output_alias
            .iter()
            .map(|alias| alias.parameter);
        let donors = attributes.buffer_donor.iter().map(|(donor, _)| *donor);
        let is_donated = aliases.chain(donors).any(|donated| donated == number);
        for leaf in leaves(&module[parameter].shape) {
            let order = leaf.and_then(|_| executable.parameter_order(arrays));
            arrays += usize::from(leaf.is_some());
            parameters.push(Parameter {
                shape: leaf.cloned(),
                bytes: leaf.and_then(ArrayShape::byte_size).unwrap_or(0),
                layout: layout(order, leaf.map_or(0, ArrayShape::rank)),
                is_donated: is_donated && leaf.is_some(),
            });
        }
    }
    parameters
}

/// In a program for several devices, front ends do not know whether a donated array fits a result.
/// An array that has the size of no result is not donated. Each result is matched with one array.
fn keep_useful_donations(module: &Module, parameters: &mut [Parameter]) {
    let entry = module.entry_computation();
    let shape = |leaf: Option<&ArrayShape>| leaf.and_then(ArrayShape::byte_size);
    let results = leaves(&module[entry.root].shape).into_iter();
    let mut results: Vec<_> = results.filter_map(shape).collect();
    let given = entry.parameters.iter();
    let given = given.flat_map(|&id| leaves(&module[id].shape));
    for (parameter, given) in parameters.iter_mut().zip(given) {
        if parameter.is_donated {
            let given = shape(given);
            let place = results
                .iter()
                .position(|result| Some(result) == given.as_ref());
            parameter.is_donated = place.is_some();
            if let Some(place) = place {
                results.swap_remove(place);
            }
        }
    }
}

fn layout(order: Option<&[usize]>, rank: usize) -> Dense {
    let order = order.filter(|order| order.len() == rank);
    order.map_or_else(
        || Dense::row_major(rank),
        |order| Dense::new(order.to_vec()),
    )
}

impl Results {
    fn new(module: &Module, executable: &tegula::Executable) -> Self {
        let mut results = Self {
            types: Vec::new(),
            dims: Vec::new(),
            ranks: Vec::new(),
            layouts: Vec::new(),
            bytes: 0,
        };
        let mut arrays = 0;
        for leaf in leaves(&module[module.entry_computation().root].shape) {
            let rank = leaf.map_or(0, ArrayShape::rank);
            let order = leaf.and_then(|_| executable.result_order(arrays));
            let element_type = leaf.map(|shape| element::to_c(shape.element_type));
            arrays += usize::from(leaf.is_some());
            results
                .types
                .push(element_type.unwrap_or(PJRT_Buffer_Type_TOKEN));
            results
                .dims
                .extend(leaf.map(static_dims).unwrap_or_default());
            results.ranks.push(rank);
            results.layouts.push(layout(order, rank));
            results.bytes += leaf.and_then(ArrayShape::byte_size).unwrap_or(0);
        }
        results
    }

    pub(crate) fn len(&self) -> usize {
        self.types.len()
    }
}
