//! Executables: compiled programs, and programs that a client has loaded on its devices.

use crate::c_api::*;
use crate::client::Client;
use crate::device::Device;
use crate::dispatch::Dispatch;
use crate::entry::{Object, entries};
use crate::error::{Code, Error};
use crate::layout::Dense;
use crate::pointers::slice;
use crate::program::{Engine, Kinds, Program, Source};
use crate::protobuf::{put, put_message, put_packed};
use crate::serialize;
use crate::sharding::to_proto;
use std::ffi::c_char;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tegula::Topology;
use tegula::network::Network;
use tegula::partition::{Sharding, Unreduced};

/// A compiled program.
pub(crate) struct Executable {
    pub(crate) program: Arc<Program>,
    parameter_kinds: Kinds,
    result_kinds: Kinds,
    pub(crate) parameter_layouts: Vec<*mut PJRT_Layouts_MemoryLayout>,
    pub(crate) result_layouts: Vec<*mut PJRT_Layouts_MemoryLayout>,
    pub(crate) parameter_shardings: Protos,
    pub(crate) result_shardings: Protos,
}

/// Serialised messages, with the pointers and sizes that the C API uses.
#[derive(Default)]
pub(crate) struct Protos {
    _messages: Vec<Vec<u8>>,
    pub(crate) starts: Vec<*const c_char>,
    pub(crate) sizes: Vec<usize>,
}

impl Protos {
    fn new(shardings: &[Sharding], unreduced: &[Option<Unreduced>]) -> Self {
        let pairs = shardings.iter().zip(unreduced);
        let messages = pairs.map(|(sharding, unreduced)| to_proto(sharding, unreduced.as_ref()));
        let messages: Vec<Vec<u8>> = messages.collect();
        Self {
            starts: messages
                .iter()
                .map(|message| message.as_ptr().cast())
                .collect(),
            sizes: messages.iter().map(Vec::len).collect(),
            _messages: messages,
        }
    }
}

// SAFETY: its pointers are to static names and to its program, and it is not modified after it is
// made.
unsafe impl Send for Executable {}
// SAFETY: its pointers are to static names and to its program, and it is not modified after it is
// made.
unsafe impl Sync for Executable {}

impl Object for Executable {
    type Handle = PJRT_Executable;
    const NAME: &'static str = "executable";
}

impl Executable {
    fn new(program: Arc<Program>) -> Self {
        let handle = |layout: &Dense| (&raw const *layout).cast_mut().cast();
        let shardings = program.shardings();
        let parameters =
            shardings.map(|found| Protos::new(&found.parameters, &found.unreduced_parameters));
        let results = shardings.map(|found| Protos::new(&found.results, &found.unreduced_results));
        Self {
            parameter_shardings: parameters.unwrap_or_default(),
            result_shardings: results.unwrap_or_default(),
            parameter_kinds: Kinds::device(program.parameters.len()),
            result_kinds: Kinds::device(program.results.len()),
            parameter_layouts: program
                .parameters
                .iter()
                .map(|p| handle(&p.layout))
                .collect(),
            result_layouts: program.results.layouts.iter().map(handle).collect(),
            program,
        }
    }
}

/// An executable that is loaded on a client's devices.
pub(crate) struct Loaded {
    pub(crate) program: Arc<Program>,
    /// The devices of this process, by replica and then by partition.
    devices: Vec<*mut PJRT_Device>,
    logical_ids: Vec<PJRT_LogicalDeviceIds>,
    /// The other processes that run the program.
    others: Option<Others>,
    dispatch: Option<Arc<Dispatch>>,
    is_deleted: AtomicBool,
}

// SAFETY: its pointers are to the client's devices, and the client outlives it.
unsafe impl Send for Loaded {}
// SAFETY: its pointers are to the client's devices, and the client outlives it.
unsafe impl Sync for Loaded {}

impl Object for Loaded {
    type Handle = PJRT_LoadedExecutable;
    const NAME: &'static str = "loaded executable";
}

/// The processes that run a program together.
struct Others {
    network: Arc<Network>,
    /// The process and the id of each device, by replica and then by partition.
    devices: Vec<(usize, i64)>,
    /// The program's number.
    program: u64,
}

