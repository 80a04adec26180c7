//! Devices and their memories. All devices of a process share the machine's CPU and memory.
//! Programs written for many devices see each as a separate device with its own memory.

use crate::c_api::*;
use crate::entry::{Object, entries};
use crate::error::Error;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The platform's name for front ends; see the crate's documentation.
pub(crate) const PLATFORM: &str = "cpu";

/// A device, which is also its own description.
pub(crate) struct Device {
    pub(crate) id: i32,
    /// The process that the device belongs to.
    pub(crate) process: usize,
    /// Its number in its process.
    local: i32,
    /// Whether it belongs to this process.
    is_own: bool,
    debug: String,
    text: String,
    /// Its memories, the default one first.
    memories: Vec<*mut PJRT_Memory>,
}

// SAFETY: the value is not modified after its client is created.
unsafe impl Send for Device {}
// SAFETY: the value is not modified after its client is created.
unsafe impl Sync for Device {}

impl Object for Device {
    type Handle = PJRT_Device;
    const NAME: &'static str = "device";
}

/// A device, seen as a device description.
struct Description;

impl Description {
    /// # Safety
    /// As [`Object::of`].
    unsafe fn of<'a>(handle: *const PJRT_DeviceDescription) -> Result<&'a Device, Error> {
        // SAFETY: the caller promises a valid description, and descriptions are devices.
        unsafe { Device::of(handle.cast()) }
    }
}

impl Device {
    /// A device whose memories are added later.
    fn new(id: i32, process: usize, local: i32, is_own: bool) -> Self {
        Self {
            id,
            process,
            local,
            is_own,
            debug: format!("{PLATFORM}:{id}"),
            text: format!("CpuDevice(id={id})"),
            memories: Vec::new(),
        }
    }

    pub(crate) fn handle(&self) -> *mut PJRT_Device {
        (&raw const *self).cast_mut().cast()
    }

    /// The memory of a device of this process in which arrays are placed by default.
    pub(crate) fn default_memory(&self) -> Result<&Memory, Error> {
        self.check_own()?;
        let memory = self.memories.first().copied();
        // SAFETY: its memories live as long as the device.
        unsafe { Memory::of(memory.unwrap_or(ptr::null_mut())) }
    }

    /// # Errors
    /// The device belongs to another process, which alone can use it.
    fn check_own(&self) -> Result<(), Error> {
        match self.is_own {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "{} belongs to process {}, not to this one: only programs can use it",
                self.text, self.process
            ))),
        }
    }
}

/// A memory of a device. A CPU has only one; the kinds are those that programs name.
#[repr(C)]
pub(crate) struct Memory {
    base: PJRT_Memory,
    pub(crate) id: i32,
    pub(crate) kind: MemoryKind,
    debug: String,
    text: String,
    device: [*mut PJRT_Device; 1],
    /// Data that users attach, by their keys.
    user_data: Mutex<HashMap<usize, UserData>>,
}

// SAFETY: except for the users' data, which is locked, it is not modified after its client is made.
unsafe impl Send for Memory {}
// SAFETY: except for the users' data, which is locked, it is not modified after its client is made.
unsafe impl Sync for Memory {}

impl Object for Memory {
    type Handle = PJRT_Memory;
    const NAME: &'static str = "memory";
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    Device,
    PinnedHost,
    UnpinnedHost,
}

impl MemoryKind {
    const ALL: [Self; 3] = [Self::Device, Self::PinnedHost, Self::UnpinnedHost];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::PinnedHost => "pinned_host",
            Self::UnpinnedHost => "unpinned_host",
        }
    }

    /// The names of a memory of this kind: that of its class, and its own in capitals.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Device => ("CpuDeviceMemory", "CPU_DEVICE"),
            Self::PinnedHost => ("PinnedHostMemory", "PINNED_HOST"),
            Self::UnpinnedHost => ("UnpinnedHostMemorySpace", "UNPINNED_HOST"),
        }
    }
}

struct UserData {
    data: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: users who attach data allow any thread to destroy it.
unsafe impl Send for UserData {}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the data's owner provided this function for it; it is called once.
            unsafe { destroy(self.data) };
        }
    }
}

