//! Passes of Stockham's autosorting algorithm over [`LANES`] lines at once: each reads one array
//! and writes another, and the result needs no reordering.
//!
//! An array has a row for each element of a line: the real parts of the lanes, then their imaginary
//! parts. Vectors run over lanes, so that any length is vectorised.

use super::Real;
use super::vectors::Lanes;
#[cfg(target_arch = "aarch64")]
use super::vectors::Neon;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use super::vectors::Portable;
#[cfg(target_arch = "x86_64")]
use super::vectors::{Avx2, Avx512, Sse2};
use core::ops::Range;

/// Lines that are transformed together.
pub(super) const LANES: usize = 16;
/// Numbers of a row.
pub(super) const ROW: usize = 2 * LANES;
/// The radix of most passes: all others are primes up to [`MAX_RADIX`].
pub(super) const FOUR: usize = 4;
/// The largest prime factor that has a pass.
pub(super) const MAX_RADIX: usize = 31;
/// A bound of a radix's number of pairs of parts that are equally far from the first.
const MOST_PAIRS: usize = MAX_RADIX / 2 + 1;

/// The length of the passes' table, for a length with these radices.
pub(super) fn table_numbers(radices: impl Iterator<Item = usize>, length: usize) -> usize {
    let mut left = length;
    let numbers = radices.map(|radix| {
        left /= radix.max(1);
        2 * (radix + left * (radix - 1))
    });
    numbers.sum()
}

/// The passes of a transform of one length.
#[derive(Clone, Copy, Debug)]
pub struct Passes<'a, T> {
    /// The product of the radices.
    pub length: usize,
    pub radices: &'a [i64],
    /// Alternating real and imaginary parts: for each pass its roots of unity, then its twiddle
    /// factors.
    pub table: &'a [T],
}

/// The source of lines' elements.
pub(super) trait Load<T> {
    /// Loads the elements of as many lanes as a vector has, from `lane` on.
    ///
    /// # Safety
    /// The CPU has these vectors, and the lines the elements.
    unsafe fn load<V: Lanes<T>>(&self, row: usize, lane: usize) -> [V::Value; 2];
}

/// The destination of lines' elements.
pub(super) trait Store<T> {
    /// Stores the elements of as many lanes as a vector has, from `lane` on.
    ///
    /// # Safety
    /// The CPU has these vectors, and the lines the elements.
    unsafe fn store<V: Lanes<T>>(&self, row: usize, lane: usize, values: [V::Value; 2]);
}

/// An array of rows.
#[derive(Clone, Copy)]
pub(super) struct Rows<T>(pub *mut T);

impl<T> Rows<T> {
    fn at(&self, row: usize, lane: usize) -> *mut T {
        self.0.wrapping_add(row * ROW + lane)
    }
}

impl<T: Copy> Load<T> for Rows<T> {
    #[inline(always)]
    unsafe fn load<V: Lanes<T>>(&self, row: usize, lane: usize) -> [V::Value; 2] {
        let at = self.at(row, lane);
        // SAFETY: the caller promises a CPU with these vector instructions, and that the row
        // exists.
        unsafe { [V::load(at), V::load(at.add(LANES))] }
    }
}

impl<T: Copy> Store<T> for Rows<T> {
    #[inline(always)]
    unsafe fn store<V: Lanes<T>>(&self, row: usize, lane: usize, [re, im]: [V::Value; 2]) {
        let at = self.at(row, lane);
        // SAFETY: the caller promises a CPU with these vector instructions, and that the row
        // exists.
        unsafe {
            V::store(at, re);
            V::store(at.add(LANES), im);
        }
    }
}

