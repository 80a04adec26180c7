//! Operations that write part of an array: the array is copied (a copy that
//! buffer assignment removes where the old array is not needed any more), then a
//! kernel writes into the copy.

use super::{Context, Emitter, Scalars};
use crate::error::Error;
use crate::fused::Unit;
use crate::kernel::{Access, ScalarId, ScalarOp};
use crate::program::{NodeId, ValueId};
use smallvec::smallvec;
use tegula_expr::{Cmp, Term, terms};
use tegula_ir::{ComputationId, ElementType, Op, ScatterDims, WindowDim};

/// The units of a dynamic-update-slice, scatter or select-and-scatter.
pub(crate) fn update(context: &Context<'_>, id: NodeId) -> Result<Vec<Unit>, Error> {
    let (module, program) = (context.module, context.program);
    let node = &program.nodes[id];
    let mut emitter = Emitter::new(context, node.origin);
    match &module[node.origin].op {
        Op::DynamicUpdateSlice => {
            let copy = Unit::Copy {
                from: node.operands[0],
                to: node.results[0],
            };
            dynamic_update_slice(&mut emitter, id)?;
            Ok(vec![copy, Unit::Kernel(emitter.finish())])
        }
        Op::Scatter { dims, to_apply, .. } => {
            let copies = node.operands.iter().zip(&node.results);
            let mut units: Vec<Unit> = copies.map(|(&from, &to)| Unit::Copy { from, to }).collect();
            scatter(&mut emitter, id, dims, *to_apply)?;
            units.push(Unit::Kernel(emitter.finish()));
            Ok(units)
        }
        Op::SelectAndScatter {
            window,
            select,
            scatter,
        } => {
            let mut fill = Emitter::new(context, node.origin);
            fill_with(&mut fill, node.operands[2], node.results[0])?;
            select_and_scatter(&mut emitter, id, window, *select, *scatter)?;
            Ok(vec![
                Unit::Kernel(fill.finish()),
                Unit::Kernel(emitter.finish()),
            ])
        }
        _ => Err(Error::bug(
            module,
            node.origin,
            "an operation that updates was expected",
        )),
    }
}

/// Stores a scalar value to every element of another.
fn fill_with(e: &mut Emitter<'_>, scalar: ValueId, to: ValueId) -> Result<(), Error> {
    let dims = e.dims(to);
    let index = e.domain(&dims);
    let output = e.param(to, Access::Write);
    if dims.iter().all(|d| d.as_constant() != Some(0)) {
        let value = e.element(scalar, &[])?;
        e.store(output, &index, value);
    }
    Ok(())
}

fn dynamic_update_slice(e: &mut Emitter<'_>, id: NodeId) -> Result<(), Error> {
    let node = &e.program.nodes[id];
    let (target, source) = (node.results[0], node.operands[1]);
    let starts = &node.operands[2..];
    let output = e.param(target, Access::Update);
    let (sizes, updates) = (e.dims(target), e.dims(source));
    let index = e.domain(&updates);
    if updates.iter().any(|d| d.as_constant() == Some(0)) {
        return Ok(());
    }
    let mut at = Vec::with_capacity(index.len());
    for (i, term) in index.iter().enumerate() {
        let start = e.element(starts[i], &[])?;
        let start = e.bind_up_to(start, &sizes[i].sub(&updates[i]));
        at.push(term.add(&start));
    }
    let value = e.element(source, &index)?;
    e.store(output, &at, value);
    Ok(())
}

