//! Programs: what a front end gives to be compiled, and what it may ask of the result.

use crate::c_api::*;
use crate::element;
use crate::entry::unimplemented;
use crate::error::{Code, Error};
use crate::fingerprint;
use crate::layout::Dense;
use crate::named::Attributes;
use crate::options::CompileOptions;
use crate::sharding::Shardings;
use std::ffi::c_char;
use tegula_ir::{ArrayShape, Module, Shape};

/// A program as it came, with its options: all that is needed to compile it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) format: String,
    pub(crate) code: Vec<u8>,
    pub(crate) options: Vec<u8>,
}

/// A compiled program.
pub(crate) struct Program {
    pub(crate) executable: tegula::Executable,
    pub(crate) source: Source,
    pub(crate) options: CompileOptions,
    pub(crate) name: String,
    pub(crate) fingerprint: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) results: Results,
    pub(crate) costs: Attributes,
    /// Of a program for several devices.
    pub(crate) shardings: Option<Shardings>,
}

/// An array that a program takes, or a token.
pub(crate) struct Parameter {
    /// A token says only that what gave it is done: the program is not given it.
    pub(crate) is_token: bool,
    pub(crate) bytes: i64,
    pub(crate) layout: Dense,
    /// Of the whole array, whatever part a device has.
    pub(crate) dims: Vec<i64>,
    /// Whether the program may take its memory.
    pub(crate) is_donated: bool,
}

/// The arrays that a program gives, in the forms in which C asks for them.
pub(crate) struct Results {
    pub(crate) types: Vec<PJRT_Buffer_Type>,
    /// Of all of them, one after the other; of what each device gets.
    pub(crate) dims: Vec<i64>,
    /// The dimensions of whole arrays, of a program for several devices.
    pub(crate) wholes: Vec<Vec<i64>>,
    pub(crate) ranks: Vec<usize>,
    pub(crate) layouts: Vec<Dense>,
    pub(crate) bytes: i64,
}

/// The kind of memory of parameters and results, once for each.
pub(crate) struct Kinds {
    pub(crate) names: Vec<*const c_char>,
    pub(crate) sizes: Vec<usize>,
}

// SAFETY: names of static strings.
unsafe impl Send for Kinds {}
// SAFETY: as above.
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
    pub(crate) fn compile(source: Source, threads: usize) -> Result<Self, Error> {
        Self::new(source, threads, None)
    }

    /// A program whose bytes were read: its machine code is used if it is for
    /// this CPU and of this build, else it is compiled.
    pub(crate) fn load(
        source: Source,
        threads: usize,
        machine_code: Vec<u8>,
    ) -> Result<Self, Error> {
        Self::new(source, threads, Some(machine_code))
    }

    fn new(source: Source, threads: usize, machine_code: Option<Vec<u8>>) -> Result<Self, Error> {
        let options = CompileOptions::read(&source.options)?;
        if options.replicas != 1 {
            let what = format!("a program for {} replicas", options.replicas);
            return Err(unimplemented(&what));
        }
        let module = read(&source)?;
        let loaded = machine_code.and_then(|code| {
            // SAFETY: front ends give back what they were given, and that it was not damaged was
            // checked.
            unsafe { tegula::Executable::deserialize(code, threads) }.ok()
        });
        let executable = match loaded {
            Some(executable) => executable,
            None => {
                let options = tegula::Options {
                    threads,
                    cache: tegula::Cache::from_environment()
                        .map_err(tegula::Error::from)?
                        .asked(),
                    ..tegula::Options::default()
                };
                tegula::compile(&module, &options)?
            }
        };
        let version = crate::client::VERSION.as_bytes();
        let parts = [
            version,
            source.format.as_bytes(),
            &source.code,
            &source.options,
        ];
        let costs = Vec::new();
        let parameters = parameters(&module, &executable);
        let mut results = Results::new(&module, &executable);
        let shardings = match usize::try_from(options.partitions) {
            Ok(0 | 1) | Err(_) => None,
            Ok(devices) => Some(shardings(&source, &parameters, &mut results, devices)?),
        };
        Ok(Self {
            shardings,
            name: module.name.to_string(),
            fingerprint: format!("{:016x}", fingerprint::of(&parts)),
            parameters,
            results,
            costs: Attributes::new(costs),
            executable,
            source,
            options,
        })
    }
}

impl Program {
    /// How many devices an execution has.
    pub(crate) fn device_count(&self) -> usize {
        let count = self.shardings.is_some().then_some(self.options.partitions);
        count
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(1)
    }

    /// Bytes that a run takes besides arguments and results, where sizes are known.
    pub(crate) fn temporary_bytes(&self) -> i64 {
        let plan = self.executable.backend().plan();
        plan.and_then(|plan| plan.arena_bytes.as_constant())
            .unwrap_or(0)
    }
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
            let message = format!("there is no program format {other:?}: expected mlir or hlo");
            return Err(Error::new(Code::InvalidArgument, message));
        }
    }
    Ok(tegula::read_program(source.code.clone(), &[])?)
}

/// What a program for several devices says of its arrays. Its results become parts of arrays.
fn shardings(
    source: &Source,
    parameters: &[Parameter],
    results: &mut Results,
    devices: usize,
) -> Result<Shardings, Error> {
    if source.format != "mlir" {
        return Err(unimplemented("HLO for several devices"));
    }
    let read = tegula_stablehlo::read(source.code.clone());
    let module = read.map_err(tegula::Error::from)?;
    let given: Vec<Vec<i64>> = parameters.iter().map(|p| p.dims.clone()).collect();
    let wholes = results.wholes();
    let shardings = Shardings::read(&module, &given, &wholes, devices)?;
    let parts = wholes.iter().zip(&shardings.results);
    results.dims = parts
        .flat_map(|(dims, sharding)| sharding.part(dims))
        .collect();
    results.wholes = wholes;
    Ok(shardings)
}

/// The arrays of a shape from the outside in, with [`None`] for each token.
fn leaves(shape: &Shape) -> Vec<Option<&ArrayShape>> {
    let mut leaves = Vec::new();
    shape.for_each_leaf(&mut |leaf| leaves.push(leaf.as_array()));
    leaves
}

/// The size of a dimension that only a run knows.
const UNKNOWN: i64 = i64::MIN;

fn static_dims(shape: &ArrayShape) -> Vec<i64> {
    let dims = shape
        .dims
        .iter()
        .map(|dim| dim.as_static().unwrap_or(UNKNOWN));
    dims.collect()
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
                is_token: leaf.is_none(),
                bytes: leaf.and_then(ArrayShape::byte_size).unwrap_or(0),
                layout: layout(order, leaf.map_or(0, ArrayShape::rank)),
                dims: leaf.map(static_dims).unwrap_or_default(),
                is_donated: is_donated && leaf.is_some(),
            });
        }
    }
    parameters
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
            wholes: Vec::new(),
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

    /// The dimensions of each.
    fn wholes(&self) -> Vec<Vec<i64>> {
        let mut rest = self.dims.as_slice();
        let split = self.ranks.iter().map(|&rank| {
            let (dims, after) = rest.split_at(rank);
            rest = after;
            dims.to_vec()
        });
        split.collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.types.len()
    }
}
