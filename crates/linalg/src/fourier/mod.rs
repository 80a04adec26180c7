//! Fourier transforms of the last dimensions of an array that allocate nothing: what compiled programs
//! call. A plan is made when the program is compiled, and is two arrays: words, and numbers.

mod lines;
#[cfg(feature = "std")]
mod plan;

use crate::microkernels::CpuFeatures;
use core::ops::{Add, Mul, Neg, Sub};
use lines::{Line, Split};
#[cfg(feature = "std")]
pub use plan::Plan;

/// A part of a complex number.
pub trait Real:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// Nothing.
    const ZERO: Self;
    /// The number that changes nothing.
    const ONE: Self;
    /// One half.
    const HALF: Self;
}

macro_rules! real {
    ($($ty:ty)*) => {$(
        impl Real for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const HALF: Self = 0.5;
        }
    )*};
}

real! { f32 f64 }

/// Which transform, as a plan's first word says.
const FORWARD: i64 = 0;
const INVERSE: i64 = 1;
const REAL: i64 = 2;
const BACK_TO_REAL: i64 = 3;
/// Words before the dimensions: which transform, how many dimensions, how many of them are
/// transformed.
const HEAD: usize = 3;
/// Words of a line before its radices: where its numbers begin, how many there are, how long the
/// convolution is or 0, and how many radices there are.
const LINE: usize = 4;
/// Lanes of an array of lines.
const LANES: usize = 16;

/// A transform.
#[derive(Clone, Copy, Debug)]
pub struct Fourier<'a, T> {
    words: &'a [i64],
    numbers: &'a [T],
}

/// Memory of a run, in numbers: two arrays of lines, each in two parts, and a copy of the operand.
struct Room {
    part: usize,
    copy: usize,
}

impl<'a, T: Real> Fourier<'a, T> {
    /// Where a plan's words have the sizes of the array's dimensions. Those that are not transformed may
    /// be others than the plan was made for.
    pub const DIMS: usize = HEAD;

    /// A transform that was planned: a plan's words and numbers.
    pub fn new(words: &'a [i64], numbers: &'a [T]) -> Self {
        Self { words, numbers }
    }

    fn kind(&self) -> i64 {
        self.words[0]
    }

