//! Plans of transforms: the passes of each dimension's lines, and the factors they multiply by,
//! computed in double precision and rounded once.

use super::passes::{FOUR, LANES, MAX_RADIX, table_numbers};
use super::{BACK_TO_REAL, FORWARD, Fourier, IN_HALVES, INVERSE, REAL, Real};
use crate::microkernels::CpuFeatures;
use std::f64::consts::TAU;
use tegula_ir::FftType;

/// The minimum number of rows, and of columns, of a line that is a matrix.
const MIN_SIDE: usize = 8;
/// The number of lines that fill vectors as lanes: a plan for fewer lines may differ.
pub const FEW_LINES: usize = 8;

/// A planned transform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The operations.
    pub words: Vec<i64>,
    /// The factors.
    pub numbers: Vec<f64>,
}

impl Plan {
    /// Plans a transform of the last `count` dimensions of the real or full complex array.
    pub fn new(kind: FftType, dims: &[usize], count: usize) -> Self {
        let count = count.min(dims.len());
        let kind = match kind {
            FftType::Fft => FORWARD,
            FftType::Ifft => INVERSE,
            FftType::Rfft => REAL,
            FftType::Irfft => BACK_TO_REAL,
        };
        let is_in_halves = is_in_halves(kind, dims, count);
        let halves = if is_in_halves { IN_HALVES } else { 0 };
        let mut words = vec![kind + halves, dims.len() as i64, count as i64];
        words.extend(dims.iter().map(|&size| size as i64));
        let transformed = &dims[dims.len() - count..];
        let mut numbers: Vec<f64> = transformed
            .iter()
            .map(|&size| 1.0 / size.max(1) as f64)
            .collect();
        for (dim, &size) in transformed.iter().enumerate() {
            let start = numbers.len();
            let length = match is_in_halves && dim + 1 == count {
                true => size / 2,
                false => size,
            };
            // Only lines along the last dimension are contiguous.
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
        if let Some(&size) = dims.last().filter(|_| is_in_halves) {
            numbers.extend((0..=size / 4).flat_map(|k| root(k, size)));
        }
        Self { words, numbers }
    }

    /// Bytes of scratch memory for a run, with numbers of this many bytes.
    pub fn scratch_bytes(&self, number: usize) -> usize {
        let transform = Fourier::new(&self.words, &self.numbers);
        transform.scratch_bytes() / size_of::<f64>() * number
    }
}

/// Whether a line of real numbers is transformed as a complex line of half the length (see
/// [`Fourier`]): if its length is even, and it is the only line.
fn is_in_halves(kind: i64, dims: &[usize], count: usize) -> bool {
    let Some((&size, outer)) = dims.split_last() else {
        return false;
    };
    let is_real = matches!(kind, REAL | BACK_TO_REAL) && count > 0;
    is_real && size > 0 && size.is_multiple_of(2) && outer.iter().all(|&size| size == 1)
}

/// A planned transform with numbers of one type, ready to run.
#[derive(Clone, Debug)]
pub struct Planned<T> {
    words: Vec<i64>,
    numbers: Vec<T>,
}

/// The methods are not generic, so that they are compiled in this crate only, not again in each
/// crate that calls them.
macro_rules! planned {
    ($($ty:ty)*) => {$(
        impl Planned<$ty> {
            /// Plans a transform of the last `count` dimensions of the real or full complex array.
            pub fn new(kind: FftType, dims: &[usize], count: usize) -> Self {
                let Plan { words, numbers } = Plan::new(kind, dims, count);
                let numbers = numbers.iter().map(|&number| number as $ty).collect();
                Self { words, numbers }
            }

            /// Bytes of scratch memory that a run needs.
            pub fn scratch_bytes(&self) -> usize {
                Fourier::new(&self.words, &self.numbers).scratch_bytes()
            }

            /// Computes the transform.
            ///
            /// # Safety
            /// As [`Fourier::run`].
            pub unsafe fn run(
                &self,
                isa: CpuFeatures,
                input: *const $ty,
                output: *mut $ty,
                scratch: *mut $ty,
            ) {
                let transform = Fourier::new(&self.words, &self.numbers);
                // SAFETY: the caller promises arrays of the sizes of the transform, and scratch
                // memory of [`Self::scratch_bytes`].
                unsafe { transform.run(isa, input, output, scratch) }
            }
        }
    )*};
}

planned! { f32 f64 }

/// The rows and columns of the matrix as which each of `lines` lines is transformed: the length
/// must have no large prime factor, neither side may be short, and both must fill vectors of lanes.
/// Many lines may be lanes instead.
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
    // Of sides that fill vectors equally well, chooses those closest to each other.
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
    // The first and the last pass have the radix that can read and write lines directly, if two
    // passes have it.
    let fours = radices.iter().take_while(|&&radix| radix == FOUR).count();
    if fours > 1 {
        radices[fours - 1..].rotate_left(1);
    }
    (left == 1).then_some(radices)
}

/// The root of unity of the transform: `exp(-2 pi i k / n)`.
fn root(k: usize, n: usize) -> [f64; 2] {
    // Exact where the sine or the cosine is 0 or 1, and elsewhere as accurate as in the first
    // octant.
    let k = if k < n { k } else { k % n };
    // 32-bit divisions take a third of the time.
    let eighths = match (u32::try_from(8 * k), u32::try_from(n)) {
        (Ok(k), Ok(n)) => (k / n) as usize,
        _ => 8 * k / n,
    };
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

/// Appends the numbers for a line as a matrix: those of its columns' and rows' passes, and the
/// twiddle factors between.
fn matrix_numbers((rows, columns): (usize, usize), numbers: &mut Vec<f64>) {
    for side in [rows, columns] {
        // The sides were chosen such that they have radices.
        passes(&radices(side).unwrap_or_default(), side, numbers);
    }
    let wide = columns.next_multiple_of(LANES);
    for row in 0..rows {
        let roots: Vec<[f64; 2]> = (0..columns)
            .map(|column| root(row * column, rows * columns))
            .collect();
        for part in [0, 1] {
            numbers.extend(roots.iter().map(|root| root[part]));
            numbers.extend((columns..wide).map(|_| 0.0));
        }
    }
}

/// Appends the numbers of a convolution of at least twice the length: the factors of a line, the
/// filter's transform, and those of its matrix. Returns the matrix's sides.
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
    // SAFETY: both arrays have the sizes of the transform, and the scratch memory has the required
    // size.
    unsafe {
        transform.run(
            CpuFeatures::default(),
            filter.as_ptr(),
            transformed.as_mut_ptr(),
            scratch.as_mut_ptr(),
        );
    }
    numbers.extend(transformed);
    // Follows the factor of an inverse transform.
    numbers.extend(&plan.numbers[1..]);
    sides
}

/// The smallest length of at least `least` elements that is a matrix which fills vectors, and the
/// matrix's sides.
fn convolution_length(least: usize) -> (usize, (usize, usize)) {
    let powers = [1usize, 3, 5, 9].map(|odd| odd * least.div_ceil(odd).next_power_of_two());
    let sides = powers.map(|room| matrix(room, 1).map(|sides| (room, sides)));
    let full = sides.into_iter().flatten().min();
    // Every power of two from 64 on is such a matrix.
    full.unwrap_or((64, (8, 8)))
}
