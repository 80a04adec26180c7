//! Streams, captures and events.

use std::ffi::c_int;

use crate::driver::{Capture, Driver, Event, Handle, Outcome, Stream, functions, put};
use crate::status::{
    ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE, STREAM_CAPTURE_INVALIDATED,
    STREAM_CAPTURE_UNMATCHED, STREAM_CAPTURE_UNSUPPORTED,
};

/// Checks that a stream exists; `None` for the default streams 0, 1 and 2.
fn known(driver: &Driver, stream: Handle) -> Result<Option<Handle>, crate::status::Status> {
    if stream <= 2 {
        return Ok(None);
    }
    driver
        .streams
        .get(&stream)
        .map(|s| s.capture)
        .ok_or(INVALID_HANDLE)
}

/// Waits for a stream. There is nothing to wait for, but the call is an error if the stream is
/// captured.
fn wait(driver: &mut Driver, stream: Handle) -> Outcome {
    match known(driver, stream)? {
        None => Ok(()),
        Some(capture) => {
            if let Some(capture) = driver.captures.get_mut(&capture) {
                capture.broken = true;
            }
            Err(STREAM_CAPTURE_UNSUPPORTED)
        }
    }
}

fn create(driver: &mut Driver, stream: *mut Handle, flags: u32, priority: c_int) -> Outcome {
    if flags > 1 {
        return Err(INVALID_VALUE);
    }
    let handle = driver.handle();
    driver.streams.insert(
        handle,
        Stream {
            flags,
            priority,
            capture: None,
        },
    );
    // SAFETY: the host passes a place for a handle.
    unsafe { put(stream, handle) }
}

fn record(driver: &mut Driver, event: Handle, stream: Handle) -> Outcome {
    let capture = known(driver, stream)?;
    let now = driver.now;
    let event = driver.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
    event.capture = capture;
    if capture.is_none() {
        event.time = Some(now);
    }
    Ok(())
}

fn elapsed(driver: &Driver, milliseconds: *mut f32, start: Handle, end: Handle) -> Outcome {
    let time = |event: Handle| {
        driver
            .events
            .get(&event)
            .and_then(|e| e.time)
            .ok_or(INVALID_HANDLE)
    };
    let nanoseconds = time(end)? as f64 - time(start)? as f64;
    // SAFETY: the host passes a place for a float.
    unsafe { put(milliseconds, (nanoseconds / 1e6) as f32) }
}

functions! {
    call_within fn cuStreamCreate(stream: *mut Handle, flags: u32) |driver| {
        create(driver, stream, flags, 0)
    }
    call_within fn cuStreamCreateWithPriority(stream: *mut Handle, flags: u32, priority: c_int) |driver| {
        create(driver, stream, flags, priority.clamp(-5, 0))
    }
    call_within fn cuStreamDestroy_v2(stream: Handle) |driver| {
        let found = driver.streams.remove(&stream).ok_or(INVALID_HANDLE)?;
        if let Some(capture) = found.capture.and_then(|c| driver.captures.get_mut(&c)) {
            capture.broken = true;
        }
        Ok(())
    }
    call_within fn cuStreamGetFlags(stream: Handle, flags: *mut u32) |driver| {
        known(driver, stream)?;
        let found = driver.streams.get(&stream).map_or(0, |s| s.flags);
        // SAFETY: the host passes a place for an int.
        unsafe { put(flags, found) }
    }
    call_within fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) |driver| {
        known(driver, stream)?;
        let found = driver.streams.get(&stream).map_or(0, |s| s.priority);
        // SAFETY: the host passes a place for an int.
        unsafe { put(priority, found) }
    }
    call_within fn cuStreamSynchronize(stream: Handle) |driver| {
        wait(driver, stream)
    }
    call_within fn cuStreamQuery(stream: Handle) |driver| {
        wait(driver, stream)
    }
    call_within fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) |driver| {
        known(driver, stream)?;
        let capture = driver.events.get(&event).ok_or(INVALID_HANDLE)?.capture;
        // Waiting for work that is being captured joins the capture.
        if let (Some(capture), Some(found)) = (capture, driver.streams.get_mut(&stream))
            && driver.captures.contains_key(&capture)
        {
            found.capture = Some(capture);
        }
        Ok(())
    }
    call_within fn cuStreamBeginCapture_v2(stream: Handle, mode: c_int) |driver| {
        if stream <= 2 {
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
        if !(0..=2).contains(&mode) {
            return Err(INVALID_VALUE);
        }
        if known(driver, stream)?.is_some() {
            return Err(ILLEGAL_STATE);
        }
        let handle = driver.handle();
        driver.captures.insert(handle, Capture { origin: stream, ..Capture::default() });
        if let Some(found) = driver.streams.get_mut(&stream) {
            found.capture = Some(handle);
        }
        Ok(())
    }
    call_within fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) |driver| {
        let capture = known(driver, stream)?.ok_or(ILLEGAL_STATE)?;
        if driver.captures.get(&capture).is_some_and(|c| c.origin != stream) {
            return Err(STREAM_CAPTURE_UNMATCHED);
        }
        let found = driver.captures.remove(&capture).ok_or(ILLEGAL_STATE)?;
        driver.streams.values_mut().filter(|s| s.capture == Some(capture)).for_each(|s| s.capture = None);
        if found.broken {
            // SAFETY: the host passes a place for a handle.
            unsafe { put(graph, 0) }?;
            return Err(STREAM_CAPTURE_INVALIDATED);
        }
        let handle = driver.handle();
        driver.graphs.insert(handle, found.work);
        // SAFETY: the host passes a place for a handle.
        unsafe { put(graph, handle) }
    }
    call_within fn cuStreamIsCapturing(stream: Handle, state: *mut c_int) |driver| {
        let capture = known(driver, stream)?;
        let broken = capture.and_then(|c| driver.captures.get(&c)).map(|c| c.broken);
        // The states none, active and invalidated.
        let value = match broken {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        };
        // SAFETY: the host passes a place for the state.
        unsafe { put(state, value) }
    }
    call_within fn cuEventCreate(event: *mut Handle, _flags: u32) |driver| {
        let handle = driver.handle();
        driver.events.insert(handle, Event::default());
        // SAFETY: the host passes a place for a handle.
        unsafe { put(event, handle) }
    }
    call_within fn cuEventDestroy_v2(event: Handle) |driver| {
        driver.events.remove(&event).map(drop).ok_or(INVALID_HANDLE)
    }
    call_within fn cuEventRecord(event: Handle, stream: Handle) |driver| {
        record(driver, event, stream)
    }
    call_within fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: u32) |driver| {
        record(driver, event, stream)
    }
    call_within fn cuEventQuery(event: Handle) |driver| {
        driver.events.get(&event).map(|_| ()).ok_or(INVALID_HANDLE)
    }
    call_within fn cuEventSynchronize(event: Handle) |driver| {
        match driver.events.get(&event).ok_or(INVALID_HANDLE)?.capture {
            Some(capture) if driver.captures.contains_key(&capture) => driver.no_capture(),
            _ => Ok(()),
        }
    }
    call_within fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) |driver| {
        elapsed(driver, milliseconds, start, end)
    }
    call_within fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) |driver| {
        elapsed(driver, milliseconds, start, end)
    }
}
