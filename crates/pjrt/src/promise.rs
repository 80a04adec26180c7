//! Arrays that come later: a run that goes on still computes them, or the host still sends their bytes.
//!
//! What stands for such an array is a *promise*, which buffers and runs share. It has an event, which is
//! set once the array is there or cannot come; the results of one run have one event.

use crate::error::Error;
use crate::event::Event;
use std::sync::{Arc, OnceLock};
use tegula::Tensor;

/// An array that comes later.
pub(crate) struct Promise {
    array: OnceLock<Arc<Tensor>>,
    ready: Event,
}

impl Promise {
    /// A promise whose array is there, or cannot come, once the event is set.
    pub(crate) fn new(ready: Event) -> Arc<Self> {
        Arc::new(Self {
            array: OnceLock::new(),
            ready,
        })
    }

    /// Gives the array. The event is not set yet. A second array is not taken.
    pub(crate) fn put(&self, array: Tensor) {
        let _ = self.array.set(Arc::new(array));
    }

    /// Gives the array, or says why it does not come, and sets the event. The promise is given up before,
    /// so that whoever waits for the array can have it alone.
    pub(crate) fn fulfil(self: Arc<Self>, array: Result<Tensor, Error>) {
        let result = array.map(|array| self.put(array));
        let ready = self.ready.clone();
        drop(self);
        ready.set(&result);
    }
}

/// An array that is there, or promised.
#[derive(Clone)]
pub(crate) enum Value {
    Here(Arc<Tensor>),
    Promised(Arc<Promise>),
}

impl Value {
    /// Set once the array is there, or cannot come.
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
    /// It does not come.
    pub(crate) fn wait(self) -> Result<Arc<Tensor>, Error> {
        let promise = match self {
            Self::Here(array) => return Ok(array),
            Self::Promised(promise) => promise,
        };
        promise.ready.wait()?;
        // Whoever has the promise alone gets the array alone, and may write to it.
        let array = match Arc::try_unwrap(promise) {
            Ok(promise) => promise.array.into_inner(),
            Err(shared) => shared.array.get().cloned(),
        };
        array.ok_or_else(|| Error::internal("a promised array is missing"))
    }
}
