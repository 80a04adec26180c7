//! A program loaded in the GPU's primary context, from opening the context to releasing it.

use super::{cublaslt, failed, initialise};
use crate::error::Error;
use cudarc::driver::{DriverError, result, sys};
use rustc_hash::FxHashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, Weak};

/// A pool of device memory. Memory of finished runs is reused, because an allocation by the driver
/// takes longer than most kernels. All work is in one stream's order, so the next run may overwrite
/// memory as soon as the last one has returned it.
#[derive(Default)]
pub(super) struct Pool {
    /// The size in bytes of each allocation in use, by address.
    pub used: FxHashMap<u64, u64>,
    /// Size in bytes and address of each idle allocation.
    pub idle: Vec<(u64, u64)>,
}

/// A program loaded in the primary context of the first GPU.
pub(super) struct LoadedContext {
    /// The context epoch that it belongs to.
    pub epoch: u64,
    ordinal: sys::CUdevice,
    pub context: sys::CUcontext,
    pub stream: sys::CUstream,
    /// The stream for recording; the lock admits one recording at a time.
    pub recorder: Mutex<Recorder>,
    /// `None` while the program is being loaded.
    module: Option<sys::CUmodule>,
    pub functions: Vec<sys::CUfunction>,
    pub memory: Mutex<Pool>,
    /// The cublasLt handle, created when a product first needs it.
    products: OnceLock<Option<cublaslt::Handle>>,
    ended: AtomicBool,
    /// Whether this context is in [`LOADED`], where [`end`] finds it. Until then, the thread that
    /// creates it holds the epoch's lock.
    registered: bool,
}

/// A stream for recording, and the graphs recorded so far.
pub(super) struct Recorder {
    pub stream: sys::CUstream,
    pub graphs: Vec<sys::CUgraphExec>,
}

// SAFETY: the driver's handles may be used from every thread, and each use first makes the context
// current.
unsafe impl Send for LoadedContext {}
// SAFETY: the driver's handles may be used from every thread, and each use first makes the context
// current.
unsafe impl Sync for LoadedContext {}

/// The current context epoch. A fatal error of a kernel destroys the context and ends its epoch.
/// Calls of the driver hold the read lock, so an epoch ends only when no call is in progress.
static EPOCH: RwLock<u64> = RwLock::new(1);
/// All contexts that may still be open.
static LOADED: Mutex<Vec<Weak<LoadedContext>>> = Mutex::new(Vec::new());

/// The device whose primary context this process retains in addition to its programs. Opening a GPU
/// takes longer than most programs run; without this, each program would open it again.
static KEPT: Mutex<Option<sys::CUdevice>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<sys::CUdevice>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Retains the primary context, unless this process already does.
fn keep(ordinal: sys::CUdevice) -> Result<(), DriverError> {
    let mut kept = kept();
    if kept.is_none() {
        // SAFETY: the device came from the driver; `release_gpu` releases the context.
        unsafe { result::primary_ctx::retain(ordinal) }?;
        *kept = Some(ordinal);
    }
    Ok(())
}

/// Lets the GPU close once the last program that uses it is dropped. Without this call it stays
/// open, because opening it again takes some tenths of a second.
pub fn release_gpu() {
    if let Some(ordinal) = kept().take() {
        // SAFETY: the context was retained once by `keep`.
        let _ = unsafe { result::primary_ctx::release(ordinal) };
    }
}

fn epoch() -> RwLockReadGuard<'static, u64> {
    EPOCH.read().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a context belongs to the current epoch.
pub(super) fn is_current(loaded: &LoadedContext) -> bool {
    *epoch() == loaded.epoch
}

/// Errors after which every call in the context fails.
fn is_fatal(error: DriverError) -> bool {
    use sys::CUresult as R;
    matches!(
        error.0,
        R::CUDA_ERROR_DEVICE_UNAVAILABLE
            | R::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | R::CUDA_ERROR_ECC_UNCORRECTABLE
            | R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_LAUNCH_TIMEOUT
            | R::CUDA_ERROR_ASSERT
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | R::CUDA_ERROR_INVALID_PC
            | R::CUDA_ERROR_LAUNCH_FAILED
            | R::CUDA_ERROR_UNKNOWN
    )
}

/// Ends a context epoch. The driver frees everything in its contexts when the last reference to the
/// primary context is released.
fn end(over: u64) {
    let mut current = EPOCH.write().unwrap_or_else(PoisonError::into_inner);
    if *current != over {
        return;
    }
    *current += 1;
    release_gpu();
    let mut contexts = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    for loaded in contexts.drain(..).filter_map(|loaded| loaded.upgrade()) {
        loaded.release();
    }
}

impl LoadedContext {
    /// Opens the GPU and loads a program.
    pub(super) fn begin(code: &[u8], names: &[CString]) -> Result<Arc<Self>, Error> {
        initialise()?;
        let current = epoch();
        Self::loaded(*current, code, names).map_err(|(step, error)| {
            let over = *current;
            drop(current);
            lost(over, error);
            failed(&step, error)
        })
    }

