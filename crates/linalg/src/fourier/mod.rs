//! Fourier transforms of the last dimensions of an array, without allocation: called by compiled
//! programs. A plan is made when the program is compiled, and consists of two arrays: words and
//! numbers.

mod lines;
mod passes;
#[cfg(feature = "std")]
mod plan;
mod vectors;

use crate::microkernels::CpuFeatures;
#[cfg(target_arch = "x86_64")]
use crate::microkernels::VectorWidth;
use crate::thread_pool::is_stopped;
use core::ops::{Add, Mul, Neg, Range, Sub};
use lines::{Array, Form, Line, Matrix, Memory, Room};
use passes::{Compiled, LANES, Passes, table_numbers};
#[cfg(feature = "std")]
pub use plan::{FEW_LINES, Plan, Planned};

/// A real or imaginary part of a complex number.
pub trait Real:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// One half.
    const HALF: Self;
    /// The vectors that every CPU of the architecture has.
    type Baseline: Compiled<Self>;
    /// 256-bit vectors.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Compiled<Self>;
    /// 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Compiled<Self>;
}

macro_rules! real {
    ($($ty:ty)*) => {$(
        impl Real for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const HALF: Self = 0.5;
            #[cfg(target_arch = "x86_64")]
            type Baseline = vectors::Sse2;
            #[cfg(target_arch = "aarch64")]
            type Baseline = vectors::Neon;
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            type Baseline = vectors::Portable;
            #[cfg(target_arch = "x86_64")]
            type Avx2 = vectors::Avx2;
            #[cfg(target_arch = "x86_64")]
            type Avx512 = vectors::Avx512;
        }
    )*};
}

real! { f32 f64 }

/// The kind of transform: the first word of a plan.
const FORWARD: i64 = 0;
const INVERSE: i64 = 1;
const REAL: i64 = 2;
const BACK_TO_REAL: i64 = 3;
/// Added to either of the last two: a line of real numbers is transformed as a complex line of half
/// the length.
const IN_HALVES: i64 = 4;
/// Words before the dimensions: the kind of transform, the number of dimensions, the number of
/// transformed dimensions.
const HEAD: usize = 3;
/// Words of a line before its radices: the start and the count of its numbers in the plan; the rows
/// and columns of its matrix, or its length and 0 if lines are lanes; the numbers of radices of
/// columns and rows.
const LINE: usize = 6;

/// A transform with a plan.
#[derive(Clone, Copy, Debug)]
pub struct Fourier<'a, T> {
    words: &'a [i64],
    numbers: &'a [T],
}

/// The scratch memory of a run, in numbers.
struct Needs {
    /// The memory for lines along each dimension.
    lines: Room,
    /// The memory for complex lines, each made of two real lines.
    pairs: usize,
    /// The memory for a copy of the operand.
    copy: usize,
}

/// The remaining numbers of a plan.
struct Numbers<'a, T>(&'a [T]);

impl<'a, T> Numbers<'a, T> {
    /// Takes the next `count` numbers; none if the plan has fewer.
    fn next(&mut self, count: usize) -> &'a [T] {
        let own;
        (own, self.0) = self.0.split_at(count.min(self.0.len()));
        own
    }

    fn passes(&mut self, length: usize, radices: &'a [i64]) -> Passes<'a, T> {
        let all = radices.iter().map(|&radix| radix as usize);
        Passes {
            length,
            radices,
            table: self.next(table_numbers(all, length)),
        }
    }
}

impl<'a, T: Real> Fourier<'a, T> {
    /// The position in a plan's words of the sizes of the array's dimensions. The sizes of
    /// dimensions that are not transformed may differ from those that the plan was made for.
    pub const DIMS: usize = HEAD;

    /// The transform of a plan, given its words and numbers.
    pub fn new(words: &'a [i64], numbers: &'a [T]) -> Self {
        Self { words, numbers }
    }

    fn kind(&self) -> i64 {
        self.words[0] % IN_HALVES
    }

    /// Whether a line of real numbers is transformed as a complex line of half the length.
    fn is_in_halves(&self) -> bool {
        self.words[0] >= IN_HALVES
    }

