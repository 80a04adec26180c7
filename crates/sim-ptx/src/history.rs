//! The history of a memory region: the last accesses to each word.
//!
//! A warp usually accesses a whole line of 32 words, each lane the same number of adjacent words.
//! All words of such a line have the same accesses except for the threads, which are consecutive,
//! and the ordering before them is the same for all. The line then stores only three accesses,
//! those of its first word. Any other access expands them to one set per word, and the next write
//! of the whole line merges them again. A line whose lanes access 16 bytes each, in any order,
//! stores three accesses for every four words.

use crate::race::{Access, Cell};

/// The number of words in a line.
pub(crate) const LINE: usize = 32;

/// The representation of a line's accesses; zero means that the line was never accessed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way(u8);

impl Way {
    const UNTOUCHED: Self = Self(0);
    /// One set of accesses per word.
    const WORDS: Self = Self(1);

    /// One set for every four words, stored at the first of them.
    const QUADS: Self = Self(2);

    /// One set for the line, for lanes of this many words: 1, 2 or 4.
    fn lanes(words: usize) -> Self {
        Self(3 + words.trailing_zeros() as u8)
    }
}

/// The number of words in 16 bytes.
const QUAD: usize = 4;

/// The accesses to the words of a memory region; empty until the first access.
#[derive(Debug, Default)]
pub(crate) struct History {
    words: Vec<Cell>,
    lines: Vec<Cell>,
    /// A [`Way`] for each line. Plain numbers are used because zeroed memory costs nothing until it
    /// is accessed.
    ways: Vec<u8>,
}

impl History {
    /// Allocates the history for this number of words.
    pub(crate) fn track(&mut self, words: usize) {
        if self.words.is_empty() {
            let lines = words.div_ceil(LINE);
            self.words = vec![[0; 3]; words];
            self.lines = vec![[0; 3]; lines];
            self.ways = vec![0; lines];
        }
    }

    /// The accesses of words within one line, if the line stores one set per word.
    #[inline(always)]
    pub(crate) fn words(&mut self, from: usize, to: usize) -> Option<&mut [Cell]> {
        if self.ways.get(from / LINE).copied() != Some(Way::WORDS.0) {
            self.write_out(from / LINE);
        }
        self.words.get_mut(from..to)
    }

    /// The accesses of four words, if the line stores one set for every four words.
    #[inline(always)]
    pub(crate) fn quad(&mut self, word: usize) -> Option<&mut Cell> {
        if self.ways.get(word / LINE).copied() != Some(Way::QUADS.0)
            && !self.write_out_quads(word / LINE)
        {
            return None;
        }
        self.words.get_mut(word)
    }

    /// Changes a line to one set for every four words; false if it stores one set per word.
    #[cold]
    fn write_out_quads(&mut self, line: usize) -> bool {
        let (Some(way), Some(cell)) = (self.ways.get_mut(line), self.lines.get(line)) else {
            return false;
        };
        let before = Way(*way);
        if before != Way::UNTOUCHED && before != Way::lanes(QUAD) {
            return false;
        }
        *way = Way::QUADS.0;
        if before == Way::UNTOUCHED {
            return true;
        }
        let words = self.words.iter_mut().skip(line * LINE).take(LINE);
        for (lane, target) in words.step_by(QUAD).enumerate() {
            *target = cell.map(|access| Access(access).of_lane_after(lane as u32).0);
        }
        true
    }

    #[cold]
    fn write_out(&mut self, line: usize) {
        let (Some(way), Some(cell)) = (self.ways.get_mut(line), self.lines.get(line)) else {
            return;
        };
        let before = Way(std::mem::replace(way, Way::WORDS.0));
        if before == Way::UNTOUCHED {
            return;
        }
        if before == Way::QUADS {
            let words = self.words.iter_mut().skip(line * LINE).take(LINE);
            let mut first = [0; 3];
            for (word, target) in words.enumerate() {
                match word % QUAD {
                    0 => first = *target,
                    _ => *target = first,
                }
            }
            return;
        }
        let shift = before.0 - Way::lanes(1).0;
        let words = self.words.iter_mut().skip(line * LINE).take(LINE);
        for (word, target) in words.enumerate() {
            *target = cell.map(|access| Access(access).of_lane_after((word >> shift) as u32).0);
        }
    }

    /// Records an access to all words of a line by adjacent lanes of `per_lane` words each; `now`
    /// is the first lane's. `note` records it for the first word, and returns whether there is no
    /// race. Returns false, without recording anything, if the words of the line must be examined
    /// individually.
    #[inline(always)]
    pub(crate) fn whole_line(
        &mut self,
        line: usize,
        per_lane: usize,
        now: Access,
        note: impl FnOnce(&mut Cell) -> bool,
    ) -> bool {
        let own = Way::lanes(per_lane);
        let (Some(way), Some(cell)) = (self.ways.get_mut(line), self.lines.get_mut(line)) else {
            return false;
        };
        let is_full = (line + 1) * LINE <= self.words.len();
        let before = Way(*way);
        if !is_full || (before != own && before != Way::UNTOUCHED) {
            return false;
        }
        // Lanes of the same warp may be ordered differently.
        let shifted = |access: u64| {
            let access = Access(access);
            access.0 != 0
                && access.thread() != now.thread()
                && access.thread() / 32 == now.thread() / 32
        };
        let mut next = *cell;
        if cell.iter().any(|access| shifted(*access)) || !note(&mut next) {
            return false;
        }
        *cell = next;
        *way = own.0;
        true
    }

