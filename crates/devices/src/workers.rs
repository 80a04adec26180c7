//! Threads that stay for the next run: starting one costs more than a small program.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// What a thread does once.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// Stack of a thread: programs are evaluated by recursion.
const STACK: usize = 16 << 20;

/// The ways to threads that wait for a task, and the process that they are of.
struct Idle {
    process: u32,
    workers: Vec<Sender<Task>>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle {
    process: 0,
    workers: Vec::new(),
});

impl Idle {
    /// Those of this process: a forked one has no threads of its parent's.
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

/// Has a thread do the task, which must not panic.
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
