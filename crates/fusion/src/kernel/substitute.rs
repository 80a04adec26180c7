//! Renames the scalars, index variables and parameters of statements, to use them in another
//! kernel.

use super::{Block, ScalarId, ScalarOp, Statement};
use rustc_hash::FxHashMap;
use tegula_expr::{Term, Var};

/// A renaming. Names that it does not list stay as they are.
#[derive(Clone, Debug, Default)]
pub struct Rename {
    /// The replacement of index variables. A variable that a statement defines is replaced by a
    /// variable.
    pub vars: FxHashMap<Var, Term>,
    /// The replacement of scalars.
    pub scalars: FxHashMap<ScalarId, ScalarId>,
    /// The replacement of parameters.
    pub params: FxHashMap<usize, usize>,
}

impl Rename {
    /// The new name of a scalar.
    pub fn scalar(&self, id: ScalarId) -> ScalarId {
        self.scalars.get(&id).copied().unwrap_or(id)
    }

    /// The new names of scalars.
    pub fn scalars<C: FromIterator<ScalarId>>(&self, ids: &[ScalarId]) -> C {
        ids.iter().map(|&id| self.scalar(id)).collect()
    }

    /// A term over the new variables.
    pub fn term(&self, term: &Term) -> Term {
        match self.vars.is_empty() {
            true => term.clone(),
            false => term.substitute(&mut |var| self.vars.get(&var).cloned()),
        }
    }

    /// Terms over the new variables.
    pub fn terms(&self, terms: &[Term]) -> Vec<Term> {
        terms.iter().map(|term| self.term(term)).collect()
    }

    /// The new name of a variable at its definition, which must be a variable too.
    fn var(&self, var: Var) -> Var {
        let new = self.vars.get(&var).and_then(Term::as_var);
        new.unwrap_or(var)
    }

    fn param(&self, param: usize) -> usize {
        self.params.get(&param).copied().unwrap_or(param)
    }

    /// A block under the new names.
    pub fn block(&self, block: &Block) -> Block {
        Block {
            statements: block.statements.iter().map(|s| self.statement(s)).collect(),
            results: self.scalars(&block.results),
        }
    }

    /// A statement under the new names.
    pub fn statement(&self, statement: &Statement) -> Statement {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => Statement::Compute {
                result: self.scalar(*result),
                op: match op {
                    ScalarOp::Index(term) => ScalarOp::Index(self.term(term)),
                    other => other.clone(),
                },
                operands: self.scalars(operands),
            },
            Statement::Load {
                result,
                param,
                index,
            } => Statement::Load {
                result: self.scalar(*result),
                param: self.param(*param),
                index: self.terms(index),
            },
            Statement::Store {
                param,
                index,
                value,
            } => Statement::Store {
                param: self.param(*param),
                index: self.terms(index),
                value: self.scalar(*value),
            },
            Statement::Bind { var } => Statement::Bind {
                var: self.var(*var),
            },
            Statement::Loop {
                var,
                init,
                carried,
                body,
                results,
            } => Statement::Loop {
                var: self.var(*var),
                init: self.scalars(init),
                carried: self.scalars(carried),
                body: self.block(body),
                results: self.scalars(results),
            },
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => Statement::If {
                condition: self.term(condition),
                then: self.block(then),
                otherwise: self.block(otherwise),
                results: self.scalars(results),
            },
        }
    }
}