impl Loaded {
    fn new(program: Arc<Program>, client: &Client) -> Result<Self, Error> {
        let assigned = program.options.devices.iter();
        let assigned: Result<Vec<_>, Error> = assigned
            .map(|&id| Ok(client.device(id)?.handle()))
            .collect();
        let mut devices = assigned?;
        let topology = program.topology();
        let count = topology.devices();
        if devices.is_empty() && !program.options.portable {
            devices.extend(client.default_devices(count));
        }
        if program.options.portable && count == 1 {
            devices.clear();
        } else if devices.len() != count {
            let assigned = devices.len();
            let message = format!("the program needs {count} devices, but {assigned} are assigned");
            return Err(Error::invalid(message));
        }
        let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        // SAFETY: the pointers are to devices of the client and live as long as it does.
        let known = devices.iter().map(|&device| unsafe { Device::of(device) });
        let known: Vec<&Device> = known.collect::<Result<_, _>>()?;
        let own: Vec<bool> = known
            .iter()
            .map(|device| device.process == client.process())
            .collect();
        let network = client.network.as_ref();
        let network = network.filter(|_| own.contains(&false));
        let others = network.map(|network| Others {
            network: Arc::clone(network),
            devices: known
                .iter()
                .map(|device| (device.process, i64::from(device.id)))
                .collect(),
            program: program.number(),
        });
        let ids = (0..devices.len()).map(|device| PJRT_LogicalDeviceIds {
            replica: number(topology.replica(device)),
            partition: number(topology.partition(device)),
        });
        let ids = ids.zip(&own).filter(|(_, own)| **own);
        let devices = devices.iter().zip(&own).filter(|(_, own)| **own);
        Ok(Self {
            logical_ids: ids.map(|(ids, _)| ids).collect(),
            devices: devices.map(|(&device, _)| device).collect(),
            others,
            program,
            dispatch: client.dispatch.clone(),
            is_deleted: AtomicBool::new(false),
        })
    }

    /// Begins a run with other processes; [`None`] if there are none, or if only they run.
    pub(crate) fn begin(&self) -> Option<tegula::network::Run> {
        let others = self.others.as_ref().filter(|_| !self.devices.is_empty())?;
        Some(others.network.begin(&others.devices, others.program))
    }

    /// The devices of an execution in this process: those that it names, or else the executable's
    /// own. There are none if all of them belong to other processes.
    pub(crate) fn devices<'a>(
        &'a self,
        named: &'a *mut PJRT_Device,
    ) -> Result<&'a [*mut PJRT_Device], Error> {
        match &self.program.engine {
            Engine::One(_) if !named.is_null() => Ok(std::slice::from_ref(named)),
            _ if self.devices.is_empty() && self.others.is_none() => {
                let message = "the executable runs on any device: name one for this run";
                Err(Error::invalid(message))
            }
            _ => Ok(&self.devices),
        }
    }

    /// The dispatcher of asynchronous runs; [`None`] if the client waits for each run.
    pub(crate) fn dispatch(&self) -> Option<&Dispatch> {
        self.dispatch.as_deref()
    }

    /// # Errors
    /// The executable was deleted.
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        match self.is_deleted.load(Ordering::Acquire) {
            false => Ok(()),
            true => {
                let message = "the executable has been deleted";
                Err(Error::new(Code::FailedPrecondition, message))
            }
        }
    }
}

/// Reads a program that is passed through the C API.
///
/// # Safety
/// The program is valid, and the options have `size` bytes.
unsafe fn source(
    program: *const PJRT_Program,
    options: *const c_char,
    options_size: usize,
) -> Result<Source, Error> {
    // SAFETY: the caller promises that the program is valid, and the options have the stated number
    // of bytes.
    unsafe {
        let program = program.as_ref();
        let program = program.ok_or_else(|| Error::invalid("the program is null"))?;
        let format = slice(program.format.cast::<u8>(), program.format_size);
        Ok(Source {
            format: String::from_utf8_lossy(format).into_owned(),
            code: slice(program.code.cast::<u8>(), program.code_size).to_vec(),
            options: slice(options.cast::<u8>(), options_size).to_vec(),
        })
    }
}

/// Passes ownership of bytes to C. Returns their address and number, and the owner that [`free`]
/// takes.
fn owned(bytes: Vec<u8>) -> (*const c_char, usize, *mut Vec<u8>) {
    let bytes = Box::new(bytes);
    (bytes.as_ptr().cast(), bytes.len(), Box::into_raw(bytes))
}

