//! A dot as loops over row-major arrays: its batch, free and contracted dimensions, and the strides
//! of each.

use smallvec::SmallVec;
use tegula_fusion::{Contraction, Label, Labels};
use tegula_ir::ArrayShape;

/// One dimension: its size, and its stride in elements in each array (0 if the array lacks it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DotDim {
    /// The number of elements.
    pub size: usize,
    /// The stride in the left operand, in elements.
    pub lhs_stride: usize,
    /// The stride in the right operand, in elements.
    pub rhs_stride: usize,
    /// The stride in the result, in elements.
    pub out_stride: usize,
}

/// Dimensions, outermost first.
pub type DotDimList = SmallVec<[DotDim; 4]>;

/// A dot as loops. Batch and free dimensions are in the order of the result, contracted ones in the
/// order of the left operand.
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
    /// The loops of a dot; `None` if the shapes are not static or do not match the labels.
    pub fn new(lhs: &ArrayShape, rhs: &ArrayShape, contraction: &Contraction) -> Option<Self> {
        let dims = Self::dims(lhs, rhs, contraction)?;
        Some(Self::of(&dims, contraction))
    }

    /// The loops of one strip of a dot whose dimensions `cut` are each divided into equal parts.
    /// Also returns, for each of these dimensions, the distance between the first elements of
    /// adjacent strips: in the left operand, the right operand and the result, in elements.
    pub fn strip(
        lhs: &ArrayShape,
        rhs: &ArrayShape,
        contraction: &Contraction,
        cut: &[(Label, usize)],
    ) -> Option<(Self, SmallVec<[[usize; 3]; 2]>)> {
        let mut dims = Self::dims(lhs, rhs, contraction)?;
        let mut distances = SmallVec::new();
        for &(label, count) in cut {
            let dim = dims.get_mut(label as usize)?;
            dim.size = match dim.size.checked_rem(count)? {
                0 => dim.size / count,
                _ => return None,
            };
            let strides = [dim.lhs_stride, dim.rhs_stride, dim.out_stride];
            distances.push(strides.map(|stride| stride * dim.size));
        }
        Some((Self::of(&dims, contraction), distances))
    }

    /// The dimensions, by label.
    fn dims(lhs: &ArrayShape, rhs: &ArrayShape, contraction: &Contraction) -> Option<Vec<DotDim>> {
        if !contraction.is_consistent() {
            return None;
        }
        let sizes = contraction.sizes(lhs, rhs)?;
        let mut dims: Vec<DotDim> = sizes
            .iter()
            .map(|&size| DotDim {
                size,
                ..DotDim::default()
            })
            .collect();
        let (left, right) = (flat(&contraction.lhs), flat(&contraction.rhs));
        strides(&left, &mut dims, |dim, stride| dim.lhs_stride = stride)?;
        strides(&right, &mut dims, |dim, stride| dim.rhs_stride = stride)?;
        strides(&contraction.out, &mut dims, |dim, stride| {
            dim.out_stride = stride;
        })?;
        Some(dims)
    }

    /// The loops over dimensions that are given by label.
    fn of(dims: &[DotDim], contraction: &Contraction) -> Self {
        let (left, right) = (flat(&contraction.lhs), flat(&contraction.rhs));
        let pick = |order: &[Label], wanted: &dyn Fn(&Label) -> bool| -> DotDimList {
            let kept = order.iter().filter(|&label| wanted(label));
            kept.map(|&label| dims[label as usize]).collect()
        };
        let out = &contraction.out;
        let (in_left, in_right) = (|l: &Label| left.contains(l), |l: &Label| right.contains(l));
        Self {
            batch: pick(out, &|l| in_left(l) && in_right(l)),
            lhs_free: pick(out, &|l| !in_right(l)),
            rhs_free: pick(out, &|l| !in_left(l)),
            contracted: pick(&left, &|l| !out.contains(l)),
        }
    }

    /// The number of elements of the result; `None` if it overflows.
    pub fn elements(&self) -> Option<usize> {
        self.free()
            .try_fold(1usize, |n, dim| n.checked_mul(dim.size))
    }

    fn free(&self) -> impl Iterator<Item = &DotDim> {
        self.batch
            .iter()
            .chain(&self.lhs_free)
            .chain(&self.rhs_free)
    }

    /// Calls `visit` for each element of the result, with the offsets of its row in the left
    /// operand, its column in the right one, and the element itself in the result.
    pub fn for_each(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let all: DotDimList = self.free().copied().collect();
        walk(&all, [0; 3], &mut |[lhs, rhs, out]| visit(lhs, rhs, out));
    }

    /// Calls `visit` for each summand, with its offsets from the row and the column.
    pub fn for_each_contracted(&self, mut visit: impl FnMut(usize, usize)) {
        walk(&self.contracted, [0; 3], &mut |[lhs, rhs, _]| {
            visit(lhs, rhs);
        });
    }
}

fn flat(labels: &[Labels]) -> Vec<Label> {
    labels.iter().flatten().copied().collect()
}

/// Calls `visit` with the offsets of every point, in row-major order.
fn walk(dims: &[DotDim], at: [usize; 3], visit: &mut dyn FnMut([usize; 3])) {
    let Some((first, rest)) = dims.split_first() else {
        return visit(at);
    };
    for i in 0..first.size {
        let [lhs, rhs, out] = at;
        let next = [
            lhs + i * first.lhs_stride,
            rhs + i * first.rhs_stride,
            out + i * first.out_stride,
        ];
        walk(rest, next, visit);
    }
}

/// Sets the row-major strides of an array's labels, which are given outermost first.
fn strides(labels: &[Label], dims: &mut [DotDim], set: impl Fn(&mut DotDim, usize)) -> Option<()> {
    let mut stride = 1usize;
    for &label in labels.iter().rev() {
        let dim = dims.get_mut(label as usize)?;
        set(dim, stride);
        stride = stride.checked_mul(dim.size.max(1))?;
    }
    Some(())
}
