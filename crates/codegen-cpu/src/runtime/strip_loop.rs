//! Strip-mined steps ([`Step::Strips`](tegula_plan::Step)): executed strip by strip, so that a step
//! finds the strip that the one before it wrote in a near cache.
//!
//! Each thread takes one strip after the other, and has memory of its own for one strip of the
//! plan's private arrays, instead of the plan's places for them. A kernel computes the points of
//! the strip; the address that it gets for a private array is shifted, so that the strip's elements
//! lie in the strip's memory. A library call is prepared for arrays of the size of a strip. Small
//! arrays that a kernel's code may read whole stay at the plan's places.
//!
//! If strips are impossible (more threads than strips, or points that the code computes together
//! cross a strip's border), each step is executed whole, at the plan's places.

use super::memory::Memory;
use crate::abi::{KernelCode, parts_of};
use crate::program::ir::{Array, PackedAt, Strip, Strips, What};
use smallvec::SmallVec;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::ALIGNMENT;
use tegula_linalg::thread_pool::ThreadPool;

impl Strips {
    /// Executes all strips. Returns the share of the time that each step took if `timed`.
    ///
    /// # Safety
    /// The requirements of the single steps hold; `memory` has [`Self::bytes`], aligned to 64.
    pub(crate) unsafe fn run(
        &self,
        run: &Memory<'_>,
        memory: *mut u8,
        (pool, serial): (&ThreadPool, &ThreadPool),
        timed: bool,
    ) -> Vec<Duration> {
        let mut times = vec![Duration::ZERO; if timed { self.steps.len() } else { 0 }];
        let mut ready: SmallVec<[Ready<'_>; 4]> = SmallVec::with_capacity(self.steps.len());
        for (i, strip) in self.steps.iter().enumerate() {
            let start = timed.then(Instant::now);
            // SAFETY: the caller promises that the requirements of the single steps hold, and
            // memory of [`Self::bytes`].
            ready.push(unsafe { strip.ready(run, memory) });
            if let Some(start) = start {
                times[i] = start.elapsed();
            }
        }
        let shared = Shared {
            steps: &ready,
            memory: memory.wrapping_add(self.shared),
            free: Mutex::new((0..self.at_once).collect()),
            times: Mutex::new(times),
        };
        pool.run(self.count, &|number| {
            if tegula_limits::is_stopped() {
                return;
            }
            let shared = &shared;
            let slot = shared.slot();
            let memory = shared.memory.wrapping_add(slot * self.memory);
            for (i, ready) in shared.steps.iter().enumerate() {
                let start = timed.then(Instant::now);
                // SAFETY: the caller promises memory of [`Self::bytes`]; the slot has its own part.
                unsafe { ready.run(number, (memory, self.private), serial) };
                if let Some(start) = start {
                    locked(&shared.times)[i] += start.elapsed() / self.at_once as u32;
                }
            }
            locked(&shared.free).push(slot);
        });
        shared
            .times
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Addresses of a step's arrays.
type Addresses = SmallVec<[*mut u8; 8]>;

/// A step with the addresses of a run.
struct Ready<'a> {
    strip: &'a Strip,
    /// The start addresses of arrays that are not private.
    bases: Addresses,
    /// The code, if the step is a kernel.
    code: Option<&'a KernelCode>,
    /// For a kernel the values of the plan's symbols, for a call the packed operand.
    last: *mut u8,
    /// The run's stop flag.
    stop_flag: *mut u8,
}

/// The state that the threads of a run share.
struct Shared<'a> {
    steps: &'a [Ready<'a>],
    memory: *mut u8,
    /// The numbers of memories that no strip uses.
    free: Mutex<SmallVec<[usize; 8]>>,
    /// The time of each step.
    times: Mutex<Vec<Duration>>,
}

// SAFETY: addresses are only read; of the memory that they point to, a thread only writes its own
// strips' parts, as the plan's verifier has checked.
unsafe impl Sync for Shared<'_> {}

