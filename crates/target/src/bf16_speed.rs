//! Times the CPU's dot products of bf16 pairs (AVX512-BF16), to decide whether they save time.
//!
//! AMD cores begin such a dot product in the time of an `f32` multiplication, and so do twice the
//! work. Intel's Golden Cove takes four times as long (0.75 ns and 0.19 ns, Emerald Rapids, 29
//! November 2026); there, converting the numbers to `f32` computes the same products twice as fast.
//! No CPU flag distinguishes the two.

use std::arch::asm;
use std::time::{Duration, Instant};

/// The maximum time of a dot product, in multiplications, at which dot products are used: one does
/// the work of two multiplications and makes conversions unnecessary. The measured CPUs have ratios
/// of 1 and 4, so noise does not matter.
const WORTH: u32 = 3;
/// The number of iterations of a timed loop: 3 us of the slowest instruction.
const TURNS: u64 = 256;
/// The number of times that each loop is timed. The shortest time is used, because disturbances
/// only lengthen it.
const ROUNDS: usize = 6;

/// A loop of independent instructions. There are more of them than the latency in cycles times the
/// number that begin in a cycle, so throughput is measured.
macro_rules! timed_loop {
    ($name:ident, $instruction:literal) => {
        /// # Safety
        /// The CPU has AVX-512 F and the instruction.
        #[target_feature(enable = "avx512f")]
        unsafe fn $name() {
            // SAFETY: it changes the listed registers and no memory; the CPU has the instruction.
            unsafe {
                asm!(
                    // Clears registers 0 to 15.
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

/// Whether products of bf16 numbers are faster with dot products of pairs than in `f32`.
///
/// # Safety
/// The CPU has AVX-512 F and AVX512-BF16, and the operating system saves their registers.
pub(crate) unsafe fn dot_products_pay() -> bool {
    let [mut dots, mut multiplied] = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        // SAFETY: the caller promises that the CPU has AVX-512 F and AVX512-BF16, and that the
        // operating system saves their registers.
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
