//! Transforms lines of complex numbers: groups lines into the lanes that [`Passes`] transform
//! together.
//!
//! - Adjacent lines, which are columns of a matrix, are the lanes of a vector.
//! - A long contiguous line is treated as a matrix of `a` rows and `b` columns (the four-step
//!   algorithm): its columns are transformed, multiplied by twiddle factors and transposed, and the
//!   new columns are transformed.
//! - Other contiguous lines are transposed, so that they become lanes.
//! - A length with a large prime factor becomes a circular convolution (Bluestein's algorithm), of
//!   lines as matrices.

use super::Real;
use super::passes::{Compiled, LANES, Load, Passes, ROW, Rows, Store};
use super::vectors::Lanes;
use crate::thread_pool::is_stopped;

/// Lines of one length, and the method that transforms them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a, T> {
    pub length: usize,
    pub form: Form<'a, T>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Form<'a, T> {
    /// As lanes of vectors.
    Lanes(Passes<'a, T>),
    /// As matrices.
    Matrix(Matrix<'a, T>),
    /// By a circular convolution (Bluestein).
    Convolution {
        /// `exp(-pi i k^2 / n)`, in pairs.
        chirp: &'a [T],
        /// The filter's transform, over the convolution's length; in pairs.
        filter: &'a [T],
        matrix: Matrix<'a, T>,
    },
}

/// A line treated as a matrix. Its number of rows is the length of the `columns` transform; its
/// number of columns is the length of the `rows` transform.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a, T> {
    /// The transform of the columns.
    pub columns: Passes<'a, T>,
    /// The transform of the rows.
    pub rows: Passes<'a, T>,
    /// The twiddle factors between both transforms. For each row: the real parts, filled up to a
    /// multiple of [`LANES`], then the imaginary parts.
    pub roots: &'a [T],
}

/// Lines in memory, of complex numbers in pairs. Line `n` is in block `n / inner`; a block has
/// `inner` interleaved lines, so that consecutive numbers of a line are `inner` apart.
#[derive(Clone, Copy)]
pub(super) struct Array<T> {
    pub from: *const T,
    /// May be equal to `from`; otherwise both do not overlap.
    pub to: *mut T,
    pub lines: usize,
    pub inner: usize,
    /// Whether real and imaginary parts are swapped, which makes the transform an inverse one.
    pub is_inverse: bool,
    /// The factor of the results.
    pub factor: T,
}

impl<T> Array<T> {
    /// Contiguous lines, transformed in place.
    pub(super) fn of_lines(lines: *mut T, count: usize, is_inverse: bool, factor: T) -> Self {
        Self {
            from: lines,
            to: lines,
            lines: count,
            inner: 1,
            is_inverse,
            factor,
        }
    }

    /// The start of a line, in numbers.
    fn start(&self, line: usize, length: usize) -> usize {
        let (block, within) = (line / self.inner, line % self.inner);
        2 * (block * length * self.inner + within)
    }

    /// The positions in a row of the first and the second part of each pair.
    fn parts(&self) -> [usize; 2] {
        match self.is_inverse {
            true => [LANES, 0],
            false => [0, LANES],
        }
    }
}

/// The sizes of the parts of scratch memory, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// The size of each of two arrays of rows.
    pub rows: usize,
    /// The size of a transposed matrix.
    pub matrix: usize,
    /// The size of each of four arrays of a line's parts.
    pub parts: usize,
}

impl Room {
    pub(super) fn numbers(&self) -> usize {
        2 * self.rows + self.matrix + 4 * self.parts
    }

    /// The sizes that suffice for both.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            rows: self.rows.max(other.rows),
            matrix: self.matrix.max(other.matrix),
            parts: self.parts.max(other.parts),
        }
    }
}

/// Scratch memory.
#[derive(Clone, Copy)]
pub(super) struct Memory<T> {
    rows: [*mut T; 2],
    matrix: *mut T,
    parts: [*mut T; 4],
}

impl<T> Memory<T> {
    /// Divides memory into parts of the given sizes.
    pub(super) fn new(start: *mut T, room: Room) -> Self {
        let matrix = start.wrapping_add(2 * room.rows);
        let part = |number: usize| matrix.wrapping_add(room.matrix + number * room.parts);
        Self {
            rows: [start, start.wrapping_add(room.rows)],
            matrix,
            parts: [part(0), part(1), part(2), part(3)],
        }
    }
}

