//! A run on the GPU: the driver's implementation of [`Session`].

use super::loaded_context::{LoadedContext, Pool};
use crate::device::{Choice, Launch, Product, Recording, Session};
use crate::error::Error;
use crate::library::matrices::Matrices;
use cudarc::driver::{DriverError, result, sys};
use std::ffi::c_void;
use std::sync::Arc;

/// The most idle allocations to keep.
const MAX_IDLE: usize = 8;

/// A loaded context, and the stream that receives the work.
pub(super) struct Opened {
    loaded: Arc<LoadedContext>,
    stream: sys::CUstream,
}

impl Opened {
    pub(super) fn new(loaded: Arc<LoadedContext>) -> Self {
        let stream = loaded.stream;
        Self { loaded, stream }
    }

    fn call<T>(
        &self,
        step: &str,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, Error> {
        self.loaded.call(&|| step.to_owned(), call)
    }

    /// Allocates from the driver. If that fails, frees the idle allocations and tries again.
    fn fresh(&self, bytes: u64) -> Result<u64, Error> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        let full = |error: &DriverError| error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        // SAFETY: no uninitialised memory is read, which the plan's verifier has checked.
        let ask = || unsafe { result::malloc_sync(size) };
        let given = self.loaded.attempt(|| {
            ask().or_else(|error| match full(&error) {
                true => {
                    release_idle(&mut self.loaded.pool());
                    ask()
                }
                false => Err(error),
            })
        });
        match given {
            Err(Some(error)) if full(&error) => Err(Error::OutOfMemory {
                needed: bytes,
                reason: match self.loaded.attempt(result::mem_get_info) {
                    Ok((free, total)) => format!("{free} of its {total} bytes are free"),
                    Err(_) => "it is out of memory".to_owned(),
                },
            }),
            Ok(address) => Ok(address),
            Err(error) => self.call("allocating memory", || match error {
                Some(error) => Err(error),
                None => Ok(0),
            }),
        }
    }
}

/// Frees all idle allocations.
fn release_idle(pool: &mut Pool) {
    for (_, address) in pool.idle.drain(..) {
        // SAFETY: the driver returned the address, and no run uses it; the driver waits for work
        // that still does.
        let _ = unsafe { result::free_sync(address) };
    }
}

impl Session for Opened {
    fn context_epoch(&self) -> u64 {
        self.loaded.epoch
    }

    fn allocate(&self, bytes: u64) -> Result<u64, Error> {
        let kept = {
            let mut pool = self.loaded.pool();
            // Leave allocations that are more than twice as large to other runs.
            let fits = |&(size, _): &(u64, u64)| size >= bytes && size / 2 <= bytes;
            let place = pool.idle.iter().position(fits);
            place.map(|place| pool.idle.remove(place))
        };
        let (size, address) = match kept {
            Some(kept) => kept,
            None => (bytes, self.fresh(bytes)?),
        };
        self.loaded.pool().used.insert(address, size);
        Ok(address)
    }

    fn free(&self, address: u64) {
        let mut pool = self.loaded.pool();
        let Some(size) = pool.used.remove(&address) else {
            return;
        };
        pool.idle.push((size, address));
        let oldest = (pool.idle.len() > MAX_IDLE).then(|| pool.idle.remove(0));
        drop(pool);
        if let Some((_, address)) = oldest {
            // SAFETY: the driver returned the address, and no run uses it any more. In a lost
            // context, `call` frees nothing.
            let _ = self.call("freeing memory", || unsafe { result::free_sync(address) });
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        // SAFETY: the range is part of an allocation. The driver copies pageable memory to a
        // staging buffer before the call returns, so `bytes` may change afterwards.
        self.call("copying to the GPU", || unsafe {
            result::memcpy_htod_async(address, bytes, self.stream)
        })
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the range is part of an allocation, and the synchronisation keeps `bytes`
        // borrowed until the copy is done.
        self.call("copying from the GPU", || unsafe {
            result::memcpy_dtoh_async(bytes, address, self.stream)?;
            result::stream::synchronize(self.stream)
        })
    }

    fn wait(&self) -> Result<(), Error> {
        // SAFETY: the stream lives as long as the loaded context.
        self.call("waiting for the GPU", || unsafe {
            result::stream::synchronize(self.stream)
        })
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), Error> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: both ranges are part of an allocation.
        self.call("copying on the GPU", || unsafe {
            result::memcpy_dtod_async(to, from, bytes, self.stream)
        })
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let step = || format!("launching `{}`", launch.name);
        let function = self.loaded.functions.get(launch.function).copied();
        let function = function.ok_or_else(|| Error::Bug(step()))?;
        let mut parameters: smallvec::SmallVec<[*mut c_void; 16]> = launch
            .arguments
            .iter()
            .map(|argument| std::ptr::from_ref(argument).cast_mut().cast())
            .collect();
        let [x, y, z] = launch.grid;
        let [tx, ty, tz] = launch.block;
        // SAFETY: see the module's text; every parameter has eight bytes.
        self.loaded.call(&step, || unsafe {
            result::launch_kernel(
                function,
                (x, y, z),
                (tx, ty, tz),
                0,
                self.stream,
                &mut parameters,
            )
        })
    }

