//! Sorts with generated comparators.

use crate::abi::KernelFn;
use tegula_ir::ArrayShape;
use tegula_linalg::sort::{self, KeyOrder, MAX_ARRAYS};

/// The generated code of a sort.
pub(crate) struct SortCode {
    /// Whether one element goes before another.
    pub comparator: KernelFn,
    /// The function that computes the keys of many elements, the operands that it reads, and the
    /// keys' order, if the comparator compares keys.
    pub key: Option<(KernelFn, Vec<usize>, KeyOrder)>,
}

/// A sort ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    /// The number of elements along the sorted dimension.
    length: usize,
    /// The distance between them, in elements.
    stride: usize,
    /// The number of rows to sort.
    rows: usize,
    /// The bytes of one element of each array.
    sizes: Vec<usize>,
    /// The bytes of a key, if there is one.
    key_bytes: Option<usize>,
}

impl Sort {
    /// Prepares a sort; `None` if the shapes are not static or too many.
    pub(crate) fn new(
        shapes: &[&ArrayShape],
        dimension: usize,
        key: Option<KeyOrder>,
    ) -> Option<Self> {
        let dims = shapes.first()?.static_dims()?;
        let length = usize::try_from(*dims.get(dimension)?).ok()?;
        let stride = dims
            .get(dimension + 1..)?
            .iter()
            .map(|&d| d as usize)
            .product();
        let elements = usize::try_from(shapes[0].element_count()?).ok()?;
        (shapes.len() <= MAX_ARRAYS).then(|| Self {
            length,
            stride,
            rows: elements.checked_div(length).unwrap_or(0),
            sizes: shapes
                .iter()
                .map(|s| s.element_type.storage_bytes())
                .collect(),
            key_bytes: key.map(|key| key.bytes),
        })
    }

    fn sort(&self) -> sort::Sort<'_> {
        sort::Sort {
            length: self.length,
            stride: self.stride,
            rows: self.rows,
            sizes: &self.sizes,
        }
    }

    /// Bytes of scratch memory that a run needs.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.sort().scratch_bytes(self.key_bytes)
    }

    /// Sorts.
    ///
    /// # Safety
    /// `inputs` and `outputs` are dense arrays of the sort's shapes, no output overlaps an input
    /// other than its own, which it may replace in place, and `code` is the sort's own. `scratch`
    /// has [`Self::scratch_bytes`], aligned to 64.
    pub(crate) unsafe fn run(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        code: &SortCode,
        scratch: *mut u8,
    ) {
        let key = code.key.as_ref();
        let code = sort::SortCode {
            comparator: code.comparator,
            key: key.map(|(function, arrays, order)| sort::SortKey {
                function: *function,
                arrays,
                order: *order,
            }),
        };
        // SAFETY: the caller promises arrays of the sort's shapes, the sort's own code and scratch
        // memory.
        unsafe { self.sort().run(inputs, outputs, &code, scratch) };
    }
}