    /// The sizes of the full array: the real one, or the complex one.
    fn dims(&self) -> &'a [i64] {
        &self.words[HEAD..HEAD + self.words[1] as usize]
    }

    /// How many dimensions are not transformed.
    fn outer(&self) -> usize {
        (self.words[1] - self.words[2]) as usize
    }

    /// The sizes of the array of complex numbers.
    fn complex_size(&self, dim: usize) -> usize {
        let dims = self.dims();
        let size = dims[dim] as usize;
        match self.kind() {
            REAL | BACK_TO_REAL if dim + 1 == dims.len() => size / 2 + 1,
            _ => size,
        }
    }

    fn complex_count(&self, dims: core::ops::Range<usize>) -> usize {
        dims.map(|dim| self.complex_size(dim)).product()
    }

    /// The words of the transform of the lines along a dimension.
    fn line_words(&self, dim: usize) -> &'a [i64] {
        let rank = self.dims().len();
        let mut words = &self.words[HEAD + rank..];
        for _ in self.outer()..dim {
            words = &words[LINE + words[3] as usize..];
        }
        words
    }

    /// Positions that lines along a dimension take.
    fn line_room(&self, dim: usize) -> usize {
        match self.line_words(dim)[2] {
            0 => self.dims()[dim] as usize,
            convolved => convolved as usize,
        }
    }

    /// The transform of the lines along a dimension.
    fn line(&self, dim: usize) -> Line<'a, T> {
        let words = self.line_words(dim);
        let [start, count, convolved, radices] = [words[0], words[1], words[2], words[3]];
        let start = start as usize;
        Line {
            length: self.dims()[dim] as usize,
            radices: &words[LINE..LINE + radices as usize],
            convolved: Some(convolved as usize).filter(|&room| room > 0),
            table: &self.numbers[start..start + count as usize],
        }
    }

    fn room(&self) -> Room {
        let rank = self.dims().len();
        let longest = (self.outer()..rank).map(|dim| self.line_room(dim));
        let all = self.complex_count(0..rank);
        Room {
            part: longest.max().unwrap_or(0) * LANES,
            copy: match self.kind() == BACK_TO_REAL && self.words[2] > 1 {
                true => 2 * all,
                false => 0,
            },
        }
    }

    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes(&self) -> usize {
        let room = self.room();
        (4 * room.part + room.copy) * size_of::<T>()
    }

    /// Transforms.
    ///
    /// # Safety
    /// `input` and `output` are dense arrays of the transform's sizes, real numbers or pairs;
    /// `scratch` has [`Self::scratch_bytes`], aligned to 64, holds numbers of any value, and is
    /// nobody else's. No two of them overlap. The CPU has what may be used.
    pub unsafe fn run(&self, isa: CpuFeatures, input: *const T, output: *mut T, scratch: *mut T) {
        let rank = self.dims().len();
        let (first, last) = (self.outer(), rank - 1);
        let all = self.complex_count(0..rank);
        let points: usize = self.dims()[first..].iter().map(|&n| n as usize).product();
        if all == 0 || points == 0 || self.words[2] == 0 {
            return;
        }
        let room = self.room();
        let memory = Memory {
            isa,
            start: scratch,
            part: room.part,
        };
        let copy = scratch.wrapping_add(4 * room.part);
        // SAFETY: the caller promises arrays of the transform's sizes, which have so many numbers, and
        // scratch memory.
        unsafe {
            match self.kind() {
                FORWARD | INVERSE => {
                    core::ptr::copy_nonoverlapping(input, output, 2 * all);
                    for dim in first..rank {
                        self.along(dim, output, &memory);
                    }
                }
                REAL => {
                    self.real(input, output, &memory);
                    for dim in first..last {
                        self.along(dim, output, &memory);
                    }
                }
                _ => {
                    let mut from = input;
                    if first < last {
                        core::ptr::copy_nonoverlapping(input, copy, 2 * all);
                        for dim in first..last {
                            self.along(dim, copy, &memory);
                        }
                        from = copy;
                    }
                    self.back_to_real(from, output, &memory);
                }
            }
        }
    }

    /// The factor of an inverse transform along a dimension.
    fn factor(&self, dim: usize) -> T {
        match self.kind() {
            INVERSE | BACK_TO_REAL => self.numbers[dim - self.outer()],
            _ => T::ONE,
        }
    }

    /// Transforms the lines along a dimension of an array of complex numbers in its place.
    ///
    /// # Safety
    /// The array has the transform's complex sizes; the memory is as large as a run's.
    unsafe fn along(&self, dim: usize, array: *mut T, memory: &Memory<T>) {
        let line = self.line(dim);
        let inner = self.complex_count(dim + 1..self.dims().len());
        let lines = self.complex_count(0..self.dims().len()) / line.length;
        let is_inverse = matches!(self.kind(), INVERSE | BACK_TO_REAL);
        let factor = self.factor(dim);
        for first in (0..lines).step_by(LANES) {
            let lanes = LANES.min(lines - first);
            let starts: [usize; LANES] = core::array::from_fn(|lane| {
                let line_number = first + lane.min(lanes - 1);
                let (block, within) = (line_number / inner, line_number % inner);
                2 * (block * line.length * inner + within)
            });
            // SAFETY: the lines lie in the array; the memory has room for so many.
            unsafe {
                let (values, other) = memory.arrays();
                for k in 0..line.length {
                    for (lane, start) in starts.iter().enumerate().take(lanes) {
                        let from = array.add(start + 2 * k * inner);
                        values.re[k * lanes + lane] = from.read();
                        values.im[k * lanes + lane] = from.add(1).read();
                    }
                }
                let result = transformed(memory.isa, &line, values, other, lanes, is_inverse);
                for k in 0..line.length {
                    for (lane, start) in starts.iter().enumerate().take(lanes) {
                        let to = array.add(start + 2 * k * inner);
                        to.write(result.re[k * lanes + lane] * factor);
                        to.add(1).write(result.im[k * lanes + lane] * factor);
                    }
                }
            }
        }
    }

    /// Transforms lines of real numbers, two at a time as one of complex ones.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn real(&self, input: *const T, output: *mut T, memory: &Memory<T>) {
        let dim = self.dims().len() - 1;
        let line = self.line(dim);
        let (n, half) = (line.length, line.length / 2 + 1);
        let lines = self.complex_count(0..dim);
        for first in (0..lines).step_by(2 * LANES) {
            let count = (2 * LANES).min(lines - first);
            let lanes = count.div_ceil(2);
            // SAFETY: the lines lie in the arrays; the memory has room for so many.
            unsafe {
                let (values, other) = memory.arrays();
                for k in 0..n {
                    for lane in 0..lanes {
                        let from = input.add((first + 2 * lane) * n + k);
                        values.re[k * lanes + lane] = from.read();
                        values.im[k * lanes + lane] = match 2 * lane + 1 < count {
                            true => from.add(n).read(),
                            false => T::ZERO,
                        };
                    }
                }
                let result = transformed(memory.isa, &line, values, other, lanes, false);
                for k in 0..half {
                    let back = (n - k) % n;
                    for lane in 0..lanes {
                        let [a, ai] = [&result.re, &result.im].map(|part| part[k * lanes + lane]);
                        let [b, bi] =
                            [&result.re, &result.im].map(|part| part[back * lanes + lane]);
                        let to = output.add(2 * ((first + 2 * lane) * half + k));
                        to.write((a + b) * T::HALF);
                        to.add(1).write((ai - bi) * T::HALF);
                        if 2 * lane + 1 < count {
                            let to = to.add(2 * half);
                            to.write((ai + bi) * T::HALF);
                            to.add(1).write((b - a) * T::HALF);
                        }
                    }
                }
            }
        }
    }

    /// Transforms lines of half-complex numbers to real ones, two at a time. The other half of each
    /// line is the conjugate of this; an imaginary part where there can be none is taken for zero.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn back_to_real(&self, input: *const T, output: *mut T, memory: &Memory<T>) {
        let dim = self.dims().len() - 1;
        let line = self.line(dim);
        let (n, half) = (line.length, line.length / 2 + 1);
        let lines = self.complex_count(0..dim);
        let factor = self.factor(dim);
        for first in (0..lines).step_by(2 * LANES) {
            let count = (2 * LANES).min(lines - first);
            let lanes = count.div_ceil(2);
            // SAFETY: the lines lie in the arrays; the memory has room for so many.
            unsafe {
                let (values, other) = memory.arrays();
                for k in 0..half {
                    let back = (n - k) % n;
                    for lane in 0..lanes {
                        let from = input.add(2 * ((first + 2 * lane) * half + k));
                        let own = |from: *const T| match back == k {
                            true => (from.read(), T::ZERO),
                            false => (from.read(), from.add(1).read()),
                        };
                        let (a, ai) = own(from);
                        let (b, bi) = match 2 * lane + 1 < count {
                            true => own(from.add(2 * half)),
                            false => (T::ZERO, T::ZERO),
                        };
                        values.re[k * lanes + lane] = a - bi;
                        values.im[k * lanes + lane] = ai + b;
                        if back != k {
                            values.re[back * lanes + lane] = a + bi;
                            values.im[back * lanes + lane] = b - ai;
                        }
                    }
                }
                let result = transformed(memory.isa, &line, values, other, lanes, true);
                for k in 0..n {
                    for lane in 0..lanes {
                        let to = output.add((first + 2 * lane) * n + k);
                        to.write(result.re[k * lanes + lane] * factor);
                        if 2 * lane + 1 < count {
                            to.add(n).write(result.im[k * lanes + lane] * factor);
                        }
                    }
                }
            }
        }
    }
}

