//! Joins kernels of one form into one kernel.
//!
//! Each member becomes statements per row and *passes*: loops along the columns. Later members use
//! the scalars that a member computes per row directly. What it computes per element is kept in an
//! array local to the row, unless it is only used in the same pass. Passes that do not depend on
//! each other's results are merged ([`super::passes`]).

use super::form::{Form, Sight};
use super::passes::{COLUMN, Item, Pass, arrange};
use crate::fused::BoundKernel;
use crate::kernel::substitute::Rename;
use crate::kernel::{Access, Block, IndexVar, Kernel, Param, ScalarId, Statement};
use crate::program::ValueId;
use rustc_hash::FxHashMap;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use tegula_expr::{Term, Var};

struct Joiner<'a> {
    form: &'a Form,
    kernel: Kernel,
    args: Vec<ValueId>,
    /// The arrays local to the row, by value.
    locals: FxHashMap<ValueId, usize>,
    /// The scalars computed per row, by value.
    of_row: FxHashMap<ValueId, ScalarId>,
    items: Vec<Item>,
}

/// Joins kernels, given in an order in which they could run. `needed` says which values are read
/// outside of the group.
pub(super) fn join(
    members: &[(&BoundKernel, Sight)],
    form: &Form,
    needed: &dyn Fn(ValueId) -> bool,
) -> BoundKernel {
    let mut joiner = Joiner {
        form,
        kernel: Kernel::default(),
        args: Vec::new(),
        locals: FxHashMap::default(),
        of_row: FxHashMap::default(),
        items: Vec::new(),
    };
    let reads = |value: ValueId| {
        let of = |bound: &BoundKernel| bound.with_access(|a| a == Access::Read);
        members.iter().any(|(bound, _)| of(bound).contains(&value))
    };
    joiner.rows(members[0].0);
    let made: Vec<ValueId> = (members.iter())
        .flat_map(|(bound, _)| bound.with_access(|a| a == Access::Write))
        .collect();
    for (bound, _) in members {
        joiner.params(bound, &made, needed);
    }
    // Local arrays come after all parameters that the kernel is given.
    for (bound, sight) in members {
        for value in bound.with_access(|a| a == Access::Write) {
            if *sight == Sight::PerElement && reads(value) {
                joiner.local(bound, value);
            }
        }
    }
    for (bound, sight) in members {
        joiner.member(bound, *sight, needed);
    }
    joiner.finish()
}

