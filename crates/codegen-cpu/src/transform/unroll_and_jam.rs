//! Unroll-and-jam: computes several points of a dimension as one.
//!
//! There are two cases. A kernel whose branches test an index modulo a small number is unrolled by
//! that number, so that each branch is decided (such as two interleaved arrays, which scans of
//! pairs end with). Lanes would otherwise compute all branches and keep one. And a dimension too
//! short for a vector (coordinates, small matrices) is unrolled fully, so that lanes go along the
//! next dimension, and values that do not depend on the short one are computed once.

use super::cse;
use crate::analysis::affine_access::{Step, merged, steps_along};
use crate::analysis::known_branches::resolved;
use crate::simd::mathlib::calls_function;
use crate::vectorize::loop_versioning::{MIN_SAVED, operations};
use crate::vectorize::select_loops::select_loops;
use smallvec::smallvec;
use tegula_expr::{Node, Term, Var, canonicalize};
use tegula_fusion::kernel::{Access, Block, IndexVar, Param, ScalarId, ScalarOp, Statement};
use tegula_fusion::{Kernel, KernelRanges, Limits, Rename};
use tegula_ir::ElementType;

/// The maximum number of phases, each of which is a part of the body.
const MAX_PHASES: i64 = 8;
/// The minimum number of iterations after unrolling.
const MIN_TURNS: i64 = 4;
/// The maximum number of operations of all phases: a longer body has more values than there are
/// registers.
const MAX_OPERATIONS: f64 = 500.0;

/// The weight of a loop's operations in [`operations`].
const IN_LOOPS: f64 = 10.0;

/// The maximum number of points of short dimensions that become one. Eight points with an
/// exponential each, or sixteen sums of four products, have more live values than there are
/// registers, and were measured to be slower.
const MAX_SHORT: i64 = 4;
/// Strides for which lanes load and store contiguous vectors, and for which such loads pay.
const STEPS: [i64; 6] = [0, 1, 2, 3, 4, 8];
/// Strides for which lanes store contiguous vectors of elements of less than 32 bits.
const NARROW_STORES: [i64; 4] = [1, 2, 4, 8];

/// An unrolled kernel: each point of its domain computes several points of the original one.
#[derive(Debug)]
pub(crate) struct Jammed {
    /// The kernel; one of its points computes several.
    pub kernel: Kernel,
    /// If these follow one another in the outermost dimension: their number, and the kernel's
    /// number of points in that dimension.
    pub outermost: Option<[i64; 2]>,
}

/// Whether a kernel's points may be combined: stores can be moved to the end.
fn is_plain(kernel: &Kernel) -> bool {
    let inside = |s: &Statement| match s {
        Statement::If {
            then, otherwise, ..
        } => then.any(Statement::is_store) || otherwise.any(Statement::is_store),
        Statement::Loop { body, .. } => body.any(Statement::is_store),
        _ => false,
    };
    let kept = |p: &Param| matches!(p.access, Access::Local | Access::Update);
    !kernel.params.iter().any(kept)
        && !branches_into_loops(&kernel.body)
        && !kernel.body.statements.iter().any(inside)
}

/// Whether branches contain loops: each phase would have its own.
fn branches_into_loops(block: &Block) -> bool {
    block.statements.iter().any(|s| match s {
        Statement::If {
            then, otherwise, ..
        } => then.any(Statement::is_loop) || otherwise.any(Statement::is_loop),
        Statement::Loop { body, .. } => branches_into_loops(body),
        _ => false,
    })
}

/// Whether this many neighbouring elements of each array that is written are stored by vectors that
/// are shuffled, and lanes have 32 bits.
fn interleaves(kernel: &Kernel, count: i64) -> bool {
    kernel.params.iter().all(|param| {
        let bytes = param.element_type.storage_bytes();
        let is_read = param.access == Access::Read;
        bytes == 4 || bytes < 4 && (is_read || NARROW_STORES.contains(&count))
    })
}

/// Unrolls a kernel by its number of phases; `None` if it has none, or little depends on them.
pub(crate) fn unroll_and_jam(kernel: &Kernel) -> Option<Jammed> {
    if !is_plain(kernel) || kernel.body.any(Statement::is_loop) {
        return None;
    }
    let whole = operations(&kernel.body);
    kernel.domain.iter().enumerate().find_map(|(place, &var)| {
        let extent = kernel.constant_extent(var)?;
        let mut count = 1;
        divisors(&kernel.body, var, &mut count);
        let fits = (2..=MAX_PHASES).contains(&count) && extent % count == 0;
        // The results of the phases are stored interleaved.
        let stored = place + 1 < kernel.domain.len() || interleaves(kernel, count);
        if !fits || !stored || extent / count < MIN_TURNS {
            return None;
        }
        let turns = extent / count;
        let mut phased = kernel.clone();
        phased.vars[var.0 as usize] = IndexVar::Domain(Term::constant(turns));
        let turn = Term::var(var).mul(&Term::constant(count));
        let phases = (0..count).map(|phase| vec![(var, turn.add(&Term::constant(phase)))]);
        together(&mut phased, phases)?;
        let operations = operations(&phased.body);
        let pays = operations <= (1.0 - MIN_SAVED) * whole * count as f64;
        (pays && operations <= MAX_OPERATIONS).then(|| Jammed {
            kernel: phased,
            outermost: (place == 0).then_some([count, turns]),
        })
    })
}

