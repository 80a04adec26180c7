//! Functions of the API that are not implemented; they return an error that says so.

use crate::c_api::*;
use crate::entry::{entries, unimplemented};

macro_rules! missing {
    ($($name:ident($type:ident): $what:literal,)*) => {
        entries! {$(
            fn $name(args: $type up to struct_size) {
                let _ = args;
                Err(unimplemented($what))?;
            }
        )*}
    };
}

missing! {
    PJRT_Device_MemoryStats(PJRT_Device_MemoryStats_Args): "PJRT_Device_MemoryStats",
    PJRT_CopyToDeviceStream_Destroy(PJRT_CopyToDeviceStream_Destroy_Args): "PJRT_CopyToDeviceStream_Destroy",
    PJRT_CopyToDeviceStream_AddChunk(PJRT_CopyToDeviceStream_AddChunk_Args): "PJRT_CopyToDeviceStream_AddChunk",
    PJRT_CopyToDeviceStream_TotalBytes(PJRT_CopyToDeviceStream_TotalBytes_Args): "PJRT_CopyToDeviceStream_TotalBytes",
    PJRT_CopyToDeviceStream_GranuleSize(PJRT_CopyToDeviceStream_GranuleSize_Args): "PJRT_CopyToDeviceStream_GranuleSize",
    PJRT_CopyToDeviceStream_CurrentBytes(PJRT_CopyToDeviceStream_CurrentBytes_Args): "PJRT_CopyToDeviceStream_CurrentBytes",
    PJRT_Client_CreateAliasBuffer(PJRT_Client_CreateAliasBuffer_Args): "PJRT_Client_CreateAliasBuffer",
    PJRT_Client_FulfillAliasBuffer(PJRT_Client_FulfillAliasBuffer_Args): "PJRT_Client_FulfillAliasBuffer",
    PJRT_Buffer_CopyRawToHostFuture(PJRT_Buffer_CopyRawToHostFuture_Args): "PJRT_Buffer_CopyRawToHostFuture",
    PJRT_Device_PoisonExecution(PJRT_Device_PoisonExecution_Args): "PJRT_Device_PoisonExecution",
    PJRT_Device_CreateAsyncTrackingEvent(PJRT_Device_CreateAsyncTrackingEvent_Args): "PJRT_Device_CreateAsyncTrackingEvent",
    PJRT_AsyncTrackingEvent_Destroy(PJRT_AsyncTrackingEvent_Destroy_Args): "PJRT_AsyncTrackingEvent_Destroy",
    PJRT_Buffer_DonateWithControlDependency(PJRT_Buffer_DonateWithControlDependency_Args): "PJRT_Buffer_DonateWithControlDependency",
    PJRT_Device_ClearMemoryStats(PJRT_Device_ClearMemoryStats_Args): "PJRT_Device_ClearMemoryStats",
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args): "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace",
    PJRT_TopologyDescription_GetMemorySpaceKindIds(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args): "PJRT_TopologyDescription_GetMemorySpaceKindIds",
}
