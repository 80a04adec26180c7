//! Full unrolling: writes a kernel of few points and short loops as straight-line code.
//!
//! The kernel then becomes part of the [loop](crate::compile::loop_outline) that runs it. All its
//! indices are constants, so the elements that it loads and stores can be kept in registers.

use super::cse;
use tegula_expr::{Term, canonicalize};
use tegula_fusion::kernel::{Access, Block, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_fusion::{Kernel, KernelRanges, Rename};

/// Unrolls a kernel over all its points; `None` if that gives more than `most` statements, or an
/// unknown number.
pub(crate) fn fully_unrolled(kernel: &Kernel, most: usize) -> Option<Kernel> {
    let is_symbol = |var: &IndexVar| matches!(var, IndexVar::Symbol { .. });
    let is_local = |access: Access| access == Access::Local;
    if kernel.vars.iter().any(is_symbol) || kernel.params.iter().any(|p| is_local(p.access)) {
        return None;
    }
    let extents: Option<Vec<i64>> = kernel
        .domain
        .iter()
        .map(|&v| kernel.constant_extent(v))
        .collect();
    let extents = extents?;
    let points = extents.iter().try_fold(1i64, |n, &e| n.checked_mul(e))?;
    let points = usize::try_from(points).ok()?;
    let statements = count(kernel, &kernel.body, most)?;
    if statements.checked_mul(points)? > most {
        return None;
    }
    let mut copy = Copy {
        kernel: kernel.clone(),
        rename: Rename::default(),
    };
    let domain = std::mem::take(&mut copy.kernel.domain);
    let body = std::mem::take(&mut copy.kernel.body);
    let mut all = Vec::new();
    for point in 0..points {
        let mut rest = point as i64;
        for (&var, &size) in domain.iter().zip(&extents).rev() {
            copy.rename.vars.insert(var, Term::constant(rest % size));
            rest /= size;
        }
        copy.statements(&body.statements, &mut all)?;
    }
    let mut kernel = copy.kernel;
    kernel.body.statements = all;
    cse::eliminate_common_subexpressions(&mut kernel);
    Some(kernel)
}

/// The number of statements of a block with its loops unrolled, if at most `most`.
fn count(kernel: &Kernel, block: &Block, most: usize) -> Option<usize> {
    let mut sum = 0usize;
    for statement in &block.statements {
        sum += match statement {
            Statement::Loop { var, body, .. } => {
                let trips = usize::try_from(kernel.constant_extent(*var)?).ok()?;
                count(kernel, body, most)?.checked_mul(trips)?
            }
            Statement::If {
                then, otherwise, ..
            } => 1 + count(kernel, then, most)? + count(kernel, otherwise, most)?,
            _ => 1,
        };
        if sum > most {
            return None;
        }
    }
    Some(sum)
}

/// A kernel into which statements are copied.
struct Copy {
    kernel: Kernel,
    /// The names of scalars and variables in the last copy.
    rename: Rename,
}

impl Copy {
    /// Adds a copy of statements, with scalars of its own; `None` if a loop has an unknown number
    /// of iterations.
    fn statements(&mut self, statements: &[Statement], out: &mut Vec<Statement>) -> Option<()> {
        for statement in statements {
            self.statement(statement, out)?;
        }
        Some(())
    }

    fn statement(&mut self, statement: &Statement, out: &mut Vec<Statement>) -> Option<()> {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                let op = match op {
                    ScalarOp::Index(term) => ScalarOp::Index(self.term(term)),
                    other => other.clone(),
                };
                let operands = self.rename.scalars(operands);
                let result = self.fresh(*result);
                out.push(Statement::Compute {
                    result,
                    op,
                    operands,
                });
            }
            Statement::Load {
                result,
                param,
                index,
            } => {
                let index = index.iter().map(|term| self.term(term)).collect();
                out.push(Statement::Load {
                    result: self.fresh(*result),
                    param: *param,
                    index,
                });
            }
            Statement::Store {
                param,
                index,
                value,
            } => out.push(Statement::Store {
                param: *param,
                index: index.iter().map(|term| self.term(term)).collect(),
                value: self.rename.scalar(*value),
            }),
            Statement::Bind { var } => {
                let mut bound = self.kernel.var(*var)?.clone();
                if let IndexVar::Runtime { value, .. } = &mut bound {
                    *value = self.rename.scalar(*value);
                }
                let bound = self.kernel.push_var(bound);
                self.rename.vars.insert(*var, Term::var(bound));
                out.push(Statement::Bind { var: bound });
            }
            Statement::Loop {
                var,
                init,
                carried,
                body,
                results,
            } => {
                let mut state: Vec<ScalarId> = self.rename.scalars(init);
                for turn in 0..self.kernel.constant_extent(*var)? {
                    self.rename.vars.insert(*var, Term::constant(turn));
                    self.same(carried, &state);
                    self.statements(&body.statements, out)?;
                    state = self.rename.scalars(&body.results);
                }
                self.same(results, &state);
            }
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => self.choice(condition, [then, otherwise], results, out)?,
        }
        Some(())
    }

    /// Copies a conditional; if the condition is known, only the branch that is taken.
    fn choice(
        &mut self,
        condition: &Term,
        [then, otherwise]: [&Block; 2],
        results: &[ScalarId],
        out: &mut Vec<Statement>,
    ) -> Option<()> {
        let condition = self.term(condition);
        if let Some(known) = condition.as_constant() {
            let taken = if known == 0 { otherwise } else { then };
            self.statements(&taken.statements, out)?;
            let values: Vec<ScalarId> = self.rename.scalars(&taken.results);
            self.same(results, &values);
            return Some(());
        }
        let mut copies = Vec::with_capacity(2);
        for block in [then, otherwise] {
            let mut statements = Vec::new();
            self.statements(&block.statements, &mut statements)?;
            copies.push(Block {
                statements,
                results: self.rename.scalars(&block.results),
            });
        }
        let otherwise = copies.pop()?;
        let then = copies.pop()?;
        let results = results.iter().map(|&result| self.fresh(result)).collect();
        out.push(Statement::If {
            condition,
            then,
            otherwise,
            results,
        });
        Some(())
    }

    /// Renames scalars to `others` from here on.
    fn same(&mut self, scalars: &[ScalarId], others: &[ScalarId]) {
        let pairs = scalars.iter().copied().zip(others.iter().copied());
        self.rename.scalars.extend(pairs);
    }

    fn fresh(&mut self, scalar: ScalarId) -> ScalarId {
        let fresh = self.kernel.scalars.push(self.kernel.scalars[scalar]);
        self.rename.scalars.insert(scalar, fresh);
        fresh
    }

    fn term(&self, term: &Term) -> Term {
        canonicalize(&self.rename.term(term), &KernelRanges(&self.kernel.vars))
    }
}
