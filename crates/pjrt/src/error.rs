//! Errors with PJRT's codes, as objects of the C API.

use crate::c_api::*;
use crate::pointers::slice;
use std::any::Any;
use std::ffi::{c_char, c_void};
use std::ptr;
use tegula::ErrorKind;

/// The code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The operation was stopped on request.
    Cancelled,
    /// The cause is unknown.
    Unknown,
    /// The input is invalid.
    InvalidArgument,
    /// The named object does not exist.
    NotFound,
    /// There is not enough memory, or another limit is exceeded.
    ResourceExhausted,
    /// The operation is not possible in this state.
    FailedPrecondition,
    /// The operation is not supported yet.
    Unimplemented,
    /// A bug in Tegula.
    Internal,
    /// Any other code that a caller passed to us.
    Other(PJRT_Error_Code),
}

impl Code {
    fn number(self) -> PJRT_Error_Code {
        match self {
            Self::Cancelled => PJRT_Error_Code_CANCELLED,
            Self::Unknown => PJRT_Error_Code_UNKNOWN,
            Self::InvalidArgument => PJRT_Error_Code_INVALID_ARGUMENT,
            Self::NotFound => PJRT_Error_Code_NOT_FOUND,
            Self::ResourceExhausted => PJRT_Error_Code_RESOURCE_EXHAUSTED,
            Self::FailedPrecondition => PJRT_Error_Code_FAILED_PRECONDITION,
            Self::Unimplemented => PJRT_Error_Code_UNIMPLEMENTED,
            Self::Internal => PJRT_Error_Code_INTERNAL,
            Self::Other(code) => code,
        }
    }
}

/// The reason why a function of the C API failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Error {
    /// The code.
    pub code: Code,
    /// What is wrong.
    pub message: String,
}

impl Error {
    /// An error with this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// An error that a caller reports through the C API.
    ///
    /// # Safety
    /// `message` points to `size` bytes, or is null.
    pub(crate) unsafe fn from_c(
        code: PJRT_Error_Code,
        message: *const c_char,
        size: usize,
    ) -> Self {
        // SAFETY: the caller promises that `message` points to `size` bytes, or is null.
        let bytes = unsafe { slice(message.cast::<u8>(), size) };
        Self::new(Code::Other(code), String::from_utf8_lossy(bytes))
    }

    /// The error for a panic, which is a bug in Tegula.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        let said = said.unwrap_or_else(|| "without a message".to_owned());
        Self::internal(format!("Tegula panicked: {said}"))
    }

    /// Writes the message of an error, if there is one, to a buffer of C.
    ///
    /// # Safety
    /// `error` has room for `room` bytes.
    pub(crate) unsafe fn report(result: Result<(), Self>, error: *mut c_char, room: usize) -> i32 {
        let Err(failure) = result else { return 0 };
        if room > 0 {
            let len = failure.message.len().min(room - 1);
            // SAFETY: the caller promises room for the stated number of bytes.
            unsafe {
                let text = failure.message.as_ptr();
                error.cast::<u8>().copy_from_nonoverlapping(text, len);
                error.add(len).write(0);
            }
        }
        1
    }

    /// The error as an object that the caller destroys.
    pub(crate) fn into_c(self) -> *mut PJRT_Error {
        let object = ErrorObject {
            base: PJRT_Error { vtable: &VTABLE.0 },
            error: self,
        };
        Box::into_raw(Box::new(object)).cast()
    }
}

impl From<tegula::Error> for Error {
    fn from(error: tegula::Error) -> Self {
        let code = match error.kind {
            ErrorKind::Input => Code::InvalidArgument,
            ErrorKind::Unsupported => Code::Unimplemented,
            ErrorKind::Limit | ErrorKind::OutOfMemory => Code::ResourceExhausted,
            ErrorKind::Timeout | ErrorKind::Interrupted => Code::Cancelled,
            ErrorKind::Bug => Code::Internal,
            _ => Code::Unknown,
        };
        let help = error.help.map(|help| format!(" ({help})"));
        let message = format!("{}{}", error.message, help.unwrap_or_default());
        Self::new(code, message)
    }
}

impl From<tegula_ir::LiteralError> for Error {
    fn from(error: tegula_ir::LiteralError) -> Self {
        let code = match error {
            tegula_ir::LiteralError::TooLarge(_) => Code::ResourceExhausted,
            _ => Code::InvalidArgument,
        };
        Self::new(code, error.to_string())
    }
}

/// An error as an object of the C API.
#[repr(C)]
struct ErrorObject {
    base: PJRT_Error,
    error: Error,
}

struct Table(PJRT_Error_FunctionTable);

// SAFETY: the table is never modified, and its only data pointer is null.
unsafe impl Sync for Table {}

static VTABLE: Table = Table(PJRT_Error_FunctionTable {
    struct_size: PJRT_Error_FunctionTable::SIZE,
    instance_size: size_of::<ErrorObject>(),
    extension_start: ptr::null_mut(),
    destroy: Some(destroy),
    message: Some(message),
    get_code: Some(get_code),
    for_each_payload: Some(for_each_payload),
});

/// # Safety
/// The error is one of ours that is not used again, or null.
pub(crate) unsafe extern "C" fn destroy(error: *mut PJRT_Error) {
    if !error.is_null() {
        // SAFETY: the caller promises an error of ours that is not used again, or null.
        drop(unsafe { Box::from_raw(error.cast::<ErrorObject>()) });
    }
}

/// # Safety
/// The error is one of ours, or null; the other pointers can be written.
pub(crate) unsafe extern "C" fn message(
    error: *const PJRT_Error,
    message: *mut *const c_char,
    size: *mut usize,
) {
    // SAFETY: the caller promises an error of ours, or null; places to write to.
    unsafe {
        let text = error.cast::<ErrorObject>().as_ref();
        let text = text.map_or("", |object| &object.error.message);
        *message = text.as_ptr().cast();
        *size = text.len();
    }
}

/// # Safety
/// The error is one of ours, or null.
pub(crate) unsafe extern "C" fn get_code(error: *const PJRT_Error) -> PJRT_Error_Code {
    // SAFETY: the caller promises an error of ours, or null.
    let object = unsafe { error.cast::<ErrorObject>().as_ref() };
    object.map_or(PJRT_Error_Code_OK, |object| object.error.code.number())
}

/// Our errors have no payloads.
unsafe extern "C" fn for_each_payload(
    _: *const PJRT_Error,
    _: PJRT_Error_PayloadVisitor,
    _: *mut c_void,
) {
}
