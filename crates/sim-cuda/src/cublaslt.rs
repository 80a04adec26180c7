//! A stand-in for cublasLt: products of column-major matrices, as far as they are described
//! by layouts, batches, transpositions, a bias and an activation.
//!
//! What its documentation asks is checked, and what breaks it is refused with the
//! library's numbers and noted: attributes of another size, types without a product,
//! matrices that do not fit together, distances that are too short, a bias that is not
//! there, addresses less aligned than was promised, a workspace that is too small, an
//! algorithm that was found for another product. What the library would let pass is a
//! finding too: results that lie where the product reads.
//!
//! An algorithm wants a workspace for deep products, and writes over all of it.

use std::collections::hash_map::DefaultHasher;
use std::ffi::{c_int, c_void};
use std::hash::{Hash, Hasher};
use std::ops::Range;

use half::{bf16, f16};

use crate::driver::{Driver, Handle, Outcome, exported, put};
use crate::status::Status;
use crate::work::{Work, enqueue};

/// Numbers of `cublasStatus_t`.
const NOT_INITIALIZED: Status = Status(1);
const INVALID_VALUE: Status = Status(7);
const EXECUTION_FAILED: Status = Status(13);
const NOT_SUPPORTED: Status = Status(15);

/// Numbers of `cudaDataType_t`.
const F32: u32 = 0;
const F64: u32 = 1;
const F16: u32 = 2;
const S8: u32 = 3;
const S32: u32 = 10;
const BF16: u32 = 14;
/// Numbers of `cublasComputeType_t`.
const COMPUTE_F32: u32 = 68;
const COMPUTE_F64: u32 = 70;
const COMPUTE_S32: u32 = 72;
/// Bits of `cublasLtEpilogue_t`.
const RELU: u32 = 2;
const BIAS: u32 = 4;
const GELU: u32 = 32;
const EPILOGUES: [u32; 6] = [1, RELU, BIAS, RELU | BIAS, GELU, GELU | BIAS];
/// The bit of `cublasLtReductionScheme_t` for parts of sums in the type of the sums.
const REDUCE_SUMS: u32 = 2;

/// The sum's length from which an algorithm wants a workspace.
const DEEP: u64 = 256;
/// What the library calls the first word of an algorithm.
const ALGORITHM: u64 = 0x7465_6775_6c61;

/// A handle of the library's.
pub(crate) enum Described {
    Library,
    Operation(Operation),
    Layout(Layout),
    Preference(Preference),
}

#[derive(Clone, Hash)]
pub(crate) struct Operation {
    compute: u32,
    scale: u32,
    transposed: [i32; 2],
    epilogue: u32,
    bias: u64,
}

#[derive(Clone, Copy, Hash, PartialEq)]
pub(crate) struct Layout {
    kind: u32,
    rows: u64,
    columns: u64,
    leading: i64,
    batch: i32,
    stride: i64,
}

#[derive(Clone)]
pub(crate) struct Preference {
    workspace: u64,
    reduction: u32,
    alignment: [u32; 4],
}

/// A product that is asked for: matrices A, B, C and D.
#[derive(Clone)]
pub(crate) struct Product {
    operation: Operation,
    layouts: [Layout; 4],
    addresses: [u64; 4],
    scales: [f64; 2],
    workspace: Range<u64>,
}

fn bytes_of(kind: u32) -> Option<u64> {
    match kind {
        F64 => Some(8),
        F32 | S32 => Some(4),
        F16 | BF16 => Some(2),
        S8 => Some(1),
        _ => None,
    }
}

/// Notes why a call is refused.
fn refuse<T>(driver: &Driver, status: Status, reason: &str) -> Result<T, Status> {
    driver.note(&format!("cublasLt: {reason}"));
    Err(status)
}

impl Layout {
    fn check(&self, driver: &Driver) -> Outcome {
        let reason = if bytes_of(self.kind).is_none() {
            "a matrix of an unknown type"
        } else if self.rows == 0 || self.columns == 0 || self.batch < 1 {
            "a matrix without elements"
        } else if u64::try_from(self.leading).map_or(true, |leading| leading < self.rows) {
            "the leading dimension is shorter than a column"
        } else {
            return Ok(());
        };
        refuse(driver, INVALID_VALUE, reason)
    }

    /// The place of an element, in elements.
    fn at(&self, batch: u64, row: u64, column: u64) -> u64 {
        let stride = self.stride.unsigned_abs();
        batch * stride + column * self.leading.unsigned_abs() + row
    }

