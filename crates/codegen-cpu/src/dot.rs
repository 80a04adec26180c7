//! Matrix products through the `gemm` library, on any batch, free and contracted
//! dimensions and without copying operands: neighbouring dimensions whose strides
//! allow it are merged, the largest of each kind goes to the library, and loops
//! run over the rest.

use gemm::{Parallelism, gemm};
use std::fmt;
use tegula_fusion::Contraction;
use tegula_ir::{ArrayShape, ElementType};
use tegula_layout::dot::{DotDimList, DotView};

/// One dimension of the product: its size, and its stride in elements in each
/// of the arrays.
#[derive(Clone, Copy, Debug)]
struct Dim {
    size: usize,
    lhs: isize,
    rhs: isize,
    out: isize,
}

/// A product ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    element_type: ElementType,
    /// Loops around the library call, outermost first.
    outer: Vec<Dim>,
    /// Loops around the library call that add to the same result.
    outer_contracted: Vec<Dim>,
    row: Dim,
    column: Dim,
    inner: Dim,
    elements: usize,
    /// How many scalar multiplications.
    work: f64,
}

const UNIT: Dim = Dim {
    size: 1,
    lhs: 0,
    rhs: 0,
    out: 0,
};

impl fmt::Display for Dot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: usize = self
            .outer
            .iter()
            .chain(&self.outer_contracted)
            .map(|d| d.size)
            .product();
        let (m, n, k) = (self.row.size, self.column.size, self.inner.size);
        write!(f, "dot {} {m}x{k}x{n}", self.element_type)?;
        if calls == 1 {
            Ok(())
        } else {
            write!(f, " {calls} times")
        }
    }
}

impl Dot {
    /// Prepares a product; `None` if the shapes are not static.
    pub(crate) fn new(
        lhs: &ArrayShape,
        rhs: &ArrayShape,
        out: &ArrayShape,
        contraction: &Contraction,
    ) -> Option<Self> {
        let view = DotView::new(lhs, rhs, contraction)?;
        let list = |dims: &DotDimList| -> Vec<Dim> {
            let dims = dims.iter().map(|d| Dim {
                size: d.size,
                lhs: d.lhs_stride as isize,
                rhs: d.rhs_stride as isize,
                out: d.out_stride as isize,
            });
            merge(dims.collect())
        };
        let mut columns = list(&view.rhs_free);
        let mut rows = list(&view.lhs_free);
        let mut outer = list(&view.batch);
        let mut contracted = list(&view.contracted);
        let row = take_largest(&mut rows);
        let column = take_largest(&mut columns);
        let inner = take_largest(&mut contracted);
        outer.extend(rows);
        outer.extend(columns);
        let elements = usize::try_from(out.element_count()?).ok()?;
        let depth: usize = view.contracted.iter().map(|d| d.size).product();
        Some(Self {
            element_type: out.element_type,
            outer,
            outer_contracted: contracted,
            row,
            column,
            inner,
            elements,
            work: elements as f64 * depth as f64,
        })
    }

    /// Computes the product.
    ///
    /// # Safety
    /// The pointers lead to dense arrays of the shapes this was made for, of
    /// which `out` overlaps neither operand.
    pub(crate) unsafe fn run(&self, lhs: *const u8, rhs: *const u8, out: *mut u8, threads: usize) {
        if self.elements == 0 {
            return;
        }
        // SAFETY: the caller's promise, for the element type of the shapes.
        unsafe {
            match self.element_type {
                ElementType::F64 => self.typed::<f64>(lhs.cast(), rhs.cast(), out.cast(), threads),
                _ => self.typed::<f32>(lhs.cast(), rhs.cast(), out.cast(), threads),
            }
        }
    }

    /// # Safety
    /// As [`Self::run`], for arrays of `T`.
    unsafe fn typed<T: Number>(&self, lhs: *const T, rhs: *const T, out: *mut T, threads: usize) {
        let empty_sum = self.inner.size == 0 || self.outer_contracted.iter().any(|d| d.size == 0);
        if empty_sum {
            // SAFETY: `out` is an array of so many elements, all of which may be
            // written.
            unsafe { std::slice::from_raw_parts_mut(out, self.elements).fill(T::ZERO) };
            return;
        }
        let parallelism = match threads {
            0 | 1 => Parallelism::None,
            n if self.work > 1e6 => Parallelism::Rayon(n),
            _ => Parallelism::None,
        };
        for_each(&self.outer, &mut |l, r, o| {
            let mut add = false;
            for_each(&self.outer_contracted, &mut |lk, rk, _| {
                let (row, column, inner) = (self.row, self.column, self.inner);
                // SAFETY: every offset stays inside its array because each
                // dimension's index stays below its size.
                unsafe {
                    gemm(
                        row.size,
                        column.size,
                        inner.size,
                        out.offset(o),
                        column.out,
                        row.out,
                        add,
                        lhs.offset(l + lk),
                        inner.lhs,
                        row.lhs,
                        rhs.offset(r + rk),
                        column.rhs,
                        inner.rhs,
                        T::ONE,
                        T::ONE,
                        false,
                        false,
                        false,
                        parallelism,
                    );
                }
                add = true;
            });
        });
    }
}

trait Number: Copy + 'static {
    const ZERO: Self;
    const ONE: Self;
}

impl Number for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}

impl Number for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}

/// Drops dimensions of size 1 and merges neighbours that are one stride apart in
/// every array.
fn merge(dims: Vec<Dim>) -> Vec<Dim> {
    let mut merged: Vec<Dim> = Vec::with_capacity(dims.len());
    for dim in dims {
        if dim.size == 1 {
            continue;
        }
        let size = dim.size as isize;
        match merged.last_mut() {
            Some(last)
                if last.lhs == dim.lhs * size
                    && last.rhs == dim.rhs * size
                    && last.out == dim.out * size =>
            {
                *last = Dim {
                    size: last.size * dim.size,
                    ..dim
                };
            }
            _ => merged.push(dim),
        }
    }
    merged
}

fn take_largest(dims: &mut Vec<Dim>) -> Dim {
    let largest = (0..dims.len()).max_by_key(|&i| dims[i].size);
    largest.map_or(UNIT, |i| dims.remove(i))
}

fn for_each(dims: &[Dim], visit: &mut dyn FnMut(isize, isize, isize)) {
    fn go(dims: &[Dim], at: [isize; 3], visit: &mut dyn FnMut(isize, isize, isize)) {
        let Some((first, rest)) = dims.split_first() else {
            return visit(at[0], at[1], at[2]);
        };
        for i in 0..first.size as isize {
            go(
                rest,
                [
                    at[0] + i * first.lhs,
                    at[1] + i * first.rhs,
                    at[2] + i * first.out,
                ],
                visit,
            );
        }
    }
    go(dims, [0; 3], visit);
}
