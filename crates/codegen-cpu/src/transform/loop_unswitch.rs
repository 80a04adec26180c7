//! Loop unswitching: moves a branch out of a loop that does not change its condition.
//!
//! A scatter tests for each element of a window whether the window is in bounds, by an index that
//! it loads. This pass moves the load and the test before the loop over the window, so that the
//! loop needs no mask.

use rustc_hash::FxHashSet;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, ScalarId, ScalarOp, Statement};

/// The kernel with invariant conditions moved out of loops; `None` if it has none.
pub(crate) fn unswitch_loops(kernel: &Kernel) -> Option<Kernel> {
    let is_if = |s: &Statement| matches!(s, Statement::If { .. });
    if !kernel.body.any(Statement::is_loop) || !kernel.body.any(is_if) {
        return None;
    }
    let mut body = kernel.body.clone();
    let any = unswitch(kernel, &mut body);
    any.then(|| Kernel {
        body,
        ..kernel.clone()
    })
}

/// Unswitches the loops of a block, the inner ones first; returns whether there were any.
fn unswitch(kernel: &Kernel, block: &mut Block) -> bool {
    let mut any = false;
    let mut statements = Vec::with_capacity(block.statements.len());
    for mut statement in std::mem::take(&mut block.statements) {
        match &mut statement {
            Statement::Loop { body, .. } => any |= unswitch(kernel, body),
            Statement::If {
                then, otherwise, ..
            } => {
                any |= unswitch(kernel, then);
                any |= unswitch(kernel, otherwise);
            }
            _ => {}
        }
        match outside(kernel, &statement) {
            Some(outside) => {
                statements.extend(outside);
                any = true;
            }
            None => statements.push(statement),
        }
    }
    block.statements = statements;
    any
}

/// The loop-invariant statements, followed by the conditional with the loop inside; `None` if the
/// loop cannot be unswitched.
fn outside(kernel: &Kernel, statement: &Statement) -> Option<Vec<Statement>> {
    let Statement::Loop {
        var,
        init,
        carried,
        body,
        results,
    } = statement
    else {
        return None;
    };
    let Some(IndexVar::Loop(extent)) = kernel.var(*var) else {
        return None;
    };
    // A load of a loop that never runs may be out of bounds, so it must not be moved out.
    let runs = extent.as_constant().is_some_and(|n| n > 0);
    let (last, before) = body.statements.split_last()?;
    let Statement::If {
        condition,
        then,
        otherwise,
        results: chosen,
    } = last
    else {
        return None;
    };
    let plain = init.is_empty() && chosen.is_empty() && otherwise.statements.is_empty();
    let inside = Inside::of(kernel, *var, before);
    let same = before.iter().all(|s| inside.is_same(s)) && inside.is_same_term(condition);
    if !runs || !plain || !same {
        return None;
    }
    let inner = Statement::Loop {
        var: *var,
        init: init.clone(),
        carried: carried.clone(),
        body: then.clone(),
        results: results.clone(),
    };
    let mut statements = before.to_vec();
    statements.push(Statement::If {
        condition: condition.clone(),
        then: Block {
            statements: vec![inner],
            results: then.results.clone(),
        },
        otherwise: otherwise.clone(),
        results: chosen.clone(),
    });
    Some(statements)
}

/// The variables and scalars that vary between iterations.
struct Inside<'a> {
    kernel: &'a Kernel,
    vars: FxHashSet<Var>,
    scalars: FxHashSet<ScalarId>,
}

impl<'a> Inside<'a> {
    fn of(kernel: &'a Kernel, var: Var, before: &[Statement]) -> Self {
        let mut inside = Self {
            kernel,
            vars: FxHashSet::from_iter([var]),
            scalars: FxHashSet::default(),
        };
        for statement in before {
            if inside.is_same(statement) {
                continue;
            }
            match statement {
                Statement::Compute { result, .. } | Statement::Load { result, .. } => {
                    inside.scalars.insert(*result);
                }
                Statement::Bind { var } => {
                    inside.vars.insert(*var);
                }
                Statement::Store { .. } | Statement::Loop { .. } | Statement::If { .. } => {}
            }
        }
        inside
    }

    fn is_same_term(&self, term: &Term) -> bool {
        self.vars.iter().all(|&var| !term.mentions(var))
    }

    /// Whether a statement is loop-invariant and can be moved before the loop.
    fn is_same(&self, statement: &Statement) -> bool {
        let same = |id: &ScalarId| !self.scalars.contains(id);
        match statement {
            Statement::Compute { op, operands, .. } => {
                let same_index = match op {
                    ScalarOp::Index(term) => self.is_same_term(term),
                    _ => true,
                };
                same_index && operands.iter().all(same)
            }
            Statement::Load { param, index, .. } => {
                let stays = self.kernel.params[*param].access == Access::Read;
                stays && index.iter().all(|term| self.is_same_term(term))
            }
            Statement::Bind { var } => match self.kernel.var(*var) {
                Some(IndexVar::Runtime { value, .. }) => same(value),
                _ => false,
            },
            Statement::Store { .. } | Statement::Loop { .. } | Statement::If { .. } => false,
        }
    }
}
