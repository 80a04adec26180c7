//! Loop coalescing: merges two nested loops that go through memory like one dimension.
//!
//! A reduction over the last two dimensions of an array is a nest of two loops; the rows of the
//! inner one are contiguous in memory. One loop with all iterations gives longer vector loops: the
//! work before and after each of them, above all the reduction across lanes, is done once.
//!
//! Innermost dimensions of a domain that are contiguous in memory already form one vector loop
//! ([`merged`]), unless a branch condition depends on the outer one's index, as in padding and
//! concatenation. This pass then replaces both by one dimension and rewrites the condition, if
//! index-set splitting can remove the condition afterwards.

use super::index_set_split::split_index_set;
use crate::analysis::affine_access::{Ranges, linear_index, merged, split};
use crate::analysis::known_branches::{Bound, bound};
use tegula_expr::{Cmp, Node, Term, Var};
use tegula_fusion::kernel::{Block, IndexVar, ScalarOp, Statement};
use tegula_fusion::{Kernel, Rename};

/// The maximum number of iterations of a merged loop: 32-bit indices count them.
const MAX_TURNS: i64 = i32::MAX as i64;
/// Points of an innermost dimension that is long enough for a vector loop by itself.
const LONG_ROW: i64 = 256;

/// The kernel with such loops and dimensions merged; `None` if it has none.
pub(crate) fn coalesce_loops(kernel: &Kernel) -> Option<Kernel> {
    let loops = coalesce_inner_loops(kernel);
    let domain = coalesce_domain(loops.as_ref().unwrap_or(kernel));
    domain.or(loops)
}

/// The kernel with the two innermost dimensions of its domain replaced by one. The outermost
/// dimension is never one of them, because it is divided among threads.
fn coalesce_domain(kernel: &Kernel) -> Option<Kernel> {
    let [_, .., outer, inner] = kernel.domain[..] else {
        return None;
    };
    let (many, few) = (
        kernel.constant_extent(outer)?,
        kernel.constant_extent(inner)?,
    );
    let points = many.checked_mul(few).filter(|n| *n <= MAX_TURNS)?;
    if !(2..LONG_ROW).contains(&few) || merged(kernel).0 > 1 {
        return None;
    }
    let (point, length) = (Term::var(inner), Term::constant(few));
    let mut rename = Rename::default();
    let quotient = point.floor_div(&length);
    rename.vars.insert(outer, quotient.clone());
    rename.vars.insert(inner, point.modulo(&length));
    let mut one = kernel.clone();
    one.body = rename.block(&kernel.body);
    one.domain.retain(|&var| var != outer);
    *one.vars.get_mut(inner.0 as usize)? = IndexVar::Domain(Term::constant(points));
    let mut body = std::mem::take(&mut one.body);
    rewrite_conditions(&mut body, &quotient, (inner, few))?;
    one.body = body;
    let pays = is_linear(&one, &one.body, inner) && !split_index_set(&one).is_empty();
    pays.then_some(one)
}

/// Rewrites comparisons of `var floordiv by`, which is `quotient`, as comparisons of `var`. `None`
/// if a condition depends on the variable in another way.
fn rewrite_conditions(block: &mut Block, quotient: &Term, (var, by): (Var, i64)) -> Option<()> {
    for statement in &mut block.statements {
        match statement {
            Statement::If {
                condition,
                then,
                otherwise,
                ..
            } => {
                *condition = rewritten(condition, quotient, (var, by))?;
                rewrite_conditions(then, quotient, (var, by))?;
                rewrite_conditions(otherwise, quotient, (var, by))?;
            }
            Statement::Loop { body, .. } => rewrite_conditions(body, quotient, (var, by))?,
            _ => {}
        }
    }
    Some(())
}

/// Rewrites one condition in this way.
fn rewritten(condition: &Term, quotient: &Term, (var, by): (Var, i64)) -> Option<Term> {
    if !condition.mentions(var) {
        return Some(condition.clone());
    }
    if let Node::Mul(a, b) = condition.node() {
        let [a, b] = [a, b].map(|factor| rewritten(factor, quotient, (var, by)));
        return Some(a?.mul(&b?));
    }
    let (atom, bound) = bound(condition)?;
    let point = Term::var(var);
    (atom == *quotient).then_some(())?;
    Some(match bound {
        Bound::From(first) => Term::cmp(Cmp::Le, &Term::constant(first.checked_mul(by)?), &point),
        Bound::UpTo(last) => {
            let behind = last.checked_add(1)?.checked_mul(by)?;
            Term::cmp(Cmp::Lt, &point, &Term::constant(behind))
        }
    })
}

/// The kernel with nested loops merged.
fn coalesce_inner_loops(kernel: &Kernel) -> Option<Kernel> {
    if !kernel.body.any(Statement::is_loop) {
        return None;
    }
    let mut collapsed = kernel.clone();
    let mut body = std::mem::take(&mut collapsed.body);
    let any = collapse(&mut collapsed, &mut body);
    collapsed.body = body;
    any.then_some(collapsed)
}

/// Merges the loops of a block, the inner ones first; returns whether there were any. Updates the
/// extents of the kernel's variables.
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

/// Merges a loop whose body is a loop with that loop.
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
    // The inner variable counts all iterations from now on.
    let (turn, length) = (Term::var(*inner_var), Term::constant(few));
    let mut rename = Rename::default();
    rename.vars.insert(*outer_var, turn.floor_div(&length));
    rename.vars.insert(*inner_var, turn.modulo(&length));
    let body = rename.block(body);
    let slot = kernel.vars.get_mut(inner_var.0 as usize)?;
    let old = std::mem::replace(slot, IndexVar::Loop(Term::constant(turns)));
    let is_asked = |statement: &Statement| match statement {
        Statement::If { condition, .. } => condition.mentions(*inner_var),
        _ => false,
    };
    if body.any(is_asked) || !is_linear(kernel, &body, *inner_var) {
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

/// Whether a variable is used only in conditions and addresses, and every address is linear in it.
fn is_linear(kernel: &Kernel, block: &Block, var: Var) -> bool {
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
        Statement::Loop { body, .. } => is_linear(kernel, body, var),
        Statement::If {
            then, otherwise, ..
        } => is_linear(kernel, then, var) && is_linear(kernel, otherwise, var),
    })
}
