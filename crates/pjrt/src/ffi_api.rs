//! The structs and functions of XLA's foreign function interface, as its public header declares
//! them. Written by `generate_bindings.py`.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    reason = "names are the header's, which says what they mean"
)]

use crate::c_api::c_struct;
use std::ffi::{c_char, c_int, c_void};

pub const XLA_FFI_API_MAJOR: c_int = 0;
pub const XLA_FFI_API_MINOR: c_int = 5;

/// A function that gives null, or an error which the caller destroys.
pub type Entry<A> = unsafe extern "C" fn(*mut A) -> *mut XLA_FFI_Error;
/// A function that cannot fail.
pub type PlainEntry<A> = unsafe extern "C" fn(*mut A);
/// What a function that is called with a pointer is pointed to as.
pub type XLA_FFI_Task = c_void;
/// Bits of `XLA_FFI_Handler_TraitsBits`.
pub type XLA_FFI_Handler_Traits = u32;

pub type XLA_FFI_InternalExtension_Type = c_int;
pub const XLA_FFI_Extension_Metadata: XLA_FFI_InternalExtension_Type = 1;

pub type XLA_FFI_Error_Code = c_int;
pub const XLA_FFI_Error_Code_OK: XLA_FFI_Error_Code = 0;
pub const XLA_FFI_Error_Code_CANCELLED: XLA_FFI_Error_Code = 1;
pub const XLA_FFI_Error_Code_UNKNOWN: XLA_FFI_Error_Code = 2;
pub const XLA_FFI_Error_Code_INVALID_ARGUMENT: XLA_FFI_Error_Code = 3;
pub const XLA_FFI_Error_Code_DEADLINE_EXCEEDED: XLA_FFI_Error_Code = 4;
pub const XLA_FFI_Error_Code_NOT_FOUND: XLA_FFI_Error_Code = 5;
pub const XLA_FFI_Error_Code_ALREADY_EXISTS: XLA_FFI_Error_Code = 6;
pub const XLA_FFI_Error_Code_PERMISSION_DENIED: XLA_FFI_Error_Code = 7;
pub const XLA_FFI_Error_Code_RESOURCE_EXHAUSTED: XLA_FFI_Error_Code = 8;
pub const XLA_FFI_Error_Code_FAILED_PRECONDITION: XLA_FFI_Error_Code = 9;
pub const XLA_FFI_Error_Code_ABORTED: XLA_FFI_Error_Code = 10;
pub const XLA_FFI_Error_Code_OUT_OF_RANGE: XLA_FFI_Error_Code = 11;
pub const XLA_FFI_Error_Code_UNIMPLEMENTED: XLA_FFI_Error_Code = 12;
pub const XLA_FFI_Error_Code_INTERNAL: XLA_FFI_Error_Code = 13;
pub const XLA_FFI_Error_Code_UNAVAILABLE: XLA_FFI_Error_Code = 14;
pub const XLA_FFI_Error_Code_DATA_LOSS: XLA_FFI_Error_Code = 15;
pub const XLA_FFI_Error_Code_UNAUTHENTICATED: XLA_FFI_Error_Code = 16;

