//! A dot as a kernel: one point for each element of the result, with a loop for each label that is
//! summed over.

use super::builder::Builder;
use crate::types::carrier;
use rustc_hash::FxHashMap;
use tegula_expr::Term;
use tegula_fusion::kernel::{Access, ScalarId};
use tegula_fusion::{Contraction, Kernel};
use tegula_ir::{ArrayShape, Binary, Dim, ElementType, Symbol};

type Label = u32;

/// The sizes of a contraction's labels: that of the dimension which has only this label, else 1.
pub(super) fn label_sizes(
    contraction: &Contraction,
    operands: [&ArrayShape; 2],
) -> FxHashMap<Label, Term> {
    let mut sizes: FxHashMap<Label, Term> = FxHashMap::default();
    for (labels, shape) in [&contraction.lhs, &contraction.rhs]
        .into_iter()
        .zip(operands)
    {
        for (labels, dim) in labels.iter().zip(&shape.dims) {
            if let [label] = labels[..] {
                sizes.entry(label).or_insert_with(|| dim.term());
            }
        }
    }
    sizes
}

/// The accumulator's type: `f32` or wider for floats, the result's type (with wraparound) for
/// integers.
pub(super) fn accumulator(result: ElementType) -> ElementType {
    match result.is_float() && result.bits() < 32 {
        true => ElementType::F32,
        false => result,
    }
}

/// The C type of sums in tiles. Integers are summed modulo a power of two, so the type is unsigned.
pub(super) fn sum_type(wide: ElementType) -> &'static str {
    match (wide.is_float(), wide.bits()) {
        (true, _) => carrier(wide),
        (false, 64) => "unsigned long long",
        (false, _) => "unsigned int",
    }
}

/// The kernel of a dot. Its parameters are the factors, an addend if `added`, and the result. The
/// last two have the contraction's own dimensions, which their shape may split or merge.
pub(super) fn kernel(
    contraction: &Contraction,
    operands: [&ArrayShape; 2],
    result: &ArrayShape,
    added: bool,
    symbols: &[Symbol],
) -> Kernel {
    let mut builder = Builder::new(symbols);
    let mut sizes: FxHashMap<Label, Term> = FxHashMap::default();
    for (label, size) in label_sizes(contraction, operands) {
        let size = builder.size(&size);
        sizes.insert(label, size);
    }
    let size = |label: Label| {
        sizes
            .get(&label)
            .cloned()
            .unwrap_or_else(|| Term::constant(1))
    };
    let mut index: FxHashMap<Label, Term> = FxHashMap::default();
    let mut out = Vec::new();
    for &label in &contraction.out {
        let at = builder.domain(size(label));
        index.insert(label, at.clone());
        out.push(at);
    }
    let mut params = Vec::new();
    for shape in operands {
        let dims = shape
            .dims
            .iter()
            .map(|dim: &Dim| builder.size(&dim.term()))
            .collect();
        params.push(builder.param(Access::Read, shape.element_type, dims));
    }
    let dims: Vec<Term> = contraction.out.iter().map(|&label| size(label)).collect();
    let added = added.then(|| builder.param(Access::Read, result.element_type, dims.clone()));
    let to = builder.param(Access::Write, result.element_type, dims);
    let labels = contraction.lhs.iter().flatten().copied();
    let summed: Vec<Label> = labels
        .filter(|label| !contraction.out.contains(label))
        .collect();
    let wide = accumulator(result.element_type);
    let start = match added {
        Some(param) => {
            let value = builder.load(param, out.clone());
            builder.convert(wide, value)
        }
        None => builder.zero(wide),
    };
    let product = Product {
        contraction,
        size: &size,
        params: [params[0], params[1]],
        wide,
    };
    let sum = product.sum(&mut builder, &summed, &mut index, start);
    let sum = builder.convert(result.element_type, sum);
    builder.store(to, out, sum);
    builder.finish()
}

struct Product<'a> {
    contraction: &'a Contraction,
    size: &'a dyn Fn(Label) -> Term,
    params: [usize; 2],
    wide: ElementType,
}

impl Product<'_> {
    /// Adds the products over the remaining labels to `sum`.
    fn sum(
        &self,
        builder: &mut Builder<'_>,
        labels: &[Label],
        index: &mut FxHashMap<Label, Term>,
        sum: ScalarId,
    ) -> ScalarId {
        let Some((&label, rest)) = labels.split_first() else {
            let sides = [&self.contraction.lhs, &self.contraction.rhs];
            let factors = [0, 1].map(|side| {
                let at = sides[side]
                    .iter()
                    .map(|labels| self.position(labels, index))
                    .collect();
                let value = builder.load(self.params[side], at);
                builder.convert(self.wide, value)
            });
            let product = builder.binary(Binary::Multiply, factors[0], factors[1]);
            return builder.binary(Binary::Add, sum, product);
        };
        builder.fold((self.size)(label), sum, &mut |builder, at, sum| {
            index.insert(label, at);
            self.sum(builder, rest, index, sum)
        })
    }

    /// The row-major index along a dimension with several labels.
    fn position(&self, labels: &[Label], index: &FxHashMap<Label, Term>) -> Term {
        labels.iter().fold(Term::constant(0), |at, label| {
            let own = index
                .get(label)
                .cloned()
                .unwrap_or_else(|| Term::constant(0));
            at.mul(&(self.size)(*label)).add(&own)
        })
    }
}
