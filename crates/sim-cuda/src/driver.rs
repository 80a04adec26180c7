//! The state of the driver, and the common frame of all calls.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tegula_sim_ptx::{Memory, Module, Options};

use crate::matrix_product::Described;
use crate::status::{
    INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_INITIALIZED, STREAM_CAPTURE_UNSUPPORTED,
    Status, UNKNOWN,
};
use crate::work::Work;

/// The result of a call.
pub(crate) type Outcome = Result<(), Status>;
/// A handle: a number that the host sees as a pointer.
pub(crate) type Handle = usize;

/// The default size of the device's memory, in bytes.
const CAPACITY: u64 = 16 << 30;

/// A function of a loaded module.
pub(crate) struct Function {
    pub(crate) module: Handle,
    pub(crate) name: String,
    /// The maximum dynamic shared memory of a launch, in bytes.
    pub(crate) dynamic_shared: u64,
}

/// A stream.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    /// The capture that the stream takes part in, if any.
    pub(crate) capture: Option<Handle>,
}

/// A capture in progress, by its id.
#[derive(Default)]
pub(crate) struct Capture {
    pub(crate) origin: Handle,
    pub(crate) work: Vec<Work>,
    /// Whether a call was made that is not allowed during a capture.
    pub(crate) broken: bool,
}

/// An event.
#[derive(Default)]
pub(crate) struct Event {
    /// The simulated time in nanoseconds at which it was recorded.
    pub(crate) time: Option<u64>,
    /// The capture in which it was recorded.
    pub(crate) capture: Option<Handle>,
}

/// The whole state of the driver.
pub(crate) struct Driver {
    pub(crate) initialised: bool,
    pub(crate) memory: Memory,
    pub(crate) options: Options,
    pub(crate) findings: Option<PathBuf>,
    /// The number of holders of the primary context.
    pub(crate) retained: u32,
    /// The error that broke the context, if any.
    pub(crate) failed: Option<Status>,
    pub(crate) modules: BTreeMap<Handle, Arc<Module>>,
    pub(crate) functions: BTreeMap<Handle, Function>,
    pub(crate) streams: BTreeMap<Handle, Stream>,
    pub(crate) captures: BTreeMap<Handle, Capture>,
    pub(crate) events: BTreeMap<Handle, Event>,
    pub(crate) graphs: BTreeMap<Handle, Vec<Work>>,
    pub(crate) executables: BTreeMap<Handle, Vec<Work>>,
    /// The objects that describe matrix products, by handle.
    pub(crate) described: BTreeMap<Handle, Described>,
    /// The file to which matrix products are appended.
    pub(crate) products: Option<PathBuf>,
    /// Pinned host memory: the address, and the memory in units of 16 bytes.
    pub(crate) pinned: BTreeMap<usize, Box<[u128]>>,
    /// The number of kernels that the process has run so far.
    pub(crate) kernels: u64,
    /// The kernels that are made to fail, with their errors.
    pub(crate) failures: Vec<(u64, Status)>,
    /// Whether the device has become unavailable.
    pub(crate) lost: bool,
    /// The compute capability, times ten.
    pub(crate) arch: i32,
    /// The simulated time in nanoseconds.
    pub(crate) now: u64,
    next: Handle,
}

/// The kernels that are made to fail: `NUMBER:STATUS`, separated by commas.
fn failures() -> Vec<(u64, Status)> {
    let text = std::env::var("TEGULA_SIM_CUDA_FAILURES").unwrap_or_default();
    let one = |text: &str| {
        let (number, status) = text.split_once(':')?;
        Some((number.parse().ok()?, Status(status.parse().ok()?)))
    };
    text.split(',').filter_map(one).collect()
}

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

thread_local! {
    /// The current context of this thread.
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
}

/// The handle of the primary context.
pub(crate) const CONTEXT: Handle = 0x7e60_0010;

pub(crate) fn current() -> Handle {
    CURRENT.get()
}

pub(crate) fn set_current(context: Handle) {
    CURRENT.set(context);
}

impl Driver {
    /// Synchronising with the device is not allowed while a stream is captured, and invalidates the
    /// capture.
    pub(crate) fn no_capture(&mut self) -> Outcome {
        if self.captures.is_empty() {
            return Ok(());
        }
        self.captures.values_mut().for_each(|c| c.broken = true);
        Err(STREAM_CAPTURE_UNSUPPORTED)
    }