pub type XLA_FFI_DataType = c_int;
pub const XLA_FFI_DataType_INVALID: XLA_FFI_DataType = 0;
pub const XLA_FFI_DataType_PRED: XLA_FFI_DataType = 1;
pub const XLA_FFI_DataType_S1: XLA_FFI_DataType = 30;
pub const XLA_FFI_DataType_S2: XLA_FFI_DataType = 26;
pub const XLA_FFI_DataType_S4: XLA_FFI_DataType = 21;
pub const XLA_FFI_DataType_S8: XLA_FFI_DataType = 2;
pub const XLA_FFI_DataType_S16: XLA_FFI_DataType = 3;
pub const XLA_FFI_DataType_S32: XLA_FFI_DataType = 4;
pub const XLA_FFI_DataType_S64: XLA_FFI_DataType = 5;
pub const XLA_FFI_DataType_U1: XLA_FFI_DataType = 31;
pub const XLA_FFI_DataType_U2: XLA_FFI_DataType = 27;
pub const XLA_FFI_DataType_U4: XLA_FFI_DataType = 22;
pub const XLA_FFI_DataType_U8: XLA_FFI_DataType = 6;
pub const XLA_FFI_DataType_U16: XLA_FFI_DataType = 7;
pub const XLA_FFI_DataType_U32: XLA_FFI_DataType = 8;
pub const XLA_FFI_DataType_U64: XLA_FFI_DataType = 9;
pub const XLA_FFI_DataType_F16: XLA_FFI_DataType = 10;
pub const XLA_FFI_DataType_F32: XLA_FFI_DataType = 11;
pub const XLA_FFI_DataType_F64: XLA_FFI_DataType = 12;
pub const XLA_FFI_DataType_BF16: XLA_FFI_DataType = 16;
pub const XLA_FFI_DataType_C64: XLA_FFI_DataType = 15;
pub const XLA_FFI_DataType_C128: XLA_FFI_DataType = 18;
pub const XLA_FFI_DataType_TOKEN: XLA_FFI_DataType = 17;
pub const XLA_FFI_DataType_F8E5M2: XLA_FFI_DataType = 19;
pub const XLA_FFI_DataType_F8E3M4: XLA_FFI_DataType = 29;
pub const XLA_FFI_DataType_F8E4M3: XLA_FFI_DataType = 28;
pub const XLA_FFI_DataType_F8E4M3FN: XLA_FFI_DataType = 20;
pub const XLA_FFI_DataType_F8E4M3B11FNUZ: XLA_FFI_DataType = 23;
pub const XLA_FFI_DataType_F8E5M2FNUZ: XLA_FFI_DataType = 24;
pub const XLA_FFI_DataType_F8E4M3FNUZ: XLA_FFI_DataType = 25;
pub const XLA_FFI_DataType_F4E2M1FN: XLA_FFI_DataType = 32;
pub const XLA_FFI_DataType_F8E8M0FNU: XLA_FFI_DataType = 33;

pub type XLA_FFI_ArgType = c_int;
pub const XLA_FFI_ArgType_BUFFER: XLA_FFI_ArgType = 1;

pub type XLA_FFI_RetType = c_int;
pub const XLA_FFI_RetType_BUFFER: XLA_FFI_RetType = 1;

pub type XLA_FFI_AttrType = c_int;
pub const XLA_FFI_AttrType_ARRAY: XLA_FFI_AttrType = 1;
pub const XLA_FFI_AttrType_DICTIONARY: XLA_FFI_AttrType = 2;
pub const XLA_FFI_AttrType_SCALAR: XLA_FFI_AttrType = 3;
pub const XLA_FFI_AttrType_STRING: XLA_FFI_AttrType = 4;

pub type XLA_FFI_ExecutionStage = c_int;
pub const XLA_FFI_ExecutionStage_INSTANTIATE: XLA_FFI_ExecutionStage = 0;
pub const XLA_FFI_ExecutionStage_PREPARE: XLA_FFI_ExecutionStage = 1;
pub const XLA_FFI_ExecutionStage_INITIALIZE: XLA_FFI_ExecutionStage = 2;
pub const XLA_FFI_ExecutionStage_EXECUTE: XLA_FFI_ExecutionStage = 3;
pub const XLA_FFI_ExecutionStage_RECORD: XLA_FFI_ExecutionStage = 4;