impl Joiner<'_> {
    fn rows(&mut self, first: &BoundKernel) {
        let symbols = self.symbols(&first.kernel);
        for extent in &self.form.rows {
            let extent = symbols.term(extent);
            let var = self.kernel.push_var(IndexVar::Domain(extent));
            self.kernel.domain.push(var);
        }
    }

    /// Maps a member's symbols to those of the joined kernel.
    fn symbols(&mut self, kernel: &Kernel) -> Rename {
        let mut rename = Rename::default();
        for (i, var) in kernel.vars.iter().enumerate() {
            if matches!(var, IndexVar::Symbol { .. }) {
                let known = self.kernel.vars.iter().position(|v| v == var);
                let new = match known {
                    Some(known) => Var(known as u32),
                    None => self.kernel.push_var(var.clone()),
                };
                rename.vars.insert(Var(i as u32), Term::var(new));
            }
        }
        rename
    }

    /// Adds those parameters of a member that the joined kernel needs.
    fn params(&mut self, bound: &BoundKernel, made: &[ValueId], needed: &dyn Fn(ValueId) -> bool) {
        let symbols = self.symbols(&bound.kernel);
        for (param, &value) in bound.kernel.params.iter().zip(&bound.args) {
            let wanted = match param.access {
                Access::Write => needed(value),
                _ => !made.contains(&value) && !self.args.contains(&value),
            };
            if wanted {
                self.args.push(value);
                self.kernel.params.push(Param {
                    dims: symbols.terms(&param.dims),
                    ..param.clone()
                });
            }
        }
    }

    fn local(&mut self, bound: &BoundKernel, value: ValueId) {
        let Some(param) = bound.args.iter().position(|v| *v == value) else {
            return;
        };
        self.locals.insert(value, self.kernel.params.len());
        self.kernel.params.push(Param {
            access: Access::Local,
            element_type: bound.kernel.params[param].element_type,
            dims: vec![Term::constant(self.form.columns)],
        });
    }

    fn given(&self, value: ValueId) -> Option<usize> {
        self.args.iter().position(|v| *v == value)
    }

    // ---- members ---------------------------------------------------------------------

    fn member(&mut self, bound: &BoundKernel, sight: Sight, needed: &dyn Fn(ValueId) -> bool) {
        let rename = self.names(&bound.kernel, sight);
        match sight {
            Sight::PerRow => self.per_row(bound, rename, needed),
            Sight::PerElement => self.per_element(bound, rename, needed),
        }
    }

    /// Maps a member's variables and scalars to those of the joined kernel.
    fn names(&mut self, kernel: &Kernel, sight: Sight) -> Rename {
        let mut rename = self.symbols(kernel);
        for (i, &var) in kernel.domain.iter().enumerate() {
            let ours = self.kernel.domain.get(i).copied();
            rename.vars.insert(var, Term::var(ours.unwrap_or(COLUMN)));
        }
        for i in 0..kernel.scalars.len() {
            let id = Kernel::scalar(i);
            let new = self.kernel.scalars.push(kernel.scalars[id]);
            rename.scalars.insert(id, new);
        }
        for (i, var) in kernel.vars.iter().enumerate() {
            let old = Var(i as u32);
            if rename.vars.contains_key(&old) {
                continue;
            }
            let new = match var {
                IndexVar::Loop(_) if sight == Sight::PerRow => COLUMN,
                IndexVar::Runtime {
                    value,
                    lower,
                    upper,
                } => self.kernel.push_var(IndexVar::Runtime {
                    value: rename.scalar(*value),
                    lower: *lower,
                    upper: *upper,
                }),
                other => self.kernel.push_var(other.clone()),
            };
            rename.vars.insert(old, Term::var(new));
        }
        rename
    }

    fn per_row(
        &mut self,
        bound: &BoundKernel,
        mut rename: Rename,
        needed: &dyn Fn(ValueId) -> bool,
    ) {
        for statement in &bound.kernel.body.statements {
            match statement {
                Statement::Store { param, value, .. } => {
                    let stored = bound.args[*param];
                    self.of_row.insert(stored, rename.scalar(*value));
                    if needed(stored)
                        && let Some(to) = self.given(stored)
                    {
                        rename.params.insert(*param, to);
                        let store = rename.statement(statement);
                        self.items.push(Item::Statement(store));
                    }
                }
                Statement::Loop {
                    init,
                    carried,
                    body,
                    results,
                    ..
                } => {
                    let mut pass = Pass {
                        init: init.iter().map(|&s| rename.scalar(s)).collect(),
                        carried: carried.iter().map(|&s| rename.scalar(s)).collect(),
                        results: results.iter().map(|&s| rename.scalar(s)).collect(),
                        body: Block::default(),
                    };
                    pass.body = self.block(bound, body, &mut rename);
                    self.items.push(Item::Pass(pass));
                }
                _ => {
                    let mut block = Block::default();
                    self.statement(bound, statement, &mut rename, &mut block.statements);
                    self.items
                        .extend(block.statements.into_iter().map(Item::Statement));
                }
            }
        }
    }

    fn per_element(
        &mut self,
        bound: &BoundKernel,
        mut rename: Rename,
        needed: &dyn Fn(ValueId) -> bool,
    ) {
        let mut statements = Vec::new();
        for statement in &bound.kernel.body.statements {
            let Statement::Store {
                param,
                index,
                value,
            } = statement
            else {
                self.statement(bound, statement, &mut rename, &mut statements);
                continue;
            };
            let stored = bound.args[*param];
            let value = rename.scalar(*value);
            if needed(stored)
                && let Some(to) = self.given(stored)
            {
                statements.push(Statement::Store {
                    param: to,
                    index: rename.terms(index),
                    value,
                });
            }
            if let Some(&local) = self.locals.get(&stored) {
                statements.push(Statement::Store {
                    param: local,
                    index: vec![Term::var(COLUMN)],
                    value,
                });
            }
        }
        self.items.push(Item::Pass(Pass {
            body: Block {
                statements,
                results: SmallVec::new(),
            },
            ..Pass::default()
        }));
    }

    fn block(&mut self, bound: &BoundKernel, block: &Block, rename: &mut Rename) -> Block {
        let mut statements = Vec::new();
        for statement in &block.statements {
            self.statement(bound, statement, rename, &mut statements);
        }
        Block {
            statements,
            results: block.results.iter().map(|&s| rename.scalar(s)).collect(),
        }
    }

    /// Adds a statement that is neither a store nor a pass, using the results of earlier members.
    fn statement(
        &mut self,
        bound: &BoundKernel,
        statement: &Statement,
        rename: &mut Rename,
        out: &mut Vec<Statement>,
    ) {
        match statement {
            Statement::Load {
                result,
                param,
                index,
            } => {
                let value = bound.args[*param];
                if let Some(&known) = self.of_row.get(&value) {
                    rename.scalars.insert(*result, known);
                    return;
                }
                let (param, index) = match (self.locals.get(&value), self.given(value)) {
                    (Some(&local), _) => (local, vec![Term::var(COLUMN)]),
                    (None, Some(given)) => (given, rename.terms(index)),
                    (None, None) => return,
                };
                out.push(Statement::Load {
                    result: rename.scalar(*result),
                    param,
                    index,
                });
            }
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => {
                let then = self.block(bound, then, rename);
                let otherwise = self.block(bound, otherwise, rename);
                out.push(Statement::If {
                    condition: rename.term(condition),
                    then,
                    otherwise,
                    results: results.iter().map(|&s| rename.scalar(s)).collect(),
                });
            }
            _ => out.push(rename.statement(statement)),
        }
    }

    fn finish(mut self) -> BoundKernel {
        let locals: FxHashSet<usize> = self.locals.values().copied().collect();
        let items = std::mem::take(&mut self.items);
        let used = arrange(&mut self.kernel, items, self.form.columns, &locals);
        let mut rename = Rename::default();
        let params = std::mem::take(&mut self.kernel.params);
        for (i, param) in params.into_iter().enumerate() {
            if !locals.contains(&i) || used.contains(&i) {
                rename.params.insert(i, self.kernel.params.len());
                self.kernel.params.push(param);
            }
        }
        self.kernel.body = rename.block(&self.kernel.body);
        BoundKernel {
            kernel: self.kernel,
            args: self.args,
        }
    }
}
