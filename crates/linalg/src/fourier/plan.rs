//! Plans: the passes of each dimension's lines, and the numbers that they multiply by, in double
//! precision rounded once.

use super::passes::{FOUR, LANES, MAX_RADIX, table_numbers};
use super::{BACK_TO_REAL, FORWARD, Fourier, INVERSE, REAL, Real};
use crate::microkernels::CpuFeatures;
use std::f64::consts::TAU;
use tegula_ir::FftType;

/// The fewest rows and columns of a line that is a matrix.
const MIN_SIDE: usize = 8;
/// So many lines fill vectors as lanes.
const FEW_LINES: usize = 8;

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
        for (dim, &length) in transformed.iter().enumerate() {
            let start = numbers.len();
            // Numbers of other lines than those along the last dimension are no neighbours.
            let lines = match dim + 1 == count {
                true => dims[..dims.len() - 1]
                    .iter()
                    .fold(1, |lines: usize, &size| lines.saturating_mul(size)),
                false => usize::MAX,
            };
            let (rows, columns) = match (radices(length), matrix(length, lines)) {
                (Some(_), Some(sides)) => {
                    matrix_numbers(sides, &mut numbers);
                    sides
                }
                (Some(radices), None) => {
                    passes(&radices, length, &mut numbers);
                    (length, 0)
                }
                (None, _) => convolution(length, &mut numbers),
            };
            let both = [rows, columns].map(|length| radices(length).unwrap_or_default());
            words.extend([start, numbers.len() - start, rows, columns].map(|n| n as i64));
            words.extend(both.each_ref().map(|radices| radices.len() as i64));
            words.extend(both.iter().flatten().map(|&radix| radix as i64));
        }
        Self { words, numbers }
    }

    /// Bytes of scratch memory that a run needs, of numbers of so many bytes.
    pub fn scratch_bytes(&self, number: usize) -> usize {
        let transform = Fourier::new(&self.words, &self.numbers);
        transform.scratch_bytes() / size_of::<f64>() * number
    }
}

/// The rows and columns of the matrix that each of so many lines is transformed as: of lines without large
/// prime factors, where neither side is short, and both fill vectors of lanes. Many lines may be lanes
/// themselves.
fn matrix(length: usize, lines: usize) -> Option<(usize, usize)> {
    let fill = |rows: usize, columns: usize| {
        rows * columns.next_multiple_of(LANES) + columns * rows.next_multiple_of(LANES)
    };
    let most = match lines {
        0..FEW_LINES => 4 * length,
        usize::MAX => 0,
        _ => 9 * length / 4,
    };
    let sides = (MIN_SIDE..length).take_while(|side| side * side <= length);
    let sides = sides.filter(|side| length.is_multiple_of(*side));
    let sides = sides.flat_map(|side| [(side, length / side), (length / side, side)]);
    let sides = sides.filter(|&(rows, columns)| fill(rows, columns) <= most);
    // Of those that fill vectors alike, the sides that are nearest to each other.
    sides.min_by_key(|&(rows, columns)| (fill(rows, columns), rows.max(columns), rows))
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
    // The first and the last pass are of the radix that reads and writes lines, if two are.
    let fours = radices.iter().take_while(|&&radix| radix == FOUR).count();
    if fours > 1 {
        radices[fours - 1..].rotate_left(1);
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

/// The numbers of a line as a matrix: those of its columns' and rows' passes, and the roots of unity
/// between.
fn matrix_numbers((rows, columns): (usize, usize), numbers: &mut Vec<f64>) {
    for side in [rows, columns] {
        // Whoever chose the sides has seen to it that they have radices.
        passes(&radices(side).unwrap_or_default(), side, numbers);
    }
    let wide = columns.next_multiple_of(LANES);
    for row in 0..rows {
        for part in [0, 1] {
            let of_column = |column: usize| match column < columns {
                true => root(row * column, rows * columns)[part],
                false => 0.0,
            };
            numbers.extend((0..wide).map(of_column));
        }
    }
}

/// A convolution of at least twice the length, and its numbers: what a line is multiplied by, the
/// filter's transform, and those of the matrix that it is. Gives the matrix's sides.
fn convolution(length: usize, numbers: &mut Vec<f64>) -> (usize, usize) {
    let (room, sides) = convolution_length(2 * length - 1);
    let plan = Plan::new(FftType::Fft, &[room], 1);
    // `exp(-pi i k^2 / n)`.
    let square = |k: usize| (k as u128 * k as u128 % (2 * length) as u128) as usize;
    let chirp: Vec<[f64; 2]> = (0..length).map(|k| root(square(k), 2 * length)).collect();
    numbers.extend(chirp.iter().flatten());
    let mut filter = vec![0.0; 2 * room];
    for (k, [re, im]) in chirp.iter().enumerate() {
        for at in [k, (room - k) % room] {
            (filter[2 * at], filter[2 * at + 1]) = (re / room as f64, -im / room as f64);
        }
    }
    let transform = Fourier::new(&plan.words, &plan.numbers);
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
    // Behind the factor of an inverse transform.
    numbers.extend(&plan.numbers[1..]);
    sides
}

/// The least length of at least so many elements that is a matrix which fills vectors, and its sides.
fn convolution_length(least: usize) -> (usize, (usize, usize)) {
    let powers = [1usize, 3, 5, 9].map(|odd| odd * least.div_ceil(odd).next_power_of_two());
    let sides = powers.map(|room| matrix(room, 1).map(|sides| (room, sides)));
    let full = sides.into_iter().flatten().min();
    // Every power of two from 64 on is one.
    full.unwrap_or((64, (8, 8)))
}