    fn new() -> Self {
        let number = |name: &str| {
            std::env::var(name)
                .ok()
                .and_then(|text| text.parse::<u64>().ok())
        };
        let unchecked = std::env::var("TEGULA_SIM_CUDA_CHECKS").is_ok_and(|text| text == "none");
        let mut options = if unchecked {
            Options::fast()
        } else {
            Options::default()
        };
        if let Some(limit) = number("TEGULA_SIM_CUDA_LIMIT") {
            options.max_instructions = limit;
        }
        Self {
            initialised: false,
            memory: Memory::new(number("TEGULA_SIM_CUDA_MEMORY").unwrap_or(CAPACITY)),
            options,
            findings: std::env::var_os("TEGULA_SIM_CUDA_FINDINGS").map(PathBuf::from),
            retained: 0,
            failed: None,
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            streams: BTreeMap::new(),
            captures: BTreeMap::new(),
            events: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            described: BTreeMap::new(),
            products: std::env::var_os("TEGULA_SIM_CUDA_PRODUCTS").map(PathBuf::from),
            pinned: BTreeMap::new(),
            kernels: 0,
            failures: failures(),
            lost: false,
            arch: number("TEGULA_SIM_CUDA_ARCH")
                .and_then(|arch| i32::try_from(arch).ok())
                .unwrap_or(90),
            now: 0,
            next: CONTEXT,
        }
    }

    /// A handle that has not been used before.
    pub(crate) fn handle(&mut self) -> Handle {
        self.next += 16;
        self.next
    }

    /// Destroys the primary context, with everything that was created in it.
    pub(crate) fn reset(&mut self) {
        if self.failed.is_none() {
            self.note_leaks();
        }
        *self = Self {
            initialised: true,
            next: self.next,
            now: self.now,
            kernels: self.kernels,
            lost: self.lost,
            ..Self::new()
        };
    }

    /// Records objects that the host has not released.
    fn note_leaks(&self) {
        let counts = [
            (self.memory.used() as usize, "bytes of device memory"),
            (self.modules.len(), "modules"),
            (self.streams.len(), "streams"),
            (self.graphs.len() + self.executables.len(), "graphs"),
            (self.described.len(), "handles of cublasLt"),
        ];
        for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
            self.note(&format!("leak: {count} {what} when the context ends"));
        }
    }

    /// Appends a line to the file of findings.
    pub(crate) fn note(&self, line: &str) {
        append(self.findings.as_deref(), line);
    }

    /// Appends a line to the file of matrix products.
    pub(crate) fn note_product(&self, line: &str) {
        append(self.products.as_deref(), line);
    }

    /// An error if there is no current context on this thread, or if it is broken.
    pub(crate) fn context(&self) -> Outcome {
        if current() != CONTEXT || self.retained == 0 {
            return Err(INVALID_CONTEXT);
        }
        self.failed.map_or(Ok(()), Err)
    }

    pub(crate) fn module(&self, handle: Handle) -> Result<Arc<Module>, Status> {
        self.modules.get(&handle).cloned().ok_or(INVALID_HANDLE)
    }

    pub(crate) fn function(&mut self, handle: Handle) -> Result<&mut Function, Status> {
        self.functions.get_mut(&handle).ok_or(INVALID_HANDLE)
    }
}

fn append(path: Option<&Path>, line: &str) {
    let Some(path) = path else { return };
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    // If the file cannot be written, the host's program continues.
    if let Ok(mut file) = file {
        let _written = writeln!(file, "{line}");
    }
}

/// The frame of a call that is allowed before `cuInit`.
pub(crate) fn call_early(f: impl FnOnce(&mut Driver) -> Outcome) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
        f(driver.get_or_insert_with(Driver::new))
    }));
    match outcome {
        Ok(Ok(())) => 0,
        Ok(Err(status)) => status.0,
        Err(_) => UNKNOWN.0,
    }
}

/// The frame of a call that needs no context.
pub(crate) fn call(f: impl FnOnce(&mut Driver) -> Outcome) -> i32 {
    call_early(|driver| {
        if driver.initialised {
            f(driver)
        } else {
            Err(NOT_INITIALIZED)
        }
    })
}

/// The frame of a call that needs a context.
pub(crate) fn call_within(f: impl FnOnce(&mut Driver) -> Outcome) -> i32 {
    call(|driver| {
        driver.context()?;
        f(driver)
    })
}

/// Writes a result to the host's memory.
///
/// # Safety
/// `to` is null or points to memory for a `T`.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: it is not null, and the caller promises that it points to memory for a `T`.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Defines functions of a library. `within` ones need a current context, `always` ones do not.
macro_rules! exported {
    ($($frame:ident fn $name:ident($($argument:ident: $kind:ty),* $(,)?) |$driver:ident| $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, reason = "the signature is the library's")]
            unsafe extern "C" fn $name($($argument: $kind),*) -> i32 {
                $crate::driver::$frame(|$driver| $body)
            }
        )*
    };
}
pub(crate) use exported;

/// Defines functions of the driver, with the list of their symbols.
macro_rules! functions {
    ($($frame:ident fn $name:ident($($argument:ident: $kind:ty),* $(,)?) |$driver:ident| $body:block)*) => {
        $crate::driver::exported! {
            $($frame fn $name($($argument: $kind),*) |$driver| $body)*
        }

        /// The name and address of each function in this file.
        pub(crate) fn symbols() -> Vec<(&'static str, usize)> {
            vec![$((stringify!($name), $name as *const () as usize)),*]
        }
    };
}
pub(crate) use functions;
