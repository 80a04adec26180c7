//! Whether the CPU's dot products of pairs of bf16 (AVX512-BF16) save time, found by timing them.
//!
//! Cores of AMD begin one in the time of a multiplication of `f32`, and so do twice the work. Intel's Golden
//! Cove takes four times as long (0.75 ns and 0.19 ns, Emerald Rapids, 29 November 2026): there the same
//! products are computed twice as fast by converting the numbers to `f32`. No flag of the CPU says which it is.

use std::arch::asm;
use std::time::{Duration, Instant};

/// Dot products are used if one takes at most so many times as long as a multiplication: it does the work
/// of two and spares converting. The CPUs that were measured are at 1 and at 4, so noise changes nothing.
const WORTH: u32 = 3;
/// Turns of a loop that are timed: 3 us of the slowest instruction.
const TURNS: u64 = 256;
/// How often each loop is timed. The fastest counts: what disturbs only makes it slower.
const ROUNDS: usize = 6;

/// A loop of independent instructions: more than one of them takes cycles, times how many begin in a cycle.
macro_rules! timed_loop {
    ($name:ident, $instruction:literal) => {
        /// # Safety
        /// The CPU has AVX-512 F and the instruction.
        #[target_feature(enable = "avx512f")]
        unsafe fn $name() {
            // SAFETY: it changes the registers that are listed and no memory; the CPU has the instruction.
            unsafe {
                asm!(
                    // Registers 0 to 15.
                    "vzeroall",
                    "2:",
                    concat!($instruction, " zmm0, zmm15, zmm15"),
                    concat!($instruction, " zmm1, zmm15, zmm15"),
                    concat!($instruction, " zmm2, zmm15, zmm15"),
                    concat!($instruction, " zmm3, zmm15, zmm15"),
                    concat!($instruction, " zmm4, zmm15, zmm15"),
                    concat!($instruction, " zmm5, zmm15, zmm15"),
                    concat!($instruction, " zmm6, zmm15, zmm15"),
                    concat!($instruction, " zmm7, zmm15, zmm15"),
                    concat!($instruction, " zmm8, zmm15, zmm15"),
                    concat!($instruction, " zmm9, zmm15, zmm15"),
                    concat!($instruction, " zmm10, zmm15, zmm15"),
                    concat!($instruction, " zmm11, zmm15, zmm15"),
                    "dec {turns}",
                    "jnz 2b",
                    turns = inout(reg) TURNS => _,
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _,
                    out("zmm5") _, out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _,
                    out("zmm10") _, out("zmm11") _, out("zmm12") _, out("zmm13") _,
                    out("zmm14") _, out("zmm15") _,
                    options(nomem, nostack),
                );
            }
        }
    };
}

timed_loop!(dot_products, "vdpbf16ps");
timed_loop!(multiplications, "vfmadd231ps");

/// Whether products of bf16 are faster by dot products of pairs than in `f32`.
///
/// # Safety
/// The CPU has AVX-512 F and AVX512-BF16, and the operating system keeps their registers.
pub(crate) unsafe fn dot_products_pay() -> bool {
    let [mut dots, mut multiplied] = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        // SAFETY: the caller promises.
        unsafe {
            dots = dots.min(time(|| dot_products()));
            multiplied = multiplied.min(time(|| multiplications()));
        }
    }
    dots <= multiplied * WORTH
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
