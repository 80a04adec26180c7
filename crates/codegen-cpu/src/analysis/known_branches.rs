//! Decides branches whose conditions are known within a range of an index.

use tegula_expr::{Cmp, Node, Term, Var, VarRanges, canonicalize};
use tegula_fusion::Rename;
use tegula_fusion::kernel::{Block, Statement};

/// The values of a term for which its comparison with a constant holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// This value and all larger ones.
    From(i64),
    /// This value and all smaller ones.
    UpTo(i64),
}

/// If a condition compares a term with a constant: the term, and the values for which the condition
/// holds.
pub(crate) fn bound(condition: &Term) -> Option<(Term, Bound)> {
    let Node::Cmp(op, a, b) = condition.node() else {
        return None;
    };
    // The condition holds if the difference is at least this.
    let least = match op {
        Cmp::Lt => 1,
        Cmp::Le => 0,
        Cmp::Eq | Cmp::Ne => return None,
    };
    let (terms, constant) = b.sub(a).as_linear()?;
    let [(atom, factor)] = &terms[..] else {
        return None;
    };
    let rest = constant.checked_sub(least)?;
    let bound = match *factor {
        0 | i64::MIN => return None,
        1.. => Bound::From(rest.div_euclid(*factor).checked_neg()?),
        _ => Bound::UpTo(rest.div_euclid(-factor)),
    };
    Some((atom.clone(), bound))
}

/// Collects the boundaries of a condition that is a product of comparisons: the values of a
/// variable at which comparisons with constants begin or cease to hold.
pub(crate) fn factors(condition: &Term, var: Var, out: &mut Vec<i64>) {
    if let Node::Mul(a, b) = condition.node() {
        factors(a, var, out);
        factors(b, var, out);
    } else if let Some((atom, bound)) = bound(condition)
        && atom.as_var() == Some(var)
    {
        match bound {
            Bound::From(first) => out.push(first),
            Bound::UpTo(last) => out.extend(last.checked_add(1)),
        }
    }
}

/// The block with each conditional whose condition is known replaced by the branch that is taken.
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
