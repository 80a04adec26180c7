//! Signals, which are raised once, with a cause, and then raise the signals that follow them.

use crate::Stopped;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

#[derive(Default)]
pub(crate) struct Signal {
    /// 0 until the signal is raised, then its cause.
    cause: AtomicU8,
    followers: Mutex<Vec<Weak<Signal>>>,
    /// The counter that counts the signal while it is raised.
    count: Option<&'static AtomicUsize>,
}

const INTERRUPTED: u8 = 1;
const TIMEOUT: u8 = 2;

impl Signal {
    /// A signal that is counted from when it is raised until it is dropped.
    pub(crate) fn counted(count: &'static AtomicUsize) -> Self {
        let mut signal = Self::default();
        signal.count = Some(count);
        signal
    }

    /// The cause, if the signal was raised.
    pub(crate) fn cause(&self) -> Option<Stopped> {
        match self.cause.load(Ordering::Acquire) {
            0 => None,
            TIMEOUT => Some(Stopped::Timeout),
            _ => Some(Stopped::Interrupted),
        }
    }

    /// The byte that is not zero once the signal was raised.
    pub(crate) fn flag(&self) -> &AtomicU8 {
        &self.cause
    }

    /// Raises the signal and all that follow it; the first cause stays.
    pub(crate) fn raise(&self, cause: Stopped) {
        let code = match cause {
            Stopped::Timeout => TIMEOUT,
            _ => INTERRUPTED,
        };
        let followers = std::mem::take(&mut *{
            // Under the lock, so that a follower added concurrently either sees the cause or is in
            // the list.
            let followers = self.followers();
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if self
                .cause
                .compare_exchange(0, code, success, failure)
                .is_err()
            {
                return;
            }
            if let Some(count) = self.count {
                count.fetch_add(1, Ordering::Relaxed);
            }
            followers
        });
        for follower in followers.iter().filter_map(Weak::upgrade) {
            follower.raise(cause);
        }
    }

    /// Makes `follower` be raised along with this signal.
    pub(crate) fn followed_by(&self, follower: &Arc<Self>) {
        let mut followers = self.followers();
        if let Some(cause) = self.cause() {
            drop(followers);
            follower.raise(cause);
            return;
        }
        // Followers of finished work are removed when the list would grow.
        if followers.len() == followers.capacity() {
            followers.retain(|known| known.strong_count() > 0);
        }
        followers.push(Arc::downgrade(follower));
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Weak<Self>>> {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        if let Some(count) = self.count
            && self.cause().is_some()
        {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
