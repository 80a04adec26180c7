//! Which steps are done strip by strip ([`strips`](super::strip_legality)).
//!
//! Wherever a step writes an array that is too large to stay near, the steps behind it that
//! can be done strip by strip with it are looked at, one more at a time, as far as arrays
//! become *private*: nothing but these steps has to do with them. What has nothing to do with
//! them is done before. Of all such runs of steps that are worth it, the one is taken that
//! makes most bytes private.
//!
//! # The cost
//! A private array is written and read once or twice each by steps that would else wait for
//! memory. Against that, what a product does not share out (a matrix of weights) is read
//! again for each strip: no more than a few times the private bytes may be.
//! Measured on attention (`docs/notes/fusion.md`, "Strips").

use super::strip_legality::{Cut, Cuts, Part, arrays, private, product, touches};
use super::{KernelId, Plan, Step, ValueId};
use rustc_hash::FxHashMap;
use tegula_arena::EntityRef;
use tegula_expr::Term;
use tegula_fusion::kernel::{IndexVar, Statement};
use tegula_fusion::{Kernel, Rename};

/// When steps are done strip by strip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StripLimits {
    /// Bytes of private arrays from which on it is worth it.
    pub private: i64,
    /// Bytes of a strip of them that stay near.
    pub near: i64,
    /// Rows of a product that has one operand in common for all strips: fewer take longer.
    pub rows: i64,
    /// How many bytes may be read again, strip by strip, for each private byte: so often that
    /// goes to memory and comes back if it is not private (it is written, mostly worked on in
    /// place, and read).
    pub again: i64,
}

impl StripLimits {
    /// Of a CPU. From a few times what a core's own cache keeps on it is worth it; what all
    /// cores share keeps strips.
    pub const CPU: Self = Self {
        private: 4 << 20,
        near: 1 << 20,
        rows: 128,
        again: 4,
    };
    /// Wherever it can be done, as finely as it can be: to see that it changes nothing.
    pub const ALWAYS: Self = Self {
        private: 0,
        near: 0,
        rows: 1,
        again: i64::MAX,
    };
}

/// How many times as many strips as would be near are still taken, if no number between
/// divides what is cut.
const FINER: i64 = 8;
/// Steps that are looked at together.
const MAX_STEPS: usize = 16;

/// Puts steps of a plan, whose values have no places yet, into [`Step::Strips`].
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
    /// How many steps have to do with each value; the program's caller counts as one.
    touches: FxHashMap<ValueId, usize>,
    cuts: Cuts,
}

/// Steps that can be done strip by strip.
#[derive(Clone)]
struct Group {
    steps: Vec<Step>,
    /// Which of the block's steps are done before them.
    before: Vec<usize>,
    /// The first of the block's steps that comes after.
    end: usize,
    count: i64,
    /// Bytes of private arrays.
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

    /// Finer strips of the same steps, where they are too coarse to stay near: products are cut
    /// along another dimension as well, and kernels' outermost two dimensions become one.
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

    /// The number of a kernel.
    fn kernel(&mut self, kernel: Kernel) -> KernelId {
        let mut known = self.plan.kernels.iter();
        let known = known.find_map(|(id, known)| (*known == kernel).then_some(id));
        known.unwrap_or_else(|| self.plan.kernels.push(kernel))
    }

    /// Whether a step may as well be done before others that precede it.
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

    /// The bytes of the arrays that only these steps have to do with.
    fn private_bytes(&self, steps: &[Step]) -> i64 {
        let private = private(&self.plan, steps, &self.touches);
        private.iter().map(|&value| self.bytes(value)).sum()
    }

    /// Into how many strips steps are worth dividing, if they are.
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
        // Of operands that every strip of a call reads.
        let mut whole = 0;
        for (step, cut) in group.steps.iter().zip(cuts) {
            let Step::Library { operands, .. } = step else {
                continue;
            };
            let of_all = operands.iter().zip(&cut.parts);
            let of_all = of_all.filter(|(_, part)| **part == Part::Any);
            let bytes: i64 = of_all.map(|(&operand, _)| self.bytes(operand)).sum();
            whole += bytes;
            // A batch is divided as it comes, and so are images.
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

/// The kernel with one dimension in the place of its two outermost ones. What is left must
/// have lanes: a further dimension, or loops.
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

/// Drops the kernels that no step runs.
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
