//! cublasLt, NVIDIA's library of matrix products, loaded when a product first needs it. Without
//! it, generated functions compute the products.
//!
//! Sums are accumulated in the type that the program states: products of f32 never use TF32, and
//! halves are accumulated in f32, also when the sum is split. Algorithms come from the library's
//! heuristic, which is told the arrays' alignment and the largest workspace allowed; [`preferred`]
//! chooses among those that it returns.
//!
//! # Safety of what follows
//! The functions' types are those of cublasLt.h, unchanged since CUDA 11, except that device
//! addresses are integers of a pointer's size. Descriptors are alive when the library uses them,
//! and attributes have the sizes that the header states. The library is called only in the context
//! in which its handle was created.

use crate::device::{Choice, Product};
use crate::libraries::{self, symbol};
use crate::library::matrices::{Activation, Epilogue, Matrices};
use cudarc::cublaslt::sys;
use cudarc::driver::sys::CUstream;
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;
use sys::cublasLtMatmulDescAttributes_t as Of;
use sys::cublasLtMatmulPreferenceAttributes_t as Preferred;
use sys::cublasLtMatrixLayoutAttribute_t as Layout;
use tegula_ir::ElementType;

/// Names of the library, newest version first.
const NAMES: &[&str] = &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];
/// The largest workspace that an algorithm may use, in bytes: NVIDIA's recommendation for Hopper
/// (cuBLAS, "cublasSetWorkspace").
const MOST_WORKSPACE: u64 = 32 << 20;
/// When a sum is split, the partial sums are added in the accumulator's type.
const REDUCTION: u32 =
    sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;

/// How many algorithms to request from the heuristic.
const ASKED: usize = 8;
/// Every part of a split sum should have at least this many terms.
const LEAST_TERMS: i64 = 32;

/// A status code: 0, or a value of `cublasStatus_t`. Newer versions of the library may return
/// values that this header does not list.
type Status = c_int;
const NOT_SUPPORTED: Status = sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED as Status;

/// `cublasLtMatmulHeuristicResult_t`: one algorithm that the heuristic returns.
#[repr(C)]
#[derive(Clone, Copy)]
struct Found {
    algorithm: [u64; 8],
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

type Descriptor = *mut c_void;
type Set = unsafe extern "C" fn(Descriptor, u32, *const c_void, usize) -> Status;
type Drop1 = unsafe extern "C" fn(Descriptor) -> Status;

/// The library's functions.
struct Functions {
    create: unsafe extern "C" fn(*mut sys::cublasLtHandle_t) -> Status,
    destroy: unsafe extern "C" fn(sys::cublasLtHandle_t) -> Status,
    create_layout: unsafe extern "C" fn(*mut Descriptor, u32, u64, u64, i64) -> Status,
    set_layout: Set,
    destroy_layout: Drop1,
    create_product: unsafe extern "C" fn(*mut Descriptor, u32, u32) -> Status,
    set_product: Set,
    destroy_product: Drop1,
    create_preference: unsafe extern "C" fn(*mut Descriptor) -> Status,
    set_preference: Set,
    destroy_preference: Drop1,
    heuristic: unsafe extern "C" fn(
        sys::cublasLtHandle_t,
        Descriptor,
        Descriptor,
        Descriptor,
        Descriptor,
        Descriptor,
        Descriptor,
        c_int,
        *mut Found,
        *mut c_int,
    ) -> Status,
    algorithm_attribute:
        unsafe extern "C" fn(*const [u64; 8], u32, *mut c_void, usize, *mut usize) -> Status,
    multiply: unsafe extern "C" fn(
        sys::cublasLtHandle_t,
        Descriptor,
        *const c_void,
        u64,
        Descriptor,
        u64,
        Descriptor,
        *const c_void,
        u64,
        Descriptor,
        u64,
        Descriptor,
        *const [u64; 8],
        u64,
        usize,
        CUstream,
    ) -> Status,
    // Keeps the library loaded: `functions` points into its code.
    _library: Library,
}

/// The library, loaded once per process; `None` if it is not installed.
fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let found = FUNCTIONS.get_or_init(|| {
        let found = libraries::first(NAMES, Functions::open);
        let found = found.inspect_err(|reason| {
            let reason = reason.as_deref().unwrap_or("libcublasLt.so is not found");
            tracing::info!(reason, "generated functions compute matrix products");
        });
        found.ok()
    });
    found.as_ref()
}