    /// Loads a program in this epoch; the caller holds the epoch's lock.
    fn loaded(epoch: u64, code: &[u8], names: &[CString]) -> Result<Arc<Self>, Failure> {
        let at = |step: &str| {
            let step = step.to_owned();
            move |error| (step, error)
        };
        let ordinal = result::device::get(0).map_err(at("looking for a GPU"))?;
        // SAFETY: the device came from the driver.
        let context = unsafe { result::primary_ctx::retain(ordinal) };
        let nothing = std::ptr::null_mut();
        let mut loaded = Self {
            epoch,
            ordinal,
            context: context.map_err(at("opening the GPU"))?,
            stream: nothing,
            recorder: Mutex::new(Recorder {
                stream: nothing,
                graphs: Vec::new(),
            }),
            module: None,
            functions: Vec::with_capacity(names.len()),
            memory: Mutex::default(),
            products: OnceLock::new(),
            ended: AtomicBool::new(false),
            registered: false,
        };
        keep(ordinal).map_err(at("opening the GPU"))?;
        loaded.enter().map_err(at("opening the GPU"))?;
        let kind = || result::stream::StreamKind::NonBlocking;
        loaded.stream = result::stream::create(kind()).map_err(at("creating a stream"))?;
        let recorder = result::stream::create(kind()).map_err(at("creating a stream"))?;
        loaded.recorder().stream = recorder;
        // SAFETY: `code` is what NVRTC produced, with a terminating zero.
        let module = unsafe { result::module::load_data(code.as_ptr().cast()) };
        let module = module.map_err(at("loading the program"))?;
        loaded.module = Some(module);
        for name in names {
            // SAFETY: the module is loaded.
            let found = unsafe { result::module::get_function(module, name.clone()) };
            let step = || format!("looking for `{}`", name.to_string_lossy());
            loaded.functions.push(found.map_err(|e| (step(), e))?);
        }
        loaded.registered = true;
        let loaded = Arc::new(loaded);
        let mut contexts = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.retain(|known| known.strong_count() > 0);
        contexts.push(Arc::downgrade(&loaded));
        Ok(loaded)
    }

    /// Makes the context current in this thread.
    fn enter(&self) -> Result<(), DriverError> {
        // SAFETY: the context is retained until `self` is released.
        unsafe { result::ctx::set_current(self.context) }
    }

    /// Calls the driver with the context current; the epoch cannot end during the call.
    pub(super) fn call<T>(
        &self,
        step: &dyn Fn() -> String,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, Error> {
        self.attempt(call).map_err(|error| match error {
            Some(error) => failed(&step(), error),
            None => Error::Device {
                step: step(),
                reason: "the device was lost by another run; a new run opens it again".to_owned(),
            },
        })
    }

    /// As [`Self::call`], but returns the driver's own error; `None` if this context was lost.
    pub(super) fn attempt<T>(
        &self,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, Option<DriverError>> {
        let current = epoch();
        if *current != self.epoch {
            return Err(None);
        }
        self.enter().and_then(|()| call()).map_err(|error| {
            drop(current);
            lost(self.epoch, error);
            Some(error)
        })
    }

    /// The cublasLt handle in this context, which must be current; `None` if the library is missing
    /// or fails to open.
    pub(super) fn products(&self) -> Option<&cublaslt::Handle> {
        let opened = self.products.get_or_init(|| {
            let opened = cublaslt::Handle::new()?;
            let opened = opened.inspect_err(|reason| {
                tracing::warn!(
                    reason,
                    "cublasLt cannot be opened, so generated functions compute products"
                );
            });
            opened.ok()
        });
        opened.as_ref()
    }

    pub(super) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the context, at most once.
    fn release(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            // SAFETY: the context was retained once, and no call is in progress.
            let _ = unsafe { result::primary_ctx::release(self.ordinal) };
        }
    }
}

/// The step that failed, and the driver's error.
type Failure = (String, DriverError);

/// Ends a context epoch if this error has destroyed its context.
fn lost(epoch: u64, error: DriverError) {
    if is_fatal(error) {
        end(epoch);
    }
}

impl Drop for LoadedContext {
    fn drop(&mut self) {
        // The driver has already freed everything that a lost context held.
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        let _epoch = self.registered.then(epoch);
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        // Errors are ignored: a drop cannot report them, and an earlier call has failed in the same
        // way.
        let _ = self.enter();
        let pool = std::mem::take(
            self.memory
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner),
        );
        if let Some(Some(products)) = self.products.take() {
            products.destroy();
        }
        let used = pool.used.into_keys();
        let recorder = self
            .recorder
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nothing uses the handles and addresses after this; the driver waits for work that
        // still does.
        unsafe {
            for address in used.chain(pool.idle.into_iter().map(|(_, address)| address)) {
                let _ = result::free_sync(address);
            }
            for graph in recorder.graphs.drain(..).filter(|graph| !graph.is_null()) {
                let _ = result::graph::exec_destroy(graph);
            }
            if let Some(module) = self.module {
                let _ = result::module::unload(module);
            }
            for stream in [self.stream, recorder.stream] {
                if !stream.is_null() {
                    let _ = result::stream::destroy(stream);
                }
            }
        }
        self.release();
    }
}
