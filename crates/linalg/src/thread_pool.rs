//! A pool of a few threads that work on the parts of a task; the calling thread takes parts too.
//!
//! The caller decides how the task is split, so that results do not depend on which thread takes
//! which part. A worker polls for new work for a short while and then sleeps. A caller that finds
//! the workers busy with another caller's task does all its parts itself. Nobody waits for a thread
//! that has not begun: the caller does the parts that no worker has taken. Workers run within the
//! caller's [scope](tegula_limits::Scope).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use tegula_limits::Scope;

/// Whether this thread's work is to stop: routines check it now and then, and leave the rest of
/// their result unwritten.
pub(crate) use tegula_limits::is_stopped;

/// The number of polls for work before a worker sleeps: a few microseconds.
const SPINS: u32 = 2000;

/// A pool of threads that wait for work.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The requested number of threads: tasks are split for that many, whoever does the parts.
    threads: usize,
    /// Held by the caller whose task the workers do.
    caller: Mutex<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The number of tasks so far: it changes when there is a new one.
    generation: AtomicU64,
    /// The next part that nobody has taken.
    next: AtomicUsize,
    /// The number of workers that may be executing the task.
    active: AtomicUsize,
    wake: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct State {
    job: Option<Job>,
    stop: bool,
}

#[derive(Clone)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    parts: usize,
    scope: Option<Scope>,
}

// SAFETY: the work may be called by several threads at once, and is called only
// while its owner waits in `ThreadPool::run`.
unsafe impl Send for Job {}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_parts(&self, work: &(dyn Fn(usize) + Sync), parts: usize) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return;
            }
            work(part);
        }
    }

    fn worker(&self) {
        let mut seen = 0;
        loop {
            for _ in 0..SPINS {
                if self.generation.load(Ordering::Acquire) != seen {
                    break;
                }
                std::hint::spin_loop();
            }
            let mut state = self.state();
            let job = loop {
                if state.stop {
                    return;
                }
                let generation = self.generation.load(Ordering::Acquire);
                if generation != seen {
                    seen = generation;
                    if let Some(job) = &state.job {
                        break job.clone();
                    }
                }
                state = self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            };
            self.active.fetch_add(1, Ordering::AcqRel);
            drop(state);
            let leave = Leave(self);
            // SAFETY: the work lives until its caller has seen `active` at 0, and
            // this thread was counted while the job was there.
            let work = unsafe { &*job.work };
            tegula_limits::enter(job.scope.as_ref(), || self.take_parts(work, job.parts));
            drop(leave);
        }
    }
}

/// A guard that reports that a worker has left the task, also when it panics.
struct Leave<'a>(&'a Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let state = self.0.state();
        if self.0.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.done.notify_all();
        }
        drop(state);
    }
}

impl ThreadPool {
    /// A pool for this many threads, including the caller. It works with fewer if the system
    /// provides fewer.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let spawn = |i: usize| {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("tegula-{i}"));
            builder.spawn(move || shared.worker()).ok()
        };
        let workers = (1..threads).map_while(spawn).collect();
        Self {
            shared,
            workers,
            threads: threads.max(1),
            caller: Mutex::new(()),
        }
    }

    /// The process's shared pool for this many threads. It exists while someone holds it:
    /// executables share it, so that a process with hundreds of them has no more threads than with
    /// one.
    pub fn shared(threads: usize) -> Arc<Self> {
        static POOLS: Mutex<Vec<(usize, Weak<ThreadPool>)>> = Mutex::new(Vec::new());
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|(_, pool)| pool.strong_count() > 0);
        let known = pools.iter().find(|(known, _)| *known == threads);
        if let Some(pool) = known.and_then(|(_, pool)| pool.upgrade()) {
            return pool;
        }
        let pool = Arc::new(Self::new(threads));
        pools.push((threads, Arc::downgrade(&pool)));
        pool
    }

    /// The number of threads, including the caller.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Calls `work` once with every number below `parts`, and returns when all calls have returned.
    pub fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        let caller = match self.caller.try_lock() {
            Ok(guard) if parts > 1 && !self.workers.is_empty() => guard,
            _ => return (0..parts).for_each(work),
        };
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes; this function does not return before
        // the job is gone and no worker is inside it.
        let work_pointer = unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(work)
        };
        let mut state = shared.state();
        shared.next.store(0, Ordering::Relaxed);
        state.job = Some(Job {
            work: work_pointer,
            parts,
            scope: tegula_limits::current(),
        });
        shared.generation.fetch_add(1, Ordering::Release);
        drop(state);
        shared.wake.notify_all();
        let finish = Finish(shared);
        shared.take_parts(work, parts);
        drop(finish);
        drop(caller);
    }
}

/// A guard that withdraws the job, and waits until no worker executes it.
struct Finish<'a>(&'a Shared);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        for _ in 0..SPINS {
            if self.0.active.load(Ordering::Acquire) == 0 {
                break;
            }
            std::hint::spin_loop();
        }
        let mut state = self.0.state();
        state.job = None;
        while self.0.active.load(Ordering::Acquire) != 0 {
            let waited = self.0.done.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.generation.fetch_add(1, Ordering::Release);
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has no result to collect.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn every_part_is_done_once() {
        for threads in [1, 2, 5] {
            let pool = ThreadPool::new(threads);
            for parts in [0, 1, 2, 3, 64] {
                let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                for _ in 0..200 {
                    pool.run(parts, &|i| {
                        counts[i].fetch_add(1, Ordering::Relaxed);
                    });
                }
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 200));
            }
        }
    }

    #[test]
    fn several_callers_share_it() {
        let pool = ThreadPool::new(2);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        pool.run(4, &|i| {
                            total.fetch_add(i, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 3 * 200 * 6);
    }

    #[test]
    fn work_that_asks_for_work_is_done() {
        let pool = ThreadPool::new(2);
        let total = AtomicUsize::new(0);
        pool.run(2, &|_| {
            pool.run(3, &|_| {
                total.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(total.load(Ordering::Relaxed), 6);
    }
}
