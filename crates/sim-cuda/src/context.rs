//! The primary context.

use std::ffi::c_int;

use crate::driver::{CONTEXT, Handle, current, functions, put, set_current};
use crate::status::{DEVICE_UNAVAILABLE, INVALID_CONTEXT, INVALID_DEVICE};

functions! {
    call fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) |driver| {
        if device != 0 {
            return Err(INVALID_DEVICE);
        }
        if driver.lost {
            return Err(DEVICE_UNAVAILABLE);
        }
        driver.retained += 1;
        // SAFETY: the host passes a place for a handle.
        unsafe { put(context, CONTEXT) }
    }
    call fn cuDevicePrimaryCtxRelease_v2(device: c_int) |driver| {
        if device != 0 {
            return Err(INVALID_DEVICE);
        }
        driver.retained = driver.retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        if driver.retained == 0 {
            driver.reset();
        }
        Ok(())
    }
    call fn cuDevicePrimaryCtxReset_v2(device: c_int) |driver| {
        if device != 0 {
            return Err(INVALID_DEVICE);
        }
        let retained = driver.retained;
        driver.reset();
        driver.retained = retained;
        Ok(())
    }
    call fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut u32, active: *mut c_int) |driver| {
        if device != 0 {
            return Err(INVALID_DEVICE);
        }
        // SAFETY: the host passes places for both.
        unsafe {
            put(flags, 0)?;
            put(active, c_int::from(driver.retained > 0))
        }
    }
    call fn cuCtxSetCurrent(context: Handle) |driver| {
        if context != 0 && (context != CONTEXT || driver.retained == 0) {
            return Err(INVALID_CONTEXT);
        }
        set_current(context);
        Ok(())
    }
    call fn cuCtxGetCurrent(context: *mut Handle) |_driver| {
        // SAFETY: the host passes a place for a handle.
        unsafe { put(context, current()) }
    }
    call fn cuCtxPushCurrent_v2(context: Handle) |driver| {
        // There is only one context, so pushing it again leaves it current.
        if context != CONTEXT || driver.retained == 0 {
            return Err(INVALID_CONTEXT);
        }
        set_current(context);
        Ok(())
    }
    call_within fn cuCtxGetDevice(device: *mut c_int) |_driver| {
        // SAFETY: the host passes a place for a device.
        unsafe { put(device, 0) }
    }
    call_within fn cuCtxSetFlags(_flags: u32) |_driver| {
        Ok(())
    }
    call_within fn cuCtxSynchronize() |driver| {
        driver.no_capture()
    }
    call_within fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) |_driver| {
        // SAFETY: the host passes places for two ints.
        unsafe {
            put(least, 0)?;
            put(greatest, -5)
        }
    }
}
