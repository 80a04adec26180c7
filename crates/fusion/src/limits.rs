//! What a backend's kernels may keep: the limits of clustering and row fusion.

/// What kernels may keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of a row that a kernel may keep for itself; 0: kernels of rows are not
    /// made.
    pub row_bytes: usize,
    /// Rows of fewer columns stay as they are: what is done once per row and pass
    /// would cost more than the memory's time.
    pub min_columns: i64,
    /// Products of at most this depth, of which one operand has few rows or columns of its
    /// own, are computed where they are read, and sums of so many elements are written out;
    /// 0: routines compute all products, and sums are loops.
    pub shallow: usize,
    /// Whether kernels compute many elements at once, as the lanes of vectors: a loop inside
    /// of another one has no lanes, and elements at indices of their own are read one by one.
    pub lanes: bool,
    /// Points along short innermost dimensions that kernels with loops do as one, so that what
    /// does not depend on them is computed once; 0: none.
    pub short: i64,
    /// Whether updates of an array are spread over elements as soon as their order does not
    /// matter, at the cost of more reads: for machines of many threads, which are slow one by
    /// one.
    pub spread_updates: bool,
}

impl Limits {
    /// Points that the dimension before short ones has at least: along it there are lanes.
    pub const NEXT_TO_SHORT: i64 = 16;

    /// No kernels of rows.
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
    /// What a core's own cache keeps beside everything else that goes through it.
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
