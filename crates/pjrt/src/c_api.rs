//! The structs and functions of PJRT's C API, as its public header declares them.
//!
//! Written by `generate_bindings.py`; `tests/all/layout.txt` has the sizes and offsets that a C
//! compiler gives the same declarations.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_safety_doc,
    reason = "names are the header's, which says what they mean"
)]

use std::ffi::{c_char, c_int, c_void};

pub const PJRT_API_MAJOR: c_int = 0;
pub const PJRT_API_MINOR: c_int = 114;

/// A function that gives null, or an error which the caller destroys.
pub type Entry<A> = unsafe extern "C" fn(*mut A) -> *mut PJRT_Error;
/// A function that cannot fail.
pub type PlainEntry<A> = unsafe extern "C" fn(*mut A);

/// A struct whose first field says how many bytes of it the caller knows.
///
/// # Safety
/// `Self` is valid when all its bytes are zero, and begins with a `usize`.
pub unsafe trait CStruct: Copy {
    /// Its name.
    const NAME: &'static str;
    /// Its bytes up to the end of the last field.
    const SIZE: usize;
}

pub(crate) const fn size_of_pointee<T>(_: *const T) -> usize {
    size_of::<T>()
}

macro_rules! c_struct {
    ($name:ident, $last:ident) => {
        // SAFETY: integers, floats, truth values, pointers and optional functions, of which
        // zero is a value.
        unsafe impl $crate::c_api::CStruct for $name {
            const NAME: &'static str = stringify!($name);
            const SIZE: usize = {
                let zero = std::mem::MaybeUninit::<Self>::zeroed();
                // SAFETY: nothing is read.
                let last = unsafe { &raw const (*zero.as_ptr()).$last };
                std::mem::offset_of!(Self, $last) + $crate::c_api::size_of_pointee(last)
            };
        }
    };
}

pub(crate) use c_struct;

pub type PJRT_Extension_Type = c_int;
pub const PJRT_Extension_Type_Gpu_Custom_Call: PJRT_Extension_Type = 0;
pub const PJRT_Extension_Type_Profiler: PJRT_Extension_Type = 1;
pub const PJRT_Extension_Type_Custom_Partitioner: PJRT_Extension_Type = 2;
pub const PJRT_Extension_Type_Stream: PJRT_Extension_Type = 3;
pub const PJRT_Extension_Type_Layouts: PJRT_Extension_Type = 4;
pub const PJRT_Extension_Type_FFI: PJRT_Extension_Type = 5;
pub const PJRT_Extension_Type_MemoryDescriptions: PJRT_Extension_Type = 6;
pub const PJRT_Extension_Type_Triton: PJRT_Extension_Type = 7;
pub const PJRT_Extension_Type_RawBuffer: PJRT_Extension_Type = 8;
pub const PJRT_Extension_Type_PhaseCompile: PJRT_Extension_Type = 9;
pub const PJRT_Extension_Type_Example: PJRT_Extension_Type = 10;
pub const PJRT_Extension_Type_Unknown: PJRT_Extension_Type = 11;
pub const PJRT_Extension_Type_CrossHostTransfers: PJRT_Extension_Type = 12;
pub const PJRT_Extension_Type_ExecutableMetadata: PJRT_Extension_Type = 13;
pub const PJRT_Extension_Type_Callback: PJRT_Extension_Type = 14;
pub const PJRT_Extension_Type_HostAllocator: PJRT_Extension_Type = 15;
pub const PJRT_Extension_Type_TpuTopology: PJRT_Extension_Type = 16;
pub const PJRT_Extension_Type_TpuExecutable: PJRT_Extension_Type = 17;
pub const PJRT_Extension_Type_Megascale: PJRT_Extension_Type = 18;
pub const PJRT_Extension_Type_Shardings: PJRT_Extension_Type = 19;
pub const PJRT_Extension_Type_AbiVersion: PJRT_Extension_Type = 20;
pub const PJRT_Extension_Type_Collectives: PJRT_Extension_Type = 21;
pub const PJRT_Extension_Type_MultiSlice: PJRT_Extension_Type = 22;
pub const PJRT_Extension_Type_HostMemoryAllocator: PJRT_Extension_Type = 23;
pub const PJRT_Extension_Type_XlaTransform: PJRT_Extension_Type = 24;

pub type PJRT_Error_Code = c_int;
pub const PJRT_Error_Code_OK: PJRT_Error_Code = 0;
pub const PJRT_Error_Code_CANCELLED: PJRT_Error_Code = 1;
pub const PJRT_Error_Code_UNKNOWN: PJRT_Error_Code = 2;
pub const PJRT_Error_Code_INVALID_ARGUMENT: PJRT_Error_Code = 3;
pub const PJRT_Error_Code_DEADLINE_EXCEEDED: PJRT_Error_Code = 4;
pub const PJRT_Error_Code_NOT_FOUND: PJRT_Error_Code = 5;
pub const PJRT_Error_Code_ALREADY_EXISTS: PJRT_Error_Code = 6;
pub const PJRT_Error_Code_PERMISSION_DENIED: PJRT_Error_Code = 7;
pub const PJRT_Error_Code_RESOURCE_EXHAUSTED: PJRT_Error_Code = 8;
pub const PJRT_Error_Code_FAILED_PRECONDITION: PJRT_Error_Code = 9;
pub const PJRT_Error_Code_ABORTED: PJRT_Error_Code = 10;
pub const PJRT_Error_Code_OUT_OF_RANGE: PJRT_Error_Code = 11;
pub const PJRT_Error_Code_UNIMPLEMENTED: PJRT_Error_Code = 12;
pub const PJRT_Error_Code_INTERNAL: PJRT_Error_Code = 13;
pub const PJRT_Error_Code_UNAVAILABLE: PJRT_Error_Code = 14;
pub const PJRT_Error_Code_DATA_LOSS: PJRT_Error_Code = 15;
pub const PJRT_Error_Code_UNAUTHENTICATED: PJRT_Error_Code = 16;

pub type PJRT_NamedValue_Type = c_int;
pub const PJRT_NamedValue_kString: PJRT_NamedValue_Type = 0;
pub const PJRT_NamedValue_kInt64: PJRT_NamedValue_Type = 1;
pub const PJRT_NamedValue_kInt64List: PJRT_NamedValue_Type = 2;
pub const PJRT_NamedValue_kFloat: PJRT_NamedValue_Type = 3;
pub const PJRT_NamedValue_kBool: PJRT_NamedValue_Type = 4;

pub type PJRT_ProcessState = c_int;
pub const PJRT_ProcessState_kUnspecified: PJRT_ProcessState = 0;
pub const PJRT_ProcessState_kUninitialized: PJRT_ProcessState = 1;
pub const PJRT_ProcessState_kDisconnected: PJRT_ProcessState = 2;
pub const PJRT_ProcessState_kConnected: PJRT_ProcessState = 3;
pub const PJRT_ProcessState_kError: PJRT_ProcessState = 4;

pub type PJRT_Buffer_Type = c_int;
pub const PJRT_Buffer_Type_INVALID: PJRT_Buffer_Type = 0;
pub const PJRT_Buffer_Type_PRED: PJRT_Buffer_Type = 1;
pub const PJRT_Buffer_Type_S8: PJRT_Buffer_Type = 2;
pub const PJRT_Buffer_Type_S16: PJRT_Buffer_Type = 3;
pub const PJRT_Buffer_Type_S32: PJRT_Buffer_Type = 4;
pub const PJRT_Buffer_Type_S64: PJRT_Buffer_Type = 5;
pub const PJRT_Buffer_Type_U8: PJRT_Buffer_Type = 6;
pub const PJRT_Buffer_Type_U16: PJRT_Buffer_Type = 7;
pub const PJRT_Buffer_Type_U32: PJRT_Buffer_Type = 8;
pub const PJRT_Buffer_Type_U64: PJRT_Buffer_Type = 9;
pub const PJRT_Buffer_Type_F16: PJRT_Buffer_Type = 10;
pub const PJRT_Buffer_Type_F32: PJRT_Buffer_Type = 11;
pub const PJRT_Buffer_Type_F64: PJRT_Buffer_Type = 12;
pub const PJRT_Buffer_Type_BF16: PJRT_Buffer_Type = 13;
pub const PJRT_Buffer_Type_C64: PJRT_Buffer_Type = 14;
pub const PJRT_Buffer_Type_C128: PJRT_Buffer_Type = 15;
pub const PJRT_Buffer_Type_F8E5M2: PJRT_Buffer_Type = 16;
pub const PJRT_Buffer_Type_F8E4M3FN: PJRT_Buffer_Type = 17;
pub const PJRT_Buffer_Type_F8E4M3B11FNUZ: PJRT_Buffer_Type = 18;
pub const PJRT_Buffer_Type_F8E5M2FNUZ: PJRT_Buffer_Type = 19;
pub const PJRT_Buffer_Type_F8E4M3FNUZ: PJRT_Buffer_Type = 20;
pub const PJRT_Buffer_Type_S4: PJRT_Buffer_Type = 21;
pub const PJRT_Buffer_Type_U4: PJRT_Buffer_Type = 22;
pub const PJRT_Buffer_Type_TOKEN: PJRT_Buffer_Type = 23;
pub const PJRT_Buffer_Type_S2: PJRT_Buffer_Type = 24;
pub const PJRT_Buffer_Type_U2: PJRT_Buffer_Type = 25;
pub const PJRT_Buffer_Type_F8E4M3: PJRT_Buffer_Type = 26;
pub const PJRT_Buffer_Type_F8E3M4: PJRT_Buffer_Type = 27;
pub const PJRT_Buffer_Type_F8E8M0FNU: PJRT_Buffer_Type = 28;
pub const PJRT_Buffer_Type_F4E2M1FN: PJRT_Buffer_Type = 29;
pub const PJRT_Buffer_Type_S1: PJRT_Buffer_Type = 30;
pub const PJRT_Buffer_Type_U1: PJRT_Buffer_Type = 31;
pub const PJRT_Buffer_Type_F6E2M3FN: PJRT_Buffer_Type = 32;
pub const PJRT_Buffer_Type_F6E3M2FN: PJRT_Buffer_Type = 33;