    /// The bytes from an address on that the matrices are in.
    fn span(&self, address: u64) -> Range<u64> {
        let last = self.at(
            u64::from(self.batch.unsigned_abs()) - 1,
            self.rows - 1,
            self.columns - 1,
        );
        address..address + (last + 1) * bytes_of(self.kind).unwrap_or(1)
    }
}

impl Operation {
    /// Whether there is a product of these types with such sums.
    fn has_product(&self, factors: u32, result: u32) -> bool {
        let types = (factors, result);
        match (self.compute, self.scale) {
            (COMPUTE_F32, F32) => matches!(
                types,
                (F32, F32) | (F16, F16 | F32) | (BF16, BF16 | F32) | (S8, F32)
            ),
            (COMPUTE_F64, F64) => types == (F64, F64),
            (COMPUTE_S32, S32) => types == (S8, S32) && self.epilogue == 1,
            _ => false,
        }
    }

    /// Checks that matrices A, B, C and D make a product, and gives its depth.
    fn check(&self, driver: &Driver, layouts: &[Layout; 4]) -> Result<u64, Status> {
        let refuse = |status, reason| refuse(driver, status, reason);
        layouts.iter().try_for_each(|layout| layout.check(driver))?;
        let [a, b, c, d] = layouts;
        if !EPILOGUES.contains(&self.epilogue) {
            return refuse(NOT_SUPPORTED, "an epilogue that the stand-in has not");
        }
        if self.epilogue & BIAS != 0 && self.bias == 0 {
            return refuse(INVALID_VALUE, "an epilogue with a bias, and none is given");
        }
        if self.transposed.iter().any(|op| !(0..=1).contains(op)) {
            return refuse(NOT_SUPPORTED, "an unknown transposition");
        }
        if a.kind != b.kind || c.kind != d.kind || !self.has_product(a.kind, d.kind) {
            return refuse(NOT_SUPPORTED, "there is no product of these types");
        }
        let op = |layout: &Layout, transposed: i32| match transposed {
            0 => (layout.rows, layout.columns),
            _ => (layout.columns, layout.rows),
        };
        let ((rows, depth), (inner, columns)) =
            (op(a, self.transposed[0]), op(b, self.transposed[1]));
        if inner != depth || (d.rows, d.columns) != (rows, columns) || c != d {
            return refuse(INVALID_VALUE, "the matrices do not fit together");
        }
        if layouts.iter().any(|layout| layout.batch != d.batch) {
            return refuse(
                INVALID_VALUE,
                "the matrices have different numbers of batches",
            );
        }
        let overlap = |layout: &&Layout| layout.batch > 1 && layout.stride == 0;
        if [d].iter().any(overlap) {
            return refuse(INVALID_VALUE, "batches of the result lie in one place");
        }
        if a.kind == S8 {
            let sizes = [
                rows,
                depth,
                a.leading.unsigned_abs(),
                b.leading.unsigned_abs(),
            ];
            let is_even = sizes.iter().all(|size| size % 4 == 0);
            if self.transposed != [1, 0] || !is_even {
                return refuse(
                    NOT_SUPPORTED,
                    "bytes ask for A transposed, and multiples of four",
                );
            }
        }
        Ok(depth)
    }

    fn problem(&self, layouts: &[Layout; 4]) -> u64 {
        let mut hasher = DefaultHasher::new();
        let same = Self {
            bias: 0,
            ..self.clone()
        };
        (same, layouts).hash(&mut hasher);
        hasher.finish()
    }
}

/// Elements in the type that sums are in.
fn load(kind: u32, bytes: &[u8]) -> f64 {
    fn word<const N: usize>(bytes: &[u8]) -> [u8; N] {
        std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
    }
    match kind {
        F64 => f64::from_le_bytes(word(bytes)),
        F32 => f32::from_le_bytes(word(bytes)).into(),
        F16 => f16::from_le_bytes(word(bytes)).into(),
        BF16 => bf16::from_le_bytes(word(bytes)).into(),
        S32 => i32::from_le_bytes(word(bytes)).into(),
        _ => i8::from_le_bytes(word(bytes)).into(),
    }
}

