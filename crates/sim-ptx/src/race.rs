//! Race detection: the ordering of accesses, and the last accesses to each word.
//!
//! Time is counted in events: each warp has a clock, which advances at a barrier or warp
//! collective. An access is recorded in 64 bits: the clock, the instruction, the thread, the bytes
//! of the word, and whether it is strong (atomic or volatile). Three accesses are recorded for each
//! word of memory: the last write, the last read, and the last read by a more distant thread (in
//! another warp rather than another lane). Vector clocks of the warps in a block and of the lanes
//! in a warp determine which accesses are ordered before the current one. The clocks of a launch's
//! blocks follow each other, so an access also identifies its block.
//!
//! A race can be missed if one of its accesses is not among the three, but accesses of a reported
//! race are never ordered by barriers or collectives. Between blocks, a fence followed by an atomic
//! releases what the block wrote before, and an atomic acquires what any block has released.

use crate::operation::LANES;

/// The maximum number of warps of a block.
pub(crate) const WARPS: usize = 32;
/// The number of bits of an access's clock.
const CLOCK_BITS: u32 = 30;
/// The clock at which the recorded accesses must be discarded.
pub(crate) const LAST_CLOCK: u32 = (1 << CLOCK_BITS) - (1 << 20);

/// An access: clock (30 bits), instruction (18), thread (10), strong (1), bytes (4). Zero means no
/// access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(pub(crate) u64);

/// The recorded accesses of a word: the last write, the last read, and the last read by a more
/// distant thread. Zero means no access.
pub(crate) type Cell = [u64; 3];

impl Access {
    #[inline(always)]
    pub(crate) fn new(clock: u32, instruction: u32, thread: u32, strong: bool, bytes: u32) -> Self {
        let low = u64::from(bytes) | u64::from(strong) << 4 | u64::from(thread) << 5;
        Self(low | u64::from(instruction) << 15 | u64::from(clock) << 33)
    }

    /// The same access by a later lane; no access stays no access.
    pub(crate) fn of_lane_after(self, lanes: u32) -> Self {
        match self.0 {
            0 => self,
            bits => Self(bits + (u64::from(lanes) << 5)),
        }
    }

    pub(crate) fn clock(self) -> u32 {
        (self.0 >> 33) as u32
    }

    pub(crate) fn instruction(self) -> u32 {
        (self.0 >> 15) as u32 & 0x3_ffff
    }

    pub(crate) fn thread(self) -> u32 {
        (self.0 >> 5) as u32 & 0x3ff
    }

    fn strong(self) -> bool {
        self.0 >> 4 & 1 != 0
    }

    fn bytes(self) -> u32 {
        self.0 as u32 & 15
    }
}

/// The clocks of a block's warps.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// The clock at which this block started.
    start: u32,
    /// The clock at which this launch started.
    launch: u32,
    now: [u32; WARPS],
    /// Accesses of warp `v` before clock `seen[w][v]` are ordered before those of warp `w`.
    seen: Box<[[u32; WARPS]; WARPS]>,
    /// Accesses of the warp before this clock are ordered before those of all its lanes.
    whole: [u32; WARPS],
    /// The same for pairs of lanes, because of collectives of a part of the warp.
    lanes: Vec<Option<Box<[[u32; LANES]; LANES]>>>,
    /// For each block so far, its start clock, and the clock up to which its writes are released.
    blocks: Vec<(u32, u32)>,
    /// Whether the block has executed a fence, and afterwards an atomic.
    fenced: bool,
    acquired: bool,
}

impl Clocks {
    pub(crate) fn new(launch: u32) -> Self {
        Self {
            start: launch,
            launch,
            now: [launch; WARPS],
            seen: Box::new([[launch; WARPS]; WARPS]),
            whole: [launch; WARPS],
            lanes: vec![None; WARPS],
            blocks: Vec::new(),
            fenced: false,
            acquired: false,
        }
    }