impl<T: Real> Passes<'_, T> {
    /// Transforms [`LANES`] lines. The first pass loads directly from `from`, and the last pass
    /// stores directly to `to`, if they have radix [`FOUR`], as nearly all have; otherwise, the
    /// lines are copied.
    ///
    /// # Safety
    /// The CPU has these vectors. Each of `arrays` has a row for each element of a line. `from`
    /// loads from neither of them, or from the second. `to` stores to neither of them, or to an
    /// array with as many rows whose content is not read any more. The table belongs to the
    /// radices.
    #[inline(always)]
    pub(super) unsafe fn run<V: Compiled<T>>(
        &self,
        from: &impl Load<T>,
        arrays: [*mut T; 2],
        to: &impl Store<T>,
    ) {
        let [own, other] = arrays;
        let count = self.radices.len();
        let is_four = |pass: usize| self.radices[pass] == FOUR as i64;
        // SAFETY: the caller promises a CPU with these vector instructions, the arrays and the
        // table.
        unsafe {
            let mut first = 0;
            let mut at = own;
            if count > 1 && is_four(0) {
                let pass = Pass::new(self, &mut State::new(self));
                pass.four::<V, false>(from, &Rows(own));
                first = 1;
            } else {
                for row in 0..self.length {
                    for lane in (0..LANES).step_by(V::COUNT) {
                        Rows(own).store::<V>(row, lane, from.load::<V>(row, lane));
                    }
                }
            }
            let end = count - usize::from(count > 0 && is_four(count - 1));
            if first < end {
                at = V::passes(self, first..end, own, [other, own]);
            }
            if end < count {
                let mut state = State::new(self);
                for &radix in &self.radices[..end] {
                    state.skip(radix as usize);
                }
                let pass = Pass::new(self, &mut state);
                pass.four::<V, true>(&Rows(at), to);
            } else {
                for row in 0..self.length {
                    for lane in (0..LANES).step_by(V::COUNT) {
                        to.store::<V>(row, lane, Rows(at).load::<V>(row, lane));
                    }
                }
            }
        }
    }

    /// Transforms the lines of the first array; returns the array that has the result.
    ///
    /// # Safety
    /// As [`Self::run`].
    #[inline(always)]
    pub(super) unsafe fn run_in_rows<V: Compiled<T>>(&self, [own, other]: [*mut T; 2]) -> *mut T {
        // SAFETY: the caller promises a CPU with these vector instructions, arrays with a row for
        // each element, and a table for the radices.
        unsafe { V::passes(self, 0..self.radices.len(), own, [other, own]) }
    }

    /// Runs some of the passes, between arrays; returns the array of their result.
    ///
    /// # Safety
    /// As [`Self::run`].
    #[inline(always)]
    unsafe fn some<V: Lanes<T>>(
        &self,
        range: Range<usize>,
        from: *mut T,
        arrays: [*mut T; 2],
    ) -> *mut T {
        let mut from = from;
        let [mut to, mut next] = arrays;
        let mut state = State::new(self);
        for &radix in &self.radices[..range.start] {
            state.skip(radix as usize);
        }
        for &radix in &self.radices[range] {
            let pass = Pass::new(self, &mut state);
            let ends = (&Rows(from), &Rows(to));
            // SAFETY: the caller promises a CPU with these vector instructions, the table and the
            // arrays.
            unsafe {
                match (radix as usize, pass.left) {
                    (2, _) => pass.two::<V>(ends.0, ends.1),
                    (FOUR, _) => pass.four::<V, false>(ends.0, ends.1),
                    (3, _) => pass.odd::<V, 2>(3, ends.0, ends.1),
                    (5, _) => pass.odd::<V, 3>(5, ends.0, ends.1),
                    (7, _) => pass.odd::<V, 4>(7, ends.0, ends.1),
                    (radix, _) => pass.odd::<V, MOST_PAIRS>(radix, ends.0, ends.1),
                }
            }
            from = to;
            (to, next) = (next, to);
        }
        from
    }
}

/// The progress of the passes.
struct State<T> {
    table: *const T,
    /// The number of completed passes.
    done: usize,
    left: usize,
    stride: usize,
}

impl<T> State<T> {
    fn new(passes: &Passes<'_, T>) -> Self {
        Self {
            table: passes.table.as_ptr(),
            done: 0,
            left: passes.length,
            stride: 1,
        }
    }

    /// Skips a pass.
    fn skip(&mut self, radix: usize) {
        self.left /= radix.max(1);
        self.stride *= radix;
        self.done += 1;
        let numbers = 2 * (radix + self.left * (radix - 1));
        self.table = self.table.wrapping_add(numbers);
    }
}

/// Vectors that the passes are compiled for: once for each instruction set, shared by all callers.
pub trait Compiled<T: Real>: Lanes<T> {
    /// Runs some of the passes, between arrays; returns the array of their result.
    ///
    /// # Safety
    /// As [`Passes::run`].
    unsafe fn passes(
        passes: &Passes<'_, T>,
        range: Range<usize>,
        from: *mut T,
        arrays: [*mut T; 2],
    ) -> *mut T;
}