impl Functions {
    fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: loading cublasLt runs only NVIDIA's own initialisers, which have no
        // preconditions.
        let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
        // SAFETY: the types are those of cublasLt.h; see the module's text.
        unsafe {
            Ok(Self {
                create: symbol(&library, "cublasLtCreate")?,
                destroy: symbol(&library, "cublasLtDestroy")?,
                create_layout: symbol(&library, "cublasLtMatrixLayoutCreate")?,
                set_layout: symbol(&library, "cublasLtMatrixLayoutSetAttribute")?,
                destroy_layout: symbol(&library, "cublasLtMatrixLayoutDestroy")?,
                create_product: symbol(&library, "cublasLtMatmulDescCreate")?,
                set_product: symbol(&library, "cublasLtMatmulDescSetAttribute")?,
                destroy_product: symbol(&library, "cublasLtMatmulDescDestroy")?,
                create_preference: symbol(&library, "cublasLtMatmulPreferenceCreate")?,
                set_preference: symbol(&library, "cublasLtMatmulPreferenceSetAttribute")?,
                destroy_preference: symbol(&library, "cublasLtMatmulPreferenceDestroy")?,
                heuristic: symbol(&library, "cublasLtMatmulAlgoGetHeuristic")?,
                algorithm_attribute: symbol(&library, "cublasLtMatmulAlgoConfigGetAttribute")?,
                multiply: symbol(&library, "cublasLtMatmul")?,
                _library: library,
            })
        }
    }
}

/// A cublasLt handle, which belongs to one context.
pub(super) struct Handle {
    functions: &'static Functions,
    handle: sys::cublasLtHandle_t,
}

// SAFETY: cublasLt's handle may be used by every thread.
unsafe impl Send for Handle {}
// SAFETY: cublasLt's handle may be used by every thread.
unsafe impl Sync for Handle {}

/// An owned descriptor of the library, destroyed on drop.
struct Described {
    descriptor: Descriptor,
    set: Set,
    destroy: Drop1,
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: this is the descriptor's owner being dropped, so nothing uses it afterwards.
        unsafe { (self.destroy)(self.descriptor) };
    }
}

fn done(status: Status) -> Result<(), Status> {
    match status {
        0 => Ok(()),
        status => Err(status),
    }
}

impl Described {
    fn new(
        create: impl FnOnce(*mut Descriptor) -> Status,
        set: Set,
        destroy: Drop1,
    ) -> Result<Self, Status> {
        let mut descriptor = std::ptr::null_mut();
        done(create(&raw mut descriptor))?;
        Ok(Self {
            descriptor,
            set,
            destroy,
        })
    }

    /// Sets an attribute; `T` must have the size that cublasLt.h states for it.
    fn set<T: Copy>(&self, attribute: u32, value: T) -> Result<(), Status> {
        let bytes = size_of::<T>();
        // SAFETY: the descriptor is alive, and `value` has `bytes` readable bytes.
        done(unsafe { (self.set)(self.descriptor, attribute, (&raw const value).cast(), bytes) })
    }
}

/// A status in words.
fn said(status: Status) -> String {
    let name = match status {
        1 => "it is not initialised",
        3 => "out of memory",
        7 => "invalid value",
        8 => "not supported by this GPU",
        13 => "the GPU failed",
        14 => "internal error",
        NOT_SUPPORTED => "not supported",
        _ => "an error",
    };
    format!("cublasLt says: {name} (status {status})")
}

fn data_type(ty: ElementType) -> Result<u32, Status> {
    use sys::cudaDataType_t as T;
    Ok(match ty {
        ElementType::F32 => T::CUDA_R_32F,
        ElementType::F64 => T::CUDA_R_64F,
        ElementType::F16 => T::CUDA_R_16F,
        ElementType::BF16 => T::CUDA_R_16BF,
        ElementType::S8 => T::CUDA_R_8I,
        ElementType::S32 => T::CUDA_R_32I,
        _ => return Err(NOT_SUPPORTED),
    } as u32)
}

