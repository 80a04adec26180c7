//! The arithmetic of `mma.sync`, on registers only. The documentation of [`super::matrix`] says
//! which register holds each element.

use super::warp::Warp;
use crate::number::{BF16, F16, Rounding, TF32, canonical};
use crate::operation::{LANES, MatrixType, Multiply, Type};

/// The number of elements in a register.
fn each(kind: MatrixType) -> usize {
    match kind {
        MatrixType::Float(format) => match 1 + format.mantissa + format.exponent {
            8 => 4,
            16 => 2,
            _ => 1,
        },
        MatrixType::U8 | MatrixType::S8 => 4,
    }
}

/// Calls `each` with the elements of a register, at most four.
#[inline(always)]
fn elements(kind: MatrixType, register: u32, n: usize, mut each: impl FnMut(usize, f64)) {
    for e in 0..n {
        each(
            e,
            match kind {
                MatrixType::Float(format) if format == TF32 => {
                    // The lowest 13 bits of a tf32 are ignored.
                    f64::from(f32::from_bits(register & !0x1fff))
                }
                MatrixType::Float(format) if n == 2 => format.value(register >> (16 * e) & 0xffff),
                MatrixType::Float(format) => format.value(register >> (8 * e) & 0xff),
                MatrixType::U8 => f64::from((register >> (8 * e)) as u8),
                MatrixType::S8 => f64::from((register >> (8 * e)) as i8),
            },
        );
    }
}

/// The largest supported k.
const DEEPEST: usize = 32;

/// The operands as numbers, at most `K` deep: the rows of A and of B.
struct Factors<const K: usize> {
    a: [[f64; K]; 16],
    b: [[f64; 8]; K],
}

/// The two halves of each lane's register. The halves for eight rows (or columns) of four lanes are
/// adjacent.
#[inline(always)]
fn halves(kind: MatrixType, register: &[u32; LANES]) -> [f64; 2 * LANES] {
    let mut values = [0.0; 2 * LANES];
    for (pair, bits) in values.as_chunks_mut::<2>().0.iter_mut().zip(register) {
        *pair = match kind {
            MatrixType::Float(format) if format == F16 => [single(*bits), single(*bits >> 16)],
            _ => [bits << 16, bits & 0xffff_0000].map(f32::from_bits),
        }
        .map(f64::from);
    }
    values
}

/// Converts the f16 in the low half of a word.
#[inline(always)]
fn single(bits: u32) -> f32 {
    let magnitude = (bits & 0x7fff) << 13;
    // The exponents' biases differ by 112; infinities and NaNs keep the highest exponent.
    let usual = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let value = if bits & 0x7c00 == 0x7c00 {
        special
    } else {
        usual
    };
    f32::from_bits(value | (bits & 0x8000) << 16)
}

impl<const K: usize> Factors<K> {
    #[inline(always)]
    fn zeros() -> Self {
        Self {
            a: [[0.0; K]; 16],
            b: [[0.0; 8]; K],
        }
    }

    /// Reads bf16 or f16 elements.
    #[inline(always)]
    fn take_halves(&mut self, warp: &Warp, m: &Multiply) {
        for (index, register) in m.a.iter().enumerate() {
            let values = halves(m.a_type, warp.word(*register));
            let from = index / 2 * 8 % K;
            let rows = self.a[index % 2 * 8..].iter_mut();
            for (row, values) in rows.zip(values.as_chunks::<8>().0) {
                row[from..from + 8].copy_from_slice(values);
            }
        }
        for (index, register) in m.b.iter().enumerate() {
            let values = halves(m.b_type, warp.word(*register));
            let rows = self.b[index * 8 % K..].iter_mut().take(8);
            for (row, values_of_row) in rows.enumerate() {
                for (column, value) in values_of_row.iter_mut().enumerate() {
                    *value = values[8 * column + row];
                }
            }
        }
    }