impl Memory {
    fn new(id: i32, kind: MemoryKind, device: &Device) -> Self {
        let (class, name) = kind.names();
        let process = device.process;
        Self {
            base: PJRT_Memory { vtable: &VTABLE.0 },
            id,
            kind,
            debug: format!("{class}(id={id}, process_index={process}, client={PLATFORM})"),
            text: format!("{name}_{id}"),
            device: [device.handle()],
            user_data: Mutex::default(),
        }
    }

    pub(crate) fn handle(&self) -> *mut PJRT_Memory {
        (&raw const *self).cast_mut().cast()
    }

    /// The device that the memory belongs to.
    pub(crate) fn device(&self) -> *mut PJRT_Device {
        self.device[0]
    }

    /// The memory of a device of this process.
    ///
    /// # Errors
    /// The device belongs to another process.
    ///
    /// # Safety
    /// As [`Object::of`].
    pub(crate) unsafe fn own<'a>(handle: *const PJRT_Memory) -> Result<&'a Self, Error> {
        // SAFETY: the caller promises a memory of ours, or null; its device lives as long.
        unsafe {
            let memory = Self::of(handle)?;
            Device::of(memory.device())?.check_own()?;
            Ok(memory)
        }
    }
}

/// The devices of a client and their memories. `counts` has the number of devices of each process,
/// and `own` is the number of this process. They are boxed, because handles point to them.
#[allow(clippy::vec_box, reason = "handles point to them")]
pub(crate) fn make(counts: &[usize], own: usize) -> (Vec<Box<Device>>, Vec<Box<Memory>>) {
    let mut devices = Vec::new();
    let mut memories = Vec::new();
    let processes = counts.iter().enumerate();
    let places = processes.flat_map(|(process, &count)| (0..count).map(move |own| (process, own)));
    for (process, local) in places {
        let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let id = number(devices.len());
        let mut device = Box::new(Device::new(id, process, number(local), process == own));
        for kind in MemoryKind::ALL {
            let memory = Box::new(Memory::new(number(memories.len()), kind, &device));
            device.memories.push(memory.handle());
            memories.push(memory);
        }
        devices.push(device);
    }
    (devices, memories)
}

struct Table(PJRT_Memory_FunctionTable);

// SAFETY: the table is never modified, and its only data pointer is null.
unsafe impl Sync for Table {}

static VTABLE: Table = Table(PJRT_Memory_FunctionTable {
    struct_size: PJRT_Memory_FunctionTable::SIZE,
    extension_start: ptr::null_mut(),
    instance_struct_size: size_of::<Memory>(),
    get_user_data: Some(get_user_data),
    set_user_data: Some(set_user_data),
});

/// # Safety
/// The memory is one of ours, or null.
unsafe extern "C" fn get_user_data(memory: *mut PJRT_Memory, key: *const c_void) -> *mut c_void {
    // SAFETY: the caller promises a memory of ours, or null.
    let Ok(memory) = (unsafe { Memory::of(memory) }) else {
        return ptr::null_mut();
    };
    let data = memory.user_data.lock();
    let data = data.unwrap_or_else(PoisonError::into_inner);
    data.get(&key.addr()).map_or(ptr::null_mut(), |d| d.data)
}

/// # Safety
/// The memory is one of ours, or null; `destroy` can destroy `data`.
unsafe extern "C" fn set_user_data(
    memory: *mut PJRT_Memory,
    key: *const c_void,
    data: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
) {
    // SAFETY: the caller promises a memory of ours, or null; `destroy` is a function for `data`.
    if let Ok(memory) = unsafe { Memory::of(memory) } {
        let known = memory.user_data.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        let replaced = known.insert(key.addr(), UserData { data, destroy });
        drop(known);
        // The destructor is foreign code, so the lock must not be held.
        drop(replaced);
    }
}

