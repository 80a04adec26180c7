//! Calls of Python functions from programs.
//!
//! This library does not depend on Python. The host that loads it into a Python process provides a
//! function that calls Python functions ([`tegula_python_set_callback`]); the Python functions
//! themselves are passed with each execution.

use super::attributes::Attributes;
use super::register::call::Memory;
use super::register::configuration;
use crate::context;
use crate::error::{Code, Error};
use crate::ffi_api::XLA_FFI_Buffer;
use crate::pointers::slice;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use tegula::{ArrayShape, CustomCall, Literal};

/// The target names in JAX's lowerings for Python functions that return arrays.
const TARGETS: [&str; 2] = [
    "xla_ffi_python_cpu_callback",
    "xla_ffi_partitioned_python_cpu_callback",
];
/// The target name for Python functions that write to the memory of the results.
const IN_PLACE: &str = "xla_buffer_python_cpu_callback";

/// The type number of the data that holds an execution's Python functions.
const FUNCTIONS: i64 = 7_357_244_197_867_843_242;

/// The data of that type.
#[repr(C)]
struct Functions {
    objects: *const *mut c_void,
    count: u32,
}

/// Calls a Python function (an object) with operands and results. If `in_place` is not 0, the
/// function writes the results itself. On failure, a zero-terminated message is written to `error`.
/// Returns 0 on success.
pub type Caller = unsafe extern "C" fn(
    function: *mut c_void,
    in_place: i32,
    operands: *const XLA_FFI_Buffer,
    operand_count: usize,
    results: *const XLA_FFI_Buffer,
    result_count: usize,
    error: *mut c_char,
    room: usize,
) -> i32;

static CALLER: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Sets the function that calls Python functions. The first call registers the target names.
///
/// # Safety
/// The function lives as long as the process, and any thread may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_python_set_callback(caller: Option<Caller>) {
    let caller = caller.map_or(std::ptr::null_mut(), |caller| caller as *mut c_void);
    let before = CALLER.swap(caller, Ordering::AcqRel);
    if before.is_null() {
        for target in TARGETS.into_iter().chain([IN_PLACE]) {
            // A handler that was registered earlier takes precedence.
            let _ = tegula::register_custom_call(target, run);
        }
    }
}

fn run(
    call: &CustomCall,
    operands: &[Literal],
    shapes: &[ArrayShape],
) -> Result<Vec<Literal>, String> {
    let caller = CALLER.load(Ordering::Acquire);
    if caller.is_null() {
        return Err("this process has no Python".to_owned());
    }
    // SAFETY: only functions of this type are stored.
    let caller = unsafe { std::mem::transmute::<*mut c_void, Caller>(caller) };
    let index = Attributes::integer(configuration(call), "index");
    let function = index.and_then(function);
    let function = function.ok_or("the execution does not have the Python function")?;
    let mut memory = Memory::of(call, operands, shapes)?;
    let [inputs, outputs] = memory.arrays();
    let in_place = *call.target == *IN_PLACE;
    let mut message = [0_u8; 16 << 10];
    // SAFETY: the front end keeps the Python function alive during the execution, and the arrays
    // are valid.
    let failed = unsafe {
        caller(
            function,
            i32::from(in_place),
            inputs.buffers.as_ptr(),
            inputs.buffers.len(),
            outputs.buffers.as_ptr(),
            outputs.buffers.len(),
            message.as_mut_ptr().cast(),
            message.len(),
        )
    };
    if failed != 0 {
        let end = message.iter().position(|&byte| byte == 0);
        let message = String::from_utf8_lossy(&message[..end.unwrap_or(message.len())]);
        let message = format!("CpuCallback error calling callback: {message}");
        context::fail(Error::new(Code::Internal, message.clone()));
        return Err(message);
    }
    Ok(memory.results)
}

/// A Python function of this execution.
fn function(index: i64) -> Option<*mut c_void> {
    let data = context::current(|context| context.get(FUNCTIONS)).flatten()?;
    // SAFETY: data of this type is such a list, which lives during the execution.
    let functions = unsafe {
        let functions = data.cast::<Functions>().as_ref()?;
        slice(functions.objects, functions.count as usize)
    };
    functions.get(usize::try_from(index).ok()?).copied()
}
