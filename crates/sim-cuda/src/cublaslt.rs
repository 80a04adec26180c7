//! A stand-in for cublasLt: products of column-major matrices, described by layouts, batches,
//! transpositions, a bias and an activation.
//!
//! The requirements in the library's documentation are checked. Violations are refused with the
//! library's status numbers and recorded as findings: attributes of another size, unsupported
//! types, matrices whose sizes do not match, strides that are too small, a missing bias, addresses
//! with less alignment than promised, a workspace that is too small, an algorithm for another
//! product. One violation that the library would not notice is a finding as well: results that
//! overlap operands.
//!
//! Algorithms for deep products need a workspace, all of which they overwrite.

use std::ffi::{c_int, c_void};

use crate::driver::{Driver, Handle, Outcome, exported, put};
use crate::matrix_product::*;
use crate::multiply::*;
use crate::perform::enqueue;
use crate::status::Status;
use crate::work::Work;

/// The length of sums from which an algorithm needs a workspace.
const DEEP: u64 = 256;
/// The first word of an algorithm, which identifies it as ours.
const ALGORITHM: u64 = 0x7465_6775_6c61;
/// `CUBLASLT_ALGO_CONFIG_SPLITK_NUM`: the number of parts into which sums are divided.
const SLICES: u32 = 2;

/// Checks that the library may be called on this thread.
fn within(driver: &Driver) -> Outcome {
    driver.context().map_err(|_| NOT_INITIALIZED)
}

fn library(driver: &Driver, handle: Handle) -> Outcome {
    within(driver)?;
    match driver.described.get(&handle) {
        Some(Described::Library) => Ok(()),
        _ => refuse(driver, NOT_INITIALIZED, "unknown handle"),
    }
}

fn operation(driver: &Driver, handle: Handle) -> Result<Operation, Status> {
    match driver.described.get(&handle) {
        Some(Described::Operation(operation)) => Ok(operation.clone()),
        _ => refuse(driver, INVALID_VALUE, "unknown matmul descriptor"),
    }
}

fn layouts(driver: &Driver, handles: [Handle; 4]) -> Result<[Layout; 4], Status> {
    let layout = |handle: Handle| match driver.described.get(&handle) {
        Some(Described::Layout(layout)) => Ok(*layout),
        _ => refuse(driver, INVALID_VALUE, "unknown matrix layout"),
    };
    let [a, b, c, d] = handles;
    Ok([layout(a)?, layout(b)?, layout(c)?, layout(d)?])
}

fn create(driver: &mut Driver, to: *mut Handle, described: Described) -> Outcome {
    let handle = driver.handle();
    driver.described.insert(handle, described);
    // SAFETY: the host passes a place for a handle.
    unsafe { put(to, handle) }.map_err(|_| INVALID_VALUE)
}

fn destroy(driver: &mut Driver, handle: Handle, is_it: fn(&Described) -> bool) -> Outcome {
    match driver.described.get(&handle) {
        Some(described) if is_it(described) => {
            driver.described.remove(&handle);
            Ok(())
        }
        _ => refuse(
            driver,
            INVALID_VALUE,
            "the object to destroy does not exist",
        ),
    }
}

/// The value of an attribute: the host's size must be that of `T`, as the header states.
fn attribute<T: Copy>(driver: &Driver, from: *const c_void, bytes: usize) -> Result<T, Status> {
    if from.is_null() || bytes != size_of::<T>() {
        return refuse(driver, INVALID_VALUE, "the attribute has the wrong size");
    }
    // SAFETY: the host passes `bytes` bytes, which are a number.
    Ok(unsafe { from.cast::<T>().read_unaligned() })
}

fn set(
    driver: &mut Driver,
    handle: Handle,
    number: u32,
    from: *const c_void,
    bytes: usize,
) -> Outcome {
    let Some(mut described) = driver.described.remove(&handle) else {
        return refuse(driver, INVALID_VALUE, "the described object does not exist");
    };
    let outcome = set_one(driver, &mut described, number, from, bytes);
    driver.described.insert(handle, described);
    outcome
}

fn set_one(
    driver: &Driver,
    described: &mut Described,
    number: u32,
    from: *const c_void,
    bytes: usize,
) -> Outcome {
    match (described, number) {
        (Described::Operation(operation), 3 | 4) => {
            operation.transposed[number as usize - 3] = attribute(driver, from, bytes)?;
        }
        (Described::Operation(operation), 7) => {
            operation.epilogue = attribute(driver, from, bytes)?;
        }
        (Described::Operation(operation), 8) => operation.bias = attribute(driver, from, bytes)?,
        (Described::Layout(layout), 5) => layout.batch = attribute(driver, from, bytes)?,
        (Described::Layout(layout), 6) => layout.stride = attribute(driver, from, bytes)?,
        (Described::Preference(preference), 1) => {
            preference.workspace = attribute(driver, from, bytes)?;
        }
        (Described::Preference(preference), 3) => {
            preference.reduction = attribute(driver, from, bytes)?;
        }
        (Described::Preference(preference), 5..=8) => {
            preference.alignment[number as usize - 5] = attribute(driver, from, bytes)?;
        }
        _ => {
            return refuse(
                driver,
                NOT_SUPPORTED,
                "the stand-in does not support this attribute",
            );
        }
    }
    Ok(())
}

