//! Kernels that update an array sequentially, mostly scatters.
//!
//! The result for duplicate indices depends on the order of the updates, so such a kernel consists
//! of loops, without a domain. A loop can still become a dimension of the domain if its variable is
//! itself an index of every access to the arrays that are written: different iterations then never
//! access the same element, and the updates of one element keep their order.

mod scatter;

use crate::error::Error;
use crate::function::KernelSequence;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, Statement};

/// The functions, if the updates can be spread over threads.
pub(super) fn functions(
    name: &str,
    kernel: &Kernel,
    apart: bool,
) -> Result<Option<KernelSequence>, Error> {
    let has_updates = |kernel: &Kernel| kernel.params.iter().any(|p| p.access == Access::Update);
    match has_updates(kernel).then(|| spread(kernel)) {
        Some(Some(spread)) => scatter::functions(name, &spread, apart),
        Some(None) => scatter::functions(name, kernel, apart),
        None => Ok(None),
    }
}

/// The kernel with loops turned into dimensions of the domain where that is possible; `None` if
/// there are no such loops.
pub(super) fn spread(kernel: &Kernel) -> Option<Kernel> {
    let mut spread = kernel.clone();
    let mut moved = Vec::new();
    move_loops(kernel, &mut spread.body, &mut moved);
    if moved.is_empty() {
        return None;
    }
    for &var in &moved {
        let slot = spread.vars.get_mut(var.0 as usize)?;
        if let IndexVar::Loop(extent) = slot {
            *slot = IndexVar::Domain(extent.clone());
        }
    }
    spread.domain.extend(moved);
    Some(spread)
}

/// Replaces loops that may be dimensions by their bodies, from the outside inwards, as long as a
/// block has no other observable effect.
fn move_loops(kernel: &Kernel, block: &mut Block, moved: &mut Vec<Var>) {
    let [before @ .., Statement::Loop { .. }] = &block.statements[..] else {
        return;
    };
    let harmless = |s: &Statement| matches!(s, Statement::Compute { .. } | Statement::Load { .. });
    // What is loaded before a loop must not be changed by the loop.
    let reads_only = before.iter().all(|statement| match statement {
        Statement::Load { param, .. } => is_read(kernel, *param),
        other => harmless(other),
    });
    if !reads_only {
        return;
    }
    let Some(Statement::Loop {
        var, carried, body, ..
    }) = block.statements.last_mut()
    else {
        return;
    };
    if !carried.is_empty() {
        return;
    }
    let extent_is_free = match kernel.var(*var) {
        Some(IndexVar::Loop(extent)) => depends_on_sizes_only(kernel, extent),
        _ => false,
    };
    let var = *var;
    if extent_is_free && is_index_of_all(kernel, body, var) {
        let mut inner = std::mem::take(body);
        block.statements.pop();
        block.statements.append(&mut inner.statements);
        moved.push(var);
        move_loops(kernel, block, moved);
    } else {
        move_loops(kernel, body, moved);
    }
}

fn is_read(kernel: &Kernel, param: usize) -> bool {
    let declared = kernel.params.get(param);
    declared.is_some_and(|p| p.access == Access::Read)
}

fn depends_on_sizes_only(kernel: &Kernel, term: &Term) -> bool {
    let mut only = true;
    term.for_each_var(&mut |var| {
        only &= matches!(kernel.var(var), Some(IndexVar::Symbol { .. }));
    });
    only
}

/// Whether every access to what is written has the variable itself as an index, in the same
/// dimension of each array.
fn is_index_of_all(kernel: &Kernel, block: &Block, var: Var) -> bool {
    let mut written: Vec<(usize, Vec<&[Term]>)> = Vec::new();
    collect(kernel, block, &mut written);
    let own = Term::var(var);
    !written.is_empty()
        && written.iter().all(|(_, indices)| {
            let rank = indices.first().map_or(0, |index| index.len());
            (0..rank).any(|dim| indices.iter().all(|index| index.get(dim) == Some(&own)))
        })
}

/// The indices of accesses to parameters that are not read-only.
fn collect<'a>(kernel: &Kernel, block: &'a Block, written: &mut Vec<(usize, Vec<&'a [Term]>)>) {
    for statement in &block.statements {
        match statement {
            Statement::Load { param, index, .. } | Statement::Store { param, index, .. } => {
                if is_read(kernel, *param) {
                    continue;
                }
                match written.iter_mut().find(|(known, _)| known == param) {
                    Some((_, indices)) => indices.push(index),
                    None => written.push((*param, vec![index])),
                }
            }
            Statement::Loop { body, .. } => collect(kernel, body, written),
            Statement::If {
                then, otherwise, ..
            } => {
                collect(kernel, then, written);
                collect(kernel, otherwise, written);
            }
            Statement::Compute { .. } | Statement::Bind { .. } => {}
        }
    }
}
