//! The dispatcher of asynchronous runs, which continue while their caller proceeds.
//!
//! Each calling thread has one queue per device, with a worker thread that executes its runs in
//! their order. A run that takes over an array therefore comes after earlier runs that read it,
//! while runs from different calling threads are executed in parallel.
//!
//! A run waits on its worker thread for arguments that other runs compute or that the host still
//! sends. There is no deadlock: an array is only returned to the caller after its run is in a
//! queue, so each run waits only for earlier runs, and the oldest unfinished run does not wait for
//! any.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;
use tegula::Interrupt;

/// A task of a worker thread. It catches panics.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The maximum number of runs waiting in a queue. A caller that adds another one waits, so that
/// arrays do not pile up in a loop that never looks at results.
const MOST_WAITING: usize = 32;

/// The time after which an idle worker thread ends.
const IDLE: Duration = Duration::from_millis(500);

/// The key of a queue: the calling thread and the id of the device.
type Key = (ThreadId, i32);

/// The queues of a client.
pub(crate) struct Dispatch {
    shared: Arc<Shared>,
    /// Stops runs when the client is destroyed.
    interrupt: Interrupt,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals that a run was added, or that the client is being destroyed.
    more: Condvar,
    /// Signals that a run was taken from a queue, or that a thread has ended.
    fewer: Condvar,
}

#[derive(Default)]
struct State {
    /// The process that the threads belong to; a forked process does not have them.
    process: u32,
    /// The waiting runs. A queue exists as long as its thread.
    queues: HashMap<Key, VecDeque<Task>>,
    is_ending: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The main function of a queue's thread.
    fn work(&self, key: Key) {
        let mut state = self.state();
        loop {
            let Some(queue) = state.queues.get_mut(&key) else {
                return;
            };
            if let Some(task) = queue.pop_front() {
                drop(state);
                self.fewer.notify_all();
                task();
                state = self.state();
                continue;
            }
            let mut is_late = false;
            if !state.is_ending {
                let waited = self.more.wait_timeout(state, IDLE);
                let (locked, time) = waited.unwrap_or_else(PoisonError::into_inner);
                (state, is_late) = (locked, time.timed_out());
            }
            if (is_late || state.is_ending)
                && state.queues.get(&key).is_some_and(VecDeque::is_empty)
            {
                state.queues.remove(&key);
                drop(state);
                self.fewer.notify_all();
                return;
            }
        }
    }
}

impl Dispatch {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::default(),
            interrupt: Interrupt::new(),
        }
    }

    /// The interrupt that stops all runs when the client is destroyed.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// After a fork, the waiting runs of the parent process, whose threads do not exist in this
    /// one.
    fn forked(&self) -> HashMap<Key, VecDeque<Task>> {
        let mut state = self.shared.state();
        let process = std::process::id();
        match std::mem::replace(&mut state.process, process) == process {
            true => HashMap::new(),
            false => std::mem::take(&mut state.queues),
        }
    }

    /// Adds a task after those that this thread added for the same device before.
    ///
    /// # Errors
    /// The task itself, if no thread can be started for it.
    pub(crate) fn submit(&self, device: i32, task: Task) -> Result<(), Task> {
        let key = (std::thread::current().id(), device);
        drop(self.forked());
        let mut state = self.shared.state();
        loop {
            match state.queues.get_mut(&key) {
                None => break,
                Some(queue) if queue.len() < MOST_WAITING => {
                    queue.push_back(task);
                    drop(state);
                    self.shared.more.notify_all();
                    return Ok(());
                }
                Some(_) => {
                    let waited = self.shared.fewer.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new().name("tegula-dispatch".to_owned());
        match builder.spawn(move || shared.work(key)) {
            // The new thread waits for the lock that is held here.
            Ok(_) => {
                state.queues.insert(key, VecDeque::from([task]));
                Ok(())
            }
            Err(_) => Err(task),
        }
    }

    /// Stops all runs, and waits for them.
    pub(crate) fn end(&self) {
        self.interrupt.interrupt();
        drop(self.forked());
        let mut state = self.shared.state();
        state.is_ending = true;
        self.shared.more.notify_all();
        while !state.queues.is_empty() {
            let waited = self.shared.fewer.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
