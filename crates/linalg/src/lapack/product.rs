//! Matrix products, by [`crate::gemm`].
//!
//! A product of complex matrices is computed as a real one. A complex column of the right operand
//! or of the result is a real column of twice the length, with real and imaginary parts
//! interleaved; next to each column of the left operand stands that column times `i`.

use crate::CpuFeatures;
use crate::gemm::{Axes, Axis, Product};
use crate::lapack::matrix::Matrix;
use crate::lapack::scalar::{Real, Scalar};
use crate::thread_pool::ThreadPool;
use std::ptr;

impl<T: Scalar> Matrix<'_, T> {
    /// Overwrites this matrix by `a b`, for as many rows of `a` as this matrix has.
    pub(crate) fn set_product(&mut self, a: &Matrix<'_, T>, b: &Matrix<'_, T>) {
        multiply(a, b, self, Update::Replace);
    }

    /// Adds `a b` to this matrix.
    pub(crate) fn add_product(&mut self, a: &Matrix<'_, T>, b: &Matrix<'_, T>) {
        multiply(a, b, self, Update::Add);
    }
}

/// The effect of a product on the result's old value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Update {
    Replace,
    Add,
}

#[inline(never)]
fn multiply<T: Scalar>(
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    c: &mut Matrix<'_, T>,
    update: Update,
) {
    let (rows, depth, columns) = (c.rows(), b.rows(), c.columns());
    if rows == 0 || columns == 0 {
        return;
    }
    let used = a.corner(rows, depth);
    let parts = if T::IS_COMPLEX { 2 } else { 1 };
    let widened = match T::IS_COMPLEX {
        true => beside_times_i(used, a.stride(), rows, depth),
        false => Vec::new(),
    };
    let (a, a_stride) = match T::IS_COMPLEX {
        true => (&widened[..], parts * rows),
        false => (T::parts(used), a.stride()),
    };
    let (b, b_stride) = (T::parts(b.corner(depth, columns)), parts * b.stride());
    let c_stride = parts * c.stride();
    let axis = |size: usize, [lhs, rhs, out]: [usize; 3]| Axis {
        size,
        lhs: lhs as isize,
        rhs: rhs as isize,
        out: out as isize,
    };
    let axes = Axes {
        rows: [axis(parts * rows, [1, 0, 1])].into(),
        depth: [axis(parts * depth, [a_stride, 1, 0])].into(),
        columns: [axis(columns, [0, b_stride, c_stride])].into(),
        ..Axes::default()
    };
    // SAFETY: `corner`, `elements_mut` and `beside_times_i` return all elements of these rows and
    // columns, and `c` is borrowed mutably.
    unsafe { run(axes, a, b, T::parts_mut(c.elements_mut()), update) };
}

/// Computes a real product.
///
/// # Safety
/// Every element that the axes reach is inside the slices.
unsafe fn run<R: Real>(axes: Axes, a: &[R], b: &[R], c: &mut [R], update: Update) {
    let product = Product::new(CpuFeatures::detect(), [R::ELEMENT_TYPE; 3], axes, None);
    let product = match update {
        Update::Replace => product,
        Update::Add => product.and_then(Product::adding),
    };
    // `Product::new` fails only for types without an arithmetic, and an adding product only if sums
    // have another type than the result. f32 and f64 have an arithmetic on every CPU (`real!`).
    let product = product.expect("f32 and f64 have products, whose sums are of that type");
    const ALIGNMENT: usize = 64;
    let mut scratch = Vec::<u8>::with_capacity(product.scratch_bytes(1) + ALIGNMENT);
    let scratch = scratch.as_mut_ptr();
    // SAFETY: the caller promises the arrays; `c` does not overlap the others; no operand is
    // prepacked; after its first aligned address, the scratch memory has the size that the product
    // requests.
    unsafe {
        product.run(
            [a.as_ptr().cast(), b.as_ptr().cast()],
            ptr::null(),
            c.as_mut_ptr().cast(),
            scratch.add(scratch.align_offset(ALIGNMENT)),
            &ThreadPool::new(1),
        );
    }
}

/// The parts of each column, followed by the parts of `i` times the column.
fn beside_times_i<T: Scalar>(a: &[T], stride: usize, rows: usize, columns: usize) -> Vec<T::Real> {
    let mut widened = Vec::with_capacity(4 * rows * columns);
    if rows > 0 && columns > 0 {
        for column in a.chunks(stride).take(columns) {
            let column = &column[..rows];
            widened.extend_from_slice(T::parts(column));
            widened.extend(column.iter().flat_map(|x| [-x.im(), x.re()]));
        }
    }
    widened
}