/// The elements of a line, read from consecutive positions.
trait Source<T> {
    /// Loads as many elements as a vector has.
    ///
    /// # Safety
    /// The CPU has the vectors, and the line the elements.
    unsafe fn load<V: Lanes<T>>(&self, at: usize) -> [V::Value; 2];
    /// # Safety
    /// The line has the element.
    unsafe fn element(&self, at: usize) -> [T; 2];
}

/// The elements of a line, written to consecutive positions.
trait Target<T> {
    /// Stores as many elements as a vector has.
    ///
    /// # Safety
    /// The CPU has the vectors, and the line the elements.
    unsafe fn store<V: Lanes<T>>(&self, at: usize, values: [V::Value; 2]);
    /// # Safety
    /// The line has the element.
    unsafe fn set(&self, at: usize, value: [T; 2]);
}

/// Pairs, whose two parts may be swapped.
#[derive(Clone, Copy)]
struct Pairs<T> {
    start: *const T,
    is_swapped: bool,
}

impl<T: Real> Source<T> for Pairs<T> {
    #[inline(always)]
    unsafe fn load<V: Lanes<T>>(&self, at: usize) -> [V::Value; 2] {
        // SAFETY: the caller promises a CPU with these vector instructions, and that the elements
        // can be accessed.
        let [re, im] = unsafe { V::load_pairs(self.start.add(2 * at)) };
        if self.is_swapped { [im, re] } else { [re, im] }
    }

    #[inline(always)]
    unsafe fn element(&self, at: usize) -> [T; 2] {
        // SAFETY: the caller promises that the element can be accessed.
        let [re, im] = unsafe { self.start.add(2 * at).cast::<[T; 2]>().read() };
        if self.is_swapped { [im, re] } else { [re, im] }
    }
}

/// Pairs to be written, whose two parts may be swapped, with a factor.
#[derive(Clone, Copy)]
struct Products<T> {
    start: *mut T,
    is_swapped: bool,
    factor: T,
}

impl<T: Real> Target<T> for Products<T> {
    #[inline(always)]
    unsafe fn store<V: Lanes<T>>(&self, at: usize, [re, im]: [V::Value; 2]) {
        // SAFETY: the caller promises a CPU with these vector instructions, and that the elements
        // can be accessed.
        unsafe {
            let factor = V::splat(self.factor);
            let (re, im) = (V::mul(re, factor), V::mul(im, factor));
            let pair = if self.is_swapped { [im, re] } else { [re, im] };
            V::store_pairs(self.start.add(2 * at), pair);
        }
    }

    #[inline(always)]
    unsafe fn set(&self, at: usize, [re, im]: [T; 2]) {
        let (re, im) = (re * self.factor, im * self.factor);
        let pair = if self.is_swapped { [im, re] } else { [re, im] };
        // SAFETY: the caller promises that the element can be accessed.
        unsafe { self.start.add(2 * at).cast::<[T; 2]>().write(pair) }
    }
}

/// Real and imaginary parts in separate arrays.
#[derive(Clone, Copy)]
struct Parts<T>([*mut T; 2]);

impl<T: Real> Source<T> for Parts<T> {
    #[inline(always)]
    unsafe fn load<V: Lanes<T>>(&self, at: usize) -> [V::Value; 2] {
        // SAFETY: the caller promises a CPU with these vector instructions, and that the elements
        // can be accessed.
        unsafe { [V::load(self.0[0].add(at)), V::load(self.0[1].add(at))] }
    }

    #[inline(always)]
    unsafe fn element(&self, at: usize) -> [T; 2] {
        // SAFETY: the caller promises that the element can be accessed.
        unsafe { [self.0[0].add(at).read(), self.0[1].add(at).read()] }
    }
}

impl<T: Real> Target<T> for Parts<T> {
    #[inline(always)]
    unsafe fn store<V: Lanes<T>>(&self, at: usize, [re, im]: [V::Value; 2]) {
        // SAFETY: the caller promises a CPU with these vector instructions, and that the elements
        // can be accessed.
        unsafe {
            V::store(self.0[0].add(at), re);
            V::store(self.0[1].add(at), im);
        }
    }

    #[inline(always)]
    unsafe fn set(&self, at: usize, [re, im]: [T; 2]) {
        // SAFETY: the caller promises that the element can be accessed.
        unsafe {
            self.0[0].add(at).write(re);
            self.0[1].add(at).write(im);
        }
    }
}

