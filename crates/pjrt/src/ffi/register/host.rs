//! The table of functions that a called function may use, as XLA provides it.

use crate::c_api::CStruct;
use crate::context;
use crate::error::{Code, Error};
use crate::ffi_api::*;
use crate::pointers::slice;
use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The objects that live during one call of a function: memory that it allocated, and its state.
pub(crate) struct Invocation<'a> {
    pub(crate) states: &'a Mutex<States>,
    allocations: Mutex<HashMap<usize, Layout>>,
}

/// The state that functions keep for each stage: the number of its type, and the object.
#[derive(Default)]
pub(crate) struct States(HashMap<XLA_FFI_ExecutionStage, (i64, *mut c_void)>);

// SAFETY: states are objects of functions that any thread may call.
unsafe impl Send for States {}

impl Drop for States {
    fn drop(&mut self) {
        for (_, (kind, object)) in self.0.drain() {
            if let Some(delete) = TYPES.deleter(kind) {
                // SAFETY: the function registered this deleter for objects of this type.
                unsafe { delete(object) };
            }
        }
    }
}

impl<'a> Invocation<'a> {
    pub(crate) fn new(states: &'a Mutex<States>) -> Self {
        Self {
            states,
            allocations: Mutex::default(),
        }
    }
}

impl Drop for Invocation<'_> {
    fn drop(&mut self) {
        let allocations = self.allocations.get_mut();
        for (address, layout) in allocations.unwrap_or_else(PoisonError::into_inner).drain() {
            let memory = ptr::with_exposed_provenance_mut::<u8>(address);
            // SAFETY: the memory was allocated with this layout, and is not freed yet.
            unsafe { std::alloc::dealloc(memory, layout) };
        }
    }
}

/// The types that functions have registered.
pub(crate) struct Types(Mutex<Vec<(String, i64, Deleter)>>);

type Deleter = Option<unsafe extern "C" fn(*mut c_void)>;

pub(crate) static TYPES: Types = Types(Mutex::new(Vec::new()));

impl Types {
    /// The number of a type; a new one if `number` is zero and the name is new.
    pub(crate) fn register(&self, name: &str, number: i64, deleter: Deleter) -> Result<i64, Error> {
        let mut types = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known, known_deleter)) = types.iter_mut().find(|(n, ..)| n == name) {
            if number != 0 && number != *known {
                let message = format!("the type {name} has the number {known}, not {number}");
                return Err(Error::invalid(message));
            }
            *known_deleter = known_deleter.or(deleter);
            return Ok(*known);
        }
        // Numbers that callers choose are hashes, so small numbers are free for our own.
        let number = if number == 0 {
            types.len() as i64 + 1
        } else {
            number
        };
        types.push((name.to_owned(), number, deleter));
        Ok(number)
    }

    fn deleter(&self, number: i64) -> Deleter {
        let types = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        types.iter().find(|(_, known, _)| *known == number)?.2
    }
}

/// An error that a function creates or receives.
pub(crate) struct Failure {
    pub(crate) code: XLA_FFI_Error_Code,
    pub(crate) message: CString,
}

fn fail(code: XLA_FFI_Error_Code, message: &str) -> *mut XLA_FFI_Error {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    Box::into_raw(Box::new(Failure { code, message })).cast()
}

/// Takes ownership of an error from a function.
///
/// # Safety
/// The error was created by our table, or is null.
pub(crate) unsafe fn taken(error: *mut XLA_FFI_Error) -> Result<(), Error> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the caller promises an error that our table made, or null.
    let failure = unsafe { Box::from_raw(error.cast::<Failure>()) };
    let message = failure.message.to_string_lossy().into_owned();
    Err(Error::new(Code::Other(failure.code), message))
}

struct Table(XLA_FFI_Api);

// SAFETY: the table is never modified.
unsafe impl Sync for Table {}

/// The table that is passed to functions.
pub(crate) fn api() -> *const XLA_FFI_Api {
    &raw const API.0
}

