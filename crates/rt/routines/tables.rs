//! Tables in memory that the caller provides.

use core::ops::Deref;
use core::slice;

/// A table.
#[derive(Debug)]
pub(crate) struct Table<T> {
    start: *const T,
    count: usize,
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the creator of the memory's `Tables` keeps it while its tables are used, and
        // `count` items were written. Tables that are only counted are not read.
        unsafe { slice::from_raw_parts(self.start, self.count) }
    }
}

/// Memory for tables.
#[derive(Debug)]
pub struct Tables {
    next: *mut u8,
    /// Whether tables are only counted, not stored.
    counts: bool,
    /// The bytes of all tables so far.
    pub bytes: usize,
}

impl Tables {
    /// Memory from an address on, aligned to 16.
    ///
    /// # Safety
    /// There is enough memory for the tables, for as long as they are used.
    pub unsafe fn at(start: *mut u8) -> Self {
        Self {
            next: start,
            counts: false,
            bytes: 0,
        }
    }

    /// Only counts bytes; no table may be read.
    pub fn counting() -> Self {
        Self {
            next: core::ptr::null_mut(),
            counts: true,
            bytes: 0,
        }
    }

    /// A table of these items.
    #[inline(always)]
    pub(crate) fn table<T: Copy>(&mut self, items: impl Iterator<Item = T>) -> Table<T> {
        let start = self.next.wrapping_add(self.bytes).cast::<T>();
        let mut count = 0;
        for item in items {
            if !self.counts {
                // SAFETY: there is room, by the promise to `at`.
                unsafe { start.add(count).write(item) };
            }
            count += 1;
        }
        self.bytes += (count * size_of::<T>()).next_multiple_of(16);
        Table { start, count }
    }
}
