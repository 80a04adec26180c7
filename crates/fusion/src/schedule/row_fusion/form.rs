//! Decides which kernels can join a row-fused kernel, and how each of them uses the rows.
//!
//! The points of a row-fused kernel are rows. Each row has a number of columns, adjacent in memory.
//! A kernel *per row* has the rows as its domain, and may loop over the columns to combine them
//! (sums, maxima). A kernel *per element* has the rows and, innermost, the columns as its domain.

use crate::fused::BoundKernel;
use crate::kernel::{Access, Block, IndexVar, Kernel, ScalarId, Statement};
use rustc_hash::FxHashMap;
use tegula_expr::{Term, Var};
use tegula_ir::Binary;

/// The sizes that the kernels of a group have in common.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    /// The extents of the domain over rows, outermost first.
    pub rows: Vec<Term>,
    /// The number of columns of a row.
    pub columns: i64,
}

/// How a kernel uses the rows of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Its domain is the rows.
    PerRow,
    /// Its domain is the elements of the rows.
    PerElement,
}

/// An index in terms that all kernels of one form share: the rows' variables, numbered by their
/// position in the domain, then the column.
pub(super) type SharedIndex = Vec<Term>;

/// The form of a kernel that combines the columns of rows; a group starts from such a kernel.
pub(super) fn form_of(kernel: &Kernel) -> Option<Form> {
    let rows: Vec<Term> = extents(kernel)?;
    let mut columns = None;
    for statement in &kernel.body.statements {
        if let Statement::Loop { var, .. } = statement {
            let extent = kernel.var(*var).and_then(loop_extent)?.as_constant()?;
            if columns.is_some_and(|known| known != extent) {
                return None;
            }
            columns = Some(extent);
        }
    }
    let form = Form {
        rows,
        columns: columns?,
    };
    let fits = !form.rows.is_empty() && sight(kernel, &form) == Some(Sight::PerRow);
    fits.then_some(form)
}

/// How a kernel uses the rows of a form; `None` if it cannot join a row-fused kernel.
pub(super) fn sight(kernel: &Kernel, form: &Form) -> Option<Sight> {
    let plain = |access| matches!(access, Access::Read | Access::Write);
    if !kernel.params.iter().all(|p| plain(p.access)) || !stores_at_the_top(&kernel.body) {
        return None;
    }
    let extents = extents(kernel)?;
    let loops = || kernel.body.statements.iter().filter(|s| s.is_loop());
    if extents == form.rows {
        let all = loops().all(|s| combines_a_row(kernel, s, form.columns));
        return (all && !nests(&kernel.body)).then_some(Sight::PerRow);
    }
    let (last, before) = extents.split_last()?;
    let elements = *before == form.rows[..] && last.as_constant() == Some(form.columns);
    let plain = elements && !kernel.body.any(Statement::is_loop);
    plain.then_some(Sight::PerElement)
}

fn extents(kernel: &Kernel) -> Option<Vec<Term>> {
    let extent = |var: &Var| match kernel.var(*var)? {
        IndexVar::Domain(extent) => Some(extent.clone()),
        _ => None,
    };
    kernel.domain.iter().map(extent).collect()
}

fn loop_extent(var: &IndexVar) -> Option<&Term> {
    match var {
        IndexVar::Loop(extent) => Some(extent),
        _ => None,
    }
}

fn stores_at_the_top(block: &Block) -> bool {
    block.statements.iter().all(|s| match s {
        Statement::Loop { body, .. } => !body.any(Statement::is_store),
        Statement::If {
            then, otherwise, ..
        } => !then.any(Statement::is_store) && !otherwise.any(Statement::is_store),
        _ => true,
    })
}

/// Whether the block contains a loop elsewhere than at its top level.
fn nests(block: &Block) -> bool {
    block.statements.iter().any(|s| match s {
        Statement::Loop { body, .. } => body.any(Statement::is_loop),
        Statement::If {
            then, otherwise, ..
        } => then.any(Statement::is_loop) || otherwise.any(Statement::is_loop),
        _ => false,
    })
}

