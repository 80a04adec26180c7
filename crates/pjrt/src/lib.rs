//! Tegula as a PJRT plug-in: a library with the function `GetPjrtApi`, through which JAX and other
//! front ends compile and run programs.
//!
//! Its platform is called "cpu", because front ends depend on that name for some features
//! (donation, caches, callbacks, linear algebra). The library uses no symbols of Python.
//!
//! The Python package `tegula-jax` makes it available to unmodified JAX. Any other program can load
//! the library and request the table of functions:
//!
//! ```
//! // SAFETY: the table is there as long as the library is, and nobody writes to it.
//! let api = unsafe { &*tegula_pjrt::GetPjrtApi() };
//! assert_eq!(api.pjrt_api_version.major_version, 0);
//! assert!(api.PJRT_Client_Create.is_some());
//! ```
//!
//! Each function of the API is in the module for its kind of object. `entry` has the parts that all
//! functions share: argument structs of other versions, errors, and panics, which never unwind into
//! C. "The API requires" in `SAFETY` comments refers to what the public header demands of callers.

#![allow(non_upper_case_globals, reason = "constants have the header's names")]

mod buffer;
pub mod c_api;
mod client;
mod context;
mod device;
mod dispatch;
mod dump;
mod element;
mod entry;
mod error;
mod error_entries;
mod event;
mod executable;
mod execute;
mod extensions;
pub mod ffi;
pub mod ffi_api;
mod fingerprint;
mod layout;
mod missing;
mod named;
mod options;
pub mod pallas;
mod plugin;
mod pointers;
mod processes;
mod program;
mod promise;
mod protobuf;
mod run;
mod serialize;
mod sharding;
mod strides;
mod transfer;
mod transfer_manager;

pub use error::{Code, Error};

use c_api::*;

struct Api(PJRT_Api);

// SAFETY: the table is never modified, and neither are the tables to which its pointers point.
unsafe impl Sync for Api {}

/// The function that front ends call first. Returns the table of all functions.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name that front ends look for")]
pub extern "C" fn GetPjrtApi() -> *const PJRT_Api {
    &raw const API.0
}

