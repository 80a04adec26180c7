//! The description of a tile whose operands are read in place, without packing: the argument of the
//! functions of [`strided_tile`](super::strided_tile) and `amx`.

/// Elements of the depth with a constant stride in each operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The start in the left and the right operand: counted in elements if the operand is read in
    /// place, in groups of elements if it is packed.
    pub(crate) at: [isize; 2],
    pub(crate) length: usize,
}

/// One tile, or several of one height, one below the other: with a shallow depth, the cost of calls
/// matters.
pub(crate) struct Strided<'a> {
    /// The left operand.
    pub(crate) left: *const u8,
    /// Byte offsets of the rows from there: those of one tile, or of several if it prefetches
    /// nothing.
    pub(crate) rows: &'a [isize],
    /// Rows of a tile, at most the kernel's maximum.
    pub(crate) height: usize,
    /// The right operand's first column.
    pub(crate) right: *const u8,
    /// The bytes of a unit of [`Stretch::at`], for each operand.
    pub(crate) units: [isize; 2],
    /// The bytes between depth elements, for each operand.
    pub(crate) steps: [isize; 2],
    pub(crate) depth: &'a [Stretch],
    pub(crate) columns: usize,
    /// Element (row, column) is at `out + row_offsets[row] + column`, in elements.
    pub(crate) out: *mut u8,
    /// One offset for each row.
    pub(crate) row_offsets: &'a [isize],
    /// The stride of columns in the result, if the rows of each tile are adjacent there instead of
    /// its columns: for tiles of at most two vectors that prefetch nothing and are not added, of a
    /// kernel that `turns`.
    pub(crate) turned: Option<isize>,
    /// Whether sums are added to the old values.
    pub(crate) add: bool,
    /// What is prefetched during the computation: only for tiles that are narrow enough.
    pub(crate) fetch: Fetch,
}

/// What a tile prefetches while it multiplies: for each vector, the cache line of its last element.
/// If a vector spans two lines, the other one is the last line of the panel before.
#[derive(Clone, Copy)]
pub(crate) enum Fetch {
    Nothing,
    /// The right operand, some depth elements ahead. If the pointer is not null, the right
    /// operand's vectors are also copied there, group by group.
    Ahead(*mut u8),
    /// The data of later tiles.
    Later(Later),
}

/// Vectors that later tiles will read: for each depth element, as many as the tile has.
#[derive(Clone, Copy)]
pub(crate) struct Later {
    /// The address of the first one.
    pub(crate) from: *const u8,
    /// The bytes between depth elements.
    pub(crate) step: isize,
    /// The number of depth elements.
    pub(crate) count: usize,
}

impl Later {
    pub(crate) const NONE: Self = Self {
        from: core::ptr::null(),
        step: 0,
        count: 0,
    };
}
