//! The allocator of a memory: which buffer holds which bytes, and the totals.

use crate::program::{BufferId, Space};
use std::collections::BTreeSet;

/// The alignment of a placed buffer in bytes, by memory: a row of lanes, and a word in SMEM.
pub const fn alignment(space: Space) -> i64 {
    match space {
        Space::Smem => 4,
        _ => 512,
    }
}

/// The bytes that a live buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) buffer: BufferId,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

/// The allocations of one memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// The live allocations, by first byte.
    live: Vec<Held>,
    /// Places that the program states for some buffer: other buffers are not placed there.
    stated: Vec<(i64, i64)>,
    /// Bytes held now, and at most so far.
    pub(crate) used: i64,
    pub(crate) peak: i64,
    /// The greatest end of an allocation so far.
    pub(crate) extent: i64,
    /// The most bytes that were free below the greatest live end.
    pub(crate) fragmented: i64,
}

impl Ledger {
    /// An empty memory; `stated` are the places that the program's buffers state in it.
    pub(crate) fn new(stated: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let stated: BTreeSet<(i64, i64)> = stated.into_iter().collect();
        Self {
            stated: stated.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Places a buffer: at its stated offset, or in the first gap that is large enough. Returns the
    /// first byte, and another buffer that holds part of the place.
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

    /// The live allocations, the largest first.
    pub(crate) fn holders(&self) -> Vec<Held> {
        let mut holders = self.live.clone();
        holders.sort_by_key(|held| (held.start - held.end, held.start));
        holders
    }
}
