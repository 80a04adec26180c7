//! Executes a program's actions in order: kernels, calls, copies, loops and branches.

use super::memory::Memory;
use super::pre_resolved_loop::{Turn, are_steps};
use crate::abi::{KernelFn, parts_of};
use crate::analysis::cost::Work;
use crate::error::RunFailure;
use crate::library::sort::SortCode;
use crate::program::ir::{Action, Exchange, Index, Location, Nest, Strips};
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tegula_ir::ElementType;
use tegula_linalg::thread_pool::ThreadPool;

/// The time of one kernel or library call in a profiled run.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime {
    /// The name of the kernel in the plan, or of the routine.
    pub name: String,
    /// The total time of all its executions.
    pub time: Duration,
    /// The number of its executions.
    pub runs: u64,
    /// The total work of all its executions.
    pub work: Work,
}

fn note(profile: &mut Vec<KernelTime>, name: String, time: Duration, work: &Work) {
    match profile.iter_mut().find(|k| k.name == name) {
        Some(known) => {
            known.time += time;
            known.runs += 1;
            known.work.add(work);
        }
        None => profile.push(KernelTime {
            name,
            time,
            runs: 1,
            work: *work,
        }),
    }
}

/// One run of a program.
pub(crate) struct Run<'a> {
    pub(super) memory: Memory<'a>,
    pub(super) sorts: &'a [SortCode],
    /// The functions of outlined loops.
    pub(super) loops: &'a [KernelFn],
    pub(super) scratch: *mut u8,
    pub(super) pool: &'a ThreadPool,
    /// A pool without threads, for calls that run on a thread of the pool.
    pub(super) serial: &'a ThreadPool,
    pub(super) profile: Option<&'a RefCell<Vec<KernelTime>>>,
}

