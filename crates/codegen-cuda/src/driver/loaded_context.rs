//! A program loaded in the GPU's primary context, from the opening of the context to its end.

use super::{cublaslt, failed, initialise};
use crate::error::Error;
use cudarc::driver::{DriverError, result, sys};
use rustc_hash::FxHashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, Weak};

/// Memory of finished runs is kept for later ones: asking the driver for it takes
/// longer than most kernels. Work is in the order of one stream, so what a run gives
/// back may be written by the next.
#[derive(Default)]
pub(super) struct Pool {
    /// Bytes of each allocation in use, by address.
    pub used: FxHashMap<u64, u64>,
    /// Bytes and addresses of the others.
    pub idle: Vec<(u64, u64)>,
}

/// A program loaded in the primary context of the first GPU.
pub(super) struct LoadedContext {
    /// The context epoch that it belongs to.
    pub epoch: u64,
    ordinal: sys::CUdevice,
    pub context: sys::CUcontext,
    pub stream: sys::CUstream,
    /// Where work is recorded, one piece at a time.
    pub recorder: Mutex<Recorder>,
    /// Absent while the program is being loaded.
    module: Option<sys::CUmodule>,
    pub functions: Vec<sys::CUfunction>,
    pub memory: Mutex<Pool>,
    /// The library of matrix products, opened when a product first asks for it.
    products: OnceLock<Option<cublaslt::Handle>>,
    ended: AtomicBool,
    /// Whether [`end`] knows of it; until then, who begins it holds the epoch.
    registered: bool,
}

/// A stream for recording, and what was recorded.
pub(super) struct Recorder {
    pub stream: sys::CUstream,
    pub graphs: Vec<sys::CUgraphExec>,
}

// SAFETY: the driver's handles may be used by every thread; the context is made
// current before each use.
unsafe impl Send for LoadedContext {}
// SAFETY: the driver's handles may be used by every thread; the context is made current before each
// use.
unsafe impl Sync for LoadedContext {}

/// The current context epoch: contexts lost to a failed kernel belong to earlier ones. Calls of
/// the driver hold the lock; an epoch ends
/// when none is under way.
static EPOCH: RwLock<u64> = RwLock::new(1);
/// All contexts that may still be open.
static LOADED: Mutex<Vec<Weak<LoadedContext>>> = Mutex::new(Vec::new());

/// The device whose primary context this process holds besides its programs. Opening a GPU takes
/// longer than most programs run; without this, a program that follows another opens it again.
static KEPT: Mutex<Option<sys::CUdevice>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<sys::CUdevice>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the primary context, if this process does not yet.
fn keep(ordinal: sys::CUdevice) -> Result<(), DriverError> {
    let mut kept = kept();
    if kept.is_none() {
        // SAFETY: the device was given by the driver; `release_gpu` gives the context back.
        unsafe { result::primary_ctx::retain(ordinal) }?;
        *kept = Some(ordinal);
    }
    Ok(())
}

/// Closes the GPU when the last program that uses it has gone. It stays open otherwise, so that
/// the next program need not open it, which takes some tenths of a second.
pub fn release_gpu() {
    if let Some(ordinal) = kept().take() {
        // SAFETY: the context was retained once by `keep`.
        let _ = unsafe { result::primary_ctx::release(ordinal) };
    }
}

fn epoch() -> RwLockReadGuard<'static, u64> {
    EPOCH.read().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a context is still open.
pub(super) fn is_current(loaded: &LoadedContext) -> bool {
    *epoch() == loaded.epoch
}

/// Errors after which a context answers every call with an error.
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

/// Ends a context epoch. What its contexts hold is released with the primary context, which ends with
/// the last that holds it.
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

    /// Loads a program in this epoch, which does not end meanwhile.
    fn loaded(epoch: u64, code: &[u8], names: &[CString]) -> Result<Arc<Self>, Failure> {
        let at = |step: &str| {
            let step = step.to_owned();
            move |error| (step, error)
        };
        let ordinal = result::device::get(0).map_err(at("looking for a GPU"))?;
        // SAFETY: the device was given by the driver.
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
        loaded.stream = result::stream::create(kind()).map_err(at("making a stream"))?;
        let recorder = result::stream::create(kind()).map_err(at("making a stream"))?;
        loaded.recorder().stream = recorder;
        // SAFETY: what NVRTC has made, with a zero at its end.
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
        // SAFETY: the context is retained until this ends.
        unsafe { result::ctx::set_current(self.context) }
    }

    /// Calls the driver in the context, which stays as long as the call takes.
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

    /// The same, with the driver's error; none if this context was lost.
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

    /// The library of matrix products in the context, which is current; none if there is no
    /// library, or if it does not open.
    pub(super) fn products(&self) -> Option<&cublaslt::Handle> {
        let opened = self.products.get_or_init(|| {
            let opened = cublaslt::Handle::new()?;
            let opened = opened.inspect_err(|reason| {
                tracing::warn!(
                    reason,
                    "cublasLt does not open: generated functions do products"
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

    /// Lets go of the context, once.
    fn release(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            // SAFETY: the context was retained once, and no call is under way.
            let _ = unsafe { result::primary_ctx::release(self.ordinal) };
        }
    }
}

/// What failed, and how.
type Failure = (String, DriverError);

/// Ends a context epoch if this error destroyed the context.
fn lost(epoch: u64, error: DriverError) {
    if is_fatal(error) {
        end(epoch);
    }
}

impl Drop for LoadedContext {
    fn drop(&mut self) {
        // What a lost context held went with its context.
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        let _epoch = self.registered.then(epoch);
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        // What fails here has failed before, and there is nobody to tell.
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
        // SAFETY: nothing uses the handles and addresses after this; the driver waits for
        // work that does.
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