/// Whether a loop runs along the columns of a row, and only combines the scalars that it carries.
fn combines_a_row(kernel: &Kernel, statement: &Statement, columns: i64) -> bool {
    let Statement::Loop {
        var, carried, body, ..
    } = statement
    else {
        return false;
    };
    let extent = kernel.var(*var).and_then(loop_extent);
    let combined = |(i, &c): (usize, &ScalarId)| {
        let result = body.results.get(i);
        let op = result.and_then(|&result| body.combination(&kernel.vars, c, result));
        op.is_some_and(may_be_reassociated)
    };
    extent.and_then(Term::as_constant) == Some(columns)
        && carried.iter().enumerate().all(combined)
        && goes_along(body, *var) == Some(true)
}

/// Whether all loads whose index depends on a variable advance by one element with it; `None` if no
/// load depends on it.
fn goes_along(block: &Block, var: Var) -> Option<bool> {
    let mut found = None;
    for statement in &block.statements {
        let here = match statement {
            Statement::Load { index, .. } if index.iter().any(|t| t.mentions(var)) => {
                let (last, before) = index.split_last()?;
                Some(by_one(last, var) && !before.iter().any(|t| t.mentions(var)))
            }
            Statement::If {
                then, otherwise, ..
            } => match (goes_along(then, var), goes_along(otherwise, var)) {
                (Some(a), Some(b)) => Some(a && b),
                (a, b) => a.or(b),
            },
            _ => None,
        };
        found = match (found, here) {
            (Some(a), Some(b)) => Some(a && b),
            (a, b) => a.or(b),
        };
    }
    found
}

fn by_one(term: &Term, var: Var) -> bool {
    let Some((terms, _)) = term.as_linear() else {
        return false;
    };
    let mut moving = terms.iter().filter(|(atom, _)| atom.mentions(var));
    matches!(moving.next(), Some((atom, 1)) if atom.as_var() == Some(var))
        && moving.next().is_none()
}

fn may_be_reassociated(op: Binary) -> bool {
    matches!(
        op,
        Binary::Add
            | Binary::Multiply
            | Binary::Maximum
            | Binary::Minimum
            | Binary::And
            | Binary::Or
            | Binary::Xor
    )
}

/// The indices at which a kernel loads or stores a value, in shared terms. `None` is an index that
/// cannot be expressed in these.
pub(super) fn places(
    bound: &BoundKernel,
    value: crate::program::ValueId,
    stored: bool,
) -> Vec<Option<SharedIndex>> {
    let params: Vec<usize> = (0..bound.args.len())
        .filter(|&i| bound.args[i] == value)
        .collect();
    let kernel = &bound.kernel;
    let mut shared: FxHashMap<Var, Term> = FxHashMap::default();
    for (i, &var) in kernel.domain.iter().enumerate() {
        shared.insert(var, Term::var(Var(i as u32)));
    }
    let mut found = Vec::new();
    collect(
        &kernel.body,
        kernel.domain.len(),
        &mut shared,
        &mut |shared, statement| {
            let (param, index) = match statement {
                Statement::Load { param, index, .. } if !stored => (param, index),
                Statement::Store { param, index, .. } if stored => (param, index),
                _ => return,
            };
            if params.contains(param) {
                let terms = index.iter().map(|t| share(t, shared));
                found.push(terms.collect());
            }
        },
    );
    found
}

fn share(term: &Term, shared: &FxHashMap<Var, Term>) -> Option<Term> {
    let mut known = true;
    term.for_each_var(&mut |var| known &= shared.contains_key(&var));
    known.then(|| term.substitute(&mut |var| shared.get(&var).cloned()))
}

fn collect(
    block: &Block,
    depth: usize,
    shared: &mut FxHashMap<Var, Term>,
    visit: &mut dyn FnMut(&FxHashMap<Var, Term>, &Statement),
) {
    for statement in &block.statements {
        visit(shared, statement);
        match statement {
            Statement::Loop { var, body, .. } => {
                shared.insert(*var, Term::var(Var(depth as u32)));
                collect(body, depth, shared, visit);
            }
            Statement::If {
                then, otherwise, ..
            } => {
                collect(then, depth, shared, visit);
                collect(otherwise, depth, shared, visit);
            }
            _ => {}
        }
    }
}