    /// The sizes of the full array, real or complex.
    fn dims(&self) -> &'a [i64] {
        &self.words[HEAD..HEAD + self.words[1] as usize]
    }

    /// The number of dimensions that are not transformed.
    fn outer(&self) -> usize {
        (self.words[1] - self.words[2]) as usize
    }

    /// The size of a dimension in the array of complex numbers.
    fn complex_size(&self, dim: usize) -> usize {
        let dims = self.dims();
        let size = dims[dim] as usize;
        match self.kind() {
            REAL | BACK_TO_REAL if dim + 1 == dims.len() => size / 2 + 1,
            _ => size,
        }
    }

    fn complex_count(&self, dims: Range<usize>) -> usize {
        dims.map(|dim| self.complex_size(dim)).product()
    }

    /// A plan's words for the lines along a dimension.
    fn line_words(&self, dim: usize) -> &'a [i64] {
        let rank = self.dims().len();
        let mut words = &self.words[HEAD + rank..];
        for _ in self.outer()..dim {
            words = &words[LINE + (words[4] + words[5]) as usize..];
        }
        words
    }

    /// The transform of the lines along a dimension.
    fn line(&self, dim: usize) -> Line<'a, T> {
        let words = self.line_words(dim);
        let word = |number: usize| words[number] as usize;
        let size = self.dims()[dim] as usize;
        let length = match self.is_in_halves() && dim + 1 == self.dims().len() {
            true => size / 2,
            false => size,
        };
        let (rows, columns) = (word(2), word(3));
        let (own, others) = words[LINE..LINE + word(4) + word(5)].split_at(word(4));
        let first = word(0).min(self.numbers.len());
        let end = (first + word(1)).min(self.numbers.len());
        let mut numbers = Numbers(&self.numbers[first..end]);
        if columns == 0 {
            let form = Form::Lanes(numbers.passes(rows, own));
            return Line { length, form };
        }
        let (chirp, filter) = match rows * columns == length {
            true => (&[][..], &[][..]),
            false => (numbers.next(2 * length), numbers.next(2 * rows * columns)),
        };
        let matrix = Matrix {
            columns: numbers.passes(rows, own),
            rows: numbers.passes(columns, others),
            roots: numbers.next(2 * rows * columns.next_multiple_of(LANES)),
        };
        let form = match rows * columns == length {
            true => Form::Matrix(matrix),
            false => Form::Convolution {
                chirp,
                filter,
                matrix,
            },
        };
        Line { length, form }
    }

    fn needs(&self) -> Needs {
        let rank = self.dims().len();
        let rooms = (self.outer()..rank).map(|dim| self.line(dim).room());
        let is_real = matches!(self.kind(), REAL | BACK_TO_REAL) && self.words[2] > 0;
        let all = self.complex_count(0..rank);
        Needs {
            lines: rooms.fold(Room::default(), Room::or),
            pairs: match is_real {
                true if self.is_in_halves() => self.dims()[rank - 1] as usize,
                true => 2 * LANES * self.dims()[rank - 1] as usize,
                false => 0,
            },
            copy: match self.kind() == BACK_TO_REAL && self.words[2] > 1 {
                true => 2 * all,
                false => 0,
            },
        }
    }

    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes(&self) -> usize {
        let Needs { lines, pairs, copy } = self.needs();
        (lines.numbers() + pairs + copy) * size_of::<T>()
    }

    /// Computes the transform.
    ///
    /// # Safety
    /// `input` and `output` are dense arrays of the transform's sizes, real numbers or pairs;
    /// `scratch` has [`Self::scratch_bytes`], aligned to 64, is initialised, and is not accessed by
    /// others. No two of the three overlap. The CPU has the features in `isa`.
    #[inline(always)]
    pub unsafe fn run(&self, isa: CpuFeatures, input: *const T, output: *mut T, scratch: *mut T) {
        let rank = self.dims().len();
        let (first, last) = (self.outer(), rank - 1);
        let points: usize = self.dims()[first..].iter().map(|&n| n as usize).product();
        if self.complex_count(0..rank) == 0 || points == 0 || self.words[2] == 0 {
            return;
        }
        let needs = self.needs();
        let room = needs.lines;
        let pairs = scratch.wrapping_add(room.numbers());
        let copy = pairs.wrapping_add(needs.pairs);
        let memory = Memory::new(scratch, room);
        // SAFETY: the caller promises arrays of the transform's sizes, which have this many
        // numbers, and scratch memory.
        unsafe {
            match self.kind() {
                FORWARD | INVERSE => {
                    self.along(isa, last, (input, output), &memory);
                    for dim in first..last {
                        self.along(isa, dim, (output, output), &memory);
                    }
                }
                REAL => {
                    match self.is_in_halves() {
                        true => self.real_in_halves(isa, input, output, &memory),
                        false => self.real(isa, input, output, pairs, &memory),
                    }
                    for dim in first..last {
                        self.along(isa, dim, (output, output), &memory);
                    }
                }
                _ => {
                    let mut from = input;
                    for dim in first..last {
                        self.along(isa, dim, (from, copy), &memory);
                        from = copy;
                    }
                    match self.is_in_halves() {
                        true => self.back_in_halves(isa, from, output, pairs, &memory),
                        false => self.back_to_real(isa, from, output, pairs, &memory),
                    }
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

    /// Transforms the lines along a dimension of a complex array, to another array or in place.
    ///
    /// # Safety
    /// The arrays have the transform's complex sizes; the memory is as large as a run's.
    #[inline(always)]
    unsafe fn along(
        &self,
        isa: CpuFeatures,
        dim: usize,
        (from, to): (*const T, *mut T),
        memory: &Memory<T>,
    ) {
        let rank = self.dims().len();
        let array = Array {
            from,
            to,
            lines: self.complex_count(0..rank) / self.complex_size(dim),
            inner: self.complex_count(dim + 1..rank),
            is_inverse: matches!(self.kind(), INVERSE | BACK_TO_REAL),
            factor: self.factor(dim),
        };
        // SAFETY: the caller promises arrays of the sizes of the transform, and scratch memory of
        // the required size.
        unsafe { transform(isa, &self.line(dim), &array, memory) }
    }

    /// Transforms lines of real numbers, two at a time as one complex line.
    ///
    /// # Safety
    /// As [`Self::run`]; `pairs` has the memory of its needs.
    #[inline(always)]
    unsafe fn real(
        &self,
        isa: CpuFeatures,
        input: *const T,
        output: *mut T,
        pairs: *mut T,
        memory: &Memory<T>,
    ) {
        let dim = self.dims().len() - 1;
        let line = self.line(dim);
        let (n, half) = (line.length, line.length / 2 + 1);
        let lines = self.complex_count(0..dim);
        for first in (0..lines).step_by(2 * LANES) {
            let count = (2 * LANES).min(lines - first);
            let together = count.div_ceil(2);
            if is_stopped() {
                return;
            }
            // SAFETY: the lines are inside of the arrays; the memory has room for this many.
            unsafe {
                for pair in 0..together {
                    let a = input.add((first + 2 * pair) * n);
                    let to = pairs.add(2 * pair * n).cast::<[T; 2]>();
                    match 2 * pair + 1 < count {
                        true => {
                            for k in 0..n {
                                to.add(k).write([a.add(k).read(), a.add(n + k).read()]);
                            }
                        }
                        false => {
                            for k in 0..n {
                                to.add(k).write([a.add(k).read(), T::ZERO]);
                            }
                        }
                    }
                }
                let array = Array::of_lines(pairs, together, false, T::ONE);
                transform(isa, &line, &array, memory);
                for pair in 0..together {
                    let z = pairs.add(2 * pair * n).cast::<[T; 2]>();
                    let to = output.add(2 * (first + 2 * pair) * half).cast::<[T; 2]>();
                    let has_other = 2 * pair + 1 < count;
                    for k in 0..half {
                        let back = if k == 0 { 0 } else { n - k };
                        let ([a, ai], [b, bi]) = (z.add(k).read(), z.add(back).read());
                        to.add(k).write([(a + b) * T::HALF, (ai - bi) * T::HALF]);
                        if has_other {
                            let other = [(ai + bi) * T::HALF, (b - a) * T::HALF];
                            to.add(half + k).write(other);
                        }
                    }
                }
            }
        }
    }

    /// Transforms lines of half-complex numbers to real ones, two at a time. The other half of each
    /// line is the conjugate of this half; imaginary parts of elements that must be real are
    /// ignored.
    ///
    /// # Safety
    /// As [`Self::real`].
    #[inline(always)]
    unsafe fn back_to_real(
        &self,
        isa: CpuFeatures,
        input: *const T,
        output: *mut T,
        pairs: *mut T,
        memory: &Memory<T>,
    ) {
        let dim = self.dims().len() - 1;
        let line = self.line(dim);
        let (n, half) = (line.length, line.length / 2 + 1);
        let lines = self.complex_count(0..dim);
        for first in (0..lines).step_by(2 * LANES) {
            let count = (2 * LANES).min(lines - first);
            let together = count.div_ceil(2);
            if is_stopped() {
                return;
            }
            // SAFETY: the lines are inside of the arrays; the memory has room for this many.
            unsafe {
                for pair in 0..together {
                    let from = input.add(2 * (first + 2 * pair) * half).cast::<[T; 2]>();
                    let z = pairs.add(2 * pair * n).cast::<[T; 2]>();
                    let has_other = 2 * pair + 1 < count;
                    for k in 0..half {
                        let back = if k == 0 { 0 } else { n - k };
                        let own = |from: *const [T; 2]| match back == k {
                            true => [from.read()[0], T::ZERO],
                            false => from.read(),
                        };
                        let [a, ai] = own(from.add(k));
                        let [b, bi] = match has_other {
                            true => own(from.add(half + k)),
                            false => [T::ZERO; 2],
                        };
                        z.add(k).write([a - bi, ai + b]);
                        if back != k {
                            z.add(back).write([a + bi, b - ai]);
                        }
                    }
                }
                let array = Array::of_lines(pairs, together, true, self.factor(dim));
                transform(isa, &line, &array, memory);
                for pair in 0..together {
                    let z = pairs.add(2 * pair * n).cast::<[T; 2]>();
                    let to = output.add((first + 2 * pair) * n);
                    for k in 0..n {
                        to.add(k).write(z.add(k).read()[0]);
                    }
                    if 2 * pair + 1 < count {
                        for k in 0..n {
                            to.add(n + k).write(z.add(k).read()[1]);
                        }
                    }
                }
            }
        }
    }
}

/// Transforms of real lines of even length `n` as complex lines of length `n / 2`: two adjacent
/// numbers are the real and the imaginary part of one. This is for single lines; two lines are
/// transformed together, as the real and the imaginary parts of one complex line.
impl<T: Real> Fourier<'_, T> {
    /// `exp(-2 pi i k / n)` of the last dimension's lines.
    ///
    /// # Safety
    /// `k` is at most a quarter of the line's length `n`.
    #[inline(always)]
    unsafe fn root(roots: &[T], k: usize) -> [T; 2] {
        debug_assert!(2 * k + 1 < roots.len());
        // SAFETY: a plan has the roots up to a quarter of the length.
        unsafe { roots.as_ptr().add(2 * k).cast::<[T; 2]>().read() }
    }

    /// The roots, stored after the numbers of the last dimension's lines.
    fn roots(&self) -> &[T] {
        let words = self.line_words(self.dims().len() - 1);
        let end = (words[0] + words[1]) as usize;
        &self.numbers[end.min(self.numbers.len())..]
    }

    /// Transforms lines of real numbers.
    ///
    /// # Safety
    /// As [`Self::run`].
    #[inline(always)]
    unsafe fn real_in_halves(
        &self,
        isa: CpuFeatures,
        input: *const T,
        output: *mut T,
        memory: &Memory<T>,
    ) {
        let dim = self.dims().len() - 1;
        let (line, roots) = (self.line(dim), self.roots());
        let half = line.length;
        for number in 0..self.complex_count(0..dim) {
            // SAFETY: the caller promises arrays that contain every line; `k` is at most a quarter
            // of its length.
            unsafe {
                let to = output.add(2 * number * (half + 1));
                let from = input.add(2 * number * half);
                let array = Array {
                    from,
                    ..Array::of_lines(to, 1, false, T::ONE)
                };
                transform(isa, &line, &array, memory);
                let to = to.cast::<[T; 2]>();
                let [a, b] = to.read();
                to.write([a + b, T::ZERO]);
                to.add(half).write([a - b, T::ZERO]);
                for k in 1..=half / 2 {
                    let back = half - k;
                    let (a, b) = (to.add(k).read(), to.add(back).read());
                    let ([sum, sum_i], [re, im]) = even_and_odd(a, b, Self::root(roots, k));
                    to.add(k)
                        .write([(sum + im) * T::HALF, (sum_i - re) * T::HALF]);
                    to.add(back)
                        .write([(sum - im) * T::HALF, -(sum_i + re) * T::HALF]);
                }
            }
        }
    }

    /// Transforms lines of half-complex numbers to real ones, like [`Self::back_to_real`].
    ///
    /// # Safety
    /// As [`Self::real`].
    #[inline(always)]
    unsafe fn back_in_halves(
        &self,
        isa: CpuFeatures,
        input: *const T,
        output: *mut T,
        pairs: *mut T,
        memory: &Memory<T>,
    ) {
        let dim = self.dims().len() - 1;
        let (line, roots) = (self.line(dim), self.roots());
        let half = line.length;
        for number in 0..self.complex_count(0..dim) {
            // SAFETY: the caller promises arrays that contain every line, and memory for one; `k`
            // is at most a quarter of its length.
            unsafe {
                let from = input.add(2 * number * (half + 1)).cast::<[T; 2]>();
                let z = pairs.cast::<[T; 2]>();
                let (a, b) = (from.read()[0], from.add(half).read()[0]);
                z.write([a + b, a - b]);
                for k in 1..=half / 2 {
                    let back = half - k;
                    let (a, b) = (from.add(k).read(), from.add(back).read());
                    let [cos, sin] = Self::root(roots, k);
                    let ([sum, sum_i], [re, im]) = even_and_odd(a, b, [cos, -sin]);
                    z.add(k).write([sum - im, sum_i + re]);
                    z.add(back).write([sum + im, re - sum_i]);
                }
                let to = output.add(2 * number * half);
                let array = Array {
                    from: pairs,
                    ..Array::of_lines(to, 1, true, self.factor(dim))
                };
                transform(isa, &line, &array, memory);
            }
        }
    }
}

/// For complex numbers `a` and `b`: the sum of `a` and the conjugate of `b`, and their difference
/// times a root of unity. These are twice the transforms of the numbers at even and at odd
/// positions.
#[inline(always)]
fn even_and_odd<T: Real>(a: [T; 2], b: [T; 2], [cos, sin]: [T; 2]) -> ([T; 2], [T; 2]) {
    let (re, im) = (a[0] - b[0], a[1] + b[1]);
    let odd = [cos * re - sin * im, cos * im + sin * re];
    ([a[0] + b[0], a[1] - b[1]], odd)
}

/// Transforms lines with the widest vectors that may be used.
///
/// # Safety
/// As [`Line::run`], for the vectors of `isa`. The CPU has the features in `isa`.
#[inline(always)]
unsafe fn transform<T: Real>(
    isa: CpuFeatures,
    line: &Line<'_, T>,
    array: &Array<T>,
    memory: &Memory<T>,
) {
    /// Compiled for 512-bit vectors.
    ///
    /// # Safety
    /// As [`Line::run`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline(never)]
    unsafe fn avx512<T: Real>(line: &Line<'_, T>, array: &Array<T>, memory: &Memory<T>) {
        // SAFETY: the caller promises a CPU with these vector instructions, memory that contains
        // the lines, and scratch memory of the required size.
        unsafe { line.run::<T::Avx512>(array, memory) }
    }

    /// Compiled for 256-bit vectors.
    ///
    /// # Safety
    /// As [`Line::run`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline(never)]
    unsafe fn avx2<T: Real>(line: &Line<'_, T>, array: &Array<T>, memory: &Memory<T>) {
        // SAFETY: the caller promises a CPU with these vector instructions, memory that contains
        // the lines, and scratch memory of the required size.
        unsafe { line.run::<T::Avx2>(array, memory) }
    }

    /// Compiled for every CPU.
    ///
    /// # Safety
    /// As [`Line::run`].
    #[inline(never)]
    unsafe fn baseline<T: Real>(line: &Line<'_, T>, array: &Array<T>, memory: &Memory<T>) {
        // SAFETY: the caller promises a CPU with these vector instructions, memory that contains
        // the lines, and scratch memory of the required size.
        unsafe { line.run::<T::Baseline>(array, memory) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    // SAFETY: the caller promises memory that contains the lines, scratch memory of the required
    // size, and a CPU with the features in `isa`.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match isa.width {
            VectorWidth::Avx512 => return avx512(line, array, memory),
            VectorWidth::Avx2 => return avx2(line, array, memory),
            _ => {}
        }
        baseline(line, array, memory);
    }
}

#[cfg(test)]
mod tests;
