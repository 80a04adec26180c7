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

/// No machine's last cache has fewer bytes.
const LEAST_CACHE: u64 = 256 << 10;

/// Bytes of a line.
const LINE: i64 = 1 << LINE_SHIFT;

/// The bytes of this machine's last cache; of an unknown one none has more.
static LAST_CACHE: LazyLock<u64> = LazyLock::new(|| {
    let cpu = tegula_target::Cpu::detect();
    cpu.last_cache_bytes().unwrap_or(u64::MAX)
});

/// Which parameters of a plan's kernels are stored past the caches, if any of a kernel are. Every
/// step that a kernel is for has to agree.
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

/// Looks at a plan's steps from the last one on.
struct Finder<'p> {
    plan: &'p Plan,
    /// As in [`StreamLimits`].
    cache: Option<u64>,
    /// The results whose memory the steps so far touch.
    later: FxHashSet<usize>,
    touched: Vec<Touch>,
    /// The values of which there is a strip at a time.
    strips: FxHashSet<ValueId>,
}

impl Finder<'_> {
    /// Notes what a step touches.
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

    /// Which of a kernel's arguments are stored past the caches, as far as a step says that is
    /// or has in it (`is_step`: is) this kernel.
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

    /// Whether no other argument lies where one does: what is read there is in a cache.
    fn is_alone(&self, args: &[ValueId], arg: ValueId) -> bool {
        let near = |&&other: &&ValueId| {
            let results = [other, arg].map(|value| result(self.plan, value));
            self.plan.same_place(other, arg) || results[0].is_some() && results[0] == results[1]
        };
        args.iter().filter(near).count() == 1
    }

    /// Whether arrays are together more than the last cache holds.
    fn goes_beyond(&self, args: &[ValueId]) -> bool {
        let bytes = |&arg: &ValueId| self.plan.values[arg].shape.byte_size();
        let mut bytes = args.iter().map(bytes);
        let bytes = bytes.try_fold(0i64, |sum, bytes| sum.checked_add(bytes?));
        let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
        // The machine is looked at for large arrays only.
        bytes.is_some_and(|bytes| match self.cache {
            Some(cache) => bytes > cache,
            None => bytes > LEAST_CACHE && bytes > *LAST_CACHE,
        })
    }
}

/// The result in whose memory a value lies.
fn result(plan: &Plan, value: ValueId) -> Option<usize> {
    match plan.buffers[plan.values[value].buffer].place {
        Place::Output { result, .. } => Some(result),
        _ => None,
    }
}

/// The accesses of a run that store past the caches, where these parameters of its kernel are to
/// be: one element after the other, in every turn, at the same place of a line.
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

/// Whether the element that a term counts, in a row from its first lane on, begins a line: arrays
/// do.
fn begins_with_a_line(run: &Run, first: &Term, offset: i64, bytes: i64) -> bool {
    let whole = |elements: i64| elements.checked_mul(bytes).is_some_and(|n| n % LINE == 0);
    let lane = Term::var(run.lane);
    first.as_linear().is_some_and(|(terms, constant)| {
        let mut terms = terms.iter();
        let of_rows = terms.all(|(atom, factor)| *atom == lane || whole(*factor));
        of_rows && whole(constant) && offset == 0
    })
}
