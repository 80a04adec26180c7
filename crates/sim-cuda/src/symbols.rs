//! Functions that are not implemented, and lookup of functions by name.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::driver::{functions, put};
use crate::status::{INVALID_VALUE, NOT_FOUND};

/// Defines functions that return "not supported". Their arguments are not read, which the C calling
/// conventions allow.
macro_rules! missing {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> i32 {
                crate::status::NOT_SUPPORTED.0
            }
        )*
    };
}

missing! {
    cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy_v2 cuCtxPopCurrent_v2
    cuCtxGetCacheConfig cuCtxSetCacheConfig cuCtxGetLimit cuCtxSetLimit
    cuDeviceSetMemPool cuDeviceGetP2PAttribute cuDeviceCanAccessPeer
    cuMemAllocManaged cuMemAllocPitch_v2 cuMemAdvise_v2 cuMemPrefetchAsync_v2 cuMemHostRegister_v2
    cuMemHostUnregister cuMemHostGetDevicePointer_v2 cuMemPoolCreate cuMemPoolDestroy cuMemPoolGetAttribute
    cuMemcpyPeerAsync cuMemcpyAsync cuMemcpy cuMemcpy2D_v2 cuMemcpy2DAsync_v2 cuMemsetD2D8_v2 cuPointerGetAttribute
    cuImportExternalMemory cuDestroyExternalMemory cuExternalMemoryGetMappedBuffer
    cuLaunchCooperativeKernel cuStreamAttachMemAsync cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3
    cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxActiveClusters cuOccupancyMaxPotentialBlockSize
    cuOccupancyMaxPotentialBlockSizeWithFlags cuOccupancyMaxPotentialClusterSize
    cuGraphCreate cuGraphAddKernelNode_v2 cuGraphExecKernelNodeSetParams_v2 cuGraphExecUpdate_v2
    cuLinkCreate_v2 cuLinkAddData_v2 cuLinkComplete cuLinkDestroy cuLibraryLoadData cuLibraryGetKernel
    cuTensorMapEncodeTiled cuProfilerStart cuProfilerStop
}

/// The function with this name, with or without version suffix.
fn find(name: &str) -> Option<usize> {
    let lists = [
        crate::device::symbols(),
        crate::context::symbols(),
        crate::memory::symbols(),
        crate::module::symbols(),
        crate::stream::symbols(),
        crate::graph::symbols(),
        symbols(),
    ];
    let all = || lists.iter().flatten();
    let exact = all().find(|s| s.0 == name);
    exact
        .or_else(|| all().find(|s| s.0.strip_suffix("_v2") == Some(name)))
        .map(|s| s.1)
}

functions! {
    call_early fn cuGetProcAddress_v2(
        name: *const c_char,
        function: *mut *mut c_void,
        _version: c_int,
        _flags: u64,
        state: *mut c_int,
    ) |_driver| {
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the host passes a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?;
        let found = find(name);
        // SAFETY: the host passes places for both, or null for the state.
        unsafe {
            if !state.is_null() {
                put(state, c_int::from(found.is_none()))?;
            }
            put(function, found.unwrap_or(0) as *mut c_void)?;
        }
        found.map(drop).ok_or(NOT_FOUND)
    }
}
