//! Transforms of many lines at once: passes over arrays `[length][lanes]` whose real and imaginary
//! parts are apart, so that vectors are of lanes whatever the length.
//!
//! Stockham's form: each pass reads one array and writes the other, and the result is in order.
//! Lengths with a large prime factor are circular convolutions (Bluestein).

use super::Real;
use crate::microkernels::CpuFeatures;
#[cfg(target_arch = "x86_64")]
use crate::microkernels::VectorWidth;
use core::ops::Range;

/// The radices of passes: all others are primes up to [`MAX_RADIX`].
pub(super) const FOUR: usize = 4;
/// The largest prime factor that has a pass.
pub(super) const MAX_RADIX: usize = 31;
/// Positions that a pass of an odd radix takes at a time.
const TOGETHER: usize = 16;

/// A line's transform: a list of passes, and the numbers that they multiply by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a, T> {
    pub length: usize,
    /// The radices whose product the length is, or the length of the convolution.
    pub radices: &'a [i64],
    /// If it is a convolution: how long.
    pub convolved: Option<usize>,
    /// Real and imaginary parts, alternating: of each pass those of its roots, then what it multiplies by.
    pub table: &'a [T],
}

/// An array in two parts.
pub(super) struct Split<'a, T> {
    pub re: &'a mut [T],
    pub im: &'a mut [T],
}

impl<T> Split<'_, T> {
    fn part(&mut self, range: Range<usize>) -> Split<'_, T> {
        Split {
            re: &mut self.re[range.clone()],
            im: &mut self.im[range],
        }
    }

    /// All of it, for as long as that is used.
    pub(super) fn whole(&mut self) -> Split<'_, T> {
        Split {
            re: &mut *self.re,
            im: &mut *self.im,
        }
    }

    /// The parts in each other's place: the transform of this is the inverse one.
    fn swapped(self) -> Self {
        Self {
            re: self.im,
            im: self.re,
        }
    }
}

/// How many numbers the table of the passes has, over a length with these radices.
pub(super) fn table_numbers(radices: impl Iterator<Item = usize>, length: usize) -> usize {
    let mut left = length;
    let numbers = radices.map(|radix| {
        left /= radix.max(1);
        2 * (radix + left * (radix - 1))
    });
    numbers.sum()
}

impl<T: Real> Line<'_, T> {
    /// Positions of an array that the transform needs: its length, or that of the convolution.
    pub(super) fn room(&self) -> usize {
        self.convolved.unwrap_or(self.length)
    }

    /// Transforms `values`, an array of [`Self::room`] by so many lanes; what is behind the length is of
    /// any value. `other` is of the same size. Gives whether the result is in `other`.
    ///
    /// # Safety
    /// The CPU has what may be used.
    pub(super) unsafe fn run(
        &self,
        isa: CpuFeatures,
        values: Split<'_, T>,
        other: Split<'_, T>,
        lanes: usize,
    ) -> bool {
        match self.convolved {
            None => {
                let passes = Passes {
                    radices: self.radices,
                    table: self.table,
                    length: self.length,
                    lanes,
                };
                // SAFETY: the caller promises that the CPU has what may be used.
                unsafe { passes.run(isa, values, other) }
            }
            // SAFETY: the caller promises that the CPU has what may be used.
            Some(room) => unsafe { self.convolve(isa, room, values, other, lanes) },
        }
    }

    /// Bluestein's form: `x[k] c[k]` convolved with `conj(c)`, times `c`.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn convolve(
        &self,
        isa: CpuFeatures,
        room: usize,
        mut values: Split<'_, T>,
        mut other: Split<'_, T>,
        lanes: usize,
    ) -> bool {
        let (chirp, table) = self.table.split_at(2 * self.length);
        let (filter, table) = table.split_at(2 * room);
        let passes = Passes {
            radices: self.radices,
            table,
            length: room,
            lanes,
        };
        multiply(&mut values, chirp, lanes);
        let all = room * lanes;
        values.re[self.length * lanes..all].fill(T::ZERO);
        values.im[self.length * lanes..all].fill(T::ZERO);
        let (from, to) = (values.part(0..all), other.part(0..all));
        // SAFETY: the caller promises that the CPU has what may be used.
        let moved = unsafe { passes.run(isa, from, to) };
        let (mut result, mut free) = match moved {
            true => (other, values),
            false => (values, other),
        };
        multiply(&mut result, filter, lanes);
        // Back, by parts that change places. The filter has the factor.
        let (from, to) = (result.part(0..all), free.part(0..all));
        // SAFETY: the caller promises that the CPU has what may be used.
        let back = unsafe { passes.run(isa, from.swapped(), to.swapped()) };
        let mut last = match back {
            true => free,
            false => result,
        };
        multiply(&mut last, chirp, lanes);
        moved != back
    }
}

