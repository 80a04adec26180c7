//! Events, which are set when something is done.
//!
//! Most operations are done when their function returns, so they share one static event.

use crate::c_api::*;
use crate::entry::{Object, entries};
use crate::error::Error;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An event, which is set when something is done. Clones are the same event.
#[derive(Clone)]
pub(crate) struct Event(Option<Arc<Pending>>);

impl Object for Event {
    type Handle = PJRT_Event;
    const NAME: &'static str = "event";
}

/// An event that is set, without an error.
static READY: Event = Event(None);

#[derive(Default)]
struct Pending {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    done: Option<Result<(), Error>>,
    callbacks: Vec<Callback>,
}

/// A callback that takes the result.
type Work = Box<dyn FnOnce(&Result<(), Error>) + Send>;

/// A callback for the time when an event is set.
enum Callback {
    /// A callback of a front end.
    Foreign {
        function: unsafe extern "C" fn(*mut PJRT_Error, *mut c_void),
        argument: *mut c_void,
    },
    Own(Work),
}

// SAFETY: front ends that register a callback allow any thread to call it; our own callbacks are
// `Send`.
unsafe impl Send for Callback {}

impl Callback {
    fn call(self, result: &Result<(), Error>) {
        match self {
            Self::Own(work) => work(result),
            Self::Foreign { function, argument } => {
                let error = match result {
                    Ok(()) => std::ptr::null_mut(),
                    Err(error) => error.clone().into_c(),
                };
                // SAFETY: the caller registered the function; it is called once, and takes
                // ownership of the error.
                unsafe { function(error, argument) };
            }
        }
    }
}

impl Pending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Event {
    /// The handle of an event that is set.
    pub(crate) fn ready_handle() -> *mut PJRT_Event {
        (&raw const READY).cast_mut().cast()
    }

    /// An event that is set.
    pub(crate) fn ready() -> Self {
        Self(None)
    }

    /// An event that will be [set](Self::set) later.
    pub(crate) fn pending() -> Self {
        Self(Some(Arc::default()))
    }

    /// An event that is set, with this result.
    pub(crate) fn done(result: &Result<(), Error>) -> Self {
        match result {
            Ok(()) => Self::ready(),
            Err(_) => {
                let event = Self::pending();
                event.set(result);
                event
            }
        }
    }

    /// A handle that the caller destroys.
    pub(crate) fn handle(&self) -> *mut PJRT_Event {
        match self.0 {
            None => Self::ready_handle(),
            Some(_) => self.clone().into_handle(),
        }
    }

    /// Sets the event. Only the first call has an effect.
    pub(crate) fn set(&self, result: &Result<(), Error>) {
        let Some(pending) = &self.0 else { return };
        let mut state = pending.state();
        if state.done.is_some() {
            return;
        }
        state.done = Some(result.clone());
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        pending.changed.notify_all();
        for callback in callbacks {
            callback.call(result);
        }
    }

    /// Whether the event is set, with or without an error.
    pub(crate) fn is_done(&self) -> bool {
        let pending = self.0.as_ref();
        pending.is_none_or(|pending| pending.state().done.is_some())
    }

    /// Calls `work` when the event is set: immediately if it is, otherwise on the thread that sets
    /// it.
    pub(crate) fn then(&self, work: impl FnOnce(&Result<(), Error>) + Send + 'static) {
        self.on_ready(Callback::Own(Box::new(work)));
    }

    /// The result, if the event is set.
    pub(crate) fn result(&self) -> Option<Result<(), Error>> {
        match &self.0 {
            None => Some(Ok(())),
            Some(pending) => pending.state().done.clone(),
        }
    }

    /// Waits until the event is set.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let Some(pending) = &self.0 else {
            return Ok(());
        };
        let mut state = pending.state();
        loop {
            if let Some(done) = &state.done {
                return done.clone();
            }
            let woken = pending.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn on_ready(&self, callback: Callback) {
        let Some(pending) = &self.0 else {
            return callback.call(&Ok(()));
        };
        let mut state = pending.state();
        match state.done.clone() {
            None => state.callbacks.push(callback),
            Some(done) => {
                drop(state);
                callback.call(&done);
            }
        }
    }
}

/// The event for a handle.
///
/// # Safety
/// As [`Object::of`].
unsafe fn event<'a>(handle: *const PJRT_Event) -> Result<&'a Event, Error> {
    // SAFETY: the caller promises that the handle is null, or points to an object of this type that
    // lives for `'a`.
    unsafe { Event::of(handle) }
}

entries! {
    fn PJRT_Event_Destroy(args: PJRT_Event_Destroy_Args) {
        if args.event != Event::ready_handle() {
            // SAFETY: the API requires that the caller owns the event and does not use it again.
            unsafe { Event::destroy(args.event) };
        }
    }
    fn PJRT_Event_IsReady(args: PJRT_Event_IsReady_Args) {
        // SAFETY: the API requires a valid event.
        args.is_ready = unsafe { event(args.event) }?.is_done();
    }
    fn PJRT_Event_Error(args: PJRT_Event_Error_Args) {
        // SAFETY: the API requires a valid event.
        let result = unsafe { event(args.event) }?.result();
        result.unwrap_or_else(|| Err(Error::invalid("the event is not ready")))?;
    }
    fn PJRT_Event_Await(args: PJRT_Event_Await_Args) {
        // SAFETY: the API requires a valid event.
        unsafe { event(args.event) }?.wait()?;
    }
    fn PJRT_Event_OnReady(args: PJRT_Event_OnReady_Args) {
        // SAFETY: the API requires a valid event.
        let event = unsafe { event(args.event) }?;
        let function = args.callback.ok_or_else(|| Error::invalid("the callback is null"))?;
        event.on_ready(Callback::Foreign { function, argument: args.user_arg });
    }
    fn PJRT_Event_Create(args: PJRT_Event_Create_Args) {
        args.event = Event::pending().into_handle();
    }
    fn PJRT_Event_Set(args: PJRT_Event_Set_Args) {
        // SAFETY: the API requires a valid event and a message of that size.
        let (event, error) = unsafe {
            let error = Error::from_c(args.error_code, args.error_message, args.error_message_size);
            (event(args.event)?, error)
        };
        event.set(&match args.error_code {
            PJRT_Error_Code_OK => Ok(()),
            _ => Err(error),
        });
    }
}

/// Events as futures of XLA's foreign function interface. A function makes one while it is called,
/// returns it with its frame, and sets it when its work is done, perhaps on another thread.
impl Event {
    /// A future, which [`Self::wait_raw`] frees.
    pub(crate) fn into_raw(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }

    /// # Safety
    /// Nobody has finished waiting for the future.
    pub(crate) unsafe fn set_raw(future: *mut Self, result: &Result<(), Error>) {
        // SAFETY: the caller promises a future that nobody has finished waiting for.
        let event = unsafe { (*future).clone() };
        event.set(result);
    }

    /// Waits for a future and frees it; null means that the work is done.
    ///
    /// # Safety
    /// The future is from [`Self::into_raw`], or null.
    pub(crate) unsafe fn wait_raw(future: *mut Self) -> Result<(), Error> {
        if future.is_null() {
            return Ok(());
        }
        // SAFETY: the caller promises a pointer from `into_raw`, or null.
        unsafe { Box::from_raw(future) }.wait()
    }
}