impl<T: Real> Line<'_, T> {
    /// The scratch memory for transforms of these lines.
    pub(super) fn room(&self) -> Room {
        match self.form {
            Form::Lanes(_) => Room {
                rows: self.length * ROW,
                ..Room::default()
            },
            Form::Matrix(matrix) => matrix.room(),
            Form::Convolution { matrix, .. } => Room {
                parts: matrix.columns.length * matrix.rows.length,
                ..matrix.room()
            },
        }
    }

    /// Transforms lines.
    ///
    /// # Safety
    /// The CPU has these vectors. The array's memory contains its lines. The scratch memory has the
    /// sizes that [`Self::room`] returns.
    #[inline(always)]
    pub(super) unsafe fn run<V: Compiled<T>>(&self, array: &Array<T>, memory: &Memory<T>) {
        let parts = array.parts();
        match self.form {
            Form::Lanes(passes) => {
                let mut first = 0;
                while first < array.lines && !is_stopped() {
                    // SAFETY: the caller promises a CPU with these vector instructions, lines that
                    // exist, and enough memory.
                    unsafe {
                        first += self.lanes::<V>(&passes, array, first, parts, memory);
                    }
                }
            }
            Form::Matrix(matrix) => {
                for line in 0..array.lines {
                    if is_stopped() {
                        return;
                    }
                    let start = array.start(line, self.length);
                    // SAFETY: the caller promises the arrays and memory; a line that is treated as
                    // a matrix is contiguous.
                    unsafe {
                        let from = Pairs {
                            start: array.from.add(start),
                            is_swapped: array.is_inverse,
                        };
                        let to = Products {
                            start: array.to.add(start),
                            is_swapped: array.is_inverse,
                            factor: array.factor,
                        };
                        matrix.run::<V>(from, to, memory);
                    }
                }
            }
            Form::Convolution {
                chirp,
                filter,
                matrix,
            } => {
                for line in 0..array.lines {
                    if is_stopped() {
                        return;
                    }
                    // SAFETY: as in the first block of this function.
                    unsafe { self.convolve::<V>([chirp, filter], &matrix, array, line, memory) };
                }
            }
        }
    }

    /// Transforms up to [`LANES`] lines from `first` on together; returns their number.
    ///
    /// # Safety
    /// As [`Self::run`].
    #[inline(always)]
    unsafe fn lanes<V: Compiled<T>>(
        &self,
        passes: &Passes<'_, T>,
        array: &Array<T>,
        first: usize,
        parts: [usize; 2],
        memory: &Memory<T>,
    ) -> usize {
        let (length, inner) = (self.length, array.inner);
        let are_columns = inner >= LANES / 2;
        // Interleaved lines that are transformed together must be in one block.
        let most = match are_columns {
            true => inner - first % inner,
            false => array.lines - first,
        };
        let count = most.min(LANES);
        let arrays = memory.rows;
        let (rows, other) = (arrays[0], arrays[1]);
        let start = array.start(first, length);
        // SAFETY: the caller promises a CPU with these vector instructions, lines that exist, and
        // enough memory.
        unsafe {
            let (from, to) = (array.from.add(start), array.to.add(start));
            if are_columns && count == LANES {
                let from = Columns {
                    matrix: Pairs {
                        start: from,
                        is_swapped: array.is_inverse,
                    },
                    columns: inner,
                    first: 0,
                };
                let to = Columns {
                    matrix: Products {
                        start: to,
                        is_swapped: array.is_inverse,
                        factor: array.factor,
                    },
                    columns: inner,
                    first: 0,
                };
                passes.run::<V>(&from, arrays, &to);
            } else if inner == 1 && count == LANES {
                turn_to_rows::<T, V>(from, length, rows, parts);
                let result = passes.run_in_rows::<V>([rows, other]);
                turn_to_lines::<T, V>(result, parts, array.factor, to, length);
            } else {
                for at in (0..length * ROW).step_by(V::COUNT) {
                    V::store(rows.add(at), V::splat(T::ZERO));
                }
                for lane in 0..count {
                    let from = array.from.add(array.start(first + lane, length));
                    for k in 0..length {
                        let row = rows.add(k * ROW + lane);
                        let from = from.add(2 * k * inner);
                        row.add(parts[0]).write(from.read());
                        row.add(parts[1]).write(from.add(1).read());
                    }
                }
                let result = passes.run_in_rows::<V>([rows, other]);
                for lane in 0..count {
                    let to = array.to.add(array.start(first + lane, length));
                    for k in 0..length {
                        let row = result.add(k * ROW + lane);
                        let to = to.add(2 * k * inner);
                        to.write(row.add(parts[0]).read() * array.factor);
                        to.add(1).write(row.add(parts[1]).read() * array.factor);
                    }
                }
            }
        }
        count
    }

    /// Bluestein's algorithm: `x[k] c[k]` convolved with `conj(c)`, times `c`.
    ///
    /// # Safety
    /// As [`Self::run`].
    #[inline(always)]
    unsafe fn convolve<V: Compiled<T>>(
        &self,
        [chirp, filter]: [&[T]; 2],
        matrix: &Matrix<'_, T>,
        array: &Array<T>,
        line: usize,
        memory: &Memory<T>,
    ) {
        let start = array.start(line, self.length);
        let (length, distance) = (self.length, 2 * array.inner);
        let room = matrix.columns.length * matrix.rows.length;
        let [re, im, other, other_im] = memory.parts;
        let own = usize::from(array.is_inverse);
        let (chirp, filter) = (chirp.as_ptr(), filter.as_ptr());
        // SAFETY: the caller promises a CPU with these vector instructions, lines that exist, and
        // enough memory, whose parts are of the convolution's length.
        unsafe {
            for k in 0..length {
                let from = array.from.add(start + k * distance);
                let (x, xi) = (from.add(own).read(), from.add(1 - own).read());
                let [c, d] = chirp.add(2 * k).cast::<[T; 2]>().read();
                re.add(k).write(x * c - xi * d);
                im.add(k).write(x * d + xi * c);
            }
            for k in length..room {
                re.add(k).write(T::ZERO);
                im.add(k).write(T::ZERO);
            }
            // The inverse transform swaps real and imaginary parts. The filter includes its factor.
            for (from, to, is_back) in [
                ([re, im], [other, other_im], false),
                ([other_im, other], [im, re], true),
            ] {
                if is_back {
                    for k in 0..room {
                        let (x, xi) = (other.add(k).read(), other_im.add(k).read());
                        let [c, d] = filter.add(2 * k).cast::<[T; 2]>().read();
                        other.add(k).write(x * c - xi * d);
                        other_im.add(k).write(x * d + xi * c);
                    }
                }
                matrix.run::<V>(Parts(from), Parts(to), memory);
            }
            for k in 0..length {
                let to = array.to.add(start + k * distance);
                let (x, xi) = (re.add(k).read(), im.add(k).read());
                let [c, d] = chirp.add(2 * k).cast::<[T; 2]>().read();
                to.add(own).write((x * c - xi * d) * array.factor);
                to.add(1 - own).write((x * d + xi * c) * array.factor);
            }
        }
    }
}

