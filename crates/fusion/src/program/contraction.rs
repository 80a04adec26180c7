//! Contractions: dots whose dimensions are named by labels, as in an einsum. A transposition before
//! or after a dot is only another order of labels, so it needs no copy.

use smallvec::{SmallVec, smallvec};
use std::fmt;
use tegula_ir::helpers::DotDim;
use tegula_ir::{ArrayShape, DotDims, ElementType};

/// The number of a dimension of a contraction's index space.
pub type Label = u32;
/// The labels of one dimension of an array: the dimension is their row-major product. A dimension
/// of size 1 has none.
pub type Labels = SmallVec<[Label; 2]>;

/// A sum of products, `out[..] = sum lhs[..] * rhs[..]`, over the labels that `out` lacks. The
/// operands are dense and row-major in the dimensions of their shapes.
///
/// Every label is either the only label of a dimension of an operand, which gives its size, or of
/// size 1. The labels of `out` occur in one or both operands, the other labels in both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contraction {
    /// The labels of each dimension of the left operand.
    pub lhs: Vec<Labels>,
    /// The labels of each dimension of the right operand.
    pub rhs: Vec<Labels>,
    /// The labels of the result, outermost first. The result's shape may split or merge them.
    pub out: Vec<Label>,
}

/// Prints a set of labels for each dimension of an operand, and one set for the result.
impl fmt::Display for Contraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = |labels: &[Label]| {
            let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
            format!(" {{{}}}", labels.join(","))
        };
        for (name, dims) in [("lhs", &self.lhs), (" rhs", &self.rhs)] {
            let dims: String = dims.iter().map(|labels| set(labels)).collect();
            write!(f, "{name}{dims}")?;
        }
        write!(f, " out{}", set(&self.out))
    }
}

impl Contraction {
    /// The contraction of a dot on operands of these ranks; `None` if they have too few dimensions.
    /// The labels are the left operand's dimensions, followed by the free dimensions of the right
    /// one.
    pub fn of_dot(dims: &DotDims, lhs_rank: usize, rhs_rank: usize) -> Option<Self> {
        let [left, right] = dims.roles([lhs_rank, rhs_rank])?.operands;
        let mut own = lhs_rank..;
        let shared = |role| left.iter().position(|&other| other == role);
        let right = right.into_iter().map(|role| match role {
            DotDim::Free(_) => Some((role, own.next()?)),
            DotDim::Batch(_) | DotDim::Contracted(_) => Some((role, shared(role)?)),
        });
        let right: Vec<(DotDim, usize)> = right.collect::<Option<_>>()?;
        let left: Vec<(DotDim, usize)> = left.iter().copied().zip(0..).collect();
        let mut out: Vec<(usize, Label)> = Vec::new();
        for &(role, label) in &left {
            out.extend(role.in_result().map(|place| (place, label as Label)));
        }
        for &(role, label) in &right {
            if let DotDim::Free(place) = role {
                out.push((place, label as Label));
            }
        }
        out.sort_unstable();
        let labels = |dims: &[(DotDim, usize)]| -> Vec<Labels> {
            dims.iter()
                .map(|&(_, label)| smallvec![label as Label])
                .collect()
        };
        Some(Self {
            lhs: labels(&left),
            rhs: labels(&right),
            out: out.into_iter().map(|(_, label)| label).collect(),
        })
    }

    /// A label that is not in use.
    pub(crate) fn fresh(&self) -> Label {
        let used = self.lhs.iter().chain(&self.rhs).flatten();
        used.chain(&self.out).max().map_or(0, |&label| label + 1)
    }

    /// Replaces a label by several, outermost first.
    pub(crate) fn split(&mut self, label: Label, parts: &[Label]) {
        let replace = |labels: &mut dyn Iterator<Item = Label>| -> Labels {
            let mut new = Labels::new();
            for l in labels {
                if l == label {
                    new.extend_from_slice(parts);
                } else {
                    new.push(l);
                }
            }
            new
        };
        for labels in self.lhs.iter_mut().chain(&mut self.rhs) {
            *labels = replace(&mut labels.iter().copied());
        }
        self.out = replace(&mut self.out.iter().copied()).to_vec();
    }