entries! {
    fn PJRT_DeviceDescription_Id(args: PJRT_DeviceDescription_Id_Args) {
        // SAFETY: the API requires a valid description.
        args.id = unsafe { Description::of(args.device_description) }?.id;
    }
    fn PJRT_DeviceDescription_ProcessIndex(args: PJRT_DeviceDescription_ProcessIndex_Args) {
        // SAFETY: the API requires a valid description.
        let process = unsafe { Description::of(args.device_description) }?.process;
        args.process_index = i32::try_from(process).unwrap_or(i32::MAX);
    }
    fn PJRT_DeviceDescription_Attributes(args: PJRT_DeviceDescription_Attributes_Args) {
        args.attributes = ptr::null();
        args.num_attributes = 0;
    }
    fn PJRT_DeviceDescription_Kind(args: PJRT_DeviceDescription_Kind_Args) {
        args.device_kind = PLATFORM.as_ptr().cast();
        args.device_kind_size = PLATFORM.len();
    }
    fn PJRT_DeviceDescription_DebugString(args: PJRT_DeviceDescription_DebugString_Args) {
        // SAFETY: the API requires a valid description.
        let text = unsafe { &Description::of(args.device_description)?.debug };
        args.debug_string = text.as_ptr().cast();
        args.debug_string_size = text.len();
    }
    fn PJRT_DeviceDescription_ToString(args: PJRT_DeviceDescription_ToString_Args) {
        // SAFETY: the API requires a valid description.
        let text = unsafe { &Description::of(args.device_description)?.text };
        args.to_string = text.as_ptr().cast();
        args.to_string_size = text.len();
    }
    fn PJRT_Device_GetDescription(args: PJRT_Device_GetDescription_Args) {
        args.device_description = args.device.cast();
    }
    fn PJRT_Device_IsAddressable(args: PJRT_Device_IsAddressable_Args) {
        // SAFETY: the API requires a valid device.
        args.is_addressable = unsafe { Device::of(args.device) }?.is_own;
    }
    fn PJRT_Device_LocalHardwareId(args: PJRT_Device_LocalHardwareId_Args) {
        // SAFETY: the API requires a valid device.
        args.local_hardware_id = unsafe { Device::of(args.device) }?.local;
    }
    fn PJRT_Device_AddressableMemories(args: PJRT_Device_AddressableMemories_Args) {
        // SAFETY: the API requires a valid device.
        let device = unsafe { Device::of(args.device) }?;
        args.memories = device.memories.as_ptr();
        args.num_memories = device.memories.len();
    }
    fn PJRT_Device_DefaultMemory(args: PJRT_Device_DefaultMemory_Args) {
        // SAFETY: the API requires a valid device.
        args.memory = unsafe { Device::of(args.device) }?.memories.first().map_or(ptr::null_mut(), |m| *m);
    }
    fn PJRT_Device_GetAttributes(args: PJRT_Device_GetAttributes_Args) {
        args.attributes = ptr::null();
        args.num_attributes = 0;
        args.device_attributes = ptr::null_mut();
        args.attributes_deleter = Some(no_attributes);
    }
    fn PJRT_Memory_Id(args: PJRT_Memory_Id_Args) {
        // SAFETY: the API requires a valid memory.
        args.id = unsafe { Memory::of(args.memory) }?.id;
    }
    fn PJRT_Memory_Kind(args: PJRT_Memory_Kind_Args) {
        // SAFETY: the API requires a valid memory.
        let kind = unsafe { Memory::of(args.memory) }?.kind.name();
        args.kind = kind.as_ptr().cast();
        args.kind_size = kind.len();
    }
    fn PJRT_Memory_Kind_Id(args: PJRT_Memory_Kind_Id_Args) {
        // SAFETY: the API requires a valid memory.
        args.kind_id = unsafe { Memory::of(args.memory) }?.kind as i32;
    }
    fn PJRT_Memory_DebugString(args: PJRT_Memory_DebugString_Args) {
        // SAFETY: the API requires a valid memory.
        let text = unsafe { &Memory::of(args.memory)?.debug };
        args.debug_string = text.as_ptr().cast();
        args.debug_string_size = text.len();
    }
    fn PJRT_Memory_ToString(args: PJRT_Memory_ToString_Args) {
        // SAFETY: the API requires a valid memory.
        let text = unsafe { &Memory::of(args.memory)?.text };
        args.to_string = text.as_ptr().cast();
        args.to_string_size = text.len();
    }
    fn PJRT_Memory_AddressableByDevices(args: PJRT_Memory_AddressableByDevices_Args) {
        // SAFETY: the API requires a valid memory.
        let memory = unsafe { Memory::of(args.memory) }?;
        args.devices = memory.device.as_ptr();
        args.num_devices = memory.device.len();
    }
}

/// There are no attributes.
unsafe extern "C" fn no_attributes(_: *mut PJRT_Device_Attributes) {}