/// The result of the library's heuristic.
#[repr(C)]
pub(crate) struct Found {
    algorithm: [u64; 8],
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// The algorithm for a product. One of its words is the alignment that it assumes.
fn choose(
    driver: &Driver,
    operation: &Operation,
    layouts: &[Layout; 4],
    preference: &Preference,
) -> Result<Found, Status> {
    let depth = operation.check(driver, layouts)?;
    let d = layouts[3];
    let wanted = d.rows * d.columns * u64::from(d.batch.unsigned_abs()) * 4;
    let splits = depth >= DEEP && wanted <= preference.workspace;
    if splits && preference.reduction & REDUCE_SUMS == 0 {
        return refuse(
            driver,
            NOT_SUPPORTED,
            "the split-K partial sums may not be added in the chosen type",
        );
    }
    for (layout, alignment) in layouts.iter().zip(preference.alignment) {
        let bytes = bytes_of(layout.kind).unwrap_or(1);
        if !alignment.is_power_of_two() || u64::from(alignment) < bytes {
            return refuse(
                driver,
                INVALID_VALUE,
                "the alignment is smaller than the element size",
            );
        }
    }
    let alignment = preference.alignment.iter();
    let alignment = alignment.fold(0, |all, &bytes| all << 16 | u64::from(bytes.min(0x8000)));
    let workspace = if splits { wanted } else { 0 };
    Ok(Found {
        algorithm: [
            ALGORITHM,
            operation.problem(layouts),
            alignment,
            workspace,
            0,
            0,
            0,
            0,
        ],
        workspace: workspace as usize,
        state: 0,
        waves: 1.0,
        reserved: [0; 4],
    })
}

/// Checks an algorithm for a product of matrices at these addresses.
fn check_algorithm(driver: &Driver, algorithm: [u64; 8], product: &Product) -> Outcome {
    let [name, problem, alignment, workspace, ..] = algorithm;
    if name != ALGORITHM || problem != product.operation.problem(&product.layouts) {
        return refuse(
            driver,
            INVALID_VALUE,
            "the algorithm is for another product",
        );
    }
    for (i, address) in product.addresses.iter().enumerate() {
        let bytes = alignment >> (16 * (3 - i)) & 0xffff;
        if bytes == 0 || address % bytes != 0 {
            let reason = format!("matrix {i} is not aligned to {bytes} bytes, as was promised");
            return refuse(driver, INVALID_VALUE, &reason);
        }
    }
    let given = product.workspace.end - product.workspace.start;
    if workspace > given || (workspace > 0 && !product.workspace.start.is_multiple_of(256)) {
        return refuse(
            driver,
            INVALID_VALUE,
            "the workspace is too small, or not aligned",
        );
    }
    Ok(())
}

/// A scale, in the type of the product's scales.
///
/// # Safety
/// `from` points to such a number, or is null.
unsafe fn scale(kind: u32, from: *const c_void) -> Result<f64, Status> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    let size = bytes_of(kind).ok_or(INVALID_VALUE)? as usize;
    // SAFETY: the caller promises that `from` points to such a number, or is null.
    Ok(load(kind, unsafe {
        std::slice::from_raw_parts(from.cast(), size)
    }))
}

