//! Chooses which kernels write their results with non-temporal stores.
//!
//! A store of a whole line that bypasses the caches (`vmovntps`) saves reading the line before it
//! is overwritten, a third of the memory traffic of a sum of two arrays. The next reader has to
//! fetch the line from memory, so only arrays are stored in this way that the caches would not have
//! kept:
//!
//! - A result of the program that no later step accesses, of a kernel that accesses more bytes than
//!   the last-level cache holds. With ordinary stores the caller could find the end of the result
//!   in the cache, at the price of the cache's earlier contents.
//! - Any array that is larger than that cache by itself: its beginning has been evicted when its
//!   end is written, and readers start at the beginning. (Except an array of which only a
//!   [strip](crate::runtime::strip_loop) exists.)
//!
//! (Intel 64 and IA-32 Architectures Optimization Reference Manual, on non-temporal stores: for
//! data that is not used again soon and is larger than the last-level cache.) A kernel that
//! works in place finds its lines in the caches, and stores there.
//!
//! Only whole lines of a vector loop's contiguous stores bypass the caches; the partial lines at
//! its ends do not: see [`wide`](crate::isa::x64). Stores that are not contiguous are ordinary
//! ones.

use super::effects::{Touch, touches};
use crate::abi::LINE_SHIFT;
use crate::options::StreamLimits;
use crate::vectorize::translate::{Run, Source};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::LazyLock;
use tegula_expr::Term;
use tegula_fusion::kernel::Access;
use tegula_plan::{KernelId, Place, Plan, Step, ValueId, private_values};

/// The smallest last-level cache of any machine.
const LEAST_CACHE: u64 = 256 << 10;

/// The bytes of a cache line.
const LINE: i64 = 1 << LINE_SHIFT;

/// The bytes of this machine's last-level cache; if unknown, it counts as larger than any array.
static LAST_CACHE: LazyLock<u64> = LazyLock::new(|| {
    let cpu = tegula_target::Cpu::detect();
    cpu.last_cache_bytes().unwrap_or(u64::MAX)
});

/// The parameters of a plan's kernels that are stored past the caches, for kernels that have any.
/// All steps that use a kernel must agree.
pub(crate) fn kernels(plan: &Plan, limits: StreamLimits) -> FxHashMap<KernelId, Vec<bool>> {
    let mut found: FxHashMap<KernelId, Vec<bool>> = FxHashMap::default();
    let mut finder = Finder {
        plan,
        cache: limits.cache,
        later: FxHashSet::default(),
        touched: Vec::new(),
        strips: private_values(plan),
    };
    for step in plan.steps.iter().rev() {
        let is_kernel = matches!(step, Step::Kernel { .. });
        each_kernel(step, &mut |kernel, args| {
            let streamed = finder.streamed(kernel, args, is_kernel);
            match found.get_mut(&kernel) {
                Some(known) => known.iter_mut().zip(streamed).for_each(|(k, s)| *k &= s),
                None => _ = found.insert(kernel, streamed),
            }
        });
        finder.note(step);
    }
    found.retain(|_, streamed| streamed.contains(&true));
    found
}

/// Every kernel that a step runs, with its arguments.
fn each_kernel(step: &Step, visit: &mut dyn FnMut(KernelId, &[ValueId])) {
    if let Step::Kernel { kernel, args } = step {
        visit(*kernel, args);
    }
    for step in step.blocks().into_iter().flatten() {
        each_kernel(step, visit);
    }
}

/// Analyses a plan's steps, from the last one to the first.
struct Finder<'p> {
    plan: &'p Plan,
    /// The cache size as in [`StreamLimits`].
    cache: Option<u64>,
    /// The results whose memory the steps visited so far access.
    later: FxHashSet<usize>,
    touched: Vec<Touch>,
    /// The values of which only a strip exists at a time.
    strips: FxHashSet<ValueId>,
}