macro_rules! compiled {
    ($($(#[$features:meta])* $name:ident)*) => {$(
        impl<T: Real> Compiled<T> for $name
        where
            $name: Lanes<T>,
        {
            unsafe fn passes(
                passes: &Passes<'_, T>,
                range: Range<usize>,
                from: *mut T,
                arrays: [*mut T; 2],
            ) -> *mut T {
                $(#[$features])*
                #[inline(never)]
                unsafe fn compiled<T: Real>(
                    passes: &Passes<'_, T>,
                    range: Range<usize>,
                    from: *mut T,
                    arrays: [*mut T; 2],
                ) -> *mut T
                where
                    $name: Lanes<T>,
                {
                    // SAFETY: the caller promises a CPU with these vector instructions, arrays with
                    // a row for each element, and a table for the radices.
                    unsafe { passes.some::<$name>(range, from, arrays) }
                }
                // SAFETY: the caller promises a CPU with these vector instructions, arrays with a
                // row for each element, and a table for the radices.
                unsafe { compiled(passes, range, from, arrays) }
            }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
compiled! {
    Sse2
    #[target_feature(enable = "avx2")]
    Avx2
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    Avx512
}
#[cfg(target_arch = "aarch64")]
compiled! { Neon }
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compiled! { Portable }

/// One pass: row `r` of group `p` of each of `radix` parts becomes row `r` of as many groups.
struct Pass<T> {
    /// The number of groups of a part.
    left: usize,
    /// The number of rows of a group.
    stride: usize,
    roots: *const T,
    twiddles: *const T,
}

/// A complex number in each lane.
type Pair<V> = [V; 2];

/// `x` times the complex number `w`.
///
/// # Safety
/// The CPU has these vectors.
#[inline(always)]
unsafe fn times<T: Copy, V: Lanes<T>>(
    [re, im]: Pair<V::Value>,
    [c, d]: Pair<V::Value>,
) -> Pair<V::Value> {
    // SAFETY: the caller promises a CPU with these vector instructions.
    unsafe {
        [
            V::sub(V::mul(re, c), V::mul(im, d)),
            V::add(V::mul(re, d), V::mul(im, c)),
        ]
    }
}

/// # Safety
/// The CPU has these vectors.
#[inline(always)]
unsafe fn sum<T: Copy, V: Lanes<T>>(a: Pair<V::Value>, b: Pair<V::Value>) -> Pair<V::Value> {
    // SAFETY: the caller promises a CPU with these vector instructions.
    unsafe { [V::add(a[0], b[0]), V::add(a[1], b[1])] }
}

/// # Safety
/// The CPU has these vectors.
#[inline(always)]
unsafe fn difference<T: Copy, V: Lanes<T>>(a: Pair<V::Value>, b: Pair<V::Value>) -> Pair<V::Value> {
    // SAFETY: the caller promises a CPU with these vector instructions.
    unsafe { [V::sub(a[0], b[0]), V::sub(a[1], b[1])] }
}

/// A number of a table, broadcast to every lane.
///
/// # Safety
/// The CPU has these vectors, and the table the number.
#[inline(always)]
unsafe fn factor<T: Copy, V: Lanes<T>>(table: *const T, number: usize) -> Pair<V::Value> {
    // SAFETY: the caller promises a CPU with these vector instructions, and that the number can be
    // accessed.
    unsafe {
        let at = table.add(2 * number);
        [V::splat(at.read()), V::splat(at.add(1).read())]
    }
}

/// Executes a block for each vector of a group, with its row in the source and in the destination
/// and its first lane. (A closure would not be compiled with the vectors' features.)
macro_rules! each {
    ($pass:ident, $count:expr, $radix:expr, $group:ident, |$own:ident, $out:ident, $lane:ident| $body:block) => {
        for row in 0..$pass.stride {
            let $own = $group * $pass.stride + row;
            let $out = $radix * $group * $pass.stride + row;
            for $lane in (0..LANES).step_by($count) {
                $body
            }
        }
    };
}

impl<T: Real> Pass<T> {
    /// The next pass.
    fn new(passes: &Passes<'_, T>, state: &mut State<T>) -> Self {
        let radix = passes.radices[state.done] as usize;
        let (roots, stride) = (state.table, state.stride);
        state.skip(radix);
        Self {
            left: state.left,
            stride,
            roots,
            twiddles: roots.wrapping_add(2 * radix),
        }
    }

    /// # Safety
    /// As [`Passes::run`].
    #[inline(always)]
    unsafe fn two<V: Lanes<T>>(&self, from: &impl Load<T>, to: &impl Store<T>) {
        let (part, next) = (self.left * self.stride, self.stride);
        for group in 0..self.left {
            // SAFETY: the caller promises a table for the radices, arrays of the sizes of the
            // transform, and a CPU with these vector instructions.
            unsafe {
                let w = factor::<T, V>(self.twiddles, group);
                each!(self, V::COUNT, 2, group, |own, out, lane| {
                    let a = from.load::<V>(own, lane);
                    let b = from.load::<V>(own + part, lane);
                    to.store::<V>(out, lane, sum::<T, V>(a, b));
                    let x = times::<T, V>(difference::<T, V>(a, b), w);
                    to.store::<V>(out + next, lane, x);
                });
            }
        }
    }

    /// # Safety
    /// As [`Passes::run`].
    #[inline(always)]
    unsafe fn four<V: Lanes<T>, const LAST: bool>(&self, from: &impl Load<T>, to: &impl Store<T>) {
        let (part, next) = (self.left * self.stride, self.stride);
        for group in 0..self.left {
            // SAFETY: the caller promises a table for the radices, arrays of the sizes of the
            // transform, and a CPU with these vector instructions.
            unsafe {
                let w0 = factor::<T, V>(self.twiddles, 3 * group);
                let w1 = factor::<T, V>(self.twiddles, 3 * group + 1);
                let w2 = factor::<T, V>(self.twiddles, 3 * group + 2);
                each!(self, V::COUNT, 4, group, |own, out, lane| {
                    let x0 = from.load::<V>(own, lane);
                    let x1 = from.load::<V>(own + part, lane);
                    let x2 = from.load::<V>(own + 2 * part, lane);
                    let x3 = from.load::<V>(own + 3 * part, lane);
                    let (a, b) = (sum::<T, V>(x0, x2), difference::<T, V>(x0, x2));
                    let (c, d) = (sum::<T, V>(x1, x3), difference::<T, V>(x1, x3));
                    // `-i` times `(d, di)` is `(di, -d)`.
                    let mut y1 = [V::add(b[0], d[1]), V::sub(b[1], d[0])];
                    let mut y2 = difference::<T, V>(a, c);
                    let mut y3 = [V::sub(b[0], d[1]), V::add(b[1], d[0])];
                    if !LAST {
                        y1 = times::<T, V>(y1, w0);
                        y2 = times::<T, V>(y2, w1);
                        y3 = times::<T, V>(y3, w2);
                    }
                    to.store::<V>(out, lane, sum::<T, V>(a, c));
                    to.store::<V>(out + next, lane, y1);
                    to.store::<V>(out + 2 * next, lane, y2);
                    to.store::<V>(out + 3 * next, lane, y3);
                });
            }
        }
    }

    /// A pass of an odd radix: computes sums and differences of parts that are equally far from the
    /// first, of which there are fewer than `PAIRS`.
    ///
    /// # Safety
    /// As [`Passes::run`].
    #[inline(always)]
    unsafe fn odd<V: Lanes<T>, const PAIRS: usize>(
        &self,
        radix: usize,
        from: &impl Load<T>,
        to: &impl Store<T>,
    ) {
        let radix = match PAIRS {
            MOST_PAIRS => radix.min(MAX_RADIX),
            // A constant for the compiler.
            _ => 2 * PAIRS - 1,
        };
        let half = radix / 2;
        let (part, next) = (self.left * self.stride, self.stride);
        for group in 0..self.left {
            // SAFETY: the caller promises a table for the radices, arrays of the sizes of the
            // transform, and a CPU with these vector instructions.
            unsafe {
                let twiddles = self.twiddles.add(2 * group * (radix - 1));
                each!(self, V::COUNT, radix, group, |own, out, lane| {
                    let first = from.load::<V>(own, lane);
                    let zero = [V::splat(T::ZERO); 2];
                    // Sums and differences.
                    let mut pairs = [[zero; 2]; PAIRS];
                    let mut all = first;
                    for (j, pair) in pairs.iter_mut().enumerate().take(half + 1).skip(1) {
                        let a = from.load::<V>(own + j * part, lane);
                        let b = from.load::<V>(own + (radix - j) * part, lane);
                        *pair = [sum::<T, V>(a, b), difference::<T, V>(a, b)];
                        all = sum::<T, V>(all, pair[0]);
                    }
                    to.store::<V>(out, lane, all);
                    for k in 1..=half {
                        let (mut even, mut odd) = (first, zero);
                        for (j, pair) in pairs.iter().enumerate().take(half + 1).skip(1) {
                            let [c, d] = factor::<T, V>(self.roots, j * k % radix);
                            even =
                                sum::<T, V>(even, [V::mul(pair[0][0], c), V::mul(pair[0][1], c)]);
                            odd = sum::<T, V>(odd, [V::mul(pair[1][0], d), V::mul(pair[1][1], d)]);
                        }
                        // The imaginary unit times `odd`, and its negative.
                        let results = [
                            [V::sub(even[0], odd[1]), V::add(even[1], odd[0])],
                            [V::add(even[0], odd[1]), V::sub(even[1], odd[0])],
                        ];
                        for (k, x) in [k, radix - k].into_iter().zip(results) {
                            let w = factor::<T, V>(twiddles, k - 1);
                            to.store::<V>(out + k * next, lane, times::<T, V>(x, w));
                        }
                    }
                });
            }
        }
    }
}
