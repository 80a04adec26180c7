//! Addressing of the left operand's rows in a tile.
//!
//! Equally spaced rows are addressed by one pointer and odd multiples of the distance, times 1, 2,
//! 4 or 8: x86-64's addressing modes scale for free. Other rows, such as the pixels that a
//! convolution reads, need a pointer and an offset for each, which is loaded from memory every
//! time: this adds as many loads as there are rows, and tiles are bound by two loads and four
//! operations in a cycle (Intel before Ice Lake). A product of 512 rows, columns and units takes
//! 1.1 times as long this way (Cascade Lake, 27 November 2026). Without this scheme, the compiler
//! keeps and advances a pointer for each row, and spills most of them to memory.

/// Whether the rows of each tile are equally spaced, for tiles of this height.
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

/// The same number, opaque to the compiler, so that it does not precompute values derived from it
/// before a loop.
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
