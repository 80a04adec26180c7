//! Sorting several arrays together: by a key where the comparator compares one, else by
//! calling the generated comparator.

mod key;
mod rank;

use crate::abi::KernelFn;
pub(crate) use key::{KeyOrder, key_of};
use rank::sorted;
use tegula_ir::ArrayShape;
use tegula_plan::sort::merge_sort;

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
    /// no output overlaps an input other than its own, which it may replace in place, and `code`
    /// is the sort's own.
    pub(crate) unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], code: &SortCode) {
        // Of no rows, the length may be more than memory holds.
        if self.rows == 0 {
            return;
        }
        let mut order: Vec<u32> = Vec::with_capacity(self.length);
        let mut copy = Vec::new();
        // A kernel's index has 32 bits.
        let fits = self.rows * self.length <= i32::MAX as usize;
        let mut keys = (code.key.as_ref().filter(|_| fits)).map(|key| Keys::new(self, key));
        for row in 0..self.rows {
            let base = row / self.stride * self.stride * self.length + row % self.stride;
            order.clear();
            match &mut keys {
                Some(keys) => {
                    let by = keys.order;
                    // SAFETY: the caller promises: `inputs` and `outputs` are dense arrays of the
                    // shapes this was made for, no output overlaps an input other than its own, and
                    // `code` is the sort's own.
                    let bits = unsafe { keys.of_row(self, inputs, base) };
                    order.extend(sorted(bits.map(|bits| by.rank(bits)), by.bytes));
                }
                None => {
                    order.extend(0..self.length as u32);
                    // SAFETY: the caller promises: `inputs` and `outputs` are dense arrays of the
                    // shapes this was made for, no output overlaps an input other than its own, and
                    // `code` is the sort's own; the row at `base` is inside of the arrays.
                    unsafe { self.merge(inputs, code.comparator, base, &mut order) };
                }
            }
            for ((&input, &output), &size) in inputs.iter().zip(outputs).zip(&self.sizes) {
                let place = Elements {
                    base: base * size,
                    step: self.stride * size,
                    size,
                };
                let ordered = order.iter().copied();
                // SAFETY: the row lies in both arrays and fills what it is copied to.
                unsafe {
                    if input != output.cast_const() {
                        move_elements(ordered, (input, output), [place, place]);
                        continue;
                    }
                    copy.resize(self.length * size, 0);
                    let packed = Elements {
                        base: 0,
                        step: size,
                        size,
                    };
                    let all = 0..self.length as u32;
                    move_elements(all, (input, copy.as_mut_ptr()), [place, packed]);
                    move_elements(ordered, (copy.as_ptr(), output), [packed, place]);
                }
            }
        }
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

/// Elements of a row in memory, in bytes.
#[derive(Clone, Copy)]
struct Elements {
    /// Where the first is.
    base: usize,
    /// From one to the next.
    step: usize,
    size: usize,
}

/// Moves the elements of a row that `order` names, one after the other.
///
/// # Safety
/// The elements lie inside of what the pointers point to, which do not overlap.
unsafe fn move_elements(
    order: impl Iterator<Item = u32>,
    pointers: (*const u8, *mut u8),
    [source, target]: [Elements; 2],
) {
    let (input, output) = pointers;
    for (to, from) in order.enumerate() {
        // SAFETY: the caller promises: the elements lie inside of what the pointers point to, which
        // do not overlap.
        unsafe {
            let from = input.add(source.base + from as usize * source.step);
            let to = output.add(target.base + to * target.step);
            match source.size {
                4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
                size => std::ptr::copy_nonoverlapping(from, to, size),
            }
        }
    }
}

/// Elements whose keys are computed at a time: they stay in the nearest cache.
const KEYS_AT_ONCE: usize = 4096;

/// The keys of some rows that lie one behind the other, in the order of memory.
struct Keys<'a> {
    kernel: KernelFn,
    /// Which operands the kernel reads.
    arrays: &'a [usize],
    order: KeyOrder,
    bytes: Vec<u8>,
    /// Elements of which the keys are computed together: whole rows, which are not written
    /// before.
    together: usize,
    /// The element whose key is the first.
    first: usize,
}

impl<'a> Keys<'a> {
    fn new(sort: &Sort, (kernel, arrays, order): &'a (KernelFn, Vec<usize>, KeyOrder)) -> Self {
        let rows = (sort.length * sort.stride).max(1);
        Self {
            kernel: *kernel,
            arrays,
            order: *order,
            bytes: Vec::new(),
            together: rows * (KEYS_AT_ONCE / rows).max(1),
            first: 0,
        }
    }

    /// The keys of the row that starts at `base`.
    ///
    /// # Safety
    /// As [`Sort::run`]; the sort is that which this is made for, and has such a row.
    unsafe fn of_row(
        &mut self,
        sort: &Sort,
        inputs: &[*const u8],
        base: usize,
    ) -> impl Iterator<Item = u64> {
        let size = self.order.bytes;
        let first = base / self.together * self.together;
        if self.bytes.is_empty() || first != self.first {
            self.first = first;
            let count = self.together.min(sort.rows * sort.length - first);
            self.bytes.resize(count * size, 0);
            let array = |&a: &usize| {
                // SAFETY: the row lies in the array.
                unsafe { inputs[a].add(first * sort.sizes[a]) }.cast_mut()
            };
            let mut args: Vec<*mut u8> = self.arrays.iter().map(array).collect();
            args.push(self.bytes.as_mut_ptr());
            // SAFETY: the kernel reads that many elements of each array and writes as
            // many keys.
            unsafe { (self.kernel)(args.as_ptr(), 0, count as i64) };
        }
        let (keys, base, stride) = (&self.bytes, base - first, sort.stride);
        (0..sort.length).map(move |i| {
            let at = (base + i * stride) * size;
            word(&keys[at..at + size])
        })
    }
}

/// Up to eight bytes as a number, the lowest first.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
