//! Subnormal numbers count as zeros while a product is computed.
//!
//! Cores of Intel take some 150 cycles for a multiplication that meets a subnormal number, which 16 others
//! wait for: the state of a recurrent network whose gates are shut, or weights that decay, made products
//! 20 times slower. XLA:CPU computes whole programs so; here only products do, whose sums lose nothing
//! that counts unless a subnormal number meets one of the largest.

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
