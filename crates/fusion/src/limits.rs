//! Per-backend limits of clustering and row fusion.

/// Limits on the kernels that fusion makes for a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The most bytes of a row that a row-fused kernel may keep for itself; 0 disables row fusion.
    pub row_bytes: usize,
    /// The least number of columns for row fusion: for shorter rows, the cost per row and pass
    /// exceeds the memory traffic saved.
    pub min_columns: i64,
    /// Products of at most this depth, one operand of which has few rows or columns of its own, are
    /// computed where they are read, and sums of at most this many elements are unrolled. 0:
    /// library routines compute all products, and sums are loops.
    pub shallow: usize,
    /// Whether kernels are vectorised. An inner loop is not vectorised then, and a gather of single
    /// elements is scalar.
    pub lanes: bool,
    /// The most points along short innermost dimensions that a kernel with loops computes together,
    /// so that what does not depend on these dimensions is computed once; 0 disables this.
    pub short: i64,
    /// Whether updates become a computation per element, at the cost of more reads, whenever their
    /// order does not matter. This is for machines with many threads, each of them slow.
    pub spread_updates: bool,
}

impl Limits {
    /// The least extent of the dimension before short ones, which is the one that is vectorised.
    pub const NEXT_TO_SHORT: i64 = 16;

    /// No row fusion, no unrolling, no vectors.
    pub const NO_ROWS: Self = Self {
        row_bytes: 0,
        min_columns: i64::MAX,
        shallow: 0,
        lanes: false,
        short: 0,
        spread_updates: false,
    };
}

impl Default for Limits {
    /// For a CPU: the row should fit a core's own cache together with the other data that is
    /// accessed.
    fn default() -> Self {
        Self {
            row_bytes: 128 << 10,
            min_columns: 12,
            shallow: 8,
            lanes: true,
            short: 4,
            spread_updates: false,
        }
    }
}