impl<T: Real> Matrix<'_, T> {
    fn room(&self) -> Room {
        let (rows, columns) = (self.columns.length, self.rows.length);
        Room {
            rows: rows.max(columns).next_multiple_of(LANES) * ROW,
            matrix: 2 * rows.next_multiple_of(LANES) * columns.next_multiple_of(LANES),
            parts: 0,
        }
    }

    /// Transforms a line.
    ///
    /// # Safety
    /// The CPU has these vectors. The source and the destination have the matrix's elements; they
    /// may be the same. The scratch memory has the sizes that the matrix needs.
    #[inline(always)]
    unsafe fn run<V: Compiled<T>>(
        &self,
        from: impl Source<T> + Copy,
        to: impl Target<T> + Copy,
        memory: &Memory<T>,
    ) {
        let (rows, columns) = (self.columns.length, self.rows.length);
        let wide = columns.next_multiple_of(LANES);
        // Transposed columns are blocks of lanes, each with that many rows.
        let block = wide * ROW;
        let [local, other] = memory.rows;
        let turned = |row: usize| memory.matrix.wrapping_add(row / LANES * block);
        for first in (0..columns).step_by(LANES) {
            let count = LANES.min(columns - first);
            let own = Columns {
                matrix: from,
                columns,
                first,
            };
            let products = Rooted {
                rows: Rows(local),
                roots: self.roots.as_ptr().wrapping_add(first),
                wide,
            };
            // SAFETY: the caller promises a CPU with these vector instructions, the line and the
            // memory.
            unsafe {
                if count == LANES {
                    self.columns.run::<V>(&own, [other, local], &products);
                } else {
                    for row in 0..rows {
                        own.some_to_row::<T, V>(row, count, local.add(row * ROW));
                    }
                    self.columns
                        .run::<V>(&Rows(local), [other, local], &products);
                }
                for row in (0..rows).step_by(LANES) {
                    let to = turned(row).add(first * ROW);
                    for part in [0, LANES] {
                        tile::<T, V>(local.add(row * ROW + part), to.add(part));
                    }
                }
            }
        }
        for first in (0..rows).step_by(LANES) {
            let count = LANES.min(rows - first);
            let own = Columns {
                matrix: to,
                columns: rows,
                first,
            };
            let turned = Rows(turned(first));
            // SAFETY: as in the first block of this function.
            unsafe {
                if count == LANES {
                    self.rows.run::<V>(&turned, [local, other], &own);
                } else {
                    self.rows.run::<V>(&turned, [local, other], &turned);
                    for row in 0..columns {
                        own.some_of_row::<T, V>(row, count, turned.0.add(row * ROW));
                    }
                }
            }
        }
    }
}

