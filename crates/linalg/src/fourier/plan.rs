//! Plans: the passes of each dimension's lines, and the numbers that they multiply by, in double
//! precision rounded once.

use super::lines::{FOUR, MAX_RADIX, table_numbers};
use super::{BACK_TO_REAL, FORWARD, Fourier, INVERSE, REAL, Real};
use crate::microkernels::CpuFeatures;
use std::f64::consts::TAU;
use tegula_ir::FftType;

/// A planned transform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is done.
    pub words: Vec<i64>,
    /// What is multiplied by.
    pub numbers: Vec<f64>,
}

impl Plan {
    /// A transform of the last `count` dimensions of the real or full complex array.
    pub fn new(kind: FftType, dims: &[usize], count: usize) -> Self {
        let count = count.min(dims.len());
        let kind = match kind {
            FftType::Fft => FORWARD,
            FftType::Ifft => INVERSE,
            FftType::Rfft => REAL,
            FftType::Irfft => BACK_TO_REAL,
        };
        let mut words = vec![kind, dims.len() as i64, count as i64];
        words.extend(dims.iter().map(|&size| size as i64));
        let transformed = &dims[dims.len() - count..];
        let mut numbers: Vec<f64> = transformed
            .iter()
            .map(|&size| 1.0 / size.max(1) as f64)
            .collect();
        for &length in transformed {
            let start = numbers.len();
            let (radices, convolved) = match radices(length) {
                Some(radices) => {
                    passes(&radices, length, &mut numbers);
                    (radices, 0)
                }
                None => convolution(length, &mut numbers),
            };
            let own = numbers.len() - start;
            words.extend([start, own, convolved, radices.len()].map(|n| n as i64));
            words.extend(radices.iter().map(|&radix| radix as i64));
        }
        Self { words, numbers }
    }

    /// Bytes of scratch memory that a run needs, of numbers of so many bytes.
    pub fn scratch_bytes(&self, number: usize) -> usize {
        let transform = Fourier::new(&self.words, &self.numbers);
        transform.scratch_bytes() / size_of::<f64>() * number
    }
}

/// The radices of a length without large prime factors.
fn radices(length: usize) -> Option<Vec<usize>> {
    let mut left = length.max(1);
    let mut radices = Vec::new();
    for radix in [FOUR, 2].into_iter().chain((3..=MAX_RADIX).step_by(2)) {
        while left.is_multiple_of(radix) {
            radices.push(radix);
            left /= radix;
        }
    }
    (left == 1).then_some(radices)
}

/// The root of unity by which the transform multiplies: `exp(-2 pi i k / n)`.
fn root(k: usize, n: usize) -> [f64; 2] {
    // Exact where the sine or the cosine is 0 or 1, and as exact as the first octant elsewhere.
    let k = k % n;
    let eighths = 8 * k / n;
    let rest = |from: usize| (8 * k).abs_diff(from * n) as f64 / (8 * n) as f64 * TAU;
    let (cos, sin) = match eighths {
        0 => (rest(0).cos(), rest(0).sin()),
        1 => (rest(2).sin(), rest(2).cos()),
        2 => (-rest(2).sin(), rest(2).cos()),
        3 => (-rest(4).cos(), rest(4).sin()),
        4 => (-rest(4).cos(), -rest(4).sin()),
        5 => (-rest(6).sin(), -rest(6).cos()),
        6 => (rest(6).sin(), -rest(6).cos()),
        _ => (rest(8).cos(), -rest(8).sin()),
    };
    [cos, -sin]
}

fn passes(radices: &[usize], length: usize, numbers: &mut Vec<f64>) {
    let end = numbers.len() + table_numbers(radices.iter().copied(), length);
    let mut left = length;
    for &radix in radices {
        let whole = left;
        left /= radix;
        numbers.extend((0..radix).flat_map(|k| root(k, radix)));
        for group in 0..left {
            numbers.extend((1..radix).flat_map(|part| root(group * part, whole)));
        }
    }
    debug_assert_eq!(numbers.len(), end);
}

/// A convolution of at least twice the length, and its numbers: what a line is multiplied by, the
/// filter's transform, and the passes.
fn convolution(length: usize, numbers: &mut Vec<f64>) -> (Vec<usize>, usize) {
    let room = (2 * length - 1).next_power_of_two();
    // A power of two has radices.
    let radices = radices(room).unwrap_or_default();
    // `exp(-pi i k^2 / n)`.
    let square = |k: usize| (k as u128 * k as u128 % (2 * length) as u128) as usize;
    let chirp: Vec<[f64; 2]> = (0..length).map(|k| root(square(k), 2 * length)).collect();
    numbers.extend(chirp.iter().flatten());
    let mut tables = Vec::new();
    passes(&radices, room, &mut tables);
    let mut words = vec![FORWARD, 1, 1, room as i64];
    words.extend([0, tables.len(), 0, radices.len()].map(|n| n as i64));
    words.extend(radices.iter().map(|&radix| radix as i64));
    let mut filter = vec![0.0; 2 * room];
    for (k, [re, im]) in chirp.iter().enumerate() {
        for at in [k, (room - k) % room] {
            (filter[2 * at], filter[2 * at + 1]) = (re / room as f64, -im / room as f64);
        }
    }
    let transform = Fourier::new(&words, &tables);
    let mut scratch = vec![f64::ZERO; transform.scratch_bytes() / size_of::<f64>()];
    let mut transformed = vec![0.0; 2 * room];
    // SAFETY: both arrays have the sizes of the transform, and the scratch memory what it asks for.
    unsafe {
        transform.run(
            CpuFeatures::default(),
            filter.as_ptr(),
            transformed.as_mut_ptr(),
            scratch.as_mut_ptr(),
        );
    }
    numbers.extend(transformed);
    numbers.extend(tables);
    (radices, room)
}
