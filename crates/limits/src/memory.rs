//! The count of the bytes of a scope's arrays, kept by the code that allocates them.

use crate::{Scope, Stopped, current};
use std::sync::atomic::Ordering;

/// Bytes that count as claimed until this value is dropped.
#[derive(Debug)]
#[must_use = "the bytes are counted until the claim is dropped"]
pub struct Claim {
    scope: Option<Scope>,
    bytes: u64,
}

impl Claim {
    /// Keeps the bytes counted permanently, in all enclosing scopes: the allocation outlives them.
    pub fn keep(mut self) {
        self.scope = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        give_back(self.scope.as_ref(), None, self.bytes);
    }
}

/// Subtracts bytes from the scopes from the innermost one outwards, up to but not including `end`.
fn give_back(innermost: Option<&Scope>, end: Option<&Scope>, bytes: u64) {
    let mut next = innermost;
    while let Some(scope) = next {
        if end.is_some_and(|end| std::ptr::eq(&*end.0, &*scope.0)) {
            return;
        }
        scope.0.used.fetch_sub(bytes, Ordering::Relaxed);
        next = scope.0.outer.as_ref();
    }
}

/// Claims bytes that are about to be allocated, in this thread's scope and the enclosing ones.
///
/// # Errors
/// The bytes exceed a memory limit; nothing is counted then.
pub fn claim(bytes: u64) -> Result<Claim, Stopped> {
    let innermost = current();
    let mut next = innermost.as_ref();
    while let Some(scope) = next {
        let limit = scope.0.memory;
        let add = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        let relaxed = Ordering::Relaxed;
        if let Err(used) = scope.0.used.fetch_update(relaxed, relaxed, add) {
            give_back(innermost.as_ref(), Some(scope), bytes);
            return Err(Stopped::Memory {
                wanted: bytes,
                used,
                limit,
            });
        }
        next = scope.0.outer.as_ref();
    }
    Ok(Claim {
        scope: innermost,
        bytes,
    })
}

/// The bytes that may still be claimed on this thread; [`None`] without a limit.
pub fn room() -> Option<u64> {
    let innermost = current();
    let mut room = u64::MAX;
    let mut next = innermost.as_ref();
    while let Some(scope) = next {
        let used = scope.0.used.load(Ordering::Relaxed);
        if scope.0.memory < u64::MAX {
            room = room.min(scope.0.memory.saturating_sub(used));
        }
        next = scope.0.outer.as_ref();
    }
    (room < u64::MAX).then_some(room)
}