/// The columns of a matrix from `first` on.
struct Columns<M> {
    /// The matrix's elements, row by row.
    matrix: M,
    /// The number of the matrix's columns.
    columns: usize,
    first: usize,
}

impl<T, M: Source<T>> Load<T> for Columns<M> {
    #[inline(always)]
    unsafe fn load<V: Lanes<T>>(&self, row: usize, lane: usize) -> [V::Value; 2] {
        // SAFETY: the caller promises a CPU with these vector instructions, and that the matrix has
        // this row and these columns.
        unsafe {
            self.matrix
                .load::<V>(row * self.columns + self.first + lane)
        }
    }
}

impl<T, M: Target<T>> Store<T> for Columns<M> {
    #[inline(always)]
    unsafe fn store<V: Lanes<T>>(&self, row: usize, lane: usize, values: [V::Value; 2]) {
        let at = row * self.columns + self.first + lane;
        // SAFETY: the caller promises a CPU with these vector instructions, and that the matrix has
        // this row and these columns.
        unsafe { self.matrix.store::<V>(at, values) }
    }
}

impl<M> Columns<M> {
    /// Copies some columns of a matrix row to a row in memory.
    ///
    /// # Safety
    /// The CPU has these vectors; the matrix has the columns, and memory the row.
    #[inline(always)]
    unsafe fn some_to_row<T: Copy, V: Lanes<T>>(&self, row: usize, count: usize, to: *mut T)
    where
        M: Source<T>,
    {
        let start = row * self.columns + self.first;
        let whole = count / V::COUNT * V::COUNT;
        // SAFETY: the caller promises a CPU with these vector instructions, and that the columns
        // and the row exist.
        unsafe {
            for lane in (0..whole).step_by(V::COUNT) {
                let [re, im] = self.matrix.load::<V>(start + lane);
                V::store(to.add(lane), re);
                V::store(to.add(LANES + lane), im);
            }
            for lane in whole..count {
                let [re, im] = self.matrix.element(start + lane);
                to.add(lane).write(re);
                to.add(LANES + lane).write(im);
            }
        }
    }

    /// Copies some columns of a matrix row from a row in memory.
    ///
    /// # Safety
    /// As [`Self::some_to_row`].
    #[inline(always)]
    unsafe fn some_of_row<T: Copy, V: Lanes<T>>(&self, row: usize, count: usize, from: *const T)
    where
        M: Target<T>,
    {
        let start = row * self.columns + self.first;
        let whole = count / V::COUNT * V::COUNT;
        // SAFETY: the caller promises a CPU with these vector instructions, and that the columns
        // and the row exist.
        unsafe {
            for lane in (0..whole).step_by(V::COUNT) {
                let pair = [V::load(from.add(lane)), V::load(from.add(LANES + lane))];
                self.matrix.store::<V>(start + lane, pair);
            }
            for lane in whole..count {
                let pair = [from.add(lane).read(), from.add(LANES + lane).read()];
                self.matrix.set(start + lane, pair);
            }
        }
    }
}

/// Rows that are multiplied by twiddle factors.
struct Rooted<T> {
    rows: Rows<T>,
    /// For each row, `wide` real parts, then as many imaginary parts.
    roots: *const T,
    wide: usize,
}

