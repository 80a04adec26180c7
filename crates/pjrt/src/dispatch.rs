//! Dispatch: runs that go on while whoever asked for them continues.
//!
//! Every thread that asks has, for each device, a queue with a thread that does its runs in the order in
//! which they were asked for. So a run that takes an array over comes after those that read it, and what
//! different threads ask for is done at once.
//!
//! A run waits on its queue's thread for arguments that other runs compute or the host still sends. No two
//! runs wait for each other: an array is only handed out once its run is in a queue, so each run waits for
//! runs that were asked for before it, and the oldest that is not done waits for none.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;
use tegula::Interrupt;

/// What a queue's thread does. Panics are caught inside.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// How many runs wait in a queue at most: whoever asks for another waits too, so that arrays of a loop
/// that asks without looking at results do not pile up.
const MOST_WAITING: usize = 32;

/// How long a queue's thread waits for another run before it ends.
const IDLE: Duration = Duration::from_millis(500);

/// Whose queue it is: the asking thread's, for the device of this id.
type Key = (ThreadId, i32);

/// The queues of a client.
pub(crate) struct Dispatch {
    shared: Arc<Shared>,
    /// Set when the client goes: stops runs.
    interrupt: Interrupt,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A run came, or the client goes.
    more: Condvar,
    /// A run was taken out of a queue, or a thread ended.
    fewer: Condvar,
}

#[derive(Default)]
struct State {
    /// The process of the threads: a fork has none of them.
    process: u32,
    /// The runs that wait. A queue is here as long as it has a thread.
    queues: HashMap<Key, VecDeque<Task>>,
    is_ending: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a queue's thread does.
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

    /// What stops all runs when the client goes.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// After a fork, what waited in the other process's queues: its threads are not here.
    fn forked(&self) -> HashMap<Key, VecDeque<Task>> {
        let mut state = self.shared.state();
        let process = std::process::id();
        match std::mem::replace(&mut state.process, process) == process {
            true => HashMap::new(),
            false => std::mem::take(&mut state.queues),
        }
    }

    /// Has a task done after those that this thread gave for the same device before.
    ///
    /// # Errors
    /// The task, where the system gives no thread for it.
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
            // The thread waits for the lock that is held here.
            Ok(_) => {
                state.queues.insert(key, VecDeque::from([task]));
                Ok(())
            }
            Err(_) => Err(task),
        }
    }

    /// Stops all runs, and waits for that.
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