impl Run<'_> {
    pub(super) fn actions(&self, actions: &[Action]) -> Result<(), RunFailure> {
        // Queried once, because a kernel may take less time than the query.
        let traced = tracing::enabled!(tracing::Level::TRACE);
        for action in actions {
            self.memory.stop.check()?;
            let name = if traced { action.name() } else { None };
            let _span = name.map(|name| tracing::trace_span!("step", name).entered());
            let Some(profile) = self.profile else {
                self.action(action)?;
                continue;
            };
            let start = Instant::now();
            self.action(action)?;
            if let Some(name) = action.name() {
                let time = start.elapsed();
                note(&mut profile.borrow_mut(), name, time, &action.work());
            }
        }
        Ok(())
    }

    fn action(&self, action: &Action) -> Result<(), RunFailure> {
        match action {
            Action::Kernel {
                kernel,
                args,
                extent,
                parts,
                work,
                ..
            } => {
                let addresses: smallvec::SmallVec<[*mut u8; 16]> =
                    self.memory.addresses(args).collect();
                let slices = slices(work, *extent, *parts);
                self.kernel(*kernel, &addresses, *extent, [*parts, slices]);
            }
            Action::Call {
                call,
                inputs,
                outputs,
                sort,
                kept,
                ..
            } => {
                let inputs: smallvec::SmallVec<[*const u8; 8]> = inputs
                    .iter()
                    .map(|&l| self.memory.address(l).cast_const())
                    .collect();
                let outputs: smallvec::SmallVec<[*mut u8; 8]> =
                    outputs.iter().map(|&l| self.memory.address(l)).collect();
                let sort = self.sorts.get(*sort);
                let kept = kept.map_or(std::ptr::null(), |kept| {
                    self.memory.address(kept).cast_const()
                });
                // SAFETY: see the head of `executable`; a call's results overlap none of its
                // operands, and values are aligned to 64 bytes.
                unsafe {
                    let (scratch, pool) = (self.scratch, self.pool);
                    call.run(&inputs, &outputs, (sort, kept), scratch, pool)?;
                }
            }
            Action::Pack { call, from, to } => {
                // SAFETY: the operand is one of the call, and the memory has the size that the call
                // requires.
                unsafe { call.keep(self.memory.address(*from), self.memory.address(*to)) };
            }
            Action::Copy { from, to, bytes } => {
                // SAFETY: both ends have that many bytes; they may be parts of one
                // arena.
                unsafe {
                    std::ptr::copy(self.memory.address(*from), self.memory.address(*to), *bytes);
                };
            }
            Action::View {
                entry,
                source,
                bytes,
                indices,
            } => {
                let indices = indices.iter();
                let slabs: i64 = indices.map(|index| self.slab(index)).sum();
                // SAFETY: the clamped indices of a slab lie inside the array.
                let slab = unsafe {
                    self.memory
                        .address(*source)
                        .offset((bytes + slabs) as isize)
                };
                self.memory.exchanged[*entry].set(slab);
            }
            Action::While {
                condition,
                predicate,
                body,
                exchanges,
                nest,
            } => {
                if let Some(nest) = nest
                    && self.profile.is_none()
                    && !tracing::enabled!(tracing::Level::TRACE)
                {
                    self.nest(nest);
                    return Ok(());
                }
                self.enter(exchanges);
                if self.profile.is_none()
                    && are_steps(condition, body)
                    && !tracing::enabled!(tracing::Level::TRACE)
                {
                    let done = self.turns(condition, *predicate, body, exchanges);
                    self.leave(exchanges);
                    return done;
                }
                loop {
                    self.actions(condition)?;
                    // SAFETY: a pred scalar that the condition has written.
                    if unsafe { *self.memory.address(*predicate) } == 0 {
                        break;
                    }
                    self.actions(body)?;
                    self.exchange(exchanges);
                }
                self.leave(exchanges);
            }
            Action::Conditional {
                selector,
                is_pred,
                branches,
            } => {
                let selector = self.memory.address(*selector);
                let last = branches.len().saturating_sub(1);
                let branch = if *is_pred {
                    // SAFETY: a pred scalar that was written before.
                    usize::from(unsafe { *selector } == 0)
                } else {
                    // SAFETY: an s32 scalar that was written before; all values
                    // are aligned to more than four bytes.
                    let selected = unsafe { *selector.cast::<i32>() };
                    usize::try_from(selected).map_or(last, |b| b.min(last))
                };
                if let Some(actions) = branches.get(branch) {
                    self.actions(actions)?;
                }
            }
            Action::Strips(strips) => self.strips(strips),
        }
        Ok(())
    }

    fn strips(&self, strips: &Strips) {
        let pools = (self.pool, self.serial);
        let timed = self.profile.is_some();
        // SAFETY: see the head of `executable`; the plan's verifier has checked that strips may
        // be executed in any order.
        let times = unsafe { strips.run(&self.memory, self.scratch, pools, timed) };
        if let Some(profile) = self.profile {
            for (strip, time) in strips.steps.iter().zip(times) {
                note(
                    &mut profile.borrow_mut(),
                    strip.name.clone(),
                    time,
                    &strip.work,
                );
            }
        }
    }

    /// The offset in bytes of the slab that an index selects.
    fn slab(&self, index: &Index<Location>) -> i64 {
        let at = self.memory.address(index.place);
        // SAFETY: an integer of this type that was written before; values are aligned.
        let number = unsafe {
            match index.element_type {
                ElementType::S64 => *at.cast::<i64>(),
                ElementType::U32 => i64::from(*at.cast::<u32>()),
                _ => i64::from(*at.cast::<i32>()),
            }
        };
        number.max(index.least).min(index.most) * index.stride
    }

    /// Runs an outlined loop.
    fn nest(&self, nest: &Nest) {
        let table = nest.table.iter().map(|&place| self.memory.address(place));
        let table: smallvec::SmallVec<[*mut u8; 32]> = table.collect();
        let function = self.loops[nest.function];
        // SAFETY: see the head of `executable`; the function accesses the same memory as the
        // actions of the loop from which it was compiled.
        unsafe { function(table.as_ptr(), self.memory.stop_flag() as i64, 1) };
    }

    /// Runs a loop whose condition and body satisfy [`are_steps`].
    fn turns(
        &self,
        condition: &[Action],
        predicate: Location,
        body: &[Action],
        exchanges: &[Exchange],
    ) -> Result<(), RunFailure> {
        let stop = &self.memory.stop;
        let turn = || Turn::new(&self.memory, condition, predicate, body);
        let even = turn();
        let odd = (!exchanges.is_empty()).then(|| {
            self.exchange(exchanges);
            let odd = turn();
            self.exchange(exchanges);
            odd
        });
        let odd = odd.as_ref().unwrap_or(&even);
        // SAFETY: see the head of `executable`; memories are exchanged after every iteration.
        unsafe {
            while even.goes_on() {
                even.body();
                self.exchange(exchanges);
                stop.check()?;
                if !odd.goes_on() {
                    break;
                }
                odd.body();
                self.exchange(exchanges);
                stop.check()?;
            }
        }
        Ok(())
    }

    /// After an iteration of a loop: exchanges the states with the next ones.
    fn exchange(&self, exchanges: &[Exchange]) {
        for [state, next] in exchanges.iter().map(|e| e.entries) {
            self.memory.exchanged[state].swap(&self.memory.exchanged[next]);
        }
    }

    /// Before a loop: sets the table entries of its buffers to their initial roles.
    fn enter(&self, exchanges: &[Exchange]) {
        for exchange in exchanges {
            let [state, next] = exchange.entries;
            self.memory.exchanged[state].set(self.memory.address(exchange.state));
            self.memory.exchanged[next].set(self.memory.address(exchange.next));
        }
    }

    /// After a loop: copies states back to their own buffers, if necessary.
    fn leave(&self, exchanges: &[Exchange]) {
        for exchange in exchanges {
            let (at, to) = (
                self.memory.exchanged[exchange.entries[0]].get(),
                self.memory.address(exchange.state),
            );
            if at != to {
                // SAFETY: two memories of that many bytes, which do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(at, to, exchange.bytes) };
            }
        }
    }

    /// Runs a kernel: in parts on several threads if that pays, each in slices between which the
    /// run may be stopped.
    fn kernel(
        &self,
        kernel: usize,
        addresses: &[*mut u8],
        extent: i64,
        [parts, slices]: [usize; 2],
    ) {
        let pieces = self.memory.code(kernel);
        let addresses = Addresses(addresses.as_ptr());
        let run = |begin: i64, end: i64| {
            parts_of(pieces, [begin, end], |function, [begin, end]| {
                // SAFETY: see the head of `executable`; the points of a kernel are independent.
                unsafe { function(addresses.get(), begin, end) };
            });
        };
        if parts < 2 && slices < 2 {
            return run(0, extent);
        }
        let count = parts * slices;
        let bound = |slice: usize| (extent as i128 * slice as i128 / count as i128) as i64;
        self.pool.run(parts, &|part| {
            for slice in part * slices..(part + 1) * slices {
                if tegula_limits::is_stopped() {
                    return;
                }
                run(bound(slice), bound(slice + 1));
            }
        });
    }
}

/// The operations or bytes after which a kernel polls the stop flag: about ten milliseconds.
const WORK_OF_SLICE: f64 = 5e7;

/// The number of slices of each part of a kernel.
fn slices(work: &Work, extent: i64, parts: usize) -> usize {
    let work = work.operations.max(work.bytes) / parts.max(1) as f64;
    if work < 2.0 * WORK_OF_SLICE {
        return 1;
    }
    let most = usize::try_from(extent).unwrap_or(usize::MAX) / parts.max(1);
    ((work / WORK_OF_SLICE) as usize).clamp(1, most.max(1))
}

/// The addresses of a kernel's arguments, for several threads.
struct Addresses(*const *mut u8);

// SAFETY: they are only read, and outlive the execution of the kernel; the memory that they point
// to is written at independent points.
unsafe impl Sync for Addresses {}

impl Addresses {
    fn get(&self) -> *const *mut u8 {
        self.0
    }
}
