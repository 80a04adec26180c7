//! Matrix products in cublasLt's terms: types, layouts, epilogues.

use std::ops::Range;

/// Numbers of `cudaDataType_t`.
pub(crate) const F32: u32 = 0;
pub(crate) const F64: u32 = 1;
pub(crate) const F16: u32 = 2;
pub(crate) const S8: u32 = 3;
pub(crate) const S32: u32 = 10;
pub(crate) const BF16: u32 = 14;
/// Numbers of `cublasComputeType_t`.
pub(crate) const COMPUTE_F32: u32 = 68;
pub(crate) const COMPUTE_F64: u32 = 70;
pub(crate) const COMPUTE_S32: u32 = 72;
/// Bits of `cublasLtEpilogue_t`.
pub(crate) const RELU: u32 = 2;
pub(crate) const BIAS: u32 = 4;
pub(crate) const GELU: u32 = 32;
pub(crate) const EPILOGUES: [u32; 6] = [1, RELU, BIAS, RELU | BIAS, GELU, GELU | BIAS];
/// The bit of `cublasLtReductionScheme_t` for partial sums in the type of the sums.
pub(crate) const REDUCE_SUMS: u32 = 2;

/// An object behind a handle of the library.
pub(crate) enum Described {
    Library,
    Operation(Operation),
    Layout(Layout),
    Preference(Preference),
}

#[derive(Clone, Hash)]
pub(crate) struct Operation {
    pub(crate) compute: u32,
    pub(crate) scale: u32,
    pub(crate) transposed: [i32; 2],
    pub(crate) epilogue: u32,
    pub(crate) bias: u64,
}

#[derive(Clone, Copy, Hash, PartialEq)]
pub(crate) struct Layout {
    pub(crate) kind: u32,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) leading: i64,
    pub(crate) batch: i32,
    pub(crate) stride: i64,
}

#[derive(Clone)]
pub(crate) struct Preference {
    pub(crate) workspace: u64,
    pub(crate) reduction: u32,
    pub(crate) alignment: [u32; 4],
}

/// A requested product: the operation, and the matrices A, B, C and D.
#[derive(Clone)]
pub(crate) struct Product {
    pub(crate) operation: Operation,
    pub(crate) layouts: [Layout; 4],
    pub(crate) addresses: [u64; 4],
    pub(crate) scales: [f64; 2],
    pub(crate) workspace: Range<u64>,
}

pub(crate) fn bytes_of(kind: u32) -> Option<u64> {
    match kind {
        F64 => Some(8),
        F32 | S32 => Some(4),
        F16 | BF16 => Some(2),
        S8 => Some(1),
        _ => None,
    }
}

impl Layout {
    /// The offset of an element, in elements.
    pub(crate) fn at(&self, batch: u64, row: u64, column: u64) -> u64 {
        let stride = self.stride.unsigned_abs();
        batch * stride + column * self.leading.unsigned_abs() + row
    }

    /// The range of addresses that the matrices occupy, if they begin at this address.
    pub(crate) fn span(&self, address: u64) -> Range<u64> {
        let last = self.at(
            u64::from(self.batch.unsigned_abs()) - 1,
            self.rows - 1,
            self.columns - 1,
        );
        address..address + (last + 1) * bytes_of(self.kind).unwrap_or(1)
    }
}
