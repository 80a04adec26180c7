//! Flushes subnormal numbers to zero while a product is computed.
//!
//! Intel's cores take about 150 cycles for a multiplication with a subnormal operand, and the other
//! 15 lanes of the vector wait: the state of a recurrent network whose gates are shut, or decaying
//! weights, made products 20 times slower. XLA:CPU runs whole programs in this mode. Here only
//! products use it: their sums lose nothing significant unless a subnormal number is multiplied by
//! one of the largest numbers.

/// Multiplications from which on a product is computed so. To change the mode twice takes as long as some
/// hundred of them in vectors.
const WORTH: f64 = 4096.0;

/// Until it is dropped, arithmetic of this thread takes zeros for subnormal numbers and gives zeros in
/// their place. On other architectures than x86-64, whose cores do not mind them, nothing changes.
pub(super) struct SubnormalsAsZeros {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

impl SubnormalsAsZeros {
    /// For a product of so many multiplications and of numbers of so many bytes; `None` if it is too small
    /// for that, or of 16 bits: their subnormal numbers count ([`super::subnormals`]), and those of `f16` are
    /// none any more when they are multiplied.
    pub(super) fn for_work(multiplications: f64, bytes: usize) -> Option<Self> {
        (multiplications >= WORTH && bytes > 2).then(Self::enter)
    }

    #[cfg(target_arch = "x86_64")]
    fn enter() -> Self {
        /// Results (bit 15) and operands (bit 6).
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
    // SAFETY: the instruction reads these four bytes: what the register held, perhaps with two bits that
    // every CPU of x86-64 has.
    unsafe {
        core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags));
    }
}