    fn latest(&self) -> u32 {
        self.now.iter().copied().max().unwrap_or(self.launch)
    }

    /// Starts the next block: advances all clocks past those of the last block. Returns false if
    /// the clocks are exhausted.
    pub(crate) fn next_block(&mut self) -> bool {
        let start = self.latest() + 1;
        self.start = start;
        self.now = [start; WARPS];
        *self.seen = [[start; WARPS]; WARPS];
        self.whole = [start; WARPS];
        self.lanes.iter_mut().for_each(|l| *l = None);
        self.blocks.push((start, 0));
        (self.fenced, self.acquired) = (false, false);
        start < LAST_CLOCK
    }

    /// Whether a word was written in this launch.
    pub(crate) fn written_in_launch(&self, cell: &Cell) -> bool {
        cell[0] != 0 && Access(cell[0]).clock() >= self.launch
    }

    /// The clock at which the running block started.
    pub(crate) fn block_start(&self) -> u32 {
        self.start
    }

    /// A clock after all accesses.
    pub(crate) fn end(&self) -> u32 {
        self.latest() + 1
    }

    #[inline(always)]
    pub(crate) fn now(&self, warp: usize) -> u32 {
        self.now[warp]
    }

    /// Records a collective of `members`, which are all live lanes if `whole` is set.
    pub(crate) fn collective(&mut self, warp: usize, members: u32, whole: bool) {
        self.now[warp] += 1;
        let now = self.now[warp];
        if whole {
            self.whole[warp] = now;
            return;
        }
        let table = self.lanes[warp].get_or_insert_with(|| Box::new([[0; LANES]; LANES]));
        let mut joined = [0; LANES];
        for lane in (0..LANES).filter(|l| members >> l & 1 != 0) {
            (0..LANES).for_each(|k| joined[k] = joined[k].max(table[lane][k]));
        }
        (0..LANES)
            .filter(|l| members >> l & 1 != 0)
            .for_each(|l| joined[l] = now);
        (0..LANES)
            .filter(|l| members >> l & 1 != 0)
            .for_each(|l| table[l] = joined);
    }

    /// Records a block barrier: accesses of the warps in `arrived` are ordered before those of the
    /// warps in `waited`.
    pub(crate) fn barrier(&mut self, arrived: u32, waited: u32) {
        let mut joined = [0; WARPS];
        for warp in (0..WARPS).filter(|w| arrived >> w & 1 != 0) {
            self.now[warp] += 1;
            joined[warp] = joined[warp].max(self.now[warp]);
            (0..WARPS).for_each(|v| joined[v] = joined[v].max(self.seen[warp][v]));
        }
        for warp in (0..WARPS).filter(|w| waited >> w & 1 != 0) {
            (0..WARPS).for_each(|v| self.seen[warp][v] = self.seen[warp][v].max(joined[v]));
            self.whole[warp] = self.now[warp];
        }
    }

    pub(crate) fn fence(&mut self) {
        self.fenced = true;
    }

    /// Records an atomic on global memory.
    pub(crate) fn atomic(&mut self) {
        self.acquired = true;
        if self.fenced {
            let latest = self.latest();
            if let Some(block) = self.blocks.last_mut() {
                block.1 = latest;
            }
        }
    }

    /// The number of the block that made an access, if it was in this launch.
    pub(crate) fn block_of(&self, access: Access) -> Option<usize> {
        self.blocks
            .partition_point(|b| b.0 <= access.clock())
            .checked_sub(1)
    }

