//! Executes the work of streams and graphs, or stores it while its stream is captured.

use std::ffi::c_void;

use tegula_sim_ptx::{FindingKind, Launch, LaunchError, launch};

use crate::driver::{Driver, Handle, Outcome};
use crate::status::{
    DEVICE_UNAVAILABLE, ILLEGAL_ADDRESS, INVALID_HANDLE, INVALID_VALUE, LAUNCH_FAILED,
    LAUNCH_TIMEOUT, MISALIGNED_ADDRESS, NOT_SUPPORTED, Status,
};
use crate::work::{Kernel, Work};

/// The maximum size of a copy or fill, to catch wrong sizes.
const MOST_BYTES: usize = 1 << 40;

/// Executes work, or stores it if its stream is captured. Streams 0, 1 and 2 are the default
/// streams.
pub(crate) fn enqueue(driver: &mut Driver, stream: Handle, work: Work) -> Outcome {
    if stream > 2 {
        let capture = driver.streams.get(&stream).ok_or(INVALID_HANDLE)?.capture;
        if let Some(capture) = capture.and_then(|c| driver.captures.get_mut(&c)) {
            capture.work.push(work);
            return Ok(());
        }
    } else {
        // Work in the default stream is not allowed during a capture.
        driver.no_capture()?;
    }
    perform(driver, &work)
}

/// Executes work.
pub(crate) fn perform(driver: &mut Driver, work: &Work) -> Outcome {
    let bounded = |bytes: usize| {
        if bytes > MOST_BYTES {
            Err(INVALID_VALUE)
        } else {
            Ok(())
        }
    };
    match work {
        Work::ToDevice { to, from, bytes } => {
            bounded(*bytes)?;
            let from = *from as *const u8;
            if *bytes == 0 {
                return Ok(());
            }
            if from.is_null() {
                return Err(INVALID_VALUE);
            }
            // SAFETY: the host promises that `bytes` bytes can be read there until the work is
            // done.
            let data = unsafe { std::slice::from_raw_parts(from, *bytes) };
            driver.now += *bytes as u64 / 8;
            outside(driver, driver_write(*to, data))
        }
        Work::ToHost { to, from, bytes } => {
            bounded(*bytes)?;
            let to = *to as *mut u8;
            if *bytes == 0 {
                return Ok(());
            }
            if to.is_null() {
                return Err(INVALID_VALUE);
            }
            // The address is checked before the host's memory is written.
            if driver.memory.allocation_of(*from).is_none() {
                return Err(INVALID_VALUE);
            }
            let mut data = vec![0; *bytes];
            driver.now += *bytes as u64 / 8;
            outside(driver, |d| d.memory.read(*from, &mut data))?;
            // SAFETY: the host promises that `bytes` bytes can be written there, and they do not
            // overlap our vector.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, *bytes) };
            Ok(())
        }
        Work::Within { to, from, bytes } => {
            driver.now += *bytes as u64 / 8;
            if *bytes == 0 {
                return Ok(());
            }
            outside(driver, |d| d.memory.copy(*from, *to, *bytes as u64))
        }
        Work::Fill { to, pattern, count } => {
            let bytes = count.checked_mul(pattern.len()).ok_or(INVALID_VALUE)?;
            bounded(bytes)?;
            if bytes == 0 {
                return Ok(());
            }
            driver.now += bytes as u64 / 8;
            if let [value] = pattern[..] {
                return outside(driver, |d| d.memory.fill(*to, bytes as u64, value));
            }
            if to % pattern.len() as u64 != 0 || driver.memory.allocation_of(*to).is_none() {
                return Err(INVALID_VALUE);
            }
            outside(driver, driver_write(*to, &pattern.repeat(*count)))
        }
        Work::Kernel(kernel) => run(driver, kernel),
        Work::Product(product) => product.run(driver),
        Work::Host { function, data } => {
            // SAFETY: the host passed the function to be called with this argument. It must not
            // call the driver, which is locked; cuLaunchHostFunc has the same rule.
            unsafe { function(*data as *mut c_void) };
            Ok(())
        }
    }
}

fn driver_write(
    to: u64,
    data: &[u8],
) -> impl FnOnce(&mut Driver) -> Result<(), tegula_sim_ptx::MemoryError> {
    move |driver| driver.memory.write(to, data)
}

/// Accesses device memory for the host, and records errors.
fn outside(
    driver: &mut Driver,
    f: impl FnOnce(&mut Driver) -> Result<(), tegula_sim_ptx::MemoryError>,
) -> Outcome {
    f(driver).map_err(|error| {
        driver.note(&format!("copy: {error}"));
        Status::of_memory(&error)
    })
}

/// Runs a kernel. If there are errors among its findings, the context is broken for later calls.
fn run(driver: &mut Driver, kernel: &Kernel) -> Outcome {
    let shape = Launch {
        grid: kernel.grid,
        block: kernel.block,
        dynamic_shared: kernel.dynamic_shared,
        params: &kernel.params,
    };
    driver.kernels += 1;
    let made = driver
        .failures
        .iter()
        .find(|(number, _)| *number == driver.kernels);
    if let Some(&(number, status)) = made {
        driver.note(&format!(
            "{}: failure injected into kernel launch {number}",
            kernel.name
        ));
        driver.failed = Some(status);
        driver.lost |= status == DEVICE_UNAVAILABLE;
        return Ok(());
    }
    let options = driver.options.clone();
    let report = match launch(
        &kernel.module,
        &kernel.name,
        &mut driver.memory,
        &shape,
        &options,
    ) {
        Ok(report) => report,
        Err(error) => {
            driver.note(&error.to_string());
            return match error {
                LaunchError::Stopped(_) => Err(LAUNCH_TIMEOUT),
                LaunchError::Runaway { .. } => {
                    driver.failed = Some(LAUNCH_TIMEOUT);
                    Ok(())
                }
                LaunchError::Memory(error) => Err(Status::of_memory(&error)),
                LaunchError::Shape { .. } | LaunchError::Parameters { .. } => Err(INVALID_VALUE),
                LaunchError::NoKernel(_) => Err(INVALID_HANDLE),
            };
        }
    };
    driver.now += report.instructions;
    for finding in &report.findings {
        driver.note(&format!("{}: {finding}", kernel.name));
    }
    if let Some(error) = report.errors().next() {
        driver.failed = Some(failure(error.kind));
    }
    Ok(())
}

/// The error with which a device would react to a finding.
fn failure(kind: FindingKind) -> Status {
    match kind {
        FindingKind::OutOfBounds => ILLEGAL_ADDRESS,
        FindingKind::Misaligned => MISALIGNED_ADDRESS,
        _ => LAUNCH_FAILED,
    }
}

/// The result for launches in clusters or with other attributes.
pub(crate) const fn unsupported() -> Outcome {
    Err(NOT_SUPPORTED)
}
