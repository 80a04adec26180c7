//! Loops that contain only small kernels and copies: their addresses are looked up once, before the
//! first iteration.
//!
//! An iteration of a recurrence over single numbers takes a few nanoseconds; looking up the
//! addresses of its kernels' arguments would take several times as long. Buffers that a loop
//! exchanges alternate between two places: there is a list of steps for each.

use super::memory::Memory;
use crate::abi::{KernelFn, parts_of};
use crate::program::ir::{Action, Location};
use smallvec::SmallVec;

/// A step with addresses.
#[derive(Clone, Copy)]
enum Step {
    /// Runs a part of a kernel.
    Kernel {
        function: KernelFn,
        /// The index of its first argument in `addresses`.
        first: usize,
        begin: i64,
        end: i64,
    },
    Copy {
        from: *const u8,
        to: *mut u8,
        bytes: usize,
    },
}

/// One iteration: the steps of the condition, then those of the body. The inline capacities suffice
/// for a recurrence of single numbers.
pub(crate) struct Turn {
    steps: SmallVec<[Step; 16]>,
    /// The number of steps that belong to the condition.
    condition: usize,
    addresses: SmallVec<[*mut u8; 48]>,
    /// The predicate that the condition's steps write.
    predicate: *const u8,
}

/// The maximum number of steps: with more, looking up addresses is a small part of an iteration.
const MAX_STEPS: usize = 64;

/// Whether a [`Turn`] can execute a loop's condition and body: they are few actions, all kernels of
/// one part or copies.
pub(crate) fn are_steps(condition: &[Action], body: &[Action]) -> bool {
    condition.len() + body.len() <= MAX_STEPS
        && condition.iter().chain(body).all(|action| match action {
            Action::Kernel { parts, .. } => *parts < 2,
            Action::Copy { .. } => true,
            _ => false,
        })
}

impl Turn {
    /// An iteration with the current addresses of a run's memory; the actions must satisfy
    /// [`are_steps`].
    pub(crate) fn new(
        run: &Memory<'_>,
        condition: &[Action],
        predicate: Location,
        body: &[Action],
    ) -> Self {
        let mut turn = Self {
            steps: SmallVec::new(),
            condition: 0,
            addresses: SmallVec::new(),
            predicate: run.address(predicate).cast_const(),
        };
        condition.iter().for_each(|action| turn.add(run, action));
        turn.condition = turn.steps.len();
        body.iter().for_each(|action| turn.add(run, action));
        turn
    }

    fn add(&mut self, run: &Memory<'_>, action: &Action) {
        match action {
            Action::Kernel {
                kernel,
                args,
                extent,
                ..
            } => {
                let first = self.addresses.len();
                self.addresses.extend(run.addresses(args));
                parts_of(run.code(*kernel), [0, *extent], |function, [begin, end]| {
                    self.steps.push(Step::Kernel {
                        function,
                        first,
                        begin,
                        end,
                    });
                });
            }
            Action::Copy { from, to, bytes } => self.steps.push(Step::Copy {
                from: run.address(*from).cast_const(),
                to: run.address(*to),
                bytes: *bytes,
            }),
            _ => {}
        }
    }

    /// Executes the condition's steps; returns whether there is another iteration.
    ///
    /// # Safety
    /// The requirements of the actions hold; memory has not moved.
    pub(crate) unsafe fn goes_on(&self) -> bool {
        // SAFETY: the caller promises that the requirements of the actions hold and that memory has
        // not moved; the predicate is what the condition has written.
        unsafe {
            self.run(&self.steps[..self.condition]);
            *self.predicate != 0
        }
    }

    /// Executes the body's steps.
    ///
    /// # Safety
    /// The requirements of the actions hold; memory has not moved.
    pub(crate) unsafe fn body(&self) {
        // SAFETY: the caller promises that the requirements of the actions hold and that memory has
        // not moved.
        unsafe { self.run(&self.steps[self.condition..]) };
    }

    /// # Safety
    /// The same as for [`Self::body`].
    unsafe fn run(&self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Kernel {
                    function,
                    first,
                    begin,
                    end,
                } => {
                    let addresses = self.addresses[first..].as_ptr();
                    // SAFETY: the caller promises that the requirements of the actions hold and
                    // that memory has not moved.
                    unsafe { function(addresses, begin, end) };
                }
                // SAFETY: both ends have that many bytes; they may be parts of one arena.
                Step::Copy { from, to, bytes } => unsafe {
                    match bytes {
                        4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
                        8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
                        _ => std::ptr::copy(from, to, bytes),
                    }
                },
            }
        }
    }
}