/// Scratch memory of a run.
struct Memory<T> {
    /// What may be used.
    isa: CpuFeatures,
    start: *mut T,
    /// Numbers of each part of an array.
    part: usize,
}

impl<T> Memory<T> {
    /// Two arrays of lines.
    ///
    /// # Safety
    /// There is as much memory, and no other arrays of it are used.
    unsafe fn arrays<'m>(&self) -> (Split<'m, T>, Split<'m, T>) {
        let part = |number: usize| {
            let start = self.start.wrapping_add(number * self.part);
            // SAFETY: the caller promises the memory.
            unsafe { core::slice::from_raw_parts_mut(start, self.part) }
        };
        let array = |number: usize| Split {
            re: part(number),
            im: part(number + 1),
        };
        (array(0), array(2))
    }
}

/// The transform of lines, or the inverse one without its factor.
///
/// # Safety
/// The CPU has what may be used.
unsafe fn transformed<'m, T: Real>(
    isa: CpuFeatures,
    line: &Line<'_, T>,
    values: Split<'m, T>,
    other: Split<'m, T>,
    lanes: usize,
    is_inverse: bool,
) -> Split<'m, T> {
    let room = line.room() * lanes;
    let of = |split: Split<'m, T>| {
        let (re, im) = (&mut split.re[..room], &mut split.im[..room]);
        match is_inverse {
            true => Split { re: im, im: re },
            false => Split { re, im },
        }
    };
    let (mut values, mut other) = (of(values), of(other));
    // SAFETY: the caller promises that the CPU has what may be used.
    let moved = unsafe { line.run(isa, values.whole(), other.whole(), lanes) };
    let result = match moved {
        true => other,
        false => values,
    };
    match is_inverse {
        true => Split {
            re: result.im,
            im: result.re,
        },
        false => result,
    }
}

#[cfg(test)]
mod tests;
