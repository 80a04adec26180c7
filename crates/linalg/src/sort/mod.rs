//! Sorts several arrays together: by a key if the comparator only compares one, otherwise by
//! calling the program's comparator.

mod merge;
mod order;
mod rank;

use crate::thread_pool::is_stopped;
use merge::merge_sort;
pub use order::KeyOrder;
use rank::sorted;

/// The maximum number of arrays that are sorted together.
pub const MAX_ARRAYS: usize = 64;

/// A function of a program; its arguments are the addresses of its arrays, and the first and the
/// end point of its domain.
pub type SortFn = unsafe extern "C" fn(*const *mut u8, i64, i64);

/// The program's functions for a sort.
#[derive(Clone, Copy)]
pub struct SortCode<'a> {
    /// The comparator: whether one element goes before another.
    pub comparator: SortFn,
    /// The key that the comparator compares, if it only compares one.
    pub key: Option<SortKey<'a>>,
}

/// A key of elements.
#[derive(Clone, Copy)]
pub struct SortKey<'a> {
    /// The function that computes the keys of many elements.
    pub function: SortFn,
    /// The arrays that it reads.
    pub arrays: &'a [usize],
    /// The order of the keys.
    pub order: KeyOrder,
}

/// The description of a sort.
#[derive(Clone, Copy, Debug)]
pub struct Sort<'a> {
    /// Elements along the sorted dimension.
    pub length: usize,
    /// The distance between them, in elements.
    pub stride: usize,
    /// The number of rows.
    pub rows: usize,
    /// The bytes of an element of each array; at most [`MAX_ARRAYS`] arrays.
    pub sizes: &'a [usize],
}

/// The caller's scratch memory, aligned to 16 bytes.
#[derive(Clone, Copy)]
struct Workspace(*mut u8);

impl Workspace {
    /// # Safety
    /// The memory has room for `count` elements from byte `at` on, a multiple of 16 unless elements
    /// are smaller; nobody else uses them; every bit pattern is a valid `T`.
    unsafe fn slice<'s, T>(self, at: usize, count: usize) -> &'s mut [T] {
        // SAFETY: the caller promises room for the elements, and that nobody else uses them.
        unsafe { core::slice::from_raw_parts_mut(self.0.wrapping_add(at).cast(), count) }
    }
}

/// The offsets of the workspace's parts.
struct Parts {
    /// The sort's scratch memory, after the order of a row.
    sorting: usize,
    /// A copy of a row that is sorted in place.
    copy: usize,
    /// The keys.
    keys: usize,
    end: usize,
}

/// The number of elements whose keys are computed at a time: their keys stay in the first-level
/// cache.
const KEYS_AT_ONCE: usize = 4096;

impl Sort<'_> {
    /// The number of elements whose keys are computed together: whole rows, which are not written
    /// before.
    fn together(&self) -> usize {
        let rows = (self.length * self.stride).max(1);
        rows * (KEYS_AT_ONCE / rows).max(1)
    }

    fn parts(&self, key_bytes: Option<usize>) -> Parts {
        let aligned = |bytes: usize| bytes.next_multiple_of(64);
        // Without rows, the length may exceed the memory.
        let length = if self.rows == 0 { 0 } else { self.length };
        let of_order = aligned(length * size_of::<u32>());
        // Keys that a 32-bit index cannot reach are not used.
        let sorting = match key_bytes {
            Some(bytes) => rank::workspace_bytes(length, bytes).max(of_order),
            None => of_order,
        };
        let largest = self.sizes.iter().copied().max().unwrap_or(0);
        let copy = of_order + aligned(sorting);
        let keys = copy + aligned(length * largest);
        let count = match self.rows {
            0 => 0,
            rows => self.together().min(rows * self.length),
        };
        Parts {
            sorting: of_order,
            copy,
            keys,
            end: keys + aligned(count * key_bytes.unwrap_or(0)),
        }
    }

    /// Bytes of scratch memory for a run with keys of this many bytes.
    pub fn scratch_bytes(&self, key_bytes: Option<usize>) -> usize {
        self.parts(key_bytes).end
    }

    /// Sorts.
    ///
    /// # Safety
    /// `inputs` and `outputs` are dense arrays of the sizes that this has, no output overlaps an
    /// input other than its own, which it may replace in place, and `code` is the sort's own.
    /// `scratch` has [`Self::scratch_bytes`], aligned to 64.
    pub unsafe fn run(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        code: &SortCode<'_>,
        scratch: *mut u8,
    ) {
        if self.rows == 0 || self.sizes.len() > MAX_ARRAYS {
            return;
        }
        let parts = self.parts(code.key.map(|key| key.order.bytes));
        let memory = Workspace(scratch);
        // SAFETY: the caller promises scratch memory, of which this is the first part.
        let order: &mut [u32] = unsafe { memory.slice(0, self.length) };
        let workspace = Workspace(scratch.wrapping_add(parts.sorting));
        let copy = scratch.wrapping_add(parts.copy);
        // A kernel's index has 32 bits.
        let fits = self.rows * self.length <= i32::MAX as usize;
        let keys = scratch.wrapping_add(parts.keys);
        let key = code.key.filter(|_| fits);
        let mut keys = key.map(|key| Keys::new(self, key, keys));
        for row in 0..self.rows {
            if is_stopped() {
                return;
            }
            let base = row / self.stride * self.stride * self.length + row % self.stride;
            match &mut keys {
                Some(keys) => {
                    let by = keys.key.order;
                    // SAFETY: the caller promises arrays of the sizes that this has, and the sort's
                    // own code.
                    unsafe { keys.compute(self, inputs, base) };
                    let ranks = (0..self.length).map(|i| by.rank(keys.bits(base, i, self.stride)));
                    sorted(ranks, by.bytes, workspace, order);
                }
                None => {
                    for (position, slot) in (0..).zip(&mut *order) {
                        *slot = position;
                    }
                    // SAFETY: the caller promises arrays of the sizes that this has, the sort's own
                    // code, and scratch memory; the row at `base` is inside of the arrays.
                    unsafe {
                        let other = workspace.slice(0, self.length);
                        self.merge(inputs, code.comparator, base, (order, other));
                    }
                }
            }
            for ((&input, &output), &size) in inputs.iter().zip(outputs).zip(self.sizes) {
                let place = Elements {
                    base: base * size,
                    step: self.stride * size,
                    size,
                };
                let ordered = order.iter().copied();
                // SAFETY: the row's elements are inside of both arrays, and the copy has room for
                // as many.
                unsafe {
                    if input != output.cast_const() {
                        move_elements(ordered, (input, output), [place, place]);
                        continue;
                    }
                    let packed = Elements {
                        base: 0,
                        step: size,
                        size,
                    };
                    let all = 0..self.length as u32;
                    move_elements(all, (input, copy), [place, packed]);
                    move_elements(ordered, (copy, output), [packed, place]);
                }
            }
        }
    }

    /// Sorts the indices of a row's elements by the comparator.
    ///
    /// # Safety
    /// As [`Self::run`]; the arrays have a row that starts at element `base`.
    unsafe fn merge(
        &self,
        inputs: &[*const u8],
        comparator: SortFn,
        base: usize,
        (order, other): (&mut [u32], &mut [u32]),
    ) {
        let mut result = 0u8;
        let mut args = [core::ptr::null_mut::<u8>(); 2 * MAX_ARRAYS + 1];
        args[2 * inputs.len()] = &raw mut result;
        merge_sort(order, other, &mut |a, b| {
            for (i, (&input, &size)) in inputs.iter().zip(self.sizes).enumerate() {
                let at = |k: u32| (base + k as usize * self.stride) * size;
                // SAFETY: both elements are inside of the input.
                unsafe {
                    args[2 * i] = input.add(at(a)).cast_mut();
                    args[2 * i + 1] = input.add(at(b)).cast_mut();
                }
            }
            // SAFETY: the comparator reads two elements of each array and
            // writes one byte, all of which `args` points to.
            unsafe { comparator(args.as_ptr(), 0, 1) };
            // SAFETY: `result` is a live local; it is read through its own address because the
            // comparator wrote it without the compiler's knowledge.
            unsafe { core::ptr::read_volatile(&raw const result) != 0 }
        });
    }
}

