//! Triangular solves. Many right-hand sides are solved in blocks; a single one is solved by vectors
//! along its own elements.

use super::{LANES, Matrix, Number, Routine, Vectors, contiguous, dispatch, tile};
use crate::microkernels::CpuFeatures;
use crate::thread_pool::is_stopped;

/// Solves `op(a) x = b`, or `x op(a) = b`, for pairs of matrices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solve {
    /// The number of rows of `b`.
    pub rows: usize,
    /// The number of columns of `b`.
    pub columns: usize,
    /// The number of pairs.
    pub count: usize,
    /// Whether `a` is on the left.
    pub left_side: bool,
    /// Whether `a` is lower triangular.
    pub lower: bool,
    /// Whether the diagonal of `a` counts as ones.
    pub unit_diagonal: bool,
    /// Whether `op` is the transpose.
    pub transposed: bool,
    /// Whether `op` conjugates.
    pub conjugated: bool,
}

impl Solve {
    fn n(&self) -> usize {
        match self.left_side {
            true => self.rows,
            false => self.columns,
        }
    }

    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes<T: Number>(&self) -> usize {
        // Without matrices, their size may exceed the memory.
        match self.count {
            0 => 0,
            _ => self.n() * size_of::<T::Lanes>(),
        }
    }

    /// Replaces each `b` by the solution.
    ///
    /// # Safety
    /// The arrays have `count` matrices and do not overlap; `scratch` has [`Self::scratch_bytes`],
    /// aligned to 64; the CPU has the features in `isa`.
    #[inline(always)]
    pub unsafe fn run<T: Number>(
        &self,
        isa: CpuFeatures,
        a: *const T,
        b: *mut T,
        scratch: *mut u8,
    ) {
        let n = self.n();
        for number in 0..self.count {
            let a = a.wrapping_add(number * n * n).cast_mut();
            let b = b.wrapping_add(number * self.rows * self.columns);
            // With `a` on the right, the transposed system is solved.
            let transposed = self.transposed == self.left_side;
            let lower = self.lower != transposed;
            let by_rows = [n as isize, 1];
            let own = [self.columns as isize, 1];
            let [row, column] = if transposed { [1, n as isize] } else { by_rows };
            let [b_row, b_column] = match self.left_side {
                true => own,
                false => [own[1], own[0]],
            };
            let mut a = Matrix {
                start: a,
                row,
                column,
            };
            let mut b = Matrix {
                start: b,
                row: b_row,
                column: b_column,
            };
            if !lower && n > 0 {
                // Read from the end, an upper triangle is a lower one.
                let last = (n - 1) as isize;
                a.start = a.start.wrapping_offset(last * (row + column));
                (a.row, a.column) = (-row, -column);
                b.start = b.start.wrapping_offset(last * b_row);
                b.row = -b_row;
            }
            let columns = match self.left_side {
                true => self.columns,
                false => self.rows,
            };
            let substitution = Substitution {
                n,
                columns,
                a,
                b,
                unit_diagonal: self.unit_diagonal,
                conjugated: self.conjugated,
                packed: scratch.cast(),
            };
            // SAFETY: the caller promises arrays and scratch memory of these sizes, and a CPU with
            // these vector instructions.
            unsafe { dispatch(isa, substitution) };
        }
    }
}

/// Forward substitution.
struct Substitution<T: Number> {
    n: usize,
    columns: usize,
    a: Matrix<T>,
    b: Matrix<T>,
    unit_diagonal: bool,
    conjugated: bool,
    /// Room for one row of lanes for each row.
    packed: *mut T::Lanes,
}

impl<T: Number> Routine for Substitution<T> {
    #[inline(always)]
    unsafe fn run<V: Vectors, const ROWS: usize>(self) {
        // SAFETY: the caller promises matrices of these sizes, room for the packed rows, and a CPU
        // with these vector instructions.
        unsafe {
            match self.conjugated {
                true => self.all::<V, ROWS, true>(),
                false => self.all::<V, ROWS, false>(),
            }
        }
    }
}

/// Up to this many right-hand sides are solved one by one.
const FEW: usize = 4;

impl<T: Number> Substitution<T> {
    /// # Safety
    /// As [`Solve::run`].
    #[inline(always)]
    unsafe fn all<V: Vectors, const ROWS: usize, const CONJUGATE: bool>(&self) {
        // SAFETY: the caller promises matrices of these sizes, and a CPU with these vector
        // instructions.
        unsafe {
            match self.n {
                1 => return self.small::<V, 1, CONJUGATE>(),
                2 => return self.small::<V, 2, CONJUGATE>(),
                3 => return self.small::<V, 3, CONJUGATE>(),
                4 => return self.small::<V, 4, CONJUGATE>(),
                _ => {}
            }
        }
        let mut first = 0;
        while first < self.columns && !is_stopped() {
            let count = match self.columns - first {
                few @ 1..=FEW => few,
                many => many.min(LANES),
            };
            // SAFETY: the caller promises matrices of these sizes, room for the packed rows, and a
            // CPU with these vector instructions.
            unsafe {
                match count {
                    1..=FEW => self.one::<V, ROWS, CONJUGATE>(first),
                    _ => self.some::<V, ROWS, CONJUGATE>(first, count),
                }
            }
            first += if count <= FEW { 1 } else { count };
        }
    }

