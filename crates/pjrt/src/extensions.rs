//! Extensions of the API: a linked list of additional tables of functions.

use crate::c_api::*;
use crate::ffi;
use std::ptr;

mod custom_partitioner;
mod inspection;
mod layouts;
mod shardings;

pub(crate) use custom_partitioner::{is_custom_partitioned, registered};

/// A table of an extension, which never changes.
struct Shared<T>(T);

// SAFETY: tables are never modified, and their pointers are to other tables.
unsafe impl<T> Sync for Shared<T> {}

const fn base(
    size: usize,
    kind: PJRT_Extension_Type,
    next: *const PJRT_Extension_Base,
) -> PJRT_Extension_Base {
    PJRT_Extension_Base {
        struct_size: size,
        r#type: kind,
        next: next.cast_mut(),
    }
}

static LAYOUTS: Shared<PJRT_Layouts_Extension> = Shared(PJRT_Layouts_Extension {
    base: base(
        PJRT_Layouts_Extension::SIZE,
        PJRT_Extension_Type_Layouts,
        (&raw const FFI).cast(),
    ),
    PJRT_Layouts_MemoryLayout_Destroy: Some(layouts::PJRT_Layouts_MemoryLayout_Destroy),
    PJRT_Layouts_MemoryLayout_Serialize: Some(layouts::PJRT_Layouts_MemoryLayout_Serialize),
    PJRT_Layouts_PJRT_Client_GetDefaultLayout: Some(
        layouts::PJRT_Layouts_PJRT_Client_GetDefaultLayout,
    ),
    PJRT_Layouts_PJRT_Buffer_MemoryLayout: Some(layouts::PJRT_Layouts_PJRT_Buffer_MemoryLayout),
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout: Some(
        layouts::PJRT_Layouts_PJRT_Topology_GetDefaultLayout,
    ),
    PJRT_Layouts_PJRT_Executable_GetOutputLayouts: Some(
        layouts::PJRT_Layouts_PJRT_Executable_GetOutputLayouts,
    ),
    PJRT_Layouts_PJRT_Executable_GetParameterLayouts: Some(
        layouts::PJRT_Layouts_PJRT_Executable_GetParameterLayouts,
    ),
});

static FFI: Shared<PJRT_FFI_Extension> = Shared(PJRT_FFI_Extension {
    base: base(
        PJRT_FFI_Extension::SIZE,
        PJRT_Extension_Type_FFI,
        (&raw const SHARDINGS).cast(),
    ),
    type_register: Some(ffi::PJRT_FFI_Type_Register),
    user_data_add: Some(ffi::PJRT_FFI_UserData_Add),
    register_handler: Some(ffi::PJRT_FFI_Register_Handler),
});

static SHARDINGS: Shared<PJRT_Shardings_Extension> = Shared(PJRT_Shardings_Extension {
    base: base(
        PJRT_Shardings_Extension::SIZE,
        PJRT_Extension_Type_Shardings,
        (&raw const CUSTOM_PARTITIONER).cast(),
    ),
    PJRT_Shardings_PJRT_Executable_ParameterShardings: Some(
        shardings::PJRT_Shardings_PJRT_Executable_ParameterShardings,
    ),
    PJRT_Shardings_PJRT_Executable_OutputShardings: Some(
        shardings::PJRT_Shardings_PJRT_Executable_OutputShardings,
    ),
});

static CUSTOM_PARTITIONER: Shared<PJRT_Custom_Partitioner_Extension> =
    Shared(PJRT_Custom_Partitioner_Extension {
        base: base(
            PJRT_Custom_Partitioner_Extension::SIZE,
            PJRT_Extension_Type_Custom_Partitioner,
            ptr::null(),
        ),
        register_custom_partitioner: Some(custom_partitioner::PJRT_Register_Custom_Partitioner),
        register_batch_partitionable: Some(custom_partitioner::PJRT_Register_Batch_Partitionable),
    });

/// The head of the list.
pub(crate) const FIRST: *mut PJRT_Extension_Base = (&raw const LAYOUTS).cast_mut().cast();