    /// Whether an earlier access is ordered before a current one by `thread`.
    #[inline(always)]
    fn ordered(&self, earlier: Access, thread: u32, shared: bool) -> bool {
        let clock = earlier.clock();
        if clock < self.launch {
            return true;
        }
        if clock < self.start {
            // Shared memory is new for each block.
            return shared
                || self.acquired
                    && self
                        .block_of(earlier)
                        .is_some_and(|b| clock <= self.blocks[b].1);
        }
        let other = earlier.thread();
        if other == thread {
            return true;
        }
        let (warp, from) = ((thread / 32) as usize, (other / 32) as usize);
        if warp != from {
            return clock < self.seen[warp][from];
        }
        clock < self.whole[warp]
            || self.lanes[warp]
                .as_ref()
                .is_some_and(|table| clock < table[thread as usize % LANES][other as usize % LANES])
    }

    #[inline(always)]
    fn conflicts(&self, earlier: Access, now: Access, shared: bool) -> bool {
        earlier.0 != 0
            && earlier.bytes() & now.bytes() != 0
            && !(earlier.strong() && now.strong())
            && !self.ordered(earlier, now.thread(), shared)
    }

    /// The distance to the thread of an earlier access, if the two are not ordered; 0 if they are.
    fn distance(&self, earlier: Access, now: Access, shared: bool) -> u32 {
        if earlier.0 == 0 || self.ordered(earlier, now.thread(), shared) {
            0
        } else if earlier.clock() < self.start {
            3
        } else if earlier.thread() / 32 == now.thread() / 32 {
            1
        } else {
            2
        }
    }

    /// Whether an access of this block came after the last barrier of a warp.
    #[inline(always)]
    fn pending(&self, access: Access, warp: u32) -> bool {
        let (clock, from) = (access.clock(), access.thread() / 32);
        let seen = &self.seen[warp as usize % WARPS];
        let since = if from == warp {
            self.whole[warp as usize % WARPS]
        } else {
            seen[from as usize % WARPS]
        };
        clock >= self.start && clock >= since
    }

    /// Whether the last read is more useful than the recorded read by a more distant thread, and
    /// should replace it.
    #[inline(always)]
    fn replaces(&self, last: Access, kept: Access, now: Access, shared: bool) -> bool {
        if kept.clock() < self.launch {
            return true;
        }
        // No thread is more distant than one in another block.
        if kept.clock() < self.start && !shared && !self.acquired {
            return false;
        }
        self.distance(last, now, shared) >= self.distance(kept, now, shared)
    }

    /// Records a read of a word; returns the write that it races with, if any.
    #[inline(always)]
    pub(crate) fn read(&self, cell: &mut Cell, now: Access, shared: bool) -> Option<Access> {
        let write = Access(cell[0]);
        let race = self.conflicts(write, now, shared);
        let last = Access(cell[1]);
        // The recorded readers are in two warps and not ordered. Any writer now races with one of
        // them, so further readers need not be recorded.
        let kept = Access(cell[2]);
        if last.thread() / 32 != kept.thread() / 32
            && now.bytes() & !(last.bytes() & kept.bytes()) == 0
            && self.pending(last, now.thread() / 32)
            && self.pending(kept, now.thread() / 32)
        {
            return race.then_some(write);
        }
        let own = last.clock() >= self.start && last.thread() == now.thread();
        if last.clock() >= self.launch && !own && self.replaces(last, kept, now, shared) {
            cell[2] = last.0;
        }
        cell[1] = now.0;
        race.then_some(write)
    }

    /// Records a write of a word; returns the access that it races with, if any. `same` says that
    /// the word had this value already, which makes two writes harmless.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        cell: &mut Cell,
        now: Access,
        shared: bool,
        same: bool,
    ) -> Option<Access> {
        let before = cell.map(Access);
        *cell = [now.0, 0, 0];
        // After a write of a part of a word, the accesses to the rest are kept.
        if now.bytes() != 15 {
            cell[1..].copy_from_slice(&[before[1].0, before[2].0]);
        }
        if !same && self.conflicts(before[0], now, shared) {
            return Some(before[0]);
        }
        [before[1], before[2]]
            .into_iter()
            .find(|read| self.conflicts(*read, now, shared))
    }
}