impl Shared<'_> {
    /// Takes a free memory for a strip. There are at least as many memories as threads.
    fn slot(&self) -> usize {
        loop {
            if let Some(slot) = locked(&self.free).pop() {
                return slot;
            }
            std::thread::yield_now();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Strip {
    /// Prepares the step for all strips, and packs the operand that they share.
    ///
    /// # Safety
    /// The same as for [`Strips::run`].
    unsafe fn ready<'a>(&'a self, run: &'a Memory<'_>, memory: *mut u8) -> Ready<'a> {
        let base = |array: &Array| match array {
            Array::There { first, .. } => run.address(*first),
            Array::Private { .. } => std::ptr::null_mut(),
        };
        let bases: Addresses = self.arrays.iter().map(base).collect();
        let (code, last) = match &self.what {
            What::Kernel { kernel, .. } => (Some(run.code(*kernel)), run.sizes()),
            What::Call { packed: None, .. } => (None, std::ptr::null_mut()),
            What::Call {
                call,
                packed: Some(packed),
                ..
            } => match packed.at {
                PackedAt::Kept(place) => (None, run.address(place)),
                PackedAt::Shared(begin) => {
                    let target = memory.wrapping_add(begin);
                    // SAFETY: the operand is one of the call, and not private, as all strips read
                    // it; the memory has the size that the call requires.
                    unsafe { call.keep(bases[packed.operand], target) };
                    (None, target)
                }
            },
        };
        Ready {
            strip: self,
            bases,
            code,
            last,
            stop_flag: run.stop_flag(),
        }
    }
}

impl Ready<'_> {
    /// Executes strip `number`, with memory of its own, of which `private` bytes are for arrays.
    ///
    /// # Safety
    /// The same as for [`Strips::run`].
    unsafe fn run(&self, number: usize, (memory, private): (*mut u8, usize), serial: &ThreadPool) {
        let address = |(base, array): (&*mut u8, &Array)| match *array {
            Array::There { ref distances, .. } => {
                let (mut address, mut rest) = (*base, number);
                for &(count, distance) in distances.iter().rev() {
                    address = address.wrapping_add(rest % count * distance);
                    rest /= count;
                }
                address
            }
            Array::Private { begin, bytes } => {
                let before = number * bytes;
                // Keeps the alignment that the first strip's memory would have.
                let strip = memory.wrapping_add(begin + before % ALIGNMENT);
                match self.code {
                    Some(_) => strip.wrapping_sub(before),
                    None => strip,
                }
            }
        };
        let arrays = self.bases.iter().zip(&self.strip.arrays);
        let mut addresses: Addresses = arrays.map(address).collect();
        match (&self.strip.what, self.code) {
            (What::Kernel { points, .. }, Some(code)) => {
                addresses.extend([self.last, self.stop_flag]);
                let begin = number as i64 * points;
                parts_of(code, [begin, begin + points], |function, [begin, end]| {
                    // SAFETY: the caller promises that the requirements of the single steps hold,
                    // and memory of [`Self::bytes`]; the points of a kernel are independent.
                    unsafe { function(addresses.as_ptr(), begin, end) };
                });
            }
            (What::Call { call, results, .. }, _) => {
                let (operands, results) = addresses.split_at(addresses.len() - results);
                let operands = operands.iter().map(|address| address.cast_const());
                let operands: SmallVec<[*const u8; 4]> = operands.collect();
                let (kept, scratch) = (self.last.cast_const(), memory.wrapping_add(private));
                // SAFETY: the caller promises that the requirements of the single steps hold, and
                // memory of [`Self::bytes`].
                let ran = unsafe { call.run(&operands, results, (None, kept), scratch, serial) };
                debug_assert!(ran.is_ok(), "a prepared matrix product cannot fail");
            }
            (What::Kernel { .. }, None) => {}
        }
    }
}
