//! Cholesky and LU factorisations, triangular and tridiagonal solves of row-major matrices, without
//! allocation: called by runs and by compiled programs.
//!
//! All but the tridiagonal solves use one inner loop, `tile`: it subtracts from some rows of a
//! matrix the products of other elements and packed rows of 16 columns.

mod cholesky;
mod lu;
mod number;
#[cfg(test)]
mod tests;
mod triangular;
mod tridiagonal;
pub(crate) mod vectors;

use crate::microkernels::{CpuFeatures, VectorWidth};
pub use cholesky::Cholesky;
pub use lu::Lu;
pub use number::{Complex, Number, Real};
pub use triangular::Solve;
pub use tridiagonal::TridiagonalSolve;
use vectors::{LANES, Vectors};

/// A view of a matrix in memory: the address of element (0, 0), and the distances of rows and of
/// columns in elements.
#[derive(Clone, Copy)]
struct Matrix<T> {
    start: *mut T,
    row: isize,
    column: isize,
}

impl<T: Number> Matrix<T> {
    fn at(&self, row: usize, column: usize) -> *mut T {
        let offset = row as isize * self.row + column as isize * self.column;
        self.start.wrapping_offset(offset)
    }

    /// # Safety
    /// The element is inside the matrix.
    #[inline(always)]
    unsafe fn get(&self, row: usize, column: usize) -> T {
        // SAFETY: the caller promises that the element can be accessed.
        unsafe { self.at(row, column).read() }
    }

    /// # Safety
    /// The element is inside the matrix and may be written.
    #[inline(always)]
    unsafe fn set(&self, row: usize, column: usize, to: T) {
        // SAFETY: the caller promises that the element can be accessed.
        unsafe { self.at(row, column).write(to) }
    }

    /// Loads some columns of a row; the remaining lanes are zero.
    ///
    /// # Safety
    /// The matrix has these elements.
    #[inline(always)]
    unsafe fn lanes(&self, row: usize, first: usize, count: usize) -> T::Lanes {
        let mut lanes = T::ZEROS;
        if self.column == 1 && count >= LANES {
            // SAFETY: the caller promises that the elements can be accessed.
            return unsafe { contiguous(self.at(row, first)) };
        }
        for lane in 0..count.min(LANES) {
            // SAFETY: the caller promises that the elements can be accessed.
            T::set_lane(&mut lanes, lane, unsafe { self.get(row, first + lane) });
        }
        lanes
    }

    /// Writes some columns of a row.
    ///
    /// # Safety
    /// The matrix has these elements, which may be written.
    #[inline(always)]
    unsafe fn set_lanes(&self, row: usize, first: usize, count: usize, lanes: &T::Lanes) {
        if self.column == 1 && count >= LANES {
            let start = self.at(row, first);
            for lane in 0..LANES {
                // SAFETY: the caller promises that the elements can be accessed.
                unsafe { start.add(lane).write(T::lane(lanes, lane)) };
            }
            return;
        }
        for lane in 0..count.min(LANES) {
            // SAFETY: the caller promises that the elements can be accessed.
            unsafe { self.set(row, first + lane, T::lane(lanes, lane)) };
        }
    }
}

/// Loads consecutive numbers into lanes.
///
/// # Safety
/// [`LANES`] numbers can be read.
#[inline(always)]
unsafe fn contiguous<T: Number>(start: *const T) -> T::Lanes {
    let mut lanes = T::ZEROS;
    for lane in 0..LANES {
        // SAFETY: the caller promises that the elements can be accessed.
        T::set_lane(&mut lanes, lane, unsafe { start.add(lane).read() });
    }
    lanes
}

/// Subtracts from rows of lanes the product of a block of the matrix (rows from `row` on, columns
/// from `column` on, one for each packed row) and the packed rows. Rows beyond the matrix's last
/// row are computed from the last row.
///
/// # Safety
/// The matrix has the elements, and the CPU the vectors.
#[inline(always)]
unsafe fn tile<T: Number, V: Vectors, const ROWS: usize, const CONJUGATE: bool>(
    matrix: &Matrix<T>,
    (row, rows): (usize, usize),
    column: usize,
    packed: &[T::Lanes],
    sums: &mut [T::Lanes; ROWS],
) {
    let mut own = *sums;
    let last = rows.min(ROWS) - 1;
    let starts: [*mut T; ROWS] = core::array::from_fn(|r| matrix.at(row + r.min(last), column));
    let mut offset = 0;
    for lanes in packed {
        let lanes = *lanes;
        for (sums, start) in own.iter_mut().zip(starts) {
            // SAFETY: the caller promises that the elements can be accessed, and the instructions.
            unsafe {
                let element = start.wrapping_offset(offset).read();
                let element = match CONJUGATE {
                    true => element.conjugate(),
                    false => element,
                };
                T::subtract::<V>(sums, element, &lanes);
            }
        }
        offset += matrix.column;
    }
    *sums = own;
}

/// A routine, compiled for several instruction sets; `ROWS` is the tile height whose lanes fill the
/// vector registers. `run` must be `#[inline(always)]`.
trait Routine {
    /// # Safety
    /// The CPU has the vectors, and the routine's own requirements hold.
    unsafe fn run<V: Vectors, const ROWS: usize>(self);
}

/// Runs a routine with the widest vectors that may be used.
///
/// # Safety
/// The routine's own requirements; the CPU has the features in `isa`.
#[inline(always)]
unsafe fn dispatch(isa: CpuFeatures, routine: impl Routine) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn avx512(routine: impl Routine) {
            // SAFETY: the caller promises the requirements of the routine, and a CPU with these
            // vectors.
            unsafe { routine.run::<vectors::Avx512, 8>() }
        }
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2(routine: impl Routine) {
            // SAFETY: the caller promises the requirements of the routine, and a CPU with these
            // vectors.
            unsafe { routine.run::<vectors::Avx2, 4>() }
        }
        match isa.width {
            // SAFETY: the caller promises the requirements of the routine, and that the CPU has the
            // features in `isa`, so it has AVX-512.
            VectorWidth::Avx512 => return unsafe { avx512(routine) },
            // SAFETY: as for AVX-512; here the CPU has AVX2 and FMA.
            VectorWidth::Avx2 => return unsafe { avx2(routine) },
            _ => {}
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = isa;
    #[cfg(target_arch = "aarch64")]
    use vectors::Neon as Every;
    #[cfg(not(target_arch = "aarch64"))]
    use vectors::Portable as Every;
    // SAFETY: the caller promises the requirements of the routine, and a CPU with these vectors;
    // every CPU has these vectors.
    unsafe { routine.run::<Every, 4>() }
}