fn store(kind: u32, value: f64, to: &mut Vec<u8>) {
    match kind {
        F64 => to.extend(value.to_le_bytes()),
        F32 => to.extend((value as f32).to_le_bytes()),
        F16 => to.extend(f16::from_f32(value as f32).to_le_bytes()),
        BF16 => to.extend(bf16::from_f32(value as f32).to_le_bytes()),
        // Sums of bytes are exact; the device keeps their lowest 32 bits.
        _ => to.extend((value as i64 as i32).to_le_bytes()),
    }
}

impl Product {
    /// Checks where everything lies.
    fn check(&self, driver: &Driver) -> Outcome {
        let spans: Vec<Range<u64>> = (0..4)
            .map(|i| self.layouts[i].span(self.addresses[i]))
            .collect();
        let bias = match self.operation.epilogue & BIAS != 0 {
            true => {
                let bytes = self.layouts[3].rows * bytes_of(self.layouts[3].kind).unwrap_or(1);
                self.operation.bias..self.operation.bias + bytes
            }
            false => 0..0,
        };
        for span in spans.iter().chain([&bias, &self.workspace]) {
            if span.is_empty() {
                continue;
            }
            let inside = driver.memory.allocation_of(span.start);
            if inside.is_none_or(|(start, bytes)| span.end > start + bytes) {
                let reason = format!("{} bytes are in no allocation", span.end - span.start);
                return refuse(driver, EXECUTION_FAILED, &reason);
            }
        }
        let meet = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let [a, b, c, d] = &spans[..] else {
            return Err(INVALID_VALUE);
        };
        let reads_c = self.scales[1] != 0.0;
        let clash = meet(d, a)
            || meet(d, b)
            || meet(d, &bias)
            || (reads_c && meet(d, c) && c != d)
            || [a, b, c, d, &bias]
                .iter()
                .any(|span| meet(span, &self.workspace));
        if clash {
            return refuse(
                driver,
                INVALID_VALUE,
                "the result or the workspace lies where is read",
            );
        }
        Ok(())
    }

    /// Computes it.
    pub(crate) fn run(&self, driver: &mut Driver) -> Outcome {
        let read = |driver: &Driver, span: Range<u64>| -> Result<Vec<u8>, Status> {
            let mut bytes = vec![0; usize::try_from(span.end - span.start).unwrap_or(0)];
            let read = driver.memory.read(span.start, &mut bytes);
            read.map(|()| bytes).map_err(|_| EXECUTION_FAILED)
        };
        let [a, b, c, d] = self.layouts;
        let matrices = [
            read(driver, a.span(self.addresses[0]))?,
            read(driver, b.span(self.addresses[1]))?,
            read(driver, c.span(self.addresses[2]))?,
        ];
        let size = |kind| bytes_of(kind).unwrap_or(1);
        let element = |matrix: usize, batch, [row, column]: [u64; 2]| {
            let layout = self.layouts[matrix];
            let at = (layout.at(batch, row, column) * size(layout.kind)) as usize;
            load(layout.kind, matrices[matrix].get(at..).unwrap_or(&[]))
        };
        let op = |matrix: usize, [row, column]: [u64; 2]| match self.operation.transposed[matrix] {
            0 => [row, column],
            _ => [column, row],
        };
        let bias = match self.operation.epilogue & BIAS != 0 {
            true => {
                let start = self.operation.bias;
                read(driver, start..start + d.rows * size(d.kind))?
            }
            false => Vec::new(),
        };
        let depth = match self.operation.transposed[0] {
            0 => a.columns,
            _ => a.rows,
        };
        let wide = self.operation.compute != COMPUTE_F32;
        let rounded = |value: f64| if wide { value } else { f64::from(value as f32) };
        let (batches, mut column_bytes) = (u64::from(d.batch.unsigned_abs()), Vec::new());
        for (batch, column) in (0..batches).flat_map(|b| (0..d.columns).map(move |c| (b, c))) {
            column_bytes.clear();
            for row in 0..d.rows {
                let mut sum = 0.0;
                for k in 0..depth {
                    let x = element(0, batch, op(0, [row, k]));
                    let y = element(1, batch, op(1, [k, column]));
                    sum = rounded(x.mul_add(y, sum));
                }
                sum = rounded(self.scales[0] * sum);
                if self.scales[1] != 0.0 {
                    sum = rounded(sum + self.scales[1] * element(2, batch, [row, column]));
                }
                let bias = bias.get((row * size(d.kind)) as usize..);
                if let Some(bias) = bias.filter(|_| self.operation.epilogue & BIAS != 0) {
                    sum = rounded(sum + load(d.kind, bias));
                }
                if self.operation.epilogue & RELU != 0 {
                    sum = sum.max(0.0);
                }
                if self.operation.epilogue & GELU != 0 {
                    let root = (2.0 / std::f64::consts::PI).sqrt();
                    let inner = root * (sum + 0.044_715 * sum * sum * sum);
                    sum = rounded(0.5 * sum * (1.0 + inner.tanh()));
                }
                store(d.kind, sum, &mut column_bytes);
            }
            let at = self.addresses[3] + d.at(batch, 0, column) * size(d.kind);
            let written = driver.memory.write(at, &column_bytes);
            written.map_err(|_| EXECUTION_FAILED)?;
        }
        let (start, bytes) = (
            self.workspace.start,
            self.workspace.end - self.workspace.start,
        );
        if bytes > 0 {
            let written = driver.memory.fill(start, bytes, 0xff);
            written.map_err(|_| EXECUTION_FAILED)?;
        }
        driver.now += batches * d.rows * d.columns * depth / 1024;
        driver.note_product(&format!(
            "{batches} of {} x {} x {depth}, type {}, transposed {:?}, epilogue {}, beta {}",
            d.rows,
            d.columns,
            a.kind,
            self.operation.transposed,
            self.operation.epilogue,
            self.scales[1]
        ));
        Ok(())
    }
}

