//! Row fusion: joins kernels that go through the same rows one after the other into a kernel that
//! goes through each row once.
//!
//! A softmax is four kernels: a maximum along each row, exponentials, their sum, and a quotient.
//! Each reads from memory what the one before wrote. If kernels read only their own row of one
//! another's results, they become one kernel whose points are the rows, with a loop for each
//! member. The row stays in the nearest cache (or in registers), and values that only the row
//! itself needs are never written to memory.
//!
//! A group starts at a kernel that combines rows. It takes in kernels that a member reads from or
//! that read from a member, as long as the [form](form) is the same, no step outside depends on one
//! member and feeds another, and the data kept per row fits [`Limits::row_bytes`].

mod form;
mod join;
mod passes;

use crate::analysis::cost::is_call;
use crate::fused::BoundKernel;
use crate::fused::{Steps, Unit, Waiting};
use crate::kernel::{Access, Kernel, Statement};
use crate::limits::Limits;
use crate::program::ValueId;
use form::{Form, Sight, form_of, places, sight};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::Term;
use tegula_ir::ElementType;

/// The most parameters of a kernel: each is a pointer.
const MAX_PARAMS: usize = 24;
/// The most statements in a kernel's outermost loops.
const MAX_STATEMENTS: usize = 400;
/// With at least this many rows, functions of per-row results get a vectorised kernel of their own.
const MANY_ROWS: i64 = 64;
/// The most kernels that become one.
const MAX_MEMBERS: usize = 24;

/// Joins kernels over the same rows. `steps` are in order, and `waiting` says which steps must come
/// after each. A step that writes a value for which `alone` holds is left as it is. Returns the
/// values that are not written to memory any more.
pub(crate) fn join_rows(
    steps: &mut Steps,
    waiting: &Waiting,
    results: &[ValueId],
    alone: impl Fn(ValueId) -> bool,
    limits: Limits,
) -> Vec<ValueId> {
    let mut kept = Vec::new();
    if limits.row_bytes == 0 {
        return kept;
    }
    let uses = Uses::new(steps, results);
    let stays = |(_, unit): &(_, Unit)| unit.writes().into_iter().any(&alone);
    let mut grouped: Vec<bool> = steps.iter().map(|units| units.iter().any(stays)).collect();
    for seed in 0..steps.len() {
        if grouped[seed] {
            continue;
        }
        let Some(form) = kernel_of(steps, seed).and_then(|bound| form_of(&bound.kernel)) else {
            continue;
        };
        let group = Group {
            steps,
            waiting,
            uses: &uses,
            grouped: &grouped,
            form,
            limits,
            members: Vec::new(),
        };
        let Some((joined, members, values)) = group.grow(seed) else {
            continue;
        };
        kept.extend(values);
        for &(member, _) in &members {
            grouped[member] = true;
        }
        let Some(&(last, _)) = members.last() else {
            continue;
        };
        let node = steps[last][0].0;
        for &(member, _) in &members {
            steps[member].clear();
        }
        steps[last].push((node, Unit::Kernel(joined)));
    }
    kept
}

fn kernel_of(steps: &Steps, i: usize) -> Option<&BoundKernel> {
    match &steps[i][..] {
        [(_, Unit::Kernel(bound))] => Some(bound),
        _ => None,
    }
}

/// The step that writes each value, and those that read it.
struct Uses {
    maker: FxHashMap<ValueId, usize>,
    readers: FxHashMap<ValueId, Vec<usize>>,
    results: FxHashSet<ValueId>,
}

impl Uses {
    fn new(steps: &Steps, results: &[ValueId]) -> Self {
        let mut uses = Self {
            maker: FxHashMap::default(),
            readers: FxHashMap::default(),
            results: results.iter().copied().collect(),
        };
        for (i, units) in steps.iter().enumerate() {
            for (_, unit) in units {
                for value in unit.reads() {
                    uses.readers.entry(value).or_default().push(i);
                }
                for value in unit.writes() {
                    uses.maker.insert(value, i);
                }
            }
        }
        uses
    }

    fn readers(&self, value: ValueId) -> &[usize] {
        self.readers.get(&value).map_or(&[], |readers| readers)
    }
}

struct Group<'a> {
    steps: &'a Steps,
    waiting: &'a Waiting,
    uses: &'a Uses,
    grouped: &'a [bool],
    form: Form,
    limits: Limits,
    /// The members, in order.
    members: Vec<(usize, Sight)>,
}

