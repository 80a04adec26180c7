//! Decides branches whose conditions are known within a range of an index.

use tegula_expr::{Cmp, Node, Term, Var, VarRanges, canonicalize};
use tegula_fusion::Rename;
use tegula_fusion::kernel::{Block, Statement};

/// Where comparisons of a variable with constants, whose product the condition is, begin or
/// cease to hold.
pub(crate) fn factors(condition: &Term, var: Var, out: &mut Vec<i64>) {
    match condition.node() {
        Node::Mul(a, b) => {
            factors(a, var, out);
            factors(b, var, out);
        }
        Node::Cmp(op, a, b) => {
            // It holds where the difference is at least this.
            let least = match op {
                Cmp::Lt => 1,
                Cmp::Le => 0,
                Cmp::Eq | Cmp::Ne => return,
            };
            let Some((terms, constant)) = b.sub(a).as_linear() else {
                return;
            };
            let [(atom, factor)] = &terms[..] else {
                return;
            };
            if atom.as_var() == Some(var) {
                match *factor {
                    1.. => out.push(-(constant - least).div_euclid(*factor)),
                    0 | i64::MIN => {}
                    _ => out.push((constant - least).div_euclid(-factor) + 1),
                }
            }
        }
        _ => {}
    }
}

/// A block with the branches that are taken in the place of choices that are known.
pub(crate) fn resolved(block: &Block, rename: &mut Rename, ranges: &dyn VarRanges) -> Block {
    let statements = statements(block, rename, ranges);
    Block {
        statements,
        results: rename.scalars(&block.results),
    }
}

fn statements(block: &Block, rename: &mut Rename, ranges: &dyn VarRanges) -> Vec<Statement> {
    let mut out = Vec::with_capacity(block.statements.len());
    for statement in &block.statements {
        match statement {
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => {
                let condition = canonicalize(&rename.term(condition), ranges);
                let taken = match condition.as_constant() {
                    Some(0) => otherwise,
                    Some(_) => then,
                    None => {
                        let then = resolved(then, rename, ranges);
                        let otherwise = resolved(otherwise, rename, ranges);
                        out.push(Statement::If {
                            condition,
                            then,
                            otherwise,
                            results: rename.scalars(results),
                        });
                        continue;
                    }
                };
                out.extend(statements(taken, rename, ranges));
                for (&result, &value) in results.iter().zip(&taken.results) {
                    let value = rename.scalar(value);
                    rename.scalars.insert(result, value);
                }
            }
            Statement::Loop {
                var,
                init,
                carried,
                body,
                results,
            } => {
                let init = rename.scalars(init);
                let body = resolved(body, rename, ranges);
                out.push(Statement::Loop {
                    var: *var,
                    init,
                    carried: rename.scalars(carried),
                    body,
                    results: rename.scalars(results),
                });
            }
            _ => out.push(rename.statement(statement)),
        }
    }
    out
}