static API: Table = Table(XLA_FFI_Api {
    struct_size: XLA_FFI_Api::SIZE,
    extension_start: ptr::null_mut(),
    api_version: XLA_FFI_Api_Version {
        struct_size: XLA_FFI_Api_Version::SIZE,
        extension_start: ptr::null_mut(),
        major_version: XLA_FFI_API_MAJOR,
        minor_version: XLA_FFI_API_MINOR,
    },
    internal_api: ptr::null(),
    XLA_FFI_Error_Create: Some(error_create),
    XLA_FFI_Error_GetDetails: Some(error_get_details),
    XLA_FFI_Error_Destroy: Some(error_destroy),
    XLA_FFI_Handler_Register: Some(handler_register),
    XLA_FFI_Stream_Get: Some(stream_get),
    XLA_FFI_Type_Register: Some(type_register),
    XLA_FFI_InvokeContext_Get: Some(context_get),
    XLA_FFI_State_Set: Some(state_set),
    XLA_FFI_State_Get: Some(state_get),
    XLA_FFI_DeviceMemory_Allocate: Some(allocate),
    XLA_FFI_DeviceMemory_Free: Some(free),
    XLA_FFI_ThreadPool_Schedule: Some(schedule),
    XLA_FFI_ThreadPool_NumThreads: Some(num_threads),
    XLA_FFI_Future_Create: Some(future_create),
    XLA_FFI_Future_SetAvailable: Some(future_set_available),
    XLA_FFI_Future_SetError: Some(future_set_error),
    XLA_FFI_RunId_Get: Some(run_id_get),
    XLA_FFI_DeviceOrdinal_Get: Some(device_ordinal_get),
    XLA_FFI_InvokeContext_FindExtension: Some(find_extension),
    XLA_FFI_CustomOptions_Get: Some(custom_options_get),
});

