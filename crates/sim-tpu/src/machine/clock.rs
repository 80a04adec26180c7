//! A vector clock: what one core knows of the other cores' progress.

/// The newest finished epoch of each core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u32>);

impl Clock {
    pub(super) fn new(cores: usize) -> Self {
        Self(vec![0; cores])
    }

    /// Merges in what another clock knows.
    pub(super) fn learn(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// The newest finished epoch of a core.
    pub(super) fn of(&self, core: usize) -> u32 {
        self.0.get(core).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, core: usize, epoch: u32) {
        if let Some(slot) = self.0.get_mut(core) {
            *slot = epoch;
        }
    }
}
