//! What an execution is given besides its arguments: data of the front end, by type.

use crate::c_api::*;
use crate::entry::{Object, entries};
use crate::error::Error;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// Data of the front end, by the number of its type.
#[derive(Default)]
pub(crate) struct Context {
    data: Mutex<Vec<(i64, *mut c_void)>>,
}

// SAFETY: the data is the front end's, which has handlers use it from any thread.
unsafe impl Send for Context {}
// SAFETY: the data is the front end's, which has handlers use it from any thread.
unsafe impl Sync for Context {}

impl Object for Context {
    type Handle = PJRT_ExecuteContext;
    const NAME: &'static str = "execute context";
}

impl Context {
    /// Adds data of a type.
    ///
    /// # Errors
    /// There is some already.
    pub(crate) fn add(&self, kind: i64, value: *mut c_void) -> Result<(), Error> {
        let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        if data.iter().any(|(known, _)| *known == kind) {
            return Err(Error::invalid(format!(
                "there is data of type {kind} already"
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
    /// Why a custom call of the execution on this thread failed: handlers give texts only.
    static FAILURE: RefCell<Option<Error>> = const { RefCell::new(None) };
    /// Of the execution on this thread, the innermost.
    static CURRENT: Cell<*mut PJRT_ExecuteContext> = const { Cell::new(ptr::null_mut()) };
}

/// Says why a custom call of this thread's execution failed.
pub(crate) fn fail(error: Error) {
    FAILURE.set(Some(error));
}

/// Why a custom call failed since this was last asked.
pub(crate) fn failure() -> Option<Error> {
    FAILURE.take()
}

/// Puts back the context of the execution around this one.
pub(crate) struct Entered(*mut PJRT_ExecuteContext);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Makes a context that of this thread's custom calls, until the result is dropped.
pub(crate) fn enter(context: *mut PJRT_ExecuteContext) -> Entered {
    Entered(CURRENT.replace(context))
}

/// Looks at the context of the execution on this thread, if it has one.
pub(crate) fn current<R>(look: impl FnOnce(&Context) -> R) -> Option<R> {
    // SAFETY: a context lives while its execution runs, which put it there.
    unsafe { Context::of(CURRENT.get()) }.ok().map(look)
}

entries! {
    fn PJRT_ExecuteContext_Create(args: PJRT_ExecuteContext_Create_Args) {
        args.context = Context::default().into_handle();
    }
    fn PJRT_ExecuteContext_Destroy(args: PJRT_ExecuteContext_Destroy_Args) {
        // SAFETY: the header: the caller owns it and does not use it again.
        unsafe { Context::destroy(args.context) };
    }
}