/// Defines functions of the table. Their arguments are as the API requires: structs that live
/// during the call, with at least the size that our version has.
macro_rules! functions {
    ($($(#[$meta:meta])* fn $name:ident($args:ident: $type:ty) $body:block)*) => {$(
        $(#[$meta])*
        unsafe extern "C" fn $name(args: *mut $type) -> *mut XLA_FFI_Error {
            let work = std::panic::AssertUnwindSafe(|| -> Result<(), (XLA_FFI_Error_Code, String)> {
                // SAFETY: callers of this function pass such a struct.
                let $args = unsafe { &mut *args };
                $body
                Ok(())
            });
            match std::panic::catch_unwind(work) {
                Ok(Ok(())) => ptr::null_mut(),
                Ok(Err((code, message))) => fail(code, &message),
                Err(_) => fail(XLA_FFI_Error_Code_INTERNAL, "Tegula panicked"),
            }
        }
    )*};
}

fn not_there(what: &str) -> (XLA_FFI_Error_Code, String) {
    (
        XLA_FFI_Error_Code_UNIMPLEMENTED,
        format!("Tegula has no {what}"),
    )
}

/// The call that a context belongs to.
///
/// # Safety
/// The context was passed with a frame, whose call is still in progress.
unsafe fn invocation<'a>(ctx: *mut XLA_FFI_InvokeContext) -> &'a Invocation<'a> {
    // SAFETY: the caller promises a context that was passed with a frame, whose call is still in
    // progress.
    unsafe { &*ctx.cast::<Invocation<'_>>() }
}

unsafe extern "C" fn error_create(args: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    // SAFETY: the API requires a valid message, or null.
    let (code, message) = unsafe {
        let message = match (*args).message.is_null() {
            true => String::new(),
            false => CStr::from_ptr((*args).message)
                .to_string_lossy()
                .into_owned(),
        };
        ((*args).errc, message)
    };
    fail(code, &message)
}

unsafe extern "C" fn error_get_details(args: *mut XLA_FFI_Error_GetDetails_Args) {
    // SAFETY: the API requires an error that our table made.
    unsafe {
        if let Some(failure) = (*args).error.cast::<Failure>().as_ref() {
            (*args).message = failure.message.as_ptr();
            (*args).errc = failure.code;
        }
    }
}

unsafe extern "C" fn error_destroy(args: *mut XLA_FFI_Error_Destroy_Args) {
    // SAFETY: the API requires an error that our table made, or null.
    let _ = unsafe { taken((*args).error) };
}

functions! {
    fn handler_register(args: XLA_FFI_Handler_Register_Args) {
        // SAFETY: the API requires a valid name.
        let name = unsafe { slice(args.name.ptr.cast::<u8>(), args.name.len) };
        let name = String::from_utf8_lossy(name).into_owned();
        super::register(&name, args.bundle)
            .map_err(|error| (XLA_FFI_Error_Code_INVALID_ARGUMENT, error.message))?;
    }
    fn stream_get(args: XLA_FFI_Stream_Get_Args) {
        let _ = args;
        Err(not_there("stream: its device is a CPU"))?;
    }
    fn type_register(args: XLA_FFI_Type_Register_Args) {
        // SAFETY: the API requires a valid name, a number, and optional information.
        let (name, number, deleter) = unsafe {
            let name = slice(args.name.ptr.cast::<u8>(), args.name.len);
            let deleter = args.type_info.as_ref().and_then(|info| info.deleter);
            (String::from_utf8_lossy(name), &mut (*args.type_id).type_id, deleter)
        };
        *number = TYPES.register(&name, *number, deleter)
            .map_err(|error| (XLA_FFI_Error_Code_INVALID_ARGUMENT, error.message))?;
    }
    /// Returns data that the front end passed with the execution.
    fn context_get(args: XLA_FFI_InvokeContext_Get_Args) {
        // SAFETY: the API requires a valid type.
        let kind = unsafe { (*args.type_id).type_id };
        let data = context::current(|context| context.get(kind)).flatten();
        args.data = data.ok_or_else(|| {
            let message = format!("the execution context has no data of type {kind}");
            (XLA_FFI_Error_Code_NOT_FOUND, message)
        })?;
    }
    fn state_set(args: XLA_FFI_State_Set_Args) {
        // SAFETY: the API requires the call's context and a type.
        let (call, kind) = unsafe { (invocation(args.ctx), (*args.type_id).type_id) };
        let mut states = call.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.0.insert(args.stage, (kind, args.state)).is_some() {
            let message = "the state of this stage has already been set".to_owned();
            return Err((XLA_FFI_Error_Code_FAILED_PRECONDITION, message));
        }
    }
    fn state_get(args: XLA_FFI_State_Get_Args) {
        // SAFETY: the API requires the call's context and a type.
        let (call, kind) = unsafe { (invocation(args.ctx), (*args.type_id).type_id) };
        let states = call.states.lock().unwrap_or_else(PoisonError::into_inner);
        let known = states.0.get(&args.stage).filter(|(known, _)| *known == kind);
        let (_, state) = known.ok_or_else(|| {
            let message = format!("this stage has no state of type {kind}");
            (XLA_FFI_Error_Code_NOT_FOUND, message)
        })?;
        args.state = *state;
    }
    fn allocate(args: XLA_FFI_DeviceMemory_Allocate_Args) {
        let layout = Layout::from_size_align(args.size.max(1), args.alignment.max(64))
            .map_err(|error| (XLA_FFI_Error_Code_INVALID_ARGUMENT, error.to_string()))?;
        // SAFETY: the size of the layout is not zero.
        let memory = unsafe { std::alloc::alloc(layout) };
        if memory.is_null() {
            let message = format!("{} bytes of memory cannot be allocated", args.size);
            return Err((XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, message));
        }
        // SAFETY: the API requires the call's context.
        let call = unsafe { invocation(args.ctx) };
        let mut known = call.allocations.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(memory.expose_provenance(), layout);
        args.data = memory.cast();
    }
    fn free(args: XLA_FFI_DeviceMemory_Free_Args) {
        // SAFETY: the API requires the call's context.
        let call = unsafe { invocation(args.ctx) };
        let mut known = call.allocations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = known.remove(&args.data.addr()) {
            // SAFETY: the memory was allocated with this layout, and is freed once.
            unsafe { std::alloc::dealloc(args.data.cast(), layout) };
        }
    }
    /// The task is executed immediately.
    fn schedule(args: XLA_FFI_ThreadPool_Schedule_Args) {
        if !args.task.is_null() {
            // SAFETY: the API requires that it is a function of this type, to be called once.
            unsafe {
                let task: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(args.task);
                task(args.data);
            }
        }
    }
    fn num_threads(args: XLA_FFI_ThreadPool_NumThreads_Args) {
        // SAFETY: the API requires a valid place.
        unsafe { *args.num_threads = 1 };
    }
    fn future_create(args: XLA_FFI_Future_Create_Args) {
        args.future = crate::event::Event::pending().into_raw().cast();
    }
    fn future_set_available(args: XLA_FFI_Future_SetAvailable_Args) {
        // SAFETY: a future that our table made.
        unsafe { crate::event::Event::set_raw(args.future.cast(), &Ok(())) };
    }
    fn future_set_error(args: XLA_FFI_Future_SetError_Args) {
        // SAFETY: a future and an error that our table made.
        unsafe {
            let result = taken(args.error);
            crate::event::Event::set_raw(args.future.cast(), &result);
        }
    }
    fn run_id_get(args: XLA_FFI_RunId_Get_Args) {
        args.run_id = 0;
    }
    fn device_ordinal_get(args: XLA_FFI_DeviceOrdinal_Get_Args) {
        args.device_ordinal = 0;
    }
    fn find_extension(args: XLA_FFI_InvokeContext_FindExtension_Args) {
        args.extension = ptr::null();
    }
    fn custom_options_get(args: XLA_FFI_CustomOptions_Get_Args) {
        let _ = args;
        Err(not_there("custom options"))?;
    }
}
