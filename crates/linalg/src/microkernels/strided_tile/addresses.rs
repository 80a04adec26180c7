//! How a tile addresses the rows of the left operand.
//!
//! Rows that are one distance apart are addressed by one pointer and odd multiples of the distance, times 1, 2, 4 or 8,
//! which x86-64 adds for nothing. Others, such as the pixels that a convolution reads, by a pointer and a distance for
//! each, which is read from memory every time: as many loads again as there are rows, where two loads and four
//! operations in a cycle (Intel before Ice Lake) are what bounds a tile. Of 512 rows, columns and units a product takes
//! 1.1 times as long so (Cascade Lake, 27 November 2026). Left to itself, the compiler keeps a pointer for each row
//! that it moves along, most of them in memory.

/// Whether in each tile of so many rows neighbours are one distance apart.
#[inline(always)]
pub(super) fn are_even(rows: &[isize], height: usize) -> bool {
    let is_even = |tile: &[isize]| {
        let mut neighbours = tile.windows(3);
        neighbours.all(|rows| {
            matches!(rows, [before, row, after] if row.wrapping_sub(*before) == after.wrapping_sub(*row))
        })
    };
    height <= 2 || rows.chunks_exact(height).all(is_even)
}

/// The same number, of which the compiler knows nothing any more, so that it derives no others from it before a loop.
#[inline(always)]
pub(super) fn opaque(mut number: isize) -> isize {
    // SAFETY: there is no instruction, only a comment.
    unsafe {
        core::arch::asm!(
            "/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags)
        );
    }
    number
}