    /// # Safety
    /// The matrix has the element.
    #[inline(always)]
    unsafe fn element<const CONJUGATE: bool>(&self, row: usize, column: usize) -> T {
        // SAFETY: the caller promises that the element can be accessed.
        let element = unsafe { self.a.get(row, column) };
        match CONJUGATE {
            true => element.conjugate(),
            false => element,
        }
    }

    /// # Safety
    /// As [`Solve::run`], for these columns.
    #[inline(always)]
    unsafe fn some<V: Vectors, const ROWS: usize, const CONJUGATE: bool>(
        &self,
        first: usize,
        count: usize,
    ) {
        // SAFETY: the caller promises matrices of these sizes, room for the packed rows, and a CPU
        // with these vector instructions.
        unsafe {
            let packed = core::slice::from_raw_parts_mut(self.packed, self.n);
            for row in (0..self.n).step_by(ROWS) {
                let rows = ROWS.min(self.n - row);
                let mut sums = [T::ZEROS; ROWS];
                for (r, sums) in sums.iter_mut().enumerate().take(rows) {
                    *sums = self.b.lanes(row + r, first, count);
                }
                let (known, own) = packed.split_at_mut(row);
                tile::<T, V, ROWS, CONJUGATE>(&self.a, (row, rows), 0, known, &mut sums);
                // With a constant number of rows, sums stay in registers.
                match rows == ROWS {
                    true => self.corner::<V, ROWS, CONJUGATE>(row, ROWS, &mut sums),
                    false => self.corner::<V, ROWS, CONJUGATE>(row, rows, &mut sums),
                }
                for (r, sums) in sums.iter().enumerate().take(rows) {
                    own[r] = *sums;
                    self.b.set_lanes(row + r, first, count, sums);
                }
            }
        }
    }

    /// Solves some rows, from which the products with all solved rows before them have been
    /// subtracted.
    ///
    /// # Safety
    /// As [`Solve::run`]; the matrix has these rows.
    #[inline(always)]
    unsafe fn corner<V: Vectors, const ROWS: usize, const CONJUGATE: bool>(
        &self,
        row: usize,
        rows: usize,
        sums: &mut [T::Lanes; ROWS],
    ) {
        for r in 0..rows {
            // SAFETY: the caller promises a matrix of this size, and a CPU with these vector
            // instructions.
            unsafe {
                if !self.unit_diagonal {
                    let diagonal = self.element::<CONJUGATE>(row + r, row + r);
                    T::scale(&mut sums[r], diagonal.reciprocal());
                }
                let solved = sums[r];
                for (below, sums) in sums.iter_mut().enumerate().take(rows).skip(r + 1) {
                    let element = self.element::<CONJUGATE>(row + below, row + r);
                    T::subtract::<V>(sums, element, &solved);
                }
            }
        }
    }

    /// Solves all columns of `b` with a matrix of `N` rows, in registers.
    ///
    /// # Safety
    /// As [`Solve::run`].
    #[inline(always)]
    unsafe fn small<V: Vectors, const N: usize, const CONJUGATE: bool>(&self) {
        // SAFETY: the caller promises matrices of these sizes, and a CPU with these vector
        // instructions.
        unsafe {
            let mut a = [[T::ZERO; N]; N];
            for (row, elements) in a.iter_mut().enumerate() {
                for (column, element) in elements.iter_mut().enumerate().take(row + 1) {
                    *element = self.element::<CONJUGATE>(row, column);
                }
                if !self.unit_diagonal {
                    elements[row] = elements[row].reciprocal();
                }
            }
            for column in 0..self.columns {
                let mut solved = [T::ZERO; N];
                for row in 0..N {
                    let mut own = self.b.get(row, column);
                    for (&element, &solved) in a[row].iter().zip(&solved).take(row) {
                        own = own.less_product::<V>(element, solved);
                    }
                    if !self.unit_diagonal {
                        own = own.times(a[row][row]);
                    }
                    solved[row] = own;
                    self.b.set(row, column, own);
                }
            }
        }
    }

