//! Operations of 128-bit vectors, by element type.

/// A vector of sums or factors.
///
/// Functions that read memory take a number of lanes: the remaining lanes are 0, and their memory
/// is not read.
pub(crate) trait Vector: Copy {
    /// The type of a lane of the left operand and of the sums.
    type Unit: Copy;
    /// The type of a lane of the right operand in memory.
    type Right: Copy;
    /// The number of lanes.
    const LANES: usize;

    /// Zeros.
    fn zero() -> Self;

    /// Loads lanes of the right operand.
    ///
    /// # Safety
    /// The first `count` can be read; the CPU has the type's instructions.
    unsafe fn right(from: *const Self::Right, count: usize) -> Self;

    /// Loads contiguous units of the left operand. They are loaded as vectors and multiplied by
    /// lane, because loading one by one would broadcast each into all lanes.
    ///
    /// # Safety
    /// `M` units can be read.
    #[inline(always)]
    unsafe fn units<const M: usize>(from: *const Self::Unit) -> [Self::Unit; M] {
        // SAFETY: the caller promises `M` units.
        core::array::from_fn(|m| unsafe { *from.add(m) })
    }

    /// Loads units or sums.
    ///
    /// # Safety
    /// The first `count` can be read.
    unsafe fn load(from: *const Self::Unit, count: usize) -> Self;

    /// Stores sums.
    ///
    /// # Safety
    /// The first `count` can be written.
    unsafe fn store(self, to: *mut Self::Unit, count: usize);

    /// Adds the products of a unit and each lane, fused (rounded once).
    ///
    /// # Safety
    /// The CPU has the type's instructions.
    unsafe fn multiply_add(self, unit: Self::Unit, right: Self) -> Self;

    /// The sum of two vectors, lane by lane.
    fn plus(self, other: Self) -> Self;
}

/// Vectors whose lanes are single numbers.
pub(crate) trait Numbers: Vector {
    /// Adds the products of two vectors, lane by lane, fused (rounded once).
    fn multiply_add_lanes(self, left: Self, right: Self) -> Self;

    /// The horizontal sum of each vector.
    fn totals(sums: [Self; 4]) -> [Self::Unit; 4];
}

/// Prefetches an address's cache line into the first-level cache.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn fetch<T>(address: *const T) {
    // SAFETY: a prefetch accesses no memory, so any address is valid.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

/// Prefetches an address's cache line into the second-level cache.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn fetch_second<T>(address: *const T) {
    // SAFETY: a prefetch accesses no memory, so any address is valid.
    unsafe {
        core::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}