static API: Api = Api(PJRT_Api {
    struct_size: size_of::<PJRT_Api>(),
    extension_start: extensions::FIRST,
    pjrt_api_version: PJRT_Api_Version {
        struct_size: PJRT_Api_Version::SIZE,
        extension_start: std::ptr::null_mut(),
        major_version: PJRT_API_MAJOR,
        minor_version: PJRT_API_MINOR,
    },
    PJRT_Error_Destroy: Some(error_entries::PJRT_Error_Destroy),
    PJRT_Error_Message: Some(error_entries::PJRT_Error_Message),
    PJRT_Error_GetCode: Some(error_entries::PJRT_Error_GetCode),
    PJRT_Plugin_Initialize: Some(client::PJRT_Plugin_Initialize),
    PJRT_Plugin_Attributes: Some(plugin::PJRT_Plugin_Attributes),
    PJRT_Event_Destroy: Some(event::PJRT_Event_Destroy),
    PJRT_Event_IsReady: Some(event::PJRT_Event_IsReady),
    PJRT_Event_Error: Some(event::PJRT_Event_Error),
    PJRT_Event_Await: Some(event::PJRT_Event_Await),
    PJRT_Event_OnReady: Some(event::PJRT_Event_OnReady),
    PJRT_Client_Create: Some(client::PJRT_Client_Create),
    PJRT_Client_Destroy: Some(client::PJRT_Client_Destroy),
    PJRT_Client_PlatformName: Some(client::PJRT_Client_PlatformName),
    PJRT_Client_ProcessIndex: Some(client::PJRT_Client_ProcessIndex),
    PJRT_Client_PlatformVersion: Some(client::PJRT_Client_PlatformVersion),
    PJRT_Client_Devices: Some(client::PJRT_Client_Devices),
    PJRT_Client_AddressableDevices: Some(client::PJRT_Client_AddressableDevices),
    PJRT_Client_LookupDevice: Some(client::PJRT_Client_LookupDevice),
    PJRT_Client_LookupAddressableDevice: Some(client::PJRT_Client_LookupAddressableDevice),
    PJRT_Client_AddressableMemories: Some(client::PJRT_Client_AddressableMemories),
    PJRT_Client_Compile: Some(executable::PJRT_Client_Compile),
    PJRT_Client_DefaultDeviceAssignment: Some(client::PJRT_Client_DefaultDeviceAssignment),
    PJRT_Client_BufferFromHostBuffer: Some(transfer::PJRT_Client_BufferFromHostBuffer),
    PJRT_DeviceDescription_Id: Some(device::PJRT_DeviceDescription_Id),
    PJRT_DeviceDescription_ProcessIndex: Some(device::PJRT_DeviceDescription_ProcessIndex),
    PJRT_DeviceDescription_Attributes: Some(device::PJRT_DeviceDescription_Attributes),
    PJRT_DeviceDescription_Kind: Some(device::PJRT_DeviceDescription_Kind),
    PJRT_DeviceDescription_DebugString: Some(device::PJRT_DeviceDescription_DebugString),
    PJRT_DeviceDescription_ToString: Some(device::PJRT_DeviceDescription_ToString),
    PJRT_Device_GetDescription: Some(device::PJRT_Device_GetDescription),
    PJRT_Device_IsAddressable: Some(device::PJRT_Device_IsAddressable),
    PJRT_Device_LocalHardwareId: Some(device::PJRT_Device_LocalHardwareId),
    PJRT_Device_AddressableMemories: Some(device::PJRT_Device_AddressableMemories),
    PJRT_Device_DefaultMemory: Some(device::PJRT_Device_DefaultMemory),
    PJRT_Device_MemoryStats: Some(missing::PJRT_Device_MemoryStats),
    PJRT_Memory_Id: Some(device::PJRT_Memory_Id),
    PJRT_Memory_Kind: Some(device::PJRT_Memory_Kind),
    PJRT_Memory_DebugString: Some(device::PJRT_Memory_DebugString),
    PJRT_Memory_ToString: Some(device::PJRT_Memory_ToString),
    PJRT_Memory_AddressableByDevices: Some(device::PJRT_Memory_AddressableByDevices),
    PJRT_Executable_Destroy: Some(executable::PJRT_Executable_Destroy),
    PJRT_Executable_Name: Some(executable::PJRT_Executable_Name),
    PJRT_Executable_NumReplicas: Some(executable::PJRT_Executable_NumReplicas),
    PJRT_Executable_NumPartitions: Some(executable::PJRT_Executable_NumPartitions),
    PJRT_Executable_NumOutputs: Some(executable::PJRT_Executable_NumOutputs),
    PJRT_Executable_SizeOfGeneratedCodeInBytes: Some(
        executable::PJRT_Executable_SizeOfGeneratedCodeInBytes,
    ),
    PJRT_Executable_GetCostAnalysis: Some(executable::PJRT_Executable_GetCostAnalysis),
    PJRT_Executable_OutputMemoryKinds: Some(executable::PJRT_Executable_OutputMemoryKinds),
    PJRT_Executable_OptimizedProgram: Some(executable::PJRT_Executable_OptimizedProgram),
    PJRT_Executable_Serialize: Some(executable::PJRT_Executable_Serialize),
    PJRT_LoadedExecutable_Destroy: Some(executable::PJRT_LoadedExecutable_Destroy),
    PJRT_LoadedExecutable_GetExecutable: Some(executable::PJRT_LoadedExecutable_GetExecutable),
    PJRT_LoadedExecutable_AddressableDevices: Some(
        executable::PJRT_LoadedExecutable_AddressableDevices,
    ),
    PJRT_LoadedExecutable_Delete: Some(executable::PJRT_LoadedExecutable_Delete),
    PJRT_LoadedExecutable_IsDeleted: Some(executable::PJRT_LoadedExecutable_IsDeleted),
    PJRT_LoadedExecutable_Execute: Some(execute::PJRT_LoadedExecutable_Execute),
    PJRT_Executable_DeserializeAndLoad: Some(executable::PJRT_Executable_DeserializeAndLoad),
    PJRT_LoadedExecutable_Fingerprint: Some(executable::PJRT_LoadedExecutable_Fingerprint),
    PJRT_Buffer_Destroy: Some(buffer::PJRT_Buffer_Destroy),
    PJRT_Buffer_ElementType: Some(buffer::PJRT_Buffer_ElementType),
    PJRT_Buffer_Dimensions: Some(buffer::PJRT_Buffer_Dimensions),
    PJRT_Buffer_UnpaddedDimensions: Some(buffer::PJRT_Buffer_UnpaddedDimensions),
    PJRT_Buffer_DynamicDimensionIndices: Some(buffer::PJRT_Buffer_DynamicDimensionIndices),
    PJRT_Buffer_GetMemoryLayout: Some(buffer::PJRT_Buffer_GetMemoryLayout),
    PJRT_Buffer_OnDeviceSizeInBytes: Some(buffer::PJRT_Buffer_OnDeviceSizeInBytes),
    PJRT_Buffer_Device: Some(buffer::PJRT_Buffer_Device),
    PJRT_Buffer_Memory: Some(buffer::PJRT_Buffer_Memory),
    PJRT_Buffer_Delete: Some(buffer::PJRT_Buffer_Delete),
    PJRT_Buffer_IsDeleted: Some(buffer::PJRT_Buffer_IsDeleted),
    PJRT_Buffer_CopyToDevice: Some(buffer::PJRT_Buffer_CopyToDevice),
    PJRT_Buffer_ToHostBuffer: Some(transfer::PJRT_Buffer_ToHostBuffer),
    PJRT_Buffer_IsOnCpu: Some(buffer::PJRT_Buffer_IsOnCpu),
    PJRT_Buffer_ReadyEvent: Some(buffer::PJRT_Buffer_ReadyEvent),
    PJRT_Buffer_UnsafePointer: Some(buffer::PJRT_Buffer_UnsafePointer),
    PJRT_Buffer_IncreaseExternalReferenceCount: Some(
        buffer::PJRT_Buffer_IncreaseExternalReferenceCount,
    ),
    PJRT_Buffer_DecreaseExternalReferenceCount: Some(
        buffer::PJRT_Buffer_DecreaseExternalReferenceCount,
    ),
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer: Some(
        buffer::PJRT_Buffer_OpaqueDeviceMemoryDataPointer,
    ),
    PJRT_CopyToDeviceStream_Destroy: Some(missing::PJRT_CopyToDeviceStream_Destroy),
    PJRT_CopyToDeviceStream_AddChunk: Some(missing::PJRT_CopyToDeviceStream_AddChunk),
    PJRT_CopyToDeviceStream_TotalBytes: Some(missing::PJRT_CopyToDeviceStream_TotalBytes),
    PJRT_CopyToDeviceStream_GranuleSize: Some(missing::PJRT_CopyToDeviceStream_GranuleSize),
    PJRT_CopyToDeviceStream_CurrentBytes: Some(missing::PJRT_CopyToDeviceStream_CurrentBytes),
    PJRT_TopologyDescription_Create: Some(client::PJRT_TopologyDescription_Create),
    PJRT_TopologyDescription_Destroy: Some(client::PJRT_TopologyDescription_Destroy),
    PJRT_TopologyDescription_PlatformName: Some(client::PJRT_TopologyDescription_PlatformName),
    PJRT_TopologyDescription_PlatformVersion: Some(
        client::PJRT_TopologyDescription_PlatformVersion,
    ),
    PJRT_TopologyDescription_GetDeviceDescriptions: Some(
        client::PJRT_TopologyDescription_GetDeviceDescriptions,
    ),
    PJRT_TopologyDescription_Serialize: Some(client::PJRT_TopologyDescription_Serialize),
    PJRT_TopologyDescription_Attributes: Some(client::PJRT_TopologyDescription_Attributes),
    PJRT_Compile: Some(executable::PJRT_Compile),
    PJRT_Executable_OutputElementTypes: Some(executable::PJRT_Executable_OutputElementTypes),
    PJRT_Executable_OutputDimensions: Some(executable::PJRT_Executable_OutputDimensions),
    PJRT_Buffer_CopyToMemory: Some(buffer::PJRT_Buffer_CopyToMemory),
    PJRT_Client_CreateViewOfDeviceBuffer: Some(transfer::PJRT_Client_CreateViewOfDeviceBuffer),
    PJRT_Executable_Fingerprint: Some(executable::PJRT_Executable_Fingerprint),
    PJRT_Client_TopologyDescription: Some(client::PJRT_Client_TopologyDescription),
    PJRT_Executable_GetCompiledMemoryStats: Some(
        executable::PJRT_Executable_GetCompiledMemoryStats,
    ),
    PJRT_Memory_Kind_Id: Some(device::PJRT_Memory_Kind_Id),
    PJRT_ExecuteContext_Create: Some(context::PJRT_ExecuteContext_Create),
    PJRT_ExecuteContext_Destroy: Some(context::PJRT_ExecuteContext_Destroy),
    PJRT_Buffer_CopyRawToHost: Some(transfer::PJRT_Buffer_CopyRawToHost),
    PJRT_AsyncHostToDeviceTransferManager_Destroy: Some(
        transfer_manager::PJRT_AsyncHostToDeviceTransferManager_Destroy,
    ),
    PJRT_AsyncHostToDeviceTransferManager_TransferData: Some(
        transfer_manager::PJRT_AsyncHostToDeviceTransferManager_TransferData,
    ),
    PJRT_Client_CreateBuffersForAsyncHostToDevice: Some(
        transfer_manager::PJRT_Client_CreateBuffersForAsyncHostToDevice,
    ),
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer: Some(
        transfer_manager::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer,
    ),
    PJRT_AsyncHostToDeviceTransferManager_Device: Some(
        transfer_manager::PJRT_AsyncHostToDeviceTransferManager_Device,
    ),
    PJRT_AsyncHostToDeviceTransferManager_BufferCount: Some(
        transfer_manager::PJRT_AsyncHostToDeviceTransferManager_BufferCount,
    ),
    PJRT_AsyncHostToDeviceTransferManager_BufferSize: Some(
        transfer_manager::PJRT_AsyncHostToDeviceTransferManager_BufferSize,
    ),
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError: Some(
        transfer_manager::PJRT_AsyncHostToDeviceTransferManager_SetBufferError,
    ),
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata: Some(
        transfer_manager::PJRT_AsyncHostToDeviceTransferManager_AddMetadata,
    ),
    PJRT_Client_DmaMap: Some(client::PJRT_Client_DmaMap),
    PJRT_Client_DmaUnmap: Some(client::PJRT_Client_DmaUnmap),
    PJRT_Client_CreateUninitializedBuffer: Some(transfer::PJRT_Client_CreateUninitializedBuffer),
    PJRT_Client_UpdateGlobalProcessInfo: Some(client::PJRT_Client_UpdateGlobalProcessInfo),
    PJRT_TopologyDescription_Deserialize: Some(client::PJRT_TopologyDescription_Deserialize),
    PJRT_Client_CreateAliasBuffer: Some(missing::PJRT_Client_CreateAliasBuffer),
    PJRT_Client_FulfillAliasBuffer: Some(missing::PJRT_Client_FulfillAliasBuffer),
    PJRT_LoadedExecutable_GetDeviceAssignment: Some(
        executable::PJRT_LoadedExecutable_GetDeviceAssignment,
    ),
    PJRT_Client_CreateErrorBuffer: Some(transfer::PJRT_Client_CreateErrorBuffer),
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral: Some(
        transfer_manager::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral,
    ),
    PJRT_Buffer_CopyRawToHostFuture: Some(missing::PJRT_Buffer_CopyRawToHostFuture),
    PJRT_Device_PoisonExecution: Some(missing::PJRT_Device_PoisonExecution),
    PJRT_Device_CreateAsyncTrackingEvent: Some(missing::PJRT_Device_CreateAsyncTrackingEvent),
    PJRT_AsyncTrackingEvent_Destroy: Some(missing::PJRT_AsyncTrackingEvent_Destroy),
    PJRT_Executable_GetCompileOptions: Some(executable::PJRT_Executable_GetCompileOptions),
    PJRT_Buffer_DonateWithControlDependency: Some(missing::PJRT_Buffer_DonateWithControlDependency),
    PJRT_Event_Create: Some(event::PJRT_Event_Create),
    PJRT_Event_Set: Some(event::PJRT_Event_Set),
    PJRT_Device_GetAttributes: Some(device::PJRT_Device_GetAttributes),
    PJRT_Client_Load: Some(executable::PJRT_Client_Load),
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds: Some(
        executable::PJRT_LoadedExecutable_AddressableDeviceLogicalIds,
    ),
    PJRT_Buffer_Bitcast: Some(buffer::PJRT_Buffer_Bitcast),
    PJRT_Error_ForEachPayload: Some(error_entries::PJRT_Error_ForEachPayload),
    PJRT_TopologyDescription_Fingerprint: Some(client::PJRT_TopologyDescription_Fingerprint),
    PJRT_Executable_ParameterMemoryKinds: Some(executable::PJRT_Executable_ParameterMemoryKinds),
    PJRT_Device_ClearMemoryStats: Some(missing::PJRT_Device_ClearMemoryStats),
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace: Some(
        missing::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace,
    ),
    PJRT_TopologyDescription_GetMemorySpaceKindIds: Some(
        missing::PJRT_TopologyDescription_GetMemorySpaceKindIds,
    ),
});
