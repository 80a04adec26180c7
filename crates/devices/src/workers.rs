//! A pool of threads that are reused by later runs, because starting a thread takes longer than
//! running a small program.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// A task for a thread.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The stack size of a thread; evaluation is recursive.
const STACK: usize = 16 << 20;

/// The channels of idle threads, and the process that the threads belong to.
struct Idle {
    process: u32,
    workers: Vec<Sender<Task>>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle {
    process: 0,
    workers: Vec::new(),
});

impl Idle {
    /// Calls `work` with the idle threads of this process. A forked process does not have its
    /// parent's threads.
    fn with<R>(work: impl FnOnce(&mut Vec<Sender<Task>>) -> R) -> R {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if idle.process != process {
            idle.process = process;
            idle.workers.clear();
        }
        work(&mut idle.workers)
    }
}

/// Runs a task, which must not panic, on an idle or new thread.
///
/// # Errors
/// There is no idle thread, and no new one can be started.
pub(crate) fn start(task: Task) -> std::io::Result<()> {
    let mut task = task;
    while let Some(worker) = Idle::with(Vec::pop) {
        match worker.send(task) {
            Ok(()) => return Ok(()),
            Err(unsent) => task = unsent.0,
        }
    }
    let (own, tasks) = channel();
    let builder = std::thread::Builder::new()
        .name("tegula-device".to_owned())
        .stack_size(STACK);
    builder.spawn(move || {
        task();
        loop {
            Idle::with(|workers| workers.push(own.clone()));
            match tasks.recv() {
                Ok(task) => task(),
                Err(_) => return,
            }
        }
    })?;
    Ok(())
}