/// For factors of a type: the accumulator's type, the type of the scales alpha and beta, and the
/// bits of 0 and 1 in that type.
fn sums(factors: ElementType) -> (u32, ElementType, [u64; 2]) {
    use sys::cublasComputeType_t as C;
    let (compute, scale, one) = match factors {
        ElementType::F64 => (C::CUBLAS_COMPUTE_64F, ElementType::F64, 1f64.to_bits()),
        ElementType::S8 => (C::CUBLAS_COMPUTE_32I, ElementType::S32, 1),
        _ => (
            C::CUBLAS_COMPUTE_32F,
            ElementType::F32,
            u64::from(1f32.to_bits()),
        ),
    };
    (compute as u32, scale, [0, one])
}

fn epilogue(epilogue: Epilogue) -> u32 {
    use sys::cublasLtEpilogue_t as E;
    (match (epilogue.activation, epilogue.bias) {
        (None, false) => E::CUBLASLT_EPILOGUE_DEFAULT,
        (None, true) => E::CUBLASLT_EPILOGUE_BIAS,
        (Some(Activation::Relu), false) => E::CUBLASLT_EPILOGUE_RELU,
        (Some(Activation::Relu), true) => E::CUBLASLT_EPILOGUE_RELU_BIAS,
        (Some(Activation::Gelu), false) => E::CUBLASLT_EPILOGUE_GELU,
        (Some(Activation::Gelu), true) => E::CUBLASLT_EPILOGUE_GELU_BIAS,
    }) as u32
}

/// A product's descriptors.
struct Descriptors {
    product: Described,
    /// Of A, B and D; the added matrix has D's layout.
    layouts: [Described; 3],
}

impl Handle {
    /// Creates a handle in the current context; `None` if there is no library.
    pub(super) fn new() -> Option<Result<Self, String>> {
        let functions = functions()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is a valid place for the library to write to.
        let created = done(unsafe { (functions.create)(&raw mut handle) });
        Some(match created {
            Ok(()) => Ok(Self { functions, handle }),
            Err(status) => Err(said(status)),
        })
    }

    /// Destroys the handle, in the context in which it was created.
    pub(super) fn destroy(self) {
        // SAFETY: `self` is consumed, so nothing uses the handle afterwards.
        unsafe { (self.functions.destroy)(self.handle) };
    }

    /// Creates the descriptors of a product whose bias is at address `bias`.
    fn describe(&self, matrices: &Matrices, bias: u64) -> Result<Descriptors, Status> {
        let functions = self.functions;
        let [factors, result] = matrices.types;
        let (compute, scale, _) = sums(factors);
        let scale = data_type(scale)?;
        let product = Described::new(
            // SAFETY: `at` is a valid place for the library to write the descriptor to.
            |at| unsafe { (functions.create_product)(at, compute, scale) },
            functions.set_product,
            functions.destroy_product,
        )?;
        for (attribute, matrix) in [
            (Of::CUBLASLT_MATMUL_DESC_TRANSA, matrices.matrices[0]),
            (Of::CUBLASLT_MATMUL_DESC_TRANSB, matrices.matrices[1]),
        ] {
            // CUBLAS_OP_T or CUBLAS_OP_N.
            product.set(attribute as u32, i32::from(matrix.transposed))?;
        }
        let kind = epilogue(matrices.epilogue);
        product.set(Of::CUBLASLT_MATMUL_DESC_EPILOGUE as u32, kind)?;
        if matrices.epilogue.bias {
            product.set(Of::CUBLASLT_MATMUL_DESC_BIAS_POINTER as u32, bias)?;
        }
        let layout = |side: usize, rows: i64, columns: i64, ty| -> Result<Described, Status> {
            let matrix = matrices.matrices[side];
            let (rows, columns) = match matrix.transposed {
                true => (columns, rows),
                false => (rows, columns),
            };
            let ty = data_type(ty)?;
            let [rows, columns] = [rows, columns].map(i64::cast_unsigned);
            let leading = matrix.leading;
            let layout = Described::new(
                // SAFETY: `at` is a valid place for the library to write the descriptor to.
                |at| unsafe { (functions.create_layout)(at, ty, rows, columns, leading) },
                functions.set_layout,
                functions.destroy_layout,
            )?;
            if matrices.batch > 1 {
                let count = i32::try_from(matrices.batch);
                let count = count.map_err(|_| NOT_SUPPORTED)?;
                layout.set(Layout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT as u32, count)?;
                let offset = Layout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET as u32;
                layout.set(offset, matrix.stride)?;
            }
            Ok(layout)
        };
        let Matrices {
            rows,
            columns,
            depth,
            ..
        } = *matrices;
        Ok(Descriptors {
            product,
            layouts: [
                layout(0, rows, depth, factors)?,
                layout(1, depth, columns, factors)?,
                layout(2, rows, columns, result)?,
            ],
        })
    }