pub type PJRT_HostBufferSemantics = c_int;
pub const PJRT_HostBufferSemantics_kImmutableOnlyDuringCall: PJRT_HostBufferSemantics = 0;
pub const PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes: PJRT_HostBufferSemantics = 1;
pub const PJRT_HostBufferSemantics_kImmutableZeroCopy: PJRT_HostBufferSemantics = 2;
pub const PJRT_HostBufferSemantics_kMutableZeroCopy: PJRT_HostBufferSemantics = 3;

pub type PJRT_Buffer_MemoryLayout_Type = c_int;
pub const PJRT_Buffer_MemoryLayout_Type_Tiled: PJRT_Buffer_MemoryLayout_Type = 0;
pub const PJRT_Buffer_MemoryLayout_Type_Strides: PJRT_Buffer_MemoryLayout_Type = 1;

pub type PJRT_FFI_Handler_TraitsBits = c_int;
pub const PJRT_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE: PJRT_FFI_Handler_TraitsBits = 1;

pub type PJRT_Error_PayloadVisitor =
    Option<unsafe extern "C" fn(*const c_char, usize, *const c_char, usize, *mut c_void)>;
pub type PJRT_CallbackError =
    Option<unsafe extern "C" fn(PJRT_Error_Code, *const c_char, usize) -> *mut PJRT_Error>;
pub type PJRT_Event_OnReadyCallback = Option<unsafe extern "C" fn(*mut PJRT_Error, *mut c_void)>;
pub type PJRT_KeyValueGetCallback_ValueDeleter = Option<unsafe extern "C" fn(*mut c_char)>;
pub type PJRT_KeyValueGetCallback =
    Option<unsafe extern "C" fn(*mut PJRT_KeyValueGetCallback_Args) -> *mut PJRT_Error>;
pub type PJRT_KeyValueTryGetCallback_ValueDeleter = Option<unsafe extern "C" fn(*mut c_char)>;
pub type PJRT_KeyValueTryGetCallback =
    Option<unsafe extern "C" fn(*mut PJRT_KeyValueTryGetCallback_Args) -> *mut PJRT_Error>;
pub type PJRT_KeyValuePutCallback =
    Option<unsafe extern "C" fn(*mut PJRT_KeyValuePutCallback_Args) -> *mut PJRT_Error>;
pub type PJRT_SendCallback = Option<
    unsafe extern "C" fn(
        *mut PJRT_Chunk,
        *mut PJRT_CallbackError,
        usize,
        bool,
        *mut c_void,
    ) -> *mut PJRT_Error,
>;
pub type PJRT_RecvCallback =
    Option<unsafe extern "C" fn(*mut PJRT_CopyToDeviceStream, *mut c_void)>;
pub type PJRT_HloOutputCallback = Option<
    unsafe extern "C" fn(
        i64,
        i64,
        *const c_void,
        *const i64,
        usize,
        PJRT_Buffer_Type,
        i64,
        *mut c_void,
    ),
