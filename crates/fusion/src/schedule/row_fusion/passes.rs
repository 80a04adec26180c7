//! Divides the work on a row into as few passes along its columns as possible.
//!
//! A pass must run after the passes whose results it reads. Its *level* is its depth in this
//! dependence graph: the number of passes on the longest path that leads to it. All passes of one
//! level are fused into one loop, which loads each element once and shares computed scalars between
//! them.

use crate::kernel::substitute::Rename;
use crate::kernel::{Block, IndexVar, Kernel, ScalarId, ScalarOp, Statement};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tegula_expr::{Term, Var};

/// Stands for the column in a pass, before passes have variables of their own.
pub(super) const COLUMN: Var = Var(u32::MAX);

/// One loop along the columns.
#[derive(Default)]
pub(super) struct Pass {
    pub init: SmallVec<[ScalarId; 2]>,
    pub carried: SmallVec<[ScalarId; 2]>,
    pub results: SmallVec<[ScalarId; 2]>,
    pub body: Block,
}

/// A part of the program that runs for each row.
pub(super) enum Item {
    Statement(Statement),
    Pass(Pass),
}

/// At most one pass, and the statements before it.
#[derive(Default)]
struct Level {
    before: Vec<Statement>,
    pass: Option<Pass>,
    /// The stores, which come last in the pass.
    stores: Vec<Statement>,
    /// The scalars that the pass has loaded, or holds for elements of the local arrays.
    loaded: FxHashMap<(usize, Vec<Term>), ScalarId>,
}

/// Writes the per-row program into a kernel. `columns` is the extent of the passes, `locals` are
/// the parameters that are local arrays. A local array that nothing loads in the end is not stored
/// to either; the others are returned.
pub(super) fn arrange(
    kernel: &mut Kernel,
    items: Vec<Item>,
    columns: i64,
    locals: &FxHashSet<usize>,
) -> FxHashSet<usize> {
    let mut levels = Levels {
        kernel,
        locals,
        levels: Vec::new(),
        scalars: FxHashMap::default(),
        vars: FxHashMap::default(),
        stored: FxHashMap::default(),
    };
    for item in items {
        match item {
            Item::Statement(statement) => levels.statement(statement),
            Item::Pass(pass) => levels.pass(pass),
        }
    }
    let levels = std::mem::take(&mut levels.levels);
    let mut used = FxHashSet::default();
    for level in &levels {
        let blocks = level.pass.iter().map(|pass| &pass.body.statements);
        for statement in blocks.flatten() {
            note_loads(statement, locals, &mut used);
        }
    }
    let mut statements = Vec::new();
    for mut level in levels {
        statements.append(&mut level.before);
        let dead = |s: &Statement| {
            matches!(s, Statement::Store { param, .. }
                if locals.contains(param) && !used.contains(param))
        };
        level.stores.retain(|s| !dead(s));
        if let Some(mut pass) = level.pass {
            pass.body.statements.append(&mut level.stores);
            statements.push(as_loop(kernel, pass, columns));
        }
    }
    kernel.body.statements = statements;
    used
}

fn as_loop(kernel: &mut Kernel, pass: Pass, columns: i64) -> Statement {
    let extent = Term::constant(columns);
    let var = kernel.push_var(IndexVar::Loop(extent));
    let mut rename = Rename::default();
    rename.vars.insert(COLUMN, Term::var(var));
    Statement::Loop {
        var,
        init: pass.init,
        carried: pass.carried,
        body: rename.block(&pass.body),
        results: pass.results,
    }
}

fn note_loads(statement: &Statement, locals: &FxHashSet<usize>, used: &mut FxHashSet<usize>) {
    match statement {
        Statement::Load { param, .. } if locals.contains(param) => {
            used.insert(*param);
        }
        Statement::If {
            then, otherwise, ..
        } => {
            for inner in then.statements.iter().chain(&otherwise.statements) {
                note_loads(inner, locals, used);
            }
        }
        _ => {}
    }
}

struct Levels<'a> {
    kernel: &'a Kernel,
    locals: &'a FxHashSet<usize>,
    levels: Vec<Level>,
    /// The first level at which a scalar is available; scalars of passes are not listed.
    scalars: FxHashMap<ScalarId, usize>,
    vars: FxHashMap<Var, usize>,
    /// The level that stores each local array.
    stored: FxHashMap<usize, usize>,
}

