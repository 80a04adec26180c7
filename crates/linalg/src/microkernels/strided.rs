//! The description of a tile whose operands are read in place, without packing: the argument of the
//! functions of [`strided_tile`](super::strided_tile) and `amx`.

/// Elements of the depth that are one stride apart in each operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Where it begins in the left and the right operand: counted in elements if the operand is read
    /// in place, in groups of elements if it is packed.
    pub(crate) at: [isize; 2],
    pub(crate) length: usize,
}

/// One tile, or several of one height, one below the other: where the depth is small, what a
/// call takes counts.
pub(crate) struct Strided<'a> {
    /// The left operand.
    pub(crate) left: *const u8,
    /// Bytes from there to its rows: those of one tile, or of several if it fetches nothing.
    pub(crate) rows: &'a [isize],
    /// Rows of a tile, at most the kernel's.
    pub(crate) height: usize,
    /// The right operand's first column.
    pub(crate) right: *const u8,
    /// Bytes of what [`Stretch::at`] counts, of each operand.
    pub(crate) units: [isize; 2],
    /// Bytes from one element of the depth to the next, of each operand.
    pub(crate) steps: [isize; 2],
    pub(crate) depth: &'a [Stretch],
    pub(crate) columns: usize,
    /// Element (row, column) is at `out + row_offsets[row] + column`, in elements.
    pub(crate) out: *mut u8,
    /// One offset for each row.
    pub(crate) row_offsets: &'a [isize],
    /// The distance of columns in the result, if there the rows of each tile, not its columns,
    /// are neighbours: for tiles of at most two vectors that fetch nothing and are not added, of
    /// a kernel that `turns`.
    pub(crate) turned: Option<isize>,
    /// Whether sums are added to what is there.
    pub(crate) add: bool,
    /// What is fetched on the way: for tiles that are not too wide for it.
    pub(crate) fetch: Fetch,
}

/// What a tile fetches into a cache while it multiplies: of each vector the line of its last
/// element. If that is not the only one, the other one is the last of the panel before.
#[derive(Clone, Copy)]
pub(crate) enum Fetch {
    Nothing,
    /// The right operand some elements of the depth ahead. Its vectors are copied to
    /// here on the way, group by group, if that is not null.
    Ahead(*mut u8),
    /// What later tiles will read.
    Later(Later),
}

/// Vectors that later tiles will read, as many as the tile has of each element of the depth.
#[derive(Clone, Copy)]
pub(crate) struct Later {
    /// The first of them.
    pub(crate) from: *const u8,
    /// Bytes from one element of the depth to the next.
    pub(crate) step: isize,
    /// How many elements.
    pub(crate) count: usize,
}

impl Later {
    pub(crate) const NONE: Self = Self {
        from: core::ptr::null(),
        step: 0,
        count: 0,
    };
}
