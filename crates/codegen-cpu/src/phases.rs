//! A kernel whose choices depend on an index modulo a small number, with as many points of it as
//! one: its phases.
//!
//! What is put together from elements in turn (two arrays padded in between their elements and
//! added, as a scan of pairs ends) asks at each point whose turn it is. Lanes compute every
//! answer and keep one. With the points of a turn as one, each phase is what its answer is, and
//! all load and store neighbours, every so many.

use crate::pieces::resolved;
use crate::versions::{MIN_SAVED, operations};
use tegula_expr::{Node, Term, Var, canonicalize};
use tegula_fusion::kernel::{Access, Block, IndexVar, Param, ScalarId, ScalarOp, Statement};
use tegula_fusion::{Kernel, KernelRanges, Rename};

/// The most phases: each is a part of the body.
const MAX_PHASES: i64 = 8;
/// Turns that are worth it.
const MIN_TURNS: i64 = 4;
/// Operations of all phases: a longer body has more values than there are registers.
const MAX_OPERATIONS: f64 = 300.0;

/// A kernel whose points are several of another's.
#[derive(Debug)]
pub(crate) struct Phased {
    /// What is done at so many points.
    pub kernel: Kernel,
    /// If they follow one another in the outermost dimension: how many they are, and how many
    /// points the kernel has there.
    pub outermost: Option<[i64; 2]>,
}

/// The kernel with its phases together; `None` if it has none, or little depends on them.
pub(crate) fn phased(kernel: &Kernel) -> Option<Phased> {
    let (stores, others): (Vec<_>, Vec<_>) =
        kernel.body.statements.iter().partition(|s| s.is_store());
    let plain = !kernel
        .body
        .any(|s| matches!(s, Statement::Loop { .. } | Statement::Bind { .. }));
    let inside = |s: &&Statement| {
        matches!(s, Statement::If { then, otherwise, .. }
        if then.any(Statement::is_store) || otherwise.any(Statement::is_store))
    };
    let kept = |p: &Param| matches!(p.access, Access::Local | Access::Update);
    if !plain || stores.is_empty() || kernel.params.iter().any(kept) || others.iter().any(inside) {
        return None;
    }
    let whole = operations(&kernel.body);
    kernel.domain.iter().enumerate().find_map(|(place, &var)| {
        let Some(IndexVar::Domain(extent)) = kernel.var(var) else {
            return None;
        };
        let extent = extent.as_constant()?;
        let mut count = 1;
        divisors(&kernel.body, var, &mut count);
        let fits = (2..=MAX_PHASES).contains(&count) && extent % count == 0;
        if !fits || extent / count < MIN_TURNS {
            return None;
        }
        let phased = together(kernel, var, [count, extent / count]);
        let operations = operations(&phased.body);
        let pays = operations <= (1.0 - MIN_SAVED) * whole * count as f64;
        (pays && operations <= MAX_OPERATIONS).then(|| Phased {
            kernel: phased,
            outermost: (place == 0).then_some([count, extent / count]),
        })
    })
}

/// The least common multiple of a number and those by which conditions divide terms of a
/// variable; 0 if it is too large.
fn divisors(block: &Block, var: Var, multiple: &mut i64) {
    for statement in &block.statements {
        if let Statement::If {
            condition,
            then,
            otherwise,
            ..
        } = statement
        {
            divisors_of(condition, var, multiple);
            divisors(then, var, multiple);
            divisors(otherwise, var, multiple);
        }
    }
}

fn divisors_of(term: &Term, var: Var, multiple: &mut i64) {
    if !term.mentions(var) || *multiple == 0 {
        return;
    }
    match term.node() {
        Node::Const(_) | Node::Var(_) => {}
        Node::FloorDiv(a, b) | Node::CeilDiv(a, b) | Node::Mod(a, b) => {
            divisors_of(a, var, multiple);
            *multiple = match b.as_constant() {
                Some(divisor @ 1..=MAX_PHASES) => (1..=MAX_PHASES)
                    .find(|n| n % divisor == 0 && *multiple != 0 && n % *multiple == 0)
                    .unwrap_or(0),
                _ => 0,
            };
        }
        Node::Add(a, b)
        | Node::Mul(a, b)
        | Node::Min(a, b)
        | Node::Max(a, b)
        | Node::Cmp(_, a, b) => {
            divisors_of(a, var, multiple);
            divisors_of(b, var, multiple);
        }
        Node::Select(a, b, c) => {
            for part in [a, b, c] {
                divisors_of(part, var, multiple);
            }
        }
    }
}

/// The kernel with so many points of a variable as one, which go on so often. What is stored
/// comes last: an output may lie where an input does.
fn together(kernel: &Kernel, var: Var, [count, turns]: [i64; 2]) -> Kernel {
    let mut phased = kernel.clone();
    if let Some(slot) = phased.vars.get_mut(var.0 as usize) {
        *slot = IndexVar::Domain(Term::constant(turns));
    }
    let mut defined = Vec::new();
    definitions(&kernel.body, &mut defined);
    let turn = Term::var(var).mul(&Term::constant(count));
    let (mut statements, mut stores) = (Vec::new(), Vec::new());
    for phase in 0..count {
        let mut rename = Rename::default();
        rename.vars.insert(var, turn.add(&Term::constant(phase)));
        if phase > 0 {
            for &scalar in &defined {
                let fresh = phased.scalars.push(kernel.scalars[scalar]);
                rename.scalars.insert(scalar, fresh);
            }
        }
        let block = resolved(&kernel.body, &mut rename, &KernelRanges(&phased.vars));
        let block = canonical(block, &phased);
        for statement in block.statements {
            match statement.is_store() {
                true => stores.push(statement),
                false => statements.push(statement),
            }
        }
    }
    statements.extend(stores);
    phased.body.statements = statements;
    phased
}

/// The scalars that a block defines.
fn definitions(block: &Block, out: &mut Vec<ScalarId>) {
    for statement in &block.statements {
        match statement {
            Statement::Compute { result, .. } | Statement::Load { result, .. } => out.push(*result),
            Statement::If {
                then,
                otherwise,
                results,
                ..
            } => {
                definitions(then, out);
                definitions(otherwise, out);
                out.extend(results);
            }
            _ => {}
        }
    }
}

/// A block with its terms in canonical form.
fn canonical(mut block: Block, kernel: &Kernel) -> Block {
    let ranges = KernelRanges(&kernel.vars);
    let each = |terms: &mut Vec<Term>| {
        for term in terms {
            *term = canonicalize(term, &ranges);
        }
    };
    for statement in &mut block.statements {
        match statement {
            Statement::Compute { op, .. } => {
                if let ScalarOp::Index(term) = op {
                    *term = canonicalize(term, &ranges);
                }
            }
            Statement::Load { index, .. } | Statement::Store { index, .. } => each(index),
            Statement::If {
                then, otherwise, ..
            } => {
                *then = canonical(std::mem::take(then), kernel);
                *otherwise = canonical(std::mem::take(otherwise), kernel);
            }
            Statement::Bind { .. } | Statement::Loop { .. } => {}
        }
    }
    block
}
