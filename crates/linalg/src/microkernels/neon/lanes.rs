//! Operations of 128-bit vectors, by element type.

/// A vector of sums, or of what is multiplied.
///
/// The functions that read take a number of lanes: others are 0 and not read.
pub(crate) trait Vector: Copy {
    /// What a lane of the left operand and of the sums is.
    type Unit: Copy;
    /// What a lane of the right operand is in memory.
    type Right: Copy;
    /// How many lanes there are.
    const LANES: usize;

    /// Zeros.
    fn zero() -> Self;

    /// Lanes of the right operand.
    ///
    /// # Safety
    /// The first `count` can be read; the CPU has the type's instructions.
    unsafe fn right(from: *const Self::Right, count: usize) -> Self;

    /// Units of the left operand, one after the other: as vectors, whose lanes are multiplied, where one
    /// by one would mean a copy of each into all lanes.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    unsafe fn units<const M: usize>(from: *const Self::Unit) -> [Self::Unit; M] {
        // SAFETY: the caller promises so many.
        core::array::from_fn(|m| unsafe { *from.add(m) })
    }

    /// Units or sums.
    ///
    /// # Safety
    /// The first `count` can be read.
    unsafe fn load(from: *const Self::Unit, count: usize) -> Self;

    /// Stores sums.
    ///
    /// # Safety
    /// The first `count` can be written.
    unsafe fn store(self, to: *mut Self::Unit, count: usize);

    /// Adds the products of a unit and each lane, rounded once.
    ///
    /// # Safety
    /// The CPU has the type's instructions.
    unsafe fn multiply_add(self, unit: Self::Unit, right: Self) -> Self;

    /// The sums of both.
    fn plus(self, other: Self) -> Self;
}

/// Vectors whose lanes are numbers.
pub(crate) trait Numbers: Vector {
    /// Adds the products of two vectors, lane by lane, rounded once.
    fn multiply_add_lanes(self, left: Self, right: Self) -> Self;

    /// The sums of each vector's lanes.
    fn totals(sums: [Self; 4]) -> [Self::Unit; 4];
}

/// Fetches the line of an address into the cache that is the nearest.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn fetch<T>(address: *const T) {
    // SAFETY: to fetch accesses nothing: any address will do.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

/// The same into the second-level cache.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn fetch_second<T>(address: *const T) {
    // SAFETY: to fetch accesses nothing: any address will do.
    unsafe {
        core::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}