/// One update after the other, in row-major order of the updates: what duplicate
/// indices give depends on it.
fn scatter(
    e: &mut Emitter<'_>,
    id: NodeId,
    dims: &ScatterDims,
    to_apply: ComputationId,
) -> Result<(), Error> {
    let node = &e.program.nodes[id];
    let count = node.results.len();
    let indices = node.operands[count];
    let updates = &node.operands[count + 1..];
    let outputs: Vec<usize> = node
        .results
        .iter()
        .map(|&v| e.param(v, Access::Update))
        .collect();
    let extents = e.dims(updates[0]);
    // Whether a window is inside is the same for all that is in it: where the innermost
    // dimensions are a window's, they go inside.
    let left = window_dims(e, dims, node.results[0], indices, updates[0]);
    let (outer, window) = extents.split_at(extents.len() - left);
    let first = vec![Term::constant(0); window.len()];
    e.loops(outer, &[], &mut |e, outer, _| {
        let begin = [outer, &first].concat();
        let (start, inside) =
            scatter_position(e, dims, node.results[0], indices, updates[0], &begin)?;
        e.branch(
            &inside,
            &mut |e| {
                e.short_loops(window, &[], &mut |e, offset, _| {
                    let at = [outer, offset].concat();
                    let mut position = start.clone();
                    if left > 0 {
                        let target = node.results[0];
                        (position, _) =
                            scatter_position(e, dims, target, indices, updates[0], &at)?;
                    }
                    let mut arguments = Scalars::new();
                    for &output in &outputs {
                        arguments.push(e.load(output, &position));
                    }
                    for &update in updates {
                        arguments.push(e.element(update, &at)?);
                    }
                    let combined = e.apply(to_apply, &arguments)?;
                    for (&output, &value) in outputs.iter().zip(&combined) {
                        e.store(output, &position, value);
                    }
                    Ok(Scalars::new())
                })
            },
            &mut |_| Ok(Scalars::new()),
        )
    })?;
    Ok(())
}

/// How many of the innermost dimensions of updates run over windows and have so few elements
/// that they are written out.
fn window_dims(
    e: &mut Emitter<'_>,
    dims: &ScatterDims,
    target: ValueId,
    indices: ValueId,
    update: ValueId,
) -> usize {
    let sizes = e.dims(update);
    let ranks = [e.dims(target).len(), e.dims(indices).len(), sizes.len()];
    let Some(roles) = dims.roles(ranks) else {
        return 0;
    };
    let (mut count, mut elements) = (0, 1i64);
    for (dim, size) in sizes.iter().enumerate().rev() {
        let size = size.as_constant().unwrap_or(i64::MAX);
        elements = elements.saturating_mul(size);
        if roles.batch.contains(&dim) || elements > e.shallow {
            break;
        }
        count += 1;
    }
    if elements > 1 { count } else { 0 }
}

/// Where an update element goes, and whether its whole window is inside.
fn scatter_position(
    e: &mut Emitter<'_>,
    dims: &ScatterDims,
    target: ValueId,
    indices: ValueId,
    update: ValueId,
    at: &[Term],
) -> Result<(Vec<Term>, Term), Error> {
    let sizes = e.dims(target);
    let update_sizes = e.dims(update);
    let ranks = [sizes.len(), e.dims(indices).len(), update_sizes.len()];
    let Some(roles) = dims.roles(ranks) else {
        return Err(e.bug("the dimensions of a scatter do not go together"));
    };
    // The update dimensions that do not run over the window are those of the indices.
    let batch: Vec<Term> = roles.batch.iter().map(|&dim| at[dim].clone()).collect();
    let mut position = Vec::with_capacity(sizes.len());
    let mut inside = Term::constant(1);
    for (role, size) in roles.operand.iter().zip(&sizes) {
        let (offset, extent) = match role.offset {
            Some(own) => (at[own].clone(), update_sizes[own].clone()),
            None => (Term::constant(0), Term::constant(1)),
        };
        let start = if let Some(component) = role.component {
            let component = Term::constant(component as i64);
            let scalar = e.element(indices, &roles.place_of_index(&batch, component))?;
            let start = bind_index(e, scalar);
            let last = size.sub(&extent);
            inside = inside
                .mul(&Term::cmp(Cmp::Le, &Term::constant(0), &start))
                .mul(&Term::cmp(Cmp::Le, &start, &last));
            start
        } else {
            let paired = role.paired.and_then(|number| batch.get(number));
            paired.cloned().unwrap_or(Term::constant(0))
        };
        position.push(start.add(&offset));
    }
    Ok((position, inside))
}

/// An index as a variable; one beyond any array's size stays beyond it. Indices of 32 bits
/// and fewer need no bounds for that.
fn bind_index(e: &mut Emitter<'_>, scalar: ScalarId) -> Term {
    let ty = e.kernel.scalars[scalar];
    let bits = ty.bits();
    if ty.is_integer() && bits <= 32 {
        let range = 1i64 << bits;
        let lower = if ty.is_signed() { -range / 2 } else { 0 };
        let wide = e.convert(scalar, ElementType::S64);
        return e.bind_exact(wide, lower, lower + range - 1);
    }
    e.bind(scalar, -1, 1 << 40)
}

