//! How a tile addresses the rows of the left operand: by one pointer and odd multiples of their distance, times 1, 2, 4
//! or 8, which x86-64 adds for nothing.
//!
//! Left to itself, the compiler keeps a pointer for each row that it moves along, most of them in memory: as many loads
//! again as there are rows, where two loads and four operations in a cycle (Intel before Ice Lake) are what bounds a
//! tile. Of 512 rows, columns and units a product takes 1.1 times as long so (Cascade Lake, 27 November 2026).

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
