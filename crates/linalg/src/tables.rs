//! Memory for the tables of routines, whose lengths are known when a routine is prepared: here, the
//! heap. In compiled programs, which have no heap, a module of the same name takes memory from the
//! caller.

/// A table.
pub(crate) type Table<T> = Vec<T>;

/// The bytes of a table in the caller's memory, where each begins at a multiple of 16.
#[cfg(feature = "std")]
pub(crate) fn bytes<T>(table: &Table<T>) -> usize {
    (table.len() * size_of::<T>()).next_multiple_of(16)
}

/// Memory for tables.
#[derive(Debug, Default)]
pub struct Tables;

impl Tables {
    /// A table of these items.
    pub(crate) fn table<T: Copy>(&mut self, items: impl Iterator<Item = T>) -> Table<T> {
        items.collect()
    }
}