impl Finder<'_> {
    /// Records the accesses of a step.
    fn note(&mut self, step: &Step) {
        if matches!(step, Step::Copy { from, to } if self.plan.same_place(*from, *to)) {
            // The same bytes under another name.
            return;
        }
        self.touched.clear();
        touches(self.plan, step, &mut self.touched);
        let values = self.touched.iter().map(|touch| touch.value);
        self.later
            .extend(values.filter_map(|v| result(self.plan, v)));
    }

    /// The arguments of a kernel that are stored past the caches in a step that is this kernel
    /// (`is_step`) or contains it.
    fn streamed(&self, kernel: KernelId, args: &[ValueId], is_step: bool) -> Vec<bool> {
        let params = &self.plan.kernels[kernel].params;
        let beyond = self.goes_beyond(args);
        let is_left = |value: ValueId| {
            is_step && result(self.plan, value).is_some_and(|r| !self.later.contains(&r))
        };
        let is_streamed = |(i, &arg): (usize, &ValueId)| {
            beyond
                && params.get(i).is_some_and(|p| p.access == Access::Write)
                && !self.strips.contains(&arg)
                && self.is_alone(args, arg)
                && (is_left(arg) || self.goes_beyond(&[arg]))
        };
        args.iter().enumerate().map(is_streamed).collect()
    }

    /// Whether no other argument shares an argument's memory: otherwise that memory is in a cache
    /// when it is stored.
    fn is_alone(&self, args: &[ValueId], arg: ValueId) -> bool {
        let near = |&&other: &&ValueId| {
            let results = [other, arg].map(|value| result(self.plan, value));
            self.plan.same_place(other, arg) || results[0].is_some() && results[0] == results[1]
        };
        args.iter().filter(near).count() == 1
    }

    /// Whether arrays together exceed the last-level cache.
    fn goes_beyond(&self, args: &[ValueId]) -> bool {
        let bytes = |&arg: &ValueId| self.plan.values[arg].shape.byte_size();
        let mut bytes = args.iter().map(bytes);
        let bytes = bytes.try_fold(0i64, |sum, bytes| sum.checked_add(bytes?));
        let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
        // The machine is only examined for large arrays.
        bytes.is_some_and(|bytes| match self.cache {
            Some(cache) => bytes > cache,
            None => bytes > LEAST_CACHE && bytes > *LAST_CACHE,
        })
    }
}

/// The result whose memory contains a value.
fn result(plan: &Plan, value: ValueId) -> Option<usize> {
    match plan.buffers[plan.values[value].buffer].place {
        Place::Output { result, .. } => Some(result),
        _ => None,
    }
}

/// The accesses of a vector loop that store past the caches, given the kernel's parameters for
/// which this is wanted: contiguous stores, in every iteration, at the same offset in a cache line.
pub(crate) fn accesses(run: &Run, streamed: &[bool], limits: StreamLimits) -> SmallVec<[u32; 2]> {
    let mut found: SmallVec<[u32; 2]> = SmallVec::new();
    if !streamed.contains(&true) {
        return found;
    }
    let mut place = None;
    for access in run.body.stores_in_order() {
        let stored = run.body.accesses[access as usize];
        let bytes = stored.storage.bytes;
        let Some(Source::Address(param, first, offset)) = run.sources.get(stored.pointer as usize)
        else {
            continue;
        };
        let long = match begins_with_a_line(run, first, i64::from(*offset), i64::from(bytes)) {
            true => limits.run,
            false => limits.parted_run,
        };
        let is_long = |lanes: i64| lanes.saturating_mul(i64::from(bytes)) >= long;
        let is_streamed = streamed.get(*param) == Some(&true);
        if is_streamed && run.lanes_at_most.is_none_or(is_long) {
            let here = (first, offset, bytes);
            if *place.get_or_insert(here) == here {
                found.push(access);
            }
        }
    }
    found
}

/// Whether the element at an offset given by a term, for a row's first lane, begins a cache line;
/// arrays begin with one.
fn begins_with_a_line(run: &Run, first: &Term, offset: i64, bytes: i64) -> bool {
    let whole = |elements: i64| elements.checked_mul(bytes).is_some_and(|n| n % LINE == 0);
    let lane = Term::var(run.lane);
    first.as_linear().is_some_and(|(terms, constant)| {
        let mut terms = terms.iter();
        let of_rows = terms.all(|(atom, factor)| *atom == lane || whole(*factor));
        of_rows && whole(constant) && offset == 0
    })
}
