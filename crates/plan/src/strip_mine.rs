//! Strip mining: chooses which steps are done strip by strip ([`strips`](super::strip_legality)).
//!
//! Wherever a step writes an array too large for the cache, the pass looks at the following steps
//! that can be done strip by strip with it. It adds one more at a time, as long as further arrays
//! become *private*, which means that only these steps use them. Steps in between that are
//! independent of the group are done before it. Of all groups that pay, the pass takes the one with
//! the most private bytes.
//!
//! # The cost
//! Steps that would otherwise wait for memory write a private array once or twice, and read it as
//! often. On the other hand, an operand that a product does not share out (a matrix of weights) is
//! read again for each strip, which may be no more than a few times the private bytes. Measured on
//! attention (`docs/notes/fusion.md`, "Strips").

use super::strip_legality::{Cut, Cuts, Part, arrays, private, product, touches};
use super::{KernelId, Plan, Step, ValueId};
use rustc_hash::FxHashMap;
use tegula_arena::EntityRef;
use tegula_expr::Term;
use tegula_fusion::kernel::{IndexVar, Statement};
use tegula_fusion::{Kernel, Rename};

/// When to do steps strip by strip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StripLimits {
    /// The least number of bytes of private arrays.
    pub private: i64,
    /// The number of bytes of private arrays per strip that fit the cache.
    pub near: i64,
    /// The least number of rows per strip of a product that shares one operand between all strips:
    /// fewer rows are slow.
    pub rows: i64,
    /// The most bytes that may be read again strip by strip, for each private byte. A byte that is
    /// not private goes to memory and comes back about this many times (it is written, mostly
    /// worked on in place, and read).
    pub again: i64,
}

impl StripLimits {
    /// Limits for a CPU: strips pay from a few times the size of a core's own cache on, and one
    /// strip fits the shared cache.
    pub const CPU: Self = Self {
        private: 4 << 20,
        near: 1 << 20,
        rows: 128,
        again: 4,
    };
    /// Uses as many strips as possible wherever they are legal, to test that strips change nothing.
    pub const ALWAYS: Self = Self {
        private: 0,
        near: 0,
        rows: 1,
        again: i64::MAX,
    };
}

/// If no number in between divides the dimensions, up to this many times as many strips are taken
/// as would fit the cache.
const FINER: i64 = 8;
/// The most steps in a group.
const MAX_STEPS: usize = 16;

/// Puts steps of a plan into [`Step::Strips`]; its values have no places yet.
pub(super) fn strip_mine(plan: &mut Plan, limits: StripLimits) {
    if !plan.sizes.sources.is_empty() {
        return;
    }
    let mut miner = Miner {
        touches: touches(plan),
        plan: std::mem::take(plan),
        limits,
        cuts: Cuts::default(),
    };
    let steps = std::mem::take(&mut miner.plan.steps);
    let before = miner.plan.kernels.len();
    let mined = miner.block(&steps);
    *plan = miner.plan;
    plan.steps = mined;
    if plan.kernels.len() > before {
        keep_used_kernels(plan);
    }
}

struct Miner {
    plan: Plan,
    limits: StripLimits,
    /// How many steps use each value; the program's caller counts as one.
    touches: FxHashMap<ValueId, usize>,
    cuts: Cuts,
}

/// Steps that can be done strip by strip.
#[derive(Clone)]
struct Group {
    steps: Vec<Step>,
    /// The block's steps that are done before the group.
    before: Vec<usize>,
    /// The index of the first step of the block after the group.
    end: usize,
    count: i64,
    /// The number of bytes of private arrays.
    private: i64,
}