/// Fully unrolls the innermost dimensions of a kernel if they have too few points for a vector and
/// the next dimension has enough. One of these must also hold: along the next dimension all
/// accesses have strides for which contiguous vectors are shuffled, if the machine does that
/// (`in_turn`); or much of a loop's work is the same for these points; or a body that loops or
/// calls functions can only be vectorised along that dimension.
pub(crate) fn jam_short_dims(kernel: &Kernel, in_turn: bool) -> Option<Kernel> {
    let has_loops = kernel.body.any(Statement::is_loop);
    let is_long = has_loops || kernel.body.any(|s| calls_function(kernel, s));
    if !is_plain(kernel) || !(in_turn || is_long) {
        return None;
    }
    [2, 1].into_iter().find_map(|count| {
        let left = kernel.domain.len().checked_sub(count)?;
        let (others, short) = kernel.domain.split_at(left);
        let &next = others.last()?;
        let extents: Option<Vec<i64>> = short
            .iter()
            .map(|&var| kernel.constant_extent(var))
            .collect();
        let extents = extents?;
        let points = extents
            .iter()
            .try_fold(1i64, |n, &size| n.checked_mul(size))?;
        if !(2..=MAX_SHORT).contains(&points)
            || kernel.constant_extent(next)? < Limits::NEXT_TO_SHORT
            || merged(kernel).0 > count
        {
            return None;
        }
        let steps = in_turn && goes_in_steps(kernel, next);
        let apart = in_turn && !steps && stores_in_steps(kernel, next);
        if !steps && !apart && !is_long {
            return None;
        }
        let mut all = kernel.clone();
        all.domain.truncate(left);
        let phases = (0..points).map(|point| {
            let mut rest = point;
            let mut at: Vec<(Var, Term)> = Vec::new();
            for (&var, &size) in short.iter().zip(&extents).rev() {
                at.push((var, Term::constant(rest % size)));
                rest /= size;
            }
            at
        });
        together(&mut all, phases)?;
        let operations = [&all, kernel].map(|kernel| operations(&kernel.body));
        let saves = operations[0] <= (1.0 - MIN_SAVED) * operations[1] * points as f64;
        let most = if has_loops { IN_LOOPS } else { 1.0 } * MAX_OPERATIONS;
        let fits = operations[0] <= most;
        // Strided loads are gathers: for each of the points, or once for all.
        let [at_once, each] = [&all, kernel].map(|kernel| loads(&kernel.body) as f64);
        let shares = apart && !has_loops && at_once <= (1.0 - MIN_SAVED) * each * points as f64;
        let pays = steps || shares || has_loops && saves || is_long && gains_lanes(kernel, &all);
        (fits && pays).then_some(all)
    })
}

/// Whether a kernel that is not vectorised at all can be vectorised along the next dimension once
/// its points are combined. A gathered lane costs as much as a scalar load, everything else a
/// tenth.
fn gains_lanes(kernel: &Kernel, all: &Kernel) -> bool {
    let now = select_loops(kernel);
    now.domain.is_none() && now.loops.is_empty() && select_loops(all).domain.is_some()
}

/// Whether lanes along a dimension access memory in strides for which contiguous vectors are loaded
/// and stored. Accesses with computed indices gather in any case.
fn goes_in_steps(kernel: &Kernel, next: Var) -> bool {
    all_in_steps(kernel, next, |_| true)
}

/// Whether lanes along a dimension are stored in such strides, whatever the strides of loads.
fn stores_in_steps(kernel: &Kernel, next: Var) -> bool {
    all_in_steps(kernel, next, |access| access.is_store)
}

/// Whether these accesses of a kernel are in such strides, and lanes have 32 bits or, if all arrays
/// have elements of 64 bits, those.
fn all_in_steps(kernel: &Kernel, next: Var, concerns: impl Fn(&Step) -> bool) -> bool {
    let bytes = |param: &Param| param.element_type.storage_bytes();
    let is_wide = kernel.params.iter().all(|param| bytes(param) == 8);
    let lane = if is_wide { 8 } else { 4 };
    let mut types = (0..kernel.scalars.len()).map(|i| kernel.scalars[Kernel::scalar(i)]);
    let exceeds = |ty: ElementType| {
        let inexact = ty.is_float() || ty.is_complex();
        inexact && (ty.bits() as usize > 8 * lane || ty.is_complex() && !is_wide)
    };
    if kernel.params.iter().any(|p| bytes(p) > lane) || types.any(exceeds) {
        return false;
    }
    let steps = steps_along(kernel, &kernel.body, next);
    steps
        .iter()
        .filter(|&access| concerns(access))
        .all(|access| {
            let Some(step) = access.step else {
                return true;
            };
            let is_narrow = (kernel.params.get(access.param)).is_none_or(|param| bytes(param) < 4);
            match (is_narrow, access.is_store) {
                (false, _) => STEPS.contains(&step),
                (true, true) => NARROW_STORES.contains(&step),
                (true, false) => matches!(step, 0 | 1),
            }
        })
}

