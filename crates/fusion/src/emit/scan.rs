//! Emits scans (prefix sums and the like): `reduce-window` operations whose windows all begin, or
//! all end, at the boundary of the array.
//!
//! The window at position `i` covers everything up to `i` (or everything from `i` on), so it
//! combines one more element than the window before it. The combination may be reassociated by
//! definition. So one loop along the dimension carries the partial result and stores it at every
//! step: the number of combinations is linear in the number of elements rather than quadratic.

use super::{Context, Emitter, Scalars};
use crate::analysis::scan::Scan;
use crate::error::Error;
use crate::fused::Unit;
use crate::kernel::Access;
use crate::program::NodeId;
use tegula_expr::Term;
use tegula_ir::Op;

/// The kernel of a scan: its domain is the other dimensions, and it loops along the scanned one.
pub(crate) fn scan(context: &Context<'_>, id: NodeId, scan: Scan) -> Result<Unit, Error> {
    let node = &context.program.nodes[id];
    let mut emitter = Emitter::new(context, node.origin);
    emit(&mut emitter, id, scan)?;
    Ok(Unit::Kernel(emitter.finish()))
}

fn emit(e: &mut Emitter<'_>, id: NodeId, scan: Scan) -> Result<(), Error> {
    let node = &e.program.nodes[id];
    let Op::ReduceWindow { to_apply, .. } = &e.module[node.origin].op else {
        return Err(e.bug("expected a reduce-window"));
    };
    let mut dims = node.results.first().map(|&v| e.dims(v)).unwrap_or_default();
    let outputs: Vec<usize> = (node.results.iter())
        .map(|&v| e.param(v, Access::Write))
        .collect();
    if dims.iter().any(|d| d.as_constant() == Some(0)) {
        return Ok(());
    }
    dims[scan.dimension] = Term::constant(1);
    let around = e.domain(&dims);
    let inputs = node.operands.len() / 2;
    let start = e.fold_start(id, *to_apply)?;
    let last = Term::constant(scan.length - 1);
    e.loops(
        &[Term::constant(scan.length)],
        &start,
        &mut |e, at, carried| {
            let mut index = around.clone();
            index[scan.dimension] = match scan.reversed {
                true => last.sub(&at[0]),
                false => at[0].clone(),
            };
            let mut values = Scalars::new();
            for &operand in &node.operands[..inputs] {
                values.push(e.element(operand, &index)?);
            }
            let next = e.fold_step(*to_apply, carried, &values)?;
            for (k, &output) in outputs.iter().enumerate() {
                let element_type = e.element_type(node.results[k]);
                let value = e.convert(next[k], element_type);
                e.store(output, &index, value);
            }
            Ok(next)
        },
    )?;
    Ok(())
}
