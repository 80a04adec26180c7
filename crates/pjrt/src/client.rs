//! The client, which front ends create first and use for everything else.

use crate::c_api::*;
use crate::device::{self, Device, Memory, PLATFORM};
use crate::dispatch::Dispatch;
use crate::entry::{Object, entries};
use crate::error::Error;
use crate::named::{self, Value};
use crate::pointers::slice;
use crate::processes::{Asked, Store};
use std::num::NonZero;
use std::sync::{Arc, LazyLock};
use tegula::network::Network;

/// The maximum number of devices of a client.
const MAX_DEVICES: i64 = 1024;
/// The maximum number of threads of a run.
const MAX_THREADS: i64 = 4096;

/// The version text, which front ends hash into the keys of their caches.
pub(crate) static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("tegula {}", env!("CARGO_PKG_VERSION")));

/// A client of a front end.
#[allow(clippy::vec_box, reason = "handles lead to devices and memories")]
pub(crate) struct Client {
    /// The devices of all processes, by process; their ids are their places.
    devices: Vec<Box<Device>>,
    _memories: Vec<Box<Memory>>,
    device_handles: Vec<*mut PJRT_Device>,
    /// The devices of this process, and their memories.
    own_devices: Vec<*mut PJRT_Device>,
    own_memories: Vec<*mut PJRT_Memory>,
    /// The connections to other processes.
    pub(crate) network: Option<Arc<Network>>,
    /// The number of threads of a run.
    pub(crate) threads: usize,
    /// The dispatcher of asynchronous runs; [`None`] if each call waits for its run.
    pub(crate) dispatch: Option<Arc<Dispatch>>,
}

// SAFETY: the value is not modified after construction; its pointers are to objects that it owns.
unsafe impl Send for Client {}
// SAFETY: the value is not modified after construction; its pointers are to objects that it owns.
unsafe impl Sync for Client {}

impl Object for Client {
    type Handle = PJRT_Client;
    const NAME: &'static str = "client";
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(dispatch) = &self.dispatch {
            dispatch.end();
        }
    }
}

/// The options with which a front end creates a client.
struct Options {
    /// The number of devices of this process.
    devices: i32,
    threads: usize,
    is_asynchronous: bool,
    processes: Asked,
}

impl Options {
    fn new(options: Vec<(String, Value)>) -> Result<Self, Error> {
        let mut devices = 1;
        let mut threads = None;
        let mut is_asynchronous = true;
        let mut processes = Asked::default();
        for (name, value) in options {
            match (name.as_str(), value) {
                ("num_devices" | "cpu_device_count", Value::Integer(count)) => {
                    devices = bounded(&name, count, MAX_DEVICES)?;
                }
                ("threads", Value::Integer(asked)) => {
                    threads = Some(bounded(&name, asked, MAX_THREADS)?);
                }
                ("asynchronous", Value::Bool(asked)) => is_asynchronous = asked,
                ("num_nodes", Value::Integer(nodes)) => processes.processes = nodes,
                ("node_id", Value::Integer(node)) => processes.process = node,
                ("address", Value::Text(address)) => processes.address = Some(address),
                ("coordinator", Value::Text(address)) => processes.coordinator = Some(address),
                // Identifies a part of a job, which makes no difference here.
                ("partition_index", Value::Integer(_)) => {}
                _ => {
                    let message = format!("unknown option {name}, or a value of the wrong type");
                    return Err(Error::invalid(message));
                }
            }
        }
        let threads = match threads {
            Some(threads) => threads as usize,
            None => default_threads()?,
        };
        Ok(Self {
            devices,
            threads,
            is_asynchronous,
            processes,
        })
    }
}

impl Client {
    /// A client that computes, connected to those of other processes.
    fn connected(options: &Options, store: &Store) -> Result<Self, Error> {
        let network = options
            .processes
            .connect(options.devices, &VERSION, store)?;
        Ok(Self::new(options, network))
    }