impl<T: Copy> Store<T> for Rooted<T> {
    #[inline(always)]
    unsafe fn store<V: Lanes<T>>(&self, row: usize, lane: usize, [re, im]: [V::Value; 2]) {
        // SAFETY: the caller promises a CPU with these vector instructions, and that the row
        // exists and has roots.
        unsafe {
            let root = self.roots.add(2 * row * self.wide + lane);
            let (c, d) = (V::load(root), V::load(root.add(self.wide)));
            let product = [
                V::sub(V::mul(re, c), V::mul(im, d)),
                V::add(V::mul(re, d), V::mul(im, c)),
            ];
            self.rows.store::<V>(row, lane, product);
        }
    }
}

/// Transposes a tile of [`LANES`] rows of one part (real or imaginary).
///
/// # Safety
/// The CPU has these vectors, and the arrays the rows.
#[inline(always)]
unsafe fn tile<T: Copy, V: Lanes<T>>(from: *const T, to: *mut T) {
    for row in (0..LANES).step_by(V::COUNT) {
        for lane in (0..LANES).step_by(V::COUNT) {
            // SAFETY: the caller promises a CPU with these vector instructions, and that the rows
            // exist.
            unsafe {
                V::transpose(
                    from.add(row * ROW + lane),
                    ROW,
                    to.add(lane * ROW + row),
                    ROW,
                );
            }
        }
    }
}

/// Transposes [`LANES`] lines of pairs to rows; `parts` are the positions of both parts in a row.
///
/// # Safety
/// The CPU has these vectors; the lines and the rows are in memory.
#[inline(always)]
unsafe fn turn_to_rows<T: Real, V: Lanes<T>>(
    from: *const T,
    length: usize,
    rows: *mut T,
    parts: [usize; 2],
) {
    let numbers = 2 * length;
    // SAFETY: the caller promises a CPU with these vector instructions, and that the lines and rows
    // exist.
    unsafe {
        let is_swapped = parts[0] != 0;
        let whole = numbers / V::COUNT * V::COUNT;
        for lane in (0..LANES).step_by(V::COUNT) {
            for number in (0..whole).step_by(V::COUNT) {
                let to = rows.add(number * LANES + lane);
                V::transpose(from.add(lane * numbers + number), numbers, to, LANES);
            }
        }
        for number in whole..numbers {
            for lane in 0..LANES {
                let to = rows.add(number * LANES + lane);
                to.write(from.add(lane * numbers + number).read());
            }
        }
        if is_swapped {
            swap_parts::<T, V>(rows, length, T::ONE);
        }
    }
}

/// Transposes rows to lines of pairs, multiplied by a factor; `parts` are the positions of both
/// parts in a row.
///
/// # Safety
/// The CPU has these vectors; the rows and the lines are in memory.
#[inline(always)]
unsafe fn turn_to_lines<T: Real, V: Lanes<T>>(
    rows: *mut T,
    parts: [usize; 2],
    by: T,
    to: *mut T,
    length: usize,
) {
    let numbers = 2 * length;
    // SAFETY: the caller promises a CPU with these vector instructions, and that the lines and rows
    // exist.
    unsafe {
        // Forward transforms have no factor.
        if parts[0] != 0 {
            swap_parts::<T, V>(rows, length, by);
        }
        let whole = numbers / V::COUNT * V::COUNT;
        for lane in (0..LANES).step_by(V::COUNT) {
            for number in (0..whole).step_by(V::COUNT) {
                let from = rows.add(number * LANES + lane);
                V::transpose(from, LANES, to.add(lane * numbers + number), numbers);
            }
        }
        for number in whole..numbers {
            for lane in 0..LANES {
                let from = rows.add(number * LANES + lane);
                to.add(lane * numbers + number).write(from.read());
            }
        }
    }
}

/// Swaps the parts of each row, multiplied by a factor.
///
/// # Safety
/// The CPU has these vectors, and the array the rows.
#[inline(always)]
unsafe fn swap_parts<T: Copy, V: Lanes<T>>(rows: *mut T, count: usize, by: T) {
    for row in 0..count {
        for lane in (0..LANES).step_by(V::COUNT) {
            // SAFETY: the caller promises a CPU with these vector instructions, and that the rows
            // exist.
            unsafe {
                let by = V::splat(by);
                let at = rows.add(row * ROW + lane);
                let (re, im) = (V::load(at), V::load(at.add(LANES)));
                V::store(at, V::mul(im, by));
                V::store(at.add(LANES), V::mul(re, by));
            }
        }
    }
}