    /// Reads elements of any type.
    fn take(&mut self, warp: &Warp, m: &Multiply) {
        let n = each(m.a_type);
        for (index, register) in m.a.iter().enumerate() {
            for (lane, value) in warp.word(*register).iter().enumerate() {
                let (row, column) = (lane / 4 + 8 * (index % 2), index / 2 * 4 * n + lane % 4 * n);
                elements(m.a_type, *value, n, |e, x| {
                    self.a[row][(column + e) % K] = x;
                });
            }
        }
        for (index, register) in m.b.iter().enumerate() {
            for (lane, value) in warp.word(*register).iter().enumerate() {
                let (column, row) = (lane / 4, index * 4 * n + lane % 4 * n);
                elements(m.b_type, *value, n, |e, x| {
                    self.b[(row + e) % K][column] = x;
                });
            }
        }
    }

    /// Products of these types are exact, so fused multiply-add gives the same sums.
    #[inline(always)]
    fn sums<const FUSED: bool>(&self, k: usize) -> [[f64; 8]; 16] {
        let mut sums = [[0.0f64; 8]; 16];
        // Four terms are added at a time, so that each sum is loaded and stored once for four
        // terms.
        let steps = self.b.as_chunks::<4>().0.iter().take(k / 4);
        for (step, b) in steps.enumerate() {
            for (sums, a) in sums.iter_mut().zip(&self.a) {
                let Some(a) = a.as_chunks::<4>().0.get(step) else {
                    continue;
                };
                let mut sum = *sums;
                for (a, b) in a.iter().zip(b) {
                    for (sum, b) in sum.iter_mut().zip(b) {
                        *sum = match FUSED {
                            true => a.mul_add(*b, *sum),
                            false => *sum + a * b,
                        };
                    }
                }
                *sums = sum;
            }
        }
        sums
    }
}

/// `mma` on all lanes; `FUSED` says that the processor has fused multiply-add.
#[inline(always)]
pub(super) fn multiply<const FUSED: bool>(warp: &mut Warp, m: &Multiply, active: u32) {
    let is_half =
        |kind| matches!(kind, MatrixType::Float(format) if format == F16 || format == BF16);
    let sums = if is_half(m.a_type) && is_half(m.b_type) && m.k == 16 {
        // The most common shape has loops of constant length.
        let mut factors = Factors::<16>::zeros();
        factors.take_halves(warp, m);
        factors.sums::<FUSED>(16)
    } else {
        let mut factors = Factors::<DEEPEST>::zeros();
        factors.take(warp, m);
        factors.sums::<FUSED>(m.k as usize)
    };
    if let (Type::F32, [d0, d1, d2, d3], [c0, c1, c2, c3]) = (m.result, &m.d[..], &m.c[..]) {
        let before = [c0, c1, c2, c3].map(|c| *warp.word(*c));
        for (half, (d, c)) in [[d0, d1], [d2, d3]]
            .iter()
            .zip(before.chunks(2))
            .enumerate()
        {
            let sums = sums[8 * half..8 * half + 8].as_flattened();
            for (e, (d, c)) in d.iter().zip(c).enumerate() {
                let mut values = [0; LANES];
                for lane in 0..LANES {
                    let sum = sums[2 * lane + e] + f64::from(f32::from_bits(c[lane]));
                    values[lane] = canonical(sum as f32);
                }
                warp.set_word(**d, active, &values);
            }
        }
        return;
    }
    for (index, (d, c)) in m.d.iter().zip(&m.c).enumerate() {
        let c = *warp.word(*c);
        let mut values = [0; LANES];
        for lane in 0..LANES {
            let (group, column) = (lane / 4, lane % 4 * 2);
            values[lane] = match m.result {
                Type::F16 => (0..2).fold(0, |value, e| {
                    let sum = sums[group + 8 * index][column + e];
                    let sum = sum + F16.value(c[lane] >> (16 * e) & 0xffff);
                    value | F16.round(sum, Rounding::NearestEven) << (16 * e)
                }),
                _ => {
                    let sum = sums[group + 8 * (index / 2)][column + index % 2] as i64;
                    let sum = sum + i64::from(c[lane] as i32);
                    let limit = |v: i64| v.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                    (if m.saturate { limit(sum) } else { sum }) as u32
                }
            };
        }
        warp.set_word(*d, active, &values);
    }
}
