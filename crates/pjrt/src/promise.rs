//! Promises: arrays that arrive later, because an asynchronous run still computes them, or the host
//! still sends their bytes.
//!
//! Buffers and runs share a *promise*. It has an event that is set when the array arrives or cannot
//! arrive; all results of a run share one event.

use crate::error::Error;
use crate::event::Event;
use std::sync::{Arc, OnceLock};
use tegula::Tensor;

/// An array that arrives later.
pub(crate) struct Promise {
    array: OnceLock<Arc<Tensor>>,
    ready: Event,
}

impl Promise {
    /// A promise whose array has arrived, or cannot arrive, when the event is set.
    pub(crate) fn new(ready: Event) -> Arc<Self> {
        Arc::new(Self {
            array: OnceLock::new(),
            ready,
        })
    }

    /// Stores the array, without setting the event. A second array is ignored.
    pub(crate) fn put(&self, array: Tensor) {
        let _ = self.array.set(Arc::new(array));
    }

    /// Stores the array or the error, and sets the event. This reference to the promise is dropped
    /// before, so that a waiting thread can become the only owner of the array.
    pub(crate) fn fulfil(self: Arc<Self>, array: Result<Tensor, Error>) {
        let result = array.map(|array| self.put(array));
        let ready = self.ready.clone();
        drop(self);
        ready.set(&result);
    }
}

/// An array that exists, or a promise of it.
#[derive(Clone)]
pub(crate) enum Value {
    Here(Arc<Tensor>),
    Promised(Arc<Promise>),
}

impl Value {
    /// The event that is set when the array has arrived or cannot arrive.
    pub(crate) fn ready(&self) -> Event {
        match self {
            Self::Here(_) => Event::ready(),
            Self::Promised(promise) => promise.ready.clone(),
        }
    }

    /// Whether [`Self::wait`] returns at once.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Here(_) => true,
            Self::Promised(promise) => promise.ready.is_done(),
        }
    }

    /// Waits for the array.
    ///
    /// # Errors
    /// The array cannot arrive.
    pub(crate) fn wait(self) -> Result<Arc<Tensor>, Error> {
        let promise = match self {
            Self::Here(array) => return Ok(array),
            Self::Promised(promise) => promise,
        };
        promise.ready.wait()?;
        // The only owner of the promise becomes the only owner of the array, and may write to it.
        let array = match Arc::try_unwrap(promise) {
            Ok(promise) => promise.array.into_inner(),
            Err(shared) => shared.array.get().cloned(),
        };
        array.ok_or_else(|| Error::internal("a promised array is missing"))
    }
}
