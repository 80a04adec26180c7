//! The dimensions of products with open sizes.

use tegula_expr::Term;
use tegula_fusion::{Contraction, Label};
use tegula_plan::{Plan, ValueId, label_sizes};

/// The dimensions of a product with open sizes, by kind (batch, rows, columns, depth): the size of
/// each and its strides in the left operand, the right one and the result. They are in the order of
/// [`DotView`].
pub(super) fn open_axes(
    plan: &Plan,
    contraction: &Contraction,
    operands: &[ValueId],
) -> Option<[Vec<[Term; 4]>; 4]> {
    if !contraction.is_consistent() {
        return None;
    }
    let sizes = label_sizes(plan, contraction, operands)?;
    let flat = |labels: &[tegula_fusion::Labels]| -> Vec<Label> {
        labels.iter().flatten().copied().collect()
    };
    let (left, right) = (flat(&contraction.lhs), flat(&contraction.rhs));
    let out = &contraction.out[..];
    let stride = |labels: &[Label], label: Label| -> Term {
        let inner = labels.iter().rev().take_while(|&&other| other != label);
        let inner = inner.filter_map(|&other| sizes.get(other as usize));
        match labels.contains(&label) {
            true => inner.fold(Term::constant(1), |product, size| product.mul(size)),
            false => Term::constant(0),
        }
    };
    let axis = |label: Label| -> Option<[Term; 4]> {
        let size = sizes.get(label as usize)?.clone();
        let [lhs, rhs, out] = [&left[..], &right, out].map(|labels| stride(labels, label));
        Some([size, lhs, rhs, out])
    };
    let pick = |order: &[Label], wanted: &dyn Fn(&Label) -> bool| -> Option<Vec<[Term; 4]>> {
        order
            .iter()
            .filter(|label| wanted(label))
            .map(|&label| axis(label))
            .collect()
    };
    let (in_left, in_right) = (|l: &Label| left.contains(l), |l: &Label| right.contains(l));
    Some([
        pick(out, &|l| in_left(l) && in_right(l))?,
        pick(out, &|l| !in_right(l))?,
        pick(out, &|l| !in_left(l))?,
        pick(&left, &|l| !out.contains(l))?,
    ])
}
