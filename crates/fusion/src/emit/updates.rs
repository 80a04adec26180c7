//! Emits operations that write part of an array. The array is copied, and a kernel writes into the
//! copy. Buffer assignment removes the copy if the old array is not needed any more.

use super::select_and_scatter::Selection;
use super::{Context, Emitter, Scalars};
use crate::error::Error;
use crate::fused::Unit;
use crate::kernel::{Access, ScalarId};
use crate::program::{NodeId, ValueId};
use tegula_expr::{Cmp, Term};
use tegula_ir::helpers::GatherRoles;
use tegula_ir::{ComputationId, ElementType, Op, ScatterDims};

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
        Op::Scatter {
            dims,
            to_apply,
            unique_indices,
            ..
        } => {
            let copies = node.operands.iter().zip(&node.results);
            let mut units: Vec<Unit> = copies.map(|(&from, &to)| Unit::Copy { from, to }).collect();
            scatter(&mut emitter, id, dims, *to_apply, *unique_indices)?;
            units.push(Unit::Kernel(emitter.finish()));
            Ok(units)
        }
        Op::SelectAndScatter {
            window,
            select,
            scatter,
        } => {
            let selection = Selection {
                window,
                select: *select,
                scatter: *scatter,
            };
            if context.spread_updates {
                selection.by_element(&mut emitter, id)?;
                return Ok(vec![Unit::Kernel(emitter.finish())]);
            }
            let mut fill = Emitter::new(context, node.origin);
            fill_with(&mut fill, node.operands[2], node.results[0])?;
            selection.by_window(&mut emitter, id)?;
            Ok(vec![
                Unit::Kernel(fill.finish()),
                Unit::Kernel(emitter.finish()),
            ])
        }
        _ => Err(Error::bug(
            module,
            node.origin,
            "expected an operation that updates an array",
        )),
    }
}

/// Stores a scalar to every element of an array.
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

/// Emits a scatter as loops over the updates in row-major order, because the result for duplicate
/// indices depends on the order. With `spread_updates`, the updates are the kernel's domain instead
/// if no two of them change one element: because the program says so (`unique`), or because there
/// is only one window.
fn scatter(
    e: &mut Emitter<'_>,
    id: NodeId,
    dims: &ScatterDims,
    to_apply: ComputationId,
    unique: bool,
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
    let update = |e: &mut Emitter<'_>, position: &[Term], at: &[Term]| {
        let mut arguments = Scalars::new();
        for &output in &outputs {
            arguments.push(e.load(output, position));
        }
        for &update in updates {
            arguments.push(e.element(update, at)?);
        }
        let combined = e.apply(to_apply, &arguments)?;
        for (&output, &value) in outputs.iter().zip(&combined) {
            e.store(output, position, value);
        }
        Ok(Scalars::new())
    };
    let arrays = [node.results[0], indices, updates[0]];
    let place = |e: &mut Emitter<'_>, at: &[Term]| scatter_position(e, dims, arrays, at);
    let apart = unique || has_one_window(e, dims, arrays);
    if e.spread_updates && apart {
        let at = e.domain(&extents);
        if extents.iter().all(|d| d.as_constant() != Some(0)) {
            let (position, inside) = place(e, &at)?;
            e.branch(&inside, &mut |e| update(e, &position, &at), &mut |_| {
                Ok(Scalars::new())
            })?;
        }
        return Ok(());
    }
    // Whether a window is inside the array is the same for all its elements. So the test is made
    // outside of the loops over the innermost dimensions that run over a window.
    let left = window_dims(e, dims, arrays);
    let (outer, window) = extents.split_at(extents.len() - left);
    let first = vec![Term::constant(0); window.len()];
    e.loops(outer, &[], &mut |e, outer, _| {
        let begin = [outer, &first].concat();
        let (start, inside) = place(e, &begin)?;
        e.branch(
            &inside,
            &mut |e| {
                e.short_loops(window, &[], &mut |e, offset, _| {
                    let at = [outer, offset].concat();
                    let position = match left {
                        0 => start.clone(),
                        _ => place(e, &at)?.0,
                    };
                    update(e, &position, &at)
                })
            },
            &mut |_| Ok(Scalars::new()),
        )
    })?;
    Ok(())
}

/// The roles of the dimensions of a scatter's arrays: its target, its indices and its updates.
fn roles(e: &mut Emitter<'_>, dims: &ScatterDims, arrays: [ValueId; 3]) -> Option<GatherRoles> {
    dims.roles(arrays.map(|array| e.dims(array).len()))
}

/// Whether all updates belong to one window.
fn has_one_window(e: &mut Emitter<'_>, dims: &ScatterDims, arrays: [ValueId; 3]) -> bool {
    let sizes = e.dims(arrays[2]);
    roles(e, dims, arrays).is_some_and(|roles| {
        let batch = roles.batch.iter().map(|&dim| &sizes[dim]);
        batch.into_iter().all(|size| size.as_constant() == Some(1))
    })
}

/// How many of the innermost dimensions of the updates run over windows and have so few elements
/// that they are unrolled.
fn window_dims(e: &mut Emitter<'_>, dims: &ScatterDims, arrays: [ValueId; 3]) -> usize {
    let sizes = e.dims(arrays[2]);
    let Some(roles) = roles(e, dims, arrays) else {
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

/// The position that an element of the updates changes, and whether its whole window is inside.
fn scatter_position(
    e: &mut Emitter<'_>,
    dims: &ScatterDims,
    arrays: [ValueId; 3],
    at: &[Term],
) -> Result<(Vec<Term>, Term), Error> {
    let [target, indices, update] = arrays;
    let (sizes, update_sizes) = (e.dims(target), e.dims(update));
    let Some(roles) = roles(e, dims, arrays) else {
        return Err(e.bug("the dimension numbers of a scatter contradict each other"));
    };
    // The dimensions of the updates that do not run over windows are those of the indices.
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

/// An index as a variable; one beyond the size of any array is clamped to a value that still is.
/// Indices of at most 32 bits need no clamping.
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