    /// Chooses an algorithm; see [`crate::device::Session::choose`].
    pub(super) fn choose(&self, matrices: &Matrices, alignment: [u32; 5]) -> Option<Choice> {
        let chosen = self.heuristic(matrices, alignment);
        let chosen = chosen.inspect_err(|status| {
            tracing::info!(%matrices, reason = said(*status), "a generated function computes \
                this product");
        });
        chosen.ok()
    }

    fn heuristic(&self, matrices: &Matrices, alignment: [u32; 5]) -> Result<Choice, Status> {
        let functions = self.functions;
        // The bias has another address in each run; any address with its alignment serves the
        // heuristic.
        let descriptors = self.describe(matrices, u64::from(alignment[4]))?;
        let preference = Described::new(
            // SAFETY: `at` is a valid place for the library to write the descriptor to.
            |at| unsafe { (functions.create_preference)(at) },
            functions.set_preference,
            functions.destroy_preference,
        )?;
        let most = Preferred::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES as u32;
        preference.set(most, MOST_WORKSPACE)?;
        let scheme = Preferred::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK as u32;
        preference.set(scheme, REDUCTION)?;
        for (attribute, bytes) in [
            Preferred::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Preferred::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Preferred::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Preferred::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ]
        .into_iter()
        .zip(alignment)
        {
            preference.set(attribute as u32, bytes)?;
        }
        let [a, b, d] = descriptors.layouts.each_ref().map(|l| l.descriptor);
        // The library may leave entries that it does not fill unchanged.
        let mut found = [Found {
            algorithm: [0; 8],
            workspace: 0,
            state: NOT_SUPPORTED,
            waves: 0.0,
            reserved: [0; 4],
        }; ASKED];
        let mut count = 0;
        // SAFETY: see the module's text; `found` has room for `ASKED` results, and `count` can be
        // written.
        done(unsafe {
            (functions.heuristic)(
                self.handle,
                descriptors.product.descriptor,
                a,
                b,
                d,
                d,
                preference.descriptor,
                ASKED as c_int,
                found.as_mut_ptr(),
                &raw mut count,
            )
        })?;
        let count = usize::try_from(count).unwrap_or(0).min(ASKED);
        let found: Vec<&Found> = found[..count].iter().filter(|f| f.state == 0).collect();
        let slices: Vec<i64> = found.iter().map(|f| self.slices(&f.algorithm)).collect();
        let preferred = preferred(matrices.depth, &slices).and_then(|number| found.get(number));
        let found = preferred.ok_or(NOT_SUPPORTED)?;
        Ok(Choice {
            algorithm: found.algorithm,
            workspace: found.workspace as u64,
        })
    }

    /// Into how many parts an algorithm splits a sum; 1 if the library does not say.
    fn slices(&self, algorithm: &[u64; 8]) -> i64 {
        let number = sys::cublasLtMatmulAlgoConfigAttributes_t::CUBLASLT_ALGO_CONFIG_SPLITK_NUM;
        let (mut slices, mut written): (c_int, usize) = (1, 0);
        // SAFETY: the algorithm came from the library's heuristic; the attribute has four bytes.
        let asked = done(unsafe {
            (self.functions.algorithm_attribute)(
                algorithm,
                number as u32,
                (&raw mut slices).cast(),
                size_of::<c_int>(),
                &raw mut written,
            )
        });
        asked.map_or(1, |()| i64::from(slices).max(1))
    }

    /// Enqueues a product on a stream.
    pub(super) fn multiply(&self, product: &Product<'_>, stream: CUstream) -> Result<(), String> {
        self.enqueue(product, stream).map_err(said)
    }

