//! The registry of functions by name, and the custom calls that use them.

pub(super) mod call;
mod host;

use super::attributes::Attributes;
use crate::c_api::{
    PJRT_FFI_Register_Handler_Args, PJRT_FFI_Type_Register_Args, PJRT_FFI_UserData_Add_Args,
};
use crate::context::{self, Context};
use crate::entry::{Object, entries};
use crate::error::Error;
use crate::ffi_api::*;
use crate::pointers::slice;
use call::{Memory, Stage, call, metadata};
use host::{States, TYPES};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tegula::{ArrayShape, CustomCall, Literal, Tensor};
use tegula_custom_call::CustomCallHandler;

/// A function with its stages.
struct Handler {
    bundle: XLA_FFI_Handler_Bundle,
    /// The instances that were created for attributes, by the attributes' text.
    instances: Mutex<HashMap<String, Arc<Instance>>>,
}

/// A function instantiated with attributes.
struct Instance {
    attributes: Attributes,
    states: Mutex<States>,
}

static HANDLERS: LazyLock<Mutex<HashMap<String, Arc<Handler>>>> = LazyLock::new(Mutex::default);

fn handler(name: &str) -> Option<Arc<Handler>> {
    let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    handlers.get(name).cloned()
}

/// Registers a function under a name. It replaces an older function with this name.
///
/// # Errors
/// The function has no execute stage, or uses another version of the interface.
pub(crate) fn register(name: &str, bundle: XLA_FFI_Handler_Bundle) -> Result<(), Error> {
    let execute = bundle.execute;
    let execute = execute
        .ok_or_else(|| Error::invalid(format!("{name} has no handler for the execute stage")))?;
    let (major, minor) = metadata(execute)?;
    if major != XLA_FFI_API_MAJOR || minor > XLA_FFI_API_MINOR {
        return Err(Error::invalid(format!(
            "{name} was built for version {major}.{minor} of XLA's foreign function interface, \
             this is {XLA_FFI_API_MAJOR}.{XLA_FFI_API_MINOR}"
        )));
    }
    let handler = Arc::new(Handler {
        bundle,
        instances: Mutex::default(),
    });
    let mut handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = handlers.insert(name.to_owned(), handler).is_none();
    drop(handlers);
    if is_new {
        let own = name.to_owned();
        let work = move |call: &CustomCall, operands: &[Literal], results: &[ArrayShape]| {
            run(&own, call, operands, results)
        };
        // Names that need no registration, such as LAPACK's, keep their meaning.
        if !is_known(name) {
            let _ = tegula::register_custom_call(name, work);
        }
    }
    Ok(())
}

/// Whether calls of this name can be executed already.
fn is_known(name: &str) -> bool {
    let call = CustomCall {
        target: name.into(),
        operand_layouts: None,
        has_side_effect: false,
        api_version: None,
        called: Vec::new(),
        aliasing: Vec::new(),
        extra: Vec::new(),
    };
    CustomCallHandler::of(&call).is_ok()
}

/// The text of a call's configuration.
pub(crate) fn configuration(call: &CustomCall) -> &str {
    let config = call
        .extra
        .iter()
        .rev()
        .find(|(name, _)| &**name == "backend_config");
    config.map_or("", |(_, text)| text)
}

fn run(
    name: &str,
    custom: &CustomCall,
    operands: &[Literal],
    shapes: &[ArrayShape],
) -> Result<Vec<Literal>, String> {
    let handler = handler(name).ok_or_else(|| format!("{name} is not registered"))?;
    let orders = custom.orders().unwrap_or_default();
    let ordered = ordered(operands, &orders)?;
    let mut memory = Memory::of(custom, &ordered, shapes)?;
    let ran = handler
        .instance(configuration(custom))
        .and_then(|instance| handler.execute(&instance, &mut memory));
    ran.map_err(|error| {
        let message = error.message.clone();
        context::fail(error);
        message
    })?;
    row_major(
        memory.results,
        orders.get(operands.len()..).unwrap_or_default(),
    )
}

/// Converts arrays to other dimension orders in memory, the fastest-varying dimension first. Their
/// shapes stay the same, as C functions expect. Arrays without an order stay row-major.
fn ordered<'a>(arrays: &'a [Literal], orders: &[Vec<usize>]) -> Result<Cow<'a, [Literal]>, String> {
    if orders.is_empty() {
        return Ok(Cow::Borrowed(arrays));
    }
    let mut made = arrays.to_vec();
    for (array, order) in made.iter_mut().zip(orders) {
        let order: Vec<usize> = order.iter().rev().copied().collect();
        let shape = array.shape().clone();
        let stored = Tensor::from(array.clone()).reordered(&order);
        let stored = stored.map_err(|error| error.message)?.stored().clone();
        *array = stored
            .reinterpret(&shape)
            .map_err(|error| error.to_string())?;
    }
    Ok(Cow::Owned(made))
}