exported! {
    call_early fn cublasLtCreate(handle: *mut Handle) |driver| {
        within(driver)?;
        create(driver, handle, Described::Library)
    }
    call_early fn cublasLtDestroy(handle: Handle) |driver| {
        within(driver)?;
        destroy(driver, handle, |d| matches!(d, Described::Library))
    }
    call_early fn cublasLtMatmulDescCreate(operation: *mut Handle, compute: u32, scale: u32) |driver| {
        create(driver, operation, Described::Operation(Operation {
            compute,
            scale,
            transposed: [0; 2],
            epilogue: 1,
            bias: 0,
        }))
    }
    call_early fn cublasLtMatmulDescSetAttribute(operation: Handle, number: u32, from: *const c_void, bytes: usize) |driver| {
        set(driver, operation, number, from, bytes)
    }
    call_early fn cublasLtMatmulDescDestroy(operation: Handle) |driver| {
        destroy(driver, operation, |d| matches!(d, Described::Operation(_)))
    }
    call_early fn cublasLtMatrixLayoutCreate(layout: *mut Handle, kind: u32, rows: u64, columns: u64, leading: i64) |driver| {
        let found = Layout { kind, rows, columns, leading, batch: 1, stride: 0 };
        found.check(driver)?;
        create(driver, layout, Described::Layout(found))
    }
    call_early fn cublasLtMatrixLayoutSetAttribute(layout: Handle, number: u32, from: *const c_void, bytes: usize) |driver| {
        set(driver, layout, number, from, bytes)
    }
    call_early fn cublasLtMatrixLayoutDestroy(layout: Handle) |driver| {
        destroy(driver, layout, |d| matches!(d, Described::Layout(_)))
    }
    call_early fn cublasLtMatmulPreferenceCreate(preference: *mut Handle) |driver| {
        create(driver, preference, Described::Preference(Preference {
            workspace: 0,
            reduction: 7,
            alignment: [256; 4],
        }))
    }
    call_early fn cublasLtMatmulPreferenceSetAttribute(preference: Handle, number: u32, from: *const c_void, bytes: usize) |driver| {
        set(driver, preference, number, from, bytes)
    }
    call_early fn cublasLtMatmulPreferenceDestroy(preference: Handle) |driver| {
        destroy(driver, preference, |d| matches!(d, Described::Preference(_)))
    }
    call_early fn cublasLtMatmulAlgoGetHeuristic(
        handle: Handle,
        described: Handle,
        a: Handle,
        b: Handle,
        c: Handle,
        d: Handle,
        preference: Handle,
        most: c_int,
        results: *mut Found,
        count: *mut c_int,
    ) |driver| {
        library(driver, handle)?;
        let operation = operation(driver, described)?;
        let layouts = layouts(driver, [a, b, c, d])?;
        let Some(Described::Preference(preference)) = driver.described.get(&preference) else {
            return refuse(driver, INVALID_VALUE, "unknown matmul preference");
        };
        if most < 1 {
            return Err(INVALID_VALUE);
        }
        let found = choose(driver, &operation, &layouts, preference)?;
        // SAFETY: the host passes places for a result and the count.
        unsafe {
            put(results, found)?;
            put(count, 1)
        }
    }
    call_early fn cublasLtMatmulAlgoConfigGetAttribute(
        algorithm: *const [u64; 8],
        number: u32,
        to: *mut c_void,
        bytes: usize,
        written: *mut usize,
    ) |driver| {
        if algorithm.is_null() || number != SLICES || bytes != size_of::<c_int>() {
            return refuse(driver, INVALID_VALUE, "the stand-in does not support this attribute \
                of an algorithm");
        }
        // SAFETY: the host passes an algorithm from the heuristic.
        let [name, _, _, workspace, ..] = unsafe { algorithm.read_unaligned() };
        if name != ALGORITHM {
            return refuse(driver, INVALID_VALUE, "the algorithm was not returned by the heuristic");
        }
        // SAFETY: the host passes a place for a number of four bytes, and one for their count.
        unsafe {
            put(to.cast::<c_int>(), if workspace > 0 { 2 } else { 1 })?;
            put(written, bytes)
        }
    }
    call_early fn cublasLtMatmul(
        handle: Handle,
        described: Handle,
        alpha: *const c_void,
        a: u64,
        a_layout: Handle,
        b: u64,
        b_layout: Handle,
        beta: *const c_void,
        c: u64,
        c_layout: Handle,
        d: u64,
        d_layout: Handle,
        algorithm: *const [u64; 8],
        workspace: u64,
        bytes: usize,
        stream: Handle,
    ) |driver| {
        library(driver, handle)?;
        let operation = operation(driver, described)?;
        let layouts = layouts(driver, [a_layout, b_layout, c_layout, d_layout])?;
        operation.check(driver, &layouts)?;
        // SAFETY: the host passes numbers of the type that it has stated.
        let scales = unsafe { [scale(operation.scale, alpha)?, scale(operation.scale, beta)?] };
        let product = Product {
            operation,
            layouts,
            addresses: [a, b, c, d],
            scales,
            workspace: workspace..workspace.saturating_add(bytes as u64),
        };
        if algorithm.is_null() {
            return refuse(driver, NOT_SUPPORTED, "an algorithm must be chosen");
        }
        // SAFETY: the host passes an algorithm from the heuristic.
        let algorithm = unsafe { algorithm.read_unaligned() };
        check_algorithm(driver, algorithm, &product)?;
        product.check(driver)?;
        enqueue(driver, stream, Work::Product(Box::new(product))).map_err(|_| EXECUTION_FAILED)
    }
}