    fn enqueue(&self, product: &Product<'_>, stream: CUstream) -> Result<(), Status> {
        let [a, b, added, out, bias, workspace] = product.addresses;
        let descriptors = self.describe(product.matrices, bias)?;
        let [a_layout, b_layout, layout] = descriptors.layouts.each_ref().map(|l| l.descriptor);
        let (_, _, [zero, one]) = sums(product.matrices.types[0]);
        let beta = if product.matrices.added { one } else { zero };
        // SAFETY: see the module's text. Each scale is read from the first bytes of an eight-byte
        // value, which is correct because the host is little-endian; the arrays are as the layouts
        // describe.
        done(unsafe {
            (self.functions.multiply)(
                self.handle,
                descriptors.product.descriptor,
                (&raw const one).cast(),
                a,
                a_layout,
                b,
                b_layout,
                (&raw const beta).cast(),
                added,
                layout,
                out,
                layout,
                &raw const product.choice.algorithm,
                workspace,
                usize::try_from(product.choice.workspace).unwrap_or(usize::MAX),
                stream,
            )
        })
    }
}

/// The index of the algorithm to take. `slices` lists the heuristic's algorithms, its favourite
/// first, by the number of parts into which each splits the sum of `depth` terms.
///
/// For 28 of 33 shapes in f32, the favourite takes at most a sixth longer than the fastest of
/// eight on an H100 (27 November 2026, cublasLt 13.0). For small products, however, it may split a
/// sum into parts of one or two terms: it splits the 400 terms of 120 x 16 x 400 into 264 parts
/// and takes 52 us, where another algorithm takes 5.5 us. So this takes the first algorithm whose
/// parts have at least [`LEAST_TERMS`] terms, or, if there is none, the one with the fewest parts.
fn preferred(depth: i64, slices: &[i64]) -> Option<usize> {
    let whole = |&slices: &i64| slices == 1 || depth / slices >= LEAST_TERMS;
    let first = slices.iter().position(whole);
    first.or_else(|| (0..slices.len()).min_by_key(|&number| slices[number]))
}

#[cfg(test)]
mod tests {
    use super::preferred;

    /// Recorded answers of the heuristic on an H100: the sum's depth, then each algorithm's number
    /// of parts and its time in microseconds.
    const NAMED: &[(i64, &[(i64, f64)])] = &[
        (
            128,
            &[
                (16, 5.6),
                (66, 5.6),
                (33, 5.5),
                (1, 4.6),
                (11, 5.1),
                (132, 5.5),
            ],
        ),
        (
            512,
            &[
                (264, 51.7),
                (264, 68.3),
                (132, 6.3),
                (105, 28.6),
                (33, 5.6),
                (528, 96.0),
            ],
        ),
        (
            120,
            &[
                (132, 32.4),
                (33, 12.5),
                (128, 40.4),
                (1, 4.3),
                (66, 24.0),
                (16, 5.7),
                (1, 3.2),
            ],
        ),
        (16, &[(1, 2.6), (4, 4.6), (18, 9.9), (8, 4.8), (1, 3.0)]),
        (
            400,
            &[
                (264, 51.6),
                (264, 68.6),
                (132, 8.0),
                (105, 20.6),
                (33, 5.5),
                (528, 96.1),
            ],
        ),
        (
            768,
            &[
                (8, 9.1),
                (12, 10.8),
                (12, 10.8),
                (12, 9.3),
                (5, 8.9),
                (4, 12.9),
                (1, 16.4),
            ],
        ),
        (
            3072,
            &[(44, 18.4), (15, 18.9), (22, 18.0), (35, 22.5), (22, 34.9)],
        ),
        (
            8192,
            &[(132, 10.2), (132, 10.9), (57, 10.1), (60, 10.2), (32, 12.2)],
        ),
    ];

    #[test]
    fn what_is_taken_is_near_the_fastest() {
        for &(depth, named) in NAMED {
            let slices: Vec<i64> = named.iter().map(|&(slices, _)| slices).collect();
            let taken = preferred(depth, &slices).expect("one of them");
            let fastest = named.iter().map(|&(_, time)| time).fold(f64::MAX, f64::min);
            assert!(
                named[taken].1 <= 1.5 * fastest,
                "{depth}: {:?}",
                named[taken]
            );
        }
        assert_eq!(preferred(64, &[]), None);
    }
}
