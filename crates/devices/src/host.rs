//! The host's end of transfers: queues of arrays between a program and whoever runs it.
//!
//! `infeed` takes the oldest entry of the infeed queue, `outfeed` adds one to the outfeed queue. A
//! channel is a queue of its own: `send` adds an entry, `recv` waits for one. Programs that are
//! given the same queues can send to each other.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::Literal;

/// What one transfer carries: the arrays of its value, left to right.
type Entry = Vec<Literal>;

#[derive(Debug, Default)]
struct State {
    infeed: VecDeque<Entry>,
    outfeed: VecDeque<Entry>,
    channels: FxHashMap<i64, VecDeque<Entry>>,
}

/// Queues of arrays between programs and their host.
#[derive(Debug, Default)]
pub struct HostQueues {
    state: Mutex<State>,
    sent: Condvar,
}

impl HostQueues {
    /// The state; a thread that panicked while it held the lock left it whole, as every change is
    /// a single insertion or removal.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds arrays for an `infeed` to take.
    pub fn feed(&self, arrays: Vec<Literal>) {
        self.lock().infeed.push_back(arrays);
    }

    /// The oldest entry that was fed, for an `infeed`.
    pub fn take_infeed(&self) -> Option<Vec<Literal>> {
        self.lock().infeed.pop_front()
    }

    /// Adds arrays that an `outfeed` gives.
    pub fn feed_out(&self, arrays: Vec<Literal>) {
        self.lock().outfeed.push_back(arrays);
    }

    /// The oldest entry that an `outfeed` gave.
    pub fn take_outfeed(&self) -> Option<Vec<Literal>> {
        self.lock().outfeed.pop_front()
    }

    /// Adds arrays to a channel.
    pub fn send(&self, channel: i64, arrays: Vec<Literal>) {
        let mut state = self.lock();
        state.channels.entry(channel).or_default().push_back(arrays);
        self.sent.notify_all();
    }

    /// Takes the oldest entry of a channel; waits for one at most `timeout`. `None` after that.
    pub fn receive(&self, channel: i64, timeout: Duration) -> Option<Vec<Literal>> {
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            let entry = state
                .channels
                .get_mut(&channel)
                .and_then(VecDeque::pop_front);
            if entry.is_some() {
                return entry;
            }
            let left = timeout.checked_sub(start.elapsed())?;
            let waited = self.sent.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
