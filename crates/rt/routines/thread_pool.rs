//! A pool with one thread: the caller's.

/// Whether the work is to stop: never, as an object's program has no limits.
#[inline(always)]
pub(crate) fn is_stopped() -> bool {
    false
}

/// Does parts one after the other.
pub struct ThreadPool;

impl ThreadPool {
    /// How many threads there are.
    pub fn threads(&self) -> usize {
        1
    }

    /// Calls `work` once with every number below `parts`.
    #[inline(always)]
    pub fn run(&self, parts: usize, work: &impl Fn(usize)) {
        (0..parts).for_each(work);
    }
}
