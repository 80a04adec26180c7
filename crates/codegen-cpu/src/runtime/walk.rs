//! The walker of actions: does a run's kernels, calls, copies, loops and branches in order.

use super::executable::Executable;
use super::pre_resolved_loop::{Turn, are_steps};
use crate::abi::{KernelCode, parts_of};
use crate::analysis::cost::Work;
use crate::error::CallFailure;
use crate::program::ir::{Action, Area, Exchange, Index, Location, Nest, Strips};
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};
use tegula_ir::ElementType;

/// What one kernel or library call took in a profiled run.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime {
    /// Its name: that of the kernel in the plan, or of the routine.
    pub name: String,
    /// The time of all its runs together.
    pub time: Duration,
    /// How often it ran.
    pub runs: u64,
    /// The work of all its runs together.
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

/// The memory of one run.
pub(crate) struct Run<'a> {
    pub(super) executable: &'a Executable,
    /// The values of the plan's symbols.
    pub(super) sizes: &'a [i64],
    pub(super) arena: *mut u8,
    pub(super) scratch: *mut u8,
    pub(super) inputs: Vec<*const u8>,
    pub(super) outputs: Vec<*mut u8>,
    /// The memories that are kept from run to run.
    pub(super) kept: Vec<*mut u8>,
    /// The memories that loops exchange.
    pub(super) exchanged: Vec<Cell<*mut u8>>,
    pub(super) profile: Option<&'a RefCell<Vec<KernelTime>>>,
}

