//! Loop coalescing: makes two nested loops one where they go through memory like one dimension.
//!
//! A reduction over the last two dimensions of an array is a loop in a loop; the rows of the
//! inner one lie behind one another. One loop of as many turns makes longer runs of lanes:
//! what is before and after each run, above all combining its lanes, is done once.

use crate::analysis::affine_access::{Ranges, linear_index, split};
use tegula_expr::{Term, Var};
use tegula_fusion::kernel::{Block, IndexVar, ScalarOp, Statement};
use tegula_fusion::{Kernel, Rename};

/// The most turns of a loop made of two: 32-bit indices count them.
const MAX_TURNS: i64 = i32::MAX as i64;

/// The kernel with such loops made one; `None` if it has none.
pub(crate) fn coalesce_loops(kernel: &Kernel) -> Option<Kernel> {
    if !kernel.body.any(Statement::is_loop) {
        return None;
    }
    let mut collapsed = kernel.clone();
    let mut body = std::mem::take(&mut collapsed.body);
    let any = collapse(&mut collapsed, &mut body);
    collapsed.body = body;
    any.then_some(collapsed)
}

/// Collapses the loops of a block, the inner ones first; gives whether there were any. The
/// kernel's variables get their new extents.
fn collapse(kernel: &mut Kernel, block: &mut Block) -> bool {
    let mut any = false;
    for statement in &mut block.statements {
        match statement {
            Statement::Loop { body, .. } => any |= collapse(kernel, body),
            Statement::If {
                then, otherwise, ..
            } => {
                any |= collapse(kernel, then);
                any |= collapse(kernel, otherwise);
            }
            _ => {}
        }
        if let Some(one) = one_loop(kernel, statement) {
            *statement = one;
            any = true;
        }
    }
    any
}

/// A loop whose body is a loop, as one.
fn one_loop(kernel: &mut Kernel, outer: &Statement) -> Option<Statement> {
    let Statement::Loop {
        var: outer_var,
        init,
        carried: outer_carried,
        body: outer_body,
        results,
    } = outer
    else {
        return None;
    };
    let [
        Statement::Loop {
            var: inner_var,
            init: inner_init,
            carried,
            body,
            results: inner_results,
        },
    ] = &outer_body.statements[..]
    else {
        return None;
    };
    if inner_init != outer_carried || *inner_results != outer_body.results {
        return None;
    }
    let [many, few] = [outer_var, inner_var].map(|&var| match kernel.var(var) {
        Some(IndexVar::Loop(extent)) => extent.as_constant(),
        _ => None,
    });
    let (many, few) = (many?, few?);
    let turns = many
        .checked_mul(few)
        .filter(|t| (1..=MAX_TURNS).contains(t))?;
    // The inner variable counts all turns from now on.
    let (turn, length) = (Term::var(*inner_var), Term::constant(few));
    let mut rename = Rename::default();
    rename.vars.insert(*outer_var, turn.floor_div(&length));
    rename.vars.insert(*inner_var, turn.modulo(&length));
    let body = rename.block(body);
    let slot = kernel.vars.get_mut(inner_var.0 as usize)?;
    let old = std::mem::replace(slot, IndexVar::Loop(Term::constant(turns)));
    if !goes_straight(kernel, &body, *inner_var) {
        kernel.vars[inner_var.0 as usize] = old;
        return None;
    }
    Some(Statement::Loop {
        var: *inner_var,
        init: init.clone(),
        carried: carried.clone(),
        body,
        results: results.clone(),
    })
}

/// Whether all that depends on a variable are places in memory, in equal steps.
fn goes_straight(kernel: &Kernel, block: &Block, var: Var) -> bool {
    let ranges = Ranges {
        vars: &kernel.vars,
        lanes: None,
    };
    let is_straight = |param: usize, index: &[Term]| {
        let linear = linear_index(kernel, param, index, &ranges);
        split(&linear, var).is_some()
    };
    block.statements.iter().all(|statement| match statement {
        Statement::Compute { op, .. } => match op {
            ScalarOp::Index(term) => !term.mentions(var),
            _ => true,
        },
        Statement::Load { param, index, .. } | Statement::Store { param, index, .. } => {
            is_straight(*param, index)
        }
        Statement::Bind { .. } => true,
        Statement::Loop { body, .. } => goes_straight(kernel, body, var),
        Statement::If {
            condition,
            then,
            otherwise,
            ..
        } => {
            !condition.mentions(var)
                && goes_straight(kernel, then, var)
                && goes_straight(kernel, otherwise, var)
        }
    })
}
