//! A pool with one thread: the caller's.

/// Whether the work is to stop: never, because a compiled program has no limits.
#[inline(always)]
pub(crate) fn is_stopped() -> bool {
    false
}

/// Executes parts one after the other.
pub struct ThreadPool;

impl ThreadPool {
    /// The number of threads.
    pub fn threads(&self) -> usize {
        1
    }

    /// Calls `work` once with every number below `parts`.
    #[inline(always)]
    pub fn run(&self, parts: usize, work: &impl Fn(usize)) {
        (0..parts).for_each(work);
    }
}
