//! The extension for layouts as separate objects.

use crate::buffer::Buffer;
use crate::c_api::*;
use crate::entry::{Object, entries};
use crate::executable::Executable;
use crate::layout::Dense;

impl Object for Dense {
    type Handle = PJRT_Layouts_MemoryLayout;
    const NAME: &'static str = "layout";
}

/// The text in XLA's form: the dimensions, the most minor first.
fn text(layout: &Dense) -> String {
    let dims: Vec<String> = layout.minor_to_major().iter().map(i64::to_string).collect();
    format!("{{{}}}", dims.join(","))
}

/// # Safety
/// The pointer is from [`PJRT_Layouts_MemoryLayout_Serialize`].
unsafe extern "C" fn delete_serialized(layout: *mut PJRT_Layouts_SerializedLayout) {
    if !layout.is_null() {
        // SAFETY: the caller promises a pointer from `PJRT_Layouts_MemoryLayout_Serialize`.
        drop(unsafe { Box::from_raw(layout.cast::<String>()) });
    }
}

// The API requires that objects are valid.
entries! {
    fn PJRT_Layouts_MemoryLayout_Destroy(args: PJRT_Layouts_MemoryLayout_Destroy_Args) {
        // SAFETY: the API requires that the caller owns it and does not use it again.
        unsafe { Dense::destroy(args.layout) };
    }
    fn PJRT_Layouts_MemoryLayout_Serialize(args: PJRT_Layouts_MemoryLayout_Serialize_Args) {
        // SAFETY: the API requires valid handles of our objects.
        let text = Box::new(text(unsafe { Dense::of(args.layout) }?));
        args.serialized_bytes = text.as_ptr().cast();
        args.serialized_bytes_size = text.len();
        args.serialized_layout = Box::into_raw(text).cast();
        args.serialized_layout_deleter = Some(delete_serialized);
    }
    fn PJRT_Layouts_PJRT_Buffer_MemoryLayout(args: PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args) {
        // SAFETY: the API requires valid handles of our objects.
        args.layout = unsafe { Buffer::of(args.buffer) }?.layout.clone().into_handle();
    }
    fn PJRT_Layouts_PJRT_Client_GetDefaultLayout(
        args: PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args
    ) {
        args.layout = Dense::row_major(args.num_dims).into_handle();
    }
    fn PJRT_Layouts_PJRT_Topology_GetDefaultLayout(
        args: PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args
    ) {
        args.layout = Dense::row_major(args.num_dims).into_handle();
    }
    fn PJRT_Layouts_PJRT_Executable_GetOutputLayouts(
        args: PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let layouts = unsafe { &Executable::of(args.executable)?.result_layouts };
        args.num_outputs = layouts.len();
        args.layouts = layouts.as_ptr().cast_mut();
    }
    fn PJRT_Layouts_PJRT_Executable_GetParameterLayouts(
        args: PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args
    ) {
        // SAFETY: the API requires valid handles of our objects.
        let layouts = unsafe { &Executable::of(args.executable)?.parameter_layouts };
        args.num_parameters = layouts.len();
        args.layouts = layouts.as_ptr().cast_mut();
    }
}
