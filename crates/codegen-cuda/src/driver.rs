//! A GPU through the CUDA driver.
//!
//! # Safety of what follows
//! The driver is given addresses that it has handed out and sizes that were
//! allocated; a launch is given as many parameters as the function of that number was
//! generated with. Generated functions stay inside their arrays because a plan's
//! kernels index within their parameters' dimensions. The context, module and stream
//! live as long as the device that holds them.

use crate::cache;
use crate::device::{Device, Launch};
use crate::error::Error;
use crate::execute::Executable;
use crate::nvrtc::{Arch, Form, compiler};
use crate::program::{Program, program};
use cudarc::driver::{DriverError, result, sys};
use rustc_hash::FxHashMap;
use std::ffi::{CString, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tegula_layout::Plan;

/// The first GPU with a program loaded.
struct Driver {
    ordinal: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// Absent while the device is being set up.
    module: Option<sys::CUmodule>,
    functions: Vec<sys::CUfunction>,
    memory: Mutex<Pool>,
}

/// Memory of finished runs is kept for later ones: asking the driver for it takes
/// longer than most kernels. Work is in the order of one stream, so what a run gives
/// back may be written by the next.
#[derive(Default)]
struct Pool {
    /// Bytes of each allocation in use, by address.
    used: FxHashMap<u64, u64>,
    /// Bytes and addresses of the others.
    idle: Vec<(u64, u64)>,
}

/// How many allocations are kept.
const MAX_IDLE: usize = 8;

// SAFETY: the driver's handles may be used by every thread; the context is made
// current before each use.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// Compiles a plan for the first GPU.
///
/// # Errors
/// There is no driver, no GPU or no NVRTC; an operation that a type lacks.
pub fn executable(plan: Plan) -> Result<Executable, Error> {
    let program = program(&plan)?;
    let device = Driver::new(&program)?;
    Ok(Executable::assemble(plan, program, Box::new(device)))
}

fn failed(step: &str, error: DriverError) -> Error {
    let text = error
        .error_string()
        .map(|text| text.to_string_lossy().into_owned());
    Error::Device {
        step: step.to_owned(),
        reason: text.unwrap_or_else(|_| format!("{:?}", error.0)),
    }
}

/// The driver, initialised.
fn initialise() -> Result<(), Error> {
    // SAFETY: looking for a library; its initialisation is NVIDIA's.
    if !unsafe { sys::is_culib_present() } {
        let message = "there is no CUDA driver: libcuda.so is not found. It comes with the \
                       driver of an NVIDIA GPU; `--target cuda-sim` runs without one";
        return Err(Error::MissingLibrary(message.to_owned()));
    }
    result::init().map_err(|error| {
        let reason = failed("start", error);
        Error::MissingLibrary(format!(
            "the CUDA driver finds no GPU that it can use: {reason}"
        ))
    })
}

impl Driver {
    fn new(program: &Program) -> Result<Self, Error> {
        initialise()?;
        let ordinal = result::device::get(0).map_err(|e| failed("looking for a GPU", e))?;
        // SAFETY: the device was given by the driver.
        let context = unsafe { result::primary_ctx::retain(ordinal) }
            .map_err(|e| failed("opening the GPU", e))?;
        let mut device = Self {
            ordinal,
            context,
            stream: std::ptr::null_mut(),
            module: None,
            functions: Vec::new(),
            memory: Mutex::default(),
        };
        device.enter("opening the GPU")?;
        let kind = result::stream::StreamKind::NonBlocking;
        device.stream = result::stream::create(kind).map_err(|e| failed("making a stream", e))?;
        device.load(program)?;
        Ok(device)
    }

    fn arch(&self) -> Result<Arch, Error> {
        use sys::CUdevice_attribute as Attribute;
        let ask = |attribute| {
            // SAFETY: the device was given by the driver.
            let value = unsafe { result::device::get_attribute(self.ordinal, attribute) };
            value.map_err(|e| failed("asking for the GPU's architecture", e))
        };
        let major = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let arch = Arch(u32::try_from(10 * major + minor).unwrap_or(0));
        if arch.0 < Arch::OLDEST.0 {
            return Err(Error::Unsupported(format!(
                "for this GPU: its architecture is sm_{}, and programs need sm_{} or later",
                arch.0,
                Arch::OLDEST.0
            )));
        }
        Ok(arch)
    }

    /// Loads machine code for this GPU, or else PTX that the driver compiles.
    fn load(&mut self, program: &Program) -> Result<(), Error> {
        let arch = self.arch()?;
        let (compiler, source) = (compiler()?, program.source());
        let module = match cache::compile(compiler, &source, arch, Form::Cubin) {
            Ok(code) => load_module(code),
            Err(error) => Err(error),
        };
        let module = match module {
            Ok(module) => module,
            Err(error) => {
                tracing::info!(%error, "no machine code for this GPU: its driver compiles PTX");
                let oldest = Arch(arch.0.min(90));
                load_module(cache::compile(compiler, &source, oldest, Form::Ptx)?)?
            }
        };
        self.module = Some(module);
        for function in &program.functions {
            let name =
                CString::new(function.name.as_str()).map_err(|e| Error::Bug(e.to_string()))?;
            // SAFETY: the module is loaded.
            let found = unsafe { result::module::get_function(module, name) };
            let found =
                found.map_err(|e| failed(&format!("looking for `{}`", function.name), e))?;
            self.functions.push(found);
        }
        Ok(())
    }

    /// Makes the context current in this thread.
    fn enter(&self, step: &str) -> Result<(), Error> {
        // SAFETY: the context is retained as long as this lives.
        unsafe { result::ctx::set_current(self.context) }.map_err(|e| failed(step, e))
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the memory that no run uses back to the driver.
    fn release_idle(&self) {
        let idle = std::mem::take(&mut self.pool().idle);
        for (_, address) in idle {
            // SAFETY: the address was given by the driver, and no run uses it; the
            // driver waits for work that does.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    fn wait(&self, step: &str) -> Result<(), Error> {
        // SAFETY: the stream lives as long as this.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|e| failed(step, e))
    }
}

fn load_module(mut code: Vec<u8>) -> Result<sys::CUmodule, Error> {
    // PTX is a text that ends with a zero.
    code.push(0);
    // SAFETY: what NVRTC has made.
    unsafe { result::module::load_data(code.as_ptr().cast()) }
        .map_err(|e| failed("loading the program", e))
}

impl Drop for Driver {
    fn drop(&mut self) {
        // What fails here has failed before, and there is nobody to tell.
        let _ = self.enter("closing the GPU");
        self.release_idle();
        // SAFETY: nothing uses the handles after this.
        unsafe {
            if let Some(module) = self.module {
                let _ = result::module::unload(module);
            }
            if !self.stream.is_null() {
                let _ = result::stream::destroy(self.stream);
            }
            let _ = result::primary_ctx::release(self.ordinal);
        }
    }
}

impl Driver {
    /// Memory from the driver; what is kept is given back if there is no other.
    fn fresh(&self, bytes: u64) -> Result<u64, Error> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the memory is written before it is read: the plan's verifier has
        // seen that.
        let ask = || unsafe { result::malloc_sync(size) };
        let full = |error: &DriverError| error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let given = ask().or_else(|error| match full(&error) {
            true => {
                self.release_idle();
                ask()
            }
            false => Err(error),
        });
        given.map_err(|error| match full(&error) {
            true => Error::OutOfMemory {
                needed: bytes,
                reason: match result::mem_get_info() {
                    Ok((free, total)) => format!("{free} of its {total} bytes are free"),
                    Err(_) => "it is out of memory".to_owned(),
                },
            },
            false => failed("allocating memory", error),
        })
    }
}

impl Device for Driver {
    fn allocate(&self, bytes: u64) -> Result<u64, Error> {
        self.enter("allocating memory")?;
        let kept = {
            let mut pool = self.pool();
            // Not one that is much too large: another run may need it.
            let fits = |&(size, _): &(u64, u64)| size >= bytes && size / 2 <= bytes;
            let place = pool.idle.iter().position(fits);
            place.map(|place| pool.idle.remove(place))
        };
        let (size, address) = match kept {
            Some(kept) => kept,
            None => (bytes, self.fresh(bytes)?),
        };
        self.pool().used.insert(address, size);
        Ok(address)
    }

    fn free(&self, address: u64) {
        let mut pool = self.pool();
        let Some(size) = pool.used.remove(&address) else {
            return;
        };
        pool.idle.push((size, address));
        let oldest = (pool.idle.len() > MAX_IDLE).then(|| pool.idle.remove(0));
        drop(pool);
        if let Some((_, address)) = oldest {
            let _ = self.enter("freeing memory");
            // SAFETY: as in `release_idle`.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let step = "copying to the GPU";
        self.enter(step)?;
        // SAFETY: the range is part of an allocation. Pageable memory is copied aside
        // before the call returns, so the bytes may change then.
        unsafe { result::memcpy_htod_async(address, bytes, self.stream) }
            .map_err(|e| failed(step, e))
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let step = "copying from the GPU";
        self.enter(step)?;
        // SAFETY: the range is part of an allocation; the copy is waited for.
        unsafe { result::memcpy_dtoh_async(bytes, address, self.stream) }
            .map_err(|e| failed(step, e))?;
        self.wait(step)
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Error> {
        let step = "copying on the GPU";
        self.enter(step)?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: both ranges are part of an allocation.
        unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream) }
            .map_err(|e| failed(step, e))
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let step = || format!("launching `{}`", launch.name);
        self.enter("launching a function")?;
        let function = self.functions.get(launch.function).copied();
        let function = function.ok_or_else(|| Error::Bug(step()))?;
        let mut parameters: smallvec::SmallVec<[*mut c_void; 16]> = launch
            .arguments
            .iter()
            .map(|argument| std::ptr::from_ref(argument).cast_mut().cast())
            .collect();
        let [x, y, z] = launch.grid;
        let [tx, ty, tz] = launch.block;
        // SAFETY: see the module's text; every parameter has eight bytes.
        unsafe {
            result::launch_kernel(
                function,
                (x, y, z),
                (tx, ty, tz),
                0,
                self.stream,
                &mut parameters,
            )
        }
        .map_err(|e| failed(&step(), e))
    }
}
