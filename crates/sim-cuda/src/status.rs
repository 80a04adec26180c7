//! Status codes of calls, with the numbers of `CUresult` in cuda.h.

use std::ffi::CStr;

use tegula_sim_ptx::MemoryError;

/// A `CUresult` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) i32);

impl Status {
    /// The driver's status for an error of device memory.
    pub(crate) fn of_memory(error: &MemoryError) -> Self {
        match error {
            MemoryError::OutOfMemory { .. } => OUT_OF_MEMORY,
            MemoryError::NotAllocated { .. } | MemoryError::OutOfBounds { .. } => INVALID_VALUE,
        }
    }
}

pub(crate) const INVALID_VALUE: Status = Status(1);
pub(crate) const OUT_OF_MEMORY: Status = Status(2);
pub(crate) const NOT_INITIALIZED: Status = Status(3);
pub(crate) const DEVICE_UNAVAILABLE: Status = Status(46);
pub(crate) const INVALID_DEVICE: Status = Status(101);
pub(crate) const INVALID_CONTEXT: Status = Status(201);
pub(crate) const NO_BINARY_FOR_GPU: Status = Status(209);
pub(crate) const INVALID_PTX: Status = Status(218);
pub(crate) const INVALID_HANDLE: Status = Status(400);
pub(crate) const ILLEGAL_STATE: Status = Status(401);
pub(crate) const NOT_FOUND: Status = Status(500);
pub(crate) const ILLEGAL_ADDRESS: Status = Status(700);
pub(crate) const LAUNCH_TIMEOUT: Status = Status(702);
pub(crate) const MISALIGNED_ADDRESS: Status = Status(716);
pub(crate) const LAUNCH_FAILED: Status = Status(719);
pub(crate) const NOT_SUPPORTED: Status = Status(801);
pub(crate) const STREAM_CAPTURE_UNSUPPORTED: Status = Status(900);
pub(crate) const STREAM_CAPTURE_INVALIDATED: Status = Status(901);
pub(crate) const STREAM_CAPTURE_UNMATCHED: Status = Status(903);
pub(crate) const UNKNOWN: Status = Status(999);

/// The number, the name and the text of each status.
const DESCRIPTIONS: &[(i32, &CStr, &CStr)] = &[
    (0, c"CUDA_SUCCESS", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (
        46,
        c"CUDA_ERROR_DEVICE_UNAVAILABLE",
        c"CUDA-capable device(s) is/are busy or unavailable",
    ),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (
        201,
        c"CUDA_ERROR_INVALID_CONTEXT",
        c"invalid device context",
    ),
    (
        209,
        c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"no kernel image is available for execution on the device: the stand-in runs PTX only",
    ),
    (218, c"CUDA_ERROR_INVALID_PTX", c"a PTX compilation failed"),
    (
        400,
        c"CUDA_ERROR_INVALID_HANDLE",
        c"invalid resource handle",
    ),
    (
        401,
        c"CUDA_ERROR_ILLEGAL_STATE",
        c"the operation cannot be performed in the present state",
    ),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (600, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (
        700,
        c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"an illegal memory access was encountered",
    ),
    (
        701,
        c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        c"too many resources requested for launch",
    ),
    (
        702,
        c"CUDA_ERROR_LAUNCH_TIMEOUT",
        c"the launch timed out and was terminated",
    ),
    (
        709,
        c"CUDA_ERROR_CONTEXT_IS_DESTROYED",
        c"context is destroyed",
    ),
    (716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (
        719,
        c"CUDA_ERROR_LAUNCH_FAILED",
        c"unspecified launch failure",
    ),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (
        900,
        c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        c"operation not permitted when stream is capturing",
    ),
    (
        901,
        c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        c"operation failed due to a previous error during capture",
    ),
    (
        903,
        c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        c"stream is not the origin of the capture",
    ),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

/// The name and the text of a status.
pub(crate) fn describe(status: i32) -> Option<(&'static CStr, &'static CStr)> {
    DESCRIPTIONS
        .iter()
        .find(|d| d.0 == status)
        .map(|d| (d.1, d.2))
}
