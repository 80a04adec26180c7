//! A GPU through the CUDA driver.
//!
//! A [`LoadedContext`] is the GPU's primary context with a program loaded in it. A kernel that
//! fails destroys the context, and with it every loaded context of this process: their calls
//! return errors, and the next run loads the program again in a new context.
//!
//! # Safety of what follows
//! The driver is given only addresses that it returned in the same loaded context, and sizes that
//! were allocated. A launch passes exactly the parameters that its function was generated with.
//! Generated functions stay inside their arrays because a plan's kernels index within their
//! parameters' dimensions. The context, module and streams live as long as the loaded context
//! that owns them, and no call is in progress when it is dropped.

mod cublaslt;
mod loaded_context;
mod session;

use crate::cache;
use crate::device::{Device, Session};
use crate::error::Error;
use crate::execute::Executable;
use crate::nvrtc::{Arch, Form, compiler};
use crate::program::{Program, program};
use cudarc::driver::{DriverError, result, sys};
pub use loaded_context::release_gpu;
use loaded_context::{LoadedContext, is_current};
use session::Opened;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};
use tegula_plan::Plan;

/// A program on the first GPU.
struct Driver {
    /// The code to load: machine code for this GPU, or PTX for its driver to compile.
    code: Vec<u8>,
    /// The functions' names, by index.
    names: Vec<CString>,
    loaded: Mutex<Option<Arc<LoadedContext>>>,
}

/// Compiles a plan for the first GPU.
///
/// # Errors
/// No driver, GPU or NVRTC is found, or a type does not support an operation.
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

/// Initialises the driver.
fn initialise() -> Result<(), Error> {
    // SAFETY: this loads libcuda, whose initialisers are NVIDIA's and have no preconditions.
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

fn arch(device: sys::CUdevice) -> Result<Arch, Error> {
    use sys::CUdevice_attribute as Attribute;
    let ask = |attribute| {
        // SAFETY: the device came from the driver.
        let value = unsafe { result::device::get_attribute(device, attribute) };
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

impl Driver {
    /// Loads machine code for this GPU, or, if NVRTC cannot produce that, PTX.
    fn new(program: &Program) -> Result<Self, Error> {
        initialise()?;
        let ordinal = result::device::get(0).map_err(|e| failed("looking for a GPU", e))?;
        let arch = arch(ordinal)?;
        let (compiler, source) = (compiler()?, program.source());
        let names = program.functions.iter();
        let names = names.map(|f| CString::new(f.name.as_str()));
        let mut driver = Self {
            code: Vec::new(),
            names: names
                .collect::<Result<_, _>>()
                .map_err(|e| Error::Bug(e.to_string()))?,
            loaded: Mutex::default(),
        };
        let cubin = cache::compile(compiler, &source, arch, Form::Cubin);
        let loaded = cubin.and_then(|code| driver.load(code));
        if let Err(error) = loaded {
            tracing::info!(%error, "no machine code for this GPU: its driver compiles PTX");
            let oldest = Arch(arch.0.min(90));
            driver.load(cache::compile(compiler, &source, oldest, Form::Ptx)?)?;
        }
        Ok(driver)
    }

    fn load(&mut self, mut code: Vec<u8>) -> Result<(), Error> {
        // The driver expects PTX to end with a zero byte.
        code.push(0);
        let loaded = LoadedContext::begin(&code, &self.names)?;
        self.code = code;
        let own = self.loaded.get_mut();
        *own.unwrap_or_else(PoisonError::into_inner) = Some(loaded);
        Ok(())
    }
}

impl Device for Driver {
    fn open(&self) -> Result<Box<dyn Session + '_>, Error> {
        let mut own = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = match own.as_ref().filter(|loaded| is_current(loaded)) {
            Some(loaded) => Arc::clone(loaded),
            None => {
                // Drop the old one first: the driver destroys a context when its last reference
                // is released.
                *own = None;
                Arc::clone(own.insert(LoadedContext::begin(&self.code, &self.names)?))
            }
        };
        Ok(Box::new(Opened::new(loaded)))
    }
}