/// The number of loads of a block.
fn loads(block: &Block) -> usize {
    let each = block.statements.iter().map(|statement| match statement {
        Statement::Load { .. } => 1,
        Statement::If {
            then, otherwise, ..
        } => loads(then) + loads(otherwise),
        Statement::Loop { body, .. } => loads(body),
        _ => 0,
    });
    each.sum()
}

/// Computes the least common multiple of a number and the divisors by which conditions divide terms
/// of a variable; 0 if it is too large.
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

/// Replaces a kernel's body by the bodies of all phases; a phase is given by the values of
/// variables. Stores are moved to the end, because an output may share memory with an input. `None`
/// if loops cannot be fused.
fn together(kernel: &mut Kernel, phases: impl Iterator<Item = Vec<(Var, Term)>>) -> Option<()> {
    let body = std::mem::take(&mut kernel.body);
    let mut defined = Defined::default();
    defined.block(&body);
    let (mut bodies, mut stores) = (Vec::new(), Vec::new());
    for (number, phase) in phases.enumerate() {
        let mut rename = Rename::default();
        rename.vars.extend(phase);
        let mut bound = defined.bound.clone();
        if number > 0 {
            for &scalar in &defined.scalars {
                let fresh = kernel.scalars.push(kernel.scalars[scalar]);
                rename.scalars.insert(scalar, fresh);
            }
            for var in &mut bound {
                let fresh = kernel.push_var(kernel.vars[var.0 as usize].clone());
                rename.vars.insert(*var, Term::var(fresh));
                *var = fresh;
            }
        }
        let block = resolved(&body, &mut rename, &KernelRanges(&kernel.vars));
        // A variable may be bound to a scalar that was renamed, because its conditional was
        // resolved.
        for var in bound {
            if let Some(IndexVar::Runtime { value, .. }) = kernel.vars.get_mut(var.0 as usize) {
                *value = rename.scalar(*value);
            }
        }
        let statements = canonical(block, kernel).statements.into_iter();
        let (last, statements): (Vec<_>, Vec<_>) = statements.partition(Statement::is_store);
        stores.extend(last);
        bodies.push(statements);
    }
    let mut statements = side_by_side(bodies)?;
    statements.extend(stores);
    kernel.body.statements = statements;
    cse::eliminate_common_subexpressions(kernel);
    Some(())
}

/// Fuses blocks that run through the same loops to one.
fn side_by_side(blocks: Vec<Vec<Statement>>) -> Option<Vec<Statement>> {
    let mut blocks: Vec<_> = blocks.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let mut loops = Vec::new();
        for block in &mut blocks {
            loops.extend(block.find_map(|statement| {
                if statement.is_loop() {
                    return Some(statement);
                }
                all.push(statement);
                None
            }));
        }
        if loops.is_empty() {
            return Some(all);
        }
        if loops.len() < blocks.len() {
            return None;
        }
        all.push(one_loop(loops)?);
    }
}

/// Fuses loops over the same variable.
fn one_loop(loops: Vec<Statement>) -> Option<Statement> {
    let mut whole: Option<Var> = None;
    let (mut starts, mut states, mut ends) = (smallvec![], smallvec![], smallvec![]);
    let (mut bodies, mut next) = (Vec::new(), smallvec![]);
    for each in loops {
        let Statement::Loop {
            var,
            init,
            carried,
            body,
            results,
        } = each
        else {
            return None;
        };
        if *whole.get_or_insert(var) != var {
            return None;
        }
        starts.extend(init);
        states.extend(carried);
        ends.extend(results);
        next.extend(body.results);
        bodies.push(body.statements);
    }
    Some(Statement::Loop {
        var: whole?,
        init: starts,
        carried: states,
        body: Block {
            statements: side_by_side(bodies)?,
            results: next,
        },
        results: ends,
    })
}

/// The scalars and variables that a block defines.
#[derive(Default)]
struct Defined {
    scalars: Vec<ScalarId>,
    bound: Vec<Var>,
}

impl Defined {
    fn block(&mut self, block: &Block) {
        for statement in &block.statements {
            match statement {
                Statement::Compute { result, .. } | Statement::Load { result, .. } => {
                    self.scalars.push(*result);
                }
                Statement::Bind { var } => self.bound.push(*var),
                Statement::If {
                    then,
                    otherwise,
                    results,
                    ..
                } => {
                    self.block(then);
                    self.block(otherwise);
                    self.scalars.extend(results);
                }
                // The loop variable is not renamed: the loops of all phases are fused.
                Statement::Loop {
                    carried,
                    body,
                    results,
                    ..
                } => {
                    self.block(body);
                    self.scalars.extend(carried);
                    self.scalars.extend(results);
                }
                Statement::Store { .. } => {}
            }
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
            Statement::Loop { body, .. } => {
                *body = canonical(std::mem::take(body), kernel);
            }
            Statement::Bind { .. } => {}
        }
    }
    block
}
