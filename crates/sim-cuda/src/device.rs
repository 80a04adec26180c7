//! Initialisation and queries of the device.

use std::ffi::{c_char, c_int};

use crate::driver::{Outcome, functions, put};
use crate::status::{INVALID_DEVICE, INVALID_VALUE, describe};

/// CUDA 13.0.
const VERSION: c_int = 13000;
const NAME: &[u8] = b"Tegula simulated sm_90\0";

/// The values of attributes, by their numbers in cuda.h: those of an H100 for properties of the
/// architecture, 0 for features that are not simulated.
const ATTRIBUTES: &[(c_int, c_int)] = &[
    (1, 1024),            // threads of a block
    (2, 1024),            // in x
    (3, 1024),            // in y
    (4, 64),              // in z
    (5, i32::MAX),        // blocks in x
    (6, 65535),           // in y
    (7, 65535),           // in z
    (8, 48 << 10),        // shared memory of a block without opting in
    (9, 64 << 10),        // constant memory
    (10, 32),             // lanes of a warp
    (11, i32::MAX),       // pitch
    (12, 65536),          // registers of a block
    (13, 1_000_000),      // clock in kHz: a nanosecond per instruction
    (14, 512),            // alignment of textures
    (16, 132),            // multiprocessors
    (31, 1),              // concurrent kernels
    (36, 2_619_000),      // memory clock in kHz
    (37, 5120),           // bits of the memory bus
    (38, 50 << 20),       // L2 cache
    (39, 2048),           // threads of a multiprocessor
    (40, 1),              // copy engines
    (41, 1),              // unified addressing
    (78, 1),              // priorities of streams
    (79, 1),              // L1 caches global memory
    (80, 1),              // and local memory
    (81, 228 << 10),      // shared memory of a multiprocessor
    (82, 65536),          // registers of a multiprocessor
    (97, 227 << 10),      // shared memory of a block that opts in
    (106, 32),            // blocks of a multiprocessor
    (108, 50 << 20 >> 1), // persisting L2
    (111, 1024),          // shared memory that the system takes
    (115, 1),             // memory pools
];
/// The highest number of an attribute in CUDA 13.0.
const LAST_ATTRIBUTE: c_int = 145;

fn only(device: c_int) -> Outcome {
    if device == 0 {
        Ok(())
    } else {
        Err(INVALID_DEVICE)
    }
}

functions! {
    call_early fn cuInit(flags: u32) |driver| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        driver.initialised = true;
        Ok(())
    }
    call_early fn cuDriverGetVersion(version: *mut c_int) |_driver| {
        // SAFETY: the host passes a place for an int.
        unsafe { put(version, VERSION) }
    }
    call fn cuDeviceGetCount(count: *mut c_int) |_driver| {
        // SAFETY: the host passes a place for an int.
        unsafe { put(count, 1) }
    }
    call fn cuDeviceGet(device: *mut c_int, ordinal: c_int) |_driver| {
        only(ordinal)?;
        // SAFETY: the host passes a place for a device.
        unsafe { put(device, 0) }
    }
    call fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) |_driver| {
        only(device)?;
        let length = usize::try_from(length).map_err(|_| INVALID_VALUE)?;
        let bytes = NAME.len().min(length);
        if name.is_null() || bytes == 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the host passes a place for `length` characters.
        unsafe {
            std::ptr::copy_nonoverlapping(NAME.as_ptr(), name.cast(), bytes);
            name.add(bytes - 1).write(0);
        }
        Ok(())
    }
    call fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) |_driver| {
        only(device)?;
        // SAFETY: the host passes a place for a UUID.
        unsafe { put(uuid, *b"tegula sim sm_90") }
    }
    call fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) |_driver| {
        only(device)?;
        // SAFETY: the host passes a place for a UUID.
        unsafe { put(uuid, *b"tegula sim sm_90") }
    }
    call fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) |driver| {
        only(device)?;
        // SAFETY: the host passes a place for a size.
        unsafe { put(bytes, driver.memory.capacity() as usize) }
    }
    call fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) |driver| {
        only(device)?;
        if !(1..=LAST_ATTRIBUTE).contains(&attribute) {
            return Err(INVALID_VALUE);
        }
        let found = match attribute {
            75 => driver.arch / 10,
            76 => driver.arch % 10,
            _ => ATTRIBUTES.iter().find(|a| a.0 == attribute).map_or(0, |a| a.1),
        };
        // SAFETY: the host passes a place for an int.
        unsafe { put(value, found) }
    }
    call fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: c_int) |driver| {
        only(device)?;
        // SAFETY: the host passes places for two ints.
        unsafe {
            put(major, driver.arch / 10)?;
            put(minor, driver.arch % 10)
        }
    }
    call fn cuDeviceGetDefaultMemPool(pool: *mut usize, device: c_int) |_driver| {
        only(device)?;
        // SAFETY: the host passes a place for a handle.
        unsafe { put(pool, crate::memory::POOL) }
    }
    call fn cuDeviceGetMemPool(pool: *mut usize, device: c_int) |_driver| {
        only(device)?;
        // SAFETY: the host passes a place for a handle.
        unsafe { put(pool, crate::memory::POOL) }
    }
    call_early fn cuGetErrorName(error: c_int, text: *mut *const c_char) |_driver| {
        let found = describe(error).ok_or(INVALID_VALUE)?;
        // SAFETY: the host passes a place for a pointer.
        unsafe { put(text, found.0.as_ptr()) }
    }
    call_early fn cuGetErrorString(error: c_int, text: *mut *const c_char) |_driver| {
        let found = describe(error).ok_or(INVALID_VALUE)?;
        // SAFETY: the host passes a place for a pointer.
        unsafe { put(text, found.1.as_ptr()) }
    }
}