impl Run<'_> {
    /// The address of a place. What is behind an input or a constant is only read.
    pub(crate) fn address(&self, location: Location) -> *mut u8 {
        let base = match location.area {
            Area::Parameter(i) => self.inputs[i].cast_mut(),
            Area::Output(i) => self.outputs[i],
            Area::Constant(i) => self.executable.plan.constants[i]
                .bytes()
                .as_ptr()
                .cast_mut(),
            Area::Arena => self.arena,
            Area::Kept(i) => self.kept[i],
            Area::Exchanged(i) => self.exchanged[i].get(),
        };
        // SAFETY: the offset lies inside the area; see the module's text.
        unsafe { base.add(location.offset) }
    }

    pub(super) fn actions(&self, actions: &[Action]) -> Result<(), CallFailure> {
        // Asked once: a kernel may take less time than to ask.
        let traced = tracing::enabled!(tracing::Level::TRACE);
        for action in actions {
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

    fn action(&self, action: &Action) -> Result<(), CallFailure> {
        match action {
            Action::Kernel {
                kernel,
                args,
                extent,
                parts,
                ..
            } => {
                let addresses: smallvec::SmallVec<[*mut u8; 16]> = self.addresses(args).collect();
                self.kernel(*kernel, &addresses, *extent, *parts);
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
                    .map(|&l| self.address(l).cast_const())
                    .collect();
                let outputs: smallvec::SmallVec<[*mut u8; 8]> =
                    outputs.iter().map(|&l| self.address(l)).collect();
                let code = &self.executable.code;
                let sort = code.sorts.get(*sort);
                let kept = kept.map_or(std::ptr::null(), |kept| self.address(kept).cast_const());
                // SAFETY: see the module's text; a call's results overlap none of
                // its operands, and values are aligned to 64 bytes.
                unsafe {
                    let (scratch, pool) = (self.scratch, &self.executable.pool);
                    call.run(&inputs, &outputs, (sort, kept), scratch, pool)?;
                }
            }
            Action::Pack { call, from, to } => {
                // SAFETY: the operand is one that the call is given, and the memory is what
                // the call has asked for.
                unsafe { call.keep(self.address(*from), self.address(*to)) };
            }
            Action::Copy { from, to, bytes } => {
                // SAFETY: both ends have that many bytes; they may be parts of one
                // arena.
                unsafe { std::ptr::copy(self.address(*from), self.address(*to), *bytes) };
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
                let slab = unsafe { self.address(*source).offset((bytes + slabs) as isize) };
                self.exchanged[*entry].set(slab);
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
                    self.turns(condition, *predicate, body, exchanges);
                    self.leave(exchanges);
                    return Ok(());
                }
                loop {
                    self.actions(condition)?;
                    // SAFETY: a pred scalar that the condition has written.
                    if unsafe { *self.address(*predicate) } == 0 {
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
                let selector = self.address(*selector);
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
        let pools = (&self.executable.pool, &self.executable.serial);
        let timed = self.profile.is_some();
        // SAFETY: see the module's text; the plan's verifier has checked that strips may be
        // done in any order.
        let times = unsafe { strips.run(self, self.scratch, pools, timed) };
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

    /// Bytes from the first slab to the one that an index says.
    fn slab(&self, index: &Index<Location>) -> i64 {
        let at = self.address(index.place);
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

    /// A kernel's functions.
    pub(crate) fn code(&self, kernel: usize) -> &KernelCode {
        &self.executable.code.kernels[kernel]
    }

    /// The values of the plan's symbols, which code only reads.
    pub(crate) fn sizes(&self) -> *mut u8 {
        self.sizes.as_ptr().cast_mut().cast()
    }

    /// The addresses of a kernel's arguments; last, the values of the plan's symbols, which
    /// code only reads.
    pub(crate) fn addresses(&self, args: &[Location]) -> impl Iterator<Item = *mut u8> {
        let args = args.iter().map(|&a| self.address(a));
        args.chain([self.sizes()])
    }

    /// A loop that is a function.
    fn nest(&self, nest: &Nest) {
        let table = nest.table.iter().map(|&place| self.address(place));
        let table: smallvec::SmallVec<[*mut u8; 32]> = table.collect();
        let function = self.executable.code.nests[nest.function];
        // SAFETY: see the module's text; it does what the loop's actions do.
        unsafe { function(table.as_ptr(), 0, 1) };
    }

    /// A loop whose condition and body [are steps](are_steps).
    fn turns(
        &self,
        condition: &[Action],
        predicate: Location,
        body: &[Action],
        exchanges: &[Exchange],
    ) {
        let turn = || Turn::new(self, condition, predicate, body);
        let even = turn();
        let odd = (!exchanges.is_empty()).then(|| {
            self.exchange(exchanges);
            let odd = turn();
            self.exchange(exchanges);
            odd
        });
        let odd = odd.as_ref().unwrap_or(&even);
        // SAFETY: see the module's text; memories are exchanged after every turn.
        unsafe {
            while even.goes_on() {
                even.body();
                self.exchange(exchanges);
                if !odd.goes_on() {
                    break;
                }
                odd.body();
                self.exchange(exchanges);
            }
        }
    }

    /// After a turn of a loop: its next states are its states.
    fn exchange(&self, exchanges: &[Exchange]) {
        for [state, next] in exchanges.iter().map(|e| e.entries) {
            self.exchanged[state].swap(&self.exchanged[next]);
        }
    }

    /// Before a loop: the memories that it exchanges have their own roles.
    fn enter(&self, exchanges: &[Exchange]) {
        for exchange in exchanges {
            let [state, next] = exchange.entries;
            self.exchanged[state].set(self.address(exchange.state));
            self.exchanged[next].set(self.address(exchange.next));
        }
    }

    /// After a loop: its states are where they are looked for.
    fn leave(&self, exchanges: &[Exchange]) {
        for exchange in exchanges {
            let (at, to) = (
                self.exchanged[exchange.entries[0]].get(),
                self.address(exchange.state),
            );
            if at != to {
                // SAFETY: two memories of that many bytes, which do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(at, to, exchange.bytes) };
            }
        }
    }

    /// Runs a kernel, in parts if it is worth it.
    fn kernel(&self, kernel: usize, addresses: &[*mut u8], extent: i64, parts: usize) {
        let pieces = self.code(kernel);
        let addresses = Addresses(addresses.as_ptr());
        let run = |begin: i64, end: i64| {
            parts_of(pieces, [begin, end], |function, [begin, end]| {
                // SAFETY: see the module's text; the points of a kernel are independent.
                unsafe { function(addresses.get(), begin, end) };
            });
        };
        if parts < 2 {
            return run(0, extent);
        }
        self.executable.pool.run(parts, &|part| {
            let bound = |part: usize| (extent as i128 * part as i128 / parts as i128) as i64;
            run(bound(part), bound(part + 1));
        });
    }
}

/// The addresses of a kernel's arguments, for several threads.
struct Addresses(*const *mut u8);

// SAFETY: they are only read, and outlive the run of the kernel; what they lead to is
// written at points that are independent.
unsafe impl Sync for Addresses {}

impl Addresses {
    fn get(&self) -> *const *mut u8 {
        self.0
    }
}