/// The library may be called in this thread.
fn within(driver: &Driver) -> Outcome {
    driver.context().map_err(|_| NOT_INITIALIZED)
}

fn library(driver: &Driver, handle: Handle) -> Outcome {
    within(driver)?;
    match driver.described.get(&handle) {
        Some(Described::Library) => Ok(()),
        _ => refuse(driver, NOT_INITIALIZED, "there is no such handle"),
    }
}

fn operation(driver: &Driver, handle: Handle) -> Result<Operation, Status> {
    match driver.described.get(&handle) {
        Some(Described::Operation(operation)) => Ok(operation.clone()),
        _ => refuse(
            driver,
            INVALID_VALUE,
            "there is no such description of a product",
        ),
    }
}

fn layouts(driver: &Driver, handles: [Handle; 4]) -> Result<[Layout; 4], Status> {
    let layout = |handle: Handle| match driver.described.get(&handle) {
        Some(Described::Layout(layout)) => Ok(*layout),
        _ => refuse(driver, INVALID_VALUE, "there is no such layout"),
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
        _ => refuse(driver, INVALID_VALUE, "what is destroyed is not there"),
    }
}

/// An attribute's value: `T` has the size that the header states.
fn attribute<T: Copy>(driver: &Driver, from: *const c_void, bytes: usize) -> Result<T, Status> {
    if from.is_null() || bytes != size_of::<T>() {
        return refuse(driver, INVALID_VALUE, "an attribute of another size");
    }
    // SAFETY: the host passes so many bytes, which are a number.
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
        return refuse(driver, INVALID_VALUE, "what is described is not there");
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
                "an attribute that the stand-in has not",
            );
        }
    }
    Ok(())
}

/// What the library's heuristic answers.
#[repr(C)]
pub(crate) struct Found {
    algorithm: [u64; 8],
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// The algorithm for a product, of which one word says for what alignment it is.
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
            "parts of sums may not be added in their type",
        );
    }
    for (layout, alignment) in layouts.iter().zip(preference.alignment) {
        let bytes = bytes_of(layout.kind).unwrap_or(1);
        if !alignment.is_power_of_two() || u64::from(alignment) < bytes {
            return refuse(driver, INVALID_VALUE, "an alignment that elements have not");
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

/// A scale in the type that the product's scales have.
///
/// # Safety
/// `from` points to such a number, or is null.
unsafe fn scale(kind: u32, from: *const c_void) -> Result<f64, Status> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    let size = bytes_of(kind).ok_or(INVALID_VALUE)? as usize;
    // SAFETY: the caller's promise.
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
            return refuse(driver, INVALID_VALUE, "there is no such preference");
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
        // SAFETY: the host passes what the heuristic gave it.
        let algorithm = unsafe { algorithm.read_unaligned() };
        check_algorithm(driver, algorithm, &product)?;
        product.check(driver)?;
        enqueue(driver, stream, Work::Product(Box::new(product))).map_err(|_| EXECUTION_FAILED)
    }
}
