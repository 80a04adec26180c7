//! Execution contexts: data of the front end that is passed to an execution, by type.

use crate::c_api::*;
use crate::entry::{Object, entries};
use crate::error::Error;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The front end's data, by the number of its type.
#[derive(Default)]
pub(crate) struct Context {
    data: Mutex<Vec<(i64, *mut c_void)>>,
}

// SAFETY: the data belongs to the front end, which allows handlers to use it from any thread.
unsafe impl Send for Context {}
// SAFETY: the data belongs to the front end, which allows handlers to use it from any thread.
unsafe impl Sync for Context {}

impl Object for Context {
    type Handle = PJRT_ExecuteContext;
    const NAME: &'static str = "execute context";
}

impl Context {
    /// Adds data of a type.
    ///
    /// # Errors
    /// There is data of this type already.
    pub(crate) fn add(&self, kind: i64, value: *mut c_void) -> Result<(), Error> {
        let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        if data.iter().any(|(known, _)| *known == kind) {
            return Err(Error::invalid(format!(
                "the context already has data of type {kind}"
            )));
        }
        data.push((kind, value));
        Ok(())
    }

    /// The data of a type.
    pub(crate) fn get(&self, kind: i64) -> Option<*mut c_void> {
        let data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        let known = data.iter().find(|(known, _)| *known == kind);
        known.map(|&(_, value)| value)
    }
}

thread_local! {
    /// The error of a custom call in this thread's execution. It is kept here because handlers
    /// return only texts.
    static FAILURE: RefCell<Option<Error>> = const { RefCell::new(None) };
    /// The context of this thread's innermost execution.
    static CURRENT: Cell<*mut PJRT_ExecuteContext> = const { Cell::new(ptr::null_mut()) };
}

/// Records the error of a custom call in this thread's execution.
pub(crate) fn fail(error: Error) {
    FAILURE.set(Some(error));
}

/// Takes the error of a custom call, if one has failed since the last call of this function.
pub(crate) fn failure() -> Option<Error> {
    FAILURE.take()
}

/// Restores the context of the enclosing execution when it is dropped.
pub(crate) struct Entered(*mut PJRT_ExecuteContext);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Sets the context for this thread's custom calls, until the result is dropped.
pub(crate) fn enter(context: *mut PJRT_ExecuteContext) -> Entered {
    Entered(CURRENT.replace(context))
}

/// Calls `look` with the context of this thread's execution, if it has one.
pub(crate) fn current<R>(look: impl FnOnce(&Context) -> R) -> Option<R> {
    // SAFETY: an execution that sets a context keeps it alive while it runs.
    unsafe { Context::of(CURRENT.get()) }.ok().map(look)
}

entries! {
    fn PJRT_ExecuteContext_Create(args: PJRT_ExecuteContext_Create_Args) {
        args.context = Context::default().into_handle();
    }
    fn PJRT_ExecuteContext_Destroy(args: PJRT_ExecuteContext_Destroy_Args) {
        // SAFETY: the API requires that the caller owns it and does not use it again.
        unsafe { Context::destroy(args.context) };
    }
}