pub type XLA_FFI_Handler_TraitsBits = c_int;
pub const XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE: XLA_FFI_Handler_TraitsBits = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_InternalExtension {
    pub struct_size: usize,
    pub r#type: XLA_FFI_InternalExtension_Type,
    pub next: *mut XLA_FFI_InternalExtension,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_ExtensionId {
    pub extension_type: i64,
    pub major_version: i32,
    pub minor_version: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Extension {
    pub struct_size: usize,
    pub id: XLA_FFI_ExtensionId,
    pub next: *const XLA_FFI_Extension,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Api_Version {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub major_version: c_int,
    pub minor_version: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Error_Create_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub message: *const c_char,
    pub errc: XLA_FFI_Error_Code,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Error_GetDetails_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub error: *mut XLA_FFI_Error,
    pub message: *const c_char,
    pub errc: XLA_FFI_Error_Code,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Error_Destroy_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub error: *mut XLA_FFI_Error,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Buffer {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub dtype: XLA_FFI_DataType,
    pub data: *mut c_void,
    pub rank: i64,
    pub dims: *mut i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_ByteSpan {
    pub ptr: *const c_char,
    pub len: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Scalar {
    pub dtype: XLA_FFI_DataType,
    pub value: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Array {
    pub dtype: XLA_FFI_DataType,
    pub size: usize,
    pub data: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_TypeId {
    pub type_id: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_TypeInfo {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Future_Create_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub future: *mut XLA_FFI_Future,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Future_SetAvailable_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub future: *mut XLA_FFI_Future,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Future_SetError_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub future: *mut XLA_FFI_Future,
    pub error: *mut XLA_FFI_Error,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub size: i64,
    pub types: *mut XLA_FFI_ArgType,
    pub args: *mut *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Rets {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub size: i64,
    pub types: *mut XLA_FFI_RetType,
    pub rets: *mut *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Attrs {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub size: i64,
    pub types: *mut XLA_FFI_AttrType,
    pub names: *mut *mut XLA_FFI_ByteSpan,
    pub attrs: *mut *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_CallFrame {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub api: *const XLA_FFI_Api,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub stage: XLA_FFI_ExecutionStage,
    pub args: XLA_FFI_Args,
    pub rets: XLA_FFI_Rets,
    pub attrs: XLA_FFI_Attrs,
    pub future: *mut XLA_FFI_Future,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Handler_Bundle {
    pub instantiate: Option<Entry<XLA_FFI_CallFrame>>,
    pub prepare: Option<Entry<XLA_FFI_CallFrame>>,
    pub initialize: Option<Entry<XLA_FFI_CallFrame>>,
    pub execute: Option<Entry<XLA_FFI_CallFrame>>,
    pub record: Option<Entry<XLA_FFI_CallFrame>>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Handler_Register_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub name: XLA_FFI_ByteSpan,
    pub platform: XLA_FFI_ByteSpan,
    pub bundle: XLA_FFI_Handler_Bundle,
    pub traits: XLA_FFI_Handler_Traits,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Type_Register_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub name: XLA_FFI_ByteSpan,
    pub type_id: *mut XLA_FFI_TypeId,
    pub type_info: *const XLA_FFI_TypeInfo,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_InvokeContext_FindExtension_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub extension_type: i64,
    pub extension: *const XLA_FFI_Extension,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_InvokeContext_Get_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub type_id: *mut XLA_FFI_TypeId,
    pub data: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_CustomOptions_Get_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub attrs: *const XLA_FFI_Attrs,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_State_Set_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub stage: XLA_FFI_ExecutionStage,
    pub type_id: *mut XLA_FFI_TypeId,
    pub state: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_State_Get_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub stage: XLA_FFI_ExecutionStage,
    pub type_id: *mut XLA_FFI_TypeId,
    pub state: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Stream_Get_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub stream: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_DeviceMemory_Allocate_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub size: usize,
    pub alignment: usize,
    pub data: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_DeviceMemory_Free_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub size: usize,
    pub data: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_ThreadPool_Schedule_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub task: *mut XLA_FFI_Task,
    pub data: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_ThreadPool_NumThreads_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub num_threads: *mut i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_RunId_Get_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub run_id: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_DeviceOrdinal_Get_Args {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub ctx: *mut XLA_FFI_InvokeContext,
    pub device_ordinal: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Metadata {
    pub struct_size: usize,
    pub api_version: XLA_FFI_Api_Version,
    pub traits: XLA_FFI_Handler_Traits,
    pub state_type_id: XLA_FFI_TypeId,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Metadata_Extension {
    pub extension_base: XLA_FFI_InternalExtension,
    pub metadata: *mut XLA_FFI_Metadata,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct XLA_FFI_Api {
    pub struct_size: usize,
    pub extension_start: *mut XLA_FFI_InternalExtension,
    pub api_version: XLA_FFI_Api_Version,
    pub internal_api: *const XLA_FFI_InternalApi,
    pub XLA_FFI_Error_Create: Option<Entry<XLA_FFI_Error_Create_Args>>,
    pub XLA_FFI_Error_GetDetails: Option<PlainEntry<XLA_FFI_Error_GetDetails_Args>>,
    pub XLA_FFI_Error_Destroy: Option<PlainEntry<XLA_FFI_Error_Destroy_Args>>,
    pub XLA_FFI_Handler_Register: Option<Entry<XLA_FFI_Handler_Register_Args>>,
    pub XLA_FFI_Stream_Get: Option<Entry<XLA_FFI_Stream_Get_Args>>,
    pub XLA_FFI_Type_Register: Option<Entry<XLA_FFI_Type_Register_Args>>,
    pub XLA_FFI_InvokeContext_Get: Option<Entry<XLA_FFI_InvokeContext_Get_Args>>,
    pub XLA_FFI_State_Set: Option<Entry<XLA_FFI_State_Set_Args>>,
    pub XLA_FFI_State_Get: Option<Entry<XLA_FFI_State_Get_Args>>,
    pub XLA_FFI_DeviceMemory_Allocate: Option<Entry<XLA_FFI_DeviceMemory_Allocate_Args>>,
    pub XLA_FFI_DeviceMemory_Free: Option<Entry<XLA_FFI_DeviceMemory_Free_Args>>,
    pub XLA_FFI_ThreadPool_Schedule: Option<Entry<XLA_FFI_ThreadPool_Schedule_Args>>,
    pub XLA_FFI_ThreadPool_NumThreads: Option<Entry<XLA_FFI_ThreadPool_NumThreads_Args>>,
    pub XLA_FFI_Future_Create: Option<Entry<XLA_FFI_Future_Create_Args>>,
    pub XLA_FFI_Future_SetAvailable: Option<Entry<XLA_FFI_Future_SetAvailable_Args>>,
    pub XLA_FFI_Future_SetError: Option<Entry<XLA_FFI_Future_SetError_Args>>,
    pub XLA_FFI_RunId_Get: Option<Entry<XLA_FFI_RunId_Get_Args>>,
    pub XLA_FFI_DeviceOrdinal_Get: Option<Entry<XLA_FFI_DeviceOrdinal_Get_Args>>,
    pub XLA_FFI_InvokeContext_FindExtension:
        Option<Entry<XLA_FFI_InvokeContext_FindExtension_Args>>,
    pub XLA_FFI_CustomOptions_Get: Option<Entry<XLA_FFI_CustomOptions_Get_Args>>,
}

#[repr(C)]
pub struct XLA_FFI_InternalApi {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct XLA_FFI_Error {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct XLA_FFI_InvokeContext {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct XLA_FFI_Future {
    _opaque: [u8; 0],
}

c_struct!(XLA_FFI_InternalExtension, next);
c_struct!(XLA_FFI_ExtensionId, minor_version);
c_struct!(XLA_FFI_Extension, next);
c_struct!(XLA_FFI_Api_Version, minor_version);
c_struct!(XLA_FFI_Error_Create_Args, errc);
c_struct!(XLA_FFI_Error_GetDetails_Args, errc);
c_struct!(XLA_FFI_Error_Destroy_Args, error);
c_struct!(XLA_FFI_Buffer, dims);
c_struct!(XLA_FFI_TypeInfo, deleter);
c_struct!(XLA_FFI_Future_Create_Args, extension_start);
c_struct!(XLA_FFI_Future_SetAvailable_Args, future);
c_struct!(XLA_FFI_Future_SetError_Args, error);
c_struct!(XLA_FFI_Args, args);
c_struct!(XLA_FFI_Rets, rets);
c_struct!(XLA_FFI_Attrs, attrs);
c_struct!(XLA_FFI_CallFrame, attrs);
c_struct!(XLA_FFI_Handler_Register_Args, traits);
c_struct!(XLA_FFI_Type_Register_Args, type_id);
c_struct!(XLA_FFI_InvokeContext_FindExtension_Args, extension);
c_struct!(XLA_FFI_InvokeContext_Get_Args, data);
c_struct!(XLA_FFI_CustomOptions_Get_Args, attrs);
c_struct!(XLA_FFI_State_Set_Args, state);
c_struct!(XLA_FFI_State_Get_Args, state);
c_struct!(XLA_FFI_Stream_Get_Args, stream);
c_struct!(XLA_FFI_DeviceMemory_Allocate_Args, data);
c_struct!(XLA_FFI_DeviceMemory_Free_Args, data);
c_struct!(XLA_FFI_ThreadPool_Schedule_Args, data);
c_struct!(XLA_FFI_ThreadPool_NumThreads_Args, num_threads);
c_struct!(XLA_FFI_RunId_Get_Args, run_id);
c_struct!(XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);
c_struct!(XLA_FFI_Metadata, traits);
c_struct!(XLA_FFI_Metadata_Extension, metadata);
c_struct!(XLA_FFI_Api, XLA_FFI_CustomOptions_Get);