type Joined = (BoundKernel, Vec<(usize, Sight)>, Vec<ValueId>);

impl Group<'_> {
    /// Takes in as many kernels as possible and joins them; `None` if there is nothing to join.
    fn grow(mut self, seed: usize) -> Option<Joined> {
        self.members.push((seed, Sight::PerRow));
        if self.form.columns >= self.limits.min_columns {
            self.take_in_neighbours(seed);
            self.leave_functions_behind(seed);
        }
        let bound: Option<Vec<(&BoundKernel, Sight)>> = (self.members.iter())
            .map(|&(i, sight)| Some((kernel_of(self.steps, i)?, sight)))
            .collect();
        let bound = bound?;
        // A single kernel is worth rewriting only if it has several passes that may be merged.
        if let [(alone, _)] = bound[..]
            && alone
                .kernel
                .body
                .statements
                .iter()
                .filter(|s| s.is_loop())
                .count()
                < 2
        {
            return None;
        }
        let needed = |value: ValueId| self.is_needed(value);
        let joined = join::join(&bound, &self.form, &needed);
        let values = self.written().filter(|&v| !needed(v)).collect();
        Some((joined, self.members, values))
    }

    fn take_in_neighbours(&mut self, seed: usize) {
        let mut next = 0;
        let mut open = vec![seed];
        while let Some(&member) = open.get(next) {
            next += 1;
            for near in self.neighbours(member) {
                if self.members.len() < MAX_MEMBERS && self.take_in(near) {
                    open.push(near);
                }
            }
        }
    }

    /// Drops members at the end of the group that compute functions of per-row results which no
    /// other member uses. As separate kernels they are vectorised over the rows, and that costs no
    /// more than writing their inputs.
    fn leave_functions_behind(&mut self, seed: usize) {
        let extents = self.form.rows.iter().map(Term::as_constant);
        let rows = extents.fold(1i64, |n, e| n.saturating_mul(e.unwrap_or(MANY_ROWS)));
        if !self.limits.lanes || rows < MANY_ROWS {
            return;
        }
        // The last members, which compute per-row results that no other member uses.
        let mut last: Vec<usize> = Vec::new();
        for &(member, sight) in self.members.iter().rev() {
            let Some(bound) = kernel_of(self.steps, member) else {
                return;
            };
            let used = bound.with_access(|a| a == Access::Write).into_iter();
            let mut readers = used.flat_map(|value| self.uses.readers(value));
            let for_rows = readers.any(|r| self.is_member(*r) && !last.contains(r));
            let has_loops = bound.kernel.body.any(Statement::is_loop);
            if sight == Sight::PerRow && member != seed && !has_loops && !for_rows {
                last.push(member);
            }
        }
        let mut left: Vec<usize> = Vec::new();
        for &member in last.iter().rev() {
            let Some(bound) = kernel_of(self.steps, member) else {
                return;
            };
            let reads = bound.with_access(|a| a == Access::Read);
            let behind =
                |value: &ValueId| self.uses.maker.get(value).is_some_and(|m| left.contains(m));
            if has_functions(&bound.kernel) || reads.iter().any(behind) {
                left.push(member);
            }
        }
        self.members.retain(|(member, _)| !left.contains(member));
    }

    /// The steps that write an array which a member reads, or read one that it writes.
    fn neighbours(&self, member: usize) -> Vec<usize> {
        let Some(bound) = kernel_of(self.steps, member) else {
            return Vec::new();
        };
        let read = bound.with_access(|a| a == Access::Read);
        let makers = read.iter().filter_map(|v| self.uses.maker.get(v).copied());
        let written = bound.with_access(|a| a == Access::Write);
        let readers = written.iter().flat_map(|&v| self.uses.readers(v)).copied();
        let mut near: Vec<usize> = makers.chain(readers).collect();
        near.sort_unstable();
        near.dedup();
        near
    }

    fn is_member(&self, step: usize) -> bool {
        self.members.iter().any(|&(member, _)| member == step)
    }

    fn take_in(&mut self, step: usize) -> bool {
        if self.grouped[step] || self.is_member(step) {
            return false;
        }
        let Some(bound) = kernel_of(self.steps, step) else {
            return false;
        };
        let Some(sight) = sight(&bound.kernel, &self.form) else {
            return false;
        };
        if !self.agrees(bound) {
            return false;
        }
        let place = self.members.partition_point(|&(member, _)| member < step);
        self.members.insert(place, (step, sight));
        let fits = self.fits() && !self.leads_back();
        if !fits {
            self.members.remove(place);
        }
        fits
    }

    /// Whether a kernel and the members read only their own row and column of one another's
    /// results.
    fn agrees(&self, bound: &BoundKernel) -> bool {
        self.members.iter().all(|&(member, _)| {
            kernel_of(self.steps, member)
                .is_some_and(|member| reads_its_own(member, bound) && reads_its_own(bound, member))
        })
    }

    fn fits(&self) -> bool {
        let members = || {
            let bound = |&(i, sight)| Some((kernel_of(self.steps, i)?, sight));
            self.members.iter().filter_map(bound)
        };
        let params: usize = members().map(|(bound, _)| bound.args.len()).sum();
        let statements: usize = members()
            .map(|(bound, _)| count(&bound.kernel.body.statements))
            .sum();
        let mut bytes = 0;
        for (bound, sight) in members() {
            for value in bound.with_access(|a| a == Access::Write) {
                let inside = |&reader: &usize| self.is_member(reader);
                if sight == Sight::PerElement && self.uses.readers(value).iter().any(inside) {
                    let param = bound.args.iter().position(|v| *v == value);
                    let element = param.map(|p| bound.kernel.params[p].element_type);
                    let size = element.map_or(0, tegula_ir::ElementType::storage_bytes);
                    bytes += size * usize::try_from(self.form.columns).unwrap_or(usize::MAX / 64);
                }
            }
        }
        params <= MAX_PARAMS && statements <= MAX_STATEMENTS && bytes <= self.limits.row_bytes
    }

    /// Whether a step outside must come after one member and before another.
    fn leads_back(&self) -> bool {
        let last = self.members.last().map_or(0, |&(member, _)| member);
        let mut seen = FxHashSet::default();
        let mut open: Vec<usize> = Vec::new();
        for &(member, _) in &self.members {
            open.extend(self.waiting[member].iter().filter(|&&s| !self.is_member(s)));
        }
        while let Some(step) = open.pop() {
            if step >= last || !seen.insert(step) {
                continue;
            }
            for &next in &self.waiting[step] {
                if self.is_member(next) {
                    return true;
                }
                open.push(next);
            }
        }
        false
    }

    fn written(&self) -> impl Iterator<Item = ValueId> {
        self.members
            .iter()
            .filter_map(|&(member, _)| kernel_of(self.steps, member))
            .flat_map(|bound| bound.with_access(|a| a == Access::Write))
    }

    /// Whether a value is read outside of the group.
    fn is_needed(&self, value: ValueId) -> bool {
        let outside = |&reader: &usize| !self.is_member(reader);
        self.uses.results.contains(&value) || self.uses.readers(value).iter().any(outside)
    }
}

