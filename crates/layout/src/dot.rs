//! The loops of a dot over row-major operands: which of its dimensions are
//! batch, free and contracted, with the strides of each.

use smallvec::SmallVec;
use tegula_ir::{ArrayShape, DotDims};

/// One dimension: its size, and its stride in elements in each operand (0 where
/// the operand does not have it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DotDim {
    /// The number of elements.
    pub size: usize,
    /// The distance between neighbours in the left operand.
    pub lhs_stride: usize,
    /// The distance between neighbours in the right operand.
    pub rhs_stride: usize,
}

/// Dimensions, outermost first.
pub type DotDimList = SmallVec<[DotDim; 4]>;

/// A dot as loops. The result is row-major over batch, left free and right free
/// dimensions, in that order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotView {
    /// Dimensions of both operands and the result.
    pub batch: DotDimList,
    /// Dimensions of the left operand and the result.
    pub lhs_free: DotDimList,
    /// Dimensions of the right operand and the result.
    pub rhs_free: DotDimList,
    /// Dimensions of both operands that are summed over.
    pub contracted: DotDimList,
}

impl DotView {
    /// The loops of a dot; `None` if the shapes are not static or the dimension
    /// numbers do not fit them.
    pub fn new(lhs: &ArrayShape, rhs: &ArrayShape, dims: &DotDims) -> Option<Self> {
        let (lhs, rhs) = (strided(lhs)?, strided(rhs)?);
        let pair = |l: &[i64], r: &[i64]| -> Option<DotDimList> {
            let pairs = l.iter().zip(r).map(|(&l, &r)| {
                let (size, lhs_stride) = *lhs.get(usize::try_from(l).ok()?)?;
                let (_, rhs_stride) = *rhs.get(usize::try_from(r).ok()?)?;
                Some(DotDim {
                    size,
                    lhs_stride,
                    rhs_stride,
                })
            });
            pairs.collect()
        };
        let free = |of: &[(usize, usize)], batch: &[i64], contracted: &[i64], left: bool| {
            let kept = of.iter().enumerate().filter(|(i, _)| {
                let i = *i as i64;
                !batch.contains(&i) && !contracted.contains(&i)
            });
            kept.map(|(_, &(size, stride))| DotDim {
                size,
                lhs_stride: if left { stride } else { 0 },
                rhs_stride: if left { 0 } else { stride },
            })
            .collect()
        };
        Some(Self {
            batch: pair(&dims.lhs_batch, &dims.rhs_batch)?,
            contracted: pair(&dims.lhs_contracting, &dims.rhs_contracting)?,
            lhs_free: free(&lhs, &dims.lhs_batch, &dims.lhs_contracting, true),
            rhs_free: free(&rhs, &dims.rhs_batch, &dims.rhs_contracting, false),
        })
    }

    /// Calls `visit` for each element of the result, in row-major order, with the
    /// offsets of its row and column in the operands.
    pub fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        let all: DotDimList = self
            .batch
            .iter()
            .chain(&self.lhs_free)
            .chain(&self.rhs_free)
            .copied()
            .collect();
        walk(&all, 0, 0, &mut visit);
    }

    /// Calls `visit` for each summand, with its offsets from the row and column.
    pub fn for_each_contracted(&self, mut visit: impl FnMut(usize, usize)) {
        walk(&self.contracted, 0, 0, &mut visit);
    }
}

/// Calls `visit` with both offsets of every point, in row-major order.
pub fn walk(dims: &[DotDim], lhs: usize, rhs: usize, visit: &mut dyn FnMut(usize, usize)) {
    let Some((first, rest)) = dims.split_first() else {
        return visit(lhs, rhs);
    };
    for i in 0..first.size {
        walk(
            rest,
            lhs + i * first.lhs_stride,
            rhs + i * first.rhs_stride,
            visit,
        );
    }
}

/// Size and row-major stride of each dimension.
fn strided(shape: &ArrayShape) -> Option<SmallVec<[(usize, usize); 6]>> {
    let dims = shape.static_dims()?;
    let mut stride = 1usize;
    let mut out: SmallVec<[(usize, usize); 6]> = SmallVec::new();
    for &size in dims.iter().rev() {
        let size = usize::try_from(size).ok()?;
        out.push((size, stride));
        stride = stride.checked_mul(size.max(1))?;
    }
    out.reverse();
    Some(out)
}
