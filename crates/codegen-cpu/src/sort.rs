//! Sorting several arrays together by a generated comparator.

use crate::jit::KernelFn;
use tegula_ir::ArrayShape;
use tegula_layout::sort::merge_sort;

/// The largest number of arrays sorted together.
pub(crate) const MAX_ARRAYS: usize = 64;

/// A sort ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    /// Elements along the sorted dimension.
    length: usize,
    /// The distance between them, in elements.
    stride: usize,
    /// How many rows are sorted.
    rows: usize,
    /// Bytes of one element of each array.
    sizes: Vec<usize>,
}

impl Sort {
    /// Prepares a sort; `None` if the shapes are not static or too many.
    pub(crate) fn new(shapes: &[&ArrayShape], dimension: usize) -> Option<Self> {
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
        })
    }

    /// Sorts.
    ///
    /// # Safety
    /// `inputs` and `outputs` are dense arrays of the shapes this was made for,
    /// no output overlaps an input, and `comparator` is the sort's own.
    pub(crate) unsafe fn run(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        comparator: KernelFn,
    ) {
        let mut order: Vec<u32> = vec![0; self.length];
        for row in 0..self.rows {
            let base = row / self.stride * self.stride * self.length + row % self.stride;
            for (i, slot) in order.iter_mut().enumerate() {
                *slot = i as u32;
            }
            let mut result = 0u8;
            let mut args = [std::ptr::null_mut::<u8>(); 2 * MAX_ARRAYS + 1];
            args[2 * inputs.len()] = &raw mut result;
            merge_sort(&mut order, &mut |&a, &b| {
                for (i, (&input, &size)) in inputs.iter().zip(&self.sizes).enumerate() {
                    let at = |k: u32| (base + k as usize * self.stride) * size;
                    // SAFETY: both elements lie inside the input.
                    unsafe {
                        args[2 * i] = input.add(at(a)).cast_mut();
                        args[2 * i + 1] = input.add(at(b)).cast_mut();
                    }
                }
                // SAFETY: the comparator reads two elements of each array and
                // writes one byte, all of which `args` points to.
                unsafe { comparator(args.as_ptr(), 0, 1) };
                // SAFETY: `result` is a live local; it is read through its own
                // address because the comparator wrote it behind the compiler's back.
                unsafe { std::ptr::read_volatile(&raw const result) != 0 }
            });
            for ((&input, &output), &size) in inputs.iter().zip(outputs).zip(&self.sizes) {
                for (to, &from) in order.iter().enumerate() {
                    let at = |k: usize| (base + k * self.stride) * size;
                    // SAFETY: both elements lie inside their arrays, which do not
                    // overlap.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            input.add(at(from as usize)),
                            output.add(at(to)),
                            size,
                        );
                    }
                }
            }
        }
    }
}
