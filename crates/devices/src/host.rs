//! The host's side of transfers: queues of arrays between a program and its host.
//!
//! `infeed` takes the oldest entry of the infeed queue, `outfeed` adds one to the outfeed queue.
//! Each channel is a queue as well: `send` adds an entry, `recv` waits for one. Programs with the
//! same queues can send arrays to each other.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::Literal;

/// The arrays of one transfer, from left to right.
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
    /// The locked state. It is consistent even if a thread panicked while it held the lock, because
    /// every change is a single insertion or removal.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds arrays for an `infeed` to take.
    pub fn feed(&self, arrays: Vec<Literal>) {
        self.lock().infeed.push_back(arrays);
    }

    /// Takes the oldest entry of the infeed queue, for an `infeed`.
    pub fn take_infeed(&self) -> Option<Vec<Literal>> {
        self.lock().infeed.pop_front()
    }

    /// Adds the arrays of an `outfeed`.
    pub fn feed_out(&self, arrays: Vec<Literal>) {
        self.lock().outfeed.push_back(arrays);
    }

    /// Takes the oldest entry of the outfeed queue.
    pub fn take_outfeed(&self) -> Option<Vec<Literal>> {
        self.lock().outfeed.pop_front()
    }

    /// Adds arrays to a channel.
    pub fn send(&self, channel: i64, arrays: Vec<Literal>) {
        let mut state = self.lock();
        state.channels.entry(channel).or_default().push_back(arrays);
        self.sent.notify_all();
    }

    /// Takes the oldest entry of a channel. Waits for one at most `timeout`; `None` after that.
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