/// The reverse of [`ordered`].
fn row_major(arrays: Vec<Literal>, orders: &[Vec<usize>]) -> Result<Vec<Literal>, String> {
    let mut arrays = arrays;
    for (array, order) in arrays.iter_mut().zip(orders) {
        let order: Vec<usize> = order.iter().rev().copied().collect();
        let mut stored = array.shape().clone();
        let dims = order
            .iter()
            .filter_map(|&dim| array.shape().dims.get(dim).cloned());
        stored.dims = dims.collect();
        let stored = array
            .clone()
            .reinterpret(&stored)
            .map_err(|error| error.to_string())?;
        let tensor = Tensor::from_stored(stored, &order).map_err(|error| error.message)?;
        *array = tensor.into_literal();
    }
    Ok(arrays)
}

impl Handler {
    fn instance(&self, configuration: &str) -> Result<Arc<Instance>, Error> {
        let mut instances = self
            .instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = instances.get(configuration) {
            return Ok(Arc::clone(known));
        }
        let attributes = Attributes::read(configuration).map_err(Error::invalid)?;
        let instance = Instance {
            attributes,
            states: Mutex::default(),
        };
        if let Some(function) = self.bundle.instantiate {
            let number = XLA_FFI_ExecutionStage_INSTANTIATE;
            let stage = Stage { function, number };
            let memory = &mut Memory::default();
            call(&stage, memory, &instance.attributes, &instance.states)?;
        }
        let instance = Arc::new(instance);
        instances.insert(configuration.to_owned(), Arc::clone(&instance));
        Ok(instance)
    }

    fn execute(&self, instance: &Instance, memory: &mut Memory<'_>) -> Result<(), Error> {
        let stages = [
            (self.bundle.prepare, XLA_FFI_ExecutionStage_PREPARE),
            (self.bundle.initialize, XLA_FFI_ExecutionStage_INITIALIZE),
            (self.bundle.execute, XLA_FFI_ExecutionStage_EXECUTE),
        ];
        for (function, number) in stages {
            if let Some(function) = function {
                let stage = Stage { function, number };
                call(&stage, memory, &instance.attributes, &instance.states)?;
            }
        }
        Ok(())
    }
}

/// Registers a function with several stages, all of which may be null except for the execute stage.
/// On failure, a zero-terminated message is written to `error`. Returns 0 on success.
///
/// # Safety
/// The name has `name_size` bytes, the handlers are those of XLA's foreign function interface, and
/// `error` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_ffi_register(
    name: *const c_char,
    name_size: usize,
    bundle: *const XLA_FFI_Handler_Bundle,
    error: *mut c_char,
    room: usize,
) -> i32 {
    let work = std::panic::AssertUnwindSafe(|| {
        // SAFETY: the caller promises a name of the stated number of bytes, handlers of XLA's
        // foreign function interface, and room for `room` bytes.
        let (name, bundle) = unsafe { (slice(name.cast::<u8>(), name_size), *bundle) };
        register(&String::from_utf8_lossy(name), bundle)
    });
    let result = std::panic::catch_unwind(work);
    let result = result.unwrap_or_else(|panic| Err(Error::of_panic(&*panic)));
    // SAFETY: the caller promises a name of the stated number of bytes, handlers of XLA's foreign
    // function interface, and room for `room` bytes.
    unsafe { Error::report(result, error, room) }
}

entries! {
    fn PJRT_FFI_Type_Register(args: PJRT_FFI_Type_Register_Args) {
        // SAFETY: the API requires a valid name and optional information.
        let (name, deleter) = unsafe {
            let name = slice(args.type_name.cast::<u8>(), args.type_name_size);
            let deleter = args.type_info.as_ref().and_then(|info| info.deleter);
            (String::from_utf8_lossy(name), deleter)
        };
        args.type_id = TYPES.register(&name, args.type_id, deleter)?;
    }
    fn PJRT_FFI_UserData_Add(args: PJRT_FFI_UserData_Add_Args) {
        // SAFETY: the API requires a valid context.
        let context = unsafe { Context::of(args.context) }?;
        context.add(args.user_data.type_id, args.user_data.data)?;
    }
    fn PJRT_FFI_Register_Handler(args: PJRT_FFI_Register_Handler_Args) {
        // SAFETY: the API requires a valid name and a handler.
        let (name, execute) = unsafe {
            let name = slice(args.target_name.cast::<u8>(), args.target_name_size);
            let handler: Option<crate::ffi_api::Entry<XLA_FFI_CallFrame>> =
                std::mem::transmute::<*mut c_void, _>(args.handler);
            (String::from_utf8_lossy(name), handler)
        };
        register(&name, XLA_FFI_Handler_Bundle {
            instantiate: None,
            prepare: None,
            initialize: None,
            execute,
            record: None,
        })?;
    }
}
