//! A warp: its registers, and the groups of lanes that execute together.
//!
//! Lanes that have diverged are in different *fragments*. A branch that splits a fragment makes one
//! new fragment for each path. The original fragment waits at the branch's immediate
//! post-dominator, where the new ones end. Fragments run independently, so one may wait for another
//! at a collective.

use crate::operation::{LANES, P, R32, R64, Slot, Test};

/// The value for "no parent".
const ROOT: usize = usize::MAX;

/// The state of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Waits for this number of fragments to reach its program counter.
    Joining(u32),
    /// Waits at a block barrier.
    Barrier(u32),
    /// Waits for the other members of a collective.
    Collective(u32),
    Ended,
}

/// A fragment: lanes that execute together.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) mask: u32,
    pub(crate) pc: u32,
    /// The instruction where the fragment ends.
    meet: u32,
    parent: usize,
    pub(crate) state: State,
}

/// The copies that one instruction issued and that some lanes have not waited for.
#[derive(Clone, Debug)]
pub(crate) struct PendingCopy {
    pub(crate) instruction: u32,
    /// The number of bytes per lane.
    pub(crate) bytes: u32,
    pub(crate) lanes: u32,
    pub(crate) groups: [u32; LANES],
    pub(crate) to: [u64; LANES],
    pub(crate) data: [[u8; 16]; LANES],
}

/// A warp of 32 lanes.
#[derive(Debug)]
pub(crate) struct Warp {
    pub(crate) index: u32,
    pub(crate) words: Vec<[u32; LANES]>,
    pub(crate) doubles: Vec<[u64; LANES]>,
    pub(crate) predicates: Vec<u32>,
    /// The carry flag of each lane.
    pub(crate) carry: u32,
    /// The lanes that exist.
    pub(crate) existing: u32,
    /// The lanes that have not exited.
    pub(crate) live: u32,
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) current: usize,
    /// The local memory of all lanes, one after the other.
    pub(crate) local: Vec<u8>,
    pub(crate) pending: Vec<PendingCopy>,
    /// For each lane, the group of its next asynchronous copy.
    pub(crate) groups: [u32; LANES],
}

impl Warp {
    /// Starts all existing lanes at the first instruction.
    pub(crate) fn start(&mut self, existing: u32) {
        self.existing = existing;
        self.live = existing;
        self.carry = 0;
        self.fragments.clear();
        self.fragments.push(Fragment {
            mask: existing,
            pc: 0,
            meet: crate::decode::NOWHERE,
            parent: ROOT,
            state: State::Ready,
        });
        self.current = 0;
        self.pending.clear();
        self.groups = [0; LANES];
    }

