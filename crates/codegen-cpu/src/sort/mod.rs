//! Sorting several arrays together: by a key where the comparator compares one, else by
//! calling the generated comparator.

mod key;
mod rank;

pub(crate) use key::{KeyOrder, SortKey, key_of};

use crate::jit::KernelFn;
use rank::sorted;
use tegula_ir::ArrayShape;
use tegula_layout::sort::merge_sort;

/// The largest number of arrays sorted together.
pub(crate) const MAX_ARRAYS: usize = 64;

/// The generated code of a sort.
pub(crate) struct SortCode {
    /// Whether one element goes before another.
    pub comparator: KernelFn,
    /// What the comparator compares: the keys of many elements, which operands it reads
    /// them from, and their order.
    pub key: Option<(KernelFn, Vec<usize>, KeyOrder)>,
}

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
    /// no output overlaps an input, and `code` is the sort's own.
    pub(crate) unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], code: &SortCode) {
        let mut order: Vec<u32> = Vec::with_capacity(self.length);
        // A kernel's index has 32 bits.
        let fits = self.rows * self.length <= i32::MAX as usize;
        // SAFETY: the caller's promise.
        let keys = (code.key.as_ref().filter(|_| fits))
            .map(|key| (unsafe { self.keys(inputs, key) }, key.2));
        for row in 0..self.rows {
            let base = row / self.stride * self.stride * self.length + row % self.stride;
            order.clear();
            match &keys {
                Some((keys, by)) => {
                    let at = |i| (base + i * self.stride) * by.bytes;
                    let bits = |i| word(&keys[at(i)..at(i) + by.bytes]);
                    let ranks = (0..self.length).map(|i| by.rank(bits(i)));
                    order.extend(sorted(ranks, by.bytes));
                }
                None => {
                    order.extend(0..self.length as u32);
                    // SAFETY: the caller's promise; the row lies in the arrays.
                    unsafe { self.merge(inputs, code.comparator, base, &mut order) };
                }
            }
            for ((&input, &output), &size) in inputs.iter().zip(outputs).zip(&self.sizes) {
                for (to, &from) in order.iter().enumerate() {
                    let at = |k: usize| (base + k * self.stride) * size;
                    // SAFETY: both elements lie inside their arrays, which do not
                    // overlap.
                    unsafe {
                        let (from, to) = (input.add(at(from as usize)), output.add(at(to)));
                        match size {
                            4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
                            _ => std::ptr::copy_nonoverlapping(from, to, size),
                        }
                    }
                }
            }
        }
    }

    /// The keys of all elements, in the order of memory.
    ///
    /// # Safety
    /// As [`Self::run`]; `key` is the sort's own.
    unsafe fn keys(
        &self,
        inputs: &[*const u8],
        (kernel, arrays, order): &(KernelFn, Vec<usize>, KeyOrder),
    ) -> Vec<u8> {
        let count = self.rows * self.length;
        let mut keys = vec![0u8; count * order.bytes];
        let mut args: Vec<*mut u8> = arrays.iter().map(|&a| inputs[a].cast_mut()).collect();
        args.push(keys.as_mut_ptr());
        if count > 0 {
            // SAFETY: the kernel reads that many elements of each array and writes as
            // many keys.
            unsafe { kernel(args.as_ptr(), 0, count as i64) };
        }
        keys
    }

    /// Sorts the numbers of a row's elements by the comparator.
    ///
    /// # Safety
    /// As [`Self::run`]; the row that starts at `base` lies in the arrays.
    unsafe fn merge(
        &self,
        inputs: &[*const u8],
        comparator: KernelFn,
        base: usize,
        order: &mut [u32],
    ) {
        let mut result = 0u8;
        let mut args = [std::ptr::null_mut::<u8>(); 2 * MAX_ARRAYS + 1];
        args[2 * inputs.len()] = &raw mut result;
        merge_sort(order, &mut |&a, &b| {
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
    }
}

/// Up to eight bytes as a number, the lowest first.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