/// Whether a kernel computes functions that are many times faster when vectorised.
fn has_functions(kernel: &Kernel) -> bool {
    kernel.body.statements.iter().any(|statement| {
        let Statement::Compute { result, op, .. } = statement else {
            return false;
        };
        let element = kernel.scalars[*result];
        is_call(op) && element.is_float() && element != ElementType::F64
    })
}

fn count(statements: &[Statement]) -> usize {
    let inner = |s: &Statement| match s {
        Statement::Loop { body, .. } => count(&body.statements),
        Statement::If {
            then, otherwise, ..
        } => count(&then.statements) + count(&otherwise.statements),
        _ => 1,
    };
    statements.iter().map(inner).sum()
}

/// Whether `reader` loads the results of `maker` only at the index at which they are stored, for
/// the same row and column.
fn reads_its_own(maker: &BoundKernel, reader: &BoundKernel) -> bool {
    let read = reader.with_access(|a| a == Access::Read);
    maker
        .with_access(|a| a == Access::Write)
        .into_iter()
        .filter(|value| read.contains(value))
        .all(|value| {
            let [Some(stored)] = &places(maker, value, true)[..] else {
                return false;
            };
            let loaded = places(reader, value, false);
            loaded.iter().all(|at| at.as_ref() == Some(stored))
        })
}
