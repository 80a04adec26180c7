//! External routines of an image by name: those that our code generation calls, and those that
//! Cranelift calls itself.

use super::libcalls;
use cranelift_codegen::ir::LibCall;

/// The name of a routine that Cranelift calls.
pub(super) fn of_libcall(call: LibCall) -> Option<&'static str> {
    CALLED
        .iter()
        .find(|known| known.0 == call)
        .map(|known| known.1)
}

/// The address of a routine in this process.
pub(super) fn address_of(name: &str) -> Option<*const u8> {
    let called = CALLED.iter().find(|known| known.1 == name);
    let called = called.map(|known| (known.2)());
    called.or_else(|| libcalls::lookup(name))
}

type Called = (LibCall, &'static str, fn() -> *const u8);

/// The routines that Cranelift may call: for operations without an instruction, and for memory.
const CALLED: [Called; 13] = [
    (LibCall::CeilF32, "ceilf", || ceil_f32 as *const u8),
    (LibCall::CeilF64, "ceil", || ceil_f64 as *const u8),
    (LibCall::FloorF32, "floorf", || floor_f32 as *const u8),
    (LibCall::FloorF64, "floor", || floor_f64 as *const u8),
    (LibCall::TruncF32, "truncf", || trunc_f32 as *const u8),
    (LibCall::TruncF64, "trunc", || trunc_f64 as *const u8),
    (LibCall::NearestF32, "rintf", || nearest_f32 as *const u8),
    (LibCall::NearestF64, "rint", || nearest_f64 as *const u8),
    (LibCall::FmaF32, "fmaf", || fma_f32 as *const u8),
    (LibCall::FmaF64, "fma", || fma_f64 as *const u8),
    (LibCall::Memcpy, "memcpy", || memory::memcpy()),
    (LibCall::Memmove, "memmove", || memory::memmove()),
    (LibCall::Memset, "memset", || memory::memset()),
];

/// The addresses of the C library's functions on memory.
#[cfg(unix)]
mod memory {
    pub(super) fn memcpy() -> *const u8 {
        libc::memcpy as *const u8
    }

    pub(super) fn memmove() -> *const u8 {
        libc::memmove as *const u8
    }

    pub(super) fn memset() -> *const u8 {
        libc::memset as *const u8
    }
}

/// Without a C library, as in WebAssembly, code is listed and never run: no address is used.
#[cfg(not(unix))]
mod memory {
    pub(super) fn memcpy() -> *const u8 {
        std::ptr::null()
    }

    pub(super) fn memmove() -> *const u8 {
        std::ptr::null()
    }

    pub(super) fn memset() -> *const u8 {
        std::ptr::null()
    }
}

macro_rules! functions {
    ($($name:ident($($x:ident),*: $ty:ty) = $value:expr;)*) => {
        $(extern "C" fn $name($($x: $ty),*) -> $ty {
            $value
        })*
    };
}

functions! {
    ceil_f32(x: f32) = x.ceil();
    ceil_f64(x: f64) = x.ceil();
    floor_f32(x: f32) = x.floor();
    floor_f64(x: f64) = x.floor();
    trunc_f32(x: f32) = x.trunc();
    trunc_f64(x: f64) = x.trunc();
    nearest_f32(x: f32) = x.round_ties_even();
    nearest_f64(x: f64) = x.round_ties_even();
    fma_f32(x, y, z: f32) = x.mul_add(y, z);
    fma_f64(x, y, z: f64) = x.mul_add(y, z);
}
