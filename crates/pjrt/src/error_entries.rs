//! The C functions for errors.

use crate::c_api::*;
use crate::entry::entries;
use crate::error::{destroy, get_code, message};

#[allow(non_snake_case, reason = "the header's name")]
pub(crate) unsafe extern "C" fn PJRT_Error_Destroy(args: *mut PJRT_Error_Destroy_Args) {
    // SAFETY: callers of this function of the C API pass such a struct.
    unsafe { destroy((*args).error) }
}

#[allow(non_snake_case, reason = "the header's name")]
pub(crate) unsafe extern "C" fn PJRT_Error_Message(args: *mut PJRT_Error_Message_Args) {
    // SAFETY: callers of this function of the C API pass such a struct.
    unsafe {
        message(
            (*args).error,
            &raw mut (*args).message,
            &raw mut (*args).message_size,
        );
    }
}

entries! {
    fn PJRT_Error_GetCode(args: PJRT_Error_GetCode_Args) {
        // SAFETY: the API requires an error of ours.
        args.code = unsafe { get_code(args.error) };
    }
    fn PJRT_Error_ForEachPayload(args: PJRT_Error_ForEachPayload_Args) {
        let _ = args;
    }
}