/// # Safety
/// The pointer is the owner from [`owned`], or null.
unsafe fn free(bytes: *mut Vec<u8>) {
    if !bytes.is_null() {
        // SAFETY: the caller promises a pointer from `owned`, or null.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

/// # Safety
/// As [`free`].
unsafe extern "C" fn free_executable(bytes: *mut PJRT_SerializedExecutable) {
    // SAFETY: the caller promises that the pointer is an owner from [`owned`], or null.
    unsafe { free(bytes.cast()) };
}

/// # Safety
/// As [`free`].
unsafe extern "C" fn free_options(bytes: *mut PJRT_SerializedCompileOptions) {
    // SAFETY: the caller promises that the pointer is an owner from [`owned`], or null.
    unsafe { free(bytes.cast()) };
}

/// # Safety
/// As [`free`].
unsafe extern "C" fn free_assignment(bytes: *mut PJRT_DeviceAssignmentSerialized) {
    // SAFETY: the caller promises that the pointer is an owner from [`owned`], or null.
    unsafe { free(bytes.cast()) };
}

/// Writes an `xla.DeviceAssignmentProto`: field 1 is the number of replicas, 2 that of partitions,
/// 3 has a message for each partition, whose field 1 is the devices of its replicas. `devices` are
/// ordered by replica and then by partition.
fn device_assignment(devices: &[i64], topology: Topology) -> Vec<u8> {
    let mut bytes = vec![8];
    put(&mut bytes, topology.replicas as u64);
    bytes.push(16);
    put(&mut bytes, topology.partitions as u64);
    for partition in 0..topology.partitions {
        let own = devices.iter().skip(partition).step_by(topology.partitions);
        let own: Vec<i64> = own.copied().collect();
        let mut computation = Vec::new();
        put_packed(&mut computation, 1, &own);
        put_message(&mut bytes, 3, &computation);
    }
    bytes
}

fn load(bytes: &[u8], overridden: &[u8], client: &Client) -> Result<Loaded, Error> {
    let (mut source, machine_code) = serialize::read(bytes)?;
    if !overridden.is_empty() {
        source.options = overridden.to_vec();
    }
    let program = Program::load(source, client, machine_code)?;
    Loaded::new(Arc::new(program), client)
}

// The API requires that objects are valid, and that pointers have as many elements as stated.
entries! {
    fn PJRT_Client_Compile(args: PJRT_Client_Compile_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let (client, source) = unsafe {
            let source = source(args.program, args.compile_options, args.compile_options_size)?;
            (Client::of(args.client)?, source)
        };
        let program = Arc::new(Program::compile(source, client)?);
        args.executable = Loaded::new(program, client)?.into_handle();
    }
    fn PJRT_Compile(args: PJRT_Compile_Args) {
        // SAFETY: the API requires valid handles of our objects; topologies are clients.
        let (client, source) = unsafe {
            let source = source(args.program, args.compile_options, args.compile_options_size)?;
            (Client::of(args.topology.cast())?, source)
        };
        let program = Arc::new(Program::compile(source, client)?);
        args.executable = Executable::new(program).into_handle();
    }
    fn PJRT_Client_Load(args: PJRT_Client_Load_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let (client, executable) = unsafe {
            (Client::of(args.client)?, Executable::of(args.executable)?)
        };
        let program = Arc::clone(&executable.program);
        args.loaded_executable = Loaded::new(program, client)?.into_handle();
    }
    fn PJRT_Executable_DeserializeAndLoad(
        args: PJRT_Executable_DeserializeAndLoad_Args up to loaded_executable
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let (client, bytes, overridden) = unsafe {
            let bytes = slice(
                args.serialized_executable.cast::<u8>(),
                args.serialized_executable_size,
            );
            let overridden = slice(
                args.overridden_serialized_compile_options.cast::<u8>(),
                args.overridden_serialized_compile_options_size,
            );
            (Client::of(args.client)?, bytes, overridden)
        };
        args.loaded_executable = load(bytes, overridden, client)?.into_handle();
    }
    fn PJRT_Executable_Serialize(args: PJRT_Executable_Serialize_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let executable = unsafe { Executable::of(args.executable) }?;
        let program = &executable.program;
        let machine_code = program.machine_code()?;
        let (bytes, size, owner) = owned(serialize::write(&program.source, &machine_code));
        args.serialized_bytes = bytes;
        args.serialized_bytes_size = size;
        args.serialized_executable = owner.cast();
        args.serialized_executable_deleter = Some(free_executable);
    }
    fn PJRT_Executable_GetCompileOptions(args: PJRT_Executable_GetCompileOptions_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let executable = unsafe { Executable::of(args.executable) }?;
        let (bytes, size, owner) = owned(executable.program.source.options.clone());
        args.serialized_bytes = bytes;
        args.serialized_bytes_size = size;
        args.serialized_compile_options = owner.cast();
        args.serialized_compile_options_deleter = Some(free_options);
    }
    fn PJRT_Executable_Destroy(args: PJRT_Executable_Destroy_Args) {
        // SAFETY: the API requires that the caller owns it and does not use it again.
        unsafe { Executable::destroy(args.executable) };
    }
    fn PJRT_Executable_Name(args: PJRT_Executable_Name_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let name = unsafe { &Executable::of(args.executable)?.program.name };
        args.executable_name = name.as_ptr().cast();
        args.executable_name_size = name.len();
    }
    fn PJRT_Executable_NumReplicas(args: PJRT_Executable_NumReplicas_Args) {
        // SAFETY: the API requires valid handles of our objects.
        args.num_replicas = unsafe { Executable::of(args.executable) }?.program.topology().replicas;
    }
    fn PJRT_Executable_NumPartitions(args: PJRT_Executable_NumPartitions_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let topology = unsafe { Executable::of(args.executable) }?.program.topology();
        args.num_partitions = topology.partitions;
    }
    fn PJRT_Executable_NumOutputs(args: PJRT_Executable_NumOutputs_Args) {
        // SAFETY: the API requires valid handles of our objects.
        args.num_outputs = unsafe { Executable::of(args.executable) }?.program.results.len();
    }
    fn PJRT_Executable_SizeOfGeneratedCodeInBytes(
        args: PJRT_Executable_SizeOfGeneratedCodeInBytes_Args
    ) {
        // The size is not measured.
        args.size_in_bytes = -1;
    }
    fn PJRT_Executable_Fingerprint(args: PJRT_Executable_Fingerprint_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let text = unsafe { &Executable::of(args.executable)?.program.fingerprint };
        args.executable_fingerprint = text.as_ptr().cast();
        args.executable_fingerprint_size = text.len();
    }
    fn PJRT_Executable_GetCostAnalysis(args: PJRT_Executable_GetCostAnalysis_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let costs = unsafe { &Executable::of(args.executable)?.program.costs };
        args.properties = costs.as_ptr();
        args.num_properties = costs.len();
    }
    fn PJRT_Executable_GetCompiledMemoryStats(
        args: PJRT_Executable_GetCompiledMemoryStats_Args up to temp_size_in_bytes
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let program = unsafe { &Executable::of(args.executable)?.program };
        let arguments: i64 = program.parameters.iter().map(|p| p.bytes).sum();
        let donated = program.parameters.iter().filter(|p| p.is_donated);
        args.generated_code_size_in_bytes = 0;
        args.argument_size_in_bytes = arguments;
        args.output_size_in_bytes = program.results.bytes;
        args.alias_size_in_bytes = donated.map(|p| p.bytes).sum();
        args.temp_size_in_bytes = program.temporary_bytes();
        let beside = program.results.bytes + args.temp_size_in_bytes - args.alias_size_in_bytes;
        args.peak_memory_in_bytes = arguments + beside;
        args.total_size_in_bytes = args.peak_memory_in_bytes;
        args.total_allocation_bytes = beside;
        args.indefinite_allocations = 0;
        args.peak_unpadded_heap_bytes = args.temp_size_in_bytes;
        // All memory belongs to the device.
        args.host_generated_code_size_in_bytes = 0;
        args.host_argument_size_in_bytes = 0;
        args.host_output_size_in_bytes = 0;
        args.host_alias_size_in_bytes = 0;
        args.host_temp_size_in_bytes = 0;
    }
    fn PJRT_Executable_OutputElementTypes(args: PJRT_Executable_OutputElementTypes_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let results = unsafe { &Executable::of(args.executable)?.program.results };
        args.output_types = results.types.as_ptr().cast_mut();
        args.num_output_types = results.len();
    }
    fn PJRT_Executable_OutputDimensions(args: PJRT_Executable_OutputDimensions_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let results = unsafe { &Executable::of(args.executable)?.program.results };
        args.num_outputs = results.len();
        args.dims = results.dims.as_ptr();
        args.dim_sizes = results.ranks.as_ptr();
    }
    fn PJRT_Executable_ParameterMemoryKinds(args: PJRT_Executable_ParameterMemoryKinds_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let kinds = unsafe { &Executable::of(args.executable)?.parameter_kinds };
        args.num_parameters = kinds.names.len();
        args.memory_kinds = kinds.names.as_ptr();
        args.memory_kind_sizes = kinds.sizes.as_ptr();
    }
    fn PJRT_Executable_OutputMemoryKinds(args: PJRT_Executable_OutputMemoryKinds_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let kinds = unsafe { &Executable::of(args.executable)?.result_kinds };
        args.num_outputs = kinds.names.len();
        args.memory_kinds = kinds.names.as_ptr();
        args.memory_kind_sizes = kinds.sizes.as_ptr();
    }
    /// The program that a device runs. If the caller provides no buffer, only its size is returned.
    fn PJRT_Executable_OptimizedProgram(args: PJRT_Executable_OptimizedProgram_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let (source, program) = unsafe {
            let program = args.program.as_mut();
            let program = program.ok_or_else(|| Error::invalid("the program is null"))?;
            (&Executable::of(args.executable)?.program, program)
        };
        let (format, code) = source.of_device()?;
        program.format = format.as_ptr().cast();
        program.format_size = format.len();
        if program.code.is_null() {
            program.code_size = code.len();
        } else if program.code_size < code.len() {
            return Err(Error::invalid("the caller's buffer is too small for the program"));
        } else {
            // SAFETY: there is room for it.
            unsafe {
                program.code.cast::<u8>().copy_from_nonoverlapping(code.as_ptr(), code.len());
            }
        }
    }

    fn PJRT_LoadedExecutable_Destroy(args: PJRT_LoadedExecutable_Destroy_Args) {
        // SAFETY: the API requires that the caller owns it and does not use it again.
        unsafe { Loaded::destroy(args.executable) };
    }
    fn PJRT_LoadedExecutable_GetExecutable(args: PJRT_LoadedExecutable_GetExecutable_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let loaded = unsafe { Loaded::of(args.loaded_executable) }?;
        args.executable = Executable::new(Arc::clone(&loaded.program)).into_handle();
    }
    fn PJRT_LoadedExecutable_AddressableDevices(
        args: PJRT_LoadedExecutable_AddressableDevices_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let devices = unsafe { &Loaded::of(args.executable)?.devices };
        args.addressable_devices = devices.as_ptr();
        args.num_addressable_devices = devices.len();
    }
    fn PJRT_LoadedExecutable_AddressableDeviceLogicalIds(
        args: PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let ids = unsafe { &Loaded::of(args.executable)?.logical_ids };
        args.addressable_device_logical_ids = ids.as_ptr().cast_mut();
        args.num_addressable_device_logical_ids = ids.len();
    }
    fn PJRT_LoadedExecutable_GetDeviceAssignment(
        args: PJRT_LoadedExecutable_GetDeviceAssignment_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let loaded = unsafe { Loaded::of(args.executable) }?;
        let devices = match loaded.program.options.devices.as_slice() {
            [] => &[0],
            devices => devices,
        };
        let (bytes, size, owner) = owned(device_assignment(devices, loaded.program.topology()));
        args.serialized_bytes = bytes;
        args.serialized_bytes_size = size;
        args.serialized_device_assignment = owner.cast();
        args.serialized_device_assignment_deleter = Some(free_assignment);
    }
    fn PJRT_LoadedExecutable_Delete(args: PJRT_LoadedExecutable_Delete_Args) {
        // SAFETY: the API requires valid handles of our objects.
        unsafe { Loaded::of(args.executable) }?.is_deleted.store(true, Ordering::Release);
    }
    fn PJRT_LoadedExecutable_IsDeleted(args: PJRT_LoadedExecutable_IsDeleted_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let loaded = unsafe { Loaded::of(args.executable) }?;
        args.is_deleted = loaded.is_deleted.load(Ordering::Acquire);
    }
    fn PJRT_LoadedExecutable_Fingerprint(args: PJRT_LoadedExecutable_Fingerprint_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let text = unsafe { &Loaded::of(args.executable)?.program.fingerprint };
        args.executable_fingerprint = text.as_ptr().cast();
        args.executable_fingerprint_size = text.len();
    }
}
