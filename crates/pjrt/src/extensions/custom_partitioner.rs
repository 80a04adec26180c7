//! Custom calls that the front end partitions (`jax.experimental.custom_partitioning`).
//!
//! A front end registers functions for the custom calls of a target, once for the process. When a
//! program for several partitions has such a call, the function `partition` takes the current
//! shardings of the call's arrays, and returns the program of one device with the shardings that it
//! requires. The other functions are not called: Shardy's sharding rule of the call says how
//! shardings are propagated through it.

use super::inspection;
use crate::c_api::*;
use crate::entry::entries;
use crate::error::Error;
use crate::ffi::data_type;
use crate::ffi_api::XLA_FFI_DataType_INVALID;
use crate::pointers::slice;
use crate::protobuf::{put, put_message, put_packed};
use crate::sharding::{from_proto, results_from_proto, results_to_proto, to_proto};
use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock};
use tegula::partition::{CallPartitioner, Calls, CutCall, Sharding, WholeCall};
use tegula_ir::{Dim, Shape};

/// The functions for a target.
#[derive(Clone, Copy)]
struct Callbacks(*mut JAX_CustomCallPartitioner_Callbacks);

// SAFETY: any thread may call the front end's functions, which live as long as the process.
unsafe impl Send for Callbacks {}
// SAFETY: any thread may call the front end's functions, which live as long as the process.
unsafe impl Sync for Callbacks {}

static REGISTERED: RwLock<Option<HashMap<String, Callbacks>>> = RwLock::new(None);

entries! {
    fn PJRT_Register_Custom_Partitioner(args: PJRT_Register_Custom_Partitioner_Args) {
        // SAFETY: the API requires a valid name of the stated number of bytes.
        let name = unsafe { slice(args.name.cast::<u8>(), args.name_size) };
        let name = String::from_utf8_lossy(name).into_owned();
        if args.callbacks.is_null() {
            return Err(Error::invalid(format!("the functions that partition calls of {name} are \
                null")));
        }
        let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        registered.get_or_insert_default().insert(name, Callbacks(args.callbacks));
    }
    /// Registers nothing: a call that can be partitioned along its first dimensions states their
    /// number itself (`num_batch_dims`).
    fn PJRT_Register_Batch_Partitionable(_args: PJRT_Register_Batch_Partitionable_Args) {}
}

/// The registered functions, as a partitioner of custom calls.
pub(crate) fn registered() -> Calls {
    Calls::new(Arc::new(Registered))
}

/// Whether functions are registered for a target.
pub(crate) fn is_custom_partitioned(target: &str) -> bool {
    callbacks(target).is_some()
}

fn callbacks(target: &str) -> Option<Callbacks> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    registered.as_ref()?.get(target).copied()
}

struct Registered;

impl CallPartitioner for Registered {
    fn is_for(&self, target: &str) -> bool {
        is_custom_partitioned(target)
    }

    fn cut(&self, call: &WholeCall<'_>) -> Result<CutCall, String> {
        let callbacks =
            callbacks(call.target).ok_or("no partitioning functions are registered for it")?;
        ask(callbacks, call).map_err(|error| error.message)
    }

    fn inspect(&self, config: &str, sharding: Option<&Sharding>) -> Result<(), String> {
        inspection::answer(config, sharding)
    }
}

/// An array in the form that a front end reads: serialised messages of its shape and its sharding.
type Messages = (Vec<u8>, Vec<u8>);

/// An array with pointers to its messages, which must outlive it.
fn array((shape, sharding): &Messages) -> JAX_CustomCallPartitioner_aval {
    JAX_CustomCallPartitioner_aval {
        shape: text(shape),
        has_sharding: true,
        sharding: text(sharding),
    }
}

fn text(bytes: &[u8]) -> JAX_CustomCallPartitioner_string {
    JAX_CustomCallPartitioner_string {
        data: bytes.as_ptr().cast(),
        size: bytes.len(),
    }
}

const NO_TEXT: JAX_CustomCallPartitioner_string = JAX_CustomCallPartitioner_string {
    data: ptr::null(),
    size: 0,
};

