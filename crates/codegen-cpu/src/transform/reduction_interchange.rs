//! Reduction interchange: reorders the loops of a reduction so that the innermost one accesses
//! memory contiguously.
//!
//! A reduction over several dimensions of an array has its loops in the order of the program's
//! dimensions. If the array has another layout (such as an image whose features are last), the
//! innermost loop would access a different cache line in each iteration, and could not be
//! vectorised. The order of the combined values may change, as vectorising changes it as well.

use crate::analysis::affine_access::steps_along;
use crate::vectorize::elementwise::combination;
use crate::vectorize::select_loops::FEW;
use smallvec::SmallVec;
use std::cmp::Reverse;
use tegula_expr::Var;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, Statement};

/// The loops of a reduction, outermost first.
type Nest = SmallVec<[Var; 4]>;

/// The kernel with such loops reordered; `None` if it has none.
pub(crate) fn interchange_reductions(kernel: &Kernel) -> Option<Kernel> {
    let mut body = kernel.body.clone();
    interchange(kernel, &mut body).then(|| Kernel {
        body,
        ..kernel.clone()
    })
}

/// Returns whether anything changed.
fn interchange(kernel: &Kernel, block: &mut Block) -> bool {
    let mut changed = false;
    for statement in &mut block.statements {
        let order = match &*statement {
            Statement::Loop { body, .. } => better_order(kernel, body, &nest(kernel, statement)),
            _ => None,
        };
        if let Some(order) = order {
            rename(statement, &order);
            changed = true;
            continue;
        }
        match statement {
            Statement::Loop { body, .. } => changed |= interchange(kernel, body),
            Statement::If {
                then, otherwise, ..
            } => {
                changed |= interchange(kernel, then);
                changed |= interchange(kernel, otherwise);
            }
            _ => {}
        }
    }
    changed
}

/// The loops of a perfectly nested reduction; none if the statement is no reduction, or if the
/// accumulators are used for anything except combining.
fn nest(kernel: &Kernel, statement: &Statement) -> Nest {
    let mut vars = Nest::new();
    let mut next = statement;
    while let Statement::Loop {
        var, carried, body, ..
    } = next
    {
        vars.push(*var);
        match &body.statements[..] {
            [
                inner @ Statement::Loop {
                    init,
                    results: from_inner,
                    ..
                },
            ] if init == carried && from_inner[..] == body.results[..] => next = inner,
            _ => {
                let is_combined = |(&state, &result)| {
                    let op = body.combination(&kernel.vars, state, result);
                    op.and_then(|op| combination(op, kernel.scalars[result]))
                        .is_some()
                };
                let mut states = carried.iter().zip(&body.results);
                let is_reduction = states.all(is_combined) && !body.any(Statement::is_store);
                return if is_reduction { vars } else { Nest::new() };
            }
        }
    }
    vars
}

/// The loops of a nest with this body in the order of their strides, largest first. `None` unless
/// the innermost loop is strided now and would be contiguous then.
fn better_order(kernel: &Kernel, body: &Block, nest: &[Var]) -> Option<Nest> {
    let [_, .., innermost] = nest else {
        return None;
    };
    // The smallest and largest stride of each loop, over all arrays.
    let mut steps = SmallVec::<[(Var, [u64; 2]); 4]>::new();
    for &var in nest {
        kernel.constant_extent(var)?;
        let accesses = steps_along(kernel, body, var).into_iter();
        let all: Option<Vec<i64>> = accesses.map(|access| access.step).collect();
        let apart = all?.into_iter().map(i64::unsigned_abs).filter(|&n| n != 0);
        let apart: SmallVec<[u64; 4]> = apart.collect();
        steps.push((var, [*apart.iter().min()?, *apart.iter().max()?]));
    }
    let is_apart = |var: Var| steps.iter().any(|&(v, [least, _])| v == var && least > 1);
    if !is_apart(*innermost) {
        return None;
    }
    steps.sort_by_key(|&(_, [_, most])| Reverse(most));
    let &[.., (_, [_, line]), (last, [_, step])] = &steps[..] else {
        return None;
    };
    let turns = kernel.constant_extent(last)?;
    // A short loop is also accepted if it can be coalesced with the loop around it.
    let is_long = turns >= FEW || u64::try_from(turns) == Ok(line);
    (step == 1 && is_long).then(|| steps.iter().map(|&(var, _)| var).collect())
}

/// Renames the variables of a nest's loops. The body refers to variables, so it does not change.
fn rename(statement: &mut Statement, order: &[Var]) {
    let Some((first, rest)) = order.split_first() else {
        return;
    };
    if let Statement::Loop { var, body, .. } = statement {
        *var = *first;
        if let Some(inner) = body.statements.first_mut() {
            rename(inner, rest);
        }
    }
}