/// For each window of the operand, finds the element that `select` prefers and
/// combines the source element into the result there.
fn select_and_scatter(
    e: &mut Emitter<'_>,
    id: NodeId,
    window: &[WindowDim],
    select: ComputationId,
    scatter: ComputationId,
) -> Result<(), Error> {
    let program = e.program;
    let node = &program.nodes[id];
    let (operand, source) = (node.operands[0], node.operands[1]);
    let output = e.param(node.results[0], Access::Update);
    let sizes = e.dims(operand);
    let extents = e.dims(source);
    let window_extents: Vec<Term> = window.iter().map(|w| Term::constant(w.size)).collect();
    let element_type = e.element_type(operand);
    e.loops(&extents, &[], &mut |e, at, _| {
        // Carried: the best element, and its index by dimension; -1: none yet.
        let none = e.compute(
            ElementType::S64,
            ScalarOp::Constant(u128::from(u64::MAX)),
            &[],
        );
        let mut start: Scalars = smallvec![e.compute(element_type, ScalarOp::Constant(0), &[])];
        start.extend(sizes.iter().map(|_| none));
        let best = e.loops(&window_extents, &start, &mut |e, offset, carried| {
            let (position, inside) = window_position(window, &sizes, at, offset);
            e.branch(
                &inside,
                &mut |e| consider(e, operand, &position, carried, select),
                &mut |_| Ok(carried.iter().copied().collect()),
            )
        })?;
        let mut position = Vec::with_capacity(sizes.len());
        let mut found = Term::constant(1);
        for (&scalar, size) in best[1..].iter().zip(&sizes) {
            let last = size.as_constant().unwrap_or(i64::MAX).saturating_sub(1);
            let term = e.bind_exact(scalar, -1, last);
            found = found.mul(&Term::cmp(Cmp::Le, &Term::constant(0), &term));
            position.push(term);
        }
        e.branch(
            &found,
            &mut |e| {
                let value = e.element(source, at)?;
                let old = e.load(output, &position);
                let combined = e.apply(scatter, &[old, value])?;
                e.store(output, &position, combined[0]);
                Ok(Scalars::new())
            },
            &mut |_| Ok(Scalars::new()),
        )
    })?;
    Ok(())
}

/// The operand index of an element of a window, and whether there is one.
fn window_position(
    window: &[WindowDim],
    sizes: &[Term],
    at: &[Term],
    offset: &[Term],
) -> (Vec<Term>, Term) {
    let mut inside = Term::constant(1);
    let position = window.iter().enumerate().map(|(d, w)| {
        // Which of equal elements is chosen depends on the order, which is the array's.
        let w = w.from_begin();
        let (element, within) = w.meet(&mut terms(), &sizes[d], &at[d], &offset[d]);
        inside = inside.mul(&within);
        element
    });
    let position = position.collect();
    (position, inside)
}

/// Compares one element of a window with the best so far.
fn consider(
    e: &mut Emitter<'_>,
    operand: ValueId,
    position: &[Term],
    carried: &[ScalarId],
    select: ComputationId,
) -> Result<Scalars, Error> {
    let value = e.element(operand, position)?;
    let indices: Scalars = position
        .iter()
        .map(|t| {
            let t = e.simplify(t);
            e.compute(ElementType::S64, ScalarOp::Index(t), &[])
        })
        .collect();
    let keep = e.apply(select, &[carried[0], value])?;
    // The first element of a window is taken without being compared.
    let first = e.bind_exact(carried[1], -1, i64::MAX);
    let first = Term::cmp(Cmp::Lt, &first, &Term::constant(0));
    let keep = e.bind_exact(keep[0], 0, 1);
    let replace = Term::select(
        &first,
        &Term::constant(1),
        &Term::cmp(Cmp::Eq, &keep, &Term::constant(0)),
    );
    e.branch(
        &replace,
        &mut |_| {
            Ok(std::iter::once(value)
                .chain(indices.iter().copied())
                .collect())
        },
        &mut |_| Ok(carried.iter().copied().collect()),
    )
}