    /// Merges a line after a write of the whole line was recorded word by word without races.
    pub(crate) fn join(&mut self, line: usize, per_lane: usize, now: Access) {
        let is_full = (line + 1) * LINE <= self.words.len();
        if let (true, Some(way), Some(cell)) =
            (is_full, self.ways.get_mut(line), self.lines.get_mut(line))
        {
            *way = Way::lanes(per_lane).0;
            *cell = [now.0, 0, 0];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::Clocks;

    const WORDS: usize = 3 * LINE + 20;

    /// Accesses by threads, with a number of words each.
    #[derive(Clone, Copy)]
    struct Step {
        warp: u32,
        lane: u32,
        word: usize,
        words: usize,
        writes: bool,
    }

    struct Kept {
        clocks: Clocks,
        history: History,
        /// The reference, with one set per word.
        reference: Vec<Cell>,
    }

    fn note(clocks: &Clocks, cell: &mut Cell, now: Access, writes: bool) -> bool {
        let race = match writes {
            true => clocks.write(cell, now, true, false),
            false => clocks.read(cell, now, true),
        };
        race.is_some()
    }

    impl Kept {
        fn now(&self, step: Step) -> Access {
            let clock = self.clocks.now(step.warp as usize);
            Access::new(clock, 7, step.warp * 32 + step.lane, false, 15)
        }

        fn reference(&mut self, step: Step) -> bool {
            let now = self.now(step);
            let cells = &mut self.reference[step.word..step.word + step.words];
            let races = cells
                .iter_mut()
                .map(|cell| note(&self.clocks, cell, now, step.writes));
            races.fold(false, |any, race| any | race)
        }

        fn lane(&mut self, step: Step) -> bool {
            let now = self.now(step);
            if step.words == QUAD
                && let Some(cell) = self.history.quad(step.word)
            {
                return note(&self.clocks, cell, now, step.writes);
            }
            let cells = self.history.words(step.word, step.word + step.words);
            let cells = cells.expect("words").iter_mut();
            let races = cells.map(|cell| note(&self.clocks, cell, now, step.writes));
            races.fold(false, |any, race| any | race)
        }

        /// Records an access by all lanes of a warp, from the start of a line; returns whether
        /// there is a race.
        fn warp(&mut self, first: Step) -> bool {
            let mut races = false;
            for part in 0..first.words {
                let lanes = LINE / first.words;
                let line = first.word / LINE + part;
                let step = |lane: usize| Step {
                    lane: (part * lanes + lane) as u32,
                    word: line * LINE + lane * first.words,
                    ..first
                };
                let (now, clocks) = (self.now(step(0)), &self.clocks);
                let whole = self.history.whole_line(line, first.words, now, |cell| {
                    !note(clocks, cell, now, first.writes)
                });
                if !whole {
                    let any = (0..lanes).fold(false, |any, lane| any | self.lane(step(lane)));
                    if first.writes && !any {
                        self.history.join(line, first.words, now);
                    }
                    races |= any;
                }
            }
            races
        }
    }

    #[test]
    fn lines_and_quads_are_what_their_words_are() {
        let mut state = 1u64;
        let mut below = |n: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % n
        };
        for _ in 0..300 {
            let mut clocks = Clocks::new(5);
            clocks.next_block();
            let mut kept = Kept {
                clocks,
                history: History::default(),
                reference: vec![[0; 3]; WORDS],
            };
            kept.history.track(WORDS);
            for _ in 0..60 {
                let (warp, words) = (below(3) as u32, [1, 2, 4][below(3)]);
                let writes = below(2) == 0;
                match below(8) {
                    0 => kept.clocks.barrier(7, 7),
                    1 => kept.clocks.collective(warp as usize, u32::MAX, true),
                    2 => kept.clocks.collective(warp as usize, 0xff, false),
                    3..=5 => {
                        let lines = WORDS / LINE + 1 - words;
                        let step = Step {
                            warp,
                            lane: 0,
                            word: below(lines.max(1)) * LINE,
                            words,
                            writes,
                        };
                        if step.word + LINE * words > WORDS {
                            continue;
                        }
                        let expected = (0..LINE).fold(false, |any, lane| {
                            let own = Step {
                                lane: lane as u32,
                                word: step.word + lane * words,
                                ..step
                            };
                            any | kept.reference(own)
                        });
                        assert_eq!(kept.warp(step), expected);
                    }
                    _ => {
                        let step = Step {
                            warp,
                            lane: below(32) as u32,
                            word: below(WORDS / words) * words,
                            words,
                            writes,
                        };
                        let expected = kept.reference(step);
                        assert_eq!(kept.lane(step), expected);
                    }
                }
            }
            for word in 0..WORDS {
                let cell = kept.history.words(word, word + 1).expect("a word")[0];
                assert_eq!(cell, kept.reference[word], "word {word}");
            }
        }
    }
}
