//! A memory region with shadow memory: its bytes, which of them were written, and the last accesses
//! to each word.

use crate::history::History;

/// Bytes with shadow memory. The shadow is in zeroed vectors, of which the system commits only the
/// parts that are accessed.
#[derive(Debug, Default)]
pub(crate) struct Region {
    pub(crate) data: Vec<u8>,
    /// For each word of four bytes, a mask of four bits.
    pub(crate) written: Vec<u8>,
    pub(crate) history: History,
}

impl Region {
    /// A region of zeros; `None` if the host does not have enough memory.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let mut probe = Vec::<u8>::new();
        probe.try_reserve_exact(bytes).ok()?;
        drop(probe);
        Some(Self {
            data: vec![0; bytes],
            written: vec![0; bytes.div_ceil(4)],
            history: History::default(),
        })
    }

    pub(crate) fn mark_written(&mut self, at: usize, bytes: usize) {
        let end = at + bytes;
        let (first, last) = (at.next_multiple_of(4), end / 4 * 4);
        if first <= last {
            self.written[first / 4..last / 4].fill(15);
            (at..first)
                .chain(last..end)
                .for_each(|i| self.set_written(i, true));
        } else {
            (at..end).for_each(|i| self.set_written(i, true));
        }
    }

    /// Writes aligned words; returns whether they had this value already.
    #[inline(always)]
    pub(crate) fn put<const BYTES: usize>(&mut self, at: usize, value: &[u8; BYTES]) -> bool {
        let target = self.data.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
        let words = self.written.get_mut(at / 4..at / 4 + BYTES / 4);
        let (Some(target), Some(words)) = (target, words) else {
            return false;
        };
        let same = target == value;
        *target = *value;
        words.iter_mut().for_each(|word| *word = 15);
        same
    }

    pub(crate) fn set_written(&mut self, at: usize, written: bool) {
        let bit = 1 << (at % 4);
        if written {
            self.written[at / 4] |= bit;
        } else {
            self.written[at / 4] &= !bit;
        }
    }

    pub(crate) fn is_written(&self, at: usize) -> bool {
        self.written[at / 4] >> (at % 4) & 1 != 0
    }

    /// Whether all of `bytes` bytes (1, 2, 4, 8 or a multiple of 4, aligned) were written.
    #[inline(always)]
    pub(crate) fn all_written(&self, at: usize, bytes: usize) -> bool {
        if bytes < 4 {
            let mask = ((1 << bytes) - 1) << (at % 4);
            return self.written[at / 4] & mask == mask;
        }
        let words = &self.written[at / 4..(at + bytes) / 4];
        match words.first_chunk() {
            Some(four) if bytes == 16 => *four == [15; 4],
            _ => words.iter().all(|w| *w == 15),
        }
    }
}
