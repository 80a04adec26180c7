//! Flushes subnormal numbers to zero while a product is computed.
//!
//! Intel's cores take about 150 cycles for a multiplication with a subnormal operand, and the other
//! 15 lanes of the vector wait: the state of a recurrent network whose gates are shut, or decaying
//! weights, made products 20 times slower. XLA:CPU runs whole programs in this mode. Here only
//! products use it: their sums lose nothing significant unless a subnormal number is multiplied by
//! one of the largest numbers.

/// The mode is switched for at least this many multiplications: two switches take as long as a few
/// hundred multiplications in vectors.
const WORTH: f64 = 4096.0;

/// A guard: until it is dropped, this thread's arithmetic treats subnormal operands as zeros and
/// flushes subnormal results to zero. It has no effect on architectures other than x86-64, whose
/// cores are not slowed down by subnormal numbers.
pub(super) struct SubnormalsAsZeros {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

impl SubnormalsAsZeros {
    /// The guard for a product with this many multiplications and elements of this many bytes.
    /// `None` if the product is too small, or if elements have 16 bits: their subnormal numbers
    /// matter ([`super::subnormals`]), and those of `f16` are normal after conversion for
    /// multiplication.
    pub(super) fn for_work(multiplications: f64, bytes: usize) -> Option<Self> {
        (multiplications >= WORTH && bytes > 2).then(Self::enter)
    }

    #[cfg(target_arch = "x86_64")]
    fn enter() -> Self {
        /// Flush results to zero (bit 15), denormals are zeros (bit 6).
        const ZEROS: u32 = 1 << 15 | 1 << 6;
        let mut before = 0u32;
        // SAFETY: the instruction writes these four bytes.
        unsafe {
            core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack, preserves_flags));
        }
        control(before | ZEROS);
        Self { before }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn enter() -> Self {
        Self {}
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for SubnormalsAsZeros {
    fn drop(&mut self) {
        control(self.before);
    }
}

/// Sets the register that controls arithmetic of floats.
#[cfg(target_arch = "x86_64")]
fn control(word: u32) {
    // SAFETY: the instruction reads these four bytes: the register's old value, possibly with two
    // bits set that every x86-64 CPU has.
    unsafe {
        core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags));
    }
}