/// Multiplies every lane of each position by a number.
fn multiply<T: Real>(values: &mut Split<'_, T>, by: &[T], lanes: usize) {
    let rows = values.re.chunks_exact_mut(lanes);
    let rows = rows.zip(values.im.chunks_exact_mut(lanes));
    for ((re, im), by) in rows.zip(by.chunks_exact(2)) {
        for (re, im) in re.iter_mut().zip(im) {
            (*re, *im) = (*re * by[0] - *im * by[1], *re * by[1] + *im * by[0]);
        }
    }
}

/// The passes over an array.
struct Passes<'a, T> {
    radices: &'a [i64],
    table: &'a [T],
    length: usize,
    lanes: usize,
}

impl<T: Real> Passes<'_, T> {
    /// Gives whether the result is in `other`.
    ///
    /// # Safety
    /// The CPU has what may be used.
    #[inline(always)]
    unsafe fn run(&self, isa: CpuFeatures, values: Split<'_, T>, other: Split<'_, T>) -> bool {
        #[cfg(target_arch = "x86_64")]
        match isa.width {
            // SAFETY: the caller promises that the CPU has what may be used.
            VectorWidth::Avx512 => return unsafe { self.avx512(values, other) },
            // SAFETY: the caller promises that the CPU has what may be used.
            VectorWidth::Avx2 => return unsafe { self.avx2(values, other) },
            _ => {}
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = isa;
        self.portable(values, other)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline(never)]
    fn avx512(&self, values: Split<'_, T>, other: Split<'_, T>) -> bool {
        self.each(values, other)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline(never)]
    fn avx2(&self, values: Split<'_, T>, other: Split<'_, T>) -> bool {
        self.each(values, other)
    }

    #[inline(never)]
    fn portable(&self, values: Split<'_, T>, other: Split<'_, T>) -> bool {
        self.each(values, other)
    }

    #[inline(always)]
    fn each(&self, values: Split<'_, T>, other: Split<'_, T>) -> bool {
        let (mut from, mut to) = (values, other);
        let (mut table, mut left, mut stride) = (self.table, self.length, self.lanes);
        let mut moved = false;
        for &radix in self.radices {
            let radix = radix as usize;
            left /= radix;
            let (roots, rest) = table.split_at(2 * radix);
            let (twiddles, rest) = rest.split_at(2 * left * (radix - 1));
            table = rest;
            let pass = Pass {
                left,
                stride,
                roots,
                twiddles,
            };
            match radix {
                2 => pass.two(&from, &mut to),
                FOUR => pass.four(&from, &mut to),
                3 => pass.odd::<3>(3, &from, &mut to),
                5 => pass.odd::<5>(5, &from, &mut to),
                radix => pass.odd::<MAX_RADIX>(radix, &from, &mut to),
            }
            stride *= radix;
            core::mem::swap(&mut from, &mut to);
            moved = !moved;
        }
        moved
    }
}

/// One pass: element `q` of group `p` of each of `radix` parts becomes element `q` of as many groups.
struct Pass<'a, T> {
    /// Groups of a part.
    left: usize,
    /// Elements of a group.
    stride: usize,
    roots: &'a [T],
    twiddles: &'a [T],
}