    fn new(options: &Options, network: Option<Network>) -> Self {
        let process = network.as_ref().map_or(0, Network::process);
        let own = [usize::try_from(options.devices).unwrap_or(1)];
        let counts = network.as_ref().map_or(&own[..], Network::devices);
        let (devices, memories) = device::make(counts, process);
        let own_devices = devices.iter().filter(|device| device.process == process);
        let own_devices: Vec<_> = own_devices.map(|device| device.handle()).collect();
        let own_memories = memories
            .iter()
            .filter(|memory| own_devices.contains(&memory.device()));
        Self {
            device_handles: devices.iter().map(|device| device.handle()).collect(),
            own_memories: own_memories.map(|memory| memory.handle()).collect(),
            own_devices,
            devices,
            _memories: memories,
            network: network.map(Arc::new),
            threads: options.threads,
            dispatch: options.is_asynchronous.then(|| Arc::new(Dispatch::new())),
        }
    }

    /// The number of this process.
    pub(crate) fn process(&self) -> usize {
        self.network.as_ref().map_or(0, |network| network.process())
    }

    /// The devices of an execution on `count` devices that names none: those of this process if
    /// there are enough, or else the first of all.
    pub(crate) fn default_devices(&self, count: usize) -> &[*mut PJRT_Device] {
        match count <= self.own_devices.len() {
            true => &self.own_devices[..count],
            false => &self.device_handles[..count.min(self.device_handles.len())],
        }
    }

    /// How many of the devices with these ids belong to this process; of `count` devices that are
    /// not named yet, all.
    pub(crate) fn own_count(&self, ids: &[i64], count: usize) -> usize {
        if ids.is_empty() {
            return count;
        }
        let devices = ids.iter().filter_map(|&id| self.device(id).ok());
        devices
            .filter(|device| device.process == self.process())
            .count()
    }

    /// The first device of this process.
    pub(crate) fn first_device(&self) -> Result<&Device, Error> {
        let first = self.own_devices.first().copied();
        // SAFETY: its devices live as long as the client.
        unsafe { Device::of(first.unwrap_or(std::ptr::null_mut())) }
    }

    /// The device with this id.
    pub(crate) fn device(&self, id: i64) -> Result<&Device, Error> {
        let place = usize::try_from(id).ok();
        let device = place.and_then(|place| self.devices.get(place));
        let count = self.devices.len();
        let device = device.map(Box::as_ref);
        device.ok_or_else(|| {
            Error::invalid(format!(
                "device {id} does not exist: expected a number below {count}"
            ))
        })
    }
}

/// The value of an option, checked to be within its limit.
fn bounded(name: &str, value: i64, most: i64) -> Result<i32, Error> {
    match i32::try_from(value) {
        Ok(small) if (1..=most).contains(&value) => Ok(small),
        _ => Err(Error::invalid(format!(
            "{name}: expected a number from 1 to {most}, got {value}"
        ))),
    }
}

/// The number in `TEGULA_THREADS`, or else the number of threads that this process may use.
fn default_threads() -> Result<usize, Error> {
    match std::env::var("TEGULA_THREADS") {
        Ok(text) => {
            let number = text.trim().parse().map_err(|_| {
                Error::invalid(format!("TEGULA_THREADS: expected a number, got {text:?}"))
            })?;
            Ok(bounded("TEGULA_THREADS", number, MAX_THREADS)? as usize)
        }
        Err(_) => Ok(std::thread::available_parallelism().map_or(1, NonZero::get)),
    }
}