/// The layout of a row's elements in memory, in bytes.
#[derive(Clone, Copy)]
struct Elements {
    /// The first element's offset.
    base: usize,
    /// The distance between elements.
    step: usize,
    size: usize,
}

/// Moves the elements of a row in the order of `order`.
///
/// # Safety
/// The elements are inside of the memory that the pointers point to; the two do not overlap.
unsafe fn move_elements(
    order: impl Iterator<Item = u32>,
    pointers: (*const u8, *mut u8),
    [source, target]: [Elements; 2],
) {
    let (input, output) = pointers;
    for (to, from) in order.enumerate() {
        // SAFETY: the caller promises that the elements are inside of the memory that the pointers
        // point to, and that the two do not overlap.
        unsafe {
            let from = input.add(source.base + from as usize * source.step);
            let to = output.add(target.base + to * target.step);
            match source.size {
                4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
                size => core::ptr::copy_nonoverlapping(from, to, size),
            }
        }
    }
}

/// The keys of consecutive elements: whole rows, in the arrays' order.
struct Keys<'a> {
    key: SortKey<'a>,
    bytes: *mut u8,
    /// The number of elements whose keys are computed together.
    together: usize,
    /// The element of the first key, if keys have been computed.
    first: Option<usize>,
}

impl<'a> Keys<'a> {
    fn new(sort: &Sort<'_>, key: SortKey<'a>, bytes: *mut u8) -> Self {
        Self {
            key,
            bytes,
            together: sort.together(),
            first: None,
        }
    }

    /// Computes the keys of the row that starts at `base`, and of the rows next to it.
    ///
    /// # Safety
    /// As [`Sort::run`]; `sort` is the sort that this was made for, and has such a row.
    unsafe fn compute(&mut self, sort: &Sort<'_>, inputs: &[*const u8], base: usize) {
        let first = base / self.together * self.together;
        if self.first == Some(first) {
            return;
        }
        self.first = Some(first);
        let count = self.together.min(sort.rows * sort.length - first);
        let mut args = [core::ptr::null_mut::<u8>(); MAX_ARRAYS + 1];
        for (arg, &array) in args.iter_mut().zip(self.key.arrays) {
            // SAFETY: the array has an element with this number, because a row starts there or
            // later.
            *arg = unsafe { inputs[array].add(first * sort.sizes[array]) }.cast_mut();
        }
        args[self.key.arrays.len()] = self.bytes;
        // SAFETY: the kernel reads that many elements of each array and writes as
        // many keys.
        unsafe { (self.key.function)(args.as_ptr(), 0, count as i64) };
    }

    /// The bits of an element's computed key, in the row that starts at `base`.
    #[inline(always)]
    fn bits(&self, base: usize, element: usize, stride: usize) -> u64 {
        let index = base - self.first.unwrap_or(0) + element * stride;
        let size = self.key.order.bytes;
        let at = self.bytes.wrapping_add(index * size);
        // SAFETY: the key is one of those that were computed, and has this many bytes.
        unsafe {
            match size {
                4 => at.cast::<u32>().read_unaligned().into(),
                2 => at.cast::<u16>().read_unaligned().into(),
                1 => at.read().into(),
                _ => at.cast::<u64>().read_unaligned(),
            }
        }
    }
}