/// Calls the front end's `partition`.
fn ask(callbacks: Callbacks, call: &WholeCall<'_>) -> Result<CutCall, Error> {
    // SAFETY: registered functions live as long as the process.
    let partition = unsafe { (*callbacks.0).partition };
    let partition =
        partition.ok_or_else(|| Error::invalid("no partitioning function is registered for it"))?;
    let arrays = call.operands.iter().chain(&call.results);
    let devices = arrays.map(|(_, own)| own.devices()).max().unwrap_or(1);
    let operands: Result<Vec<Messages>, Error> = call
        .operands
        .iter()
        .map(|(shape, own)| Ok((shape_to_proto(shape)?, to_proto(own, None))))
        .collect();
    let operands = operands?;
    let mut op_args: Vec<_> = operands.iter().map(array).collect();
    let shardings: Vec<&Sharding> = call.results.iter().map(|(_, own)| own).collect();
    let result = (results_shape(&call.results)?, results_to_proto(&shardings));
    let mut args = JAX_CustomCallPartitioner_Partition_Args {
        header: JAX_CustomCallPartitioner_version_and_error {
            api_version: 0,
            data: ptr::null_mut(),
            cleanup_fn: None,
            has_error: false,
            code: 0 as PJRT_Error_Code,
            error_msg: NO_TEXT,
        },
        num_args: op_args.len(),
        op_args: op_args.as_mut_ptr(),
        op_result: array(&result),
        backend_config: text(call.config.as_bytes()),
        mlir_module: NO_TEXT,
        args_sharding: ptr::null_mut(),
        result_sharding: NO_TEXT,
    };
    // SAFETY: the function was registered with these callbacks, and `args` is as the API requires.
    unsafe { partition(callbacks.0, &raw mut args) };
    let ranks = |pairs: &[(Shape, Sharding)]| -> Vec<usize> {
        let rank = |(shape, _): &(Shape, Sharding)| {
            shape.as_array().map_or(0, tegula_ir::ArrayShape::rank)
        };
        pairs.iter().map(rank).collect()
    };
    // SAFETY: the function has written valid results, which live until they are cleaned up.
    let cut = unsafe {
        read(
            &args,
            &ranks(&call.operands),
            &ranks(&call.results),
            devices,
        )
    };
    if let Some(clean_up) = args.header.cleanup_fn {
        // SAFETY: the results of the function are not used any more.
        unsafe { clean_up(args.header.data) };
    }
    cut
}

/// Reads the results that the front end has written.
///
/// # Safety
/// All pointers are valid, as the API requires.
unsafe fn read(
    args: &JAX_CustomCallPartitioner_Partition_Args,
    operands: &[usize],
    results: &[usize],
    devices: usize,
) -> Result<CutCall, Error> {
    // SAFETY: the caller promises that texts are valid.
    let bytes = |text: JAX_CustomCallPartitioner_string| unsafe {
        slice(text.data.cast::<u8>(), text.size)
    };
    if args.header.has_error {
        let said = args.header.error_msg;
        // SAFETY: the caller promises that the message is valid.
        return Err(unsafe { Error::from_c(args.header.code, said.data, said.size) });
    }
    // SAFETY: the caller promises as many shardings as operands.
    let shardings = unsafe { slice(args.args_sharding, args.num_args) };
    let shardings = shardings.iter().zip(operands);
    let shardings: Result<Vec<Sharding>, Error> = shardings
        .map(|(text, rank)| from_proto(bytes(*text), *rank, devices))
        .collect();
    let program = tegula::Module::from_bytes(bytes(args.mlir_module).to_vec())?;
    Ok(CutCall {
        program: program.into_program(),
        operands: shardings?,
        results: results_from_proto(bytes(args.result_sharding), results, devices)?,
    })
}

/// Writes an `xla.ShapeProto` of an array or a token: field 2 is the element type, 3 the sizes.
///
/// # Errors
/// Open sizes, or an element type that XLA does not have.
fn shape_to_proto(shape: &Shape) -> Result<Vec<u8>, Error> {
    /// The number of a token's type.
    const TOKEN: u8 = 17;
    let Some(array) = shape.as_array() else {
        return Ok(vec![2 << 3, TOKEN]);
    };
    // XLA's foreign function interface uses the same numbers of types as its shapes.
    let number = data_type(array.element_type);
    let sizes: Option<Vec<i64>> = array.dims.iter().map(Dim::as_static).collect();
    let Some(sizes) = sizes.filter(|_| number != XLA_FFI_DataType_INVALID) else {
        let what = "expected an array of known sizes and of a type that XLA's shapes have";
        return Err(Error::invalid(format!("{what}, found {shape}")));
    };
    let mut bytes = vec![2 << 3];
    put(&mut bytes, number as u64);
    if !sizes.is_empty() {
        put_packed(&mut bytes, 3, &sizes);
    }
    Ok(bytes)
}

/// Writes an `xla.ShapeProto` of the result: of an array, or of a tuple (field 2 is its type, 4 its
/// elements).
///
/// # Errors
/// As [`shape_to_proto`].
fn results_shape(results: &[(Shape, Sharding)]) -> Result<Vec<u8>, Error> {
    /// The number of a tuple's type.
    const TUPLE: u8 = 13;
    if let [(shape, _)] = results {
        return shape_to_proto(shape);
    }
    let mut bytes = vec![2 << 3, TUPLE];
    for (shape, _) in results {
        put_message(&mut bytes, 4, &shape_to_proto(shape)?);
    }
    Ok(bytes)
}
