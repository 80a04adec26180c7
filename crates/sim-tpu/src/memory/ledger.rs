//! Who holds which bytes of each memory, and what that adds up to.

use crate::program::{BufferId, Space};
use std::collections::BTreeSet;

/// Bytes that a placed buffer begins at a multiple of, by memory: a row of lanes, and a
/// word in SMEM.
pub const fn alignment(space: Space) -> i64 {
    match space {
        Space::Smem => 4,
        _ => 512,
    }
}

/// A live buffer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) buffer: BufferId,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// One memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// By first byte.
    live: Vec<Held>,
    /// Places that some buffer of the program states: nothing is put there by choice.
    stated: Vec<(i64, i64)>,
    /// Bytes held, and the most so far.
    pub(crate) used: i64,
    pub(crate) peak: i64,
    /// The greatest end of a held place so far.
    pub(crate) extent: i64,
    /// The most bytes that lay free below the greatest end.
    pub(crate) fragmented: i64,
}

impl Ledger {
    /// `stated` are the places that buffers of the program state in this memory.
    pub(crate) fn new(stated: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let stated: BTreeSet<(i64, i64)> = stated.into_iter().collect();
        Self {
            stated: stated.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Places a buffer: where it says, or at the first gap that holds it. Gives the
    /// first byte, and who else holds part of the place.
    pub(crate) fn place(
        &mut self,
        buffer: BufferId,
        space: Space,
        bytes: i64,
        at: Option<i64>,
    ) -> (i64, Option<BufferId>) {
        let start = at.unwrap_or_else(|| self.first_fit(space, bytes));
        let end = start.saturating_add(bytes);
        let meets = |held: &&Held| held.start < end && start < held.end;
        let other = self.live.iter().find(meets).map(|held| held.buffer);
        let position = self.live.partition_point(|held| held.start <= start);
        self.live.insert(position, Held { buffer, start, end });
        self.used = self.used.saturating_add(bytes);
        self.peak = self.peak.max(self.used);
        self.extent = self.extent.max(end);
        let top = self.live.iter().map(|held| held.end).max().unwrap_or(0);
        self.fragmented = self.fragmented.max(top - self.used.min(top));
        (start, other)
    }

    fn first_fit(&self, space: Space, bytes: i64) -> i64 {
        let mut busy: Vec<(i64, i64)> = self.live.iter().map(|h| (h.start, h.end)).collect();
        busy.extend(&self.stated);
        busy.sort_unstable();
        let align = alignment(space);
        let mut at = 0i64;
        for (start, end) in busy {
            if at.saturating_add(bytes) <= start {
                break;
            }
            let end = end.saturating_add(align - 1) / align * align;
            at = at.max(end);
        }
        at
    }

    /// Ends a buffer's life.
    pub(crate) fn release(&mut self, buffer: BufferId) {
        if let Some(position) = self.live.iter().position(|held| held.buffer == buffer) {
            let held = self.live.remove(position);
            self.used -= held.end - held.start;
        }
    }

    /// Who holds bytes, the most first.
    pub(crate) fn holders(&self) -> Vec<Held> {
        let mut holders = self.live.clone();
        holders.sort_by_key(|held| (held.start - held.end, held.start));
        holders
    }
}