impl<T: Real> Pass<'_, T> {
    /// The elements of a group of a part that is read, and of a group that is written.
    fn read(&self, part: usize, group: usize) -> Range<usize> {
        let start = (part * self.left + group) * self.stride;
        start..start + self.stride
    }

    #[inline(always)]
    fn two(&self, from: &Split<'_, T>, to: &mut Split<'_, T>) {
        let s = self.stride;
        let re_out = to.re.chunks_exact_mut(2 * s);
        let im_out = to.im.chunks_exact_mut(2 * s);
        for (p, (re_out, im_out)) in re_out.zip(im_out).take(self.left).enumerate() {
            let (c, d) = (self.twiddles[2 * p], self.twiddles[2 * p + 1]);
            let [a, b] = [0, 1].map(|j| &from.re[self.read(j, p)]);
            let [ai, bi] = [0, 1].map(|j| &from.im[self.read(j, p)]);
            let (re0, re1) = re_out.split_at_mut(s);
            let (im0, im1) = im_out.split_at_mut(s);
            for q in 0..s {
                let (x, xi) = (a[q] - b[q], ai[q] - bi[q]);
                re0[q] = a[q] + b[q];
                im0[q] = ai[q] + bi[q];
                re1[q] = x * c - xi * d;
                im1[q] = x * d + xi * c;
            }
        }
    }

    #[inline(always)]
    fn four(&self, from: &Split<'_, T>, to: &mut Split<'_, T>) {
        let s = self.stride;
        let re_out = to.re.chunks_exact_mut(4 * s);
        let im_out = to.im.chunks_exact_mut(4 * s);
        for (p, (re_out, im_out)) in re_out.zip(im_out).take(self.left).enumerate() {
            let w = &self.twiddles[6 * p..6 * p + 6];
            let (c1, d1, c2, d2, c3, d3) = (w[0], w[1], w[2], w[3], w[4], w[5]);
            let [x0, x1, x2, x3] = [0, 1, 2, 3].map(|j| &from.re[self.read(j, p)]);
            let [y0, y1, y2, y3] = [0, 1, 2, 3].map(|j| &from.im[self.read(j, p)]);
            let (re01, re23) = re_out.split_at_mut(2 * s);
            let (im01, im23) = im_out.split_at_mut(2 * s);
            let ((re0, re1), (re2, re3)) = (re01.split_at_mut(s), re23.split_at_mut(s));
            let ((im0, im1), (im2, im3)) = (im01.split_at_mut(s), im23.split_at_mut(s));
            for q in 0..s {
                let (a, ai) = (x0[q] + x2[q], y0[q] + y2[q]);
                let (b, bi) = (x0[q] - x2[q], y0[q] - y2[q]);
                let (c, ci) = (x1[q] + x3[q], y1[q] + y3[q]);
                let (d, di) = (x1[q] - x3[q], y1[q] - y3[q]);
                re0[q] = a + c;
                im0[q] = ai + ci;
                // Minus the imaginary unit times (d, di) is (di, -d).
                let (u, ui) = (b + di, bi - d);
                re1[q] = u * c1 - ui * d1;
                im1[q] = u * d1 + ui * c1;
                let (u, ui) = (a - c, ai - ci);
                re2[q] = u * c2 - ui * d2;
                im2[q] = u * d2 + ui * c2;
                let (u, ui) = (b - di, bi + d);
                re3[q] = u * c3 - ui * d3;
                im3[q] = u * d3 + ui * c3;
            }
        }
    }

    /// A pass of an odd radix of at most `MOST`: sums and differences of the parts at equal distances
    /// from the first.
    #[inline(always)]
    fn odd<const MOST: usize>(&self, radix: usize, from: &Split<'_, T>, to: &mut Split<'_, T>) {
        let radix = if MOST < MAX_RADIX {
            MOST
        } else {
            radix.min(MOST)
        };
        let half = radix / 2;
        let zeros = [T::ZERO; TOGETHER];
        for p in 0..self.left {
            let twiddles = &self.twiddles[2 * p * (radix - 1)..2 * (p + 1) * (radix - 1)];
            let mut q = 0;
            while q < self.stride {
                let count = TOGETHER.min(self.stride - q);
                let load = |part: &[T], j: usize| {
                    let mut values = zeros;
                    let start = (j * self.left + p) * self.stride + q;
                    values[..count].copy_from_slice(&part[start..start + count]);
                    values
                };
                let (first, first_im) = (load(from.re, 0), load(from.im, 0));
                // Sums, then differences, of real and imaginary parts.
                let mut pairs = [[zeros; 4]; MOST];
                let mut all = [first, first_im];
                for (j, pair) in pairs.iter_mut().enumerate().take(half + 1).skip(1) {
                    let (a, b) = (load(from.re, j), load(from.re, radix - j));
                    let (ai, bi) = (load(from.im, j), load(from.im, radix - j));
                    for i in 0..TOGETHER {
                        pair[0][i] = a[i] + b[i];
                        pair[1][i] = ai[i] + bi[i];
                        pair[2][i] = a[i] - b[i];
                        pair[3][i] = ai[i] - bi[i];
                        all[0][i] = all[0][i] + pair[0][i];
                        all[1][i] = all[1][i] + pair[1][i];
                    }
                }
                let mut store = |k: usize, re: &[T; TOGETHER], im: &[T; TOGETHER]| {
                    let start = (p * radix + k) * self.stride + q;
                    to.re[start..start + count].copy_from_slice(&re[..count]);
                    to.im[start..start + count].copy_from_slice(&im[..count]);
                };
                store(0, &all[0], &all[1]);
                for k in 1..=half {
                    let (mut even, mut even_im) = (first, first_im);
                    let (mut odd, mut odd_im) = (zeros, zeros);
                    for (j, pair) in pairs.iter().enumerate().take(half + 1).skip(1) {
                        let at = 2 * (j * k % radix);
                        let (c, d) = (self.roots[at], self.roots[at + 1]);
                        for i in 0..TOGETHER {
                            even[i] = even[i] + pair[0][i] * c;
                            even_im[i] = even_im[i] + pair[1][i] * c;
                            odd[i] = odd[i] + pair[2][i] * d;
                            odd_im[i] = odd_im[i] + pair[3][i] * d;
                        }
                    }
                    for (k, sign) in [(k, T::ONE), (radix - k, -T::ONE)] {
                        let at = 2 * (k - 1);
                        let (c, d) = (twiddles[at], twiddles[at + 1]);
                        let (mut re, mut im) = (zeros, zeros);
                        for i in 0..TOGETHER {
                            // The imaginary unit times (odd, odd_im).
                            let u = even[i] - odd_im[i] * sign;
                            let ui = even_im[i] + odd[i] * sign;
                            re[i] = u * c - ui * d;
                            im[i] = u * d + ui * c;
                        }
                        store(k, &re, &im);
                    }
                }
                q += count;
            }
        }
    }
}