entries! {
    fn PJRT_Plugin_Initialize(args: PJRT_Plugin_Initialize_Args) {
        let _ = args;
    }
    fn PJRT_Client_Create(args: PJRT_Client_Create_Args up to client) {
        // SAFETY: the API requires that the stated number of options is valid.
        let options = unsafe { named::read(args.create_options, args.num_options) }?;
        let options = Options::new(options)?;
        args.client = Client::connected(&options, &Store::of(args))?.into_handle();
    }
    fn PJRT_Client_Destroy(args: PJRT_Client_Destroy_Args) {
        // SAFETY: the API requires that the caller owns the client and does not use it again.
        unsafe { Client::destroy(args.client) };
    }
    fn PJRT_Client_PlatformName(args: PJRT_Client_PlatformName_Args) {
        args.platform_name = PLATFORM.as_ptr().cast();
        args.platform_name_size = PLATFORM.len();
    }
    fn PJRT_Client_ProcessIndex(args: PJRT_Client_ProcessIndex_Args) {
        // SAFETY: the API requires a valid client.
        let process = unsafe { Client::of(args.client) }?.process();
        args.process_index = i32::try_from(process).unwrap_or(i32::MAX);
    }
    fn PJRT_Client_PlatformVersion(args: PJRT_Client_PlatformVersion_Args) {
        args.platform_version = VERSION.as_ptr().cast();
        args.platform_version_size = VERSION.len();
    }
    fn PJRT_Client_Devices(args: PJRT_Client_Devices_Args) {
        // SAFETY: the API requires a valid client.
        let client = unsafe { Client::of(args.client) }?;
        args.devices = client.device_handles.as_ptr();
        args.num_devices = client.device_handles.len();
    }
    fn PJRT_Client_AddressableDevices(args: PJRT_Client_AddressableDevices_Args) {
        // SAFETY: the API requires a valid client.
        let client = unsafe { Client::of(args.client) }?;
        args.addressable_devices = client.own_devices.as_ptr();
        args.num_addressable_devices = client.own_devices.len();
    }
    fn PJRT_Client_LookupDevice(args: PJRT_Client_LookupDevice_Args) {
        // SAFETY: the API requires a valid client.
        args.device = unsafe { Client::of(args.client) }?.device(args.id.into())?.handle();
    }
    fn PJRT_Client_LookupAddressableDevice(args: PJRT_Client_LookupAddressableDevice_Args) {
        // SAFETY: the API requires a valid client.
        let client = unsafe { Client::of(args.client) }?;
        let place = usize::try_from(args.local_hardware_id).ok();
        let device = place.and_then(|place| client.own_devices.get(place));
        args.addressable_device = *device.ok_or_else(|| {
            let (id, count) = (args.local_hardware_id, client.own_devices.len());
            Error::invalid(format!("there is no device {id} among this process's {count}"))
        })?;
    }
    fn PJRT_Client_AddressableMemories(args: PJRT_Client_AddressableMemories_Args) {
        // SAFETY: the API requires a valid client.
        let client = unsafe { Client::of(args.client) }?;
        args.addressable_memories = client.own_memories.as_ptr();
        args.num_addressable_memories = client.own_memories.len();
    }
    fn PJRT_Client_UpdateGlobalProcessInfo(args: PJRT_Client_UpdateGlobalProcessInfo_Args) {
        let _ = args;
    }
    fn PJRT_Client_DefaultDeviceAssignment(args: PJRT_Client_DefaultDeviceAssignment_Args) {
        // SAFETY: the API requires a valid client.
        let client = unsafe { Client::of(args.client) }?;
        let count = i64::from(args.num_replicas) * i64::from(args.num_partitions);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > client.devices.len() || count > args.default_assignment_size {
            return Err(Error::invalid(format!(
                "{} replicas of {} partitions exceed the {} devices or the room for {} numbers",
                args.num_replicas,
                args.num_partitions,
                client.devices.len(),
                args.default_assignment_size
            )));
        }
        for (place, &device) in client.default_devices(count).iter().enumerate() {
            // SAFETY: there is room for the stated number of numbers, and the devices are the
            // client's.
            unsafe { args.default_assignment.add(place).write(Device::of(device)?.id) };
        }
    }
    /// Host memory needs no registration for transfers.
    fn PJRT_Client_DmaMap(args: PJRT_Client_DmaMap_Args) {
        let _ = args;
    }
    fn PJRT_Client_DmaUnmap(args: PJRT_Client_DmaUnmap_Args) {
        let _ = args;
    }
    fn PJRT_Client_TopologyDescription(args: PJRT_Client_TopologyDescription_Args) {
        // SAFETY: the API requires a valid client: a topology is the client itself.
        unsafe { Client::of(args.client) }?;
        args.topology = args.client.cast();
    }
    fn PJRT_TopologyDescription_Create(args: PJRT_TopologyDescription_Create_Args) {
        // SAFETY: the API requires that the stated number of options is valid.
        let options = unsafe { named::read(args.create_options, args.num_options) }?;
        args.topology = Client::new(&Options::new(options)?, None).into_handle().cast();
    }
    fn PJRT_TopologyDescription_Destroy(args: PJRT_TopologyDescription_Destroy_Args) {
        // SAFETY: the API requires that only results of `Create` are destroyed, each once.
        unsafe { Client::destroy(args.topology.cast()) };
    }
    fn PJRT_TopologyDescription_PlatformName(args: PJRT_TopologyDescription_PlatformName_Args) {
        args.platform_name = PLATFORM.as_ptr().cast();
        args.platform_name_size = PLATFORM.len();
    }
    fn PJRT_TopologyDescription_PlatformVersion(
        args: PJRT_TopologyDescription_PlatformVersion_Args
    ) {
        args.platform_version = VERSION.as_ptr().cast();
        args.platform_version_size = VERSION.len();
    }
    fn PJRT_TopologyDescription_GetDeviceDescriptions(
        args: PJRT_TopologyDescription_GetDeviceDescriptions_Args
    ) {
        // SAFETY: topologies are clients.
        let client = unsafe { Client::of(args.topology.cast()) }?;
        // Descriptions are the devices themselves.
        args.descriptions = client.device_handles.as_ptr().cast();
        args.num_descriptions = client.device_handles.len();
    }
    fn PJRT_TopologyDescription_Attributes(args: PJRT_TopologyDescription_Attributes_Args) {
        args.attributes = std::ptr::null();
        args.num_attributes = 0;
    }
    fn PJRT_TopologyDescription_Fingerprint(args: PJRT_TopologyDescription_Fingerprint_Args) {
        // SAFETY: topologies are clients.
        let client = unsafe { Client::of(args.topology.cast()) }?;
        let text = format!("{} {}", *VERSION, client.devices.len());
        args.fingerprint = crate::fingerprint::of(&[text.as_bytes()]);
    }
    fn PJRT_TopologyDescription_Serialize(args: PJRT_TopologyDescription_Serialize_Args) {
        // SAFETY: topologies are clients.
        let client = unsafe { Client::of(args.topology.cast()) }?;
        let text = Box::new(client.devices.len().to_string());
        args.serialized_bytes = text.as_ptr().cast();
        args.serialized_bytes_size = text.len();
        args.serialized_topology = Box::into_raw(text).cast();
        args.serialized_topology_deleter = Some(delete_serialized_topology);
    }
    fn PJRT_TopologyDescription_Deserialize(args: PJRT_TopologyDescription_Deserialize_Args) {
        // SAFETY: the API requires the stated number of bytes.
        let bytes = unsafe {
            slice(args.serialized_topology.cast::<u8>(), args.serialized_topology_size)
        };
        let devices = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        let devices = devices.ok_or_else(|| Error::invalid("the topology was not made by this \
            plug-in"))?;
        let options = vec![("num_devices".to_owned(), Value::Integer(devices))];
        args.topology = Client::new(&Options::new(options)?, None).into_handle().cast();
    }
}

/// # Safety
/// The pointer is from [`PJRT_TopologyDescription_Serialize`].
unsafe extern "C" fn delete_serialized_topology(topology: *mut PJRT_SerializedTopology) {
    if !topology.is_null() {
        // SAFETY: the caller promises a pointer from `PJRT_TopologyDescription_Serialize`.
        drop(unsafe { Box::from_raw(topology.cast::<String>()) });
    }
}
