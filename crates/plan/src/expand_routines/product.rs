//! Expands a product into a kernel.
//!
//! The kernel's domain is the result's labels, with a loop for every label that is summed over. The
//! operands are accessed through further values in the same buffers that have one dimension for
//! each label.

use super::body::Body;
use super::kernel_of;
use crate::{Plan, PlanValue, Step, ValueId};
use tegula_expr::{Term, Var};
use tegula_fusion::kernel::{Access, IndexVar, Param};
use tegula_fusion::{Contraction, Kernel, Label};
use tegula_ir::{Binary, Dim, ElementType};

/// The size of each label, by number, as terms over the plan's symbols.
pub(super) fn sizes(
    plan: &Plan,
    contraction: &Contraction,
    operands: &[ValueId],
) -> Option<Vec<Term>> {
    let dims = operands.iter().zip([&contraction.lhs, &contraction.rhs]);
    let dims = dims.flat_map(|(&operand, labels)| {
        let shape = &plan.values[operand].shape;
        labels.iter().zip(shape.dims.iter().map(Dim::term))
    });
    let mut sizes = Vec::new();
    for (labels, size) in dims {
        if let [label] = labels[..] {
            let label = label as usize;
            if sizes.len() <= label {
                sizes.resize(label + 1, None);
            }
            sizes[label] = Some(size);
        }
    }
    sizes.into_iter().collect()
}

/// The steps of a product; `None` if the labels do not determine the sizes.
pub(super) fn product(
    plan: &mut Plan,
    contraction: &Contraction,
    operands: &[ValueId],
    results: &[ValueId],
) -> Option<Vec<Step>> {
    let ([lhs, rhs, addend @ ..], &[result]) = (operands, results) else {
        return None;
    };
    let sizes = sizes(plan, contraction, &[*lhs, *rhs])?;
    let all =
        |dims: &[tegula_fusion::Labels]| -> Vec<Label> { dims.iter().flatten().copied().collect() };
    let labels = [all(&contraction.lhs), all(&contraction.rhs)];
    let mut used = labels.iter().flatten().chain(&contraction.out);
    if used.any(|&label| label as usize >= sizes.len()) {
        return None;
    }
    let mut steps = Vec::new();
    let out = view(plan, result, &contraction.out, &sizes);
    let mut args = vec![out];
    let given = [(lhs, &labels[0]), (rhs, &labels[1])];
    for (&operand, labels) in given
        .into_iter()
        .chain(addend.iter().map(|a| (a, &contraction.out)))
    {
        let seen = view(plan, operand, labels, &sizes);
        steps.push(Step::Copy {
            from: operand,
            to: seen,
        });
        args.push(seen);
    }
    let types: Vec<ElementType> = args
        .iter()
        .map(|&arg| plan.values[arg].shape.element_type)
        .collect();
    let kernel = kernel(plan, contraction, &labels, &sizes, &types);
    let kernel = kernel_of(plan, kernel);
    steps.push(Step::Kernel { kernel, args });
    steps.push(Step::Copy {
        from: out,
        to: result,
    });
    Some(steps)
}

/// A value in the same buffer that has one dimension for each label.
fn view(plan: &mut Plan, value: ValueId, labels: &[Label], sizes: &[Term]) -> ValueId {
    let PlanValue { shape, buffer } = &plan.values[value];
    let mut shape = shape.clone();
    shape.layout = None;
    shape.dims = labels
        .iter()
        .map(|&label| {
            let size = &sizes[label as usize];
            match size.as_constant() {
                Some(size) => Dim::Static(size),
                None => Dim::Symbolic(size.clone()),
            }
        })
        .collect();
    let buffer = *buffer;
    plan.values.push(PlanValue { shape, buffer })
}

/// The kernel. Its parameters are the result, the two operands and, if there is one, the addend.
fn kernel(
    plan: &Plan,
    contraction: &Contraction,
    labels: &[Vec<Label>; 2],
    sizes: &[Term],
    types: &[ElementType],
) -> Kernel {
    let mut kernel = Kernel::default();
    let own = super::symbols_of(plan, &mut kernel);
    let sizes: Vec<Term> = sizes.iter().map(own).collect();
    let out = &contraction.out;
    let dims = [out, &labels[0], &labels[1], out];
    kernel.params = types
        .iter()
        .zip(dims)
        .enumerate()
        .map(|(number, (&element_type, labels))| Param {
            access: if number == 0 {
                Access::Write
            } else {
                Access::Read
            },
            element_type,
            dims: labels.iter().map(|&l| sizes[l as usize].clone()).collect(),
        })
        .collect();
    let mut variables: Vec<Option<Var>> = vec![None; sizes.len()];
    for &label in out {
        let var = kernel.push_var(IndexVar::Domain(sizes[label as usize].clone()));
        kernel.domain.push(var);
        variables[label as usize] = Some(var);
    }
    let mut summed: Vec<Var> = Vec::new();
    for &label in labels.iter().flatten() {
        let size = &sizes[label as usize];
        variables[label as usize].get_or_insert_with(|| {
            let var = kernel.push_var(IndexVar::Loop(size.clone()));
            summed.push(var);
            var
        });
    }
    let index = |labels: &[Label]| -> Vec<Term> {
        let variable = |&label: &Label| variables[label as usize].map(Term::var);
        labels.iter().filter_map(variable).collect()
    };
    let (at_lhs, at_rhs, at_out) = (index(&labels[0]), index(&labels[1]), index(out));
    let mut body = Body::new(&mut kernel, types[0]);
    let mut statements = Vec::new();
    let start = body.zero(&mut statements);
    let mut sum = body.sums(
        &summed,
        start,
        &mut statements,
        &mut |body, sum, statements| {
            let lhs = body.load(1, at_lhs.clone(), statements);
            let rhs = body.load(2, at_rhs.clone(), statements);
            body.add_product(sum, [lhs, rhs], statements)
        },
    );
    if types.len() > 3 {
        let addend = body.load(3, at_out.clone(), &mut statements);
        sum = body.binary(Binary::Add, [sum, addend], &mut statements);
    }
    body.store(sum, at_out, &mut statements);
    kernel.body.statements = statements;
    kernel
}