    /// Solves one column of `b`, [`LANES`] rows at a time.
    ///
    /// # Safety
    /// As [`Solve::run`], for this column.
    #[inline(always)]
    unsafe fn one<V: Vectors, const ROWS: usize, const CONJUGATE: bool>(&self, column: usize) {
        let mut row = 0;
        // All blocks except for the first are full.
        let mut rows = match self.n % LANES {
            0 => LANES.min(self.n),
            rest => rest,
        };
        while row < self.n {
            let mut own = [T::ZERO; LANES];
            // SAFETY: the caller promises the matrices, room for the solved numbers, and the CPU.
            unsafe {
                for (r, own) in own.iter_mut().enumerate().take(rows) {
                    *own = self.b.get(row + r, column);
                }
                if row > 0 && self.a.row.abs() == 1 {
                    self.columns_of_block::<V, CONJUGATE>(row, &mut own);
                } else if row > 0 {
                    self.rows_of_block::<V, ROWS, CONJUGATE>(row, &mut own);
                }
                for r in 0..rows {
                    if !self.unit_diagonal {
                        let diagonal = self.element::<CONJUGATE>(row + r, row + r);
                        own[r] = own[r].times(diagonal.reciprocal());
                    }
                    let solved = own[r];
                    for (below, own) in own.iter_mut().enumerate().take(rows).skip(r + 1) {
                        let element = self.element::<CONJUGATE>(row + below, row + r);
                        *own = own.less_product::<V>(element, solved);
                    }
                    self.solved(row + r).write(solved);
                    self.b.set(row + r, column, solved);
                }
            }
            row += rows;
            rows = LANES;
        }
    }

    /// The address of a solved number: solved numbers are in the order in which the matrix's
    /// columns, or rows, are in memory.
    #[inline(always)]
    fn solved(&self, row: usize) -> *mut T {
        let place = match self.a.row < 0 {
            true => self.n - 1 - row,
            false => row,
        };
        self.packed.cast::<T>().wrapping_add(place)
    }

    /// The one of [`LANES`] numbers from `first` on that is first in memory.
    #[inline(always)]
    fn first_of(&self, first: usize) -> usize {
        match self.a.row < 0 {
            true => first + LANES - 1,
            false => first,
        }
    }

    /// # Safety
    /// [`LANES`] elements can be read.
    #[inline(always)]
    unsafe fn lanes_of_a<const CONJUGATE: bool>(start: *const T) -> T::Lanes {
        // SAFETY: the caller promises that the elements can be accessed.
        let mut lanes = unsafe { contiguous(start) };
        if CONJUGATE {
            T::conjugate_each(&mut lanes);
        }
        lanes
    }

    /// Subtracts the products with all solved numbers from a block of rows, for a matrix with
    /// contiguous columns: lanes are rows.
    ///
    /// # Safety
    /// As [`Solve::run`]; the matrix has these rows.
    #[inline(always)]
    unsafe fn columns_of_block<V: Vectors, const CONJUGATE: bool>(
        &self,
        row: usize,
        own: &mut [T; LANES],
    ) {
        // Several independent sums.
        const SUMS: usize = 4;
        let first = self.first_of(row);
        let mut sums = [T::ZEROS; SUMS];
        // SAFETY: the caller promises matrices of these sizes, that the rows before are solved, and
        // a CPU with these vector instructions.
        unsafe {
            let mut column = 0;
            while column < row {
                for (number, sums) in sums.iter_mut().enumerate().take(row - column) {
                    let lanes = Self::lanes_of_a::<CONJUGATE>(self.a.at(first, column + number));
                    T::subtract::<V>(sums, self.solved(column + number).read(), &lanes);
                }
                column += SUMS;
            }
        }
        for (r, own) in own.iter_mut().enumerate() {
            let lane = if self.a.row < 0 { LANES - 1 - r } else { r };
            for sums in &sums {
                *own = own.plus(T::lane(sums, lane));
            }
        }
    }

    /// The same for a matrix with contiguous rows: lanes are columns.
    ///
    /// # Safety
    /// As [`Solve::run`]; the matrix has these rows.
    #[inline(always)]
    unsafe fn rows_of_block<V: Vectors, const ROWS: usize, const CONJUGATE: bool>(
        &self,
        row: usize,
        own: &mut [T; LANES],
    ) {
        let rest = row % LANES;
        // SAFETY: the caller promises matrices of these sizes, that the rows before are solved, and
        // a CPU with these vector instructions.
        unsafe {
            for column in 0..rest {
                let solved = self.solved(column).read();
                for (r, own) in own.iter_mut().enumerate() {
                    let element = self.element::<CONJUGATE>(row + r, column);
                    *own = own.less_product::<V>(element, solved);
                }
            }
            for (group, own) in own.chunks_exact_mut(ROWS).enumerate() {
                let mut sums = [T::ZEROS; ROWS];
                for column in (rest..row).step_by(LANES) {
                    let first = self.first_of(column);
                    let solved = contiguous(self.solved(first));
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let start = self.a.at(row + group * ROWS + r, first);
                        let lanes = Self::lanes_of_a::<CONJUGATE>(start);
                        T::subtract_each::<V>(sums, &lanes, &solved);
                    }
                }
                for (own, sums) in own.iter_mut().zip(&sums) {
                    *own = own.plus(T::sum(sums));
                }
            }
        }
    }
}