impl Miner {
    fn block(&mut self, steps: &[Step]) -> Vec<Step> {
        let mut done = Vec::with_capacity(steps.len());
        let mut next = 0;
        while let Some(step) = steps.get(next) {
            if let Some(group) = self.group(steps, next) {
                done.extend(group.before.iter().map(|&before| steps[before].clone()));
                next = group.end;
                let Group { count, steps, .. } = self.finer(&group).unwrap_or(group);
                done.push(Step::Strips { count, steps });
                continue;
            }
            let mut step = step.clone();
            for block in step.blocks_mut() {
                *block = self.block(block);
            }
            done.push(step);
            next += 1;
        }
        done
    }

    /// The best group that begins at a step.
    fn group(&mut self, steps: &[Step], first: usize) -> Option<Group> {
        let large = |(value, writes): &(ValueId, bool)| {
            *writes && self.bytes(*value) >= self.limits.private.max(1)
        };
        if !arrays(&self.plan, &steps[first]).iter().any(large) {
            return None;
        }
        let mut best: Option<Group> = None;
        let mut group = Group {
            steps: vec![steps[first].clone()],
            before: Vec::new(),
            end: first + 1,
            count: 0,
            private: 0,
        };
        for (place, step) in steps.iter().enumerate().skip(first + 1) {
            if group.steps.len() + group.before.len() >= MAX_STEPS {
                break;
            }
            group.end = place + 1;
            if self.is_apart(&group.steps, step) {
                group.before.push(place);
                continue;
            }
            group.steps.push(step.clone());
            let along_one = |cut: &Cut| cut.extents.len() == 1;
            let Some(cuts) = self.cuts.together(&self.plan, &group.steps, &along_one) else {
                break;
            };
            group.private = self.private_bytes(&group.steps);
            let more = best
                .as_ref()
                .is_none_or(|best| group.private > best.private);
            if let Some(count) = self.count(&group, &cuts).filter(|_| more) {
                group.count = count;
                best = Some(group.clone());
            }
        }
        best
    }

    /// Cuts the same steps into finer strips if the strips do not fit the cache: products are cut
    /// along another dimension as well, and the outermost two dimensions of kernels become one.
    fn finer(&mut self, coarse: &Group) -> Option<Group> {
        let wanted = coarse.private / self.limits.near.max(1);
        if coarse.count >= wanted {
            return None;
        }
        let mut group = coarse.clone();
        for step in &mut group.steps {
            if let Step::Kernel { kernel, .. } = step
                && outermost_extent(&self.plan.kernels[*kernel])? < wanted
            {
                let merged = with_outermost_merged(&self.plan.kernels[*kernel])?;
                *kernel = self.kernel(merged);
            }
        }
        let finest = |cut: &Cut| cut.labels.is_empty() || cut.extents.len() == 2;
        let cuts = self.cuts.together(&self.plan, &group.steps, &finest)?;
        group.count = self.count(&group, &cuts)?;
        (group.count > coarse.count).then_some(group)
    }

    /// The number of a kernel, which is added unless there is an equal one.
    fn kernel(&mut self, kernel: Kernel) -> KernelId {
        let mut known = self.plan.kernels.iter();
        let known = known.find_map(|(id, known)| (*known == kernel).then_some(id));
        known.unwrap_or_else(|| self.plan.kernels.push(kernel))
    }

    /// Whether a step is independent of others that precede it, so that it can be done before them.
    fn is_apart(&self, others: &[Step], step: &Step) -> bool {
        let own: Vec<(ValueId, bool)> = match step {
            Step::Copy { from, to } => vec![(*from, false), (*to, true)],
            Step::Kernel { .. } | Step::Library { .. } => arrays(&self.plan, step).to_vec(),
            _ => return false,
        };
        let mut others = others.iter().flat_map(|other| arrays(&self.plan, other));
        others.all(|(value, written)| {
            let conflicts = |&(own, writes): &(ValueId, bool)| own == value && (writes || written);
            !own.iter().any(conflicts)
        })
    }

    fn bytes(&self, value: ValueId) -> i64 {
        self.plan.values[value].shape.byte_size().unwrap_or(0)
    }