    #[inline(always)]
    pub(crate) fn word(&self, r: R32) -> &[u32; LANES] {
        &self.words[r.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn double(&self, r: R64) -> &[u64; LANES] {
        &self.doubles[r.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn predicate(&self, p: P) -> u32 {
        self.predicates[p.0 as usize]
    }

    #[inline(always)]
    pub(crate) fn test(&self, test: Test) -> u32 {
        self.predicate(test.p) ^ if test.negated { u32::MAX } else { 0 }
    }

    /// The values of a slot in either bank, as 64 bits.
    #[inline(always)]
    pub(crate) fn wide(&self, slot: Slot) -> [u64; LANES] {
        match slot {
            Slot::W(r) => self.word(r).map(u64::from),
            Slot::D(r) => *self.double(r),
        }
    }

    #[inline(always)]
    pub(crate) fn set_word(&mut self, r: R32, mask: u32, values: &[u32; LANES]) {
        let target = &mut self.words[r.0 as usize];
        if mask == u32::MAX {
            *target = *values;
        } else {
            for lane in 0..LANES {
                let keep = ((mask >> lane) & 1).wrapping_sub(1);
                target[lane] = target[lane] & keep | values[lane] & !keep;
            }
        }
    }

    #[inline(always)]
    pub(crate) fn set_double(&mut self, r: R64, mask: u32, values: &[u64; LANES]) {
        let target = &mut self.doubles[r.0 as usize];
        if mask == u32::MAX {
            *target = *values;
        } else {
            for lane in 0..LANES {
                let keep = u64::from((mask >> lane) & 1).wrapping_sub(1);
                target[lane] = target[lane] & keep | values[lane] & !keep;
            }
        }
    }

    /// Writes values that fit the slot's bank.
    #[inline(always)]
    pub(crate) fn set(&mut self, slot: Slot, mask: u32, values: &[u64; LANES]) {
        match slot {
            Slot::W(r) => self.set_word(r, mask, &values.map(|v| v as u32)),
            Slot::D(r) => self.set_double(r, mask, values),
        }
    }

    #[inline(always)]
    pub(crate) fn set_predicate(&mut self, p: P, mask: u32, value: u32) {
        let target = &mut self.predicates[p.0 as usize];
        *target = *target & !mask | value & mask;
    }

    /// Selects the next fragment that can run: the newest, or with `rotate` the next in turn.
    /// Returns whether there is one.
    pub(crate) fn pick(&mut self, rotate: bool) -> bool {
        let count = self.fragments.len();
        let ready = |index: &usize| self.fragments[*index].state == State::Ready;
        let found = if rotate {
            (1..=count)
                .map(|step| (self.current + step) % count)
                .find(ready)
        } else {
            (0..count).rev().find(ready)
        };
        found.map(|index| self.current = index).is_some()
    }

    /// The instruction where the current fragment ends.
    pub(crate) fn meet(&self) -> u32 {
        self.fragments[self.current].meet
    }

    fn spawn(&mut self, fragment: Fragment) {
        match self.fragments.iter().position(|f| f.state == State::Ended) {
            Some(index) => self.fragments[index] = fragment,
            None => self.fragments.push(fragment),
        }
    }

    /// Splits the current fragment into at least two `ways`.
    pub(crate) fn split(&mut self, ways: &[(u32, u32)], meet: u32) {
        let current = self.current;
        let (outer, outer_parent) = (self.fragments[current].meet, self.fragments[current].parent);
        let away = ways.iter().filter(|(_, pc)| *pc != meet).count() as u32;
        let waiting = ways
            .iter()
            .filter(|(_, pc)| *pc == meet)
            .fold(0, |m, way| m | way.0);
        if meet == outer && away > 0 {
            // The new fragments end where this one does.
            if let Some(parent) = self.fragments.get_mut(outer_parent) {
                parent.mask |= waiting;
                if let State::Joining(count) = &mut parent.state {
                    *count += away - 1;
                }
            }
            let mut ways = ways.iter().filter(|(_, pc)| *pc != meet);
            if let Some(&(mask, pc)) = ways.next() {
                (self.fragments[current].mask, self.fragments[current].pc) = (mask, pc);
            }
            for &(mask, pc) in ways {
                self.spawn(Fragment {
                    mask,
                    pc,
                    meet,
                    parent: outer_parent,
                    state: State::Ready,
                });
            }
            return;
        }
        let fragment = &mut self.fragments[current];
        fragment.pc = meet;
        if away == 0 {
            return;
        }
        fragment.mask = waiting;
        fragment.state = State::Joining(away);
        for &(mask, pc) in ways.iter().filter(|(_, pc)| *pc != meet) {
            self.spawn(Fragment {
                mask,
                pc,
                meet,
                parent: current,
                state: State::Ready,
            });
        }
    }

    /// Releases lanes that wait for others to reconverge, as a device may do. Returns whether there
    /// were any.
    pub(crate) fn part(&mut self) -> bool {
        let waits = |f: &Fragment| matches!(f.state, State::Joining(_)) && f.mask != 0;
        let Some(index) = self.fragments.iter().position(waits) else {
            return false;
        };
        let alone = Fragment {
            state: State::Ready,
            ..self.fragments[index].clone()
        };
        self.fragments[index].mask = 0;
        if let Some(Fragment {
            state: State::Joining(count),
            ..
        }) = self.fragments.get_mut(alone.parent)
        {
            *count += 1;
        }
        self.spawn(alone);
        true
    }

    /// Ends the current fragment, which has reached its end.
    pub(crate) fn arrive(&mut self) {
        let fragment = &mut self.fragments[self.current];
        fragment.state = State::Ended;
        let (mask, parent) = (fragment.mask, fragment.parent);
        self.join(parent, mask);
    }

    fn join(&mut self, mut parent: usize, mask: u32) {
        let mut mask = mask;
        while let Some(waiting) = self.fragments.get_mut(parent) {
            waiting.mask |= mask;
            let State::Joining(count) = &mut waiting.state else {
                return;
            };
            *count -= 1;
            if *count > 0 {
                return;
            }
            if waiting.mask != 0 {
                waiting.state = State::Ready;
                return;
            }
            // All of its lanes have exited.
            waiting.state = State::Ended;
            mask = 0;
            parent = waiting.parent;
        }
    }

    /// Lanes of the current fragment exit the kernel. Returns whether the fragment is then empty.
    pub(crate) fn exit(&mut self, lanes: u32) -> bool {
        self.live &= !lanes;
        let fragment = &mut self.fragments[self.current];
        fragment.mask &= !lanes;
        if fragment.mask != 0 {
            return false;
        }
        fragment.state = State::Ended;
        let parent = fragment.parent;
        self.join(parent, 0);
        true
    }
}