    /// Renumbers the labels in the order of first occurrence.
    pub(crate) fn renumber(&mut self) {
        let mut order: Vec<Label> = Vec::new();
        let mut number = |label: &mut Label| {
            let place = order.iter().position(|l| l == label);
            *label = place.unwrap_or_else(|| {
                order.push(*label);
                order.len() - 1
            }) as Label;
        };
        let operands = self.lhs.iter_mut().chain(&mut self.rhs);
        operands.flatten().for_each(&mut number);
        self.out.iter_mut().for_each(&mut number);
    }

    /// The size of every label, by number; `None` if the shapes are not static or do not match the
    /// labels. The shapes may come from the text of a plan, so they are not trusted.
    pub fn sizes(&self, lhs: &ArrayShape, rhs: &ArrayShape) -> Option<Vec<usize>> {
        let count = self.lhs.iter().chain(&self.rhs).flatten();
        let count = count.chain(&self.out).max().map_or(0, |&l| l as usize + 1);
        // The text may name large labels; `sizes` must not allocate for them.
        let labels = self.lhs.iter().chain(&self.rhs).map(SmallVec::len);
        if count > labels.sum::<usize>() + self.out.len() {
            return None;
        }
        let (lhs_dims, rhs_dims) = (lhs.static_dims()?, rhs.static_dims()?);
        if lhs_dims.len() != self.lhs.len() || rhs_dims.len() != self.rhs.len() {
            return None;
        }
        let dims = || {
            let left = self.lhs.iter().zip(&lhs_dims);
            left.chain(self.rhs.iter().zip(&rhs_dims))
        };
        let mut sizes: Vec<Option<usize>> = vec![None; count];
        for (labels, &dim) in dims() {
            if let [label] = labels[..] {
                let size = usize::try_from(dim).ok()?;
                let known = sizes[label as usize].get_or_insert(size);
                if *known != size {
                    return None;
                }
            }
        }
        let sizes: Option<Vec<usize>> = sizes.into_iter().collect();
        let sizes = sizes?;
        for (labels, &dim) in dims() {
            let product = labels
                .iter()
                .try_fold(1usize, |n, &l| n.checked_mul(sizes[l as usize]))?;
            if usize::try_from(dim).ok()? != product {
                return None;
            }
        }
        Some(sizes)
    }

    /// Whether the labels obey the rules of the type's documentation, each occurring at most once
    /// in each array.
    pub fn is_consistent(&self) -> bool {
        let once = |mut labels: Vec<Label>| {
            labels.sort_unstable();
            let before = labels.len();
            labels.dedup();
            (labels.len() == before).then_some(labels)
        };
        let flat = |dims: &[Labels]| dims.iter().flatten().copied().collect();
        let (Some(lhs), Some(rhs), Some(out)) = (
            once(flat(&self.lhs)),
            once(flat(&self.rhs)),
            once(self.out.clone()),
        ) else {
            return false;
        };
        let has = |list: &[Label], l: &Label| list.binary_search(l).is_ok();
        out.iter().all(|l| has(&lhs, l) || has(&rhs, l))
            && lhs.iter().all(|l| has(&out, l) || has(&rhs, l))
            && rhs.iter().all(|l| has(&out, l) || has(&lhs, l))
    }
}

/// Whether library routines support products of these types: integers of whole bytes, with
/// wraparound, and floats of one type, accumulated in f32 or in their own type if that is wider.
pub fn is_product_of(lhs: ElementType, rhs: ElementType, result: ElementType) -> bool {
    use ElementType::{BF16, F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    match (lhs, rhs, result) {
        (F64, F64, F64) | (F32, F32, F32) => true,
        (BF16, BF16, BF16 | F32) | (F16, F16, F16 | F32) => true,
        _ => [lhs, rhs, result]
            .iter()
            .all(|ty| matches!(ty, S8 | S16 | S32 | S64 | U8 | U16 | U32 | U64)),
    }
}