    /// The number of bytes of arrays that only these steps use.
    fn private_bytes(&self, steps: &[Step]) -> i64 {
        let private = private(&self.plan, steps, &self.touches);
        private.iter().map(|&value| self.bytes(value)).sum()
    }

    /// How many strips to divide the steps into; [`None`] if strips do not pay.
    fn count(&self, group: &Group, cuts: &[Cut]) -> Option<i64> {
        let StripLimits {
            private,
            near,
            rows,
            again,
        } = self.limits;
        if group.private < private.max(1) {
            return None;
        }
        let mut most: i64 = cuts.iter().map(|cut| product(&cut.extents)).min()?;
        // The bytes of operands that every strip of a call reads.
        let mut whole = 0;
        for (step, cut) in group.steps.iter().zip(cuts) {
            let Step::Library { operands, .. } = step else {
                continue;
            };
            let of_all = operands.iter().zip(&cut.parts);
            let of_all = of_all.filter(|(_, part)| **part == Part::Any);
            let bytes: i64 = of_all.map(|(&operand, _)| self.bytes(operand)).sum();
            whole += bytes;
            // Batches and images are divided without a minimum of rows.
            let rows_alone = bytes > 0 && !cut.labels.is_empty();
            if rows_alone || cut.extents.len() > 1 {
                most = most.min(product(&cut.extents) / rows);
            }
        }
        let suits = |&count: &i64| {
            count <= most
                && cuts.iter().all(|cut| cut.counts(count).is_some())
                && whole.saturating_mul(count - 1) <= again.saturating_mul(group.private)
        };
        let wanted = (group.private / near.max(1)).clamp(2, most.max(2));
        let finer = (wanted..=most.min(wanted.saturating_mul(FINER))).find(suits);
        finer.or_else(|| (2..wanted).rev().find(suits))
    }
}

fn outermost_extent(kernel: &Kernel) -> Option<i64> {
    kernel.constant_extent(*kernel.domain.first()?)
}

/// The kernel with its two outermost dimensions merged into one. What remains must be vectorisable:
/// a further dimension, or loops.
fn with_outermost_merged(kernel: &Kernel) -> Option<Kernel> {
    let &[outer, inner, ref rest @ ..] = &kernel.domain[..] else {
        return None;
    };
    if rest.is_empty() && !kernel.body.any(Statement::is_loop) {
        return None;
    }
    let extent = |var| kernel.constant_extent(var);
    let (points, each) = (extent(outer)?, extent(inner)?);
    let mut merged = kernel.clone();
    let both = merged.push_var(IndexVar::Domain(Term::constant(points.checked_mul(each)?)));
    let (number, each) = (Term::var(both), Term::constant(each));
    let mut rename = Rename::default();
    rename.vars.insert(outer, number.floor_div(&each));
    rename.vars.insert(inner, number.modulo(&each));
    merged.body = rename.block(&kernel.body);
    merged.domain = std::iter::once(both).chain(rest.iter().copied()).collect();
    Some(merged)
}

/// Removes the kernels that no step runs.
fn keep_used_kernels(plan: &mut Plan) {
    let mut used = Vec::new();
    each_kernel(&mut plan.steps, &mut |kernel| used.push(*kernel));
    used.sort_unstable();
    used.dedup();
    let kernels: Vec<Kernel> = used.iter().map(|&id| plan.kernels[id].clone()).collect();
    plan.kernels = kernels.into_iter().collect();
    each_kernel(&mut plan.steps, &mut |kernel| {
        let place = used.binary_search(kernel).unwrap_or_default();
        *kernel = KernelId::new(place);
    });
}

fn each_kernel(steps: &mut [Step], visit: &mut dyn FnMut(&mut KernelId)) {
    for step in steps {
        if let Step::Kernel { kernel, .. } = step {
            visit(kernel);
        }
        for block in step.blocks_mut() {
            each_kernel(block, visit);
        }
    }
}
