//! Dots: contractions as [products](crate::product).

use crate::kernels::Isa;
use crate::pool::Pool;
use crate::product::{Axes, Axis, Product};
use std::fmt;
use tegula_fusion::Contraction;
use tegula_ir::{ArrayShape, ElementType};
use tegula_layout::dot::{DotDimList, DotView};

/// A dot ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    element_type: ElementType,
    product: Product,
}

impl fmt::Display for Dot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [batch, m, k, n] = self.product.shape();
        write!(f, "dot {} {m}x{k}x{n}", self.element_type)?;
        if batch == 1 {
            Ok(())
        } else {
            write!(f, " {batch} times")
        }
    }
}

impl Dot {
    /// Products and sums of a run.
    pub(crate) fn operations(&self) -> f64 {
        2.0 * self
            .product
            .shape()
            .map(|n| n as f64)
            .iter()
            .product::<f64>()
    }

    /// Whether elements have fewer than 32 bits.
    pub(crate) fn is_narrow(&self) -> bool {
        self.element_type.bits() < 32
    }

    /// Prepares a dot; `None` if the shapes are not static or there is no product
    /// of the types.
    pub(crate) fn new(
        isa: Isa,
        lhs: &ArrayShape,
        rhs: &ArrayShape,
        out: &ArrayShape,
        contraction: &Contraction,
    ) -> Option<Self> {
        let view = DotView::new(lhs, rhs, contraction)?;
        let list = |dims: &DotDimList| -> Vec<Axis> {
            let axes = dims.iter().map(|d| Axis {
                size: d.size,
                lhs: d.lhs_stride as isize,
                rhs: d.rhs_stride as isize,
                out: d.out_stride as isize,
            });
            axes.collect()
        };
        let axes = Axes {
            batch: list(&view.batch),
            rows: list(&view.lhs_free),
            columns: list(&view.rhs_free),
            depth: list(&view.contracted),
            starts: [0; 3],
        };
        let types = [lhs, rhs, out].map(|shape| shape.element_type);
        Some(Self {
            element_type: lhs.element_type,
            product: Product::new(isa, types, axes)?,
        })
    }

    /// Bytes of scratch memory for a run on so many threads.
    pub(crate) fn scratch_bytes(&self, threads: usize) -> usize {
        self.product.scratch_bytes(threads)
    }

    /// Computes the dot.
    ///
    /// # Safety
    /// The pointers lead to dense arrays of the shapes this was made for, of
    /// which `out` overlaps neither operand; `scratch` has
    /// [`Self::scratch_bytes`], aligned to 64.
    pub(crate) unsafe fn run(
        &self,
        [lhs, rhs]: [*const u8; 2],
        out: *mut u8,
        scratch: *mut u8,
        pool: &Pool,
    ) {
        // SAFETY: the caller's promise; a view's strides stay inside its arrays.
        unsafe { self.product.run(lhs, rhs, out, scratch, pool) };
    }
}
