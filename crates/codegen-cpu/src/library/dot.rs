//! Dots: contractions as [products](tegula_linalg::gemm).

use smallvec::SmallVec;
use std::fmt;
use tegula_fusion::{Contraction, Label};
use tegula_ir::{ArrayShape, ElementType};
use tegula_linalg::gemm::{Axes, Axis, AxisList, MAX_AXES, Product};
use tegula_linalg::thread_pool::ThreadPool;
use tegula_plan::{dot::DotDimList, dot::DotView};
use tegula_target::CpuFeatures;

/// The dimensions of a dot; `None` if there are too many.
pub(crate) fn axes(view: &DotView) -> Option<Axes> {
    let list = |dims: &DotDimList| -> Option<AxisList> {
        let axes = dims.iter().map(|d| Axis {
            size: d.size,
            lhs: d.lhs_stride as isize,
            rhs: d.rhs_stride as isize,
            out: d.out_stride as isize,
        });
        (axes.len() <= MAX_AXES).then(|| axes.collect())
    };
    Some(Axes {
        batch: list(&view.batch)?,
        rows: list(&view.lhs_free)?,
        columns: list(&view.rhs_free)?,
        depth: list(&view.contracted)?,
        starts: [0; 3],
    })
}

/// A dot ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    element_type: ElementType,
    product: Product,
    /// The bytes of the array that the dot is added to, if there is one.
    added_to: Option<usize>,
}

/// Distances in bytes: for each dimension that is cut, those of the operands and then of the
/// result.
pub(crate) type Distances = SmallVec<[SmallVec<[usize; 4]>; 2]>;

impl fmt::Display for Dot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [batch, m, k, n] = self.product.shape();
        write!(f, "dot {} {m}x{k}x{n}", self.element_type)?;
        if batch != 1 {
            write!(f, " {batch} times")?;
        }
        match self.added_to {
            Some(_) => write!(f, ", added"),
            None => Ok(()),
        }
    }
}

impl Dot {
    /// The products and sums of a run.
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

    /// Prepares a dot, which may be `added` to an array, and one factor of which may be `fixed`:
    /// the same in every run. `None` if the shapes are not static or there is no product for the
    /// types.
    pub(crate) fn new(
        isa: CpuFeatures,
        [lhs, rhs]: [&ArrayShape; 2],
        out: &ArrayShape,
        contraction: &Contraction,
        added: bool,
        fixed: Option<usize>,
    ) -> Option<Self> {
        let view = DotView::new(lhs, rhs, contraction)?;
        Self::of_view(isa, &view, [lhs, rhs, out], added, fixed)
    }

    /// One of the equal strips into which dimensions of a dot are cut, each into this many parts;
    /// and for each of those dimensions the distances in bytes between the strips of each operand
    /// and of the result. One factor may be `fixed`: the same for all strips. The strips of an
    /// array that the dot is added to have the same distances as those of the result.
    pub(crate) fn strip(
        isa: CpuFeatures,
        operands: &[&ArrayShape],
        out: &ArrayShape,
        contraction: &Contraction,
        cut: &[(Label, usize)],
        fixed: Option<usize>,
    ) -> Option<(Self, Distances)> {
        let &[lhs, rhs, ref added @ ..] = operands else {
            return None;
        };
        let (view, distances) = DotView::strip(lhs, rhs, contraction, cut)?;
        let mut dot = Self::of_view(isa, &view, [lhs, rhs, out], !added.is_empty(), fixed)?;
        let bytes = |shape: &ArrayShape| shape.element_type.storage_bytes();
        let of_arrays = |[left, right, result]: [usize; 3]| {
            let results = (0..=added.len()).map(|_| result * bytes(out));
            [left * bytes(lhs), right * bytes(rhs)]
                .into_iter()
                .chain(results)
                .collect()
        };
        if let Some(bytes) = &mut dot.added_to {
            *bytes /= cut.iter().map(|(_, count)| count).product::<usize>();
            // Otherwise the strip is not contiguous.
            let piece = distances.last()?[2] * out.element_type.storage_bytes();
            (*bytes == piece).then_some(())?;
        }
        Some((dot, distances.into_iter().map(of_arrays).collect()))
    }

    fn of_view(
        isa: CpuFeatures,
        view: &DotView,
        [lhs, rhs, out]: [&ArrayShape; 3],
        added: bool,
        fixed: Option<usize>,
    ) -> Option<Self> {
        let axes = axes(view)?;
        let types = [lhs, rhs, out].map(|shape| shape.element_type);
        let product = |fixed| Product::new(isa, types, axes.clone(), fixed);
        // A product that cannot be added to an array with a packed operand may be able to without.
        let product = match added {
            true => (product(fixed)?.adding()).or_else(|| product(None)?.adding())?,
            false => product(fixed)?,
        };
        let added_to = match added {
            true => Some(usize::try_from(out.byte_size()?).ok()?),
            false => None,
        };
        Some(Self {
            element_type: lhs.element_type,
            product,
            added_to,
        })
    }

    /// The dot's product.
    pub(crate) fn product(&self) -> &Product {
        &self.product
    }

    /// The bytes of scratch memory for a run with this many threads.
    pub(crate) fn scratch_bytes(&self, threads: usize) -> usize {
        self.product.scratch_bytes(threads)
    }

    /// Computes the dot.
    ///
    /// # Safety
    /// The pointers point to dense arrays of the dot's shapes; `out` overlaps neither factor, and
    /// an array that is added is all of `out` or no part of it; `kept` is valid for the product;
    /// `scratch` has [`Self::scratch_bytes`], aligned to 64.
    pub(crate) unsafe fn run(
        &self,
        operands: &[*const u8],
        kept: *const u8,
        out: *mut u8,
        scratch: *mut u8,
        pool: &ThreadPool,
    ) {
        let &[lhs, rhs, ref rest @ ..] = operands else {
            return;
        };
        // SAFETY: the caller promises that the pointers point to dense arrays of the shapes this
        // was made for, and that `out` overlaps neither factor, and an array that is added is all
        // of `out` or no part of it; `kept` is the memory of the prepacked operand, passed on to
        // the product; `scratch` has [`Self::scratch_bytes`], aligned to 64; a view's strides stay
        // inside its arrays.
        unsafe {
            if let (Some(bytes), Some(&added)) = (self.added_to, rest.first())
                && !std::ptr::eq(added, out)
            {
                std::ptr::copy_nonoverlapping(added, out, bytes);
            }
            self.product.run([lhs, rhs], kept, out, scratch, pool);
        }
    }
}
