//! Which accesses are ordered, and the last ones to each word.
//!
//! Time is counted in events: each warp has a clock that a barrier or a collective
//! of the warp moves on. An access is a word of 64 bits with the clock, the
//! instruction, the thread, the bytes of the word and whether it is strong (atomic
//! or volatile). For each word of memory three are kept: the last write, the last
//! read, and the last read of a thread further away (another warp rather than
//! another lane). What is ordered before an access is told by vector clocks, of
//! warps within the block and of lanes within the warp. The clocks of a launch's
//! blocks lie one after another, so that an access tells its block too.
//!
//! An access that the three do not keep can hide a race of its word, but none that
//! is reported is ordered by barriers or collectives. Between blocks, a fence
//! followed by an atomic releases what a block wrote before, and an atomic acquires
//! what any block released.

use crate::operation::LANES;

/// Warps of a block.
pub(crate) const WARPS: usize = 32;
/// Bits of an access's clock.
const CLOCK_BITS: u32 = 30;
/// The clock at which the shadow must be forgotten.
pub(crate) const LAST_CLOCK: u32 = (1 << CLOCK_BITS) - (1 << 20);

/// An access: clock 30, instruction 18, thread 10, strong 1, bytes 4 bits. Zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(pub(crate) u64);

/// The accesses kept of a word: the last write, the last read, and the last read of a thread
/// further away; zero is none.
pub(crate) type Cell = [u64; 3];

impl Access {
    #[inline(always)]
    pub(crate) fn new(clock: u32, instruction: u32, thread: u32, strong: bool, bytes: u32) -> Self {
        let low = u64::from(bytes) | u64::from(strong) << 4 | u64::from(thread) << 5;
        Self(low | u64::from(instruction) << 15 | u64::from(clock) << 33)
    }

    /// The same access by a later lane; none stays none.
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
    /// Clock at which this block started.
    start: u32,
    /// Clock at which this launch started.
    launch: u32,
    now: [u32; WARPS],
    /// Accesses of warp `v` before `seen[w][v]` are ordered before those of `w`.
    seen: Box<[[u32; WARPS]; WARPS]>,
    /// Accesses of the warp before this are ordered before all its lanes.
    whole: [u32; WARPS],
    /// The same by pairs of lanes, for collectives of part of a warp.
    lanes: Vec<Option<Box<[[u32; LANES]; LANES]>>>,
    /// For each block so far: its start, and until when its writes are released.
    blocks: Vec<(u32, u32)>,
    /// Whether the block executed a fence, and then an atomic.
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

    /// Starts the next block: all clocks move past those of the last one. False if
    /// they are at their end.
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

    /// The clock after everything.
    pub(crate) fn end(&self) -> u32 {
        self.latest() + 1
    }

    #[inline(always)]
    pub(crate) fn now(&self, warp: usize) -> u32 {
        self.now[warp]
    }

    /// A collective of `members`, which are all live lanes if `whole`.
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

    /// A barrier of the block: warps of `arrived` come before those of `waited`.
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

    /// An atomic on global memory.
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

    /// Whether an earlier access is ordered before one of `thread` now.
    #[inline(always)]
    fn ordered(&self, earlier: Access, thread: u32, shared: bool) -> bool {
        let clock = earlier.clock();
        if clock < self.launch {
            return true;
        }
        if clock < self.start {
            // Shared memory starts anew with each block.
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

    /// How far away the thread of an access that is not ordered is.
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

    /// Whether an access of this block comes after the last barrier of a warp.
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

    /// Whether the last read is worth more than the one kept beside it, which is of a
    /// thread further away.
    #[inline(always)]
    fn replaces(&self, last: Access, kept: Access, now: Access, shared: bool) -> bool {
        if kept.clock() < self.launch {
            return true;
        }
        // Nothing is further away than another block.
        if kept.clock() < self.start && !shared && !self.acquired {
            return false;
        }
        self.distance(last, now, shared) >= self.distance(kept, now, shared)
    }

    /// Notes a read of a word; gives the write that it races with.
    #[inline(always)]
    pub(crate) fn read(&self, cell: &mut Cell, now: Access, shared: bool) -> Option<Access> {
        let write = Access(cell[0]);
        let race = self.conflicts(write, now, shared);
        let last = Access(cell[1]);
        // Readers of two warps that nothing orders: whoever writes now races with one of
        // them, and more readers change nothing.
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

    /// Notes a write of a word; gives the access that it races with. `same`: the
    /// word already held the value, which makes two writes harmless.
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
        // A part of a word keeps what is known of the rest.
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
