//! Device memory, pinned host memory, copies and fills.

use std::ffi::{c_int, c_void};

use crate::driver::{Driver, Handle, Outcome, functions, put};
use crate::perform::enqueue;
use crate::status::{
    INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, STREAM_CAPTURE_UNSUPPORTED, Status,
};
use crate::work::Work;

/// The handle of the device's only memory pool.
pub(crate) const POOL: Handle = 0x7e60_0100;
/// The maximum size of pinned memory, to catch wrong sizes.
const MOST_PINNED: usize = 1 << 36;

fn allocate(driver: &mut Driver, address: *mut u64, bytes: usize) -> Outcome {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let found = driver.memory.allocate(bytes as u64).map_err(|e| {
        driver.note(&format!("allocation: {e}"));
        Status::of_memory(&e)
    })?;
    // SAFETY: the host passes a place for an address.
    unsafe { put(address, found) }
}

fn free(driver: &mut Driver, address: u64) -> Outcome {
    if address == 0 {
        return Ok(());
    }
    driver.memory.free(address).map_err(|e| {
        driver.note(&format!("free: {e}"));
        Status::of_memory(&e)
    })
}

/// Checks that a stream-ordered allocation is not captured, which would make it a node of the
/// graph.
fn outside_capture(driver: &Driver, stream: Handle) -> Outcome {
    let capturing = driver
        .streams
        .get(&stream)
        .is_some_and(|s| s.capture.is_some());
    if capturing {
        Err(STREAM_CAPTURE_UNSUPPORTED)
    } else {
        Ok(())
    }
}

fn pin(driver: &mut Driver, address: *mut *mut c_void, bytes: usize) -> Outcome {
    if bytes == 0 || bytes > MOST_PINNED {
        return Err(if bytes == 0 {
            INVALID_VALUE
        } else {
            OUT_OF_MEMORY
        });
    }
    let mut memory: Box<[u128]> = vec![0; bytes.div_ceil(16)].into_boxed_slice();
    let start = memory.as_mut_ptr();
    driver.pinned.insert(start as usize, memory);
    // SAFETY: the host passes a place for a pointer.
    unsafe { put(address, start.cast()) }
}

functions! {
    call_within fn cuMemAlloc_v2(address: *mut u64, bytes: usize) |driver| {
        allocate(driver, address, bytes)
    }
    call_within fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle) |driver| {
        outside_capture(driver, stream)?;
        allocate(driver, address, bytes)
    }
    call_within fn cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: Handle, stream: Handle) |driver| {
        if pool != POOL {
            return Err(INVALID_VALUE);
        }
        outside_capture(driver, stream)?;
        allocate(driver, address, bytes)
    }
    call_within fn cuMemFree_v2(address: u64) |driver| {
        free(driver, address)
    }
    call_within fn cuMemFreeAsync(address: u64, stream: Handle) |driver| {
        outside_capture(driver, stream)?;
        free(driver, address)
    }
    call_within fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |driver| {
        let (capacity, used) = (driver.memory.capacity(), driver.memory.used());
        // SAFETY: the host passes places for two sizes.
        unsafe {
            put(free, (capacity - used) as usize)?;
            put(total, capacity as usize)
        }
    }
    call_within fn cuMemGetAddressRange_v2(start: *mut u64, bytes: *mut usize, address: u64) |driver| {
        let (first, size) = driver.memory.allocation_of(address).ok_or(INVALID_VALUE)?;
        // SAFETY: the host passes places for both, or null for what it does not want.
        unsafe {
            if !start.is_null() {
                put(start, first)?;
            }
            if bytes.is_null() { Ok(()) } else { put(bytes, size as usize) }
        }
    }
    call_within fn cuMemPoolSetAttribute(pool: Handle, _attribute: c_int, _value: *mut c_void) |_driver| {
        if pool == POOL { Ok(()) } else { Err(INVALID_VALUE) }
    }
    call_within fn cuMemPoolTrimTo(pool: Handle, _keep: usize) |_driver| {
        if pool == POOL { Ok(()) } else { Err(INVALID_VALUE) }
    }
    call_within fn cuMemAllocHost_v2(address: *mut *mut c_void, bytes: usize) |driver| {
        pin(driver, address, bytes)
    }
    call_within fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: u32) |driver| {
        // Memory that the device can access at the same address is not simulated.
        if flags & 2 != 0 {
            return Err(NOT_SUPPORTED);
        }
        pin(driver, address, bytes)
    }
    call_within fn cuMemFreeHost(address: *mut c_void) |driver| {
        driver.pinned.remove(&(address as usize)).map(drop).ok_or(INVALID_VALUE)
    }
    call_within fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) |driver| {
        enqueue(driver, 0, Work::ToDevice { to, from: from as usize, bytes })
    }
    call_within fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) |driver| {
        enqueue(driver, stream, Work::ToDevice { to, from: from as usize, bytes })
    }
    call_within fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) |driver| {
        enqueue(driver, 0, Work::ToHost { to: to as usize, from, bytes })
    }
    call_within fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) |driver| {
        enqueue(driver, stream, Work::ToHost { to: to as usize, from, bytes })
    }
    call_within fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) |driver| {
        enqueue(driver, 0, Work::Within { to, from, bytes })
    }
    call_within fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) |driver| {
        enqueue(driver, stream, Work::Within { to, from, bytes })
    }
    call_within fn cuMemsetD8_v2(to: u64, value: u8, count: usize) |driver| {
        enqueue(driver, 0, Work::Fill { to, pattern: vec![value], count })
    }
    call_within fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) |driver| {
        enqueue(driver, stream, Work::Fill { to, pattern: vec![value], count })
    }
    call_within fn cuMemsetD16_v2(to: u64, value: u16, count: usize) |driver| {
        enqueue(driver, 0, Work::Fill { to, pattern: value.to_le_bytes().to_vec(), count })
    }
    call_within fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) |driver| {
        enqueue(driver, stream, Work::Fill { to, pattern: value.to_le_bytes().to_vec(), count })
    }
    call_within fn cuMemsetD32_v2(to: u64, value: u32, count: usize) |driver| {
        enqueue(driver, 0, Work::Fill { to, pattern: value.to_le_bytes().to_vec(), count })
    }
    call_within fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: Handle) |driver| {
        enqueue(driver, stream, Work::Fill { to, pattern: value.to_le_bytes().to_vec(), count })
    }
}