>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Extension_Base {
    pub struct_size: usize,
    pub r#type: PJRT_Extension_Type,
    pub next: *mut PJRT_Extension_Base,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Api_Version {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub major_version: c_int,
    pub minor_version: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Error_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub error: *mut PJRT_Error,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Error_Message_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub error: *const PJRT_Error,
    pub message: *const c_char,
    pub message_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Error_FunctionTable {
    pub struct_size: usize,
    pub instance_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub destroy: Option<unsafe extern "C" fn(*mut PJRT_Error)>,
    pub message: Option<unsafe extern "C" fn(*const PJRT_Error, *mut *const c_char, *mut usize)>,
    pub get_code: Option<unsafe extern "C" fn(*const PJRT_Error) -> PJRT_Error_Code>,
    pub for_each_payload:
        Option<unsafe extern "C" fn(*const PJRT_Error, PJRT_Error_PayloadVisitor, *mut c_void)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Error {
    pub vtable: *const PJRT_Error_FunctionTable,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Error_GetCode_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub error: *const PJRT_Error,
    pub code: PJRT_Error_Code,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Error_ForEachPayload_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub error: *const PJRT_Error,
    pub visitor: PJRT_Error_PayloadVisitor,
    pub user_arg: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union PJRT_NamedValue_Value {
    pub string_value: *const c_char,
    pub int64_value: i64,
    pub int64_array_value: *const i64,
    pub float_value: f32,
    pub bool_value: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_NamedValue {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub name: *const c_char,
    pub name_size: usize,
    pub r#type: PJRT_NamedValue_Type,
    pub value: PJRT_NamedValue_Value,
    pub value_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Plugin_Initialize_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Plugin_Attributes_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub attributes: *const PJRT_NamedValue,
    pub num_attributes: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Event_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub event: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Event_IsReady_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub event: *mut PJRT_Event,
    pub is_ready: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Event_Error_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub event: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Event_Await_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub event: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Event_OnReady_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub event: *mut PJRT_Event,
    pub callback: PJRT_Event_OnReadyCallback,
    pub user_arg: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Event_Create_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub event: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Event_Set_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub event: *mut PJRT_Event,
    pub error_code: PJRT_Error_Code,
    pub error_message: *const c_char,
    pub error_message_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Memory_FunctionTable {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub instance_struct_size: usize,
    pub get_user_data: Option<unsafe extern "C" fn(*mut PJRT_Memory, *const c_void) -> *mut c_void>,
    pub set_user_data: Option<
        unsafe extern "C" fn(
            *mut PJRT_Memory,
            *const c_void,
            *mut c_void,
            Option<unsafe extern "C" fn(*mut c_void)>,
        ),
    >,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Memory {
    pub vtable: *const PJRT_Memory_FunctionTable,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_KeyValueGetCallback_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub key: *const c_char,
    pub key_size: usize,
    pub timeout_in_ms: c_int,
    pub callback_error: *mut PJRT_CallbackError,
    pub user_arg: *mut c_void,
    pub value: *mut c_char,
    pub value_size: usize,
    pub value_deleter_callback: PJRT_KeyValueGetCallback_ValueDeleter,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_KeyValueTryGetCallback_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub key: *const c_char,
    pub key_size: usize,
    pub callback_error: *mut PJRT_CallbackError,
    pub user_arg: *mut c_void,
    pub value: *mut c_char,
    pub value_size: usize,
    pub value_deleter_callback: PJRT_KeyValueTryGetCallback_ValueDeleter,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_KeyValuePutCallback_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub key: *const c_char,
    pub key_size: usize,
    pub value: *const c_char,
    pub value_size: usize,
    pub callback_error: *mut PJRT_CallbackError,
    pub user_arg: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_Create_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub create_options: *const PJRT_NamedValue,
    pub num_options: usize,
    pub kv_get_callback: PJRT_KeyValueGetCallback,
    pub kv_get_user_arg: *mut c_void,
    pub kv_put_callback: PJRT_KeyValuePutCallback,
    pub kv_put_user_arg: *mut c_void,
    pub client: *mut PJRT_Client,
    pub kv_try_get_callback: PJRT_KeyValueTryGetCallback,
    pub kv_try_get_user_arg: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_PlatformName_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub platform_name: *const c_char,
    pub platform_name_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_ProcessIndex_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub process_index: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_PlatformVersion_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub platform_version: *const c_char,
    pub platform_version_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_TopologyDescription_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub topology: *mut PJRT_TopologyDescription,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_Devices_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub devices: *const *mut PJRT_Device,
    pub num_devices: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_AddressableDevices_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub addressable_devices: *const *mut PJRT_Device,
    pub num_addressable_devices: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_LookupDevice_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub id: c_int,
    pub device: *mut PJRT_Device,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_LookupAddressableDevice_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub local_hardware_id: c_int,
    pub addressable_device: *mut PJRT_Device,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_ProcessInfo {
    pub struct_size: usize,
    pub task_id: c_int,
    pub incarnation_id: u64,
    pub state: PJRT_ProcessState,
    pub error_code: c_int,
    pub error_message: *const c_char,
    pub error_message_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_UpdateGlobalProcessInfo_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub process_infos: *mut PJRT_ProcessInfo,
    pub num_process_infos: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_AddressableMemories_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub addressable_memories: *const *mut PJRT_Memory,
    pub num_addressable_memories: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Program {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub code: *mut c_char,
    pub code_size: usize,
    pub format: *const c_char,
    pub format_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_Compile_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub program: *const PJRT_Program,
    pub compile_options: *const c_char,
    pub compile_options_size: usize,
    pub executable: *mut PJRT_LoadedExecutable,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_Load_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub executable: *mut PJRT_Executable,
    pub compile_options: *const c_char,
    pub compile_options_size: usize,
    pub loaded_executable: *mut PJRT_LoadedExecutable,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_DefaultDeviceAssignment_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub num_replicas: c_int,
    pub num_partitions: c_int,
    pub default_assignment_size: usize,
    pub default_assignment: *mut c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_DmaMap_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub data: *mut c_void,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_DmaUnmap_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub data: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncHostToDeviceTransferManager_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
    pub buffer_index: c_int,
    pub data: *const c_void,
    pub offset: i64,
    pub transfer_size: i64,
    pub is_last_transfer: bool,
    pub done_with_h2d_transfer: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
    pub buffer_index: c_int,
    pub buffer_out: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncHostToDeviceTransferManager_Device_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
    pub device_out: *mut PJRT_Device,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
    pub buffer_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
    pub buffer_index: c_int,
    pub buffer_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
    pub buffer_index: c_int,
    pub error_code: PJRT_Error_Code,
    pub error_message: *const c_char,
    pub error_message_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
    pub transfer_metadata: *const PJRT_NamedValue,
    pub num_metadata: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_MemoryLayout_Tiled {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub minor_to_major: *const i64,
    pub minor_to_major_size: usize,
    pub tile_dims: *const i64,
    pub tile_dim_sizes: *const usize,
    pub num_tiles: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_MemoryLayout_Strides {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub byte_strides: *const i64,
    pub num_byte_strides: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union PJRT_Buffer_MemoryLayout_Value {
    pub tiled: PJRT_Buffer_MemoryLayout_Tiled,
    pub strides: PJRT_Buffer_MemoryLayout_Strides,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_MemoryLayout {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub value: PJRT_Buffer_MemoryLayout_Value,
    pub r#type: PJRT_Buffer_MemoryLayout_Type,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
    pub buffer_index: c_int,
    pub data: *const c_void,
    pub shape_dims: *const i64,
    pub shape_num_dims: usize,
    pub shape_element_type: PJRT_Buffer_Type,
    pub shape_layout: *mut PJRT_Buffer_MemoryLayout,
    pub done_with_h2d_transfer: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_CreateUninitializedBuffer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub shape_dims: *const i64,
    pub shape_num_dims: usize,
    pub shape_element_type: PJRT_Buffer_Type,
    pub shape_layout: *mut PJRT_Buffer_MemoryLayout,
    pub device: *mut PJRT_Device,
    pub memory: *mut PJRT_Memory,
    pub buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_CreateErrorBuffer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub error_code: PJRT_Error_Code,
    pub error_message: *const c_char,
    pub error_message_size: usize,
    pub shape_dims: *const i64,
    pub shape_num_dims: usize,
    pub shape_element_type: PJRT_Buffer_Type,
    pub shape_layout: *mut PJRT_Buffer_MemoryLayout,
    pub memory: *mut PJRT_Memory,
    pub buffer: *mut PJRT_Buffer,
    pub payload: *const PJRT_NamedValue,
    pub num_payload: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_CreateAliasBuffer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub memory: *mut PJRT_Memory,
    pub shape_dims: *const i64,
    pub shape_num_dims: usize,
    pub shape_element_type: PJRT_Buffer_Type,
    pub shape_layout: *mut PJRT_Buffer_MemoryLayout,
    pub alias_buffer: *mut PJRT_Buffer,
    pub fulfill_alias_buffer_cb: *mut PJRT_FulfillAliasBufferCallback,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_FulfillAliasBuffer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub buffer: *mut PJRT_Buffer,
    pub status_code: PJRT_Error_Code,
    pub error_message: *const c_char,
    pub error_message_size: usize,
    pub fulfill_alias_buffer_cb: *mut PJRT_FulfillAliasBufferCallback,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_BufferFromHostBuffer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub data: *const c_void,
    pub r#type: PJRT_Buffer_Type,
    pub dims: *const i64,
    pub num_dims: usize,
    pub byte_strides: *const i64,
    pub num_byte_strides: usize,
    pub host_buffer_semantics: PJRT_HostBufferSemantics,
    pub device: *mut PJRT_Device,
    pub memory: *mut PJRT_Memory,
    pub device_layout: *mut PJRT_Buffer_MemoryLayout,
    pub done_with_host_buffer: *mut PJRT_Event,
    pub buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_CreateViewOfDeviceBuffer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub device_buffer_ptr: *mut c_void,
    pub dims: *const i64,
    pub num_dims: usize,
    pub element_type: PJRT_Buffer_Type,
    pub layout: *mut PJRT_Buffer_MemoryLayout,
    pub device: *mut PJRT_Device,
    pub on_delete_callback: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    pub on_delete_callback_arg: *mut c_void,
    pub stream: isize,
    pub buffer: *mut PJRT_Buffer,
    pub memory: *mut PJRT_Memory,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_ShapeSpec {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub dims: *const i64,
    pub num_dims: usize,
    pub element_type: PJRT_Buffer_Type,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub shape_specs: *mut PJRT_ShapeSpec,
    pub num_shape_specs: usize,
    pub device_layouts: *mut *mut PJRT_Buffer_MemoryLayout,
    pub num_device_layouts: usize,
    pub memory: *mut PJRT_Memory,
    pub transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_DeviceDescription_Id_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device_description: *mut PJRT_DeviceDescription,
    pub id: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_DeviceDescription_ProcessIndex_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device_description: *mut PJRT_DeviceDescription,
    pub process_index: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_DeviceDescription_Attributes_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device_description: *mut PJRT_DeviceDescription,
    pub num_attributes: usize,
    pub attributes: *const PJRT_NamedValue,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_DeviceDescription_Kind_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device_description: *mut PJRT_DeviceDescription,
    pub device_kind: *const c_char,
    pub device_kind_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_DeviceDescription_DebugString_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device_description: *mut PJRT_DeviceDescription,
    pub debug_string: *const c_char,
    pub debug_string_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_DeviceDescription_ToString_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device_description: *mut PJRT_DeviceDescription,
    pub to_string: *const c_char,
    pub to_string_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_GetDescription_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
    pub device_description: *mut PJRT_DeviceDescription,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_IsAddressable_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
    pub is_addressable: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_LocalHardwareId_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
    pub local_hardware_id: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_AddressableMemories_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
    pub memories: *const *mut PJRT_Memory,
    pub num_memories: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_DefaultMemory_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
    pub memory: *mut PJRT_Memory,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_MemoryStats_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
    pub bytes_in_use: i64,
    pub peak_bytes_in_use: i64,
    pub peak_bytes_in_use_is_set: bool,
    pub num_allocs: i64,
    pub num_allocs_is_set: bool,
    pub largest_alloc_size: i64,
    pub largest_alloc_size_is_set: bool,
    pub bytes_limit: i64,
    pub bytes_limit_is_set: bool,
    pub bytes_reserved: i64,
    pub bytes_reserved_is_set: bool,
    pub peak_bytes_reserved: i64,
    pub peak_bytes_reserved_is_set: bool,
    pub bytes_reservable_limit: i64,
    pub bytes_reservable_limit_is_set: bool,
    pub largest_free_block_bytes: i64,
    pub largest_free_block_bytes_is_set: bool,
    pub pool_bytes: i64,
    pub pool_bytes_is_set: bool,
    pub peak_pool_bytes: i64,
    pub peak_pool_bytes_is_set: bool,
    pub peak_allocated_bytes: i64,
    pub peak_allocated_bytes_is_set: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_ClearMemoryStats_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_PoisonExecution_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
    pub launch_id: i32,
    pub error_code: PJRT_Error_Code,
    pub error_message: *const c_char,
    pub error_message_size: usize,
    pub poisoned: bool,
    pub payload: *const PJRT_NamedValue,
    pub num_payload: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_GetAttributes_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
    pub attributes: *const PJRT_NamedValue,
    pub num_attributes: usize,
    pub device_attributes: *mut PJRT_Device_Attributes,
    pub attributes_deleter: Option<unsafe extern "C" fn(*mut PJRT_Device_Attributes)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Device_CreateAsyncTrackingEvent_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device: *mut PJRT_Device,
    pub description: *const c_char,
    pub description_size: usize,
    pub event: *mut PJRT_AsyncTrackingEvent,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_AsyncTrackingEvent_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub event: *mut PJRT_AsyncTrackingEvent,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Memory_Id_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub memory: *mut PJRT_Memory,
    pub id: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Memory_Kind_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub memory: *mut PJRT_Memory,
    pub kind: *const c_char,
    pub kind_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Memory_Kind_Id_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub memory: *mut PJRT_Memory,
    pub kind_id: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Memory_DebugString_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub memory: *mut PJRT_Memory,
    pub debug_string: *const c_char,
    pub debug_string_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Memory_ToString_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub memory: *mut PJRT_Memory,
    pub to_string: *const c_char,
    pub to_string_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Memory_AddressableByDevices_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub memory: *mut PJRT_Memory,
    pub devices: *const *mut PJRT_Device,
    pub num_devices: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_ExecuteContext_Create_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub context: *mut PJRT_ExecuteContext,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_ExecuteContext_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub context: *mut PJRT_ExecuteContext,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadedExecutable_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_LoadedExecutable,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadedExecutable_GetExecutable_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub loaded_executable: *mut PJRT_LoadedExecutable,
    pub executable: *mut PJRT_Executable,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadedExecutable_GetDeviceAssignment_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_LoadedExecutable,
    pub serialized_bytes: *const c_char,
    pub serialized_bytes_size: usize,
    pub serialized_device_assignment: *mut PJRT_DeviceAssignmentSerialized,
    pub serialized_device_assignment_deleter:
        Option<unsafe extern "C" fn(*mut PJRT_DeviceAssignmentSerialized)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_Name_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub executable_name: *const c_char,
    pub executable_name_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_NumReplicas_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_replicas: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_NumPartitions_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_partitions: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LogicalDeviceIds {
    pub replica: c_int,
    pub partition: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadedExecutable_AddressableDevices_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_LoadedExecutable,
    pub addressable_devices: *const *mut PJRT_Device,
    pub num_addressable_devices: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_LoadedExecutable,
    pub addressable_device_logical_ids: *mut PJRT_LogicalDeviceIds,
    pub num_addressable_device_logical_ids: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_OptimizedProgram_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub program: *mut PJRT_Program,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadedExecutable_Delete_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_LoadedExecutable,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadedExecutable_IsDeleted_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_LoadedExecutable,
    pub is_deleted: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Chunk {
    pub data: *mut c_void,
    pub size: usize,
    pub deleter: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    pub deleter_arg: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_SendCallbackInfo {
    pub channel_id: i64,
    pub user_arg: *mut c_void,
    pub send_callback: PJRT_SendCallback,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_RecvCallbackInfo {
    pub channel_id: i64,
    pub user_arg: *mut c_void,
    pub recv_callback: PJRT_RecvCallback,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_HloOutputCallbackInfo {
    pub user_arg: *mut c_void,
    pub callback: PJRT_HloOutputCallback,
    pub callback_id: i64,
    pub num_operands: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_ExecuteOptions {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub send_callbacks: *mut *mut PJRT_SendCallbackInfo,
    pub recv_callbacks: *mut *mut PJRT_RecvCallbackInfo,
    pub num_send_ops: usize,
    pub num_recv_ops: usize,
    pub launch_id: c_int,
    pub non_donatable_input_indices: *const i64,
    pub num_non_donatable_input_indices: usize,
    pub context: *mut PJRT_ExecuteContext,
    pub call_location: *const c_char,
    pub num_tasks: usize,
    pub task_ids: *mut c_int,
    pub incarnation_ids: *mut i64,
    pub multi_slice_config: *mut PJRT_MultiSlice_Config,
    pub use_major_to_minor_data_layout_for_callbacks: bool,
    pub hlo_output_callbacks: *mut PJRT_HloOutputCallbackInfo,
    pub num_hlo_output_callbacks: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadedExecutable_Execute_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_LoadedExecutable,
    pub options: *mut PJRT_ExecuteOptions,
    pub argument_lists: *const *const *mut PJRT_Buffer,
    pub num_devices: usize,
    pub num_args: usize,
    pub output_lists: *const *mut *mut PJRT_Buffer,
    pub device_complete_events: *mut *mut PJRT_Event,
    pub execute_device: *mut PJRT_Device,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_NumOutputs_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_outputs: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_SizeOfGeneratedCodeInBytes_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub size_in_bytes: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_Fingerprint_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub executable_fingerprint: *const c_char,
    pub executable_fingerprint_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_GetCostAnalysis_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_properties: usize,
    pub properties: *const PJRT_NamedValue,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_GetCompiledMemoryStats_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub generated_code_size_in_bytes: i64,
    pub argument_size_in_bytes: i64,
    pub output_size_in_bytes: i64,
    pub alias_size_in_bytes: i64,
    pub temp_size_in_bytes: i64,
    pub host_generated_code_size_in_bytes: i64,
    pub host_argument_size_in_bytes: i64,
    pub host_output_size_in_bytes: i64,
    pub host_alias_size_in_bytes: i64,
    pub host_temp_size_in_bytes: i64,
    pub peak_memory_in_bytes: i64,
    pub total_size_in_bytes: i64,
    pub total_allocation_bytes: i64,
    pub indefinite_allocations: i64,
    pub peak_unpadded_heap_bytes: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_OutputElementTypes_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub output_types: *mut PJRT_Buffer_Type,
    pub num_output_types: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_OutputDimensions_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_outputs: usize,
    pub dims: *const i64,
    pub dim_sizes: *const usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_ParameterMemoryKinds_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_parameters: usize,
    pub memory_kinds: *const *const c_char,
    pub memory_kind_sizes: *const usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_OutputMemoryKinds_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_outputs: usize,
    pub memory_kinds: *const *const c_char,
    pub memory_kind_sizes: *const usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_Serialize_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *const PJRT_Executable,
    pub serialized_bytes: *const c_char,
    pub serialized_bytes_size: usize,
    pub serialized_executable: *mut PJRT_SerializedExecutable,
    pub serialized_executable_deleter: Option<unsafe extern "C" fn(*mut PJRT_SerializedExecutable)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_GetCompileOptions_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub serialized_bytes: *const c_char,
    pub serialized_bytes_size: usize,
    pub serialized_compile_options: *mut PJRT_SerializedCompileOptions,
    pub serialized_compile_options_deleter:
        Option<unsafe extern "C" fn(*mut PJRT_SerializedCompileOptions)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadOptions {
    pub struct_size: usize,
    pub computation_origin: *const i32,
    pub computation_origin_size: usize,
    pub multi_slice_config: *mut PJRT_MultiSlice_Config,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Executable_DeserializeAndLoad_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub serialized_executable: *const c_char,
    pub serialized_executable_size: usize,
    pub loaded_executable: *mut PJRT_LoadedExecutable,
    pub overridden_serialized_compile_options: *const c_char,
    pub overridden_serialized_compile_options_size: usize,
    pub load_options: *mut PJRT_LoadOptions,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_LoadedExecutable_Fingerprint_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_LoadedExecutable,
    pub executable_fingerprint: *const c_char,
    pub executable_fingerprint_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_ElementType_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub r#type: PJRT_Buffer_Type,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_Dimensions_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub dims: *const i64,
    pub num_dims: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_UnpaddedDimensions_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub unpadded_dims: *const i64,
    pub num_dims: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_DynamicDimensionIndices_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub dynamic_dim_indices: *const usize,
    pub num_dynamic_dims: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_GetMemoryLayout_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub layout: PJRT_Buffer_MemoryLayout,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_ToHostBuffer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub src: *mut PJRT_Buffer,
    pub host_layout: *mut PJRT_Buffer_MemoryLayout,
    pub dst: *mut c_void,
    pub dst_size: usize,
    pub event: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_OnDeviceSizeInBytes_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub on_device_size_in_bytes: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_Delete_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_IsDeleted_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub is_deleted: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_CopyRawToHost_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub dst: *mut c_void,
    pub offset: i64,
    pub transfer_size: i64,
    pub event: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_CopyRawToHostFuture_Callback_Args {
    pub struct_size: usize,
    pub callback_data: *mut c_void,
    pub error_code: PJRT_Error_Code,
    pub error_message: *const c_char,
    pub error_message_size: usize,
    pub dst: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_CopyRawToHostFuture_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub offset: i64,
    pub transfer_size: i64,
    pub event: *mut PJRT_Event,
    pub callback_data: *mut c_void,
    pub future_ready_callback:
        Option<unsafe extern "C" fn(*mut PJRT_Buffer_CopyRawToHostFuture_Callback_Args)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_CopyToDevice_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub dst_device: *mut PJRT_Device,
    pub dst_buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_CopyToMemory_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub dst_memory: *mut PJRT_Memory,
    pub dst_buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_Bitcast_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub element_type: PJRT_Buffer_Type,
    pub dims: *const i64,
    pub num_dims: usize,
    pub device_layout: *mut PJRT_Buffer_MemoryLayout,
    pub out_buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_IsOnCpu_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub is_on_cpu: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_Device_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub device: *mut PJRT_Device,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_Memory_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub memory: *mut PJRT_Memory,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_ReadyEvent_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub event: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_UnsafePointer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub buffer_pointer: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_IncreaseExternalReferenceCount_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_DecreaseExternalReferenceCount_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub device_memory_ptr: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_DonateWithControlDependency_Callback_Args {
    pub struct_size: usize,
    pub callback_data: *mut c_void,
    pub error_code: PJRT_Error_Code,
    pub error_message: *const c_char,
    pub error_message_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Buffer_DonateWithControlDependency_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub callback_data: *mut c_void,
    pub dependency_ready_callback:
        Option<unsafe extern "C" fn(*mut PJRT_Buffer_DonateWithControlDependency_Callback_Args)>,
    pub out_buffer: *mut PJRT_Buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_CopyToDeviceStream_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub stream: *mut PJRT_CopyToDeviceStream,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_CopyToDeviceStream_AddChunk_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub stream: *mut PJRT_CopyToDeviceStream,
    pub chunk: *mut PJRT_Chunk,
    pub transfer_complete: *mut PJRT_Event,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_CopyToDeviceStream_TotalBytes_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub stream: *mut PJRT_CopyToDeviceStream,
    pub total_bytes: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_CopyToDeviceStream_GranuleSize_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub stream: *mut PJRT_CopyToDeviceStream,
    pub granule_size_in_bytes: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_CopyToDeviceStream_CurrentBytes_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub stream: *mut PJRT_CopyToDeviceStream,
    pub current_bytes: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_Create_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology_name: *const c_char,
    pub topology_name_size: usize,
    pub create_options: *const PJRT_NamedValue,
    pub num_options: usize,
    pub topology: *mut PJRT_TopologyDescription,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *mut PJRT_TopologyDescription,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_PlatformVersion_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *mut PJRT_TopologyDescription,
    pub platform_version: *const c_char,
    pub platform_version_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_PlatformName_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *const PJRT_TopologyDescription,
    pub platform_name: *const c_char,
    pub platform_name_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_GetDeviceDescriptions_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *const PJRT_TopologyDescription,
    pub descriptions: *const *mut PJRT_DeviceDescription,
    pub num_descriptions: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_Serialize_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *mut PJRT_TopologyDescription,
    pub serialized_bytes: *const c_char,
    pub serialized_bytes_size: usize,
    pub serialized_topology: *mut PJRT_SerializedTopology,
    pub serialized_topology_deleter: Option<unsafe extern "C" fn(*mut PJRT_SerializedTopology)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_Deserialize_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub serialized_topology: *const c_char,
    pub serialized_topology_size: usize,
    pub topology: *mut PJRT_TopologyDescription,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_Attributes_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *mut PJRT_TopologyDescription,
    pub attributes: *const PJRT_NamedValue,
    pub num_attributes: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_Fingerprint_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *const PJRT_TopologyDescription,
    pub fingerprint: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *const PJRT_TopologyDescription,
    pub memory_space_kind_id: c_int,
    pub dims: *const i64,
    pub num_dims: usize,
    pub element_type: PJRT_Buffer_Type,
    pub layout: *const PJRT_Buffer_MemoryLayout,
    pub serialized_shape: *const c_char,
    pub serialized_shape_size: usize,
    pub serialized_shape_deleter: Option<unsafe extern "C" fn(*const c_char)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_TopologyDescription_GetMemorySpaceKindIds_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *const PJRT_TopologyDescription,
    pub memory_space_kind_ids: *const c_int,
    pub num_memory_space_kind_ids: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Compile_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology: *const PJRT_TopologyDescription,
    pub program: *const PJRT_Program,
    pub compile_options: *const c_char,
    pub compile_options_size: usize,
    pub client: *mut PJRT_Client,
    pub executable: *mut PJRT_Executable,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Api {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub pjrt_api_version: PJRT_Api_Version,
    pub PJRT_Error_Destroy: Option<PlainEntry<PJRT_Error_Destroy_Args>>,
    pub PJRT_Error_Message: Option<PlainEntry<PJRT_Error_Message_Args>>,
    pub PJRT_Error_GetCode: Option<Entry<PJRT_Error_GetCode_Args>>,
    pub PJRT_Plugin_Initialize: Option<Entry<PJRT_Plugin_Initialize_Args>>,
    pub PJRT_Plugin_Attributes: Option<Entry<PJRT_Plugin_Attributes_Args>>,
    pub PJRT_Event_Destroy: Option<Entry<PJRT_Event_Destroy_Args>>,
    pub PJRT_Event_IsReady: Option<Entry<PJRT_Event_IsReady_Args>>,
    pub PJRT_Event_Error: Option<Entry<PJRT_Event_Error_Args>>,
    pub PJRT_Event_Await: Option<Entry<PJRT_Event_Await_Args>>,
    pub PJRT_Event_OnReady: Option<Entry<PJRT_Event_OnReady_Args>>,
    pub PJRT_Client_Create: Option<Entry<PJRT_Client_Create_Args>>,
    pub PJRT_Client_Destroy: Option<Entry<PJRT_Client_Destroy_Args>>,
    pub PJRT_Client_PlatformName: Option<Entry<PJRT_Client_PlatformName_Args>>,
    pub PJRT_Client_ProcessIndex: Option<Entry<PJRT_Client_ProcessIndex_Args>>,
    pub PJRT_Client_PlatformVersion: Option<Entry<PJRT_Client_PlatformVersion_Args>>,
    pub PJRT_Client_Devices: Option<Entry<PJRT_Client_Devices_Args>>,
    pub PJRT_Client_AddressableDevices: Option<Entry<PJRT_Client_AddressableDevices_Args>>,
    pub PJRT_Client_LookupDevice: Option<Entry<PJRT_Client_LookupDevice_Args>>,
    pub PJRT_Client_LookupAddressableDevice:
        Option<Entry<PJRT_Client_LookupAddressableDevice_Args>>,
    pub PJRT_Client_AddressableMemories: Option<Entry<PJRT_Client_AddressableMemories_Args>>,
    pub PJRT_Client_Compile: Option<Entry<PJRT_Client_Compile_Args>>,
    pub PJRT_Client_DefaultDeviceAssignment:
        Option<Entry<PJRT_Client_DefaultDeviceAssignment_Args>>,
    pub PJRT_Client_BufferFromHostBuffer: Option<Entry<PJRT_Client_BufferFromHostBuffer_Args>>,
    pub PJRT_DeviceDescription_Id: Option<Entry<PJRT_DeviceDescription_Id_Args>>,
    pub PJRT_DeviceDescription_ProcessIndex:
        Option<Entry<PJRT_DeviceDescription_ProcessIndex_Args>>,
    pub PJRT_DeviceDescription_Attributes: Option<Entry<PJRT_DeviceDescription_Attributes_Args>>,
    pub PJRT_DeviceDescription_Kind: Option<Entry<PJRT_DeviceDescription_Kind_Args>>,
    pub PJRT_DeviceDescription_DebugString: Option<Entry<PJRT_DeviceDescription_DebugString_Args>>,
    pub PJRT_DeviceDescription_ToString: Option<Entry<PJRT_DeviceDescription_ToString_Args>>,
    pub PJRT_Device_GetDescription: Option<Entry<PJRT_Device_GetDescription_Args>>,
    pub PJRT_Device_IsAddressable: Option<Entry<PJRT_Device_IsAddressable_Args>>,
    pub PJRT_Device_LocalHardwareId: Option<Entry<PJRT_Device_LocalHardwareId_Args>>,
    pub PJRT_Device_AddressableMemories: Option<Entry<PJRT_Device_AddressableMemories_Args>>,
    pub PJRT_Device_DefaultMemory: Option<Entry<PJRT_Device_DefaultMemory_Args>>,
    pub PJRT_Device_MemoryStats: Option<Entry<PJRT_Device_MemoryStats_Args>>,
    pub PJRT_Memory_Id: Option<Entry<PJRT_Memory_Id_Args>>,
    pub PJRT_Memory_Kind: Option<Entry<PJRT_Memory_Kind_Args>>,
    pub PJRT_Memory_DebugString: Option<Entry<PJRT_Memory_DebugString_Args>>,
    pub PJRT_Memory_ToString: Option<Entry<PJRT_Memory_ToString_Args>>,
    pub PJRT_Memory_AddressableByDevices: Option<Entry<PJRT_Memory_AddressableByDevices_Args>>,
    pub PJRT_Executable_Destroy: Option<Entry<PJRT_Executable_Destroy_Args>>,
    pub PJRT_Executable_Name: Option<Entry<PJRT_Executable_Name_Args>>,
    pub PJRT_Executable_NumReplicas: Option<Entry<PJRT_Executable_NumReplicas_Args>>,
    pub PJRT_Executable_NumPartitions: Option<Entry<PJRT_Executable_NumPartitions_Args>>,
    pub PJRT_Executable_NumOutputs: Option<Entry<PJRT_Executable_NumOutputs_Args>>,
    pub PJRT_Executable_SizeOfGeneratedCodeInBytes:
        Option<Entry<PJRT_Executable_SizeOfGeneratedCodeInBytes_Args>>,
    pub PJRT_Executable_GetCostAnalysis: Option<Entry<PJRT_Executable_GetCostAnalysis_Args>>,
    pub PJRT_Executable_OutputMemoryKinds: Option<Entry<PJRT_Executable_OutputMemoryKinds_Args>>,
    pub PJRT_Executable_OptimizedProgram: Option<Entry<PJRT_Executable_OptimizedProgram_Args>>,
    pub PJRT_Executable_Serialize: Option<Entry<PJRT_Executable_Serialize_Args>>,
    pub PJRT_LoadedExecutable_Destroy: Option<Entry<PJRT_LoadedExecutable_Destroy_Args>>,
    pub PJRT_LoadedExecutable_GetExecutable:
        Option<Entry<PJRT_LoadedExecutable_GetExecutable_Args>>,
    pub PJRT_LoadedExecutable_AddressableDevices:
        Option<Entry<PJRT_LoadedExecutable_AddressableDevices_Args>>,
    pub PJRT_LoadedExecutable_Delete: Option<Entry<PJRT_LoadedExecutable_Delete_Args>>,
    pub PJRT_LoadedExecutable_IsDeleted: Option<Entry<PJRT_LoadedExecutable_IsDeleted_Args>>,
    pub PJRT_LoadedExecutable_Execute: Option<Entry<PJRT_LoadedExecutable_Execute_Args>>,
    pub PJRT_Executable_DeserializeAndLoad: Option<Entry<PJRT_Executable_DeserializeAndLoad_Args>>,
    pub PJRT_LoadedExecutable_Fingerprint: Option<Entry<PJRT_LoadedExecutable_Fingerprint_Args>>,
    pub PJRT_Buffer_Destroy: Option<Entry<PJRT_Buffer_Destroy_Args>>,
    pub PJRT_Buffer_ElementType: Option<Entry<PJRT_Buffer_ElementType_Args>>,
    pub PJRT_Buffer_Dimensions: Option<Entry<PJRT_Buffer_Dimensions_Args>>,
    pub PJRT_Buffer_UnpaddedDimensions: Option<Entry<PJRT_Buffer_UnpaddedDimensions_Args>>,
    pub PJRT_Buffer_DynamicDimensionIndices:
        Option<Entry<PJRT_Buffer_DynamicDimensionIndices_Args>>,
    pub PJRT_Buffer_GetMemoryLayout: Option<Entry<PJRT_Buffer_GetMemoryLayout_Args>>,
    pub PJRT_Buffer_OnDeviceSizeInBytes: Option<Entry<PJRT_Buffer_OnDeviceSizeInBytes_Args>>,
    pub PJRT_Buffer_Device: Option<Entry<PJRT_Buffer_Device_Args>>,
    pub PJRT_Buffer_Memory: Option<Entry<PJRT_Buffer_Memory_Args>>,
    pub PJRT_Buffer_Delete: Option<Entry<PJRT_Buffer_Delete_Args>>,
    pub PJRT_Buffer_IsDeleted: Option<Entry<PJRT_Buffer_IsDeleted_Args>>,
    pub PJRT_Buffer_CopyToDevice: Option<Entry<PJRT_Buffer_CopyToDevice_Args>>,
    pub PJRT_Buffer_ToHostBuffer: Option<Entry<PJRT_Buffer_ToHostBuffer_Args>>,
    pub PJRT_Buffer_IsOnCpu: Option<Entry<PJRT_Buffer_IsOnCpu_Args>>,
    pub PJRT_Buffer_ReadyEvent: Option<Entry<PJRT_Buffer_ReadyEvent_Args>>,
    pub PJRT_Buffer_UnsafePointer: Option<Entry<PJRT_Buffer_UnsafePointer_Args>>,
    pub PJRT_Buffer_IncreaseExternalReferenceCount:
        Option<Entry<PJRT_Buffer_IncreaseExternalReferenceCount_Args>>,
    pub PJRT_Buffer_DecreaseExternalReferenceCount:
        Option<Entry<PJRT_Buffer_DecreaseExternalReferenceCount_Args>>,
    pub PJRT_Buffer_OpaqueDeviceMemoryDataPointer:
        Option<Entry<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args>>,
    pub PJRT_CopyToDeviceStream_Destroy: Option<Entry<PJRT_CopyToDeviceStream_Destroy_Args>>,
    pub PJRT_CopyToDeviceStream_AddChunk: Option<Entry<PJRT_CopyToDeviceStream_AddChunk_Args>>,
    pub PJRT_CopyToDeviceStream_TotalBytes: Option<Entry<PJRT_CopyToDeviceStream_TotalBytes_Args>>,
    pub PJRT_CopyToDeviceStream_GranuleSize:
        Option<Entry<PJRT_CopyToDeviceStream_GranuleSize_Args>>,
    pub PJRT_CopyToDeviceStream_CurrentBytes:
        Option<Entry<PJRT_CopyToDeviceStream_CurrentBytes_Args>>,
    pub PJRT_TopologyDescription_Create: Option<Entry<PJRT_TopologyDescription_Create_Args>>,
    pub PJRT_TopologyDescription_Destroy: Option<Entry<PJRT_TopologyDescription_Destroy_Args>>,
    pub PJRT_TopologyDescription_PlatformName:
        Option<Entry<PJRT_TopologyDescription_PlatformName_Args>>,
    pub PJRT_TopologyDescription_PlatformVersion:
        Option<Entry<PJRT_TopologyDescription_PlatformVersion_Args>>,
    pub PJRT_TopologyDescription_GetDeviceDescriptions:
        Option<Entry<PJRT_TopologyDescription_GetDeviceDescriptions_Args>>,
    pub PJRT_TopologyDescription_Serialize: Option<Entry<PJRT_TopologyDescription_Serialize_Args>>,
    pub PJRT_TopologyDescription_Attributes:
        Option<Entry<PJRT_TopologyDescription_Attributes_Args>>,
    pub PJRT_Compile: Option<Entry<PJRT_Compile_Args>>,
    pub PJRT_Executable_OutputElementTypes: Option<Entry<PJRT_Executable_OutputElementTypes_Args>>,
    pub PJRT_Executable_OutputDimensions: Option<Entry<PJRT_Executable_OutputDimensions_Args>>,
    pub PJRT_Buffer_CopyToMemory: Option<Entry<PJRT_Buffer_CopyToMemory_Args>>,
    pub PJRT_Client_CreateViewOfDeviceBuffer:
        Option<Entry<PJRT_Client_CreateViewOfDeviceBuffer_Args>>,
    pub PJRT_Executable_Fingerprint: Option<Entry<PJRT_Executable_Fingerprint_Args>>,
    pub PJRT_Client_TopologyDescription: Option<Entry<PJRT_Client_TopologyDescription_Args>>,
    pub PJRT_Executable_GetCompiledMemoryStats:
        Option<Entry<PJRT_Executable_GetCompiledMemoryStats_Args>>,
    pub PJRT_Memory_Kind_Id: Option<Entry<PJRT_Memory_Kind_Id_Args>>,
    pub PJRT_ExecuteContext_Create: Option<Entry<PJRT_ExecuteContext_Create_Args>>,
    pub PJRT_ExecuteContext_Destroy: Option<Entry<PJRT_ExecuteContext_Destroy_Args>>,
    pub PJRT_Buffer_CopyRawToHost: Option<Entry<PJRT_Buffer_CopyRawToHost_Args>>,
    pub PJRT_AsyncHostToDeviceTransferManager_Destroy:
        Option<Entry<PJRT_AsyncHostToDeviceTransferManager_Destroy_Args>>,
    pub PJRT_AsyncHostToDeviceTransferManager_TransferData:
        Option<Entry<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>>,
    pub PJRT_Client_CreateBuffersForAsyncHostToDevice:
        Option<Entry<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>>,
    pub PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer:
        Option<Entry<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>>,
    pub PJRT_AsyncHostToDeviceTransferManager_Device:
        Option<Entry<PJRT_AsyncHostToDeviceTransferManager_Device_Args>>,
    pub PJRT_AsyncHostToDeviceTransferManager_BufferCount:
        Option<Entry<PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args>>,
    pub PJRT_AsyncHostToDeviceTransferManager_BufferSize:
        Option<Entry<PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args>>,
    pub PJRT_AsyncHostToDeviceTransferManager_SetBufferError:
        Option<Entry<PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args>>,
    pub PJRT_AsyncHostToDeviceTransferManager_AddMetadata:
        Option<Entry<PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args>>,
    pub PJRT_Client_DmaMap: Option<Entry<PJRT_Client_DmaMap_Args>>,
    pub PJRT_Client_DmaUnmap: Option<Entry<PJRT_Client_DmaUnmap_Args>>,
    pub PJRT_Client_CreateUninitializedBuffer:
        Option<Entry<PJRT_Client_CreateUninitializedBuffer_Args>>,
    pub PJRT_Client_UpdateGlobalProcessInfo:
        Option<Entry<PJRT_Client_UpdateGlobalProcessInfo_Args>>,
    pub PJRT_TopologyDescription_Deserialize:
        Option<Entry<PJRT_TopologyDescription_Deserialize_Args>>,
    pub PJRT_Client_CreateAliasBuffer: Option<Entry<PJRT_Client_CreateAliasBuffer_Args>>,
    pub PJRT_Client_FulfillAliasBuffer: Option<Entry<PJRT_Client_FulfillAliasBuffer_Args>>,
    pub PJRT_LoadedExecutable_GetDeviceAssignment:
        Option<Entry<PJRT_LoadedExecutable_GetDeviceAssignment_Args>>,
    pub PJRT_Client_CreateErrorBuffer: Option<Entry<PJRT_Client_CreateErrorBuffer_Args>>,
    pub PJRT_AsyncHostToDeviceTransferManager_TransferLiteral:
        Option<Entry<PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args>>,
    pub PJRT_Buffer_CopyRawToHostFuture: Option<Entry<PJRT_Buffer_CopyRawToHostFuture_Args>>,
    pub PJRT_Device_PoisonExecution: Option<Entry<PJRT_Device_PoisonExecution_Args>>,
    pub PJRT_Device_CreateAsyncTrackingEvent:
        Option<Entry<PJRT_Device_CreateAsyncTrackingEvent_Args>>,
    pub PJRT_AsyncTrackingEvent_Destroy: Option<Entry<PJRT_AsyncTrackingEvent_Destroy_Args>>,
    pub PJRT_Executable_GetCompileOptions: Option<Entry<PJRT_Executable_GetCompileOptions_Args>>,
    pub PJRT_Buffer_DonateWithControlDependency:
        Option<Entry<PJRT_Buffer_DonateWithControlDependency_Args>>,
    pub PJRT_Event_Create: Option<Entry<PJRT_Event_Create_Args>>,
    pub PJRT_Event_Set: Option<Entry<PJRT_Event_Set_Args>>,
    pub PJRT_Device_GetAttributes: Option<Entry<PJRT_Device_GetAttributes_Args>>,
    pub PJRT_Client_Load: Option<Entry<PJRT_Client_Load_Args>>,
    pub PJRT_LoadedExecutable_AddressableDeviceLogicalIds:
        Option<Entry<PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args>>,
    pub PJRT_Buffer_Bitcast: Option<Entry<PJRT_Buffer_Bitcast_Args>>,
    pub PJRT_Error_ForEachPayload: Option<Entry<PJRT_Error_ForEachPayload_Args>>,
    pub PJRT_TopologyDescription_Fingerprint:
        Option<Entry<PJRT_TopologyDescription_Fingerprint_Args>>,
    pub PJRT_Executable_ParameterMemoryKinds:
        Option<Entry<PJRT_Executable_ParameterMemoryKinds_Args>>,
    pub PJRT_Device_ClearMemoryStats: Option<Entry<PJRT_Device_ClearMemoryStats_Args>>,
    pub PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace:
        Option<Entry<PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args>>,
    pub PJRT_TopologyDescription_GetMemorySpaceKindIds:
        Option<Entry<PJRT_TopologyDescription_GetMemorySpaceKindIds_Args>>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_FFI_Type_Info {
    pub deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    pub serialize: Option<unsafe extern "C" fn()>,
    pub deserialize: Option<unsafe extern "C" fn()>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_FFI_Type_Register_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub type_name: *const c_char,
    pub type_name_size: usize,
    pub type_id: i64,
    pub type_info: *mut PJRT_FFI_Type_Info,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_FFI_UserData {
    pub type_id: i64,
    pub data: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_FFI_UserData_Add_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub context: *mut PJRT_ExecuteContext,
    pub user_data: PJRT_FFI_UserData,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_FFI_Register_Handler_Args {
    pub struct_size: usize,
    pub target_name: *const c_char,
    pub target_name_size: usize,
    pub handler: *mut c_void,
    pub platform_name: *const c_char,
    pub platform_name_size: usize,
    pub traits: PJRT_FFI_Handler_TraitsBits,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_FFI_Extension {
    pub base: PJRT_Extension_Base,
    pub type_register: Option<Entry<PJRT_FFI_Type_Register_Args>>,
    pub user_data_add: Option<Entry<PJRT_FFI_UserData_Add_Args>>,
    pub register_handler: Option<Entry<PJRT_FFI_Register_Handler_Args>>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Layouts_MemoryLayout_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub layout: *mut PJRT_Layouts_MemoryLayout,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Layouts_MemoryLayout_Serialize_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub layout: *mut PJRT_Layouts_MemoryLayout,
    pub serialized_bytes: *const c_char,
    pub serialized_bytes_size: usize,
    pub serialized_layout: *mut PJRT_Layouts_SerializedLayout,
    pub serialized_layout_deleter: Option<unsafe extern "C" fn(*mut PJRT_Layouts_SerializedLayout)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub buffer: *mut PJRT_Buffer,
    pub layout: *mut PJRT_Layouts_MemoryLayout,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub client: *mut PJRT_Client,
    pub r#type: PJRT_Buffer_Type,
    pub dims: *const i64,
    pub num_dims: usize,
    pub layout: *mut PJRT_Layouts_MemoryLayout,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub topology_description: *mut PJRT_TopologyDescription,
    pub r#type: PJRT_Buffer_Type,
    pub dims: *const i64,
    pub num_dims: usize,
    pub layout: *mut PJRT_Layouts_MemoryLayout,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_outputs: usize,
    pub layouts: *mut *mut PJRT_Layouts_MemoryLayout,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_parameters: usize,
    pub layouts: *mut *mut PJRT_Layouts_MemoryLayout,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Layouts_Extension {
    pub base: PJRT_Extension_Base,
    pub PJRT_Layouts_MemoryLayout_Destroy: Option<Entry<PJRT_Layouts_MemoryLayout_Destroy_Args>>,
    pub PJRT_Layouts_MemoryLayout_Serialize:
        Option<Entry<PJRT_Layouts_MemoryLayout_Serialize_Args>>,
    pub PJRT_Layouts_PJRT_Client_GetDefaultLayout:
        Option<Entry<PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args>>,
    pub PJRT_Layouts_PJRT_Buffer_MemoryLayout:
        Option<Entry<PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args>>,
    pub PJRT_Layouts_PJRT_Topology_GetDefaultLayout:
        Option<Entry<PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args>>,
    pub PJRT_Layouts_PJRT_Executable_GetOutputLayouts:
        Option<Entry<PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args>>,
    pub PJRT_Layouts_PJRT_Executable_GetParameterLayouts:
        Option<Entry<PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args>>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_DeviceDescription_MemoryDescriptions_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub device_description: *mut PJRT_DeviceDescription,
    pub memory_descriptions: *const *const PJRT_MemoryDescription,
    pub num_memory_descriptions: usize,
    pub default_memory_index: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_MemoryDescription_Kind_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub memory_description: *const PJRT_MemoryDescription,
    pub kind: *const c_char,
    pub kind_size: usize,
    pub kind_id: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_MemoryDescriptions_Extension {
    pub base: PJRT_Extension_Base,
    pub PJRT_DeviceDescription_MemoryDescriptions:
        Option<Entry<PJRT_DeviceDescription_MemoryDescriptions_Args>>,
    pub PJRT_MemoryDescription_Kind: Option<Entry<PJRT_MemoryDescription_Kind_Args>>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct JAX_CustomCallPartitioner_string {
    pub data: *const c_char,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct JAX_CustomCallPartitioner_aval {
    pub shape: JAX_CustomCallPartitioner_string,
    pub has_sharding: bool,
    pub sharding: JAX_CustomCallPartitioner_string,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct JAX_CustomCallPartitioner_version_and_error {
    pub api_version: i64,
    pub data: *mut c_void,
    pub cleanup_fn: Option<unsafe extern "C" fn(*mut c_void)>,
    pub has_error: bool,
    pub code: PJRT_Error_Code,
    pub error_msg: JAX_CustomCallPartitioner_string,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct JAX_CustomCallPartitioner_Partition_Args {
    pub header: JAX_CustomCallPartitioner_version_and_error,
    pub num_args: usize,
    pub op_args: *mut JAX_CustomCallPartitioner_aval,
    pub op_result: JAX_CustomCallPartitioner_aval,
    pub backend_config: JAX_CustomCallPartitioner_string,
    pub mlir_module: JAX_CustomCallPartitioner_string,
    pub args_sharding: *mut JAX_CustomCallPartitioner_string,
    pub result_sharding: JAX_CustomCallPartitioner_string,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct JAX_CustomCallPartitioner_InferShardingFromOperands_Args {
    pub header: JAX_CustomCallPartitioner_version_and_error,
    pub num_args: usize,
    pub op_args: *mut JAX_CustomCallPartitioner_aval,
    pub result_shape: JAX_CustomCallPartitioner_string,
    pub backend_config: JAX_CustomCallPartitioner_string,
    pub has_result_sharding: bool,
    pub result_sharding: JAX_CustomCallPartitioner_string,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct JAX_CustomCallPartitioner_PropagateUserSharding_Args {
    pub header: JAX_CustomCallPartitioner_version_and_error,
    pub backend_config: JAX_CustomCallPartitioner_string,
    pub result_shape: JAX_CustomCallPartitioner_string,
    pub result_sharding: JAX_CustomCallPartitioner_string,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct JAX_CustomCallPartitioner_Callbacks {
    pub version: i64,
    pub private_data: *mut c_void,
    pub dtor: Option<unsafe extern "C" fn(*mut JAX_CustomCallPartitioner_Callbacks)>,
    pub partition: Option<
        unsafe extern "C" fn(
            *mut JAX_CustomCallPartitioner_Callbacks,
            *mut JAX_CustomCallPartitioner_Partition_Args,
        ),
    >,
    pub infer_sharding: Option<
        unsafe extern "C" fn(
            *mut JAX_CustomCallPartitioner_Callbacks,
            *mut JAX_CustomCallPartitioner_InferShardingFromOperands_Args,
        ),
    >,
    pub propagate_user_sharding: Option<
        unsafe extern "C" fn(
            *mut JAX_CustomCallPartitioner_Callbacks,
            *mut JAX_CustomCallPartitioner_PropagateUserSharding_Args,
        ),
    >,
    pub can_side_effecting_have_replicated_sharding: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Register_Custom_Partitioner_Args {
    pub struct_size: usize,
    pub name: *const c_char,
    pub name_size: usize,
    pub callbacks: *mut JAX_CustomCallPartitioner_Callbacks,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Register_Batch_Partitionable_Args {
    pub struct_size: usize,
    pub name: *const c_char,
    pub name_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Custom_Partitioner_Extension {
    pub base: PJRT_Extension_Base,
    pub register_custom_partitioner: Option<Entry<PJRT_Register_Custom_Partitioner_Args>>,
    pub register_batch_partitionable: Option<Entry<PJRT_Register_Batch_Partitionable_Args>>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Shardings_PJRT_Executable_ParameterShardings_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_parameters: usize,
    pub shardings: *const *const c_char,
    pub sharding_sizes: *const usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Shardings_PJRT_Executable_OutputShardings_Args {
    pub struct_size: usize,
    pub extension_start: *mut PJRT_Extension_Base,
    pub executable: *mut PJRT_Executable,
    pub num_outputs: usize,
    pub shardings: *const *const c_char,
    pub sharding_sizes: *const usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PJRT_Shardings_Extension {
    pub base: PJRT_Extension_Base,
    pub PJRT_Shardings_PJRT_Executable_ParameterShardings:
        Option<Entry<PJRT_Shardings_PJRT_Executable_ParameterShardings_Args>>,
    pub PJRT_Shardings_PJRT_Executable_OutputShardings:
        Option<Entry<PJRT_Shardings_PJRT_Executable_OutputShardings_Args>>,
}

#[repr(C)]
pub struct PJRT_Event {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_Client {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_Device {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_DeviceDescription {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_TopologyDescription {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_Executable {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_LoadedExecutable {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_Buffer {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_FulfillAliasBufferCallback {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_AsyncHostToDeviceTransferManager {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_PhaseCompiler {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_Device_Attributes {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_AsyncTrackingEvent {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_ExecuteContext {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_DeviceAssignmentSerialized {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_CopyToDeviceStream {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_MultiSlice_Config {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_SerializedExecutable {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_SerializedCompileOptions {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_SerializedTopology {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_Layouts_MemoryLayout {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_Layouts_SerializedLayout {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct PJRT_MemoryDescription {
    _opaque: [u8; 0],
}

c_struct!(PJRT_Extension_Base, next);
c_struct!(PJRT_Api_Version, minor_version);
c_struct!(PJRT_Error_Destroy_Args, error);
c_struct!(PJRT_Error_Message_Args, message_size);
c_struct!(PJRT_Error_FunctionTable, for_each_payload);
c_struct!(PJRT_Error, vtable);
c_struct!(PJRT_Error_GetCode_Args, code);
c_struct!(PJRT_Error_ForEachPayload_Args, user_arg);
c_struct!(PJRT_NamedValue, value_size);
c_struct!(PJRT_Plugin_Initialize_Args, extension_start);
c_struct!(PJRT_Plugin_Attributes_Args, num_attributes);
c_struct!(PJRT_Event_Destroy_Args, event);
c_struct!(PJRT_Event_IsReady_Args, is_ready);
c_struct!(PJRT_Event_Error_Args, event);
c_struct!(PJRT_Event_Await_Args, event);
c_struct!(PJRT_Event_OnReady_Args, user_arg);
c_struct!(PJRT_Event_Create_Args, event);
c_struct!(PJRT_Event_Set_Args, error_message_size);
c_struct!(PJRT_Memory_FunctionTable, set_user_data);
c_struct!(PJRT_Memory, vtable);
c_struct!(PJRT_KeyValueGetCallback_Args, value_deleter_callback);
c_struct!(PJRT_KeyValueTryGetCallback_Args, value_deleter_callback);
c_struct!(PJRT_KeyValuePutCallback_Args, user_arg);
c_struct!(PJRT_Client_Create_Args, kv_try_get_user_arg);
c_struct!(PJRT_Client_Destroy_Args, client);
c_struct!(PJRT_Client_PlatformName_Args, platform_name_size);
c_struct!(PJRT_Client_ProcessIndex_Args, process_index);
c_struct!(PJRT_Client_PlatformVersion_Args, platform_version_size);
c_struct!(PJRT_Client_TopologyDescription_Args, topology);
c_struct!(PJRT_Client_Devices_Args, num_devices);
c_struct!(PJRT_Client_AddressableDevices_Args, num_addressable_devices);
c_struct!(PJRT_Client_LookupDevice_Args, device);
c_struct!(PJRT_Client_LookupAddressableDevice_Args, addressable_device);
c_struct!(PJRT_ProcessInfo, error_message_size);
c_struct!(PJRT_Client_UpdateGlobalProcessInfo_Args, num_process_infos);
c_struct!(
    PJRT_Client_AddressableMemories_Args,
    num_addressable_memories
);
c_struct!(PJRT_Program, format_size);
c_struct!(PJRT_Client_Compile_Args, executable);
c_struct!(PJRT_Client_Load_Args, loaded_executable);
c_struct!(PJRT_Client_DefaultDeviceAssignment_Args, default_assignment);
c_struct!(PJRT_Client_DmaMap_Args, size);
c_struct!(PJRT_Client_DmaUnmap_Args, data);
c_struct!(
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args,
    transfer_manager
);
c_struct!(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args,
    done_with_h2d_transfer
);
c_struct!(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args,
    buffer_out
);
c_struct!(
    PJRT_AsyncHostToDeviceTransferManager_Device_Args,
    device_out
);
c_struct!(
    PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args,
    buffer_count
);
c_struct!(
    PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args,
    buffer_size
);
c_struct!(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args,
    error_message_size
);
c_struct!(
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args,
    num_metadata
);
c_struct!(PJRT_Buffer_MemoryLayout_Tiled, num_tiles);
c_struct!(PJRT_Buffer_MemoryLayout_Strides, num_byte_strides);
c_struct!(PJRT_Buffer_MemoryLayout, r#type);
c_struct!(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args,
    done_with_h2d_transfer
);
c_struct!(PJRT_Client_CreateUninitializedBuffer_Args, buffer);
c_struct!(PJRT_Client_CreateErrorBuffer_Args, num_payload);
c_struct!(PJRT_Client_CreateAliasBuffer_Args, fulfill_alias_buffer_cb);
c_struct!(PJRT_Client_FulfillAliasBuffer_Args, fulfill_alias_buffer_cb);
c_struct!(PJRT_Client_BufferFromHostBuffer_Args, buffer);
c_struct!(PJRT_Client_CreateViewOfDeviceBuffer_Args, memory);
c_struct!(PJRT_ShapeSpec, element_type);
c_struct!(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args,
    transfer_manager
);
c_struct!(PJRT_DeviceDescription_Id_Args, id);
c_struct!(PJRT_DeviceDescription_ProcessIndex_Args, process_index);
c_struct!(PJRT_DeviceDescription_Attributes_Args, attributes);
c_struct!(PJRT_DeviceDescription_Kind_Args, device_kind_size);
c_struct!(PJRT_DeviceDescription_DebugString_Args, debug_string_size);
c_struct!(PJRT_DeviceDescription_ToString_Args, to_string_size);
c_struct!(PJRT_Device_GetDescription_Args, device_description);
c_struct!(PJRT_Device_IsAddressable_Args, is_addressable);
c_struct!(PJRT_Device_LocalHardwareId_Args, local_hardware_id);
c_struct!(PJRT_Device_AddressableMemories_Args, num_memories);
c_struct!(PJRT_Device_DefaultMemory_Args, memory);
c_struct!(PJRT_Device_MemoryStats_Args, peak_allocated_bytes_is_set);
c_struct!(PJRT_Device_ClearMemoryStats_Args, device);
c_struct!(PJRT_Device_PoisonExecution_Args, num_payload);
c_struct!(PJRT_Device_GetAttributes_Args, attributes_deleter);
c_struct!(PJRT_Device_CreateAsyncTrackingEvent_Args, event);
c_struct!(PJRT_AsyncTrackingEvent_Destroy_Args, event);
c_struct!(PJRT_Memory_Id_Args, id);
c_struct!(PJRT_Memory_Kind_Args, kind_size);
c_struct!(PJRT_Memory_Kind_Id_Args, kind_id);
c_struct!(PJRT_Memory_DebugString_Args, debug_string_size);
c_struct!(PJRT_Memory_ToString_Args, to_string_size);
c_struct!(PJRT_Memory_AddressableByDevices_Args, num_devices);
c_struct!(PJRT_ExecuteContext_Create_Args, context);
c_struct!(PJRT_ExecuteContext_Destroy_Args, context);
c_struct!(PJRT_Executable_Destroy_Args, executable);
c_struct!(PJRT_LoadedExecutable_Destroy_Args, executable);
c_struct!(PJRT_LoadedExecutable_GetExecutable_Args, executable);
c_struct!(
    PJRT_LoadedExecutable_GetDeviceAssignment_Args,
    serialized_device_assignment_deleter
);
c_struct!(PJRT_Executable_Name_Args, executable_name_size);
c_struct!(PJRT_Executable_NumReplicas_Args, num_replicas);
c_struct!(PJRT_Executable_NumPartitions_Args, num_partitions);
c_struct!(
    PJRT_LoadedExecutable_AddressableDevices_Args,
    num_addressable_devices
);
c_struct!(
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args,
    num_addressable_device_logical_ids
);
c_struct!(PJRT_Executable_OptimizedProgram_Args, program);
c_struct!(PJRT_LoadedExecutable_Delete_Args, executable);
c_struct!(PJRT_LoadedExecutable_IsDeleted_Args, is_deleted);
c_struct!(PJRT_SendCallbackInfo, send_callback);
c_struct!(PJRT_RecvCallbackInfo, recv_callback);
c_struct!(PJRT_HloOutputCallbackInfo, num_operands);
c_struct!(PJRT_ExecuteOptions, num_hlo_output_callbacks);
c_struct!(PJRT_LoadedExecutable_Execute_Args, execute_device);
c_struct!(PJRT_Executable_NumOutputs_Args, num_outputs);
c_struct!(
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args,
    size_in_bytes
);
c_struct!(
    PJRT_Executable_Fingerprint_Args,
    executable_fingerprint_size
);
c_struct!(PJRT_Executable_GetCostAnalysis_Args, properties);
c_struct!(
    PJRT_Executable_GetCompiledMemoryStats_Args,
    peak_unpadded_heap_bytes
);
c_struct!(PJRT_Executable_OutputElementTypes_Args, num_output_types);
c_struct!(PJRT_Executable_OutputDimensions_Args, dim_sizes);
c_struct!(PJRT_Executable_ParameterMemoryKinds_Args, memory_kind_sizes);
c_struct!(PJRT_Executable_OutputMemoryKinds_Args, memory_kind_sizes);
c_struct!(
    PJRT_Executable_Serialize_Args,
    serialized_executable_deleter
);
c_struct!(
    PJRT_Executable_GetCompileOptions_Args,
    serialized_compile_options_deleter
);
c_struct!(PJRT_LoadOptions, multi_slice_config);
c_struct!(PJRT_Executable_DeserializeAndLoad_Args, load_options);
c_struct!(
    PJRT_LoadedExecutable_Fingerprint_Args,
    executable_fingerprint_size
);
c_struct!(PJRT_Buffer_Destroy_Args, buffer);
c_struct!(PJRT_Buffer_ElementType_Args, r#type);
c_struct!(PJRT_Buffer_Dimensions_Args, num_dims);
c_struct!(PJRT_Buffer_UnpaddedDimensions_Args, num_dims);
c_struct!(PJRT_Buffer_DynamicDimensionIndices_Args, num_dynamic_dims);
c_struct!(PJRT_Buffer_GetMemoryLayout_Args, layout);
c_struct!(PJRT_Buffer_ToHostBuffer_Args, event);
c_struct!(
    PJRT_Buffer_OnDeviceSizeInBytes_Args,
    on_device_size_in_bytes
);
c_struct!(PJRT_Buffer_Delete_Args, buffer);
c_struct!(PJRT_Buffer_IsDeleted_Args, is_deleted);
c_struct!(PJRT_Buffer_CopyRawToHost_Args, event);
c_struct!(PJRT_Buffer_CopyRawToHostFuture_Callback_Args, dst);
c_struct!(PJRT_Buffer_CopyRawToHostFuture_Args, future_ready_callback);
c_struct!(PJRT_Buffer_CopyToDevice_Args, dst_buffer);
c_struct!(PJRT_Buffer_CopyToMemory_Args, dst_buffer);
c_struct!(PJRT_Buffer_Bitcast_Args, out_buffer);
c_struct!(PJRT_Buffer_IsOnCpu_Args, is_on_cpu);
c_struct!(PJRT_Buffer_Device_Args, device);
c_struct!(PJRT_Buffer_Memory_Args, memory);
c_struct!(PJRT_Buffer_ReadyEvent_Args, event);
c_struct!(PJRT_Buffer_UnsafePointer_Args, buffer_pointer);
c_struct!(PJRT_Buffer_IncreaseExternalReferenceCount_Args, buffer);
c_struct!(PJRT_Buffer_DecreaseExternalReferenceCount_Args, buffer);
c_struct!(
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args,
    device_memory_ptr
);
c_struct!(
    PJRT_Buffer_DonateWithControlDependency_Callback_Args,
    error_message_size
);
c_struct!(PJRT_Buffer_DonateWithControlDependency_Args, out_buffer);
c_struct!(PJRT_CopyToDeviceStream_Destroy_Args, stream);
c_struct!(PJRT_CopyToDeviceStream_AddChunk_Args, transfer_complete);
c_struct!(PJRT_CopyToDeviceStream_TotalBytes_Args, total_bytes);
c_struct!(
    PJRT_CopyToDeviceStream_GranuleSize_Args,
    granule_size_in_bytes
);
c_struct!(PJRT_CopyToDeviceStream_CurrentBytes_Args, current_bytes);
c_struct!(PJRT_TopologyDescription_Create_Args, topology);
c_struct!(PJRT_TopologyDescription_Destroy_Args, topology);
c_struct!(
    PJRT_TopologyDescription_PlatformVersion_Args,
    platform_version_size
);
c_struct!(
    PJRT_TopologyDescription_PlatformName_Args,
    platform_name_size
);
c_struct!(
    PJRT_TopologyDescription_GetDeviceDescriptions_Args,
    num_descriptions
);
c_struct!(
    PJRT_TopologyDescription_Serialize_Args,
    serialized_topology_deleter
);
c_struct!(PJRT_TopologyDescription_Deserialize_Args, topology);
c_struct!(PJRT_TopologyDescription_Attributes_Args, num_attributes);
c_struct!(PJRT_TopologyDescription_Fingerprint_Args, fingerprint);
c_struct!(
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args,
    serialized_shape_deleter
);
c_struct!(
    PJRT_TopologyDescription_GetMemorySpaceKindIds_Args,
    num_memory_space_kind_ids
);
c_struct!(PJRT_Compile_Args, executable);
c_struct!(PJRT_FFI_Type_Register_Args, type_info);
c_struct!(PJRT_FFI_UserData_Add_Args, user_data);
c_struct!(PJRT_FFI_Register_Handler_Args, traits);
c_struct!(PJRT_FFI_Extension, register_handler);
c_struct!(PJRT_Layouts_MemoryLayout_Destroy_Args, layout);
c_struct!(
    PJRT_Layouts_MemoryLayout_Serialize_Args,
    serialized_layout_deleter
);
c_struct!(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, layout);
c_struct!(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, layout);
c_struct!(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, layout);
c_struct!(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, layouts);
c_struct!(
    PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args,
    layouts
);
c_struct!(
    PJRT_Layouts_Extension,
    PJRT_Layouts_PJRT_Executable_GetParameterLayouts
);
c_struct!(
    PJRT_DeviceDescription_MemoryDescriptions_Args,
    default_memory_index
);
c_struct!(PJRT_MemoryDescription_Kind_Args, kind_id);
c_struct!(
    PJRT_MemoryDescriptions_Extension,
    PJRT_MemoryDescription_Kind
);
c_struct!(PJRT_Register_Custom_Partitioner_Args, callbacks);
c_struct!(PJRT_Register_Batch_Partitionable_Args, name_size);
c_struct!(
    PJRT_Custom_Partitioner_Extension,
    register_batch_partitionable
);
c_struct!(
    PJRT_Shardings_PJRT_Executable_ParameterShardings_Args,
    sharding_sizes
);
c_struct!(
    PJRT_Shardings_PJRT_Executable_OutputShardings_Args,
    sharding_sizes
);
c_struct!(
    PJRT_Shardings_Extension,
    PJRT_Shardings_PJRT_Executable_OutputShardings
);