    fn choose(&self, matrices: &Matrices, alignment: [u32; 5]) -> Result<Option<Choice>, Error> {
        self.call("asking cublasLt for a product", || {
            let library = self.loaded.products();
            Ok(library.and_then(|library| library.choose(matrices, alignment)))
        })
    }

    fn multiply(&self, product: &Product<'_>) -> Result<(), Error> {
        let step = || format!("a product of matrices, {}", product.matrices);
        let done = self.loaded.call(&step, || {
            let library = self.loaded.products();
            let library = library.ok_or_else(|| "cublasLt cannot be opened".to_owned());
            Ok(library.and_then(|library| library.multiply(product, self.stream)))
        })?;
        done.map_err(|reason| Error::Device {
            step: step(),
            reason,
        })
    }

    fn record(&self, work: &mut dyn FnMut(&dyn Session) -> Result<(), Error>) -> Option<Recording> {
        let mut recorder = self.loaded.recorder();
        let recording = Self {
            loaded: Arc::clone(&self.loaded),
            stream: recorder.stream,
        };
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as the loaded context, and is used by nobody else while
        // the recorder is held.
        let begun = self.call("recording", || unsafe {
            result::stream::begin_capture(recorder.stream, mode)
        });
        begun.ok()?;
        let done = work(&recording);
        let graph = self.call("recording", || {
            // SAFETY: the stream lives as long as the loaded context, and nobody else uses it
            // while the recorder is locked. The graph is destroyed here, and the recorder owns its
            // executable form.
            unsafe {
                let graph = result::stream::end_capture(recorder.stream)?;
                let made = match done {
                    Ok(()) => result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)),
                    Err(_) => Ok(std::ptr::null_mut()),
                };
                let _ = result::graph::destroy(graph);
                made
            }
        });
        // If recording failed, the caller executes the work, which reports the actual error.
        let graph = graph.ok().filter(|graph| !graph.is_null())?;
        recorder.graphs.push(graph);
        Some(Recording(recorder.graphs.len() - 1))
    }

    fn replay(&self, Recording(number): Recording) -> Result<(), Error> {
        let graph = self.loaded.recorder().graphs.get(number).copied();
        let graph = graph.filter(|graph| !graph.is_null());
        let graph = graph.ok_or_else(|| Error::Bug("no graph is being recorded".to_owned()))?;
        // SAFETY: the graph belongs to this loaded context and was not freed.
        self.call("launching the recorded graph", || unsafe {
            result::graph::launch(graph, self.stream)
        })
    }

    fn forget(&self, Recording(number): Recording) {
        let mut recorder = self.loaded.recorder();
        let Some(graph) = recorder.graphs.get_mut(number) else {
            return;
        };
        let graph = std::mem::replace(graph, std::ptr::null_mut());
        if !graph.is_null() {
            // SAFETY: nobody uses the graph after this; the driver waits for work that still does.
            // A lost context has already freed it.
            let _ = self.call("forgetting", || unsafe {
                result::graph::exec_destroy(graph)
            });
        }
    }
}