impl Levels<'_> {
    fn level(&mut self, number: usize) -> &mut Level {
        while self.levels.len() <= number {
            self.levels.push(Level::default());
        }
        &mut self.levels[number]
    }

    fn statement(&mut self, statement: Statement) {
        let level = self.needs(&statement, false);
        match &statement {
            Statement::Compute { result, .. } | Statement::Load { result, .. } => {
                self.scalars.insert(*result, level);
            }
            Statement::If { results, .. } => {
                self.scalars.extend(results.iter().map(|&r| (r, level)));
            }
            Statement::Bind { var } => {
                self.vars.insert(*var, level);
            }
            Statement::Store { .. } | Statement::Loop { .. } => {}
        }
        self.level(level).before.push(statement);
    }

    fn pass(&mut self, pass: Pass) {
        let inside = pass.body.statements.iter();
        let inside = inside.map(|s| self.needs(s, false));
        let outside = pass.init.iter().chain(&pass.body.results);
        let outside = outside.map(|s| self.scalars.get(s).copied().unwrap_or(0));
        let number = inside.chain(outside).max().unwrap_or(0);
        self.scalars
            .extend(pass.results.iter().map(|&r| (r, number + 1)));
        for statement in &pass.body.statements {
            if let Statement::Store { param, .. } = statement
                && self.locals.contains(param)
            {
                self.stored.insert(*param, number);
            }
        }
        let locals = self.locals;
        self.level(number).join(pass, locals);
    }

    /// The first level at which a statement can run. Inside a conditional, it cannot use an element
    /// that the same pass computes for a local array.
    fn needs(&self, statement: &Statement, conditional: bool) -> usize {
        let scalar = |id: &ScalarId| self.scalars.get(id).copied().unwrap_or(0);
        let scalars = |ids: &[ScalarId]| ids.iter().map(scalar).max().unwrap_or(0);
        match statement {
            Statement::Compute { op, operands, .. } => match op {
                ScalarOp::Index(term) => self.term(term),
                _ => scalars(operands),
            },
            Statement::Load { param, index, .. } => {
                let stored = self
                    .stored
                    .get(param)
                    .map_or(0, |&level| level + usize::from(conditional));
                stored.max(self.terms(index))
            }
            Statement::Store { index, value, .. } => scalar(value).max(self.terms(index)),
            Statement::Bind { var } => match self.kernel.var(*var) {
                Some(IndexVar::Runtime { value, .. }) => scalar(value),
                _ => 0,
            },
            Statement::Loop { .. } => 0,
            Statement::If {
                condition,
                then,
                otherwise,
                ..
            } => {
                let inner = then.statements.iter().chain(&otherwise.statements);
                let inner = inner.map(|s| self.needs(s, true)).max().unwrap_or(0);
                let given = scalars(&then.results).max(scalars(&otherwise.results));
                inner.max(given).max(self.term(condition))
            }
        }
    }

    fn term(&self, term: &Term) -> usize {
        let mut level = 0;
        term.for_each_var(&mut |var| {
            level = level.max(self.vars.get(&var).copied().unwrap_or(0));
        });
        level
    }

    fn terms(&self, terms: &[Term]) -> usize {
        terms.iter().map(|t| self.term(t)).max().unwrap_or(0)
    }
}

impl Level {
    /// Merges a pass into the pass of this level.
    fn join(&mut self, pass: Pass, locals: &FxHashSet<usize>) {
        let ours = self.pass.get_or_insert_with(Pass::default);
        let mut rename = Rename::default();
        for statement in &pass.body.statements {
            match rename.statement(statement) {
                Statement::Load {
                    result,
                    param,
                    index,
                } => match self.loaded.get(&(param, index.clone())) {
                    Some(&known) => {
                        rename.scalars.insert(result, known);
                    }
                    None => {
                        self.loaded.insert((param, index.clone()), result);
                        ours.body.statements.push(Statement::Load {
                            result,
                            param,
                            index,
                        });
                    }
                },
                store @ Statement::Store { .. } => {
                    if let Statement::Store {
                        param,
                        index,
                        value,
                    } = &store
                        && locals.contains(param)
                    {
                        self.loaded.insert((*param, index.clone()), *value);
                    }
                    self.stores.push(store);
                }
                other => ours.body.statements.push(other),
            }
        }
        ours.init.extend(pass.init);
        ours.carried.extend(pass.carried);
        ours.results.extend(pass.results);
        let results = pass.body.results.iter().map(|&r| rename.scalar(r));
        ours.body.results.extend(results);
    }
}
