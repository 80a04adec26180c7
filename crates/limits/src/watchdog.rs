//! The watchdog thread, which raises signals at their deadlines. It starts with the first deadline
//! of the process.

use crate::Stopped;
use crate::signal::Signal;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    runs: false,
    next: 0,
    deadlines: BTreeMap::new(),
});
static EARLIER: Condvar = Condvar::new();

struct Watched {
    /// Whether the thread was started.
    runs: bool,
    /// The number of the next deadline, which tells equal times apart.
    next: u64,
    deadlines: BTreeMap<(Instant, u64), Weak<Signal>>,
}

/// A registered deadline; dropping this value removes it.
pub(crate) struct Watch((Instant, u64));

impl Drop for Watch {
    fn drop(&mut self) {
        watched().deadlines.remove(&self.0);
    }
}

/// Raises a signal after a timeout. Returns [`None`] if the timeout is beyond the range of the
/// clock or zero.
pub(crate) fn watch(timeout: Duration, signal: &Arc<Signal>) -> Result<Option<Watch>, Stopped> {
    if timeout.is_zero() {
        signal.raise(Stopped::Timeout);
        return Ok(None);
    }
    // A browser has neither a clock nor threads.
    if cfg!(all(target_family = "wasm", target_os = "unknown")) {
        return Err(Stopped::NoWatchdog);
    }
    let Some(at) = Instant::now().checked_add(timeout) else {
        return Ok(None);
    };
    let mut watched = watched();
    if !watched.runs {
        let builder = std::thread::Builder::new().name("tegula-watchdog".to_owned());
        builder.spawn(run).map_err(|_| Stopped::NoWatchdog)?;
        watched.runs = true;
    }
    let key = (at, watched.next);
    watched.next += 1;
    watched.deadlines.insert(key, Arc::downgrade(signal));
    if watched.deadlines.first_key_value().map(|(first, _)| *first) == Some(key) {
        EARLIER.notify_one();
    }
    Ok(Some(Watch(key)))
}

fn run() {
    let mut watched = watched();
    loop {
        let now = Instant::now();
        let Some((&(at, number), _)) = watched.deadlines.first_key_value() else {
            watched = EARLIER
                .wait(watched)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        if at > now {
            let waited = EARLIER.wait_timeout(watched, at - now);
            watched = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        let due = watched.deadlines.remove(&(at, number));
        if let Some(signal) = due.and_then(|signal| signal.upgrade()) {
            // The lock is released first, because a scope that ends takes it.
            drop(watched);
            signal.raise(Stopped::Timeout);
            drop(signal);
            watched = self::watched();
        }
    }
}

fn watched() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}
