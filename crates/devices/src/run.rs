//! Runs a function for each of some devices, each on its own thread of this process, which
//! [`workers`](crate::workers) keeps for later runs.
//!
//! How the devices exchange arrays is the job's: [`in_process`](crate::in_process) shares them
//! between threads, [`network`](crate::network) also sends them to other processes.

use crate::communicator::Communicator;
use crate::workers::{self, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The state that the devices of a run share.
pub(crate) trait Job: Send + Sync {
    /// The communicator of a device.
    fn communicator(self: Arc<Self>, device: usize) -> Arc<dyn Communicator>;

    /// Is called when a device's run has ended, with whether it succeeded.
    fn end(&self, device: usize, ok: bool);

    /// The first device that failed.
    fn failed(&self) -> Option<usize>;
}

/// The reason why a run on several devices failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError<E> {
    /// The error of the device that failed first.
    #[error("device {device}: {error}")]
    Device {
        /// The device.
        device: usize,
        /// The error of this device.
        error: E,
    },
    /// A device's thread panicked, which is a bug.
    #[error("device {device} panicked")]
    Panicked {
        /// The device.
        device: usize,
    },
    /// A thread could not be started.
    #[error("the thread of device {device} cannot be started: {reason}")]
    NoThread {
        /// The device.
        device: usize,
        /// The operating system's error message.
        reason: String,
    },
}

/// The place for a device's result.
type Slot<T, E> = Mutex<Option<Result<T, RunError<E>>>>;

/// Runs a program for each of `devices`, numbers of devices of the job. Returns their results, in
/// this order.
///
/// # Errors
/// The error of the device that failed first.
pub(crate) fn run<J: Job, T: Send, E: Send>(
    job: &Arc<J>,
    devices: &[usize],
    program: impl Fn(Arc<dyn Communicator>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, RunError<E>> {
    if let &[device] = devices {
        // No other thread is needed.
        return run_device(job, device, &program).map(|result| vec![result]);
    }
    let results: Vec<Slot<T, E>> = devices.iter().map(|_| Mutex::new(None)).collect();
    {
        let done = Done::default();
        // Waits for every task that was started, also if this thread panics.
        let _waits = WaitFor(&done);
        for (&device, slot) in devices.iter().zip(&results) {
            let (program, done) = (&program, &done);
            let task: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
                let _ends = done.enter();
                put(slot, run_device(job, device, program));
            });
            // SAFETY: the task is finished, or was never started, before the end of what it
            // borrows, because `_waits` waits for all tasks that were started.
            let task: Task = unsafe { std::mem::transmute(task) };
            done.begin();
            if let Err(error) = workers::start(task) {
                done.finish();
                job.end(device, false);
                let reason = error.to_string();
                put(slot, Err(RunError::NoThread { device, reason }));
            }
        }
    }
    let results = results.into_iter().zip(devices).map(|(result, &device)| {
        let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
        (device, result.unwrap_or(Err(RunError::Panicked { device })))
    });
    of_all(results, job.failed())
}

/// The results of all devices, or else the error of the device that failed first, of which the
/// others' errors are consequences.
fn of_all<T, E>(
    results: impl ExactSizeIterator<Item = (usize, Result<T, RunError<E>>)>,
    failed: Option<usize>,
) -> Result<Vec<T>, RunError<E>> {
    let (mut given, mut errors) = (Vec::with_capacity(results.len()), Vec::new());
    for (device, result) in results {
        match result {
            Ok(value) => given.push(value),
            Err(error) => errors.push((device, error)),
        }
    }
    let first = errors
        .iter()
        .position(|(device, _)| Some(*device) == failed);
    match first
        .map(|first| errors.swap_remove(first))
        .or_else(|| errors.pop())
    {
        Some((_, error)) => Err(error),
        None => Ok(given),
    }
}

fn put<T, E>(slot: &Slot<T, E>, result: Result<T, RunError<E>>) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
}

/// Runs a device's part of a run on this thread.
fn run_device<J: Job, T, E>(
    job: &Arc<J>,
    device: usize,
    program: &(impl Fn(Arc<dyn Communicator>) -> Result<T, E> + Sync),
) -> Result<T, RunError<E>> {
    let communicator = Arc::clone(job).communicator(device);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut running = Running {
            job: &**job,
            device,
            ok: false,
        };
        let result = program(communicator);
        running.ok = result.is_ok();
        result
    }));
    let result = result.map_err(|_| RunError::Panicked { device })?;
    result.map_err(|error| RunError::Device { device, error })
}

/// When dropped, also during a panic, calls [`Job::end`] for the device, so that the other devices
/// learn that its run has ended.
struct Running<'a, J: Job> {
    job: &'a J,
    device: usize,
    ok: bool,
}

impl<J: Job> Drop for Running<'_, J> {
    fn drop(&mut self) {
        self.job.end(self.device, self.ok);
    }
}

/// The number of a run's tasks that are not finished.
#[derive(Default)]
struct Done {
    left: Mutex<usize>,
    changed: Condvar,
}

impl Done {
    fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a task that is about to start.
    fn begin(&self) {
        *self.left() += 1;
    }

    /// Counts a finished task.
    fn finish(&self) {
        let mut left = self.left();
        *left -= 1;
        if *left == 0 {
            // The notification is under the lock, because the waiting thread drops this object as
            // soon as it gets the lock.
            self.changed.notify_all();
        }
    }

    /// Returns a guard that counts the task as finished when it is dropped.
    fn enter(&self) -> impl Drop + '_ {
        struct Leave<'a>(&'a Done);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.finish();
            }
        }
        Leave(self)
    }
}

/// Waits for all tasks when it is dropped.
struct WaitFor<'a>(&'a Done);

impl Drop for WaitFor<'_> {
    fn drop(&mut self) {
        let mut left = self.0.left();
        while *left > 0 {
            let waited = self.0.changed.wait(left);
            left = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
