//! The machine's roofline, measured: multiply-adds per second, and bytes copied per second by size.

#[cfg(target_arch = "x86_64")]
use tegula_target::{CpuFeatures, VectorWidth};

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The time for which a measurement is repeated; the fastest repetition counts.
const BUDGET: Duration = Duration::from_millis(20);
/// The maximum footprint: it exceeds any cache, and larger ones are no slower.
const MOST_BYTES: usize = 256 << 20;
const FEWEST_BYTES: usize = 8 << 10;

/// The measured peak rates of one thread.
#[derive(Debug, Default)]
pub struct Ceilings {
    operations: Option<f64>,
    /// Bytes per second, by the footprint (source and destination together).
    copies: BTreeMap<usize, f64>,
}

impl Ceilings {
    /// `f32` operations per second: products and sums in registers, each counted as one. `None` if
    /// the machine has no fused instruction for both.
    pub fn operations(&mut self) -> Option<f64> {
        if self.operations.is_none() {
            self.operations = fastest(multiply_and_add);
        }
        self.operations
    }

    /// Bytes read and written per second by a copy with about this footprint.
    pub fn bytes(&mut self, footprint: f64) -> f64 {
        let class = (footprint as usize).clamp(FEWEST_BYTES, MOST_BYTES);
        let class = class.next_power_of_two();
        *self.copies.entry(class).or_insert_with(|| {
            let (from, mut to) = (vec![1u8; class / 2], vec![0u8; class / 2]);
            // The library's copy bypasses the caches for large arrays, which it may do too early.
            let near = fastest(|| {
                copy_through_caches(black_box(&from), &mut to);
                black_box(&mut to);
                Some(class as f64)
            });
            let any = fastest(|| {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
                Some(class as f64)
            });
            near.unwrap_or(0.0).max(any.unwrap_or(0.0))
        })
    }
}

/// The highest rate of repetitions of some work.
fn fastest(mut work: impl FnMut() -> Option<f64>) -> Option<f64> {
    let (start, mut most) = (Instant::now(), 0f64);
    while start.elapsed() < BUDGET {
        let turn = Instant::now();
        let done = work()?;
        most = most.max(done / turn.elapsed().as_secs_f64().max(1e-9));
    }
    Some(most)
}

/// Iterations of the loop of one measurement.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const TURNS: u32 = 4000;

#[cfg(target_arch = "x86_64")]
fn multiply_and_add() -> Option<f64> {
    match CpuFeatures::detect().width {
        // SAFETY: the machine has AVX-512.
        VectorWidth::Avx512 => Some(unsafe { x86::avx512() }),
        // SAFETY: the machine has AVX2 and FMA.
        VectorWidth::Avx2 => Some(unsafe { x86::avx2() }),
        VectorWidth::Neon | VectorWidth::Portable => None,
    }
}

#[cfg(target_arch = "aarch64")]
fn multiply_and_add() -> Option<f64> {
    use std::arch::aarch64::{vdupq_n_f32, vfmaq_f32};
    /// Four units with a latency of four cycles each start one of these in each cycle.
    const CHAINS: usize = 24;
    // SAFETY: vectors are part of the architecture.
    unsafe {
        let factor = vdupq_n_f32(black_box(0.5));
        let mut sums = [vdupq_n_f32(1.0); CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = vfmaq_f32(*sum, factor, factor);
            }
        }
        black_box(sums);
    }
    Some(f64::from(TURNS) * CHAINS as f64 * 8.0)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn multiply_and_add() -> Option<f64> {
    None
}

/// Copies by loads and stores of the widest vectors.
#[cfg(target_arch = "x86_64")]
fn copy_through_caches(from: &[u8], to: &mut [u8]) {
    match CpuFeatures::detect().width {
        // SAFETY: the machine has AVX-512.
        VectorWidth::Avx512 => unsafe { x86::copy512(from, to) },
        // SAFETY: the machine has AVX.
        VectorWidth::Avx2 => unsafe { x86::copy256(from, to) },
        VectorWidth::Neon | VectorWidth::Portable => to.copy_from_slice(from),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn copy_through_caches(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::TURNS;
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
    };
    use std::hint::black_box;
    /// The number of independent sums: more than the latency of an instruction in cycles times the
    /// number that start in one cycle.
    const CHAINS: usize = 12;

    #[target_feature(enable = "avx512f")]
    pub(crate) fn avx512() -> f64 {
        let factor = _mm512_set1_ps(black_box(0.5));
        let mut sums = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, factor);
            }
        }
        black_box(sums);
        f64::from(TURNS) * CHAINS as f64 * 32.0
    }

    #[target_feature(enable = "avx512f")]
    pub(crate) fn copy512(from: &[u8], to: &mut [u8]) {
        for (from, to) in from.chunks_exact(64).zip(to.chunks_exact_mut(64)) {
            // SAFETY: both have 64 bytes.
            unsafe {
                let vector = _mm512_loadu_ps(from.as_ptr().cast());
                _mm512_storeu_ps(to.as_mut_ptr().cast(), vector);
            }
        }
    }

    #[target_feature(enable = "avx")]
    pub(crate) fn copy256(from: &[u8], to: &mut [u8]) {
        for (from, to) in from.chunks_exact(32).zip(to.chunks_exact_mut(32)) {
            // SAFETY: both have 32 bytes.
            unsafe {
                let vector = _mm256_loadu_ps(from.as_ptr().cast());
                _mm256_storeu_ps(to.as_mut_ptr().cast(), vector);
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn avx2() -> f64 {
        let factor = _mm256_set1_ps(black_box(0.5));
        let mut sums = [_mm256_set1_ps(1.0); CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, factor);
            }
        }
        black_box(sums);
        f64::from(TURNS) * CHAINS as f64 * 16.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn what_is_nearer_is_not_much_slower() {
        let mut ceilings = Ceilings::default();
        let (near, far) = (ceilings.bytes(32e3), ceilings.bytes(1e9));
        assert!(far > 1e8 && near > far / 2.0, "{near} {far}");
        assert!(ceilings.operations().is_none_or(|n| n > 1e9));
    }
}
